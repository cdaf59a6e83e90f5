/* Capabilities as capabilities(7) has them: the five sets, secure bits, what a change of users and an exec
 * make of them, and what each of them is asked for. Started as user 0; passes on Linux and must pass here.
 *
 * Interface: capabilities [GROUP…]; TAP on standard output. `capabilities as STATUS` tells by its exit status
 * whether /proc/self/status has that line.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

int setgroups(size_t count, const gid_t *groups);

enum { USER = 1000 };

#define DIRECTORY "/tmp/capabilities"
#define SUID DIRECTORY "/suid"
#define COPY DIRECTORY "/copy"

struct sets {
    uint64_t effective, permitted, inheritable;
};

static uint64_t all; /* what there is to be had here */

static uint64_t bit(int capability) { return 1ULL << capability; }

static struct sets get(pid_t pid)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, pid};
    struct __user_cap_data_struct data[2] = {{0}};
    struct sets sets = {-1, -1, -1};
    if (syscall(SYS_capget, &header, data) == 0) {
        sets.effective = data[0].effective | (uint64_t)data[1].effective << 32;
        sets.permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
        sets.inheritable = data[0].inheritable | (uint64_t)data[1].inheritable << 32;
    }
    return sets;
}

static int set(uint64_t effective, uint64_t permitted, uint64_t inheritable)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {
        {effective, permitted, inheritable},
        {effective >> 32, permitted >> 32, inheritable >> 32},
    };
    return syscall(SYS_capset, &header, data);
}

static uint64_t line(const char *name)
{
    char text[256];
    uint64_t value = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(text, sizeof text, status))
        if (strncmp(text, name, strlen(name)) == 0)
            value = strtoull(text + strlen(name) + 1, NULL, 16);
    if (status)
        fclose(status);
    return value;
}

static int ambient(int what, int capability) { return prctl(PR_CAP_AMBIENT, what, capability, 0, 0); }

/* Runs `body` in a child; its checks count here. */
static void alone(void (*body)(void))
{
    int told[2], counts[2];
    fflush(stdout);
    if (pipe(told)) {
        check(0, "a pipe");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        body();
        counts[0] = tap_count;
        counts[1] = tap_failed;
        fflush(stdout);
        _exit(write(told[1], counts, sizeof counts) != sizeof counts);
    }
    close(told[1]);
    if (read(told[0], counts, sizeof counts) == sizeof counts) {
        tap_count = counts[0];
        tap_failed = counts[1];
    } else {
        check(0, "a part ran to its end");
    }
    close(told[0]);
    waitpid(child, NULL, 0);
}

/* The rights of the program `path`, executed by a child that `prepare` has changed before. */
static struct after {
    struct sets sets;
    uint64_t ambient, bounding;
    int secure, uid, euid, securebits;
} after_exec(const char *path, void (*prepare)(void))
{
    struct after after;
    int told[2];
    memset(&after, 0xff, sizeof after);
    fflush(stdout);
    if (pipe(told))
        return after;
    pid_t child = fork();
    if (child == 0) {
        prepare();
        dup2(told[1], 3);
        execl(path, path, "as", "after", (char *)NULL);
        _exit(1);
    }
    close(told[1]);
    if (read(told[0], &after, sizeof after) != sizeof after)
        check(0, "the program has told");
    close(told[0]);
    waitpid(child, NULL, 0);
    return after;
}

static int tell(void)
{
    struct after after = {
        .sets = get(0),
        .ambient = line("CapAmb:"),
        .bounding = line("CapBnd:"),
        .secure = getauxval(AT_SECURE),
        .uid = getuid(),
        .euid = geteuid(),
        .securebits = prctl(PR_GET_SECUREBITS),
    };
    return write(3, &after, sizeof after) != sizeof after;
}

/* -- the calls ------------------------------------------------------------------------------------------- */

static void versions(void)
{
    struct __user_cap_header_struct header = {0, 0};
    struct __user_cap_data_struct data[2];
    equal(syscall(SYS_capget, &header, NULL), 0, "which version there is");
    equal(header.version, _LINUX_CAPABILITY_VERSION_3, "the third");
    header.version = 7;
    fails(syscall(SYS_capget, &header, data), EINVAL, "an unknown version");
    header.version = 7;
    fails(syscall(SYS_capset, &header, data), EINVAL, "to set");
    header = (struct __user_cap_header_struct){_LINUX_CAPABILITY_VERSION_1, 0};
    data[1].effective = 77;
    equal(syscall(SYS_capget, &header, data), 0, "the first");
    check(data[0].effective == (uint32_t)all && data[1].effective == 77, "has one half");
    header = (struct __user_cap_header_struct){_LINUX_CAPABILITY_VERSION_2, getppid()};
    equal(syscall(SYS_capget, &header, data), 0, "the second, of another process");
    check(data[1].permitted == all >> 32, "has two");
    header.pid = -1;
    fails(syscall(SYS_capget, &header, data), EINVAL, "of no process");
    header.pid = 0x3fffffff;
    fails(syscall(SYS_capget, &header, data), ESRCH, "of one that is not");
    header.pid = getppid();
    fails(syscall(SYS_capset, &header, data), EPERM, "nobody sets another's");
    fails(syscall(SYS_capget, (void *)8, data), EFAULT, "a header nowhere");
    header.pid = 0;
    fails(syscall(SYS_capget, &header, (void *)8), EFAULT, "data nowhere");
    header.pid = getpid();
    equal(syscall(SYS_capget, &header, data), 0, "one's own");
    equal(syscall(SYS_capset, &header, data), 0, "and set");
}

static void sets(void)
{
    struct sets now = get(0);
    check(now.effective == all && now.permitted == all && now.inheritable == 0, "root has all");
    equal(line("CapEff:"), all, "and /proc says so");
    equal(line("CapPrm:"), all, "permitted");
    equal(line("CapInh:"), 0, "inheritable");
    equal(set(bit(CAP_KILL), bit(CAP_KILL) | bit(CAP_CHOWN), 0), 0, "fewer");
    equal(line("CapEff:"), bit(CAP_KILL), "are");
    fails(set(all, all, 0), EPERM, "never more");
    fails(set(bit(CAP_KILL) | bit(CAP_SETUID), bit(CAP_KILL) | bit(CAP_CHOWN), 0), EPERM,
          "effective ones are permitted");
    fails(set(0, bit(CAP_KILL) | bit(CAP_CHOWN), bit(CAP_SETUID)), EPERM, "inheritable ones, too");
    equal(set(0, bit(CAP_KILL) | bit(CAP_CHOWN), bit(CAP_CHOWN)), 0, "or were");
    equal(set(bit(CAP_CHOWN), bit(CAP_CHOWN), bit(CAP_CHOWN)), 0, "made effective again");
    fails(prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0), EPERM, "no bounding without the right");
    fails(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT), EPERM, "nor secure bits");
}

static void bounding(void)
{
    equal(line("CapBnd:"), all, "bounding");
    equal(prctl(PR_CAPBSET_READ, CAP_KILL), 1, "read");
    fails(prctl(PR_CAPBSET_READ, 64), EINVAL, "no such capability");
    equal(prctl(PR_CAPBSET_DROP, CAP_KILL), 0, "dropped");
    equal(prctl(PR_CAPBSET_READ, CAP_KILL), 0, "is gone");
    fails(prctl(PR_CAPBSET_DROP, 64), EINVAL, "not what is not");
    equal(line("CapBnd:"), all & ~bit(CAP_KILL), "in /proc, too");
    equal(get(0).permitted, all, "what one has stays");
    equal(set(all, all, bit(CAP_CHOWN)), 0, "inheritable");
    fails(set(all, all, bit(CAP_KILL)), EPERM, "not what is out of bounds");
}

static void ambients(void)
{
    fails(ambient(PR_CAP_AMBIENT_RAISE, CAP_KILL), EPERM, "ambient is only what is inheritable");
    equal(set(all, all, bit(CAP_KILL) | bit(CAP_CHOWN)), 0, "inheritable");
    equal(ambient(PR_CAP_AMBIENT_RAISE, CAP_KILL), 0, "raised");
    equal(ambient(PR_CAP_AMBIENT_RAISE, CAP_CHOWN), 0, "another");
    equal(ambient(PR_CAP_AMBIENT_IS_SET, CAP_KILL), 1, "is set");
    equal(line("CapAmb:"), bit(CAP_KILL) | bit(CAP_CHOWN), "in /proc");
    equal(ambient(PR_CAP_AMBIENT_LOWER, CAP_KILL), 0, "lowered");
    equal(ambient(PR_CAP_AMBIENT_IS_SET, CAP_KILL), 0, "is not");
    fails(ambient(PR_CAP_AMBIENT_IS_SET, 64), EINVAL, "no such capability");
    fails(ambient(9, CAP_KILL), EINVAL, "no such wish");
    fails(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 1, 0, 0), EINVAL, "all is all");
    equal(set(all, all, 0), 0, "no more inheritable");
    equal(line("CapAmb:"), 0, "nor ambient");
    set(all, all, bit(CAP_KILL));
    ambient(PR_CAP_AMBIENT_RAISE, CAP_KILL);
    equal(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), 0, "cleared");
    equal(line("CapAmb:"), 0, "all");
    prctl(PR_SET_SECUREBITS, SECBIT_NO_CAP_AMBIENT_RAISE);
    fails(ambient(PR_CAP_AMBIENT_RAISE, CAP_KILL), EPERM, "not where that is forbidden");
}

static void securebits(void)
{
    equal(prctl(PR_GET_SECUREBITS), 0, "no secure bits");
    fails(prctl(PR_SET_SECUREBITS, 1 << 13), EPERM, "no such bits");
    fails(prctl(PR_SET_KEEPCAPS, 2), EINVAL, "keep is yes or no");
    equal(prctl(PR_SET_KEEPCAPS, 1), 0, "keep");
    equal(prctl(PR_GET_KEEPCAPS), 1, "is kept");
    equal(prctl(PR_GET_SECUREBITS), SECBIT_KEEP_CAPS, "is a secure bit");
    equal(prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS | SECBIT_KEEP_CAPS_LOCKED), 0, "locked");
    fails(prctl(PR_SET_KEEPCAPS, 0), EPERM, "stays");
    fails(prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS_LOCKED), EPERM, "for good");
}

/* -- users ----------------------------------------------------------------------------------------------- */

static void leaving(void)
{
    equal(setresuid(USER, USER, USER), 0, "another user");
    struct sets now = get(0);
    check(now.effective == 0 && now.permitted == 0, "has none");
    equal(line("CapBnd:"), all, "but bounds");
    fails(setresuid(0, 0, 0), EPERM, "and no way back");
}

static void keeping(void)
{
    prctl(PR_SET_KEEPCAPS, 1);
    equal(setresuid(USER, USER, USER), 0, "another user who keeps");
    struct sets now = get(0);
    check(now.effective == 0 && now.permitted == all, "has what is permitted");
    equal(set(bit(CAP_SETUID), all, 0), 0, "and makes it effective");
    equal(setresuid(0, 0, 0), 0, "a way back");
    equal(get(0).effective, all, "to all");
}

static void effective_user(void)
{
    equal(seteuid(USER), 0, "the effective user");
    struct sets now = get(0);
    check(now.effective == 0 && now.permitted == all, "takes what is effective");
    equal(seteuid(0), 0, "and back");
    equal(get(0).effective, all, "again");
    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP);
    equal(setresuid(USER, USER, USER), 0, "where users do not matter");
    equal(get(0).effective, all, "all stays");
}

static void file_user(void)
{
    uint64_t files = bit(CAP_CHOWN) | bit(CAP_DAC_OVERRIDE) | bit(CAP_DAC_READ_SEARCH) | bit(CAP_FOWNER) |
                     bit(CAP_FSETID) | bit(CAP_LINUX_IMMUTABLE) | bit(CAP_MKNOD) | bit(CAP_MAC_OVERRIDE);
    equal(setfsuid(USER), 0, "the user for files");
    equal(get(0).effective, all & ~files, "takes what is for files");
    equal(setfsuid(0), USER, "and back");
    equal(get(0).effective, all, "again");
}

/* -- exec ------------------------------------------------------------------------------------------------ */

static void nothing(void) {}
static void user(void)
{
    if (setgroups(0, NULL) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
        _exit(9);
}
static void bounded(void) { prctl(PR_CAPBSET_DROP, CAP_KILL); }
static void noroot(void) { prctl(PR_SET_SECUREBITS, SECBIT_NOROOT); }
static void effective_only(void) { seteuid(USER); }
static void real_only(void) { setresuid(USER, 0, 0); }
static void saved(void) { setresuid(USER, USER, 0); }
static void with_ambient(void)
{
    set(all, all, bit(CAP_KILL) | bit(CAP_NET_RAW));
    prctl(PR_SET_KEEPCAPS, 1);
    if (setresuid(USER, USER, USER))
        _exit(9);
    set(all, all, bit(CAP_KILL) | bit(CAP_NET_RAW));
    ambient(PR_CAP_AMBIENT_RAISE, CAP_KILL);
}
static void with_inheritable(void)
{
    set(all, all, bit(CAP_CHOWN));
    user();
}
static void forbidden(void)
{
    user();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}
static void bounded_user(void)
{
    bounded();
    user();
}

static void programs(void)
{
    struct after a = after_exec(COPY, nothing);
    check(a.sets.effective == all && a.sets.permitted == all && !a.secure, "root's program has all");
    a = after_exec(COPY, user);
    check(a.sets.effective == 0 && a.sets.permitted == 0 && !a.secure && a.bounding == all, "a user's none");
    a = after_exec(SUID, user);
    check(a.sets.effective == all && a.sets.permitted == all && a.secure && a.uid == USER && a.euid == 0,
          "a set-uid one all");
    a = after_exec(SUID, forbidden);
    check(a.sets.permitted == 0 && !a.secure && a.euid == USER, "none with no_new_privs");
    a = after_exec(COPY, bounded);
    check(a.sets.effective == (all & ~bit(CAP_KILL)) && a.sets.permitted == a.sets.effective,
          "none out of bounds");
    a = after_exec(SUID, bounded_user);
    check(a.sets.effective == (all & ~bit(CAP_KILL)) && a.bounding == a.sets.effective,
          "nor in a set-uid one");
    a = after_exec(COPY, noroot);
    check(a.sets.permitted == 0 && a.securebits == SECBIT_NOROOT, "root is nobody where that is so");
    a = after_exec(COPY, effective_only);
    check(a.sets.permitted == all && a.sets.effective == 0 && a.secure, "the real user alone permits");
    a = after_exec(COPY, real_only);
    check(a.sets.permitted == all && a.sets.effective == all && a.secure,
          "the effective user makes effective");
    a = after_exec(COPY, saved);
    check(a.sets.permitted == 0 && !a.secure, "the saved user is nothing");
    a = after_exec(COPY, with_ambient);
    check(a.sets.permitted == bit(CAP_KILL) && a.sets.effective == bit(CAP_KILL) &&
              a.ambient == bit(CAP_KILL) && !a.secure,
          "what is ambient stays");
    check(a.securebits == 0, "to keep does not");
    a = after_exec(SUID, with_ambient);
    check(a.ambient == 0 && a.sets.permitted == all, "nor in a set-uid program what is ambient");
    a = after_exec(COPY, with_inheritable);
    check(a.sets.inheritable == bit(CAP_CHOWN) && a.sets.permitted == 0,
          "what is inheritable is, and gives nothing by itself");
}

/* -- what each is asked for ------------------------------------------------------------------------------ */

#define FOREIGN DIRECTORY "/foreign"

static void only(uint64_t capabilities)
{
    prctl(PR_SET_KEEPCAPS, 1);
    if (setgroups(0, NULL) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER) ||
        set(capabilities, capabilities, 0))
        check(0, "a user with few capabilities");
}

static void without(void)
{
    only(0);
    struct stat s;
    fails(chown(FOREIGN, USER, USER), EPERM, "chown without CAP_CHOWN");
    fails(open(FOREIGN, O_RDONLY), EACCES, "reading without CAP_DAC_OVERRIDE");
    fails(chmod(FOREIGN, 0), EPERM, "chmod without CAP_FOWNER");
    fails(unlink(DIRECTORY "/sticky/name"), EPERM, "a sticky directory without CAP_FOWNER");
    fails(kill(getppid(), 0), EPERM, "kill without CAP_KILL");
    fails(setuid(0), EPERM, "setuid without CAP_SETUID");
    fails(setgid(0), EPERM, "setgid without CAP_SETGID");
    fails(setgroups(0, NULL), EPERM, "setgroups without CAP_SETGID");
    fails(chroot("/"), EPERM, "chroot without CAP_SYS_CHROOT");
    fails(mknod(DIRECTORY "/open/null", S_IFCHR | 0666, makedev(1, 3)), EPERM, "mknod without CAP_MKNOD");
    /* Later kernels ask whose the file is, instead. */
    int linked =
        linkat(open("/proc/self/exe", O_RDONLY), "", AT_FDCWD, DIRECTORY "/open/linked", AT_EMPTY_PATH);
    check(linked < 0 && (errno == ENOENT || errno == EPERM),
          "a link to a descriptor's file without CAP_DAC_READ_SEARCH");
    fails(sethostname("x", 1), EPERM, "sethostname without CAP_SYS_ADMIN");
    fails(mount("none", DIRECTORY, "tmpfs", 0, NULL), EPERM, "mount without CAP_SYS_ADMIN");
    fails(umount2(DIRECTORY, 0), EPERM, "umount without CAP_SYS_ADMIN");
    fails(syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL), EPERM, "reboot without CAP_SYS_BOOT");
    fails(setpriority(PRIO_PROCESS, 0, -1), EACCES, "less nice without CAP_SYS_NICE");
    fails(ptrace(PTRACE_SEIZE, getppid(), 0, 0), EPERM, "ptrace without CAP_SYS_PTRACE");
    fails(syscall(SYS_vhangup), EPERM, "vhangup without CAP_SYS_TTY_CONFIG");
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_max--;
    limit.rlim_cur = 1;
    setrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_max++;
    fails(setrlimit(RLIMIT_NOFILE, &limit), EPERM, "raising limits without CAP_SYS_RESOURCE");
    struct timeval now;
    gettimeofday(&now, NULL);
    fails(settimeofday(&now, NULL), EPERM, "setting the time without CAP_SYS_TIME");
    equal(stat(FOREIGN, &s), 0, "it is still there");
}

static void with_chown(void)
{
    only(bit(CAP_CHOWN));
    equal(chown(FOREIGN, 7, 7), 0, "CAP_CHOWN");
    equal(chown(FOREIGN, 0, 0), 0, "and back");
    fails(chmod(FOREIGN, 0600), EPERM, "is not CAP_FOWNER");
}
static void with_override(void)
{
    only(bit(CAP_DAC_OVERRIDE));
    int fd = open(FOREIGN, O_RDWR);
    check(fd >= 0, "CAP_DAC_OVERRIDE reads and writes");
    fails(access(FOREIGN, R_OK), EACCES, "access asks for the real user, who has nothing");
    equal(faccessat(AT_FDCWD, FOREIGN, R_OK | W_OK, AT_EACCESS), 0, "unless told not to");
    fails(faccessat(AT_FDCWD, FOREIGN, X_OK, AT_EACCESS), EACCES, "executes only what somebody may");
    fails(chmod(FOREIGN, 0600), EPERM, "is not CAP_FOWNER");
}
static void with_search(void)
{
    only(bit(CAP_DAC_READ_SEARCH));
    check(open(FOREIGN, O_RDONLY) >= 0, "CAP_DAC_READ_SEARCH reads");
    fails(open(FOREIGN, O_WRONLY), EACCES, "and does not write");
    check(open(DIRECTORY "/closed/inside", O_RDONLY) >= 0, "and searches");
}
/* The path was opened by root before, and is again by who may not. */
static void after_root(void)
{
    for (int i = 0; i < 4; i++) {
        int fd = open(FOREIGN, O_RDONLY);
        check(fd >= 0, "root opens");
        close(fd);
    }
    set(all & ~(bit(CAP_DAC_OVERRIDE) | bit(CAP_DAC_READ_SEARCH)), all, 0);
    setfsuid(0);
    check(open(DIRECTORY "/other", O_RDONLY) < 0 && errno == EACCES,
          "root without CAP_DAC_OVERRIDE is an ordinary user");
    set(all, all, 0);
    for (int i = 0; i < 4; i++)
        close(open(DIRECTORY "/other", O_RDONLY));
    set(all & ~(bit(CAP_DAC_OVERRIDE) | bit(CAP_DAC_READ_SEARCH)), all, 0);
    check(open(DIRECTORY "/other", O_RDONLY) < 0 && errno == EACCES, "however often root has opened it");
}
static void with_fowner(void)
{
    only(bit(CAP_FOWNER));
    equal(chmod(FOREIGN, 0600), 0, "CAP_FOWNER changes modes");
    equal(unlink(DIRECTORY "/sticky/name"), 0, "and removes from sticky directories");
    fails(chown(FOREIGN, USER, USER), EPERM, "and is not CAP_CHOWN");
}
static void with_fsetid(void)
{
    only(bit(CAP_FSETID));
    int fd = open(DIRECTORY "/open/bits", O_RDWR);
    check(write(fd, "x", 1) == 1, "a write with CAP_FSETID");
    struct stat s;
    fstat(fd, &s);
    equal(s.st_mode & 07777, 06777, "leaves the bits");
}
static void with_kill(void)
{
    only(bit(CAP_KILL));
    equal(kill(getppid(), 0), 0, "CAP_KILL");
}
static void with_setuid(void)
{
    only(bit(CAP_SETUID));
    fails(setgid(5), EPERM, "CAP_SETUID is not CAP_SETGID");
    equal(setresuid(5, 6, 7), 0, "CAP_SETUID");
    check(getuid() == 5 && geteuid() == 6, "any user");
}
static void with_setgid(void)
{
    only(bit(CAP_SETGID));
    gid_t group = 77;
    equal(setgroups(1, &group), 0, "CAP_SETGID sets groups");
    equal(setresgid(5, 6, 7), 0, "and the group");
    fails(setuid(0), EPERM, "and is not CAP_SETUID");
}
static void with_chroot(void)
{
    only(bit(CAP_SYS_CHROOT));
    equal(chroot("/"), 0, "CAP_SYS_CHROOT");
}
static void with_mknod(void)
{
    only(bit(CAP_MKNOD));
    int made = mknod(DIRECTORY "/open/null", S_IFCHR | 0666, makedev(1, 3));
    check(made == 0, "CAP_MKNOD");
    unlink(DIRECTORY "/open/null");
}
static void with_nice(void)
{
    only(bit(CAP_SYS_NICE));
    equal(setpriority(PRIO_PROCESS, 0, -1), 0, "CAP_SYS_NICE");
    equal(setpriority(PRIO_PROCESS, getppid(), 0), 0, "for all");
}
static void with_resource(void)
{
    only(bit(CAP_SYS_RESOURCE));
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    struct rlimit lower = {0, 1000};
    setrlimit(RLIMIT_CORE, &lower);
    lower.rlim_max = 2000;
    equal(setrlimit(RLIMIT_CORE, &lower), 0, "CAP_SYS_RESOURCE");
    equal(prlimit(getppid(), RLIMIT_CORE, NULL, &limit), 0, "for all");
}
static void with_ptrace(void)
{
    pid_t child = getppid();
    only(bit(CAP_SYS_PTRACE));
    equal(ptrace(PTRACE_SEIZE, child, 0, 0), 0, "CAP_SYS_PTRACE");
}

static void make(const char *name, int mode)
{
    close(open(name, O_CREAT | O_WRONLY, 0600));
    chown(name, 0, 0);
    chmod(name, mode);
}

static void asked(void)
{
    mkdir(DIRECTORY "/open", 0777);
    chmod(DIRECTORY "/open", 0777);
    mkdir(DIRECTORY "/sticky", 0777);
    chmod(DIRECTORY "/sticky", 01777);
    mkdir(DIRECTORY "/closed", 0700);
    make(DIRECTORY "/closed/inside", 0600);
    make(DIRECTORY "/sticky/name", 0666);
    make(DIRECTORY "/open/bits", 06777);
    make(FOREIGN, 0600);
    make(DIRECTORY "/other", 0600);
    chown(DIRECTORY "/other", 3, 3);
    static const struct {
        int capability;
        void (*body)(void);
    } cases[] = {
        {CAP_CHOWN, with_chown},
        {CAP_DAC_OVERRIDE, with_override},
        {CAP_DAC_READ_SEARCH, with_search},
        {CAP_FSETID, with_fsetid},
        {CAP_KILL, with_kill},
        {CAP_SETUID, with_setuid},
        {CAP_SETGID, with_setgid},
        {CAP_SYS_CHROOT, with_chroot},
        {CAP_MKNOD, with_mknod},
        {CAP_SYS_NICE, with_nice},
        {CAP_SYS_RESOURCE, with_resource},
        {CAP_SYS_PTRACE, with_ptrace},
        {CAP_FOWNER, with_fowner},
    };
    alone(without);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (all & bit(cases[i].capability))
            alone(cases[i].body);
        else
            printf("# this machine does not give capability %d\n", cases[i].capability);
    alone(after_root);
}

static void install(const char *path, int mode)
{
    char buffer[65536];
    ssize_t count;
    int from = open("/proc/self/exe", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    while ((count = read(from, buffer, sizeof buffer)) > 0)
        if (write(to, buffer, count) != count)
            check(0, path);
    fchmod(to, mode);
    close(from);
    close(to);
}

static void calls_group(void)
{
    alone(versions);
    alone(sets);
    alone(bounding);
    alone(ambients);
    alone(securebits);
}

static void users_group(void)
{
    alone(leaving);
    alone(keeping);
    alone(effective_user);
    alone(file_user);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"calls", calls_group}, {"users", users_group}, {"exec", programs}, {"asked", asked}};
    if (argc == 3 && strcmp(argv[1], "as") == 0)
        return tell();
    all = get(0).permitted;
    umask(022);
    mkdir(DIRECTORY, 0755);
    install(SUID, 04755);
    install(COPY, 0755);
    run_groups(GROUPS(groups), NULL, argc, argv);
    return done();
}

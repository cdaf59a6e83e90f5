/* Checks capabilities of files (security.capability) in memory (/dev/shm): who gets them by exec, when not,
 * and that writing takes them away; passes on Linux and must pass here. For root.
 *
 * Interface: filecaps [GROUP...] runs all groups or those named; TAP on standard output. `filecaps --show`
 * prints what it may: its permitted and effective capabilities and AT_SECURE.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Not by <grp.h>, which has another struct group than tap.h. */
int setgroups(size_t, const gid_t *);

#define NAME "security.capability"
static const char *const program = "/dev/shm/filecaps", *const other = "/dev/shm/filecaps.2";
/* Two that nothing here depends on. */
enum { NICE = 1 << 23, TIME = 1 << 25 };

struct caps {
    uint32_t magic, permitted, inheritable, permitted_high, inheritable_high, root;
};

/* The answer of an executed program about itself. */
struct shown {
    unsigned permitted, effective, ambient;
    int secure, uid, error;
};

static int grant(const char *path, uint32_t permitted, uint32_t inheritable, int effective)
{
    struct caps caps = {0x02000000u | (uint32_t)effective, permitted, inheritable, 0, 0, 0};
    return setxattr(path, NAME, &caps, 20, 0);
}

static int has(void) { return getxattr(program, NAME, 0, 0) > 0; }

static void show(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    struct shown shown = {0, 0, 0, (int)getauxval(AT_SECURE), (int)geteuid(), 0};
    if (syscall(SYS_capget, &header, data) == 0) {
        shown.permitted = data[0].permitted;
        shown.effective = data[0].effective;
    }
    shown.ambient = prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 23, 0, 0) == 1;
    if (write(1, &shown, sizeof shown) != sizeof shown)
        _exit(1);
    _exit(0);
}

/* Has user `uid` execute `path`, after `before`. */
static struct shown run(const char *path, int uid, void (*before)(void))
{
    int ends[2];
    struct shown shown = {0, 0, 0, 0, 0, 0};
    if (pipe(ends))
        exit(9);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        if (setgroups(0, 0) || (uid && (setgid(uid) || setuid(uid))))
            _exit(9);
        if (before)
            before();
        execl(path, path, "--show", (char *)0);
        shown.error = errno;
        if (write(1, &shown, sizeof shown) != sizeof shown)
            _exit(1);
        _exit(0);
    }
    close(ends[1]);
    if (read(ends[0], &shown, sizeof shown) != sizeof shown)
        shown.error = -1;
    close(ends[0]);
    waitpid(child, 0, 0);
    return shown;
}

static int copy(const char *to)
{
    char buffer[65536];
    unlink(to);
    int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    ssize_t count;
    while ((count = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, count) != count)
            return -1;
    close(in);
    return close(out);
}

static void inherit_nice(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0, 0, NICE}};
    if (syscall(SYS_capset, &header, data))
        _exit(9);
}

static void no_new(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }

/* Permitted and inheritable before the user is left, so that it may be ambient. */
static void ambient(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{NICE, NICE, NICE}};
    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    if (setgid(1000) || setuid(1000) || syscall(SYS_capset, &header, data) ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 23, 0, 0))
        _exit(9);
}

static void unbounded(void)
{
    if (prctl(PR_CAPBSET_DROP, 23, 0, 0, 0) || setgid(1000) || setuid(1000))
        _exit(9);
}

static void given(void)
{
    check(copy(program) == 0, "a program");
    struct shown shown = run(program, 1000, 0);
    check(shown.error == 0 && shown.permitted == 0 && !shown.secure, "gives a user nothing");
    equal(grant(program, NICE | TIME, 0, 1), 0, "with two capabilities");
    shown = run(program, 1000, 0);
    check(shown.permitted == (NICE | TIME) && shown.effective == (NICE | TIME), "it gives them, in effect");
    check(shown.secure && shown.uid == 1000, "to the same user, and is secure");
    grant(program, NICE | TIME, 0, 0);
    shown = run(program, 1000, 0);
    check(shown.permitted == (NICE | TIME) && shown.effective == 0 && shown.secure,
          "without the bit they are not in effect");
    grant(program, 0, NICE | TIME, 1);
    shown = run(program, 1000, 0);
    check(shown.error == 0 && shown.permitted == 0, "what is to be inherited is not given");
    check(shown.secure, "but what is effective makes it secure");
    shown = run(program, 0, inherit_nice);
    check(shown.error == 0 && (shown.permitted & NICE) && shown.effective == shown.permitted && !shown.secure,
          "root goes by root's rules");
    grant(program, TIME, 0, 1);
    shown = run(program, 1000, no_new);
    check(shown.error == 0 && shown.permitted == 0 && shown.effective == 0, "nothing after no_new_privs");
    shown = run(program, 0, ambient);
    check(shown.permitted == TIME && shown.effective == TIME && !shown.ambient,
          "what was ambient is lost to a program with its own");
    removexattr(program, NAME);
    shown = run(program, 0, ambient);
    check(shown.permitted == NICE && shown.effective == NICE && shown.ambient, "and kept by one without");
    grant(program, NICE, 0, 1);
    equal(run(program, 0, unbounded).error, EPERM, "what it must have and cannot get: it does not run");
    grant(program, NICE | TIME, 0, 0);
    shown = run(program, 0, unbounded);
    check(shown.error == 0 && shown.permitted == TIME, "what it may have and cannot get it does without");
    grant(program, NICE, 0, 1);
    chmod(program, 04755);
    shown = run(program, 1000, 0);
    check(shown.uid == 0 && shown.permitted == NICE && shown.effective == NICE && shown.secure,
          "a set-user-ID program of root's has its own alone");
    unlink(program);
}

static void forms(void)
{
    struct caps caps = {0x03000001u, NICE, 0, 0, 0, 0};
    char got[64];
    copy(program);
    equal(setxattr(program, NAME, &caps, 24, 0), 0, "the third form");
    equal(getxattr(program, NAME, got, sizeof got), 20, "is shown as the second");
    equal(got[3], 2, "with its number");
    equal(run(program, 1000, 0).permitted, NICE, "and counts");
    caps.root = 1000;
    equal(setxattr(program, NAME, &caps, 24, 0), 0, "one for another user namespace");
    equal(getxattr(program, NAME, got, sizeof got), 24, "is shown as it is");
    struct shown shown = run(program, 1000, 0);
    check(shown.error == 0 && shown.permitted == 0 && !shown.secure, "and counts for nothing");
    fails(setxattr(program, NAME, &caps, 20, 0), EINVAL, "cut off");
    caps.magic = 0x01000001u;
    fails(setxattr(program, NAME, &caps, 12, 0), EINVAL, "the first form");
    fails(setxattr(program, NAME, "x", 1, 0), EINVAL, "a byte");
    pid_t child = fork();
    if (child == 0) {
        tap_failed = 0;
        chown(program, 1000, 1000);
        grant(program, NICE, 0, 1);
        if (setgroups(0, 0) || setgid(1000) || setuid(1000))
            _exit(9);
        fails(grant(program, NICE, 0, 1), EPERM, "an owner without the right sets none");
        fails(removexattr(program, NAME), EPERM, "and takes none away");
        equal(getxattr(program, NAME, got, sizeof got), 20, "but may look");
        _exit(tap_failed);
    }
    int status = -1;
    waitpid(child, &status, 0);
    tap_count += 3;
    equal(status, 0, "all as they should be");
    unlink(program);
}

/* Each way to write takes them away, also from root's hands, also when the file was written by this
 * descriptor before. */
static void taken(void)
{
    char byte = 'x';
    copy(program);
    int file = open(program, O_RDWR);
    struct iovec one = {&byte, 1};
    for (int i = 0; i < 100; i++)
        if (pwrite(file, &byte, 1, 4000) != 1 || lseek(file, 4000, SEEK_SET) != 4000 ||
            write(file, &byte, 1) != 1)
            check(0, "writing");
#define TAKES(act, name)                         \
    do {                                         \
        grant(program, NICE, 0, 1);              \
        int had = has();                         \
        int done = (int)(act);                   \
        check(had && done >= 0 && !has(), name); \
    } while (0)
    TAKES(write(file, &byte, 1), "write");
    TAKES(write(file, &byte, 1), "write, again");
    TAKES(pwrite(file, &byte, 1, 4000), "pwrite");
    TAKES(writev(file, &one, 1), "writev");
    TAKES(ftruncate(file, 300000), "ftruncate");
    TAKES(truncate(program, 300000), "truncate");
    TAKES(fallocate(file, 0, 0, 8192), "fallocate");
    TAKES(close(open(program, O_WRONLY | O_TRUNC)), "opening as an empty file");
    TAKES(chown(program, 0, 0), "chown");
    TAKES(chown(program, -1, -1), "chown of nothing");
    grant(program, NICE, 0, 1);
    check(chmod(program, 0700) == 0 && has(), "chmod leaves them");
    check(lseek(file, 0, SEEK_SET) == 0 && read(file, &byte, 1) >= 0 && has(), "so does reading");
    check(rename(program, other) == 0 && rename(other, program) == 0 && has(), "and a rename");
    close(file);
    unlink(program);
}

static void setid(void)
{
    copy(program);
    int file = open(program, O_RDWR);
    chmod(program, 06755);
    struct stat now;
    check(write(file, "x", 1) == 1 && fstat(file, &now) == 0 && (now.st_mode & 06000) == 06000,
          "root's write leaves the set-id bits");
    check(ftruncate(file, 5) == 0 && fstat(file, &now) == 0 && (now.st_mode & 06000) == 06000,
          "so does its truncation");
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, 0) || setgid(1000) || setuid(1000))
            _exit(9);
        _exit(write(file, "y", 1) != 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    check(status == 0 && fstat(file, &now) == 0 && (now.st_mode & 06000) == 0,
          "a user's by the same descriptor takes them");
    close(file);
    unlink(program);
}

static void traced(void)
{
    copy(program);
    grant(program, NICE, 0, 1);
    int ends[2];
    check(pipe(ends) == 0, "a pipe");
    pid_t tracer = fork();
    if (tracer == 0) {
        if (setgroups(0, 0) || setgid(1000) || setuid(1000))
            _exit(9);
        pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], 1);
            ptrace(PTRACE_TRACEME, 0, 0, 0);
            execl(program, program, "--show", (char *)0);
            _exit(9);
        }
        int status;
        while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
            ptrace(PTRACE_CONT, child, 0, 0);
        _exit(status != 0);
    }
    struct shown shown = {9, 9, 9, 9, 9, 9};
    close(ends[1]);
    equal(read(ends[0], &shown, sizeof shown), sizeof shown, "a user traces one that executes it");
    check(shown.permitted == 0 && shown.effective == 0, "that gets nothing");
    waitpid(tracer, 0, 0);
    unlink(program);
}

/* Where set-id bits count for nothing, neither do these. */
static void mounted(void)
{
    const char *const place = "/dev/shm/filecaps.d", *const inside = "/dev/shm/filecaps.d/a";
    mkdir(place, 0755);
    if (!check(mount("none", place, "tmpfs", MS_NOSUID, "mode=755") == 0, "a file system with nosuid"))
        return;
    copy(inside);
    equal(grant(inside, NICE, 0, 1), 0, "a file there gets some");
    struct shown shown = run(inside, 1000, 0);
    check(shown.error == 0 && shown.permitted == 0 && !shown.secure, "and gives none");
    mount("none", place, 0, MS_REMOUNT | MS_NOEXEC, 0);
    equal(run(inside, 1000, 0).error, EACCES, "nor does it run with noexec");
    umount(place);
    rmdir(place);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"given", given}, {"forms", forms},   {"taken", taken},
        {"setid", setid}, {"traced", traced}, {"mounted", mounted},
    };
    if (argc == 2 && strcmp(argv[1], "--show") == 0)
        show();
    umask(022);
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

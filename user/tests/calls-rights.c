/* Checks what an ordinary user may do to files and processes of others, and what not; passes on Linux and
 * must pass here.
 *
 * Interface: calls-rights [GROUP...], started as root, runs all groups or those named; TAP on standard
 * output. The effective user's rights count, so the program takes the part of users 1000 and 2000 by changing
 * that.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ONE = 1000, TWO = 2000, FACCESSAT2 = 439 };

/* <grp.h> has another `struct group`. */
int setgroups(size_t count, const gid_t *groups);

static void become(uid_t user)
{
    if (seteuid(0) || setgroups(0, 0) || setegid(user) || seteuid(user))
        check(0, "change of the effective user");
}

/* With one group more. */
static void become_in(uid_t user, gid_t group)
{
    if (seteuid(0) || setgroups(1, &group) || setegid(user) || seteuid(user))
        check(0, "change of the effective user");
}

/* Made by whoever calls, with these owners and this mode. */
static void make(const char *name, const char *text, uid_t owner, gid_t group, mode_t mode)
{
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    long length = strlen(text);
    if (fd < 0 || write(fd, text, length) != length || fchown(fd, owner, group) || fchmod(fd, mode))
        check(0, name);
    close(fd);
}

static void make_directory(const char *name, uid_t owner, gid_t group, mode_t mode)
{
    if (mkdir(name, 0700) || chown(name, owner, group) || chmod(name, mode))
        check(0, name);
}

/* The outcome of opening: 0 or the error. */
static int opens(const char *name, int flags)
{
    int fd = open(name, flags, 0600);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static long size_of(const char *name)
{
    struct stat st;
    return stat(name, &st) ? -1 : (long)st.st_size;
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    return stat(name, &st) ? 0 : st.st_mode & 07777;
}

/* --- a directory in which one may not write --- */

static void closed(void)
{
    make_directory("closed", 0, 0, 0755);
    make("closed/f", "text", 0, 0, 0666);
    make_directory("closed/sub", ONE, ONE, 0777);
    make_directory("own", ONE, ONE, 0755);
    become(ONE);
    make("own/mine", "mine", ONE, ONE, 0644);
    fails(unlink("closed/f"), EACCES, "unlink where one may not write");
    fails(rmdir("closed/sub"), EACCES, "rmdir, though the directory is one's own");
    fails(mkdir("closed/new", 0777), EACCES, "mkdir");
    fails(mknod("closed/new", S_IFIFO | 0666, 0), EACCES, "mknod");
    fails(symlink("x", "closed/new"), EACCES, "symlink");
    fails(link("own/mine", "closed/new"), EACCES, "link");
    fails(open("closed/new", O_CREAT | O_WRONLY, 0666), EACCES, "open with O_CREAT");
    fails(open("closed", O_TMPFILE | O_RDWR, 0600), EACCES, "open with O_TMPFILE");
    equal(opens("closed/f", O_CREAT | O_RDWR), 0, "O_CREAT of what is there already");
    fails(rename("closed/f", "closed/g"), EACCES, "rename within");
    fails(rename("closed/f", "own/g"), EACCES, "rename out");
    fails(rename("own/mine", "closed/g"), EACCES, "rename into");
    fails(rename("own/mine", "closed/f"), EACCES, "rename onto");
    fails(unlink("closed/none"), ENOENT, "unlink of what is missing");
    fails(mkdir("closed/f", 0777), EEXIST, "mkdir of what is there");
    become(0);
    equal(size_of("closed/f"), 4, "all is as it was");
    check(access("closed/new", F_OK) && access("closed/g", F_OK) && !access("closed/sub", F_OK),
          "nothing new, nothing gone");
    become(ONE);
    equal(rename("own/mine", "own/moved"), 0, "in a directory of one's own: rename");
    equal(mkdir("own/d", 0700) || rmdir("own/d"), 0, "mkdir and rmdir");
    equal(unlink("own/moved"), 0, "unlink");
    become(0);
    make("own/roots", "", 0, 0, 0600);
    become(ONE);
    equal(unlink("own/roots"), 0, "and of root's file, for the directory's right is what counts");
    become(0);
    chmod("closed", 0757);
    become(ONE);
    equal(mkdir("closed/new", 0777) || rmdir("closed/new"), 0, "where others may write, mkdir and rmdir");
    become(0);
    chmod("closed", 0756);
    become(ONE);
    fails(mkdir("closed/new", 0777), EACCES, "not without searching, too");
    become(0);
    chmod("closed", 0755);
    unlink("closed/f"), rmdir("closed/sub"), rmdir("closed"), rmdir("own");
}

static long exchange(const char *one, const char *other)
{
    return syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, 2 /* RENAME_EXCHANGE */);
}

/* A directory that goes to another one has another `..`: that is a write to it. */
static void moved(void)
{
    make_directory("from", 0, 0, 0777);
    make_directory("to", 0, 0, 0777);
    make_directory("from/d", 0, 0, 0755);
    make_directory("from/mine", ONE, ONE, 0755);
    make("from/f", "text", 0, 0, 0644);
    become(ONE);
    equal(rename("from/d", "from/e"), 0, "another's directory gets another name");
    fails(rename("from/e", "to/d"), EACCES, "and no other place, though both of these may be written");
    equal(rename("from/f", "to/f"), 0, "as another's file does");
    fails(exchange("to/f", "from/e"), EACCES,
          "nor does it go in exchange for a file");
    fails(exchange("from/e", "to/f"), EACCES,
          "whichever is named first");
    equal(rename("from/mine", "to/mine"), 0, "and one's own directory");
    chmod("to/mine", 0555);
    fails(rename("to/mine", "from/mine"), EACCES, "but for one that its owner may not write");
    chmod("to/mine", 0755);
    become(0);
    chmod("from/e", 0757);
    become(ONE);
    equal(rename("from/e", "to/d"), 0, "another's directory that others may write goes, too");
    become(0);
    chmod("to/d", 0755);
    equal(rename("to/d", "from/d"), 0, "root moves any");
    rmdir("from/d"), rmdir("to/mine"), unlink("to/f"), rmdir("from"), rmdir("to");
}

/* --- directories that may not be searched, or not be read --- */

static void searched(void)
{
    struct stat st;
    char text[16];
    make_directory("hidden", 0, 0, 0700);
    make_directory("hidden/d", 0, 0, 0777);
    make("hidden/f", "secret", 0, 0, 0777);
    make("hidden/d/f", "secret", 0, 0, 0777);
    symlink("f", "hidden/link");
    make("plain", "", 0, 0, 0777);
    symlink("hidden/f", "into");
    int inside = open("hidden", O_RDONLY | O_DIRECTORY);
    become(ONE);
    fails(stat("hidden/f", &st), EACCES, "stat in a directory that may not be searched");
    fails(lstat("hidden/link", &st), EACCES, "lstat");
    fails(syscall(FACCESSAT2, AT_FDCWD, "hidden/f", F_OK, AT_EACCESS), EACCES, "faccessat2");
    equal(opens("hidden/f", O_RDONLY), EACCES, "open");
    equal(opens("hidden/d/f", O_RDONLY), EACCES, "open further down");
    equal(opens("into", O_RDONLY), EACCES, "open through a link");
    equal(opens("hidden/../plain", O_RDONLY), EACCES, "open through it and out again");
    equal(opens("hidden/none", O_RDONLY), EACCES, "one does not learn what is missing");
    fails(openat(inside, "f", O_RDONLY), EACCES, "openat with its descriptor");
    fails(readlink("hidden/link", text, sizeof text), EACCES, "readlink");
    fails(chdir("hidden"), EACCES, "chdir");
    fails(fchdir(inside), EACCES, "fchdir");
    fails(chdir("hidden/d"), EACCES, "chdir further down");
    fails(unlink("hidden/d/f"), EACCES, "unlink");
    fails(mkdir("hidden/d/n", 0777), EACCES, "mkdir");
    fails(truncate("hidden/f", 0), EACCES, "truncate");
    fails(chmod("hidden/f", 0777), EACCES, "chmod");
    fails(execl("hidden/f", "f", (char *)0), EACCES, "exec");
    fails(rename("hidden/d/f", "hidden/d/g"), EACCES, "rename");
    check(!opendir("hidden") && errno == EACCES, "opendir of a directory that may not be read");
    become(0);
    close(inside);
    chmod("hidden", 0711);
    become(ONE);
    equal(stat("hidden/f", &st), 0, "one that may be searched and not read: stat");
    equal(opens("hidden/d/f", O_RDWR), 0, "open");
    check(!opendir("hidden") && errno == EACCES, "but not opendir");
    become(0);
    chmod("hidden", 0744);
    become(ONE);
    DIR *dir = opendir("hidden");
    int seen = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        seen++;
    equal(seen, 5, "one that may be read and not searched: readdir");
    if (dir)
        closedir(dir);
    fails(stat("hidden/f", &st), EACCES, "but not stat");
    become(0);
    chmod("hidden", 0750);
    chown("hidden", TWO, ONE);
    become(ONE);
    equal(opens("hidden/f", O_RDONLY), 0, "the group's bits");
    become(TWO);
    equal(opens("hidden/f", O_RDONLY), 0, "the owner's bits");
    become(TWO + 1);
    equal(opens("hidden/f", O_RDONLY), EACCES, "the others'");
    become_in(TWO + 1, ONE);
    equal(opens("hidden/f", O_RDONLY), 0, "of one who is in the group besides");
    become(0);
    unlink("hidden/d/f"), unlink("hidden/link"), unlink("hidden/f"), rmdir("hidden/d"), rmdir("hidden"),
        unlink("into");
    unlink("plain");
}

/* --- other people's files --- */

static void owned(void)
{
    struct timespec times[2] = {{1, 0}, {1, 0}};
    make("f", "text", 0, 0, 0644);
    become(ONE);
    fails(chmod("f", 0666), EPERM, "chmod of another's file");
    fails(chown("f", ONE, ONE), EPERM, "chown of it");
    fails(chown("f", -1, ONE), EPERM, "its group alone");
    fails(lchown("f", ONE, -1), EPERM, "lchown");
    fails(utimensat(AT_FDCWD, "f", times, 0), EPERM, "its times");
    fails(utimensat(AT_FDCWD, "f", 0, 0), EACCES, "its times to now");
    fails(truncate("f", 0), EACCES, "truncate");
    equal(opens("f", O_WRONLY), EACCES, "open for writing");
    equal(opens("f", O_RDWR), EACCES, "open for both");
    equal(opens("f", O_RDONLY | O_TRUNC), EACCES, "open with O_TRUNC");
    equal(opens("f", O_RDONLY | O_NOATIME), EPERM, "open with O_NOATIME");
    equal(opens("f", O_RDONLY), 0, "open for reading");
    fails(execl("f", "f", (char *)0), EACCES, "exec without the right");
    int fd = open("f", O_RDONLY);
    fails(fchmod(fd, 0666), EPERM, "fchmod");
    fails(fchown(fd, ONE, ONE), EPERM, "fchown");
    fails(futimens(fd, times), EPERM, "futimens");
    fails(ftruncate(fd, 0), EINVAL, "ftruncate of one opened for reading");
    close(fd);
    equal(size_of("f") == 4 && mode_of("f") == 0644, 1, "it is as it was");
    become(0);
    chmod("f", 0666);
    become(ONE);
    equal(utimensat(AT_FDCWD, "f", 0, 0), 0, "who may write may set the times to now");
    fails(utimensat(AT_FDCWD, "f", times, 0), EPERM, "not to what he likes");
    equal(truncate("f", 2), 0, "and truncate");
    fails(chmod("f", 0777), EPERM, "not chmod");
    become(0);

    make("mine", "text", ONE, ONE, 0600);
    become(ONE);
    equal(chmod("mine", 0644), 0, "chmod of one's own file");
    fails(chown("mine", TWO, -1), EPERM, "one cannot give it away");
    fails(chown("mine", -1, TWO), EPERM, "nor to a group that one is not in");
    equal(chown("mine", ONE, ONE), 0, "chown to what it is");
    equal(utimensat(AT_FDCWD, "mine", times, 0), 0, "its times");
    equal(chmod("mine", 06755), 0, "set-uid and set-gid of one's own");
    equal(mode_of("mine"), 06755, "are set");
    become_in(ONE, TWO);
    equal(chown("mine", -1, TWO), 0, "to another group that one is in");
    equal(mode_of("mine"), 0755, "which takes set-uid and set-gid away");
    become(ONE);
    equal(chmod("mine", 02755), 0, "set-gid of a group that one is not in");
    equal(mode_of("mine"), 0755, "is left out");
    become(0);
    unlink("f"), unlink("mine");
}

/* A user who writes to another's set-uid file takes that right away; root does not. */
static void written(void)
{
    for (int way = 0; way < 4; way++) {
        char text[40];
        make("w", "text", 0, 0, 06777);
        become(ONE);
        int fd = open("w", O_RDWR);
        if (way == 0)
            write(fd, "x", 1);
        else if (way == 1)
            pwrite(fd, "x", 1, 2);
        else if (way == 2)
            ftruncate(fd, 1);
        else
            for (int i = 0; i < 5; i++)
                write(fd, "x", 1);
        sprintf(text, "written by another, way %d: set-uid goes", way);
        equal(mode_of("w"), 0777, text);
        close(fd);
        become(0);
    }
    unlink("w");
}

static void classes(void)
{
    make("c", "", ONE, TWO, 0077);
    become(ONE);
    equal(opens("c", O_RDONLY), EACCES, "the owner has the owner's bits, even if others have more");
    become(TWO);
    equal(opens("c", O_RDWR), 0, "the group's bits");
    become(0);
    chmod("c", 0707);
    become(TWO);
    equal(opens("c", O_RDONLY), EACCES, "the group has the group's bits, even if others have more");
    become_in(TWO + 1, TWO);
    equal(opens("c", O_RDONLY), EACCES, "who is in it besides, too");
    become(TWO + 1);
    equal(opens("c", O_RDWR), 0, "others have the others'");
    become(0);
    chmod("c", 0440);
    become(ONE);
    equal(opens("c", O_RDONLY) == 0 && opens("c", O_RDWR) == EACCES && opens("c", O_WRONLY) == EACCES, 1,
          "reading alone");
    become(0);
    chmod("c", 0220);
    become(ONE);
    equal(opens("c", O_WRONLY) == 0 && opens("c", O_RDWR) == EACCES && opens("c", O_RDONLY) == EACCES, 1,
          "writing alone");
    become(0);
    equal(opens("c", O_RDWR), 0, "root may all");
    fails(execl("c", "c", (char *)0), EACCES, "but execute what nobody may");
    unlink("c");
}

static void sticky(void)
{
    make_directory("s", 0, 0, 01777);
    make("s/two", "two", TWO, TWO, 0666);
    make_directory("s/dir", TWO, TWO, 0777);
    become(ONE);
    make("s/mine", "one", ONE, ONE, 0644);
    fails(unlink("s/two"), EPERM, "unlink of another's file in a sticky directory");
    fails(rmdir("s/dir"), EPERM, "rmdir");
    fails(rename("s/two", "s/new"), EPERM, "rename");
    fails(rename("s/mine", "s/two"), EPERM, "rename onto it");
    equal(rename("s/mine", "s/other"), 0, "rename of one's own");
    equal(unlink("s/other"), 0, "unlink of one's own");
    become(0);
    chown("s", ONE, ONE);
    become(ONE);
    equal(unlink("s/two"), 0, "the directory's owner may");
    become(0);
    equal(rmdir("s/dir") || rmdir("s"), 0, "root may");
}

/* --- access() asks for the real user --- */

static void real(void)
{
    make("r", "", 0, 0, 0600);
    make("x", "", 0, 0, 0611);
    if (setresuid(ONE, 0, 0))
        return (void)check(0, "setresuid");
    equal(opens("r", O_RDWR), 0, "with effective user 0 one may open");
    fails(access("r", R_OK), EACCES, "access answers for the real user");
    fails(faccessat(AT_FDCWD, "r", W_OK, 0), EACCES, "faccessat, too");
    equal(syscall(FACCESSAT2, AT_FDCWD, "r", R_OK, AT_EACCESS), 0,
          "faccessat2 with AT_EACCESS for the effective one");
    equal(access("r", F_OK), 0, "that it is there he may know");
    equal(access("x", X_OK), 0, "what others may execute");
    if (setresuid(0, ONE, 0))
        return (void)check(0, "setresuid");
    equal(opens("r", O_RDONLY), EACCES, "with real user 0 and another effective one may not open");
    equal(access("r", R_OK | W_OK), 0, "but access says one may");
    fails(syscall(FACCESSAT2, AT_FDCWD, "r", R_OK, AT_EACCESS), EACCES, "and not with AT_EACCESS");
    if (setresuid(0, 0, 0))
        return (void)check(0, "setresuid");
    fails(access("r", X_OK), EACCES, "not even root may execute what nobody may");
    equal(access("x", X_OK), 0, "but what somebody may");
    fails(access("r", 8), EINVAL, "access with an unknown bit");
    unlink("r"), unlink("x");
}

/* --- names that were opened often: what was found out once must not be used for others, nor later --- */

static int often(const char *name, int flags)
{
    int error = 0;
    for (int i = 0; i < 5; i++)
        error |= opens(name, flags);
    return error;
}

static void often_opened(void)
{
    char name[200], directory[150];
    getcwd(directory, sizeof directory);
    snprintf(name, sizeof name, "%s/o", directory);
    make("o", "text", 0, 0, 0600);
    equal(often(name, O_RDWR), 0, "root opens a file of his again and again");
    become(ONE);
    equal(opens(name, O_RDWR), EACCES, "another may not for that");
    equal(opens(name, O_RDONLY), EACCES, "nor for reading");
    become(0);
    chmod("o", 0644);
    become(ONE);
    equal(often(name, O_RDONLY), 0, "once he may, he does, again and again");
    equal(opens(name, O_RDWR), EACCES, "not for writing");
    equal(opens(name, O_WRONLY | O_TRUNC), EACCES, "nor to make it empty");
    become(0);
    equal(often(name, O_RDWR), 0, "root again");
    chmod("o", 0600);
    become(ONE);
    equal(opens(name, O_RDONLY), EACCES, "the right is taken away, and at once he may not");
    become(0);
    chown("o", ONE, ONE);
    become(ONE);
    equal(often(name, O_RDWR), 0, "the owner");
    become(TWO);
    equal(opens(name, O_RDWR), EACCES, "not another, as he has just done");
    equal(opens(name, O_RDONLY), EACCES, "nor for reading");
    become_in(TWO, ONE);
    equal(opens(name, O_RDONLY), EACCES, "nor the group, which has no right");
    become(0);
    chmod("o", 0640);
    become_in(TWO, ONE);
    equal(often(name, O_RDONLY), 0, "until it has");
    become(TWO);
    equal(opens(name, O_RDONLY), EACCES, "and who has left it may no more");
    become(0);
    chown("o", 0, 0);
    become(ONE);
    equal(opens(name, O_RDONLY), EACCES, "the owner of before neither");
    become(0);
    chmod("o", 0666);
    become(ONE);
    equal(often(name, O_RDWR), 0, "all may");
    become(0);
    chmod(".", 0700);
    become(ONE);
    equal(opens(name, O_RDWR), EACCES, "the directory is closed, and at once they may not");
    become(0);
    chmod(".", 0755);
    /* The file that waits to be opened again must be the one that has the name now. */
    equal(often("o", O_RDWR), 0, "by a short name");
    unlink("o");
    equal(opens("o", O_RDONLY), ENOENT, "it is removed, and at once there is none");
    make("o", "other text", 0, 0, 0600);
    int fd = open("o", O_RDONLY);
    char text[20];
    equal(read(fd, text, sizeof text), 10, "another has the name, and that is opened");
    close(fd);
    make("p", "p", 0, 0, 0600);
    often("o", O_RDONLY), often("p", O_RDONLY);
    rename("p", "o");
    fd = open("o", O_RDONLY);
    equal(read(fd, text, sizeof text), 1, "one is renamed onto it, and that is opened");
    equal(lseek(fd, 0, SEEK_CUR), 1, "from its beginning");
    close(fd);
    unlink("o");
}

/* --- what only root may --- */

static void privileges(void)
{
    struct timeval when = {0, 0};
    struct rlimit limit, more;
    gid_t group = ONE;
    fflush(stdout);
    pid_t roots = fork();
    if (roots == 0) {
        pause();
        _exit(0);
    }
    int own_status = 0;
    pid_t own = fork();
    if (own == 0) {
        if (setresuid(ONE, ONE, ONE))
            _exit(1);
        raise(SIGSTOP);
        pause();
        _exit(0);
    }
    waitpid(own, &own_status, WUNTRACED);
    getrlimit(RLIMIT_NOFILE, &limit);
    if (setresgid(ONE, ONE, 0) || setresuid(ONE, ONE, 0))
        check(0, "setresuid");
    fails(kill(roots, SIGTERM), EPERM, "kill of root's process");
    fails(kill(roots, 0), EPERM, "with signal 0");
    fails(syscall(SYS_tgkill, roots, roots, SIGTERM), EPERM, "tgkill");
    equal(kill(roots, SIGCONT), 0, "SIGCONT within a session");
    equal(kill(own, SIGKILL), 0, "kill of one's own");
    fails(chroot("/"), EPERM, "chroot");
    fails(mount("none", "/tmp", "tmpfs", 0, 0), EPERM, "mount");
    fails(umount("/proc"), EPERM, "umount");
    fails(mknod("null", S_IFCHR | 0666, 0x103), EACCES, "mknod where one may not write");
    fails(settimeofday(&when, 0), EPERM, "settimeofday");
    fails(sethostname("x", 1), EPERM, "sethostname");
    fails(syscall(SYS_reboot, 0xfee1dead, 672274793, 0, 0), EPERM, "reboot");
    fails(setgroups(1, &group), EPERM, "setgroups");
    fails(setpriority(PRIO_PROCESS, roots, 5), EPERM, "setpriority of another's");
    more = limit;
    more.rlim_max = limit.rlim_max + 1;
    fails(setrlimit(RLIMIT_NOFILE, &more), EPERM, "a higher limit");
    fails(setresuid(TWO, -1, -1), EPERM, "setresuid to what one is not");
    fails(setuid(TWO), EPERM, "setuid");
    fails(setreuid(-1, TWO), EPERM, "setreuid");
    fails(setgid(TWO), EPERM, "setgid");
    fails(setresgid(-1, -1, TWO), EPERM, "setresgid");
    int before = syscall(SYS_setfsuid, -1);
    syscall(SYS_setfsuid, TWO);
    equal(syscall(SYS_setfsuid, -1), before, "setfsuid to what one is not does nothing");
    make_directory("/tmp/mine-to-fill", ONE, ONE, 0700);
    fails(mknod("/tmp/mine-to-fill/null", S_IFCHR | 0666, 0x103), EPERM,
          "mknod of a device in one's own directory");
    equal(mknod("/tmp/mine-to-fill/fifo", S_IFIFO | 0666, 0), 0, "of a FIFO one may");
    unlink("/tmp/mine-to-fill/fifo"), rmdir("/tmp/mine-to-fill");
    equal(setresuid(-1, 0, -1), 0, "the saved user one may become again");
    equal(setresuid(0, 0, 0) || setresgid(0, 0, 0), 0, "and all of root");
    int status = 0;
    waitpid(own, &status, 0);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "one's own was killed");
    equal(waitpid(roots, &status, WNOHANG), 0, "root's process lives");
    kill(roots, SIGKILL);
    waitpid(roots, &status, 0);
}

static const struct group groups[] = {
    {"closed", closed},      {"moved", moved},           {"searched", searched}, {"owned", owned},
    {"written", written},    {"classes", classes},       {"sticky", sticky},     {"real", real},
    {"often", often_opened}, {"privileges", privileges},
};

int main(int argc, char **argv)
{
    char directory[] = "/tmp/rights-XXXXXX";
    umask(022);
    if (getuid() || !mkdtemp(directory) || chmod(directory, 0755) || chdir(directory)) {
        perror("to be started as root, with a place in /tmp");
        return 2;
    }
    run_groups(GROUPS(groups), 0, argc, argv);
    chdir("/");
    check(rmdir(directory) == 0, "nothing is left behind");
    return done();
}

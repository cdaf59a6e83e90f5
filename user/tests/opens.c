/* Checks how files are opened, found and changed where calls have rules of their own: openat2's ways, running
 * programs that are written (ETXTBSY), files without a name, descriptors of places, times, what statx and
 * statfs say; passes on Linux and must pass here. For root.
 *
 * Interface: opens [GROUP...] runs all groups or those named; TAP on standard output. `opens --run` waits to
 * be killed.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FCHMODAT2 452
#define LARGEFILE 0100000
#define BASE "/dev/shm/opens"

static void start(void)
{
    umount(BASE "/mount");
    if (system("rm -rf " BASE))
        exit(9);
    umask(022);
    int made = mkdir(BASE, 0755) == 0 && mkdir(BASE "/in", 0755) == 0 && mkdir(BASE "/in/deep", 0755) == 0 &&
               mkdir(BASE "/mount", 0755) == 0;
    int file = open(BASE "/in/file", O_RDWR | O_CREAT, 0644);
    check(made && file >= 0 && symlink("file", BASE "/in/link") == 0 &&
              symlink(BASE "/in/file", BASE "/in/absolute") == 0 &&
              symlink("../in/file", BASE "/in/out") == 0 && symlink("/file", BASE "/in/top") == 0,
          "files, directories and links");
    close(file);
}

#include "opens-ways.h"
#include "opens-programs.h"

static void nameless(void)
{
    char path[64];
    start();
    int file = open(BASE "/in", O_TMPFILE | O_RDWR, 0600),
        alone = open(BASE "/in", O_TMPFILE | O_RDWR | O_EXCL, 0600);
    snprintf(path, sizeof path, "/proc/self/fd/%d", alone);
    fails(linkat(AT_FDCWD, path, AT_FDCWD, BASE "/alone", AT_SYMLINK_FOLLOW), ENOENT,
          "one that is to have no name gets none");
    fails(linkat(alone, "", AT_FDCWD, BASE "/alone", AT_EMPTY_PATH), ENOENT, "not by number either");
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    equal(linkat(AT_FDCWD, path, AT_FDCWD, BASE "/linked", AT_SYMLINK_FOLLOW), 0, "another does");
    struct stat now;
    equal(fstat(file, &now) == 0 ? (long)now.st_nlink : -1, 1, "one");
    equal(linkat(file, "", AT_FDCWD, BASE "/again", AT_EMPTY_PATH), 0, "and one more, by number");
    unlink(BASE "/linked");
    unlink(BASE "/again");
    fails(linkat(file, "", AT_FDCWD, BASE "/again", AT_EMPTY_PATH), ENOENT,
          "without a name again it gets none any more");
    int named = open(BASE "/named", O_RDWR | O_CREAT, 0600);
    unlink(BASE "/named");
    snprintf(path, sizeof path, "/proc/self/fd/%d", named);
    fails(linkat(AT_FDCWD, path, AT_FDCWD, BASE "/named", AT_SYMLINK_FOLLOW), ENOENT,
          "nor one that was removed");
    fails(open(BASE "/in", O_TMPFILE | O_RDONLY, 0600), EINVAL, "only for reading");
    fails(open(BASE "/in/file", O_TMPFILE | O_RDWR, 0600), ENOTDIR, "in what is no directory");
    close(file);
    close(alone);
    close(named);
}

static void places(void)
{
    char byte;
    start();
    int file = open(BASE "/in/file", O_PATH | O_RDWR | O_APPEND), dir = open(BASE "/in", O_PATH);
    equal(fcntl(file, F_GETFL), O_PATH, "only the place is meant");
    fails(read(file, &byte, 1), EBADF, "no reading");
    fails(write(file, &byte, 1), EBADF, "no writing");
    fails(fchmod(file, 0600), EBADF, "no mode");
    fails(fchown(file, 0, 0), EBADF, "no owner");
    fails(ftruncate(file, 0), EBADF, "no length");
    fails(flock(file, LOCK_SH), EBADF, "no lock");
    fails(ioctl(file, 0x5401, 0), EBADF, "no control");
    fails(futimens(file, 0), EBADF, "no times");
    fails((long)mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0), EBADF, "no mapping");
    fails(fcntl(file, F_SETFL, 0), EBADF, "no flags");
    fails(fsync(file), EBADF, "no sync");
    struct stat now;
    struct statfs all;
    equal(fstat(file, &now), 0, "but it is looked at");
    equal(fstatfs(file, &all), 0, "and its file system");
    equal(fchdir(dir), 0, "a place to be in");
    equal(openat(dir, "file", O_RDONLY) >= 0, 1, "and to start from");
    equal(chdir("/"), 0, "back");
    int link = open(BASE "/in/link", O_PATH | O_NOFOLLOW);
    char text[16];
    equal(readlinkat(link, "", text, sizeof text), 4, "the text of a link's place");
    fails(readlinkat(file, "", text, sizeof text), ENOENT, "a file's place has none");
    fails(readlink("", text, sizeof text), ENOENT, "no path, no text");
    fails(readlink(BASE "/in/file", text, sizeof text), EINVAL, "a file is no link");
    fails(readlink(BASE "/in/link", text, 0), EINVAL, "no room");
    equal(fcntl(link, F_GETFL), O_PATH | O_NOFOLLOW, "that a link was not followed is told");
    close(file);
    close(link);
    close(dir);
    dir = open(BASE "/in", O_PATH | O_DIRECTORY | O_NONBLOCK);
    equal(fcntl(dir, F_GETFL), O_PATH | O_DIRECTORY, "that a directory was wanted, too");
    close(dir);
    dir = open(BASE "/in", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    equal(fcntl(dir, F_GETFL), O_DIRECTORY | O_NOFOLLOW | LARGEFILE, "also of one that is read");
    equal(fcntl(dir, F_SETFL, O_NONBLOCK) == 0 &&
              fcntl(dir, F_GETFL) == (O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | LARGEFILE),
          1, "F_SETFL leaves that");
    close(dir);
    file = open(BASE "/in", O_TMPFILE | O_RDWR | O_EXCL, 0600);
    equal(fcntl(file, F_GETFL), O_TMPFILE | O_RDWR | LARGEFILE,
          "and what a file without a name was opened by");
    close(file);
    file = open(BASE "/in/file", O_CREAT | O_TRUNC | O_NOCTTY | O_RDWR, 0600);
    equal(fcntl(file, F_GETFL), O_RDWR | LARGEFILE, "not what is done at once");
    close(file);
    file = open(BASE "/in/file", O_RDWR);
    equal(fcntl(file, F_GETFL), O_RDWR | LARGEFILE, "an ordinary one has the flag of large files");
    close(file);
    for (int i = 0; i < 4; i++) {
        file = open(BASE "/in/file", O_RDONLY);
        equal(fcntl(file, F_GETFL), LARGEFILE, "each time");
        close(file);
    }
    int both[2];
    equal(pipe(both) == 0 ? fcntl(both[0], F_GETFL) : -1, O_RDONLY, "a pipe has not");
}

/* At the limit of descriptors nothing is made, emptied or looked for. */
static int full(void)
{
    struct rlimit none = {0, 4096};
    setrlimit(RLIMIT_NOFILE, &none);
    if (open(BASE "/in/new", O_CREAT | O_RDWR, 0600) != -1 || errno != EMFILE)
        return 1;
    if (open(BASE "/in/file", O_TRUNC | O_RDWR) != -1 || errno != EMFILE)
        return 2;
    if (open(BASE "/in/missing", O_RDONLY) != -1 || errno != EMFILE)
        return 3;
    if (open("", O_RDONLY) != -1 || errno != ENOENT)
        return 4;
    if (open((char *)1, O_RDONLY) != -1 || errno != EFAULT)
        return 5;
    struct stat now;
    if (stat(BASE "/in/new", &now) != -1)
        return 6;
    return stat(BASE "/in/file", &now) != 0 || now.st_size != 5 ? 7 : 0;
}

static void limit(void)
{
    start();
    /* Opened and closed before, it is found by its name. */
    for (int i = 0; i < 3; i++) {
        int file = open(BASE "/in/file", O_RDWR | O_TRUNC);
        equal(write(file, "bytes", 5), 5, "a file with something in it");
        close(file);
    }
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(full());
    waitpid(child, &status, 0);
    equal(status, 0, "who may have no more descriptors makes and empties no file");
    fflush(stdout);
    if ((child = fork()) == 0) {
        int next = dup(0);
        struct rlimit few = {next + 1, 4096};
        setrlimit(RLIMIT_NOFILE, &few);
        /* `next` is the last that it may have. */
        int full = dup(0) == -1 && errno == EMFILE && fcntl(0, F_DUPFD, 0) == -1 && errno == EMFILE;
        int beyond =
            fcntl(0, F_DUPFD, next + 1) == -1 && errno == EINVAL && dup2(0, next + 1) == -1 && errno == EBADF;
        close(next);
        _exit(full && beyond && dup(0) == next ? 0 : 1);
    }
    waitpid(child, &status, 0);
    equal(status, 0, "a copy has a number below the limit, or there is none");
}

static void changes(void)
{
    struct stat now, before;
    char *const words[] = {"x", 0};
    start();
    equal(syscall(FCHMODAT2, AT_FDCWD, BASE "/in/link", 0600, 0), 0, "a mode by way of a link");
    equal(stat(BASE "/in/file", &now) == 0 ? now.st_mode & 07777 : 0, 0600, "is the file's");
    fails(syscall(FCHMODAT2, AT_FDCWD, BASE "/in/link", 0600, AT_SYMLINK_NOFOLLOW), EOPNOTSUPP,
          "a link has none");
    int file = open(BASE "/in/file", O_PATH);
    equal(syscall(FCHMODAT2, file, "", 0640, AT_EMPTY_PATH), 0, "by number");
    equal(stat(BASE "/in/file", &now) == 0 ? now.st_mode & 07777 : 0, 0640, "as well");
    fails(syscall(FCHMODAT2, file, "", 0640, 0), ENOENT, "without a path");
    fails(syscall(FCHMODAT2, file, "", 0640, 1), EINVAL, "a flag that there is not");
    close(file);
    struct timespec omit[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}}, mixed[2] = {{5, 6}, {0, UTIME_OMIT}},
                    wrong[2] = {{0, 1000000000}, {0, 0}};
    stat(BASE "/in/file", &before);
    equal(utimensat(AT_FDCWD, BASE "/none", omit, 0), 0, "no times at all: not even the path is looked at");
    equal(utimensat(AT_FDCWD, BASE "/in/file", mixed, 0), 0, "one time");
    stat(BASE "/in/file", &now);
    check(now.st_atim.tv_sec == 5 && now.st_atim.tv_nsec == 6 &&
              now.st_mtim.tv_sec == before.st_mtim.tv_sec && now.st_mtim.tv_nsec == before.st_mtim.tv_nsec,
          "and the other stays");
    fails(utimensat(AT_FDCWD, BASE "/in/file", wrong, 0), EINVAL, "a second of nanoseconds");
    fails(syscall(SYS_utimensat, 0, 0, mixed, AT_SYMLINK_NOFOLLOW), EINVAL, "flags for a number");
    fails(syscall(SYS_utimensat, AT_FDCWD, 0, mixed, 0), EFAULT, "no path");
    fails(utimensat(AT_FDCWD, BASE "/in/file", mixed, 1), EINVAL, "a flag that there is not");
    pid_t child = fork();
    if (child == 0) {
        struct timespec half[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}},
                        nows[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
        if (chmod(BASE "/in/file", 0666) || setgid(1000) || setuid(1000))
            _exit(9);
        tap_failed = 0;
        fails(utimensat(AT_FDCWD, BASE "/in/file", half, 0), EPERM, "who may write may not set one to now");
        equal(utimensat(AT_FDCWD, BASE "/in/file", nows, 0), 0, "but both");
        fails(utimensat(AT_FDCWD, BASE "/in/file", mixed, 0), EPERM, "and no other time");
        _exit(tap_failed);
    }
    int status = -1;
    waitpid(child, &status, 0);
    tap_count += 3;
    equal(status, 0, "all as they should be");
    fails(execv("/", words), EACCES, "a directory is not executed");
    fails(execv(BASE "/in/file/", words), ENOTDIR, "nor a file as a directory");
    fails(execv("", words), ENOENT, "nor nothing");
    fails(syscall(SYS_execveat, AT_FDCWD, "", words, words, AT_EMPTY_PATH), EACCES, "nor where one is");
    fails(syscall(SYS_execveat, AT_FDCWD, BASE "/in/link", words, words, AT_SYMLINK_NOFOLLOW), ELOOP,
          "nor a link that is not followed");
    fails(syscall(SYS_execveat, -1, "x", words, words, 0), EBADF, "nor from no directory");
    fails(syscall(SYS_execveat, AT_FDCWD, "/", words, words, 1), EINVAL, "nor with a flag that there is not");
    fails(syscall(SYS_renameat2, AT_FDCWD, BASE "/in/file", AT_FDCWD, BASE "/in/link", RENAME_NOREPLACE),
          EEXIST, "no name is replaced");
    fails(syscall(SYS_renameat2, AT_FDCWD, BASE "/in/file", AT_FDCWD, BASE "/none", RENAME_EXCHANGE), ENOENT,
          "nor exchanged with nothing");
    fails(syscall(SYS_renameat2, AT_FDCWD, BASE "/in/file", AT_FDCWD, BASE "/none", 8), EINVAL,
          "a flag that there is not");
    fails(syscall(SYS_renameat2, AT_FDCWD, BASE "/in/file", AT_FDCWD, BASE "/none",
                  RENAME_NOREPLACE | RENAME_EXCHANGE),
          EINVAL, "two that do not fit");
    equal(syscall(SYS_renameat2, AT_FDCWD, BASE "/in/file", AT_FDCWD, BASE "/in/deep", RENAME_EXCHANGE), 0,
          "a file and a directory change places");
    check(stat(BASE "/in/file", &now) == 0 && S_ISDIR(now.st_mode) && stat(BASE "/in/deep", &now) == 0 &&
              S_ISREG(now.st_mode),
          "and are there");
    file = open(BASE "/in/deep", O_RDWR);
    fails(fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096), EOPNOTSUPP, "nothing is collapsed");
    fails(fallocate(file, FALLOC_FL_INSERT_RANGE, 0, 4096), EOPNOTSUPP, "nor inserted");
    fails(fallocate(file, FALLOC_FL_PUNCH_HOLE, 0, 4096), EOPNOTSUPP, "a hole keeps the size");
    close(file);
}

static void told(void)
{
    struct statx all;
    struct statfs system_;
    start();
    equal(statx(AT_FDCWD, BASE "/in/file", 0, STATX_BASIC_STATS, &all), 0, "asked for the basic ones");
    equal(all.stx_mask & (STATX_BASIC_STATS | STATX_BTIME), STATX_BASIC_STATS, "those are told");
    equal(statx(AT_FDCWD, BASE "/in/file", 0, STATX_BASIC_STATS | STATX_BTIME, &all), 0,
          "asked for its birth, too");
    equal(all.stx_mask & (STATX_BASIC_STATS | STATX_BTIME), STATX_BASIC_STATS | STATX_BTIME, "that too");
    check(all.stx_btime.tv_sec > 0 && all.stx_btime.tv_sec <= all.stx_ctime.tv_sec,
          "which was before its last change");
    check((all.stx_mask & 0x1000) && (all.stx_attributes_mask & 0x2000) && !(all.stx_attributes & 0x2000),
          "its mount, whose root it is not");
    statx(AT_FDCWD, "/proc", 0, 0, &all);
    check(all.stx_attributes & 0x2000, "which the root of one is");
    fails(statx(AT_FDCWD, BASE, 0, 0x80000000u, &all), EINVAL, "a bit that is kept");
    fails(statx(AT_FDCWD, BASE, 0x6000, 0, &all), EINVAL, "at once and not");
    fails(statx(AT_FDCWD, BASE, 1, 0, &all), EINVAL, "a flag that there is not");
    fails(statx(AT_FDCWD, BASE, 0, 0, (struct statx *)8), EFAULT, "to nowhere");
    check(statfs(BASE, &system_) == 0 && system_.f_type == 0x01021994 && system_.f_namelen == 255 &&
              (system_.f_flags & 0x20),
          "the file system");
    int dir = open(BASE, O_RDONLY);
    struct statfs same;
    check(fstatfs(dir, &same) == 0 && same.f_type == system_.f_type && same.f_flags == system_.f_flags,
          "by number the same");
    close(dir);
}

/* The bounds of a file system. */
static void bounded(void)
{
    static char page[4096];
    struct statfs all;
    struct stat now;
    start();
    fails(mount("none", BASE "/mount", "tmpfs", 0, "unheard=1"), EINVAL, "an option that there is not");
    fails(mount("none", BASE "/mount", "tmpfs", 0, "size=many"), EINVAL, "a size that is none");
    fails(mount("none", BASE "/mount", "tmpfs", 0, "nr_inodes=5x"), EINVAL, "a number that is none");
    if (!check(mount("none", BASE "/mount", "tmpfs", 0, "size=64k,nr_inodes=5,mode=750,uid=1000,gid=50") == 0,
               "sixteen pages, five files"))
        return;
    check(stat(BASE "/mount", &now) == 0 && (now.st_mode & 07777) == 0750 && now.st_uid == 1000 &&
              now.st_gid == 50,
          "of a user's");
    check(statfs(BASE "/mount", &all) == 0 && all.f_blocks == 16 && all.f_bfree == 16 && all.f_files == 5,
          "told as such");
    int file = open(BASE "/mount/a", O_RDWR | O_CREAT, 0600), pages = 0;
    while (pages < 100 && write(file, page, sizeof page) == sizeof page)
        pages++;
    equal(pages, 16, "no more pages fit");
    equal(errno, ENOSPC, "which is said");
    check(statfs(BASE "/mount", &all) == 0 && all.f_bfree == 0, "none is free");
    fails(mount("none", BASE "/mount", 0, MS_REMOUNT, "size=4k"), EINVAL,
          "it is not made smaller than what is there");
    equal(mount("none", BASE "/mount", 0, MS_REMOUNT, "size=68k"), 0, "but larger");
    equal(write(file, page, sizeof page), sizeof page, "there is room");
    fails(write(file, page, 1), ENOSPC, "and then no more");
    equal(ftruncate(file, 4096), 0, "what is given back");
    equal(lseek(file, 0, SEEK_END) == 4096 && write(file, page, sizeof page) == sizeof page, 1,
          "is there again");
    int made = 0;
    char name[64];
    for (; made < 100; made++) {
        snprintf(name, sizeof name, BASE "/mount/%d", made);
        int other = open(name, O_WRONLY | O_CREAT, 0600);
        if (other < 0)
            break;
        close(other);
    }
    equal(made, 3, "root, one file and three more");
    equal(errno, ENOSPC, "are all");
    check(unlink(BASE "/mount/0") == 0 && mkdir(BASE "/mount/d", 0700) == 0, "one away, one more");
    close(file);
    umount(BASE "/mount");
}

#include "opens-names.h"

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"ways", ways},         {"swapped", swapped}, {"busy", busy},   {"executed", executed},
        {"nameless", nameless}, {"places", places},   {"limit", limit}, {"changes", changes},
        {"told", told},         {"bounded", bounded}, {"names", names}, {"cut", cut},
        {"first", first},
    };
    if (argc == 2 && strcmp(argv[1], "--run") == 0)
        for (;;)
            pause();
    run_groups(GROUPS(groups), 0, argc, argv);
    if (system("rm -rf " BASE))
        return 9;
    return done();
}

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

static int open2(int dir, const char *path, unsigned long flags, unsigned long mode, unsigned long resolve)
{
    struct open_how how = {flags, mode, resolve};
    int opened = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    if (opened >= 0)
        close(opened);
    return opened >= 0 ? 0 : -1;
}

static void ways(void)
{
    start();
    int in = open(BASE "/in", O_RDONLY | O_DIRECTORY);
    equal(open2(in, "file", O_RDONLY, 0, 0), 0, "without a restriction");
    equal(open2(in, "file", O_RDONLY, 0, RESOLVE_BENEATH), 0, "beneath");
    equal(open2(in, "deep/../file", O_RDONLY, 0, RESOLVE_BENEATH), 0, "down and up");
    equal(open2(in, "link", O_RDONLY, 0, RESOLVE_BENEATH), 0, "by a link");
    fails(open2(in, "../in/file", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "above");
    fails(open2(in, "out", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "above by a link");
    fails(open2(in, "absolute", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "by an absolute link");
    fails(open2(in, BASE "/in/file", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "by an absolute path");
    fails(open2(in, "none", O_RDONLY, 0, RESOLVE_BENEATH), ENOENT, "nothing there");
    equal(open2(in, "/file", O_RDONLY, 0, RESOLVE_IN_ROOT), 0, "an absolute path in another root");
    equal(open2(in, "../../file", O_RDONLY, 0, RESOLVE_IN_ROOT), 0, "no higher than that root");
    equal(open2(in, "top", O_RDONLY, 0, RESOLVE_IN_ROOT), 0, "an absolute link there");
    fails(open2(in, "absolute", O_RDONLY, 0, RESOLVE_IN_ROOT), ENOENT, "one that leads nowhere there");
    equal(open2(in, "/new", O_WRONLY | O_CREAT, 0600, RESOLVE_IN_ROOT), 0, "a new file");
    equal(access(BASE "/in/new", F_OK), 0, "is there");
    fails(open2(in, "link", O_RDONLY, 0, RESOLVE_NO_SYMLINKS), ELOOP, "no links");
    equal(open2(in, "file", O_RDONLY, 0, RESOLVE_NO_SYMLINKS), 0, "and there are none");
    equal(open2(in, "link", O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS), 0, "the link itself");
    fails(open2(AT_FDCWD, "/proc/self/fd/0", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS), ELOOP, "no link of /proc");
    fails(open2(AT_FDCWD, "/proc/self/root", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS), ELOOP, "of another kind");
    equal(open2(AT_FDCWD, "/proc/self/status", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS), 0,
          "ordinary ones of it are");
    int proc = open("/proc/self", O_RDONLY | O_DIRECTORY);
    fails(open2(proc, "root", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "none beneath either");
    if (check(mount("none", BASE "/mount", "tmpfs", 0, 0) == 0, "a mount")) {
        int base = open(BASE, O_RDONLY | O_DIRECTORY), inside = open(BASE "/mount", O_RDONLY | O_DIRECTORY);
        fails(open2(base, "mount", O_RDONLY, 0, RESOLVE_NO_XDEV), EXDEV, "not into another mount");
        fails(open2(inside, "../in", O_RDONLY, 0, RESOLVE_NO_XDEV), EXDEV, "nor out of it");
        equal(open2(inside, ".", O_RDONLY, 0, RESOLVE_NO_XDEV), 0, "in it");
        equal(open2(base, "mount", O_RDONLY, 0, RESOLVE_BENEATH), 0, "it lies beneath");
        close(base);
        close(inside);
        umount(BASE "/mount");
    }
    equal(open2(in, "file", O_RDONLY, 0, RESOLVE_CACHED) == 0 || errno == EAGAIN, 1,
          "at once, or not at all");
    fails(open2(in, "file", O_RDWR | O_TRUNC, 0, RESOLVE_CACHED), EAGAIN, "what cannot be at once");
    fails(open2(in, "file", O_RDONLY, 0, RESOLVE_BENEATH | RESOLVE_IN_ROOT), EINVAL, "two roots");
    fails(open2(in, "file", O_RDONLY, 0, 64), EINVAL, "a way that there is not");
    fails(open2(in, "file", O_RDONLY, 0600, 0), EINVAL, "a mode for nothing new");
    fails(open2(in, "file", O_RDONLY | O_CREAT, 010000, 0), EINVAL, "a mode that there is not");
    fails(open2(in, "file", 1UL << 31, 0, 0), EINVAL, "a flag that there is not");
    fails(open2(in, "file", 1UL << 40, 0, 0), EINVAL, "a high one");
    fails(open2(in, "file", O_PATH | O_RDWR, 0, 0), EINVAL, "a place to be written");
    char large[5000] = "";
    fails(syscall(SYS_openat2, in, "file", large, 23), EINVAL, "too small");
    fails(syscall(SYS_openat2, in, "file", large, sizeof large), E2BIG, "too large");
    int opened = (int)syscall(SYS_openat2, in, "file", large, 4096);
    check(opened >= 0, "larger, with zeros");
    equal(fcntl(opened, F_GETFL), LARGEFILE, "has the flag of large files, as all have");
    close(opened);
    large[24] = 1;
    fails(syscall(SYS_openat2, in, "file", large, 32), E2BIG, "with more that is wanted");
    close(in);
    close(proc);
}

/* While another swaps directories, the way up never leads out. */
static void swapped(void)
{
    static const char way[] = "deep/../../deep/../../deep/../../deep/../../deep/../../deep/../../deep/../..";
    static const unsigned long how_far[] = {RESOLVE_BENEATH, RESOLVE_IN_ROOT};
    start();
    int base = open(BASE, O_PATH | O_DIRECTORY), in = open(BASE "/in", O_PATH | O_DIRECTORY);
    struct stat home, found;
    fstat(in, &home);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            syscall(SYS_renameat2, base, "in/deep", base, "mount", 2 /* RENAME_EXCHANGE */);
    }
    for (int i = 0; i < 2; i++) {
        int outside = 0, odd = 0;
        for (int round = 0; round < 10000; round++) {
            struct open_how how = {O_PATH, 0, how_far[i]};
            int fd = (int)syscall(SYS_openat2, in, way, &how, sizeof how);
            if (fd < 0) {
                outside += errno == ENOENT;
                odd += errno != EAGAIN && errno != EXDEV && errno != ENOENT;
                continue;
            }
            outside += fstat(fd, &found) != 0 || found.st_ino != home.st_ino;
            close(fd);
        }
        equal(outside, 0,
              i ? "nor out of another root" : "the way up does not lead out while directories are swapped");
        equal(odd, 0, "and says why");
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    close(base);
    close(in);
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

/* A process that runs `path`, when it does. */
static pid_t run(const char *path, int *error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        exit(9);
    pid_t child = fork();
    if (child == 0) {
        execl(path, path, "--run", (char *)0);
        *error = errno;
        if (write(ends[1], error, sizeof *error) != sizeof *error)
            _exit(1);
        _exit(0);
    }
    close(ends[1]);
    *error = 0;
    if (read(ends[0], error, sizeof *error) != sizeof *error)
        *error = 0;
    close(ends[0]);
    return child;
}

static void *opener(void *path)
{
    int file = open(path, O_WRONLY);
    close(file);
    return 0;
}

static void linked(pid_t child, const char *wanted, const char *name)
{
    char path[40], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/exe", child);
    if (readlink(path, text, sizeof text - 1) < 0)
        snprintf(text, sizeof text, "errno %d", errno);
    if (!check(strcmp(text, wanted) == 0, name))
        printf("# got %s, expected %s\n", text, wanted);
}

/* The file of a program that runs, as it is called at present. */
static void executed(void)
{
    const char *const program = BASE "/in/program";
    int error;
    start();
    check(copy(program) == 0 && symlink("in/program", BASE "/alias") == 0, "a program and a link to it");
    pid_t child = run(BASE "/alias", &error);
    equal(error, 0, "runs by its link");
    linked(child, program, "its file is where the link leads");
    check(rename(program, BASE "/renamed") == 0, "it is renamed");
    linked(child, BASE "/renamed", "the new name");
    check(rename(BASE "/in", BASE "/out") == 0 && rename(BASE "/renamed", BASE "/out/there") == 0,
          "moved, by a directory's new name");
    linked(child, BASE "/out/there", "its new place");
    check(unlink(BASE "/out/there") == 0, "removed");
    linked(child, BASE "/out/there (deleted)", "which is said");
    kill_child(child);
}

static void busy(void)
{
    const char *const program = BASE "/program", *const script = BASE "/script";
    int error;
    start();
    check(copy(program) == 0, "a program");
    /* So often that the path is known. */
    for (int i = 0; i < 4; i++)
        close(open(program, O_WRONLY));
    pid_t child = run(program, &error);
    equal(error, 0, "runs, though it was written just now");
    fails(open(program, O_WRONLY), ETXTBSY, "it is not to be written");
    fails(open(program, O_RDWR), ETXTBSY, "read and written");
    fails(open(program, O_RDONLY | O_TRUNC), ETXTBSY, "made empty");
    fails(truncate(program, 0), ETXTBSY, "or cut off");
    int reader = open(program, O_RDONLY);
    check(reader >= 0, "it may be read");
    close(reader);
    check(rename(program, BASE "/other") == 0 && rename(BASE "/other", program) == 0 &&
              chmod(program, 0700) == 0,
          "renamed, and its mode changed");
    int second;
    pid_t also = run(program, &second);
    equal(second, 0, "run once more");
    kill_child(child);
    fails(open(program, O_WRONLY), ETXTBSY, "one is left");
    kill_child(also);
    int writer = open(program, O_WRONLY);
    check(writer >= 0, "nobody runs it any more: it may be written");
    child = run(program, &error);
    equal(error, ETXTBSY, "and is not run meanwhile");
    kill_child(child);
    int copied = dup(writer);
    close(writer);
    child = run(program, &error);
    equal(error, ETXTBSY, "nor while there is a copy of the descriptor");
    kill_child(child);
    close(copied);
    for (int shared = 0; shared < 2; shared++) {
        writer = open(program, O_RDWR);
        char *mapped = mmap(0, 4096, shared ? PROT_READ | PROT_WRITE : PROT_READ,
                            shared ? MAP_SHARED : MAP_PRIVATE, writer, 0);
        check(writer >= 0 && mapped != MAP_FAILED, "mapped from a descriptor that may write");
        close(writer);
        child = run(program, &error);
        equal(error, ETXTBSY, "nor while it is mapped by one that is closed");
        kill_child(child);
        munmap(mapped, 4096);
    }
    int reader_too = open(program, O_RDONLY);
    char *mapped = mmap(0, 4096, PROT_READ, MAP_SHARED, reader_too, 0);
    child = run(program, &error);
    equal(error, 0, "what is mapped to be read runs");
    kill_child(child);
    munmap(mapped, 4096);
    close(reader_too);
    pthread_t thread;
    pthread_create(&thread, 0, opener, (void *)program);
    pthread_join(thread, 0);
    child = run(program, &error);
    equal(error, 0, "nor is it held up by what a thread had open");
    /* The program that it executed keeps it, its child too. */
    pid_t child_of_it = child;
    unlink(program);
    kill_child(child_of_it);
    writer = open(script, O_WRONLY | O_CREAT, 0755);
    check(write(writer, "#!/bin/sh\nexec sleep 100\n", 25) == 25, "a script");
    child = run(script, &error);
    equal(error, ETXTBSY, "is not run while it is written");
    kill_child(child);
    close(writer);
    int memory = memfd_create("program", 0);
    char buffer[65536];
    ssize_t count;
    int in = open("/proc/self/exe", O_RDONLY);
    while ((count = read(in, buffer, sizeof buffer)) > 0)
        if (write(memory, buffer, count) != count)
            check(0, "copied");
    close(in);
    snprintf(buffer, sizeof buffer, "/proc/self/fd/%d", memory);
    child = run(buffer, &error);
    equal(error, 0, "a file without a name that was never opened runs");
    kill_child(child);
    writer = open(buffer, O_RDWR);
    child = run(buffer, &error);
    equal(error, ETXTBSY, "not if it is opened for writing");
    kill_child(child);
    close(writer);
    close(memory);
}

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

/* A path that ends with its page, behind which there is nothing. */
static char *at_the_edge(const char *path)
{
    static char *page;
    if (!page)
        page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    return strcpy(page + 4096 - strlen(path) - 1, path);
}

/* Makes `path`; 0 or -1. */
static int create(const char *path, int flags)
{
    int made = open(path, O_CREAT | flags, 0644);
    if (made >= 0)
        close(made);
    return made >= 0 ? 0 : -1;
}

/* The outcome of another user's making `make` and removing `away`: two bits for those that went well. */
static int by_another(const char *make, const char *away)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (setgid(1234) || setuid(1234))
            _exit(9);
        _exit((make && create(make, O_WRONLY) == 0) | (unlink(away) == 0) << 1);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

/* Names that are made and removed, by paths that are short or not, and in directories with rules. */
/* Files that nobody has opened before, opened for the first time and again, more of them than a kernel may
 * remember. */
static void first(void)
{
    enum { COUNT = 700 };
    char name[64];
    struct stat st;
    struct statfs before, after;
    int wrong = 0;
    mkdir(BASE, 0755);
    statfs(BASE, &before);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, BASE "/first-%03d", i);
        wrong += mknod(name, S_IFREG | 0644, 0) != 0;
    }
    equal(wrong, 0, "files without a descriptor");
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, BASE "/first-%03d", i);
        int kind = i % 3, flags[] = {O_RDONLY, O_WRONLY, O_RDWR | O_CLOEXEC};
        int fd = open(name, flags[kind]);
        char c = i, got = 0;
        wrong += fcntl(fd, F_GETFL) != ((flags[kind] & O_ACCMODE) | LARGEFILE) ||
                 fcntl(fd, F_GETFD) != (kind == 2);
        wrong += kind == 0 ? write(fd, &c, 1) != -1 || errno != EBADF : write(fd, &c, 1) != 1;
        wrong += kind == 1 ? read(fd, &got, 1) != -1 || errno != EBADF : read(fd, &got, 1) != 0;
        wrong += fstat(fd, &st) != 0 || st.st_size != (kind != 0) || st.st_nlink != 1;
        wrong += close(fd) != 0;
    }
    equal(wrong, 0, "are read and written as they were opened");
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < COUNT; i++) {
            snprintf(name, sizeof name, BASE "/first-%03d", i);
            int one = open(name, O_RDONLY), other = open(name, O_RDWR);
            char c = 0;
            wrong += one < 0 || other < 0 || lseek(other, 1, SEEK_SET) != 1 || lseek(one, 0, SEEK_CUR) != 0;
            wrong += read(one, &c, 1) != (i % 3 != 0) || (i % 3 != 0 && c != (char)i);
            wrong += close(one) != 0 || close(other) != 0;
        }
    equal(wrong, 0, "each description has an offset of its own, each file its bytes");
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, BASE "/first-%03d", i);
        int held = i % 2 ? open(name, O_RDWR) : -1;
        wrong += unlink(name) != 0 || open(name, O_RDONLY) != -1 || errno != ENOENT;
        if (held >= 0) {
            wrong += fstat(held, &st) != 0 || st.st_nlink != 0 || write(held, name, 8) != 8;
            wrong += close(held) != 0;
        }
    }
    equal(wrong, 0, "and goes with its name or its last description");
    statfs(BASE, &after);
    equal(after.f_ffree, before.f_ffree, "as the file system says");
}

/* Paths that begin shortly before the end of a page, where they are alike: each leads to its own file. */
static void cut(void)
{
    enum { FILES = 3, LONGEST = 80 };
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[LONGEST];
    struct stat there, opened;
    int wrong = 0;
    start();
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, BASE "/in/a-name-that-makes-a-path-long-enough-%d", i);
        wrong += create(name, O_WRONLY) != 0;
    }
    equal(wrong, 0, "files whose paths begin alike");
    for (size_t before = 1; before <= strlen(name); before++)
        for (int i = 0; i < 3 * FILES; i++) {
            snprintf(name, sizeof name, BASE "/in/a-name-that-makes-a-path-long-enough-%d", i % FILES);
            wrong += stat(name, &there) != 0;
            char *path = strcpy(pages + 4096 - before, name);
            int fd = i % 2 ? open(path, O_RDONLY) : openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
            wrong += fd < 0 || fstat(fd, &opened) != 0 || opened.st_ino != there.st_ino;
            close(fd);
        }
    equal(wrong, 0, "each is opened, wherever a page ends in its path");
    munmap(pages, 8192);
}

static void names(void)
{
    static char name[256] = BASE "/in/";
    char what[8];
    struct stat st;
    start();
    equal(create(BASE "/in/new", O_WRONLY), 0, "a new file");
    equal(stat(BASE "/in/new", &st) == 0 && st.st_mode == (S_IFREG | 0644) && st.st_size == 0, 1,
          "is what it should be");
    fails(create(BASE "/in/new", O_WRONLY | O_EXCL), EEXIST, "not twice");
    equal(create(BASE "/in/new", O_WRONLY | O_TRUNC), 0, "but it is opened");
    equal(unlink(BASE "/in/new"), 0, "and removed");
    fails(unlink(BASE "/in/new"), ENOENT, "once");
    equal(create(BASE "/in/new", O_WRONLY | O_EXCL), 0, "made again");
    equal(chdir(BASE "/in") == 0 && unlink("new") == 0, 1, "removed from where one is");
    equal(create(at_the_edge("edge"), O_RDONLY), 0, "a path at the end of memory");
    equal(unlink(at_the_edge("edge")), 0, "removed by it");
    fails(create((char *)4096, O_WRONLY), EFAULT, "no path");
    memset(name + strlen(BASE "/in/"), 'n', 100);
    equal(create(name, O_WRONLY), 0, "a long path");
    equal(unlink(name), 0, "removed by it");
    fails(create(BASE "/in/", O_WRONLY), EISDIR, "no name");
    fails(create(BASE "/in/none/", O_WRONLY), EISDIR, "a directory's");
    fails(unlink(BASE "/in/file/"), ENOTDIR, "no directory");
    fails(unlink(BASE "/in/deep"), EISDIR, "a directory is no file");
    fails(create(BASE "/in/file/new", O_WRONLY), ENOTDIR, "in a file");
    fails(create(BASE "/none/new", O_WRONLY), ENOENT, "nowhere");
    equal(symlink("behind", BASE "/in/ahead") == 0 && create(BASE "/in/ahead", O_WRONLY) == 0 &&
              access(BASE "/in/behind", F_OK) == 0,
          1, "by a link that led nowhere");
    equal(unlink(BASE "/in/ahead") == 0 && access(BASE "/in/behind", F_OK) == 0, 1, "the link is removed");
    equal(unlink(BASE "/in/behind"), 0, "and what it led to");

    int held = open(BASE "/in/held", O_RDWR | O_CREAT, 0600);
    equal(write(held, "kept", 4) == 4 && unlink(BASE "/in/held") == 0, 1, "an open file loses its name");
    equal(create(BASE "/in/held", O_WRONLY | O_EXCL), 0, "which another gets");
    equal(lseek(held, 0, SEEK_SET) == 0 && read(held, what, sizeof what) == 4 && memcmp(what, "kept", 4) == 0,
          1, "it is read as before");
    equal(fstat(held, &st) == 0 && st.st_nlink == 0, 1, "it has no name");
    equal(stat(BASE "/in/held", &st) == 0 && st.st_size == 0, 1, "and the other is another");
    equal(link(BASE "/in/held", BASE "/in/second") == 0 && unlink(BASE "/in/held") == 0, 1,
          "one name of two is removed");
    equal(stat(BASE "/in/second", &st) == 0 && st.st_nlink == 1, 1, "the other stays");
    equal(unlink(BASE "/in/second"), 0, "until it goes, too");
    close(held);

    /* Each byte of a short file, and of one that has become longer. */
    int file = open(BASE "/in/pages", O_RDWR | O_CREAT, 0600), right = 1;
    static char page[4096], back[4096];
    for (int i = 0; i < 12; i++) {
        memset(page, 'a' + i, sizeof page);
        right &= pwrite(file, page, 2000, i * 4096 + 1000) == 2000;
    }
    for (int i = 0; i < 12; i++) {
        memset(page, 0, sizeof page);
        memset(page + 1000, 'a' + i, 2000);
        right &= pread(file, back, sizeof back, i * 4096) == (i < 11 ? 4096 : 3000) &&
                 memcmp(page, back, i < 11 ? 4096 : 3000) == 0;
    }
    equal(right, 1, "what was not written is zeros");
    close(file);

    equal(mkdir(BASE "/all", 0777) == 0 && chmod(BASE "/all", 0777) == 0 &&
              create(BASE "/all/a", O_WRONLY) == 0,
          1, "a directory for all");
    equal(by_another(BASE "/all/b", BASE "/all/a"), 3, "where all make and remove");
    equal(chmod(BASE "/all", 01777) == 0 && create(BASE "/all/a", O_WRONLY) == 0, 1, "with the sticky bit");
    equal(by_another(BASE "/all/c", BASE "/all/a"), 1, "only one's own is removed");
    equal(by_another(0, BASE "/all/c"), 2, "as here");
    equal(unlink(BASE "/all/b"), 0, "and everything by who owns the directory");
    equal(by_another(BASE "/in/x", BASE "/in/file"), 0, "and nothing where one has no right");
    if (check(mount("none", BASE "/mount", "tmpfs", 0, 0) == 0, "a mount")) {
        equal(create(BASE "/mount/a", O_WRONLY), 0, "a file there");
        equal(mount("none", BASE "/mount", 0, MS_REMOUNT | MS_RDONLY, 0), 0, "read-only");
        fails(create(BASE "/mount/b", O_WRONLY), EROFS, "none is made");
        fails(unlink(BASE "/mount/a"), EROFS, "none is removed");
        equal(mount("none", BASE "/mount", 0, MS_REMOUNT, 0), 0, "no longer");
        equal(unlink(BASE "/mount/a"), 0, "it is");
        umount(BASE "/mount");
    }
    equal(chdir("/"), 0, "back");
}

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

/* The operations of a program in a directory of the host's; the host's own programs see the result.
 *
 * Interface: shares DIR; DIR is empty. Passes on Linux in any directory of a disk or in memory. TAP on
 * standard output. The files that it leaves in DIR/left are for a look from outside.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIG (300 * 1024 + 17)

static char big[BIG], back[BIG];
static char *volatile nowhere = (char *)8;

static void fill(char *at, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1103515245 + 12345;
        at[i] = seed >> 16;
    }
}

static int put(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return good;
}

static int has(const char *name, const char *text)
{
    char bytes[256];
    int fd = open(name, O_RDONLY);
    ssize_t count = read(fd, bytes, sizeof bytes);
    close(fd);
    return count == (ssize_t)strlen(text) && !memcmp(bytes, text, count);
}

static void bytes(void)
{
    int fd = open("big", O_RDWR | O_CREAT | O_EXCL, 0640);
    check(fd >= 0, "a new file");
    fill(big, BIG, 1);
    equal(write(fd, big, BIG), BIG, "many bytes are written at once");
    equal(lseek(fd, 0, SEEK_CUR), BIG, "and the offset is behind them");
    struct stat st;
    check(!fstat(fd, &st) && st.st_size == BIG && (st.st_mode & 07777) == 0640 && S_ISREG(st.st_mode),
          "the file has that length and these permissions");
    equal(pread(fd, back, BIG, 0), BIG, "all are read back");
    check(!memcmp(big, back, BIG), "the same");
    equal(pread(fd, back, 100, BIG - 10), 10, "what is left is less");
    equal(pread(fd, back, 100, BIG), 0, "nothing is behind the end");
    equal(lseek(fd, 5, SEEK_SET), 5, "seek");
    char one;
    check(read(fd, &one, 1) == 1 && one == big[5], "a byte from there");
    equal(lseek(fd, -1, SEEK_END), BIG - 1, "seek from the end");
    fails(lseek(fd, -1, SEEK_SET), EINVAL, "but not before the beginning");
    struct iovec v[3] = {{"abc", 3}, {"", 0}, {"defg", 4}};
    equal(pwritev(fd, v, 3, 1000), 7, "pieces are written");
    check(pread(fd, back, 7, 1000) == 7 && !memcmp(back, "abcdefg", 7), "as one");
    equal(ftruncate(fd, 100), 0, "cut");
    check(!fstat(fd, &st) && st.st_size == 100, "to that length");
    equal(ftruncate(fd, 5000), 0, "stretched");
    check(pread(fd, back, 100, 4000) == 100 && !back[0] && !memcmp(back, back + 1, 99), "with zeros");
    equal(pwrite(fd, "x", 1, 1 << 20), 1, "a byte far behind the end");
    check(!fstat(fd, &st) && st.st_size == (1 << 20) + 1, "makes it as long");
    equal(fsync(fd), 0, "fsync");
    equal(fdatasync(fd), 0, "fdatasync");
    fails(write(fd, nowhere, 10), EFAULT, "from nowhere");
    fails(read(fd, nowhere, 10), EFAULT, "to nowhere");
    close(fd);
    fails(open("big", O_RDWR | O_CREAT | O_EXCL, 0640), EEXIST, "it is there");
    fails(open("none", O_RDONLY), ENOENT, "another is not");
    fails(open("big/x", O_RDONLY), ENOTDIR, "and it is no directory");
    equal(truncate("big", 3), 0, "cut by its name");
    check(!stat("big", &st) && st.st_size == 3, "to that length");
    fd = open("big", O_WRONLY | O_TRUNC);
    check(!fstat(fd, &st) && st.st_size == 0, "and by opening it");
    fails(read(fd, back, 1), EBADF, "for writing alone");
    close(fd);
    equal(unlink("big"), 0, "removed");
    fails(stat("big", &st), ENOENT, "it is gone");
}

static void appended(void)
{
    int a = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644), b = open("log", O_WRONLY | O_APPEND);
    check(write(a, "one ", 4) == 4 && write(b, "two ", 4) == 4 && write(a, "three", 5) == 5,
          "appended in turns");
    equal(lseek(a, 0, SEEK_CUR), 13, "the offset is at the end");
    check(has("log", "one two three"), "behind each other");
    check(pwrite(a, " four", 5, 0) == 5 && has("log", "one two three four"), "wherever a write should go");
    close(a);
    close(b);
    unlink("log");
}

static void modes(void)
{
    struct stat st;
    umask(022);
    put("mode", "m");
    check(!stat("mode", &st) && (st.st_mode & 07777) == 0644, "without what umask names");
    for (unsigned mode = 0600; mode <= 0777; mode += 0133)
        check(!chmod("mode", mode) && !stat("mode", &st) && (st.st_mode & 07777) == mode, "chmod");
    int fd = open("mode", O_RDONLY);
    check(!fchmod(fd, 0600) && !fstat(fd, &st) && (st.st_mode & 07777) == 0600, "fchmod");
    close(fd);
    /* As archives are unpacked, and as git makes objects. */
    fd = open("read-only", O_WRONLY | O_CREAT | O_EXCL, 0444);
    check(fd >= 0 && write(fd, "r", 1) == 1, "who makes a file may write it whatever its permissions");
    close(fd);
    check(!stat("read-only", &st) && (st.st_mode & 07777) == 0444, "which are these");
    check(st.st_uid == geteuid(), "and it is his");
    struct timespec times[2] = {{1000000000, 123000000}, {1234567890, 987654000}};
    equal(utimensat(AT_FDCWD, "mode", times, 0), 0, "times are set");
    check(!stat("mode", &st) && st.st_atim.tv_sec == 1000000000 && st.st_mtim.tv_sec == 1234567890 &&
              st.st_mtim.tv_nsec == 987654000,
          "to these");
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_nsec = UTIME_NOW;
    check(!utimensat(AT_FDCWD, "mode", times, 0) && !stat("mode", &st) && st.st_atim.tv_sec == 1000000000 &&
              st.st_mtim.tv_sec > 1234567890,
          "one to now, the other as it was");
    struct stat before, after;
    stat("mode", &before);
    usleep(20000);
    put("mode", "changed");
    check(!stat("mode", &after) && (after.st_mtim.tv_sec > before.st_mtim.tv_sec ||
                                    (after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
                                     after.st_mtim.tv_nsec > before.st_mtim.tv_nsec)),
          "a write changes the time");
    unlink("mode");
    unlink("read-only");
}

static void names(void)
{
    struct stat st, other;
    char text[300], long_name[300];
    equal(mkdir("dir", 0755), 0, "a directory");
    fails(mkdir("dir", 0755), EEXIST, "once");
    check(!stat("dir", &st) && S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0755, "that is one");
    fails(unlink("dir"), EISDIR, "no unlink of a directory");
    put("dir/a", "a");
    fails(rmdir("dir"), ENOTEMPTY, "no rmdir of one that is not empty");
    fails(rmdir("dir/a"), ENOTDIR, "nor of a file");
    equal(link("dir/a", "dir/b"), 0, "a second name");
    check(!stat("dir/a", &st) && !stat("dir/b", &other) && st.st_ino == other.st_ino && other.st_nlink == 2,
          "of the same file");
    int fd = open("dir/a", O_RDWR);
    equal(unlink("dir/a"), 0, "the first name removed");
    check(has("dir/b", "a"), "the file is there by its second");
    check(write(fd, "A", 1) == 1 && has("dir/b", "A"), "the open file is that one");
    check(!stat("dir/b", &other) && other.st_nlink == 1, "which is its only one");
    equal(rename("dir/b", "c"), 0, "moved to another directory");
    check(has("c", "A"), "found there");
    fails(stat("dir/b", &st), ENOENT, "and not where it was");
    check(write(fd, "Z", 1) == 1 && has("c", "AZ"), "the open file follows");
    put("d", "d");
    equal(rename("c", "d"), 0, "over another file");
    check(has("d", "AZ"), "which is this one now");
    equal(unlink("d"), 0, "its last name removed");
    check(pread(fd, back, 2, 0) == 2 && !memcmp(back, "AZ", 2) && pwrite(fd, "!", 1, 0) == 1, "still open");
    check(!fstat(fd, &st), "and it still has attributes");
    close(fd);
    fails(rename("none", "d"), ENOENT, "nothing cannot be moved");
    put("file", "f");
    fails(rename("file", "dir"), EISDIR, "no file over a directory");
    fails(rename("dir", "file"), ENOTDIR, "nor the other way round");
    fails(rename("dir", "dir/below"), EINVAL, "no directory below itself");
    unlink("file");

    equal(symlink("some/where", "link"), 0, "a symbolic link");
    check(readlink("link", text, sizeof text) == 10 && !memcmp(text, "some/where", 10), "says where");
    check(!lstat("link", &st) && S_ISLNK(st.st_mode) && st.st_size == 10, "and is one");
    fails(open("link", O_RDONLY), ENOENT, "which leads nowhere");
    unlink("link");
    put("dir/target", "t");
    check(!symlink("dir/target", "link") && has("link", "t"), "one that leads to a file");
    fails(open("link", O_RDONLY | O_NOFOLLOW), ELOOP, "unless it is not to be followed");
    unlink("link");
    unlink("dir/target");
    memset(long_name, 'n', 255);
    long_name[255] = 0;
    check(put(long_name, "long") && has(long_name, "long"), "the longest name");
    unlink(long_name);
    long_name[255] = 'n';
    long_name[256] = 0;
    fails(open(long_name, O_RDONLY | O_CREAT, 0644), ENAMETOOLONG, "one more is too long");
    check(put("\303\244 \n\\,:'\"*", "odd") && has("\303\244 \n\\,:'\"*", "odd"), "an odd name");
    unlink("\303\244 \n\\,:'\"*");

    char path[PATH_MAX], *base = getcwd(NULL, 0);
    mkdir("dir/inner", 0755);
    chdir("dir/inner");
    check(!rename("../../dir", "../../moved"), "the directory above is renamed");
    snprintf(path, sizeof path, "%s/moved/inner", base);
    check(getcwd(text, sizeof text) && !strcmp(text, path), "whoever is inside knows it");
    check(put("here", "h") && has("../inner/here", "h"), "and works there");
    unlink("here");
    chdir("../..");
    check(getcwd(text, sizeof text) && !strcmp(text, base), "and gets out");
    check(!rmdir("moved/inner") && !rmdir("moved"), "removed");
    free(base);
}

static void listed(void)
{
    enum { COUNT = 2000 };
    static char seen[COUNT];
    char name[64];
    int others = 0, twice = 0, dots = 0, missing = 0;
    mkdir("many", 0755);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "many/a-name-of-some-length-%d", i);
        close(open(name, O_WRONLY | O_CREAT, 0644));
    }
    DIR *dir = opendir("many");
    check(dir != NULL, "a directory of many files");
    struct dirent *e;
    long half = 0;
    char after[256] = "";
    for (int at = 0; (e = readdir(dir)); at++) {
        int number;
        if (at == COUNT / 2)
            half = telldir(dir);
        if (at == COUNT / 2 + 1)
            strcpy(after, e->d_name);
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            dots++;
        else if (sscanf(e->d_name, "a-name-of-some-length-%d", &number) != 1 || number < 0 ||
                 number >= COUNT || e->d_type != DT_REG)
            others++;
        else
            twice += seen[number]++;
    }
    for (int i = 0; i < COUNT; i++)
        missing += !seen[i];
    equal(missing, 0, "all are listed");
    equal(others + twice, 0, "once, as files");
    equal(dots, 2, "and both dots");
    seekdir(dir, half);
    e = readdir(dir);
    check(e && !strcmp(e->d_name, after), "from a place in between on");
    rewinddir(dir);
    int removed = 0;
    while ((e = readdir(dir)))
        if (e->d_name[0] == 'a' && !unlinkat(dirfd(dir), e->d_name, 0))
            removed++;
    equal(removed, COUNT, "each is removed while it is read");
    closedir(dir);
    equal(rmdir("many"), 0, "and nothing is left");
}

/* fd holds big. */
static void shared_mapping(int fd)
{
    char *at = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), seen[8];
    check(at != MAP_FAILED && !memcmp(at, big, BIG), "mapped shared to be written");
    memcpy(at + 5000, "mapping", 7);
    check(pread(fd, seen, 7, 5000) == 7 && !memcmp(seen, "mapping", 7), "what is written there is read");
    check(pwrite(fd, "written", 7, 9000) == 7 && !memcmp(at + 9000, "written", 7),
          "and what is written is there");
    equal(msync(at, BIG, MS_SYNC), 0, "msync");
    /* Stored, a page is written again. */
    memcpy(at + 5000, "another", 7);
    equal(fsync(fd), 0, "fsync");
    pid_t child = fork();
    if (!child) {
        memcpy(at + 5002, "child's", 7);
        _exit(memcmp(at + 9000, "written", 7) != 0);
    }
    int status;
    check(waitpid(child, &status, 0) == child && !status && !memcmp(at + 5000, "anchild's", 9),
          "a child writes the same pages");
    equal(msync(at, BIG, MS_SYNC), 0, "msync again");
    memcpy(at + BIG - 4, "last", 4);
    munmap(at, BIG);
    check(pread(fd, seen, 4, BIG - 4) == 4 && !memcmp(seen, "last", 4),
          "what was written last is there without the mapping");
    pwrite(fd, big, BIG, 0);
}

static void mapped(void)
{
    int fd = open("mapped", O_RDWR | O_CREAT, 0644);
    fill(big, BIG, 7);
    write(fd, big, BIG);
    char *at = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    check(at != MAP_FAILED && !memcmp(at, big, BIG), "mapped, it is the same");
    at[0] ^= 1;
    char first;
    check(pread(fd, &first, 1, 0) == 1 && first == big[0], "what is written there is private");
    long end = (BIG + 4095) / 4096 * 4096;
    int zeros = 1;
    for (long i = BIG; i < end; i++)
        zeros &= !at[i];
    check(zeros, "behind the end are zeros");
    munmap(at, BIG);
    int only = open("mapped", O_RDONLY);
    at = mmap(NULL, BIG, PROT_READ, MAP_SHARED, only, 0);
    check(at != MAP_FAILED && !memcmp(at, big, BIG), "mapped shared to be read");
    fails(mprotect(at, 4096, PROT_READ | PROT_WRITE), EACCES, "and not to be written");
    munmap(at, BIG);
    close(only);
    shared_mapping(fd);
    /* The memory that is read into, and written from, is the file itself, mapped. */
    at = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    int copy = open("copy", O_RDWR | O_CREAT, 0644);
    equal(write(copy, at, BIG), BIG, "written from a mapping of another file");
    munmap(at, BIG);
    at = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    equal(pread(copy, at, BIG, 0), BIG, "read into one");
    check(!memcmp(at, big, BIG), "the same");
    munmap(at, BIG);
    close(fd);
    close(copy);
    unlink("mapped");
    unlink("copy");
}

#define THREADS 12
#define ROUNDS 30

static int wrong;

static void *thread(void *argument)
{
    long self = (long)argument;
    char name[32], mine[5000], came[5000];
    snprintf(name, sizeof name, "thread-%ld", self);
    int common = open("common", O_RDWR);
    for (int round = 0; round < ROUNDS; round++) {
        fill(mine, sizeof mine, self * 1000 + round);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
        int good = write(fd, mine, sizeof mine) == sizeof mine &&
                   pread(fd, came, sizeof came, 0) == sizeof came && !memcmp(mine, came, sizeof mine);
        close(fd);
        good &= pwrite(common, mine, sizeof mine, self * sizeof mine) == sizeof mine;
        good &= pread(common, came, sizeof came, self * sizeof came) == sizeof came &&
                !memcmp(mine, came, sizeof mine);
        struct stat st;
        good &= !stat(name, &st) && st.st_size == sizeof mine;
        good &= !unlink(name);
        if (!good)
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    }
    close(common);
    return NULL;
}

static void together(void)
{
    pthread_t threads[THREADS];
    put("common", "");
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    equal(wrong, 0, "several threads, each with its file, and all with one");
    struct stat st;
    check(!stat("common", &st) && st.st_size == THREADS * 5000, "which has what all wrote");
    unlink("common");
}

static void killed(void)
{
    /* Ended in the middle of whatever it does. */
    put("victim", "");
    for (int round = 0; round < 10; round++) {
        pid_t child = fork();
        if (!child)
            for (;;) {
                int fd = open("victim", O_RDWR);
                write(fd, big, BIG);
                pread(fd, back, BIG, 0);
                close(fd);
            }
        usleep(3000 + 1000 * round);
        kill(child, SIGKILL);
        int status;
        if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) {
            check(0, "a process that reads and writes can be killed");
            return;
        }
    }
    check(put("victim", "alive") && has("victim", "alive"),
          "processes that read and write can be killed at any time");
    unlink("victim");
}

static void odds(void)
{
    struct statfs room;
    check(!statfs(".", &room) && room.f_bsize > 0 && room.f_blocks > 0 && room.f_bfree <= room.f_blocks,
          "statfs");
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    check(fd >= 0, "the directory itself");
    fails(read(fd, back, 1), EISDIR, "is not read");
    fails(open(".", O_WRONLY), EISDIR, "nor written");
    close(fd);
    put("run", "#!/bin/sh\nexit 7\n");
    chmod("run", 0755);
    pid_t child = fork();
    if (!child) {
        execl("./run", "run", NULL);
        _exit(1);
    }
    int status;
    check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7,
          "a script is run");
    unlink("run");
    if (mkfifo("fifo", 0644)) {
        /* QEMU's file server touches none. */
        equal(errno, ENXIO, "the host has no named pipes, and says so");
        return;
    }
    child = fork();
    if (!child) {
        fd = open("fifo", O_WRONLY);
        _exit(write(fd, "piped", 5) != 5);
    }
    fd = open("fifo", O_RDONLY);
    check(read(fd, back, 10) == 5 && !memcmp(back, "piped", 5), "through a named pipe bytes go");
    close(fd);
    waitpid(child, &status, 0);
    unlink("fifo");
}

/* The program itself, run from here. */
static void run(const char *self)
{
    int from = open(self, O_RDONLY), to = open("program", O_WRONLY | O_CREAT, 0755);
    ssize_t count;
    while ((count = read(from, big, BIG)) > 0)
        write(to, big, count);
    close(from);
    close(to);
    pid_t child = fork();
    if (!child) {
        execl("./program", "program", NULL);
        _exit(1);
    }
    int status;
    check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42,
          "a program is run");
    unlink("program");
}

/* For who looks from outside. */
static void leave(void)
{
    mkdir("left", 0750);
    put("left/text", "from inside\n");
    chmod("left/text", 0604);
    symlink("../text", "left/link");
    struct timespec times[2] = {{1000000001, 0}, {1000000002, 5000}};
    utimensat(AT_FDCWD, "left/text", times, 0);
    int fd = open("left/bytes", O_WRONLY | O_CREAT, 0644);
    fill(big, BIG, 99);
    check(write(fd, big, BIG) == BIG, "something is left");
    close(fd);
    /* Stored by nobody but the end of the machine, or before. */
    fd = open("left/mapped", O_RDWR | O_CREAT, 0644);
    ftruncate(fd, BIG);
    char *at = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    check(at != MAP_FAILED, "something is mapped");
    memcpy(at, big, BIG / 2);
    msync(at, BIG, MS_SYNC);
    memcpy(at, big, BIG);
}

int main(int count, char **words)
{
    if (count < 2)
        return 42;
    char self[PATH_MAX];
    realpath("/proc/self/exe", self);
    if (chdir(words[1])) {
        perror(words[1]);
        return 1;
    }
    bytes();
    appended();
    modes();
    names();
    listed();
    mapped();
    together();
    killed();
    odds();
    run(self);
    leave();
    return done();
}

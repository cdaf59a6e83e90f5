/* Checks /proc/PID/pagemap, clear_refs and map_files, ustat and sync_file_range, as Linux has them; passes on
 * Linux and must pass here.
 *
 * Interface: pagemaps; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define PRESENT (1ull << 63)
#define OF_OBJECT (1ull << 61)
#define ALONE (1ull << 56)

static int map;

/* Of a page: what is told of it, but for where it is. */
static uint64_t told(const volatile char *at)
{
    uint64_t entry = 1;
    return pread(map, &entry, 8, (uintptr_t)at / PAGE * 8) == 8 ? entry & (PRESENT | OF_OBJECT | ALONE) : 1;
}

static void pages(void)
{
    map = open("/proc/self/pagemap", O_RDONLY);
    check(map >= 0, "a map of pages");
    volatile char *own = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own[0] = own[3 * PAGE] = 1;
    equal(told(own), PRESENT | ALONE, "a page of one's own");
    equal(told(own + PAGE), 0, "one that was not touched");
    uint64_t entries[8];
    equal(pread(map, entries, sizeof entries, (uintptr_t)own / PAGE * 8), 64, "several at once");
    int there = 0;
    for (int i = 0; i < 8; i++)
        there |= (entries[i] >> 63) << i;
    equal(there & 9, 9, "those that are there");
    equal(there & 0xf4, 0, "and those that are not");
    equal(lseek(map, (uintptr_t)own / PAGE * 8, SEEK_SET) == (off_t)((uintptr_t)own / PAGE * 8) &&
              read(map, entries, 16) == 16 && entries[0] >> 63,
          1, "by an offset");
    equal(read(map, entries, 16) == 16 && !(entries[0] >> 63) && entries[1] >> 63, 1, "that moves");

    int file = memfd_create("pages", 0);
    equal(ftruncate(file, 4 * PAGE), 0, "a file");
    volatile char *shared = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    volatile char *copies = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    shared[0] = 1;
    equal(told(shared), PRESENT | OF_OBJECT | ALONE, "a file's page");
    (void)copies[0];
    equal(told(copies), PRESENT | OF_OBJECT, "mapped twice");
    equal(told(shared), PRESENT | OF_OBJECT, "it is not alone");
    copies[0] = 2;
    equal(told(copies), PRESENT | ALONE, "changed, it is one's own");

    int go[2], ready[2];
    char byte = 0;
    pipe(go), pipe(ready);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)own[0];
        write(ready[1], "x", 1);
        read(go[0], &byte, 1);
        _exit(0);
    }
    read(ready[0], &byte, 1);
    (void)own[0];
    equal(told(own), PRESENT, "a child has it too");
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", child);
    int theirs = open(path, O_RDONLY);
    uint64_t entry = 0;
    equal(pread(theirs, &entry, 8, (uintptr_t)own / PAGE * 8) == 8 && entry >> 63, 1, "as its map says");
    write(go[1], "x", 1);
    waitpid(child, 0, 0);
    equal(pread(theirs, &entry, 8, (uintptr_t)own / PAGE * 8), 0, "until it has ended");
    equal(told(own), PRESENT | ALONE, "then one is alone again");

    fails(pread(map, entries, 12, 0), EINVAL, "half an entry");
    fails(pread(map, entries, 8, 4), EINVAL, "in the middle of one");
    equal(pread(map, entries, 8, 0), 8, "nothing is at nothing");
    equal(entries[0] >> 63, 0, "says the map");
    equal(pread(map, entries, 64, (1ll << 47) / PAGE * 8), 0, "behind all memory");
    fails(pread(map, (void *)8, 8, 0), EFAULT, "to nowhere");
    fails(write(map, entries, 8), EBADF, "nobody writes");
    struct stat s;
    equal(stat("/proc/self/pagemap", &s) == 0 && (s.st_mode & 07777) == 0400, 1, "rights");
    fflush(stdout);
    child = fork();
    if (child == 0) {
        setgid(1000), setuid(1000);
        snprintf(path, sizeof path, "/proc/%d/pagemap", getppid());
        _exit(open(path, O_RDONLY) < 0 ? errno : 0);
    }
    equal(WEXITSTATUS(status_of(child)), EACCES, "not of others");
    close(map), close(theirs), close(file);
}

static void file_systems(void)
{
    struct stat s;
    struct {
        int free, pad;
        unsigned long files;
        char names[16];
    } found;
    memset(&found, 0x55, sizeof found);
    stat("/dev/shm", &s) && stat("/tmp", &s);
    equal(syscall(SYS_ustat, (unsigned)s.st_dev, &found), 0, "what is free by a device's number");
    check(found.free > 0 && found.names[0] == 0 && found.names[11] == 0, "something");
    fails(syscall(SYS_ustat, (unsigned)s.st_dev, 0), EFAULT, "to nowhere");
    fails(syscall(SYS_ustat, 0xfff7, &found), EINVAL, "of no device");
}

static void ranges(void)
{
    int file = memfd_create("range", 0), p[2];
    ftruncate(file, 10000);
    pipe(p);
    equal(sync_file_range(file, 0, 0, 7), 0, "a file's bytes");
    equal(sync_file_range(file, 4096, 100, 0), 0, "some");
    fails(sync_file_range(file, 0, 1, 8), EINVAL, "no such flag");
    fails(sync_file_range(file, -1, 1, 1), EINVAL, "before the file");
    fails(sync_file_range(file, 1, -1, 1), EINVAL, "fewer than none");
    fails(sync_file_range(file, 0x7fffffffffffffffll, 5, 1), EINVAL, "too far");
    fails(sync_file_range(p[0], 0, 1, 1), ESPIPE, "of a pipe");
    fails(sync_file_range(99, 0, 1, 8), EBADF, "of nothing");
    close(file), close(p[0]), close(p[1]);
}

/* Kibibytes behind `name` for the area of smaps that begins at `at`; -1. */
static long of_area(const volatile void *at, const char *name)
{
    char line[400], start[32];
    long found = -1;
    int within = 0;
    snprintf(start, sizeof start, "%lx-", (unsigned long)at);
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strchr(line, '-') && line[0] != ' ' && !strchr(line, ':') == 0 &&
            strspn(line, "0123456789abcdef") > 4)
            within = strncmp(line, start, strlen(start)) == 0;
        else if (within && strncmp(line, name, strlen(name)) == 0)
            found = atol(line + strlen(name));
    }
    if (file)
        fclose(file);
    return found;
}

static ssize_t say(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    ssize_t count = fd < 0 ? -1 : write(fd, text, strlen(text));
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return count;
}

#define REFS "/proc/self/clear_refs"

/* Which pages have been used since somebody asked. */
static void uses(void)
{
    int file = memfd_create("used", 0);
    ftruncate(file, 4 * PAGE);
    volatile char *own = mmap(0, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Apart from its neighbours. */
    mprotect((void *)(own + 8 * PAGE), 8 * PAGE, PROT_NONE);
    volatile char *shared = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (int i = 0; i < 8; i++)
        own[i * PAGE] = 1;
    for (int i = 0; i < 4; i++)
        shared[i * PAGE] = 1;
    equal(of_area(own, "Referenced:"), 32, "pages that were written have been used");
    equal(say(REFS, "1"), 1, "from now on");
    equal(of_area(own, "Referenced:"), 0, "none has");
    equal(of_area(shared, "Referenced:"), 0, "nor of a file");
    equal(of_area(own, "Rss:"), 32, "and all are there");
    own[3 * PAGE]++, shared[PAGE]++;
    equal(of_area(own, "Referenced:"), 4, "then one");
    equal(of_area(shared, "Referenced:"), 4, "and a file's");
    equal(say(REFS, "2\n"), 2, "anew for memory of no file");
    equal(of_area(own, "Referenced:"), 0, "none of that");
    equal(of_area(shared, "Referenced:"), 4, "the file's still");
    own[0]++;
    equal(say(REFS, "3"), 1, "anew for files");
    equal(of_area(own, "Referenced:"), 4, "one of no file");
    equal(of_area(shared, "Referenced:"), 0, "none of a file");
    own[5 * PAGE]++;
    equal(own[0] + own[3 * PAGE] + own[5 * PAGE] + shared[PAGE], 8, "what they hold stays");
    equal(say(REFS, "4"), 1, "what was written is forgotten");
    equal(say(REFS, "5"), 1, "and how much there was");
    fails(say(REFS, "0"), EINVAL, "no such kind");
    fails(say(REFS, "6"), EINVAL, "nor this");
    fails(say(REFS, "x"), EINVAL, "no number");
    struct stat s;
    equal(stat(REFS, &s) == 0 && (s.st_mode & 07777) == 0200, 1, "written only");
    close(file);
}

/* Mappings as files. */
static void mapped(void)
{
    char path[64], link[128], name[64] = "/tmp/mapped-XXXXXX";
    int file = mkstemp(name);
    ftruncate(file, 3 * PAGE);
    pwrite(file, "first", 5, 0);
    char *at = mmap(0, 2 * PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    unsigned long start = (unsigned long)at;
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", start, start + 2 * PAGE);
    ssize_t length = readlink(path, link, sizeof link - 1);
    link[length > 0 ? length : 0] = 0;
    equal(strcmp(link, name), 0, "a mapping's link is the file's path");
    struct stat mine, its;
    equal(fstat(file, &mine) == 0 && stat(path, &its) == 0 && mine.st_ino == its.st_ino &&
              mine.st_dev == its.st_dev,
          1, "and leads to the file");
    unlink(name);
    int again = open(path, O_RDONLY);
    char text[8] = "";
    equal(read(again, text, 5) == 5 && strcmp(text, "first") == 0, 1, "also when that has no name any more");
    close(again);
    int seen = 0;
    DIR *folder = opendir("/proc/self/map_files");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        seen += strcmp(entry->d_name, strrchr(path, '/') + 1) == 0;
    equal(seen, 1, "it is listed once");
    if (folder)
        closedir(folder);
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", start, start + PAGE);
    fails(readlink(path, link, sizeof link), ENOENT, "half a mapping has none");
    snprintf(path, sizeof path, "/proc/self/map_files/0%lx-%lx", start, start + 2 * PAGE);
    fails(readlink(path, link, sizeof link), ENOENT, "nor one with a zero in front");
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx ", start, start + 2 * PAGE);
    fails(readlink(path, link, sizeof link), ENOENT, "nor with anything behind");
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", start, start + 2 * PAGE);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setgid(1000), setuid(1000);
        prctl(PR_SET_DUMPABLE, 1);
        _exit(readlink(path, link, sizeof link) <= 0 ? 1
              : open(path, O_RDONLY) >= 0            ? 2
              : errno == EPERM                       ? 0
                                                     : 3);
    }
    equal(WEXITSTATUS(status_of(child)), 0, "a user reads the link and may not follow it");
    munmap(at, 2 * PAGE);
    fails(readlink(path, link, sizeof link), ENOENT, "what is unmapped has none");
    close(file);
}

int main(void)
{
    pages();
    uses();
    mapped();
    file_systems();
    ranges();
    return done();
}

/* Checks that texts of /proc are right however long they are and however they are read; passes on Linux and
 * must pass here.
 *
 * Interface: procfs-reads [GROUP...] runs all groups but `huge` or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L
#define MANY 20000
#define OPEN 1000

static char *region;
static long region_areas;

/* A region of `count` areas, a page each, whose rights take turns. Returns how many the system lets one
 * have. */
static long make_areas(long count)
{
    region = mmap(0, count * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED)
        return 0;
    region_areas = count;
    for (long i = 0; i + 1 < count; i += 2)
        if (mprotect(region + i * PAGE, PAGE, PROT_READ)) {
            munmap(region + i * PAGE, (count - i) * PAGE);
            region_areas = i;
            break;
        }
    return region_areas;
}

static void drop_areas(void) { munmap(region, region_areas * PAGE); }

/* Lines of maps, fed in pieces of any size. */
struct lines {
    char line[256];
    size_t used;
    uintptr_t last_end;
    long inside, bad;
};

static void end_line(struct lines *lines)
{
    uintptr_t start, end;
    char rights[5];
    lines->line[lines->used] = 0;
    lines->used = 0;
    if (sscanf(lines->line, "%lx-%lx %4s", &start, &end, rights) != 3 || start >= end ||
        start < lines->last_end) {
        if (!lines->bad++)
            printf("# bad line: %s\n", lines->line);
        return;
    }
    lines->last_end = end;
    if (start >= (uintptr_t)region && end <= (uintptr_t)(region + region_areas * PAGE)) {
        long page = (start - (uintptr_t)region) / PAGE;
        lines->inside++;
        lines->bad += end - start != PAGE || strcmp(rights, page % 2 ? "---p" : "r--p") != 0;
    }
}

static void feed(struct lines *lines, const char *bytes, long count)
{
    for (long i = 0; i < count; i++)
        if (bytes[i] == '\n')
            end_line(lines);
        else if (lines->used < sizeof lines->line - 1)
            lines->line[lines->used++] = bytes[i];
}

/* Reads maps to its end, `size` bytes at a time. */
static struct lines read_maps(size_t size)
{
    static char buffer[1 << 16];
    struct lines lines = {0};
    int fd = open("/proc/self/maps", O_RDONLY);
    long count;
    while ((count = read(fd, buffer, size)) > 0)
        feed(&lines, buffer, count);
    lines.bad += count != 0 || lines.used != 0;
    close(fd);
    return lines;
}

static void whole(void)
{
    static const size_t sizes[] = {sizeof(char[1 << 16]), 4096, 777};
    long areas = make_areas(MANY);
    equal(areas, MANY, "a process may have 20000 areas");
    for (int i = 0; i < 3; i++) {
        struct lines lines = read_maps(sizes[i]);
        char name[64];
        sprintf(name, "maps has each area once, read %zu bytes at a time", sizes[i]);
        check(lines.inside == areas && lines.bad == 0, name);
        if (lines.inside != areas || lines.bad)
            printf("# %ld of %ld areas, %ld bad\n", lines.inside, areas, lines.bad);
    }
    drop_areas();
}

/* Linux gives a page at a time; so the text is read until it is whole. */
static long read_all(int fd, char *buffer, long size)
{
    long total = 0, count;
    while (total < size && (count = read(fd, buffer + total, size - total)) > 0)
        total += count;
    return total;
}

static void anywhere(void)
{
    static char text[60000], again[60000];
    make_areas(500);
    int fd = open("/proc/self/maps", O_RDONLY);
    long size = read_all(fd, text, sizeof text);
    check(size > 500 * 40 && size < (long)sizeof text, "the text is as long as it should be");
    int good = 1;
    unsigned seed = 7;
    for (int i = 0; i < 60; i++) {
        seed = seed * 1103515245 + 12345;
        long at = seed / 8 % size, want = 1 + seed / 65536 % 3000, count;
        for (long done = 0; done < want && at + done < size; done += count) {
            count = pread(fd, again, want - done, at + done);
            good &= count > 0 && memcmp(text + at + done, again, count) == 0;
            if (count <= 0)
                break;
        }
    }
    check(good, "pread finds the same bytes at any offset");
    equal(pread(fd, again, 10, size), 0, "pread at the end finds nothing");
    equal(pread(fd, again, 10, 1L << 40), 0, "pread far behind the end finds nothing");
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 3000; i++)
        good &= read(fd, again + i, 1) == 1;
    check(good && memcmp(text, again, 3000) == 0, "byte by byte it is the same");
    equal(lseek(fd, 5000, SEEK_SET), 5000, "lseek goes anywhere");
    equal(read(fd, again, 100), 100, "a read from there");
    check(memcmp(text + 5000, again, 100) == 0, "is of the same bytes");
    fails(lseek(fd, 0, SEEK_END), EINVAL, "the end of a text that is being made is nowhere");
    char *volatile nowhere = (char *)8;
    fails(read(fd, nowhere, 100), EFAULT, "a bad address");
    equal(lseek(fd, 0, SEEK_CUR), 5100, "moves nothing");
    read(fd, again, 10);
    check(memcmp(text + 5100, again, 10) == 0, "and loses nothing");
    close(fd);
    drop_areas();
}

static void changing(void)
{
    static char buffer[3000];
    struct lines lines = {0};
    make_areas(1000);
    int fd = open("/proc/self/maps", O_RDONLY);
    for (int i = 0; i < 10; i++)
        feed(&lines, buffer, read(fd, buffer, sizeof buffer));
    long seen = lines.inside, count;
    munmap(region + 800 * PAGE, 200 * PAGE);
    while ((count = read(fd, buffer, sizeof buffer)) > 0)
        feed(&lines, buffer, count);
    check(seen > 100 && seen < 790, "half of the areas were read");
    check(lines.inside >= 800 && lines.inside <= 880, "then those that are left");
    equal(lines.bad, 0, "and each line is whole");
    close(fd);
    drop_areas();
}

static void many_open(void)
{
    static int fds[OPEN];
    struct rlimit limit = {OPEN + 100, 4096};
    long areas = make_areas(MANY);
    setrlimit(RLIMIT_NOFILE, &limit);
    int opened = 0, good = 1;
    char byte;
    for (; opened < OPEN; opened++) {
        fds[opened] = open("/proc/self/maps", O_RDONLY);
        if (fds[opened] < 0 || read(fds[opened], &byte, 1) != 1)
            break;
    }
    equal(opened, OPEN, "1000 open texts of a process with 20000 areas");
    for (int i = 0; i < opened; i += 97) {
        struct lines lines = {0};
        char buffer[4096];
        long count;
        feed(&lines, &byte, 1);
        while ((count = read(fds[i], buffer, sizeof buffer)) > 0)
            feed(&lines, buffer, count);
        good &= lines.inside == areas;
    }
    check(good, "each goes on where it was");
    for (int i = 0; i < opened; i++)
        close(fds[i]);
    drop_areas();
}

static void listing(void)
{
    enum { COUNT = 900 };
    static char seen[COUNT];
    char buffer[128];
    int from = open("/dev/null", O_RDONLY), first = from + 1, twice = 0, missing = 0;
    for (int i = 1; i < COUNT; i++)
        dup(from);
    int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    long count;
    while ((count = syscall(SYS_getdents64, dir, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < count;) {
            struct {
                uint64_t ino;
                int64_t next;
                unsigned short length;
                unsigned char type;
                char name[];
            } *entry = (void *)(buffer + at);
            int fd = atoi(entry->name);
            if (fd >= first && fd < from + COUNT)
                twice += seen[fd - from]++ != 0;
            at += entry->length;
        }
    for (int i = 1; i < COUNT; i++)
        missing += !seen[i];
    check(count == 0 && twice == 0 && missing == 0, "descriptors are listed once each, in small pieces");
    for (int i = 0; i < COUNT; i++)
        close(from + i);
    close(dir);
}

/* A number is told in one way, and found by no other. */
static void numbers(void)
{
    static const char *const odd[] = {"0%d", "+%d", " %d", "%d ", "-%d", "%d.", "0x%d"};
    char path[64], form[64];
    int fd = dup(0);
    static const char *const dirs[] = {"/proc/self/fd/", "/proc/self/fdinfo/", "/proc/self/task/", "/proc/"};
    for (int i = 0; i < 4; i++) {
        struct stat now;
        int number = i < 2 ? fd : getpid(), wrong = 0;
        snprintf(path, sizeof path, "%s%d", dirs[i], number);
        equal(lstat(path, &now), 0, "a number leads there");
        for (int k = 0; k < 7; k++) {
            snprintf(form, sizeof form, "%s%s", dirs[i], odd[k]);
            snprintf(path, sizeof path, form, number);
            wrong += lstat(path, &now) != -1 || errno != ENOENT;
        }
        equal(wrong, 0, "and nothing else that looks like it");
    }
    close(fd);
}

static void groups(void)
{
    enum { COUNT = 65536 };
    static gid_t list[COUNT];
    static char text[COUNT * 8];
    if (geteuid() != 0)
        return;
    for (int i = 0; i < COUNT; i++)
        list[i] = i + 100000;
    equal(syscall(SYS_setgroups, COUNT, list), 0, "a process may have 65536 groups");
    int fd = open("/proc/self/status", O_RDONLY);
    long size = read_all(fd, text, sizeof text - 1), found = 0;
    char *at = strstr(text, "Groups:\t");
    for (at = at ? at + 8 : text + size; found < COUNT && strtol(at, &at, 10) == 100000 + found;)
        found++;
    equal(found, COUNT, "status shows them all");
    check(strstr(text, "\nThreads:\t1\n") && strstr(text, "\nCpus_allowed"), "and what follows");
    close(fd);
    /* A few of them are the last of many, and shorter than what a small reading has no room for. */
    enum { SOME = 66 };
    equal(syscall(SYS_setgroups, SOME, list), 0, "some groups");
    int cut = 0;
    for (long most = 50; most <= 1000; most += 50) {
        fd = open("/proc/self/status", O_RDONLY);
        size = 0;
        for (long count; (count = read(fd, text + size, most)) > 0;)
            size += count;
        text[size] = 0;
        close(fd);
        at = strstr(text, "Groups:\t");
        found = 0;
        for (at = at ? at + 8 : text + size; found < SOME && strtol(at, &at, 10) == 100000 + found;)
            found++;
        cut += found != SOME || !strstr(text, "\nThreads:\t1\n");
    }
    equal(cut, 0, "status shows them all, however little is read at a time");
    syscall(SYS_setgroups, 0, 0);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Not on Linux as it comes: there a process may have 65530 areas. */
static void huge(void)
{
    double took[2];
    for (int i = 0; i < 2; i++) {
        long areas = make_areas(i ? 360000 : 45000);
        double before = seconds();
        struct lines lines = read_maps(1 << 16);
        took[i] = seconds() - before;
        check(areas > 0 && lines.inside == areas && lines.bad == 0,
              i ? "360000 areas are read" : "45000 areas are read");
        drop_areas();
    }
    printf("# %.3f s, %.3f s\n", took[0], took[1]);
    check(took[1] < 24 * took[0] + 0.05,
          "eight times as many take eight times as long, not sixty-four times");
}

int main(int argc, char **argv)
{
    static const struct group all[] = {
        {"whole", whole},     {"anywhere", anywhere}, {"changing", changing}, {"many", many_open},
        {"listing", listing}, {"numbers", numbers},   {"groups", groups},     {"huge", huge},
    };
    run_groups(GROUPS(all), "huge", argc, argv);
    return done();
}

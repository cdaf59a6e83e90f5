/* The page cache under memory pressure: files of the trials' file system `kept`, all together larger than the
 * machine's memory, written and read by calls and by mappings, always those of a model; and what fails says
 * so once.
 *
 * Interface: page-cache STEPS. STEPS are those of each of four threads. On the kernel of the trials; TAP on
 * standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR "/tmp/kept"
#define SECTOR 512
#define WORDS (SECTOR / 8)
#define LENGTH (24L << 20)
#define SECTORS (LENGTH / SECTOR)
#define PAGE 4096L
#define THREADS 4
/* Sectors of one step at most. */
#define SPAN 40

/* As trials/src/faulty_fs/disk.rs has it. */
static void make(uint64_t *at, uint64_t first)
{
    at[0] = first;
    for (int i = 1; i < WORDS; i++) {
        uint64_t mixed = first + i * 0x9e3779b97f4a7c15;
        at[i] = first ? (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9 : 0;
    }
}

static int is(const uint64_t *at, uint64_t first)
{
    uint64_t sector[WORDS];
    make(sector, first);
    return !memcmp(at, sector, SECTOR);
}

struct file {
    int number, fd;
    long steps, wrong, refused, faults;
    long size; /* In sectors. */
    uint64_t random;
    uint32_t version[SECTORS];
    uint64_t buffer[SPAN * WORDS];
};

static struct file files[THREADS];

static uint64_t first_of(const struct file *file, long sector)
{
    uint64_t version = file->version[sector];
    return version ? (version << 32 | (uint64_t)sector << 3 | file->number) * 0xd1342543de82ef95 : 0;
}

static long any(struct file *file, long below)
{
    file->random ^= file->random << 13;
    file->random ^= file->random >> 7;
    file->random ^= file->random << 17;
    return file->random % below;
}

/* Where the running thread goes on when a page of its mapping cannot be had. */
static __thread sigjmp_buf fault;
static void on_bus(int number)
{
    (void)number;
    siglongjmp(fault, 1);
}

static void wrong(struct file *file, const char *what, long sector, uint64_t seen)
{
    if (file->wrong++ < 3)
        printf("# file %d: %s sector %ld: %lx, expected %lx\n", file->number, what, sector, seen,
               first_of(file, sector));
}

static void compare(struct file *file, const uint64_t *bytes, long sector, long count, const char *what)
{
    for (long i = 0; i < count; i++)
        if (!is(bytes + i * WORDS, first_of(file, sector + i)))
            wrong(file, what, sector + i, bytes[i * WORDS]);
}

/* The step's sectors, inside the file. */
static long some(struct file *file, long *sector)
{
    *sector = any(file, file->size);
    long count = 1 + any(file, SPAN);
    return *sector + count > file->size ? file->size - *sector : count;
}

static void by_read(struct file *file)
{
    long sector, count = some(file, &sector);
    ssize_t got = pread(file->fd, file->buffer, count * SECTOR, sector * SECTOR);
    if (got < 0 && errno == EIO) {
        file->refused++;
        return;
    }
    /* Short, where what comes next could not be filled. */
    if (got <= 0 || got % SECTOR)
        wrong(file, "read of", sector, got);
    else
        compare(file, file->buffer, sector, got / SECTOR, "read");
}

static void by_write(struct file *file)
{
    long sector, count = some(file, &sector);
    for (long i = 0; i < count; i++) {
        file->version[sector + i]++;
        make(file->buffer + i * WORDS, first_of(file, sector + i));
    }
    ssize_t put = pwrite(file->fd, file->buffer, count * SECTOR, sector * SECTOR);
    long done = put < 0 ? 0 : put / SECTOR;
    if (put < 0 && errno == EIO)
        file->refused++;
    else if (put <= 0 || put % SECTOR)
        wrong(file, "write of", sector, put);
    for (long i = done; i < count; i++)
        file->version[sector + i]--;
}

/* A sector of which only a part was stored becomes whole. */
static void again(struct file *file, long sector)
{
    uint64_t whole[WORDS];
    make(whole, first_of(file, sector));
    for (int i = 0; i < 100; i++)
        if (pwrite(file->fd, whole, SECTOR, sector * SECTOR) == SECTOR)
            return;
    wrong(file, "never written again", sector, errno);
}

static void by_mapping(struct file *file, int shared)
{
    const long page = any(file, file->size / 8);
    volatile long pages = 1 + any(file, 8);
    if ((page + pages) * 8 > file->size)
        pages = file->size / 8 - page;
    uint64_t *map = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE, file->fd,
                         page * PAGE);
    if (map == MAP_FAILED) {
        wrong(file, "no map of", page * 8, errno);
        return;
    }
    for (volatile int i = 0; i < 6; i++) {
        long at = any(file, pages * 8), sector = page * 8 + at;
        volatile int begun = 0;
        if (sigsetjmp(fault, 1)) {
            file->faults++;
            if (begun)
                again(file, sector);
            continue;
        }
        if (!is(map + at * WORDS, first_of(file, sector)))
            wrong(file, shared ? "shared" : "private", sector, map[at * WORDS]);
        if (any(file, 2)) {
            /* The first store faults, or none. */
            *(volatile uint64_t *)(map + at * WORDS) = map[at * WORDS];
            if (shared) {
                file->version[sector]++;
                begun = 1;
                make(map + at * WORDS, first_of(file, sector));
            } else {
                memset(map + at * WORDS, 0xee, SECTOR);
            }
        }
        if (!shared) {
            /* A copy goes back, so that the next look is at the file. */
            madvise(map, pages * PAGE, MADV_DONTNEED);
        }
    }
    munmap(map, pages * PAGE);
}

static void cut(struct file *file)
{
    long size = 8 * (1 + any(file, SECTORS / 8));
    if (size > file->size - 4096 && any(file, 4))
        size = file->size;
    if (ftruncate(file->fd, size * SECTOR)) {
        wrong(file, "truncation to", 0, size);
        return;
    }
    for (long i = size; i < SECTORS; i++)
        file->version[i] = 0;
    if (ftruncate(file->fd, LENGTH))
        wrong(file, "truncation to", 0, LENGTH);
}

static void *step(void *argument)
{
    struct file *file = argument;
    for (long i = 0; i < file->steps; i++) {
        long what = any(file, 1000);
        if (what < 350)
            by_read(file);
        else if (what < 700)
            by_write(file);
        else if (what < 900)
            by_mapping(file, 1);
        else if (what < 990)
            by_mapping(file, 0);
        else if (what < 998)
            fsync(file->fd);
        else
            cut(file);
    }
    return 0;
}

static int plan(const char *text)
{
    int fd = open(DIR "/plan", O_WRONLY), good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return good;
}

static void asked(long *fills, long *stores)
{
    char text[100] = "";
    int fd = open(DIR "/plan", O_RDONLY);
    read(fd, text, sizeof text - 1);
    close(fd);
    sscanf(text, "fills %ld stores %ld", fills, stores);
}

static long all(long (*of)(struct file *))
{
    long sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += of(&files[i]);
    return sum;
}
static long wrong_of(struct file *file) { return file->wrong; }
static long refused_of(struct file *file) { return file->refused; }
static long faults_of(struct file *file) { return file->faults; }

static void run(long steps)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        files[i].steps = steps;
        if (pthread_create(&threads[i], 0, step, &files[i]))
            wrong(&files[i], "no thread", 0, errno);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
}

/* Every sector of every file, from the beginning on. */
static void sweep(const char *name)
{
    for (int i = 0; i < THREADS; i++) {
        struct file *file = &files[i];
        for (long at = 0; at < SECTORS; at += SPAN) {
            long count = SECTORS - at < SPAN ? SECTORS - at : SPAN;
            if (pread(file->fd, file->buffer, count * SECTOR, at * SECTOR) != count * SECTOR)
                wrong(file, "read of", at, -1);
            else
                compare(file, file->buffer, at, count, "swept");
        }
    }
    equal(all(wrong_of), 0, name);
}

/* All files mapped at once, which is more than there is memory: pages that programs have mapped leave,
 * too. */
static void mapped(void)
{
    uint64_t *maps[THREADS];
    for (int i = 0; i < THREADS; i++) {
        /* Of each second a copy would be its own. */
        maps[i] = mmap(0, LENGTH, PROT_READ | (i % 2 ? PROT_WRITE : 0), i % 2 ? MAP_PRIVATE : MAP_SHARED,
                       files[i].fd, 0);
        if (maps[i] == MAP_FAILED)
            wrong(&files[i], "no map", 0, errno);
    }
    for (int turn = 0; turn < 2 && !all(wrong_of); turn++)
        for (int i = 0; i < THREADS; i++)
            for (long at = turn; at < SECTORS; at += 8)
                if (!is(maps[i] + at * WORDS, first_of(&files[i], at)))
                    wrong(&files[i], "mapped", at, maps[i][at * WORDS]);
    equal(all(wrong_of), 0, "mapped as a whole they are those of the model");
    /* A locked page stays. */
    unsigned char there[256];
    check(!mlock(maps[0], sizeof there * PAGE), "a part is locked");
    for (int i = 1; i < THREADS; i++)
        for (long at = 0; at < SECTORS; at += 8)
            if (!is(maps[i] + at * WORDS, first_of(&files[i], at)))
                wrong(&files[i], "mapped", at, maps[i][at * WORDS]);
    long resident = 0;
    check(!mincore(maps[0], sizeof there * PAGE, there), "and looked at when much was read");
    for (unsigned i = 0; i < sizeof there; i++)
        resident += there[i] & 1;
    equal(resident, sizeof there, "it is in memory");
    for (int i = 0; i < THREADS; i++)
        munmap(maps[i], LENGTH);
    equal(all(wrong_of), 0, "and the others are those of the model still");
}

static void failing_fills(void)
{
    int fd = open(DIR "/4", O_RDWR);
    char page[PAGE];
    memset(page, 0, sizeof page);
    check(!ftruncate(fd, 64 * PAGE) && plan("fills 1\n"), "no page can be filled");
    fails(pread(fd, page, 10, 5 * PAGE), EIO, "a read says so");
    fails(pwrite(fd, "x", 1, 5 * PAGE + 1), EIO, "a write of a part of a page, too");
    volatile char *map = mmap(0, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int writes = 0; writes < 2; writes++) {
        volatile int hit = 0;
        if (sigsetjmp(fault, 1))
            hit = 1;
        else if (writes)
            map[7 * PAGE] = 1;
        else
            (void)map[7 * PAGE];
        check(hit, writes ? "a store is SIGBUS" : "a load of its mapping is SIGBUS");
    }
    equal(pwrite(fd, page, PAGE, 5 * PAGE), PAGE, "a whole page is written all the same");
    check(plan("fills 0\n"), "it can again");
    check(pread(fd, page, 10, 6 * PAGE) == 10 && !page[0], "read then");
    map[7 * PAGE] = 0;
    check(!map[7 * PAGE] && !fsync(fd), "and nothing else is left of it");
    munmap((void *)map, 64 * PAGE);
    close(fd);
}

static void failing_stores(void)
{
    uint64_t sector[WORDS];
    make(sector, 77);
    int a = open(DIR "/4", O_RDWR), b = open(DIR "/4", O_RDWR), other = open(DIR "/3", O_RDONLY);
    check(plan("stores 1\n") && pwrite(a, sector, SECTOR, 0) == SECTOR, "written, and cannot be stored");
    fails(fsync(a), EIO, "fsync says so");
    equal(fsync(a), 0, "once");
    fails(fdatasync(b), EIO, "to each description");
    equal(fdatasync(b), 0, "once");
    equal(fsync(other), 0, "and to none of another file");
    fails(syncfs(other), EIO, "whose syncfs says it");
    equal(syncfs(other), 0, "once");
    check(pread(b, sector, SECTOR, 0) == SECTOR && is(sector, 77),
          "what was written is there as long as it is kept");
    int late = open(DIR "/4", O_RDWR);
    equal(fsync(late), 0, "who comes later is told nothing");
    check(plan("full 1\n") && pwrite(a, sector, SECTOR, SECTOR) == SECTOR, "again");
    void *map = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, late, 0);
    fails(msync(map, PAGE, MS_SYNC), ENOSPC, "no room: msync says it");
    fails(fsync(late), ENOSPC, "fsync, too");
    check(plan("stores 0\nfull 0\n") && pwrite(a, sector, SECTOR, 0) == SECTOR, "there is room again");
    fails(fsync(a), ENOSPC, "who was not told is told");
    check(!fsync(a) && !fsync(late) && !msync(map, PAGE, MS_SYNC), "and then all is stored");
    munmap(map, PAGE);
    close(a), close(b), close(late), close(other);
}

static void names(void)
{
    char path[100], target[100] = "", line[300];
    int found = 0;
    void *map = mmap(0, PAGE, PROT_READ, MAP_SHARED, files[0].fd, 0);
    sprintf(path, "/proc/self/map_files/%lx-%lx", (long)map, (long)map + PAGE);
    int fd = open(path, O_RDONLY);
    struct stat one, two;
    check(fd >= 0 && !fstat(fd, &one) && !fstat(files[0].fd, &two) && one.st_ino == two.st_ino &&
              one.st_dev == two.st_dev,
          "a mapping's file is opened by /proc/self/map_files");
    close(fd);
    readlink(path, target, sizeof target - 1);
    check(!strcmp(target, DIR "/0"), "which names it");
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, " " DIR "/0\n") && strtoul(line, 0, 16) == (unsigned long)map;
    fclose(maps);
    check(found, "as /proc/self/maps does");
    munmap(map, PAGE);
}

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 400, fills, stores, before, more;
    signal(SIGBUS, on_bus);
    check(!mkdir(DIR, 0755) && !mount("none", DIR, "kept", 0, ""), "mounted");
    for (int i = 0; i < THREADS; i++) {
        char path[100];
        struct file *file = &files[i];
        sprintf(path, DIR "/%d", i);
        file->number = i, file->random = 0x9e3779b97f4a7c15 * (i + 1), file->size = SECTORS;
        file->fd = open(path, O_RDWR);
        for (long at = 0; at < SECTORS; at += SPAN) {
            long count = SECTORS - at < SPAN ? SECTORS - at : SPAN;
            for (long j = 0; j < count; j++) {
                file->version[at + j] = 1;
                make(file->buffer + j * WORDS, first_of(file, at + j));
            }
            if (pwrite(file->fd, file->buffer, count * SECTOR, at * SECTOR) != count * SECTOR)
                wrong(file, "first write of", at, errno);
        }
    }
    equal(all(wrong_of), 0, "four files, larger than memory, are written");
    asked(&fills, &before);
    check(before > 100, "most of them are stored by now");
    sweep("and read again");
    asked(&more, &stores);
    check(more > fills + 200, "which had to be filled again");
    names();
    mapped();
    check(plan("delay 200\n"), "what keeps them is slow");
    run(steps);
    equal(all(wrong_of), 0, "four threads: always those of a model");
    check(plan("delay 50\nfills 7\n"), "every seventh fill fails");
    run(steps);
    equal(all(wrong_of), 0, "those of a model or an error");
    printf("# %ld calls refused, %ld faults\n", all(refused_of), all(faults_of));
    check(all(refused_of) > 5 && all(faults_of) > 5, "and there were errors of both kinds");
    check(plan("delay 0\nfills 0\n"), "all goes well again");
    for (int i = 0; i < THREADS; i++)
        if (fsync(files[i].fd))
            wrong(&files[i], "fsync of", 0, errno);
    sweep("what is stored is those of the model, too");
    failing_fills();
    failing_stores();
    for (int i = 0; i < THREADS; i++)
        close(files[i].fd);
    equal(umount(DIR), 0, "unmounted");
    return done();
}

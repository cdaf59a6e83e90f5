/* Checks what is said of files by every way to ask, and lists of directories; passes on Linux and must pass
 * here.
 *
 * Interface: metadata [GROUP...] runs all groups or those named; TAP on standard output. Started as root
 * where it may make devices.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096L
#define LONG "a-directory-with-a-name-that-is-rather-long"

static long raw_stat(const char *path, struct stat *st) { return syscall(SYS_stat, path, st); }
static long raw_lstat(const char *path, struct stat *st) { return syscall(SYS_lstat, path, st); }
static long raw_fstat(int fd, struct stat *st) { return syscall(SYS_fstat, fd, st); }
static long raw_at(int fd, const char *path, struct stat *st, int flags)
{
    return syscall(SYS_newfstatat, fd, path, st, flags);
}

static void make(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    check(fd >= 0 && write(fd, "12345", 5) == 5, path);
    close(fd);
}

static int same_time(struct statx_timestamp a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Whether both say the same, and statx does. */
static int agree(struct stat *one, struct stat *other, struct statx *x)
{
    return memcmp(one, other, sizeof *one) == 0 && one->st_ino == x->stx_ino && one->st_mode == x->stx_mode &&
           one->st_nlink == x->stx_nlink && one->st_uid == x->stx_uid && one->st_gid == x->stx_gid &&
           (unsigned long)one->st_size == x->stx_size && one->st_blksize == x->stx_blksize &&
           (unsigned long)one->st_blocks == x->stx_blocks && same_time(x->stx_atime, one->st_atim) &&
           same_time(x->stx_mtime, one->st_mtim) && same_time(x->stx_ctime, one->st_ctim);
}

/* Whether all ways say the same of what `path` names, which is no link; by descriptor they are asked
 * twice, at a low and a high number. */
static int all_agree(const char *path)
{
    struct stat st[8];
    struct statx x;
    memset(st, 0x5a, sizeof st);
    int fd = open(path, O_RDONLY | O_NONBLOCK), high = fcntl(fd, F_DUPFD, 100);
    int good = raw_fstat(fd, &st[0]) == 0 && raw_fstat(high, &st[1]) == 0 && raw_stat(path, &st[2]) == 0 &&
               raw_lstat(path, &st[3]) == 0 && raw_at(AT_FDCWD, path, &st[4], 0) == 0 &&
               raw_at(AT_FDCWD, path, &st[5], AT_SYMLINK_NOFOLLOW) == 0 &&
               raw_at(fd, "", &st[6], AT_EMPTY_PATH) == 0 && raw_at(high, "", &st[7], AT_EMPTY_PATH) == 0 &&
               statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) == 0;
    for (int i = 0; good && i < 8; i++)
        good = agree(&st[0], &st[i], &x);
    close(fd);
    close(high);
    return good;
}

/* --- ways to ask --- */

static void ways(void)
{
    struct stat st, other;
    int root = open("/", O_RDONLY);
    equal(raw_stat("/proc", &st) == 0 && raw_at(root, "/proc", &other, AT_EMPTY_PATH) == 0 &&
              other.st_ino == st.st_ino && other.st_dev == st.st_dev,
          1, "a path counts where an empty one is allowed");
    equal(raw_at(root, "proc", &other, AT_EMPTY_PATH) == 0 && other.st_ino == st.st_ino &&
              other.st_dev == st.st_dev,
          1, "from there, too");
    close(root);
    char path[400];
    mkdir("looks", 0755);
    mkdir("looks/two", 0755);
    mkdir("looks/two/" LONG, 0755);
    make("looks/file");
    make("looks/two/eight-by");
    make("looks/two/nine-byte");
    make("looks/two/" LONG "/file");
    symlink("file", "looks/link");
    symlink("two", "looks/way");
    mkfifo("looks/fifo", 0600);
    check(all_agree("looks/file"), "a file");
    check(all_agree("looks/two/eight-by") && all_agree("looks/two/nine-byte"),
          "names of eight and of nine bytes");
    check(all_agree("looks/two/" LONG "/file"), "a long path");
    check(all_agree("looks/two"), "a directory");
    check(all_agree("looks//two///nine-byte"), "several slashes");
    check(all_agree("looks/fifo"), "a pipe with a name");
    check(all_agree("/dev/null"), "a device");
    check(all_agree("/"), "the root");
    check(all_agree(".") && all_agree("looks/.") && all_agree("looks/two/..") &&
              all_agree("looks/two/../file"),
          "dots");
    check(all_agree("looks/two/"), "a slash at the end");
    equal(raw_stat("looks/link", &st) == 0 && S_ISREG(st.st_mode), 1, "stat follows a link");
    equal(raw_lstat("looks/link", &st) == 0 && S_ISLNK(st.st_mode) && st.st_size == 4, 1,
          "lstat says how long its text is");
    equal(raw_at(AT_FDCWD, "looks/link", &st, 0) == 0 && S_ISREG(st.st_mode), 1, "newfstatat follows it");
    equal(raw_at(AT_FDCWD, "looks/link", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode), 1, "or not");
    equal(raw_stat("looks/way/nine-byte", &st) == 0 && raw_lstat("looks/way/nine-byte", &other) == 0 &&
              st.st_ino == other.st_ino,
          1, "by a link");
    int dir = open("looks", O_RDONLY | O_DIRECTORY), place = open("looks", O_PATH);
    raw_stat("looks/two/nine-byte", &other);
    equal(raw_at(dir, "two/nine-byte", &st, 0) == 0 && st.st_ino == other.st_ino, 1, "from a directory");
    equal(raw_at(place, "two/nine-byte", &st, 0) == 0 && st.st_ino == other.st_ino, 1, "from a place");
    equal(raw_fstat(place, &st) == 0 && S_ISDIR(st.st_mode), 1, "fstat of a place");
    getcwd(path, 300);
    strcat(path, "/looks/two/nine-byte");
    equal(raw_at(dir, path, &st, 0) == 0 && st.st_ino == other.st_ino, 1,
          "a path from the root, whatever the directory");
    equal(raw_at(-5, path, &st, 0), 0, "even with none");
    int file = open("looks/file", O_RDONLY);
    fails(raw_at(file, "two", &st, 0), ENOTDIR, "from a file");
    fails(raw_at(-5, "two", &st, 0), EBADF, "from none");
    fails(raw_stat("looks/none", &st), ENOENT, "a name that is not there");
    fails(raw_lstat("looks/none", &st), ENOENT, "lstat");
    fails(raw_at(dir, "none", &st, 0), ENOENT, "from a directory");
    fails(raw_stat("looks/none/file", &st), ENOENT, "in the middle");
    fails(raw_stat("looks/none/", &st), ENOENT, "with a slash behind it");
    fails(raw_stat("looks/.none", &st), ENOENT, "one that begins with a dot");
    fails(raw_stat("looks/file/", &st), ENOTDIR, "a file with a slash behind it");
    fails(raw_stat("looks/file/none", &st), ENOTDIR, "below a file");
    fails(raw_stat("", &st), ENOENT, "an empty path");
    fails(raw_at(dir, "", &st, 0), ENOENT, "unless it is allowed");
    memset(path, 'n', 300);
    path[300] = 0;
    fails(raw_stat(path, &st), ENAMETOOLONG, "a name that is too long");
    fails(raw_at(dir, "two", &st, 0x10000), EINVAL, "an unknown flag");
    fails(raw_fstat(-1, &st), EBADF, "fstat of no descriptor");
    fails(raw_fstat(63, &st), EBADF, "of one that is not open");
    fails(raw_fstat(4000, &st), EBADF, "of a high one");
    close(dir);
    close(place);
    close(file);
}

/* --- memory that is not there --- */

static void memory(void)
{
    struct stat st;
    char *pages = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + PAGE, PAGE);
    int fd = open("looks/file", O_RDONLY);
    void *kernel = (void *)0xffffffff80000000;
    fails(raw_fstat(fd, (void *)8), EFAULT, "fstat to an address that is not there");
    fails(raw_fstat(fd, kernel), EFAULT, "or the kernel's");
    fails(raw_fstat(fd, (void *)(pages + PAGE - 8)), EFAULT, "or only begins");
    fails(raw_stat("looks/file", (void *)8), EFAULT, "stat");
    fails(raw_stat("looks/file", kernel), EFAULT, "to the kernel");
    fails(raw_stat("looks/file", (void *)(pages + PAGE - 136)), EFAULT, "or beyond the end");
    fails(raw_at(fd, "", kernel, AT_EMPTY_PATH), EFAULT, "newfstatat");
    fails(raw_stat((char *)8, &st), EFAULT, "a path that is not there");
    fails(raw_stat(kernel, &st), EFAULT, "or the kernel's");
    memset(pages + PAGE - 64, 'x', 64);
    fails(raw_stat(pages + PAGE - 3, &st), EFAULT, "or has no end");
    strcpy(pages + PAGE - 11, "looks/file");
    equal(raw_stat(pages + PAGE - 11, &st), 0, "one that ends with its page");
    equal(raw_fstat(fd, (void *)(pages + PAGE - sizeof st)), 0, "a place that ends with its page");
    equal(raw_stat("looks/file", (void *)(pages + 2 * PAGE + 16)), 0, "a fresh page");
    check(memcmp(pages + PAGE - sizeof st, pages + 2 * PAGE + 16, sizeof st) == 0, "and both say the same");
    char *fixed = mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fails(raw_fstat(fd, (void *)fixed), EFAULT, "memory that may not be written");
    close(fd);
}

/* --- what changes is said --- */

static void changes(void)
{
    struct stat a, b;
    int fd = open("looks/changing", O_CREAT | O_RDWR, 0640);
    raw_fstat(fd, &a);
    equal(a.st_size == 0 && a.st_blocks == 0 && a.st_nlink == 1 && (a.st_mode & 07777) == 0640, 1,
          "a new file");
    equal(write(fd, "x", 1) == 1 && raw_fstat(fd, &b) == 0 && b.st_size == 1 && b.st_blocks == 8, 1,
          "what is written");
    usleep(20000);
    equal(pwrite(fd, "y", 1, 0) == 1 && write(fd, "z", 1) == 1 && all_agree("looks/changing"), 1,
          "is said by all");
    raw_fstat(fd, &a);
    check(a.st_size == 2 && (a.st_mtim.tv_sec != b.st_mtim.tv_sec || a.st_mtim.tv_nsec != b.st_mtim.tv_nsec),
          "with another time");
    equal(fchmod(fd, 04711) == 0 && raw_fstat(fd, &b) == 0 && (b.st_mode & 07777) == 04711 &&
              all_agree("looks/changing"),
          1, "permissions");
    struct timespec times[2] = {{1234567, 89}, {7654321, 98}};
    equal(futimens(fd, times) == 0 && raw_fstat(fd, &b) == 0 && b.st_atim.tv_sec == 1234567 &&
              b.st_atim.tv_nsec == 89 && b.st_mtim.tv_sec == 7654321 && b.st_mtim.tv_nsec == 98 &&
              all_agree("looks/changing"),
          1, "times");
    if (geteuid() == 0)
        equal(fchown(fd, 12, 34) == 0 && raw_stat("looks/changing", &b) == 0 && b.st_uid == 12 &&
                  b.st_gid == 34 && all_agree("looks/changing"),
              1, "owners");
    equal(link("looks/changing", "looks/other") == 0 && raw_fstat(fd, &b) == 0 && b.st_nlink == 2 &&
              all_agree("looks/other"),
          1, "names");
    equal(unlink("looks/other") == 0 && raw_fstat(fd, &b) == 0 && b.st_nlink == 1, 1, "fewer names");
    equal(ftruncate(fd, 3 * PAGE) == 0 && raw_fstat(fd, &b) == 0 && b.st_size == 3 * PAGE && b.st_blocks == 8,
          1, "a hole");
    equal(pwrite(fd, "w", 1, 2 * PAGE) == 1 && raw_fstat(fd, &b) == 0 && b.st_blocks == 16 &&
              all_agree("looks/changing"),
          1, "another page");
    equal(ftruncate(fd, 0) == 0 && raw_fstat(fd, &b) == 0 && b.st_size == 0 && b.st_blocks == 0, 1,
          "a shorter file");
    equal(rename("looks/changing", "looks/two/moved") == 0 && all_agree("looks/two/moved"), 1,
          "another name");
    fails(raw_stat("looks/changing", &b), ENOENT, "the old one");
    equal(rename("looks/two/moved", "looks/file") == 0 && raw_stat("looks/file", &b) == 0 &&
              b.st_ino == a.st_ino,
          1, "in the place of another");
    equal(unlink("looks/file") == 0 && raw_fstat(fd, &b) == 0 && b.st_nlink == 0, 1, "no name");
    fails(raw_stat("looks/file", &b), ENOENT, "nobody finds it");
    close(fd);
    raw_stat("looks/two", &a);
    equal(mkdir("looks/two/three", 0700) == 0 && raw_stat("looks/two", &b) == 0 &&
              b.st_nlink == a.st_nlink + 1 && all_agree("looks/two"),
          1, "a directory more");
    equal(rmdir("looks/two/three") == 0 && raw_stat("looks/two", &b) == 0 && b.st_nlink == a.st_nlink &&
              b.st_size == a.st_size && all_agree("looks/two"),
          1, "one fewer");
    chmod("looks/two", 0711);
    check(all_agree("looks/two"), "its permissions");
    make("looks/file");
}

/* --- others who change it meanwhile --- */

static volatile int over;

static void *change(void *argument)
{
    (void)argument;
    for (long i = 1; !over; i++) {
        struct timespec times[2] = {{i, 5}, {i, 5}};
        utimensat(AT_FDCWD, "looks/shaken", times, 0);
        chmod("looks/shaken", i & 1 ? 0600 : 0644);
        chmod("looks", i & 1 ? 0755 : 0711);
        close(open("looks/next", O_CREAT | O_WRONLY, 0644));
        rename("looks/next", "looks/there");
        mkdir("looks/other", 0700);
        rmdir("looks/other");
    }
    return 0;
}

static void beside(void)
{
    struct stat st;
    pthread_t thread;
    int torn = 0, lost = 0, wrong = 0;
    make("looks/shaken");
    make("looks/there");
    struct timespec times[2] = {{1, 5}, {1, 5}};
    utimensat(AT_FDCWD, "looks/shaken", times, 0);
    int fd = open("looks/shaken", O_RDONLY);
    over = 0;
    pthread_create(&thread, 0, change, 0);
    for (int i = 0; i < 30000; i++) {
        struct stat *last = &st;
        lost += (i & 1 ? raw_fstat(fd, last) : raw_stat("looks/shaken", last)) != 0;
        torn += st.st_atim.tv_sec != st.st_mtim.tv_sec;
        wrong += (st.st_mode & 07777) != 0600 && (st.st_mode & 07777) != 0644;
        lost += raw_stat("looks/there", &st) != 0 ||
                raw_at(AT_FDCWD, "looks/there", &st, AT_SYMLINK_NOFOLLOW) != 0;
    }
    over = 1;
    pthread_join(thread, 0);
    close(fd);
    equal(torn, 0, "times that are set together are seen together");
    equal(wrong, 0, "permissions are the old or the new");
    equal(lost, 0, "what takes another's place is always there");
}

/* --- lists of directories --- */

#define MANY 700
static char seen[MANY];
static long cookies[MANY];

static long entries(int fd, void *at, unsigned size) { return syscall(SYS_getdents64, fd, at, size); }

/* Notes the entries in `block`; how many there are. */
static int note(char *block, long length)
{
    int count = 0;
    for (long at = 0; at < length; count++) {
        struct dirent64 *entry = (void *)(block + at);
        int i = entry->d_name[0] == 'n' ? atoi(entry->d_name + 1) : -1;
        if (i >= 0 && i < MANY) {
            seen[i]++;
            cookies[i] = entry->d_off;
        }
        at += entry->d_reclen;
    }
    return count;
}

static int once(void)
{
    int good = 0;
    for (int i = 0; i < MANY; i++)
        good += seen[i] == 1;
    return good;
}

static void lists(void)
{
    static char block[1 << 16];
    char name[64];
    mkdir("looks/many", 0700);
    for (int i = 0; i < MANY; i++) {
        /* Names of every length. */
        sprintf(name, "looks/many/n%d%.*s", i, i % 40, ".abcdefghijklmnopqrstuvwxyzabcdefghijklmn");
        close(open(name, O_CREAT | O_WRONLY, 0600));
    }
    int fd = open("looks/many", O_RDONLY | O_DIRECTORY);
    static const unsigned sizes[] = {72, 80, 200, 1000, 4096, 5000, sizeof block};
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        memset(seen, 0, sizeof seen);
        lseek(fd, 0, SEEK_SET);
        int count = 0;
        for (long length; (length = entries(fd, block, sizes[k])) > 0;)
            count += note(block, length);
        equal(count == MANY + 2 && once() == MANY, 1, "each once, by blocks of any size");
    }
    int good = 1;
    for (int i = 0; i < MANY; i += 7) {
        long next = cookies[i];
        lseek(fd, next, SEEK_SET);
        long length = entries(fd, block, 4096);
        lseek(fd, next, SEEK_SET);
        good &= length == entries(fd, block + 8192, 4096) &&
                strcmp(((struct dirent64 *)block)->d_name, ((struct dirent64 *)(block + 8192))->d_name) == 0;
    }
    check(good, "a place leads there again");
    lseek(fd, 0, SEEK_SET);
    fails(entries(fd, block, 8), EINVAL, "a block for no entry");
    fails(entries(fd, 0, 4096), EFAULT, "no block");
    char *pages = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + PAGE, PAGE);
    memset(seen, 0, sizeof seen);
    int count = 0;
    long length = entries(fd, pages + PAGE - 1000, 4096);
    check(length > 0 && length <= 1000, "a block that ends early gets what fits");
    count += note(pages + PAGE - 1000, length);
    fails(entries(fd, pages + PAGE - 20, 4096), EFAULT, "unless nothing does");
    while ((length = entries(fd, block, 4096)) > 0)
        count += note(block, length);
    equal(count == MANY + 2 && once() == MANY, 1, "and what did not fit comes next");
    /* Half go, and others come, while it is read. */
    memset(seen, 0, sizeof seen);
    lseek(fd, 0, SEEK_SET);
    for (int round = 0; (length = entries(fd, block, 1000)) > 0; round++) {
        note(block, length);
        for (long at = 0; at < length;) {
            struct dirent64 *entry = (void *)(block + at);
            at += entry->d_reclen;
            if (entry->d_name[0] == 'n' && entry->d_ino % 2)
                unlinkat(fd, entry->d_name, 0);
        }
        if (round < 50) {
            sprintf(name, "looks/many/later%d", round);
            close(open(name, O_CREAT | O_WRONLY, 0600));
        }
    }
    equal(once(), MANY, "each once while others come and go");
    lseek(fd, 0, SEEK_SET);
    while ((length = entries(fd, block, sizeof block)) > 0)
        for (long at = 0; at < length;) {
            struct dirent64 *entry = (void *)(block + at);
            at += entry->d_reclen;
            unlinkat(fd, entry->d_name, 0);
        }
    equal(rmdir("looks/many"), 0, "all gone");
    equal(entries(fd, block, 4096) <= 0, 1, "a directory that is gone has no entries");
    close(fd);
    int file = open("looks/file", O_RDONLY);
    fails(entries(file, block, 4096), ENOTDIR, "a file has none");
    fails(entries(-1, block, 4096), EBADF, "nor has no descriptor");
    close(file);
}

static void tidy(void)
{
    static const char *const files[] = {"looks/two/" LONG "/file",
                                        "looks/two/eight-by",
                                        "looks/two/nine-byte",
                                        "looks/file",
                                        "looks/link",
                                        "looks/way",
                                        "looks/fifo",
                                        "looks/shaken",
                                        "looks/there",
                                        "looks/next"};
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i]);
    rmdir("looks/two/" LONG);
    rmdir("looks/two");
    check(rmdir("looks") == 0, "nothing is left");
}

static const struct group groups[] = {
    {"ways", ways},     {"memory", memory}, {"changes", changes},
    {"beside", beside}, {"lists", lists},   {"tidy", tidy},
};

int main(int argc, char **argv)
{
    chdir("/tmp");
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

/* Checks what files can do beside the usual: handles (name_to_handle_at, open_by_handle_at), renames that
 * leave a whiteout, truncation of what is sealed, paths that lead elsewhere later; passes on Linux (as
 * root) and must pass here.
 *
 * Interface: file-handles [GROUP...] runs all groups or those named; TAP on standard output. In a directory
 * on a file system in memory.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <dirent.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define TOP "/tmp/handles"
#define USER 1000

static struct {
    struct file_handle head;
    unsigned char bytes[MAX_HANDLE_SZ];
} one, two;
static int mount_id, other_id;

/* A file with `text` in it. */
static void make(const char *path, const char *text)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        check(0, "a file is made");
    close(fd);
}

static int says(int fd, const char *text)
{
    char found[64] = "";
    return pread(fd, found, sizeof found - 1, 0) >= 0 && strcmp(found, text) == 0;
}

/* `run`'s answer in a child that has user 1000's rights. */
static int as_user(int (*run)(void))
{
    pid_t child = fork();
    if (child == 0) {
        if (setgid(USER) || setuid(USER))
            _exit(99);
        _exit(run());
    }
    int status = status_of(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int name(int dir, const char *path, int flags)
{
    one.head.handle_bytes = MAX_HANDLE_SZ;
    return name_to_handle_at(dir, path, &one.head, &mount_id, flags);
}

static void naming(void)
{
    make(TOP "/file", "abc");
    equal(name(AT_FDCWD, TOP "/file", 0), 0, "a file has a handle");
    check(one.head.handle_bytes >= 8 && one.head.handle_bytes <= MAX_HANDLE_SZ &&
              one.head.handle_bytes % 4 == 0,
          "of some words");
    two.head.handle_bytes = MAX_HANDLE_SZ;
    equal(name_to_handle_at(AT_FDCWD, TOP "/../handles/file", &two.head, &other_id, 0), 0,
          "by another path, too");
    check(two.head.handle_bytes == one.head.handle_bytes && two.head.handle_type == one.head.handle_type &&
              memcmp(one.bytes, two.bytes, one.head.handle_bytes) == 0,
          "it is the same");
    equal(mount_id, other_id, "of the same mount");
    two.head.handle_bytes = 0;
    fails(name_to_handle_at(AT_FDCWD, TOP "/file", &two.head, &other_id, 0), EOVERFLOW, "no room for it");
    equal(two.head.handle_bytes, one.head.handle_bytes, "its length is told");
    two.head.handle_bytes = MAX_HANDLE_SZ + 1;
    fails(name_to_handle_at(AT_FDCWD, TOP "/file", &two.head, &other_id, 0), EINVAL, "longer than any");
    fails(name(AT_FDCWD, TOP "/none", 0), ENOENT, "no such file");
    fails(name(AT_FDCWD, "", 0), ENOENT, "no path");
    fails(name(AT_FDCWD, TOP "/file", 0x20), EINVAL, "no such flag");
    fails(name(77, "file", 0), EBADF, "no such descriptor");
    fails(name_to_handle_at(AT_FDCWD, TOP "/file", (void *)8, &mount_id, 0), EFAULT,
          "a wrong address of the handle");
    one.head.handle_bytes = MAX_HANDLE_SZ;
    fails(name_to_handle_at(AT_FDCWD, TOP "/file", &one.head, (void *)8, 0), EFAULT, "and of the mount");
    fails(name(AT_FDCWD, "/proc/self/status", 0), EOPNOTSUPP, "files of /proc have none");
    int ends[2];
    check(pipe(ends) == 0, "a pipe");
    fails(name(ends[0], "", AT_EMPTY_PATH), EOPNOTSUPP, "has none");
    close(ends[0]);
    close(ends[1]);
    int fd = open(TOP "/file", O_RDONLY);
    equal(name(fd, "", AT_EMPTY_PATH), 0, "an open file has one");
    check(memcmp(one.bytes, two.bytes, one.head.handle_bytes) == 0 || one.head.handle_bytes, "of some bytes");
    close(fd);
    symlink("file", TOP "/link");
    equal(name(AT_FDCWD, TOP "/link", 0), 0, "a link has one");
    two = one;
    equal(name(AT_FDCWD, TOP "/link", AT_SYMLINK_FOLLOW), 0, "or what it leads to");
    check(memcmp(one.bytes, two.bytes, one.head.handle_bytes) != 0, "which is another");
}

static int user_names(void) { return name(AT_FDCWD, TOP "/file", 0) != 0; }

static int user_opens(void)
{
    int dir = open(TOP, O_RDONLY);
    return open_by_handle_at(dir, &one.head, O_RDONLY) == -1 ? errno : 0;
}

static void opening(void)
{
    make(TOP "/file", "abc");
    int dir = open(TOP, O_RDONLY | O_DIRECTORY);
    equal(name(dir, "file", 0), 0, "a handle");
    int fd = open_by_handle_at(dir, &one.head, O_RDWR);
    check(fd >= 0 && says(fd, "abc"), "opens the file");
    check(fcntl(fd, F_GETFL) & O_RDWR, "as asked for");
    equal(fcntl(fd, F_GETFD), 0, "and stays open in a program");
    close(fd);
    fd = open_by_handle_at(dir, &one.head, O_RDONLY | O_CLOEXEC);
    equal(fcntl(fd, F_GETFD), FD_CLOEXEC, "or not");
    fails(write(fd, "x", 1), EBADF, "what is opened to read is not written");
    close(fd);
    rename(TOP "/file", TOP "/moved");
    int file = open(TOP "/moved", O_RDONLY);
    fd = open_by_handle_at(file, &one.head, O_RDONLY);
    check(fd >= 0 && says(fd, "abc"), "by any file of the mount, and whatever it is called now");
    close(fd);
    unlink(TOP "/moved");
    fd = open_by_handle_at(dir, &one.head, O_RDONLY);
    check(fd >= 0 && says(fd, "abc"), "even one without a name, while it is open");
    close(fd);
    close(file);
    fails(open_by_handle_at(dir, &one.head, O_RDONLY), ESTALE, "and then no more");
    make(TOP "/file", "new");
    fails(open_by_handle_at(dir, &one.head, O_RDONLY), ESTALE, "nor for another of its name");
    equal(name(AT_FDCWD, TOP "/file", 0), 0, "which has its own");
    fd = open_by_handle_at(dir, &one.head, O_WRONLY | O_TRUNC);
    check(fd >= 0, "it is opened and made empty");
    struct stat stat;
    equal(fstat(fd, &stat) == 0 ? stat.st_size : -1, 0, "it is empty");
    close(fd);
    fails(open_by_handle_at(dir, &one.head, O_RDONLY | O_DIRECTORY), ENOTDIR, "it is no directory");
    fails(open_by_handle_at(dir, &one.head, O_RDONLY | O_CREAT | O_EXCL), EEXIST, "it is there");
    fd = open_by_handle_at(dir, &one.head, O_PATH);
    check(fd >= 0 && read(fd, &stat, 1) == -1 && errno == EBADF, "as a place only");
    fails(open_by_handle_at(fd, &one.head, O_RDONLY), EBADF, "which names no mount");
    close(fd);
    fails(open_by_handle_at(77, &one.head, O_RDONLY), EBADF, "no such descriptor");
    int proc = open("/proc", O_RDONLY);
    fails(open_by_handle_at(proc, &one.head, O_RDONLY), ESTALE, "another file system");
    close(proc);
    two = one;
    two.bytes[4] ^= 0x40;
    fails(open_by_handle_at(dir, &two.head, O_RDONLY), ESTALE, "a handle of nothing");
    two.head.handle_bytes = 4;
    fails(open_by_handle_at(dir, &two.head, O_RDONLY), ESTALE, "too short a handle");
    two.head.handle_bytes = 0;
    fails(open_by_handle_at(dir, &two.head, O_RDONLY), EINVAL, "of no bytes");
    two.head.handle_bytes = MAX_HANDLE_SZ + 1;
    fails(open_by_handle_at(dir, &two.head, O_RDONLY), EINVAL, "of too many");
    fails(open_by_handle_at(dir, (void *)8, O_RDONLY), EFAULT, "a wrong address");
    chdir(TOP);
    fd = open_by_handle_at(AT_FDCWD, &one.head, O_RDONLY);
    check(fd >= 0, "by the working directory's mount");
    close(fd);
    chdir("/");
    equal(as_user(user_opens), EPERM, "who is no superuser opens none");
    equal(as_user(user_names), 0, "but may ask for one");
    equal(name(AT_FDCWD, TOP, 0), 0, "a directory");
    fd = open_by_handle_at(dir, &one.head, O_RDONLY | O_DIRECTORY);
    check(fd >= 0 && faccessat(fd, "file", F_OK, 0) == 0, "is opened");
    close(fd);
    fails(open_by_handle_at(dir, &one.head, O_RDWR), EISDIR, "and not written");
    unlink(TOP "/link");
    symlink("file", TOP "/link");
    equal(name(AT_FDCWD, TOP "/link", 0), 0, "a link");
    fails(open_by_handle_at(dir, &one.head, O_RDONLY), ELOOP, "is not followed");
    fd = open_by_handle_at(dir, &one.head, O_PATH | O_NOFOLLOW);
    check(fd >= 0 && fstat(fd, &stat) == 0 && S_ISLNK(stat.st_mode), "but is a place");
    close(fd);
    close(dir);
}

/* Handles of many files that come and go: each leads to its own. */
static void many(void)
{
    static struct {
        struct file_handle head;
        unsigned char bytes[MAX_HANDLE_SZ];
    } handles[64];
    int dir = open(TOP, O_RDONLY | O_DIRECTORY), right = 0, stale = 0;
    char path[64], text[16];
    for (int i = 0; i < 64; i++) {
        sprintf(path, TOP "/many-%d", i);
        sprintf(text, "%d", i);
        make(path, text);
        handles[i].head.handle_bytes = MAX_HANDLE_SZ;
        name_to_handle_at(AT_FDCWD, path, &handles[i].head, &mount_id, 0);
    }
    for (int i = 0; i < 64; i += 2) {
        sprintf(path, TOP "/many-%d", i);
        unlink(path);
    }
    for (int i = 0; i < 64; i++) {
        sprintf(text, "%d", i);
        int fd = open_by_handle_at(dir, &handles[i].head, O_RDONLY);
        right += fd >= 0 && says(fd, text);
        stale += fd == -1 && errno == ESTALE;
        close(fd);
    }
    equal(right, 32, "each that is there is found");
    equal(stale, 32, "and no other");
    for (int i = 1; i < 64; i += 2) {
        sprintf(path, TOP "/many-%d", i);
        unlink(path);
    }
    close(dir);
}

static int moved(const char *from, const char *to, int flags)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}

static int is_whiteout(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0 && stat.st_mode == S_IFCHR && stat.st_rdev == makedev(0, 0) &&
           stat.st_nlink == 1;
}

static int user_whites(void)
{
    struct stat stat;
    chdir(TOP "/own");
    return !(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_WHITEOUT) == 0 && lstat("a", &stat) == 0 &&
             stat.st_uid == USER && stat.st_mode == S_IFCHR && open("a", O_RDONLY) == -1 && errno == EACCES &&
             mknod("c", S_IFCHR, makedev(0, 0)) == 0 && mknod("d", S_IFCHR, makedev(1, 3)) == -1 &&
             errno == EPERM && unlink("a") == 0);
}

static void whiteouts(void)
{
    make(TOP "/a", "a");
    unlink(TOP "/b");
    equal(moved(TOP "/a", TOP "/b", RENAME_WHITEOUT), 0, "a rename that leaves a whiteout");
    check(is_whiteout(TOP "/a"), "which is there");
    int fd = open(TOP "/b", O_RDONLY);
    check(says(fd, "a"), "the file has its new name");
    close(fd);
    fails(open(TOP "/a", O_RDONLY), ENXIO, "a whiteout is not opened");
    make(TOP "/c", "c");
    equal(moved(TOP "/b", TOP "/c", RENAME_WHITEOUT), 0, "in the place of another file");
    check(is_whiteout(TOP "/b"), "a whiteout again");
    fd = open(TOP "/c", O_RDONLY);
    check(says(fd, "a"), "and that file is gone");
    close(fd);
    fails(moved(TOP "/c", TOP "/b", RENAME_WHITEOUT | RENAME_NOREPLACE), EEXIST,
          "a whiteout is a name like others");
    fails(moved(TOP "/c", TOP "/b", RENAME_WHITEOUT | RENAME_EXCHANGE), EINVAL, "not in an exchange");
    equal(unlink(TOP "/b"), 0, "it is removed as others are");
    equal(moved(TOP "/c", TOP "/b", RENAME_WHITEOUT | RENAME_NOREPLACE), 0, "where nothing was");
    check(is_whiteout(TOP "/c"), "one more");
    mkdir(TOP "/dir", 0755);
    mkdir(TOP "/above", 0755);
    struct stat above, top;
    stat(TOP, &above);
    equal(moved(TOP "/dir", TOP "/above/dir", RENAME_WHITEOUT), 0, "of a directory");
    check(is_whiteout(TOP "/dir"), "too");
    stat(TOP, &top);
    equal(above.st_nlink - top.st_nlink, 1, "which counts where it is now");
    link(TOP "/b", TOP "/d");
    equal(moved(TOP "/b", TOP "/d", RENAME_WHITEOUT), 0, "of two names of one file");
    check(!is_whiteout(TOP "/b") && !is_whiteout(TOP "/d"), "nothing becomes");
    fails(moved(TOP "/none", TOP "/d", RENAME_WHITEOUT), ENOENT, "of nothing");
    fails(moved(TOP "/b", TOP "/x", 8), EINVAL, "no such flag");
    mkdir(TOP "/full", 0755);
    mkdir(TOP "/full/in", 0755);
    fails(moved(TOP "/above/dir", TOP "/full", RENAME_WHITEOUT), ENOTEMPTY, "one that fails");
    check(!is_whiteout(TOP "/above/dir"), "leaves none");
    mkdir(TOP "/own", 0755);
    make(TOP "/own/a", "a");
    chown(TOP "/own", USER, USER);
    chown(TOP "/own/a", USER, USER);
    equal(as_user(user_whites), 0, "anybody may make them, and no other devices");
    int seen = 0;
    DIR *list = opendir(TOP);
    for (struct dirent *entry; list && (entry = readdir(list));)
        seen += strcmp(entry->d_name, "a") == 0 && entry->d_type == DT_CHR;
    if (list)
        closedir(list);
    equal(seen, 1, "one is listed as a device");
}

static void sealed(void)
{
    char path[64];
    struct stat stat;
    for (int round = 0; round < 4; round++) {
        int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
        sprintf(path, "/proc/self/fd/%d", fd);
        int shrinks = round % 2;
        check(ftruncate(fd, 8192) == 0 && fcntl(fd, F_ADD_SEALS, shrinks ? F_SEAL_GROW : F_SEAL_SHRINK) == 0,
              "a sealed file");
        int writer = open(path, O_RDWR);
        check(writer >= 0, "is opened again");
        close(writer);
        int again = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (shrinks)
            check(again >= 0 && fstat(fd, &stat) == 0 && stat.st_size == 0, "may be made empty");
        else
            check(again == -1 && errno == EPERM && fstat(fd, &stat) == 0 && stat.st_size == 8192,
                  "may not be made shorter by an open");
        close(again);
        close(fd);
    }
    int fd = memfd_create("empty", MFD_ALLOW_SEALING);
    sprintf(path, "/proc/self/fd/%d", fd);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
    int again = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(again >= 0, "an empty one is no shorter");
    close(again);
    close(fd);
    fd = memfd_create("written", MFD_ALLOW_SEALING);
    sprintf(path, "/proc/self/fd/%d", fd);
    check(ftruncate(fd, 4096) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0,
          "one that may not be written");
    again = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(again >= 0 && fstat(fd, &stat) == 0 && stat.st_size == 0, "may be made empty all the same");
    close(again);
    close(fd);
}

/* The file that an open of `path` finds, by its first byte. */
static int found(const char *path)
{
    char byte = 0;
    int fd = open(path, O_RDONLY);
    if (fd >= 0 && pread(fd, &byte, 1, 0) != 1)
        byte = 0;
    close(fd);
    return byte;
}

/* Paths that lead elsewhere from one moment to the next, or in another process, each opened often before. */
static void elsewhere(void)
{
    make(TOP "/x", "x");
    make(TOP "/y", "y");
    int right = 1, x = open(TOP "/x", O_RDONLY), y = open(TOP "/y", O_RDONLY);
    for (int i = 0; i < 4; i++)
        right &= dup2(x, 60) == 60 && found("/proc/self/fd/60") == 'x';
    check(right && dup2(y, 60) == 60 && found("/proc/self/fd/60") == 'y',
          "a descriptor's path leads to what it is now");
    pid_t child = fork();
    if (child == 0)
        _exit(dup2(x, 60) == 60 && found("/proc/self/fd/60") == 'x' && found("/dev/fd/60") == 'x' ? 0 : 1);
    equal(status_of(child), 0, "and in another process to that one's");
    mkdir(TOP "/one", 0755);
    mkdir(TOP "/two", 0755);
    make(TOP "/one/n", "1");
    make(TOP "/two/n", "2");
    chdir(TOP "/one");
    for (int i = 0; i < 4; i++)
        right &= found("/proc/self/cwd/n") == '1';
    chdir(TOP "/two");
    check(right && found("/proc/self/cwd/n") == '2', "so does the working directory's");
    chdir("/");
    close(x);
    close(y);
    close(60);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"naming", naming},       {"opening", opening}, {"many", many},
        {"whiteouts", whiteouts}, {"sealed", sealed},   {"elsewhere", elsewhere},
    };
    mkdir(TOP, 0755);
    check(mount("handles", TOP, "tmpfs", 0, 0) == 0, "a file system in memory");
    chmod(TOP, 0755);
    run_groups(GROUPS(groups), 0, argc, argv);
    check(umount(TOP) == 0, "it goes");
    rmdir(TOP);
    return done();
}

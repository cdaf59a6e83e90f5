/* Checks the tree of mounts: mounts on directories and files of other mounts, `..` out of them, moves, copies
 * of trees, flags, ends in order and at once, and what /proc and statfs say of them; passes on Linux and must
 * pass here. For root.
 *
 * Interface: mounts [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define TOP "/tmp/mounts"

static int make(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

static int says(const char *path, const char *text)
{
    char found[64] = "";
    int fd = open(path, O_RDONLY);
    ssize_t count = fd < 0 ? -1 : read(fd, found, sizeof found - 1);
    if (fd >= 0)
        close(fd);
    return count == (ssize_t)strlen(text) && memcmp(found, text, count) == 0;
}

static int tmpfs(const char *path) { return mount("none", path, "tmpfs", 0, "mode=755"); }

/* The last line of `file` whose field number `at` (from 0) is `path`, in fields; how many fields. */
static int line_of(const char *file, int at, const char *path, char fields[16][PATH_MAX])
{
    static char line[4 * PATH_MAX];
    int found = 0;
    FILE *text = fopen(file, "r");
    while (text && fgets(line, sizeof line, text)) {
        static char now[16][PATH_MAX];
        int count = 0;
        for (char *word = strtok(line, " \n"); word && count < 16; word = strtok(0, " \n"))
            strcpy(now[count++], word);
        if (count > at && strcmp(now[at], path) == 0) {
            memcpy(fields, now, sizeof now);
            found = count;
        }
    }
    if (text)
        fclose(text);
    return found;
}

static char fields[16][PATH_MAX], others[16][PATH_MAX];
static int listed(const char *path) { return line_of("/proc/self/mounts", 1, path, fields); }
static int informed(const char *path) { return line_of("/proc/self/mountinfo", 4, path, fields); }

/* Mounts in mounts, walked down and up. */
static void nesting(void)
{
    char here[PATH_MAX];
    struct stat top, in, deep, up;
    equal(tmpfs(TOP), 0, "a mount");
    check(mkdir(TOP "/a", 0755) == 0 && mkdir(TOP "/a/b", 0755) == 0 && make(TOP "/a/b/under", "under"),
          "directories in it");
    equal(tmpfs(TOP "/a/b"), 0, "a mount on one of its directories");
    check(mkdir(TOP "/a/b/c", 0755) == 0 && tmpfs(TOP "/a/b/c") == 0, "and on one of that");
    check(make(TOP "/a/b/c/file", "deep"), "a file there");
    check(says(TOP "/a/b/c/file", "deep") && says(TOP "/a/b/c/../c/file", "deep") &&
              says(TOP "/a/b/c/../../b/c/file", "deep"),
          "down and up again");
    fails(open(TOP "/a/b/under", O_RDONLY), ENOENT, "what lies below is not seen");
    stat(TOP "/a", &top);
    stat(TOP "/a/b", &in);
    stat(TOP "/a/b/c", &deep);
    check(top.st_dev != in.st_dev && in.st_dev != deep.st_dev && top.st_dev != deep.st_dev, "three devices");
    check(stat(TOP "/a/b/c/..", &up) == 0 && up.st_dev == in.st_dev && up.st_ino == in.st_ino,
          "up from a mount");
    check(stat(TOP "/a/b/..", &up) == 0 && up.st_dev == top.st_dev && up.st_ino == top.st_ino,
          "and from the one below");
    check(chdir(TOP "/a/b/c") == 0 && getcwd(here, sizeof here) && strcmp(here, TOP "/a/b/c") == 0,
          "the path of the working directory");
    check(chdir("..") == 0 && getcwd(here, sizeof here) && strcmp(here, TOP "/a/b") == 0, "and above");
    check(chdir("../..") == 0 && getcwd(here, sizeof here) && strcmp(here, TOP) == 0, "and two above that");
    chdir("/");
    fails(rmdir(TOP "/a/b"), EBUSY, "a directory under a mount stays");
    fails(rename(TOP "/a/b", TOP "/a/x"), EBUSY, "and keeps its name");
    equal(rename(TOP "/a", TOP "/z"), 0, "one above it may have another");
    check(says(TOP "/z/b/c/file", "deep"), "and leads there");
    check(listed(TOP "/z/b/c") && !listed(TOP "/a/b/c"), "mounts are shown where they are now");
    rename(TOP "/z", TOP "/a");
    fails(umount(TOP), EBUSY, "what has a mount on it stays");
    fails(umount(TOP "/a/b"), EBUSY, "in the middle too");
    fails(umount(TOP "/a"), EINVAL, "no mount is there");
    equal(umount(TOP "/a/b/c"), 0, "the last");
    fails(open(TOP "/a/b/c/file", O_RDONLY), ENOENT, "is gone");
    equal(umount(TOP "/a/b"), 0, "the next");
    check(says(TOP "/a/b/under", "under"), "what lay below is seen again");
    equal(umount(TOP), 0, "the first");
}

/* Several on one place; files under files. */
static void stacking(void)
{
    check(tmpfs(TOP) == 0 && make(TOP "/f", "1"), "one");
    check(tmpfs(TOP) == 0 && make(TOP "/f", "2"), "another on top");
    check(says(TOP "/f", "2"), "which is seen");
    equal(umount(TOP), 0, "it goes");
    check(says(TOP "/f", "1"), "the first is seen");
    check(make(TOP "/g", "other") && mkdir(TOP "/d", 0755) == 0, "a file and a directory");
    fails(mount(TOP "/g", TOP "/d", 0, MS_BIND, 0), ENOTDIR, "a file on a directory");
    fails(mount(TOP "/d", TOP "/g", 0, MS_BIND, 0), ENOTDIR, "a directory on a file");
    fails(mount("none", TOP "/g", "tmpfs", 0, 0), ENOTDIR, "a file system on a file");
    fails(mount("none", TOP "/none", "tmpfs", 0, 0), ENOENT, "on nothing");
    fails(mount("none", TOP "/d", "unheard", 0, 0), ENODEV, "of no kind");
    equal(mount(TOP "/g", TOP "/f", 0, MS_BIND, 0), 0, "a file on a file");
    check(says(TOP "/f", "other"), "shows the other");
    check(informed(TOP "/f") && strcmp(fields[3], "/g") == 0, "told as such");
    fails(unlink(TOP "/f"), EBUSY, "and is not removed");
    fails(rename(TOP "/g", TOP "/f"), EBUSY, "nor replaced");
    equal(umount(TOP "/f"), 0, "it goes");
    check(says(TOP "/f", "1"), "the file is as it was");
    mkdir(TOP "/gone", 0755);
    int gone = open(TOP "/gone", O_RDONLY | O_DIRECTORY);
    fchdir(gone);
    rmdir(TOP "/gone");
    fails(mount("none", ".", "tmpfs", 0, 0), ENOENT, "none on a directory that was removed");
    chdir("/");
    close(gone);
    equal(umount(TOP), 0, "the file system goes");
}

static void moving(void)
{
    struct stat a, up;
    check(tmpfs(TOP) == 0 && mount(0, TOP, 0, MS_PRIVATE, 0) == 0 && mkdir(TOP "/a", 0755) == 0 &&
              mkdir(TOP "/b", 0755) == 0,
          "two directories");
    check(tmpfs(TOP "/a") == 0 && mkdir(TOP "/a/sub", 0755) == 0 && tmpfs(TOP "/a/sub") == 0 &&
              make(TOP "/a/sub/file", "moved"),
          "a tree of mounts");
    int inside = open(TOP "/a/sub", O_RDONLY | O_DIRECTORY), file = open(TOP "/a/sub/file", O_RDONLY);
    fails(mount(TOP "/a", TOP "/a/sub", 0, MS_MOVE, 0), ELOOP, "not into itself");
    make(TOP "/file", "");
    fails(mount(TOP "/a", TOP "/file", 0, MS_MOVE, 0), EINVAL, "nor over a file");
    fails(mount(TOP "/b", TOP "/a", 0, MS_MOVE, 0), EINVAL, "what is no mount is not moved");
    fails(mount(TOP "/a", TOP "/none", 0, MS_MOVE, 0), ENOENT, "nor to nothing");
    equal(mount(TOP "/a", TOP "/b", 0, MS_MOVE, 0), 0, "moved");
    check(says(TOP "/b/sub/file", "moved"), "with what is on it");
    fails(open(TOP "/a/sub", O_RDONLY), ENOENT, "it is no more where it was");
    check(rmdir(TOP "/a") == 0, "and that directory is free");
    check(fstatat(inside, "../..", &up, 0) == 0 && stat(TOP, &a) == 0 && up.st_dev == a.st_dev &&
              up.st_ino == a.st_ino,
          "up from an open directory");
    char link[PATH_MAX] = "", path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    check(readlink(path, link, sizeof link - 1) > 0 && strcmp(link, TOP "/b/sub/file") == 0,
          "an open file has a new path");
    check(listed(TOP "/b") && listed(TOP "/b/sub") && !listed(TOP "/a"), "told as such");
    mkdir(TOP "/c", 0755);
    check(tmpfs(TOP "/c") == 0 && make(TOP "/c/lower", "") && mount(TOP "/b", TOP "/c", 0, MS_MOVE, 0) == 0,
          "over another mount");
    check(says(TOP "/c/sub/file", "moved"), "it lies on top");
    close(inside);
    close(file);
    check(umount(TOP "/c/sub") == 0 && umount(TOP "/c") == 0, "it goes");
    equal(access(TOP "/c/lower", F_OK), 0, "the other is seen");
    check(umount(TOP "/c") == 0 && umount(TOP) == 0, "all go");
}

/* One directory in two places, with and without what is mounted below. */
static void binding(void)
{
    check(tmpfs(TOP) == 0 && mount(0, TOP, 0, MS_PRIVATE, 0) == 0, "a mount");
    mkdir(TOP "/a", 0755);
    mkdir(TOP "/a/in", 0755);
    mkdir(TOP "/a/in/deep", 0755);
    mkdir(TOP "/a/out", 0755);
    mkdir(TOP "/b", 0755);
    check(tmpfs(TOP "/a/in/deep") == 0 && make(TOP "/a/in/deep/file", "deep") &&
              mkdir(TOP "/a/in/deep/er", 0755) == 0 && tmpfs(TOP "/a/in/deep/er") == 0,
          "two in a directory");
    check(make(TOP "/a/in/deep/er/file", "deeper") && tmpfs(TOP "/a/out") == 0, "and one beside");
    equal(mount(TOP "/a/in", TOP "/b", 0, MS_BIND, 0), 0, "the directory alone");
    check(access(TOP "/b/deep", F_OK) == 0 && access(TOP "/b/deep/file", F_OK) != 0,
          "shows what is below the mount");
    check(informed(TOP "/b") && strcmp(fields[3], "/a/in") == 0, "told as such");
    int count = informed(TOP);
    line_of("/proc/self/mountinfo", 4, TOP "/b", others);
    check(count && strcmp(fields[0], others[1]) == 0 && strcmp(fields[2], others[2]) == 0,
          "on its parent, of the same device");
    check(make(TOP "/b/new", "new") && says(TOP "/a/in/new", "new"), "one directory in two places");
    fails(link(TOP "/b/new", TOP "/a/in/link"), EXDEV, "no links between them");
    fails(rename(TOP "/b/new", TOP "/a/in/other"), EXDEV, "no renames either");
    equal(umount(TOP "/b"), 0, "it goes");
    equal(mount(TOP "/a/in", TOP "/b", 0, MS_BIND | MS_REC, 0), 0, "with all below");
    check(says(TOP "/b/deep/file", "deep") && says(TOP "/b/deep/er/file", "deeper"), "which is seen");
    check(listed(TOP "/b/deep") && listed(TOP "/b/deep/er") && !listed(TOP "/b/out"), "nothing from beside");
    fails(umount(TOP "/b"), EBUSY, "a copy has mounts of its own");
    check(umount(TOP "/a/in/deep/er") == 0 && umount(TOP "/a/in/deep") == 0, "the first ones go");
    check(says(TOP "/b/deep/er/file", "deeper"), "the copies stay");
    fails(open(TOP "/a/in/deep/file", O_RDONLY), ENOENT, "where they were is nothing");
    equal(mount(TOP, TOP "/a/in/deep", 0, MS_BIND | MS_REC, 0), 0, "a tree into itself");
    check(says(TOP "/a/in/deep/b/deep/er/file", "deeper") && access(TOP "/a/in/deep/a/in/deep/a", F_OK) != 0,
          "is copied as it was");
    equal(umount2(TOP "/a/in/deep", MNT_DETACH), 0, "a tree goes at once");
    check(!listed(TOP "/a/in/deep") && !listed(TOP "/a/in/deep/b/deep/er") && listed(TOP "/b/deep/er"),
          "it alone");
    equal(umount2(TOP, MNT_DETACH), 0, "and all");
    check(!listed(TOP) && !listed(TOP "/b/deep/er"), "none is left");
}

/* File systems in use. */
static void leaving(void)
{
    struct stat before, now;
    check(tmpfs(TOP) == 0 && mkdir(TOP "/in", 0755) == 0 && make(TOP "/in/file", "kept"), "a mount");
    int file = open(TOP "/in/file", O_RDONLY);
    fails(umount(TOP), EBUSY, "not with an open file");
    fails(umount2(TOP, MNT_EXPIRE | MNT_DETACH), EINVAL, "two ways at once");
    fails(umount2(TOP, 64), EINVAL, "a way that there is not");
    fails(umount2(TOP, MNT_EXPIRE), EBUSY, "nor if it had expired");
    close(file);
    fails(umount2(TOP, MNT_EXPIRE), EAGAIN, "which is noted first");
    equal(umount2(TOP, MNT_EXPIRE), 0, "and done then");
    check(tmpfs(TOP) == 0 && mkdir(TOP "/in", 0755) == 0 && make(TOP "/in/file", "kept"), "mounted again");
    chdir(TOP "/in");
    fails(umount(TOP), EBUSY, "nor with somebody in it");
    file = open("file", O_RDONLY);
    stat(".", &before);
    equal(umount2(TOP, MNT_DETACH), 0, "but out of the tree");
    char text[8] = "";
    check(read(file, text, sizeof text) == 4 && memcmp(text, "kept", 4) == 0, "the open file stays");
    check(stat(".", &now) == 0 && now.st_ino == before.st_ino && now.st_dev == before.st_dev,
          "so does the working directory");
    check(says("../in/file", "kept") && says("../../../in/file", "kept"), "above its root is nothing");
    fails(umount(".."), EINVAL, "it is no mount any more");
    check(mount("none", ".", "tmpfs", 0, 0) != 0, "nor takes one");
    check(!listed(TOP) && access(TOP "/in", F_OK) != 0, "others do not see it");
    close(file);
    chdir("/");
    fails(umount(TOP), EINVAL, "no mount is there");
    fails(umount("/none-such"), ENOENT, "nor anything there");
}

static void flags(void)
{
    struct statvfs all;
    check(tmpfs(TOP) == 0 && mount(0, TOP, 0, MS_PRIVATE, 0) == 0 && mkdir(TOP "/a", 0755) == 0 &&
              mkdir(TOP "/b", 0755) == 0 && make(TOP "/a/f", "1"),
          "a mount");
    equal(mount(TOP "/a", TOP "/b", 0, MS_BIND, 0), 0, "a directory in a second place");
    equal(mount(0, TOP "/b", 0, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, 0), 0,
          "which is read-only");
    fails(open(TOP "/b/f", O_WRONLY), EROFS, "by this name");
    int fd = open(TOP "/a/f", O_WRONLY);
    check(fd >= 0, "but not by the other");
    close(fd);
    check(statvfs(TOP "/b", &all) == 0 &&
              (all.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV)) == (ST_RDONLY | ST_NOSUID | ST_NODEV),
          "statvfs says so");
    check(statvfs(TOP "/a", &all) == 0 && !(all.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV)),
          "of that one alone");
    check(listed(TOP "/b") && strncmp(fields[3], "ro,nosuid,nodev", 15) == 0, "so do the mounts");
    check(listed(TOP) && strncmp(fields[3], "rw", 2) == 0, "and of the other");
    equal(mount(0, TOP "/b", 0, MS_REMOUNT | MS_BIND, 0), 0, "and writable again");
    fd = open(TOP "/b/f", O_WRONLY);
    check(fd >= 0, "by both names");
    close(fd);
    equal(mount(0, TOP, 0, MS_REMOUNT | MS_RDONLY, 0), 0, "the whole file system");
    fails(open(TOP "/b/f", O_WRONLY), EROFS, "by one name");
    fails(open(TOP "/a/f", O_WRONLY), EROFS, "and the other");
    equal(mount(0, TOP, 0, MS_REMOUNT, 0), 0, "and back");
    fd = open(TOP "/b/f", O_WRONLY);
    check(fd >= 0, "is written again");
    close(fd);
    fails(mount(0, TOP "/a", 0, MS_REMOUNT, 0), EINVAL, "what is no mount has no flags");
    fails(mount(0, TOP "/a", 0, MS_PRIVATE, 0), EINVAL, "nor a kind");
    equal(mount(0, TOP "/b", 0, MS_REC | MS_SLAVE, 0), 0, "kinds of the mount");
    fails(mount(0, TOP "/b", 0, MS_PRIVATE | MS_SLAVE, 0), EINVAL, "one at a time");
    check(umount(TOP "/b") == 0 && umount(TOP) == 0, "all go");
}

/* Seen by a process with another root. */
static void rooted(void)
{
    check(tmpfs(TOP) == 0 && mkdir(TOP "/proc", 0755) == 0 && mkdir(TOP "/a b", 0755) == 0 &&
              mount("x y", TOP "/a b", "tmpfs", 0, 0) == 0,
          "two mounts");
    check(listed(TOP "/a\\040b") && strcmp(fields[0], "x\\040y") == 0, "with blanks in their names");
    equal(mount("a\tb#c\nd\\e", TOP "/a b", "tmpfs", 0, 0), 0, "one whose source has other marks");
    check(listed(TOP "/a\\040b") && strcmp(fields[0], "a\\011b\\043c\\012d\\134e") == 0, "all in octal");
    equal(umount(TOP "/a b"), 0, "it goes");
    equal(mount("proc", TOP "/proc", "proc", 0, 0), 0, "and /proc");
    pid_t child = fork();
    if (child == 0) {
        if (chroot(TOP) || chdir("/"))
            _exit(1);
        if (!listed("/") || !listed("/a\\040b") || !listed("/proc") || listed(TOP) || listed("/tmp"))
            _exit(2);
        if (umount("/a b"))
            _exit(3);
        _exit(0);
    }
    equal(status_of(child), 0, "in another root others are shown");
    check(!listed(TOP "/a\\040b"), "one is gone");
    check(umount(TOP "/proc") == 0 && umount(TOP) == 0, "all go");
}

#include "mounts-denying.h"

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"nesting", nesting}, {"stacking", stacking}, {"moving", moving}, {"binding", binding},
        {"leaving", leaving}, {"flags", flags},       {"rooted", rooted}, {"denying", denying},
    };
    if (argc == 2 && strcmp(argv[1], "role") == 0)
        return role();
    mkdir(TOP, 0755);
    run_groups(GROUPS(groups), 0, argc, argv);
    rmdir(TOP);
    return done();
}

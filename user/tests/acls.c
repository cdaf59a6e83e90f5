/* Checks access control lists of files in memory (/dev/shm): their form, what they grant, and that they and
 * the permission bits say the same; passes on Linux and must pass here. For root.
 *
 * Interface: acls [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Not by <grp.h>, which has another struct group than tap.h. */
int setgroups(size_t, const gid_t *);

#define ACCESS "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"
enum { OWNER = 1, USER = 2, GROUP = 4, NAMED = 8, MASK = 16, OTHER = 32 };

struct entry {
    uint16_t tag, perm;
    uint32_t id;
};
struct list {
    uint32_t version;
    struct entry entries[16];
};
#define NONE 0xffffffffu
#define LENGTH(count) (4 + (count) * sizeof(struct entry))
#define SET(path, name, ...)                       \
    set(path, name, (struct entry[]){__VA_ARGS__}, \
        sizeof((struct entry[]){__VA_ARGS__}) / sizeof(struct entry))

static const char *const base = "/dev/shm/acls", *const file = "/dev/shm/acls/file",
                         *const folder = "/dev/shm/acls/folder";

static int set(const char *path, const char *name, const struct entry *entries, int count)
{
    struct list list = {2, {{0}}};
    memcpy(list.entries, entries, count * sizeof *entries);
    return setxattr(path, name, &list, LENGTH(count), 0);
}

static void start(void)
{
    if (system("rm -rf /dev/shm/acls"))
        exit(9);
    umask(022);
    int made = mkdir(base, 0755);
    int opened = open(file, O_RDWR | O_CREAT, 0640);
    check(made == 0 && opened >= 0 && mkdir(folder, 0750) == 0, "a file and a directory of root's");
    close(opened);
}

static int mode(const char *path)
{
    struct stat stat_;
    return stat(path, &stat_) ? -1 : (int)(stat_.st_mode & 07777);
}

/* Whether user `uid` of groups `gid` and `further` (or 0) may do what `want` says: by access(), and by
 * open() twice, for a path that is known is opened another way. */
static int may(int uid, int gid, int further, const char *path, int want)
{
    pid_t child = fork();
    if (child == 0) {
        gid_t groups[1] = {(gid_t)further};
        if (setgroups(further != 0, groups) || setgid(gid) || setuid(uid))
            _exit(9);
        int granted = access(path, want) == 0;
        if (want == R_OK || want == W_OK || want == (R_OK | W_OK)) {
            int flags = want == R_OK ? O_RDONLY : want == W_OK ? O_WRONLY : O_RDWR;
            for (int i = 0; i < 4; i++) {
                int opened = open(path, flags);
                if ((opened >= 0) != granted)
                    _exit(8);
                close(opened);
            }
        }
        _exit(granted);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void grants(void)
{
    start();
    equal(may(1000, 1000, 0, file, R_OK), 0, "a stranger may not read");
    equal(SET(file, ACCESS, {OWNER, 6, NONE}, {USER, 6, 1000}, {GROUP, 4, NONE}, {NAMED, 2, 50},
              {MASK, 6, NONE}, {OTHER, 0, NONE}),
          0, "a list");
    equal(mode(file), 0660, "the group's bits are the mask");
    equal(may(1000, 1000, 0, file, R_OK | W_OK), 1, "who is named may");
    equal(may(1000, 0, 50, file, R_OK | W_OK), 1, "whatever the groups");
    equal(may(1001, 50, 0, file, W_OK), 1, "a named group may what it may");
    equal(may(1001, 50, 0, file, R_OK), 0, "and no more");
    equal(may(1001, 0, 0, file, R_OK), 1, "the file's group may what its entry says");
    equal(may(1001, 0, 0, file, W_OK), 0, "not what the mask would let it");
    equal(may(1001, 0, 50, file, W_OK), 1, "of two groups one is enough");
    equal(may(1001, 0, 50, file, R_OK | W_OK), 0, "but one has to grant it all");
    equal(may(1001, 1001, 0, file, R_OK), 0, "others may nothing");
    equal(SET(file, ACCESS, {OWNER, 6, NONE}, {GROUP, 4, NONE}, {NAMED, 2, 50}, {MASK, 6, NONE},
              {OTHER, 4, NONE}),
          0, "a list that lets others read");
    equal(may(1001, 1001, 0, file, R_OK), 1, "others may");
    equal(may(1001, 50, 0, file, R_OK), 0, "who is of a group that may not is no other");
    equal(SET(file, ACCESS, {OWNER, 6, NONE}, {USER, 6, 1000}, {GROUP, 4, NONE}, {NAMED, 2, 50},
              {MASK, 6, NONE}, {OTHER, 0, NONE}),
          0, "the list before");
    equal(chmod(file, 0640), 0, "a change of the mode");
    equal(may(1000, 1000, 0, file, R_OK), 1, "who is named may still read");
    equal(may(1000, 1000, 0, file, W_OK), 0, "but the mask is the group's bits");
    equal(chmod(file, 0604), 0, "a mask that lets nothing through");
    equal(may(1000, 1000, 0, file, R_OK), 1, "leaves the bits alone to decide: others' for who is named");
    equal(chown(file, 1000, 1000), 0, "another owner");
    equal(may(1000, 1000, 0, file, R_OK | W_OK), 1, "is asked no list");
    equal(removexattr(file, ACCESS), 0, "taken away");
    equal(mode(file), 0604, "the bits stay");
}

/* The rights known to a path's opener are not older than the list. */
static void fresh(void)
{
    start();
    int to_child[2], from_child[2];
    check(pipe(to_child) == 0 && pipe(from_child) == 0, "pipes");
    chmod(file, 0644);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        if (setgroups(0, 0) || setgid(1000) || setuid(1000))
            _exit(9);
        for (;;) {
            int good = 0;
            for (int i = 0; i < 10; i++) {
                int opened = open(file, O_RDONLY);
                good += opened >= 0;
                close(opened);
            }
            byte = (char)good;
            if (write(from_child[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1 || byte == 'q')
                _exit(0);
        }
    }
    char opened = 0;
    equal(read(from_child[0], &opened, 1), 1, "a user opens it ten times");
    equal(opened, 10, "and may");
    SET(file, ACCESS, {OWNER, 6, NONE}, {USER, 0, 1000}, {GROUP, 4, NONE}, {MASK, 4, NONE}, {OTHER, 4, NONE});
    check(write(to_child[1], "g", 1) == 1 && read(from_child[0], &opened, 1) == 1,
          "again, with a list that denies it");
    equal(opened, 0, "never any more");
    removexattr(file, ACCESS);
    check(write(to_child[1], "g", 1) == 1 && read(from_child[0], &opened, 1) == 1, "again, without");
    equal(opened, 10, "each time");
    SET(base, ACCESS, {OWNER, 7, NONE}, {USER, 4, 1000}, {GROUP, 5, NONE}, {MASK, 5, NONE}, {OTHER, 5, NONE});
    check(write(to_child[1], "g", 1) == 1 && read(from_child[0], &opened, 1) == 1,
          "again, with a directory that may not be searched");
    equal(opened, 0, "never");
    check(write(to_child[1], "q", 1) == 1, "that is all");
    waitpid(child, 0, 0);
}

static void form(void)
{
    struct list list;
    start();
    fails(SET(file, ACCESS, {OWNER, 6, NONE}, {GROUP, 4, NONE}), EINVAL, "without others");
    fails(SET(file, ACCESS, {GROUP, 6, NONE}, {OWNER, 4, NONE}, {OTHER, 0, NONE}), EINVAL, "out of order");
    fails(SET(file, ACCESS, {OWNER, 6, NONE}, {USER, 6, 5}, {GROUP, 4, NONE}, {OTHER, 0, NONE}), EINVAL,
          "a name without a mask");
    fails(SET(file, ACCESS, {OWNER, 6, NONE}, {USER, 6, NONE}, {GROUP, 4, NONE}, {MASK, 6, NONE},
              {OTHER, 0, NONE}),
          EINVAL, "nobody's name");
    fails(SET(file, ACCESS, {OWNER, 8, NONE}, {GROUP, 4, NONE}, {OTHER, 0, NONE}), EINVAL,
          "a permission that there is not");
    fails(setxattr(file, ACCESS, "\3\0\0\0", 4, 0), EOPNOTSUPP, "another version");
    fails(setxattr(file, ACCESS, "\2\0\0\0\1", 5, 0), EINVAL, "half an entry");
    equal(SET(file, ACCESS, {OWNER, 7, 5}, {GROUP, 5, NONE}, {OTHER, 1, NONE}), 0,
          "a list that bits can say");
    equal(mode(file), 0751, "is said by bits");
    fails(getxattr(file, ACCESS, &list, sizeof list), ENODATA, "and not kept");
    fails(getxattr(file, DEFAULT, &list, sizeof list), ENODATA, "a file has no default");
    fails(SET(file, DEFAULT, {OWNER, 7, NONE}, {GROUP, 5, NONE}, {OTHER, 1, NONE}), EACCES, "nor gets one");
    equal(setxattr(file, DEFAULT, "\2\0\0\0", 4, 0), 0, "an empty one it may have");
    equal(SET(file, ACCESS, {OWNER, 7, 5}, {USER, 6, 20}, {GROUP, 5, 6}, {MASK, 4, NONE}, {OTHER, 1, NONE}),
          0, "one that bits cannot say");
    fails(getxattr(file, ACCESS, &list, 10), ERANGE, "room too small");
    equal(getxattr(file, ACCESS, &list, sizeof list), LENGTH(5), "is kept");
    check(list.version == 2 && list.entries[1].tag == USER && list.entries[1].perm == 6 &&
              list.entries[1].id == 20,
          "as it was set");
    check(list.entries[0].id == NONE && list.entries[2].id == NONE, "who is not named has no number");
    equal(chmod(file, 0712), 0, "a change of the mode");
    getxattr(file, ACCESS, &list, sizeof list);
    check(list.entries[0].perm == 7 && list.entries[2].perm == 5 && list.entries[3].perm == 1 &&
              list.entries[4].perm == 2,
          "shows in owner, mask and others");
    equal(listxattr(file, 0, 0), sizeof ACCESS, "it is listed");
    equal(SET(folder, DEFAULT, {OWNER, 7, NONE}, {GROUP, 5, NONE}, {OTHER, 1, NONE}), 0,
          "a default that bits could say");
    equal(getxattr(folder, DEFAULT, &list, sizeof list), LENGTH(3), "is kept");
    equal(mode(folder), 0750, "and is not the directory's own");
    fails(getxattr(folder, ACCESS, &list, sizeof list), ENODATA, "which has none");
    equal(setxattr(file, ACCESS, "\2\0\0\0", 4, 0), 0, "an empty list");
    equal(listxattr(file, 0, 0), 0, "takes the list away");
    equal(removexattr(file, ACCESS), 0, "which may be done again");
    pid_t child = fork();
    if (child == 0) {
        tap_failed = 0;
        if (setgroups(0, 0) || setgid(1000) || setuid(1000))
            _exit(9);
        fails(SET(file, ACCESS, {OWNER, 7, NONE}, {GROUP, 7, NONE}, {OTHER, 7, NONE}), EPERM,
              "another user sets none");
        fails(removexattr(folder, DEFAULT), EPERM, "and takes none away");
        _exit(tap_failed);
    }
    int status = -1;
    waitpid(child, &status, 0);
    tap_count += 2;
    equal(status, 0, "both refused");
    equal(mode(file), 0712, "the bits are as they were");
}

/* An owner who sets a list that gives a group of others' the bit loses that. */
static void group_bit(void)
{
    start();
    chown(file, 1000, 50);
    chmod(file, 02750);
    equal(mode(file), 02750, "a set-group-ID file of a user's, of a group that is not his");
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, 0) || setgid(1000) || setuid(1000))
            _exit(9);
        _exit(SET(file, ACCESS, {OWNER, 7, NONE}, {USER, 7, 9}, {GROUP, 5, NONE}, {MASK, 7, NONE},
                  {OTHER, 0, NONE})
                  ? errno
                  : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    equal(status, 0, "its owner sets a list");
    equal(mode(file), 0770, "the bit is gone");
    int memory = open(file, O_WRONLY);
    check(write(memory, "1", 1) == 1 && write(memory, "2", 1) == 1, "it is written");
    close(memory);
}

static void inherited(void)
{
    struct list list;
    char path[64], inner[80];
    start();
    equal(SET(folder, DEFAULT, {OWNER, 7, NONE}, {USER, 6, 1000}, {GROUP, 5, NONE}, {MASK, 7, NONE},
              {OTHER, 0, NONE}),
          0, "a default");
    chmod(folder, 0755);
    umask(0777);
    snprintf(path, sizeof path, "%s/a", folder);
    close(open(path, O_CREAT | O_WRONLY, 0666));
    equal(mode(path), 0660,
          "a new file's mode is what it asks for and the default lets it, whatever the umask");
    equal(getxattr(path, ACCESS, &list, sizeof list), LENGTH(5), "it has a list");
    check(list.entries[0].perm == 6 && list.entries[1].perm == 6 && list.entries[2].perm == 5 &&
              list.entries[3].perm == 6,
          "the default's, with owner and mask as asked for");
    fails(getxattr(path, DEFAULT, &list, sizeof list), ENODATA, "and no default");
    equal(may(1000, 1000, 0, path, R_OK | W_OK), 1, "who is named may");
    snprintf(path, sizeof path, "%s/d", folder);
    mkdir(path, 0777);
    equal(mode(path), 0770, "a new directory");
    equal(getxattr(path, DEFAULT, &list, sizeof list), LENGTH(5), "has the default, too");
    equal(list.entries[3].perm, 7, "as it was");
    snprintf(inner, sizeof inner, "%s/e", path);
    mknod(inner, S_IFIFO | 0622, 0);
    equal(mode(inner), 0620, "and hands it on");
    snprintf(path, sizeof path, "%s/l", folder);
    check(symlink("a", path) == 0 && lgetxattr(path, ACCESS, 0, 0) == -1, "links have none");
    int unnamed = open(folder, O_TMPFILE | O_RDWR, 0666);
    equal(fgetxattr(unnamed, ACCESS, &list, sizeof list), LENGTH(5), "a file without a name has one");
    close(unnamed);
    equal(SET(folder, DEFAULT, {OWNER, 6, NONE}, {GROUP, 4, NONE}, {OTHER, 4, NONE}), 0,
          "a default that bits can say");
    snprintf(path, sizeof path, "%s/b", folder);
    close(open(path, O_CREAT | O_WRONLY, 0777));
    equal(mode(path), 0644, "is what a new file gets");
    fails(getxattr(path, ACCESS, &list, sizeof list), ENODATA, "and no list");
    equal(removexattr(folder, DEFAULT), 0, "without a default");
    snprintf(path, sizeof path, "%s/c", folder);
    umask(027);
    close(open(path, O_CREAT | O_WRONLY, 0777));
    equal(mode(path), 0750, "the umask counts again");
    umask(022);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"grants", grants},       {"fresh", fresh},         {"form", form},
        {"group-bit", group_bit}, {"inherited", inherited},
    };
    run_groups(GROUPS(groups), 0, argc, argv);
    if (system("rm -rf /dev/shm/acls"))
        return 9;
    return done();
}

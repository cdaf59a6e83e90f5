/* Checks what Linux answers to calls about extended attributes: where a file system has none (/proc), and of
 * files in memory (/dev/shm); passes on Linux and must pass here.
 *
 * Interface: xattrs [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *const text = "/proc/self/status", *const own = "/dev/shm/xattrs.1",
                         *const link_to = "/dev/shm/xattrs.2", *const folder = "/dev/shm/xattrs.3",
                         *const named_pipe = "/dev/shm/xattrs.4";
/* One byte more than a value may have, and what no program has. */
static char big[65537], *volatile nowhere = (char *)8;

static void set(void)
{
    fails(setxattr(text, "trusted.a", "1", 1, 0), EOPNOTSUPP, "root sets one of trusted");
    fails(setxattr(text, "security.a", "1", 1, 0), EOPNOTSUPP, "root sets one of security");
    fails(setxattr(text, "trusted.a", "1", 1, 4), EINVAL, "with a flag that there is not");
    fails(setxattr(text, "", "1", 1, 0), ERANGE, "without a name");
    fails(setxattr(text, "trusted.a", big, sizeof big, 0), E2BIG, "with a value that is too long");
    fails(setxattr(text, "trusted.a", nowhere, 1, 0), EFAULT, "with a value that is nowhere");
    fails(setxattr(text, nowhere, "1", 1, 0), EFAULT, "with a name that is nowhere");
    fails(setxattr("/proc/self/not", "trusted.a", "1", 1, 0), ENOENT, "of no file");
    fails(setxattr(text, "", big, sizeof big, 4), EINVAL, "of all that is wrong the flags come first");
    fails(setxattr(text, "", big, sizeof big, 0), ERANGE, "then the name");
}

static void get(void)
{
    char name[300] = "", value[8];
    memset(name, 'n', 255);
    memcpy(name, "user.", 5);
    fails(getxattr(text, "user.a", value, sizeof value), EOPNOTSUPP, "one of user");
    fails(getxattr(text, "system.posix_acl_access", value, sizeof value), EOPNOTSUPP,
          "the access control list, as ls asks");
    fails(lgetxattr(text, "security.selinux", value, sizeof value), EOPNOTSUPP, "the label, as ls asks");
    fails(getxattr(text, "security.capability", 0, 0), EOPNOTSUPP, "capabilities");
    fails(getxattr(text, "unheard", 0, 0), EOPNOTSUPP, "one of no class");
    fails(getxattr(text, name, 0, 0), EOPNOTSUPP, "a name as long as may be");
    name[255] = 'n';
    fails(getxattr(text, name, 0, 0), ERANGE, "a longer one");
    fails(getxattr(text, "", 0, 0), ERANGE, "an empty one");
    fails(getxattr(nowhere, "user.a", 0, 0), EFAULT, "a path that is nowhere");
    equal(listxattr(text, 0, 0), 0, "the list is empty");
    equal(llistxattr("/proc/self", name, sizeof name), 0, "that of a link too");
    fails(lgetxattr("/proc/self", "user.a", 0, 0), ENODATA, "no link has any of user");
}

static void take_away(void)
{
    fails(removexattr(text, "trusted.a"), EOPNOTSUPP, "one of trusted");
    fails(removexattr(text, ""), ERANGE, "an empty name");
    fails(lremovexattr("/proc/self", "user.a"), EPERM, "none of user from a link");
}

static void by_number(void)
{
    int file = open(text, O_RDONLY), path = open(text, O_PATH), both[2];
    fails(fgetxattr(file, "user.a", 0, 0), EOPNOTSUPP, "by a descriptor");
    fails(fsetxattr(file, "trusted.a", "1", 1, 0), EOPNOTSUPP, "set");
    fails(fremovexattr(file, "trusted.a"), EOPNOTSUPP, "taken away");
    equal(flistxattr(file, 0, 0), 0, "listed");
    fails(fgetxattr(path, "user.a", 0, 0), EBADF, "by one that stands for a place only");
    fails(flistxattr(path, 0, 0), EBADF, "listed by such");
    fails(flistxattr(-1, 0, 0), EBADF, "by none");
    if (check(pipe(both) == 0, "a pipe")) {
        fails(fgetxattr(both[0], "trusted.a", 0, 0), EOPNOTSUPP, "of a pipe");
        fails(fgetxattr(both[0], "user.a", 0, 0), ENODATA, "a pipe has none of user");
        fails(fsetxattr(both[0], "user.a", "1", 1, 0), EPERM, "and gets none");
    }
}

/* A user of few rights is told less. */
static void others(void)
{
    int file = open(own, O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(file >= 0 && (symlink(own, link_to) == 0 || errno == EEXIST), "a file of root's");
    pid_t child = fork();
    if (child == 0) {
        tap_failed = 0;
        if (setgid(1000) || setuid(1000))
            _exit(9);
        fails(setxattr(text, "trusted.a", "1", 1, 0), EPERM, "a user sets none of trusted");
        fails(getxattr(text, "trusted.a", 0, 0), ENODATA, "and sees none");
        fails(removexattr(text, "trusted.a"), EPERM, "and takes none away");
        fails(setxattr(text, "security.a", "1", 1, 0), EPERM, "nor sets any of security");
        fails(getxattr(own, "user.a", 0, 0), EACCES, "nor sees those of a file that is not for reading");
        fails(setxattr(own, "user.a", "1", 1, 0), EACCES, "nor sets them");
        fails(setxattr(link_to, "user.a", "1", 1, 0), EACCES, "through a link either");
        fails(setxattr("/dev/shm", "user.a", "1", 1, 0), EPERM, "nor of a sticky directory of root's");
        _exit(tap_failed);
    }
    int status = -1;
    waitpid(child, &status, 0);
    tap_count += 8;
    equal(status, 0, "all as they should be");
    unlink(own);
    unlink(link_to);
}

static void clear(void)
{
    unlink(own);
    unlink(link_to);
    unlink(named_pipe);
    rmdir(folder);
}

static int start(void)
{
    clear();
    int file = open(own, O_RDWR | O_CREAT | O_TRUNC, 0644);
    return check(file >= 0 && symlink(own, link_to) == 0 && mkdir(folder, 0755) == 0 &&
                     mkfifo(named_pipe, 0644) == 0,
                 "a file, a link, a directory, a pipe")
               ? file
               : -1;
}

static void values(void)
{
    static char value[70000];
    char name[300] = "";
    int file = start();
    memset(name, 'n', 255);
    memcpy(name, "user.", 5);
    equal(fsetxattr(file, "user.a", "one", 3, XATTR_CREATE), 0, "set");
    equal(getxattr(own, "user.a", value, sizeof value), 3, "got");
    check(memcmp(value, "one", 3) == 0, "as it was set");
    equal(getxattr(own, "user.a", 0, 0), 3, "its size");
    fails(getxattr(own, "user.a", value, 2), ERANGE, "room too small");
    fails(getxattr(own, "user.a", nowhere, 3), EFAULT, "room that is nowhere");
    fails(setxattr(own, "user.a", "1", 1, XATTR_CREATE), EEXIST, "to be new, and is not");
    fails(setxattr(own, "user.b", "1", 1, XATTR_REPLACE), ENODATA, "to be there, and is not");
    fails(setxattr(own, "user.a", "1", 1, XATTR_CREATE | XATTR_REPLACE), EEXIST, "to be both, and is there");
    fails(setxattr(own, "user.b", "1", 1, XATTR_CREATE | XATTR_REPLACE), ENODATA, "to be both, and is not");
    equal(setxattr(own, "user.a", "", 0, XATTR_REPLACE), 0, "an empty value");
    equal(getxattr(own, "user.a", value, 1), 0, "is one");
    memset(value, 'v', sizeof value);
    equal(setxattr(own, "user.big", value, 65536, 0), 0, "a value as long as may be");
    memset(value, 0, sizeof value);
    equal(getxattr(own, "user.big", value, sizeof value), 65536, "got");
    check(value[0] == 'v' && value[65535] == 'v' && value[65536] == 0, "whole, and no more");
    equal(setxattr(own, name, "1", 1, 0), 0, "a name as long as may be");
    name[255] = 'n';
    fails(setxattr(own, name, "1", 1, 0), ERANGE, "a longer one");
    fails(setxattr(own, "user.", "1", 1, 0), EINVAL, "a class without a name");
    fails(getxattr(own, "user.", 0, 0), EINVAL, "nor is there one");
    fails(setxattr(own, "unheard.a", "1", 1, 0), EOPNOTSUPP, "no such class");
    fails(getxattr(own, "system.a", 0, 0), EOPNOTSUPP, "nothing else of system");
    fails(removexattr(own, "system.a"), EOPNOTSUPP, "nor is it taken away");
    equal(fremovexattr(file, "user.a"), 0, "taken away");
    fails(getxattr(own, "user.a", 0, 0), ENODATA, "it is gone");
    fails(removexattr(own, "user.a"), ENODATA, "and not taken away again");
    struct stat before, after;
    fstat(file, &before);
    do {
        setxattr(own, "user.c", "1", 1, 0);
        fstat(file, &after);
    } while (memcmp(&before.st_ctim, &after.st_ctim, sizeof before.st_ctim) == 0);
    check(memcmp(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim) == 0,
          "the time of change follows, that of the contents does not");
    close(file);
    clear();
}

static void kinds(void)
{
    start();
    equal(setxattr(folder, "user.a", "1", 1, 0), 0, "of a directory");
    equal(lsetxattr(link_to, "trusted.a", "1", 1, 0), 0, "one of trusted, of a link");
    fails(getxattr(own, "trusted.a", 0, 0), ENODATA, "not of what it leads to");
    equal(lgetxattr(link_to, "trusted.a", 0, 0), 1, "of the link itself");
    fails(lsetxattr(link_to, "user.a", "1", 1, 0), EPERM, "a link gets none of user");
    fails(lgetxattr(link_to, "user.a", 0, 0), ENODATA, "and has none");
    equal(setxattr(link_to, "user.a", "12", 2, 0), 0, "through the link");
    equal(getxattr(own, "user.a", 0, 0), 2, "its file gets one");
    equal(setxattr(named_pipe, "security.a", "1", 1, 0), 0, "one of security, of a pipe");
    fails(setxattr(named_pipe, "user.a", "1", 1, 0), EPERM, "a pipe gets none of user");
    fails(lgetxattr(link_to, "system.posix_acl_access", 0, 0), EOPNOTSUPP,
          "a link has no access control list");
    fails(getxattr(own, "system.posix_acl_access", 0, 0), ENODATA, "a file may");
    int memory = memfd_create("xattrs", 0);
    equal(fsetxattr(memory, "trusted.a", "1", 1, 0), 0, "of a file without a name");
    equal(fgetxattr(memory, "trusted.a", 0, 0), 1, "it has it");
    close(memory);
    clear();
}

/* Whether `name` is in the list, of `length` bytes. */
static int has(const char *list, long length, const char *name)
{
    for (long at = 0; at < length; at += (long)strlen(list + at) + 1)
        if (strcmp(list + at, name) == 0)
            return 1;
    return 0;
}

static void lists(void)
{
    static char list[80000];
    int file = start();
    equal(listxattr(own, list, sizeof list), 0, "nothing at first");
    setxattr(own, "user.a", "1", 1, 0);
    setxattr(own, "trusted.b", "1", 1, 0);
    setxattr(own, "security.c", "1", 1, 0);
    equal(listxattr(own, 0, 0), 7 + 10 + 11, "the size of three names");
    equal(flistxattr(file, list, 28), 28, "they fit");
    check(has(list, 28, "user.a") && has(list, 28, "trusted.b") && has(list, 28, "security.c"),
          "and are they");
    fails(listxattr(own, list, 27), ERANGE, "room too small");
    fails(listxattr(own, nowhere, 28), EFAULT, "room that is nowhere");
    pid_t child = fork();
    if (child == 0) {
        tap_failed = 0;
        if (setgid(1000) || setuid(1000))
            _exit(9);
        equal(listxattr(own, list, sizeof list), 18, "a user is not told of trusted ones");
        fails(getxattr(own, "trusted.b", 0, 0), ENODATA, "and has none");
        equal(getxattr(own, "security.c", 0, 0), 1, "those of security may be read");
        fails(removexattr(own, "security.c"), EPERM, "and not be taken away");
        fails(setxattr(own, "user.a", "1", 1, 0), EACCES, "a user may not write root's");
        equal(getxattr(own, "user.a", 0, 0), 1, "but read");
        _exit(tap_failed);
    }
    int status = -1;
    waitpid(child, &status, 0);
    tap_count += 6;
    equal(status, 0, "all as they should be");
    char name[260];
    int made = 0;
    for (; made < 400; made++) {
        snprintf(name, sizeof name, "user.%03d%0200d", made, 0);
        if (setxattr(own, name, "", 0, 0))
            break;
    }
    equal(made, 400, "four hundred more");
    equal(listxattr(own, 0, 0), 28 + 400 * 209, "the size of all");
    fails(listxattr(own, list, sizeof list), E2BIG, "a list may not be as long");
    close(file);
    clear();
}

static void watched(void)
{
    struct inotify_event event;
    start();
    int watcher = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(watcher, own, IN_ALL_EVENTS);
    setxattr(own, "user.a", "1", 1, 0);
    equal(read(watcher, &event, sizeof event), sizeof event, "who watches is told of one that is set");
    equal(event.mask, IN_ATTRIB, "as of other attributes");
    setxattr(own, "user.a", "2", 1, XATTR_CREATE);
    fails(read(watcher, &event, sizeof event), EAGAIN, "not of one that is refused");
    removexattr(own, "user.a");
    equal(read(watcher, &event, sizeof event), sizeof event, "and of one that is taken away");
    equal(event.mask, IN_ATTRIB, "as well");
    close(watcher);
    clear();
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"set", set},           {"get", get},       {"remove", take_away},
        {"numbers", by_number}, {"others", others}, {"values", values},
        {"kinds", kinds},       {"lists", lists},   {"watched", watched},
    };
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

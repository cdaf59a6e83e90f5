/* Checks what Linux answers to calls about extended attributes where a file system has none: /proc; passes on Linux and must pass here.
 *
 * Interface: xattrs [GROUP...] runs all groups but `memory` or those named; TAP on standard output. `memory` says that files in memory have none here.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *const text = "/proc/self/status", *const own = "/tmp/xattrs.1", *const link_to = "/tmp/xattrs.2";
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
    fails(getxattr(text, "system.posix_acl_access", value, sizeof value), EOPNOTSUPP, "the access control list, as ls asks");
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

/* Who may do little is told less. */
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
        fails(setxattr("/tmp", "user.a", "1", 1, 0), EPERM, "nor of a sticky directory of root's");
        _exit(tap_failed);
    }
    int status = -1;
    waitpid(child, &status, 0);
    tap_count += 8;
    equal(status, 0, "all as they should be");
    unlink(own);
    unlink(link_to);
}

static void memory(void)
{
    int file = open(own, O_RDWR | O_CREAT | O_TRUNC, 0600);
    fails(fsetxattr(file, "user.a", "1", 1, XATTR_CREATE), EOPNOTSUPP, "a file in memory gets none");
    fails(getxattr(own, "system.posix_acl_access", 0, 0), EOPNOTSUPP, "nor has it an access control list");
    equal(listxattr(own, 0, 0), 0, "its list is empty");
    unlink(own);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"set", set}, {"get", get}, {"remove", take_away}, {"numbers", by_number}, {"others", others}, {"memory", memory},
    };
    run_groups(GROUPS(groups), "memory", argc, argv);
    return done();
}

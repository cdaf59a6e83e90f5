/* Small attacks that random calls do not make, because all must come together: each program does its worst, and what it asserts is an error number, the
 * end of the attacker alone, or that root's things are as they were. Started as user 0. Passes on Linux and must pass here.
 *
 * Interface: adverse [GROUP...]; TAP on standard output. A race is tried for as long as a count says, never by the clock.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int setgroups(size_t count, const gid_t *groups); /* <grp.h> has a struct group of its own */

enum { USER = 1000 };

/* For ever an ordinary user. */
static void drop(void)
{
    if (setgroups(0, 0) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
        _exit(99);
}

static int mode_of(const char *name)
{
    struct stat now;
    return stat(name, &now) ? -1 : (int)(now.st_mode & 07777);
}

static int file(const char *name, uid_t owner, mode_t mode)
{
    int fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || fchown(fd, owner, owner) || fchmod(fd, mode))
        check(0, name);
    return fd;
}

static int status_of(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

/* chown that changes no owner takes the set-id bits away: that is a change of mode, and only the owner's right. */
static void group_chown(void)
{
    static const int modes[] = {04755, 02755, 02745, 06711};
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
        int fd = file("bits", 0, modes[i]);
        pid_t child = fork();
        if (child == 0) {
            drop();
            int refused = chown("bits", -1, -1) == -1 && errno == EPERM && lchown("bits", -1, -1) == -1 && errno == EPERM;
            _exit(refused && fchown(fd, -1, -1) == -1 && errno == EPERM ? 0 : 1);
        }
        equal(status_of(child), 0, "chown(-1, -1) of a set-id program of root's is refused");
        equal(mode_of("bits"), modes[i], "and it keeps its bits");
        close(fd);
    }
    close(file("bits", 0, 0755));
    pid_t child = fork();
    if (child == 0) {
        drop();
        _exit(chown("bits", -1, -1));
    }
    equal(status_of(child), 0, "without such bits there is nothing to refuse");
    close(file("bits", USER, 06755));
    child = fork();
    if (child == 0) {
        drop();
        _exit(chown("bits", -1, -1));
    }
    equal(status_of(child), 0, "an owner may");
    equal(mode_of("bits"), 0755, "and loses them");
    unlink("bits");
}

/* An owner who sets the set-user-id bit at the moment in which root takes the file over. */
static void group_takeover(void)
{
    int stolen = 0;
    close(file("taken", USER, 0755));
    pid_t child[3];
    for (int i = 0; i < 3; i++)
        if ((child[i] = fork()) == 0) {
            int fd = open("taken", O_RDWR);
            drop();
            for (;;)
                fchmod(fd, 04755);
        }
    for (int i = 0, tries = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 20000 : 2000; i < tries; i++) {
        struct stat now;
        if (chown("taken", USER, USER) || chmod("taken", 0755) || chown("taken", 0, 0) || stat("taken", &now))
            break;
        stolen += now.st_uid == 0 && (now.st_mode & S_ISUID);
    }
    for (int i = 0; i < 3; i++) {
        kill(child[i], SIGKILL);
        status_of(child[i]);
    }
    equal(stolen, 0, "a file that root has taken over is never set-user-id by its owner before");
    unlink("taken");
}

static const struct group groups[] = {
    {"chown", group_chown},
    {"takeover", group_takeover},
};

int main(int argc, char **argv)
{
    if ((mkdir("/tmp/adverse", 0755) && errno != EEXIST) || chdir("/tmp/adverse"))
        return 2;
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

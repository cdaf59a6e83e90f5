/* Checks leases of files and notices of directories (F_SETLEASE, F_NOTIFY) as Linux has them; passes on Linux
 * and must pass here.
 *
 * Interface: leases [GROUP...] runs all groups or those named; TAP on standard output. As the superuser.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "file-signals.h"

#define NAME "/tmp/leases"

static int fresh(int flags)
{
    unlink(NAME);
    close(open(NAME, O_CREAT | O_RDWR, 0666));
    chmod(NAME, 0666);
    return open(NAME, flags);
}

static void kinds(void)
{
    int fd = fresh(O_RDONLY);
    equal(fcntl(fd, F_GETLEASE), F_UNLCK, "no lease");
    fails(fcntl(fd, F_SETLEASE, F_UNLCK), EAGAIN, "none to give back");
    fails(fcntl(fd, F_SETLEASE, 77), EINVAL, "no such kind");
    equal(fcntl(fd, F_SETLEASE, F_RDLCK), 0, "one to read");
    equal(fcntl(fd, F_GETLEASE), F_RDLCK, "is had");
    int other = open(NAME, O_RDONLY | O_NONBLOCK);
    check(other >= 0, "another reads");
    equal(fcntl(other, F_GETLEASE), F_UNLCK, "without a lease");
    fails(fcntl(fd, F_SETLEASE, F_WRLCK), EAGAIN, "then not one to write");
    equal(fcntl(fd, F_GETLEASE), F_RDLCK, "the old one stays");
    equal(fcntl(other, F_SETLEASE, F_RDLCK), 0, "several may read");
    equal(fcntl(other, F_SETLEASE, F_UNLCK), 0, "and give it back");
    close(other);
    equal(fcntl(fd, F_SETLEASE, F_WRLCK), 0, "alone it may be one to write");
    equal(fcntl(fd, F_GETLEASE), F_WRLCK, "it is");
    equal(fcntl(fd, F_SETLEASE, F_UNLCK), 0, "given back");
    equal(fcntl(fd, F_GETLEASE), F_UNLCK, "is gone");
    close(fd);
    fd = fresh(O_RDWR);
    fails(fcntl(fd, F_SETLEASE, F_RDLCK), EAGAIN, "who writes has none to read");
    equal(fcntl(fd, F_SETLEASE, F_WRLCK), 0, "but to write");
    int second = dup(fd);
    equal(fcntl(second, F_GETLEASE), F_WRLCK, "it is the description's");
    close(fd);
    equal(fcntl(second, F_GETLEASE), F_WRLCK, "until that is closed");
    close(second);
    fd = open(NAME, O_RDWR | O_NONBLOCK);
    check(fd >= 0, "then it is gone");
    close(fd);
    fd = open("/tmp", O_RDONLY);
    fails(fcntl(fd, F_SETLEASE, F_RDLCK), EINVAL, "a directory has none");
    close(fd);
    int a[2];
    pipe(a);
    fails(fcntl(a[0], F_SETLEASE, F_RDLCK), EINVAL, "nor a pipe");
    close(a[0]), close(a[1]);
    fd = fresh(O_RDONLY);
    pid_t child = fork();
    if (child == 0) {
        setresuid(1000, 1000, 1000);
        _exit(fcntl(fd, F_SETLEASE, F_RDLCK) == -1 && errno == EACCES ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "another's file");
    close(fd);
}

/* A child opens or cuts the file as it says: 0 when that has worked. */
static pid_t opener(int flags)
{
    pid_t child = fork();
    if (child == 0) {
        for (int fd = 3; fd < 10; fd++)
            close(fd);
        if (flags == -1)
            _exit(truncate(NAME, 0) != 0);
        int fd = open(NAME, flags);
        _exit(fd < 0);
    }
    return child;
}

static int running(pid_t child)
{
    int status;
    return waitpid(child, &status, WNOHANG) == 0;
}

static int status_of(pid_t child)
{
    int status;
    waitpid(child, &status, 0);
    return status;
}

static void breaks(void)
{
    int fd = fresh(O_RDONLY);
    fcntl(fd, F_SETSIG, CHOSEN);
    fcntl(fd, F_SETLEASE, F_RDLCK);
    fails(open(NAME, O_RDWR | O_NONBLOCK), EWOULDBLOCK, "who will not wait is told");
    equal(next(), CHOSEN, "and the holder");
    check(info.si_fd == fd && info.si_code == POLL_MSG, "of which descriptor");
    equal(fcntl(fd, F_GETLEASE), F_UNLCK, "what it is to become");
    fails(open(NAME, O_WRONLY | O_NONBLOCK), EWOULDBLOCK, "it is in the way still");
    check(quiet(), "which is told once");
    pid_t child = opener(O_RDWR);
    check(running(child) && quiet() && running(child), "another waits");
    equal(fcntl(fd, F_SETLEASE, F_UNLCK), 0, "until it is given back");
    equal(status_of(child), 0, "then it has the file");
    equal(fcntl(fd, F_GETSIG), 0, "the chosen signal is forgotten");
    close(fd);

    fd = fresh(O_RDWR);
    fcntl(fd, F_SETSIG, CHOSEN);
    fcntl(fd, F_SETLEASE, F_WRLCK);
    child = opener(O_RDONLY);
    equal(next(), CHOSEN, "a lease to write hears of readers");
    equal(fcntl(fd, F_GETLEASE), F_RDLCK, "and is to become one to read");
    check(running(child), "who wait");
    equal(fcntl(fd, F_SETLEASE, F_UNLCK), 0, "given back");
    equal(status_of(child), 0, "they read");
    close(fd);

    fd = fresh(O_RDONLY);
    fcntl(fd, F_SETLEASE, F_WRLCK);
    child = opener(O_RDONLY);
    equal(next(), SIGIO, "without a choice it is SIGIO");
    equal(fcntl(fd, F_SETLEASE, F_RDLCK), 0, "it becomes one to read");
    equal(status_of(child), 0, "which readers do not wait for");
    equal(fcntl(fd, F_GETLEASE), F_RDLCK, "and stays");
    child = opener(-1);
    equal(next(), SIGIO, "cutting is writing");
    check(running(child), "and waits");
    close(fd);
    equal(status_of(child), 0, "until the holder closes");

    fd = fresh(O_RDONLY);
    fcntl(fd, F_SETLEASE, F_RDLCK);
    child = opener(O_WRONLY);
    equal(next(), SIGIO, "a writer waits");
    kill(child, SIGTERM);
    equal(WTERMSIG(status_of(child)), SIGTERM, "until a signal");
    close(fd);
    check(quiet(), "nothing is left");

    /* A path that was opened often. */
    fd = fresh(O_RDONLY);
    for (int i = 0; i < 10; i++)
        close(open(NAME, O_RDWR));
    equal(fcntl(fd, F_SETLEASE, F_RDLCK), 0, "a file that was opened often");
    child = opener(O_RDWR);
    equal(next(), SIGIO, "hears of the next one, too");
    fcntl(fd, F_SETLEASE, F_UNLCK);
    equal(status_of(child), 0, "which has it then");
    close(fd);
}

static long setting(const char *value)
{
    char text[32] = "";
    int fd = open("/proc/sys/fs/lease-break-time", O_RDONLY);
    read(fd, text, sizeof text - 1);
    close(fd);
    if (value) {
        fd = open("/proc/sys/fs/lease-break-time", O_WRONLY);
        write(fd, value, strlen(value));
        close(fd);
    }
    return atol(text);
}

static void times(void)
{
    long before = setting("1");
    check(before > 0, "there is a time");
    equal(setting(NULL), 1, "which can be set");
    int fd = fresh(O_RDONLY);
    fcntl(fd, F_SETLEASE, F_RDLCK);
    pid_t child = opener(O_RDWR);
    equal(next(), SIGIO, "who is asked and does nothing");
    equal(status_of(child), 0, "loses the lease in time");
    equal(fcntl(fd, F_GETLEASE), F_UNLCK, "it is gone");
    close(fd);
    fd = fresh(O_RDONLY);
    fcntl(fd, F_SETLEASE, F_WRLCK);
    child = opener(O_RDONLY);
    equal(next(), SIGIO, "one to write");
    equal(status_of(child), 0, "is broken in time");
    equal(fcntl(fd, F_GETLEASE), F_RDLCK, "to one to read");
    close(fd);
    char text[32];
    snprintf(text, sizeof text, "%ld", before);
    setting(text);
    unlink(NAME);
}

static int directory;
static void notify(long what) { equal(fcntl(directory, F_NOTIFY, what), 0, "F_NOTIFY"); }

static int heard(void) { return next() == CHOSEN && info.si_fd == directory && info.si_code == POLL_MSG; }

static void notices(void)
{
    mkdir("/tmp/notices", 0700), mkdir("/tmp/notices2", 0700);
    directory = open("/tmp/notices", O_RDONLY);
    fcntl(directory, F_SETSIG, CHOSEN);
    notify(DN_CREATE);
    close(open("/tmp/notices/a", O_CREAT | O_RDWR, 0600));
    check(heard(), "a new name");
    close(open("/tmp/notices/b", O_CREAT | O_RDWR, 0600));
    check(quiet(), "is told once");
    notify(DN_CREATE | DN_MULTISHOT);
    close(open("/tmp/notices/c", O_CREAT | O_RDWR, 0600));
    check(heard(), "more than once");
    mkdir("/tmp/notices/d", 0700);
    check(heard(), "with DN_MULTISHOT");
    unlink("/tmp/notices/c");
    check(quiet(), "what was not asked for is not told");
    notify(0);
    close(open("/tmp/notices/c", O_CREAT | O_RDWR, 0600));
    check(quiet(), "nor anything after the end");

    static const struct {
        long what;
        const char *name;
    } each[] = {{DN_ACCESS, "access"},
                {DN_MODIFY, "modify"},
                {DN_DELETE, "delete"},
                {DN_RENAME, "rename"},
                {DN_ATTRIB, "attrib"}};
    for (int i = 0; i < 5; i++) {
        char c;
        close(open("/tmp/notices/x", O_CREAT | O_RDWR, 0600));
        int fd = open("/tmp/notices/a", O_RDWR);
        write(fd, "ab", 2), lseek(fd, 0, SEEK_SET);
        notify(each[i].what);
        switch (each[i].what) {
        case DN_ACCESS:
            read(fd, &c, 1);
            break;
        case DN_MODIFY:
            write(fd, "x", 1);
            break;
        case DN_DELETE:
            unlink("/tmp/notices/x");
            break;
        case DN_RENAME:
            rename("/tmp/notices/x", "/tmp/notices/y");
            break;
        case DN_ATTRIB:
            fchmod(fd, 0640);
            break;
        }
        check(heard(), each[i].name);
        close(fd);
    }
    notify(DN_CREATE);
    close(open("/tmp/notices2/z", O_CREAT | O_RDWR, 0600));
    rename("/tmp/notices2/z", "/tmp/notices/z");
    check(heard(), "what comes from elsewhere is new");
    notify(DN_DELETE);
    rename("/tmp/notices/z", "/tmp/notices2/z");
    check(heard(), "what goes elsewhere is deleted");
    notify(DN_MODIFY);
    truncate("/tmp/notices/a", 0);
    check(heard(), "cutting is a change");
    fcntl(directory, F_SETSIG, 0);
    notify(DN_CREATE);
    close(open("/tmp/notices/e", O_CREAT | O_RDWR, 0600));
    equal(next(), SIGIO, "without a choice it is SIGIO");

    int file = open("/tmp/notices/a", O_RDONLY), path = open("/tmp", O_PATH);
    fails(fcntl(file, F_NOTIFY, DN_MODIFY), ENOTDIR, "a file");
    fails(fcntl(path, F_NOTIFY, DN_MODIFY), EBADF, "a descriptor that only names");
    close(file), close(path);

    notify(DN_CREATE | DN_MULTISHOT);
    int second = dup(directory);
    close(second);
    close(open("/tmp/notices/f", O_CREAT | O_RDWR, 0600));
    check(quiet(), "closing a descriptor ends it");
    close(directory);
    static const char *const left[] = {"a", "b", "c", "e", "f", "y"};
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "/tmp/notices/%s", left[i]);
        unlink(name);
    }
    unlink("/tmp/notices/x"), unlink("/tmp/notices2/z"), rmdir("/tmp/notices/d");
    check(rmdir("/tmp/notices") == 0 && rmdir("/tmp/notices2") == 0, "all is cleared away");
}

static const struct group groups[] = {
    {"kinds", kinds}, {"breaks", breaks}, {"times", times}, {"notices", notices}};

int main(int argc, char **argv)
{
    sigemptyset(&ours);
    sigaddset(&ours, SIGIO), sigaddset(&ours, CHOSEN);
    sigprocmask(SIG_BLOCK, &ours, NULL);
    run_groups(GROUPS(groups), NULL, argc, argv);
    return done();
}

/* Checks signals about open files as Linux sends them: O_ASYNC of pipes, sockets and terminals, whose they
 * are and which; passes on Linux and must pass here.
 *
 * Interface: sigios [GROUP...] runs all groups or those named; TAP on standard output. As the superuser: who
 * may be told is asked of other users, too.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "file-signals.h"

#ifndef F_SETOWN_EX
#define F_SETOWN_EX 15
#define F_GETOWN_EX 16
struct f_owner_ex {
    int type;
    pid_t pid;
};
#define F_OWNER_TID 0
#define F_OWNER_PID 1
#define F_OWNER_PGRP 2
#endif
#define F_GETOWNER_UIDS_ 17

static int is(int signo, int code, long band, int fd)
{
    return info.si_signo == signo && info.si_code == code && info.si_band == band && info.si_fd == fd;
}

static void async(int fd, int signo)
{
    equal(fcntl(fd, F_SETSIG, signo), 0, "F_SETSIG");
    equal(fcntl(fd, F_SETOWN, getpid()), 0, "F_SETOWN");
    equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC), 0, "O_ASYNC");
}

static long raw(int fd, int command, void *arg) { return syscall(SYS_fcntl, fd, command, arg); }

/* The owner that is set is given back. */
static void owners(void)
{
    int a[2];
    struct f_owner_ex owner;
    pipe(a);
    equal(syscall(SYS_fcntl, a[0], F_GETOWN, 0), 0, "nobody is told");
    equal(raw(a[0], F_GETOWN_EX, &owner), 0, "F_GETOWN_EX");
    check(owner.type == F_OWNER_TID && owner.pid == 0, "nobody");
    equal(fcntl(a[0], F_SETOWN, getpid()), 0, "the process itself");
    equal(syscall(SYS_fcntl, a[0], F_GETOWN, 0), getpid(), "its number");
    raw(a[0], F_GETOWN_EX, &owner);
    check(owner.type == F_OWNER_PID && owner.pid == getpid(), "as a process");
    equal(fcntl(a[0], F_SETOWN, -getpgrp()), 0, "its group");
    equal(fcntl(a[0], F_GETOWN), -getpgrp(), "its number below zero");
    raw(a[0], F_GETOWN_EX, &owner);
    check(owner.type == F_OWNER_PGRP && owner.pid == getpgrp(), "as a group");
    owner = (struct f_owner_ex){F_OWNER_TID, (int)syscall(SYS_gettid)};
    equal(raw(a[0], F_SETOWN_EX, &owner), 0, "a thread");
    memset(&owner, 0xff, sizeof owner);
    raw(a[0], F_GETOWN_EX, &owner);
    check(owner.type == F_OWNER_TID && owner.pid == syscall(SYS_gettid), "is given back");
    int other = dup(a[0]);
    raw(other, F_GETOWN_EX, &owner);
    check(owner.pid == getpid(), "it is the description's");
    unsigned uids[2] = {7, 7};
    equal(raw(a[0], F_GETOWNER_UIDS_, uids), 0, "who has said it");
    check(uids[0] == getuid() && uids[1] == geteuid(), "we");

    owner = (struct f_owner_ex){9, getpid()};
    fails(raw(a[0], F_SETOWN_EX, &owner), EINVAL, "no such kind");
    owner = (struct f_owner_ex){F_OWNER_PID, 0x3ffffff};
    fails(raw(a[0], F_SETOWN_EX, &owner), ESRCH, "no such process");
    fails(fcntl(a[0], F_SETOWN, 0x3ffffff), ESRCH, "nor for F_SETOWN");
    fails(fcntl(a[0], F_SETOWN, -0x3ffffff), ESRCH, "nor a group");
    fails(fcntl(a[0], F_SETOWN, 0x80000000), EINVAL, "the lowest number");
    fails(raw(a[0], F_SETOWN_EX, (void *)8), EFAULT, "a bad address");
    fails(raw(a[0], F_GETOWN_EX, (void *)8), EFAULT, "for both");
    raw(a[0], F_GETOWN_EX, &owner);
    check(owner.pid == getpid(), "and nothing has changed");
    equal(fcntl(a[0], F_SETOWN, 0), 0, "nobody again");
    raw(a[0], F_GETOWN_EX, &owner);
    equal(owner.pid, 0, "is told");

    equal(fcntl(a[0], F_GETSIG), 0, "no signal was chosen");
    equal(fcntl(a[0], F_SETSIG, SIGUSR1), 0, "one is");
    equal(fcntl(a[0], F_GETSIG), SIGUSR1, "and given back");
    fails(fcntl(a[0], F_SETSIG, 65), EINVAL, "there are 64");
    fails(fcntl(a[0], F_SETSIG, -1), EINVAL, "from 0 on");
    equal(fcntl(a[0], F_SETSIG, 64), 0, "the last");

    pid_t child = fork();
    if (child == 0)
        _exit(0);
    equal(fcntl(a[0], F_SETOWN, child), 0, "a child");
    waitpid(child, NULL, 0);
    equal(syscall(SYS_fcntl, a[0], F_GETOWN, 0), 0, "that is gone");

    int path = open("/", O_PATH);
    fails(fcntl(path, F_SETOWN, getpid()), EBADF, "a descriptor that only names");
    fails(raw(path, F_GETOWN_EX, &owner), EBADF, "in each way");
    fails(fcntl(path, F_GETSIG), EBADF, "has no signal");
    close(path);
    close(a[0]), close(a[1]), close(other);
    pipe(a);
    raw(a[0], F_GETOWN_EX, &owner);
    check(owner.pid == 0 && fcntl(a[0], F_GETSIG) == 0, "a new pipe has none of an old one");
    close(a[0]), close(a[1]);
}

/* O_ASYNC itself. */
static void flags(void)
{
    int a[2], on = 1, off = 0;
    pipe(a);
    equal(ioctl(a[0], FIOASYNC, &on), 0, "FIOASYNC");
    check(fcntl(a[0], F_GETFL) & O_ASYNC, "is O_ASYNC");
    check(!(fcntl(a[1], F_GETFL) & O_ASYNC), "of that end");
    equal(ioctl(a[0], FIOASYNC, &off), 0, "off");
    check(!(fcntl(a[0], F_GETFL) & O_ASYNC), "is off");
    fails(ioctl(a[0], FIOASYNC, 8), EFAULT, "a bad address");
    close(a[0]), close(a[1]);
    int file = open("/tmp/sigios", O_RDWR | O_CREAT | O_ASYNC, 0600);
    check(fcntl(file, F_GETFL) & O_ASYNC, "open keeps the flag");
    equal(fcntl(file, F_SETFL, 0), 0, "a file's");
    equal(fcntl(file, F_SETFL, O_ASYNC), 0, "is not set by F_SETFL");
    close(file);
    file = open("/tmp/sigios", O_RDWR);
    equal(fcntl(file, F_SETFL, O_ASYNC), 0, "without an error");
    check(!(fcntl(file, F_GETFL) & O_ASYNC), "nor kept");
    fails(ioctl(file, FIOASYNC, &on), ENOTTY, "FIOASYNC says so");
    close(file);
    unlink("/tmp/sigios");
    pid_t who = 1;
    pipe(a);
    fails(ioctl(a[0], FIOSETOWN, &who), ENOTTY, "a pipe has no FIOSETOWN");
    fails(ioctl(a[0], SIOCSPGRP, &who), ENOTTY, "no SIOCSPGRP");
    close(a[0]), close(a[1]);
    socketpair(AF_UNIX, SOCK_STREAM, 0, a);
    who = -getpgrp();
    equal(ioctl(a[0], SIOCSPGRP, &who), 0, "a socket has");
    who = 0;
    equal(ioctl(a[0], FIOGETOWN, &who), 0, "both");
    equal(who, -getpgrp(), "and gives back what was set");
    who = getpid();
    equal(ioctl(a[0], FIOSETOWN, &who), 0, "FIOSETOWN");
    equal(ioctl(a[0], SIOCGPGRP, &who) == 0 && who == getpid(), 1, "SIOCGPGRP");
    who = 0x3ffffff;
    fails(ioctl(a[0], FIOSETOWN, &who), ESRCH, "no such process");
    fails(ioctl(a[0], FIOSETOWN, 8), EFAULT, "a bad address");
    fails(ioctl(a[0], FIOGETOWN, 8), EFAULT, "in both ways");
    close(a[0]), close(a[1]);
}

static void pipes(void)
{
    int a[2];
    char c[4096];
    pipe2(a, O_NONBLOCK);
    write(a[1], "x", 1);
    async(a[0], CHOSEN);
    check(quiet(), "what is there already is not told");
    write(a[1], "x", 1);
    equal(next(), CHOSEN, "what comes is told");
    check(is(CHOSEN, POLL_IN, POLLIN | POLLRDNORM, a[0]), "with descriptor, reason and events");
    for (int i = 0; i < 4; i++) {
        write(a[1], "y", 1);
        equal(next() == CHOSEN && info.si_code == POLL_IN, 1, "each time, read or not");
    }
    read(a[0], c, sizeof c);
    check(quiet(), "reading is not told the reader");
    close(a[1]);
    equal(next() == CHOSEN && info.si_code == POLL_IN, 1, "the end is");
    close(a[0]);

    pipe2(a, O_NONBLOCK);
    async(a[0], CHOSEN);
    int other = dup(a[0]);
    close(a[0]);
    write(a[1], "x", 1);
    equal(next(), CHOSEN, "another descriptor keeps the description");
    equal(info.si_fd, a[0], "it is known by the first");
    equal(fcntl(other, F_SETFL, O_NONBLOCK), 0, "no more");
    write(a[1], "x", 1);
    check(quiet(), "is told");
    equal(fcntl(other, F_SETFL, O_NONBLOCK | O_ASYNC), 0, "and again");
    write(a[1], "x", 1);
    equal(next() == CHOSEN && info.si_fd == other, 1, "by the new one");
    close(other), close(a[1]);
    check(quiet(), "a closed one is told nothing");

    pipe2(a, O_NONBLOCK);
    async(a[1], CHOSEN);
    while (write(a[1], c, sizeof c) > 0)
        ;
    check(quiet(), "a writer is not told of what it writes");
    while (read(a[0], c, sizeof c) > 0)
        ;
    equal(next(), CHOSEN, "but of room");
    check(is(CHOSEN, POLL_OUT, POLLOUT | POLLWRNORM | POLLWRBAND, a[1]), "with reason and events");
    while (next_within(0, 50000000) != -1)
        ;
    close(a[0]);
    equal(next() == CHOSEN && info.si_code == POLL_OUT, 1, "the end of the readers is room, too");
    close(a[1]);

    mkfifo("/tmp/sigios-fifo", 0600);
    int fifo = open("/tmp/sigios-fifo", O_RDWR | O_NONBLOCK);
    async(fifo, CHOSEN);
    write(fifo, "x", 1);
    equal(next() == CHOSEN && info.si_code == POLL_IN && info.si_fd == fifo, 1, "a fifo");
    close(fifo);
    unlink("/tmp/sigios-fifo");

    int notify = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(notify, "/tmp", IN_CREATE);
    async(notify, CHOSEN);
    close(open("/tmp/sigios", O_CREAT, 0600));
    equal(next() == CHOSEN && info.si_code == POLL_IN, 1, "a queue of events");
    close(notify);
    unlink("/tmp/sigios");
}

/* Which signal, and what it says. */
static void signals(void)
{
    int a[2];
    pipe2(a, O_NONBLOCK);
    async(a[0], 0);
    write(a[1], "x", 1);
    equal(next(), SIGIO, "without a choice it is SIGIO");
    equal(info.si_code, SI_KERNEL, "from the kernel, without more");
    fcntl(a[0], F_SETSIG, SIGIO);
    write(a[1], "x", 1);
    equal(next(), SIGIO, "SIGIO chosen");
    check(is(SIGIO, POLL_IN, POLLIN | POLLRDNORM, a[0]), "says all");
    fcntl(a[0], F_SETSIG, SIGUSR1);
    write(a[1], "x", 1);
    equal(next(), SIGUSR1, "another one");
    check(is(SIGUSR1, POLL_IN, POLLIN | POLLRDNORM, a[0]), "too");
    fcntl(a[0], F_SETSIG, SIGTRAP);
    write(a[1], "x", 1);
    equal(next(), SIGTRAP, "one whose codes mean something else");
    equal(info.si_code, SI_SIGIO, "gets a code of its own");
    fcntl(a[0], F_SETOWN, 0);
    write(a[1], "x", 1);
    check(quiet(), "nobody is told");
    close(a[0]), close(a[1]);
}

static int both[2], ready[2];
static pthread_barrier_t barrier;
static void *told(void *arg)
{
    struct f_owner_ex owner = {F_OWNER_TID, (int)syscall(SYS_gettid)};
    equal(raw(both[0], F_SETOWN_EX, &owner), 0, "a thread that is not the first");
    raw(both[0], F_GETOWN_EX, &owner);
    equal(owner.pid, syscall(SYS_gettid), "is told");
    pthread_barrier_wait(&barrier);
    equal(next() == CHOSEN && info.si_fd == both[0], 1, "alone");
    return arg;
}

static void threads(void)
{
    pthread_t thread;
    pipe2(both, O_NONBLOCK);
    async(both[0], CHOSEN);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, told, NULL);
    pthread_barrier_wait(&barrier);
    write(both[1], "x", 1);
    pthread_join(thread, NULL);
    check(quiet(), "and not the first");
    write(both[1], "x", 1);
    check(quiet(), "one that has ended is not told");
    close(both[0]), close(both[1]);
}

/* A child that waits for one signal and says by its status whether it came; `user` 0 stays who it is. */
static pid_t listener(int user, int group)
{
    pid_t child = fork();
    if (child)
        return child;
    if (group)
        setpgid(0, group == 1 ? 0 : group);
    if (user && setresuid(user, user, user))
        _exit(9);
    write(ready[1], "r", 1);
    int got = next_within(20, 0);
    /* SIGUSR2 ends the wait without the other having come. */
    _exit(got == CHOSEN ? 1 : got == SIGUSR2 ? 2 : 3);
}

static int heard(pid_t child)
{
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static void others(void)
{
    int a[2];
    char c;
    pipe(ready);
    pipe2(a, O_NONBLOCK);
    async(a[0], CHOSEN);
    pid_t one = listener(0, 1);
    read(ready[0], &c, 1);
    pid_t two = listener(0, one);
    read(ready[0], &c, 1);
    equal(fcntl(a[0], F_SETOWN, -one), 0, "a group");
    write(a[1], "x", 1);
    equal(heard(one), 1, "its first member is told");
    equal(heard(two), 1, "and the other");
    check(quiet(), "and nobody else");

    if (geteuid() == 0) {
        one = listener(1000, 0);
        read(ready[0], &c, 1);
        fcntl(a[0], F_SETOWN, one);
        write(a[1], "x", 1);
        equal(heard(one), 1, "the superuser has anybody told");
        pid_t foreign = listener(1001, 0), same = listener(1000, 0);
        read(ready[0], &c, 1), read(ready[0], &c, 1);
        pid_t asker = fork();
        if (asker == 0) {
            setresuid(1000, 1000, 1000);
            int good = fcntl(a[0], F_SETOWN, foreign) == 0 && write(a[1], "x", 1) == 1;
            usleep(50000);
            good &= fcntl(a[0], F_SETOWN, same) == 0 && write(a[1], "x", 1) == 1;
            usleep(50000);
            _exit(!good);
        }
        equal(heard(asker), 0, "another user names whom he likes");
        kill(foreign, SIGUSR2);
        equal(heard(same), 1, "his own are told");
        equal(heard(foreign), 2, "others are not");
    }
    close(a[0]), close(a[1]), close(ready[0]), close(ready[1]);
}

static void sockets(void)
{
    static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    static char c[4096];
    for (int i = 0; i < 3; i++) {
        int a[2];
        socketpair(AF_UNIX, kinds[i] | SOCK_NONBLOCK, 0, a);
        async(a[0], CHOSEN);
        write(a[1], "x", 1);
        equal(next(), CHOSEN, "a socket hears of what comes");
        check(is(CHOSEN, POLL_IN, POLLIN | POLLRDNORM, a[0]), "with all");
        write(a[1], "x", 1);
        equal(next() == CHOSEN && info.si_code == POLL_IN, 1, "again");
        read(a[0], c, 1), read(a[0], c, 1);
        write(a[0], "x", 1);
        read(a[1], c, 1);
        check(quiet(), "room is not told who had enough");
        if (kinds[i] == SOCK_STREAM) {
            while (write(a[0], c, sizeof c) > 0)
                ;
            while (read(a[1], c, sizeof c) > 0)
                ;
            equal(next() == CHOSEN && info.si_code == POLL_OUT, 1, "room is told who had none");
            while (next_within(0, 50000000) != -1)
                ;
            shutdown(a[1], SHUT_WR);
            equal(next() == CHOSEN && info.si_code == POLL_IN, 1, "the end of one way is input");
        }
        if (kinds[i] != SOCK_DGRAM) {
            close(a[1]);
            equal(next() == CHOSEN && info.si_code == POLL_HUP, 1, "the end is a hang-up");
            equal(info.si_band, POLLHUP | POLLERR, "with its events");
        } else {
            close(a[1]);
        }
        close(a[0]);
    }

    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un name = {AF_UNIX, "\0sigios"};
    bind(listener, (void *)&name, 2 + 7), listen(listener, 3);
    async(listener, CHOSEN);
    connect(client, (void *)&name, 2 + 7);
    equal(next() == CHOSEN && info.si_code == POLL_IN && info.si_fd == listener, 1,
          "a listener hears of who connects");
    close(listener), close(client);

    struct sockaddr_in lo = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof lo;
    int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
    bind(in, (void *)&lo, sizeof lo), getsockname(in, (void *)&lo, &size);
    async(in, CHOSEN);
    sendto(out, "x", 1, 0, (void *)&lo, sizeof lo);
    equal(next() == CHOSEN && info.si_code == POLL_IN && info.si_fd == in, 1, "a datagram");
    close(in), close(out);

    lo.sin_port = 0;
    listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (void *)&lo, sizeof lo), getsockname(listener, (void *)&lo, &size), listen(listener, 3);
    async(listener, CHOSEN);
    connect(client, (void *)&lo, sizeof lo);
    equal(next() == CHOSEN && info.si_fd == listener, 1, "a connection over loopback");
    int server = accept(listener, NULL, NULL);
    fcntl(listener, F_SETFL, 0);
    async(client, CHOSEN);
    write(server, "x", 1);
    equal(next() == CHOSEN && info.si_code == POLL_IN && info.si_fd == client, 1, "and what comes by it");
    close(server), close(client), close(listener);
}

static void terminals(void)
{
    int master, slave;
    char c[64];
    openpty(&master, &slave, NULL, NULL, NULL);
    async(slave, CHOSEN);
    write(master, "ab\n", 3);
    equal(next() == CHOSEN && info.si_code == POLL_IN && info.si_fd == slave, 1, "a line is");
    read(slave, c, sizeof c);
    fcntl(slave, F_SETFL, O_RDWR);
    while (next_within(0, 50000000) != -1)
        ;
    async(master, CHOSEN);
    write(slave, "x", 1);
    equal(next() == CHOSEN && info.si_code == POLL_IN && info.si_fd == master, 1,
          "output is told the master");
    close(slave), close(master);

    pid_t child = fork();
    if (child == 0) {
        setsid();
        openpty(&master, &slave, NULL, NULL, NULL);
        int bad = ioctl(slave, TIOCSCTTY, 0) != 0;
        bad |= fcntl(slave, F_SETFL, O_RDWR | O_ASYNC) != 0;
        struct f_owner_ex owner = {9, 9};
        bad |= raw(slave, F_GETOWN_EX, &owner) != 0;
        bad |= owner.type != F_OWNER_PGRP || owner.pid != getpgrp();
        write(master, "\n", 1);
        bad |= next() != SIGIO;
        _exit(bad);
    }
    equal(heard(child), 0, "a session's terminal tells its foreground group unless told otherwise");
}

/* Signals while many threads write and one changes its mind: none is lost for ever, and nothing breaks. */
static void *writer(void *arg)
{
    for (int i = 0; i < 2000; i++)
        write(both[1], "x", 1);
    return arg;
}

static void races(void)
{
    pthread_t thread[2];
    char c[512];
    pipe2(both, O_NONBLOCK);
    async(both[0], SIGIO);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, writer, NULL);
    for (int i = 0; i < 500; i++) {
        fcntl(both[0], F_SETFL, i & 1 ? O_NONBLOCK | O_ASYNC : O_NONBLOCK);
        fcntl(both[0], F_SETOWN, i & 2 ? getpid() : 0);
        read(both[0], c, sizeof c);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    while (read(both[0], c, sizeof c) > 0)
        ;
    while (next_within(0, 50000000) != -1)
        ;
    fcntl(both[0], F_SETFL, O_NONBLOCK | O_ASYNC), fcntl(both[0], F_SETOWN, getpid());
    write(both[1], "x", 1);
    equal(next(), SIGIO, "after all that it tells");
    close(both[0]), close(both[1]);
}

static const struct group groups[] = {
    {"owners", owners},   {"flags", flags},         {"pipes", pipes},
    {"signals", signals}, {"threads", threads},     {"others", others},
    {"sockets", sockets}, {"terminals", terminals}, {"races", races},
};

int main(int argc, char **argv)
{
    sigemptyset(&ours);
    sigaddset(&ours, SIGIO), sigaddset(&ours, CHOSEN), sigaddset(&ours, SIGUSR1), sigaddset(&ours, SIGUSR2),
        sigaddset(&ours, SIGTRAP);
    sigprocmask(SIG_BLOCK, &ours, NULL);
    run_groups(GROUPS(groups), NULL, argc, argv);
    return done();
}

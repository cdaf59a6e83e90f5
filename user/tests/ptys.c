/* Checks pseudo-terminals as Linux has them; passes on Linux and must pass here.
 *
 * Interface: ptys [GROUP...] runs all groups, or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif
#define PKT_IOCTL 64
#define EXTERNAL 0200000 /* EXTPROC */

struct pair {
    int master, slave;
};

static struct pair pair_with(int flags)
{
    struct pair p = {posix_openpt(O_RDWR | O_NOCTTY | flags), -1};
    int unlocked = 0;
    if (p.master >= 0 && ioctl(p.master, TIOCSPTLCK, &unlocked) == 0)
        p.slave = ioctl(p.master, TIOCGPTPEER, O_RDWR | O_NOCTTY | flags);
    if (p.slave < 0)
        check(0, "a pair");
    return p;
}

static struct pair pair(void) { return pair_with(0); }

static void drop(struct pair p)
{
    close(p.slave);
    close(p.master);
}

static void raw(int fd, int least, int tenths)
{
    struct termios t;
    tcgetattr(fd, &t);
    cfmakeraw(&t);
    t.c_cc[VMIN] = least;
    t.c_cc[VTIME] = tenths;
    tcsetattr(fd, TCSANOW, &t);
}

/* Waits for events at `fd`, two seconds at most. */
static int events(int fd, int wanted, int ms)
{
    struct pollfd p = {fd, wanted, 0};
    return poll(&p, 1, ms) < 0 ? -1 : p.revents;
}

/* Reads exactly what is expected, in as many reads as it takes. */
static int gives(int fd, const void *wanted, size_t length)
{
    char got[70000];
    size_t have = 0;
    while (have < length && events(fd, POLLIN, 2000) & POLLIN) {
        ssize_t n = read(fd, got + have, length - have);
        if (n <= 0)
            break;
        have += n;
    }
    if (have == length && memcmp(got, wanted, length) == 0)
        return 1;
    printf("# got %zu of %zu:", have, length);
    for (size_t i = 0; i < have && i < 40; i++)
        printf(" %02x", (unsigned char)got[i]);
    printf("\n");
    return 0;
}

/* Waits until `count` bytes can be read. */
static int holds(int fd, int count)
{
    int there = -1;
    for (int i = 0; i < 400 && ioctl(fd, FIONREAD, &there) == 0 && there != count; i++) {
        struct timespec t = {0, 5000000};
        nanosleep(&t, NULL);
    }
    return there;
}

static int has_nothing(int fd) { return (events(fd, POLLIN, 0) & POLLIN) == 0; }

/* --- names --- */

static void names(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY), other = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    check(master >= 0 && other >= 0, "two masters");
    equal(fcntl(other, F_GETFD), FD_CLOEXEC, "O_CLOEXEC");
    unsigned number = -1, next = -1;
    equal(ioctl(master, TIOCGPTN, &number) | ioctl(other, TIOCGPTN, &next), 0, "their numbers");
    check(number != next, "which differ");
    fails(ioctl(master, TIOCGPTN, 8), EFAULT, "a number for nobody");
    int locked = -1;
    ioctl(master, TIOCGPTLCK, &locked);
    equal(locked, 1, "a new one is locked");
    char name[64];
    equal(ptsname_r(master, name, sizeof name), 0, "ptsname");
    struct stat s;
    equal(stat(name, &s), 0, "the slave has a name");
    check(S_ISCHR(s.st_mode) && major(s.st_rdev) == 136 && minor(s.st_rdev) == number, "of device 136:n");
    equal(s.st_uid, geteuid(), "owned by who opened the master");
    /* As the file system was mounted. */
    unsigned group = 0, mode = 0600;
    FILE *mounts = fopen("/proc/mounts", "r");
    for (char line[512]; mounts && fgets(line, sizeof line, mounts);)
        if (strstr(line, " /dev/pts devpts ")) {
            if (strstr(line, "gid="))
                group = atoi(strstr(line, "gid=") + 4);
            if (strstr(line, ",mode="))
                mode = strtoul(strstr(line, ",mode=") + 6, NULL, 8);
        }
    if (mounts)
        fclose(mounts);
    if (group)
        equal(s.st_gid, group, "and by the group of terminals");
    equal(s.st_mode & 0777, mode, "to which others may write");
    fails(open(name, O_RDWR | O_NOCTTY), EIO, "a locked slave does not open");
    equal(grantpt(master), 0, "grantpt");
    equal(unlockpt(master), 0, "unlockpt");
    ioctl(master, TIOCGPTLCK, &locked);
    equal(locked, 0, "unlocked");
    int slave = open(name, O_RDWR | O_NOCTTY);
    check(slave >= 0, "now it does");
    check(isatty(slave) && isatty(master), "both are terminals");
    char told[64] = "";
    equal(ttyname_r(slave, told, sizeof told), 0, "ttyname");
    equal(strcmp(told, name), 0, "gives the name");
    fails(ioctl(slave, TIOCGPTN, &number), ENOTTY, "a slave has no number to give");
    unsigned device = 0;
    equal(ioctl(slave, 0x80045432, &device), 0, "TIOCGDEV");
    equal(device, makedev(136, number), "the device");
    struct stat of_slave;
    fstat(slave, &of_slave);
    equal(of_slave.st_ino == s.st_ino && of_slave.st_dev == s.st_dev, 1, "fstat tells of the same file");
    equal(chmod(name, 0600) | fstat(slave, &of_slave), 0, "chmod");
    equal(of_slave.st_mode & 07777, 0600, "which shows");
    int found = 0, both = 0;
    DIR *dir = opendir("/dev/pts");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300];
        snprintf(path, sizeof path, "/dev/pts/%s", e->d_name);
        found += strcmp(path, name) == 0 && e->d_type == DT_CHR && e->d_ino == s.st_ino;
        both += (unsigned)atoi(e->d_name) == next && e->d_name[0] >= '0' && e->d_name[0] <= '9';
    }
    equal(found, 1, "the directory lists it");
    equal(both, 1, "and the other");
    if (dir)
        closedir(dir);
    fails(open("/dev/pts/00000000", O_RDWR), ENOENT, "no second way to write a number");
    fails(open("/dev/pts/new", O_RDWR | O_CREAT, 0600) == -1 &&
                  (errno == EACCES || errno == EPERM || errno == ENOENT)
              ? (errno = 1, -1)
              : 0,
          1, "nothing is made there");
    int peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    check(peer >= 0, "TIOCGPTPEER");
    equal(fcntl(peer, F_GETFD), FD_CLOEXEC, "with its flags");
    told[0] = 0;
    ttyname_r(peer, told, sizeof told);
    equal(strcmp(told, name), 0, "and its name");
    close(peer);
    close(master);
    fails(stat(name, &s), ENOENT, "the name goes with the master");
    fails(open(name, O_RDWR | O_NOCTTY), ENOENT, "and cannot be opened");
    unsigned reused = -1;
    int third = posix_openpt(O_RDWR | O_NOCTTY);
    ioctl(third, TIOCGPTN, &reused);
    check(reused != number, "its number is kept while a slave is open");
    close(third);
    close(slave);
    third = posix_openpt(O_RDWR | O_NOCTTY);
    ioctl(third, TIOCGPTN, &reused);
    equal(reused, number, "and given to the next then");
    close(third);
    close(other);
}

/* --- data --- */

static void lines(void)
{
    struct pair p = pair();
    equal(write(p.master,
                "ab\x7f"
                "c\r",
                5),
          5, "keys");
    check(gives(p.master, "ab\b \bc\r\n", 8), "are shown");
    char got[64];
    equal(read(p.slave, got, 64), 3, "a line is read");
    equal(memcmp(got, "ac\n", 3), 0, "as it was edited");
    write(p.master, "one\ntwo\n", 8);
    equal(read(p.slave, got, 64), 4, "one line at a time");
    equal(read(p.slave, got, 2), 2, "or a part of it");
    equal(read(p.slave, got, 64), 2, "and the rest");
    check(gives(p.master, "one\r\ntwo\r\n", 10), "the echo");
    write(p.master, "x\4y\4\4", 5);
    equal(read(p.slave, got, 64), 1, "a typed end of file pushes");
    equal(read(p.slave, got, 64), 1, "twice");
    equal(read(p.slave, got, 64), 0, "and alone is an end");
    check(gives(p.master, "xy", 2), "which is not shown");
    equal(write(p.slave, "out\n", 4), 4, "what is written");
    check(gives(p.master, "out\r\n", 5), "gets a carriage return");
    write(p.master, "half", 4);
    int count = -1;
    check(has_nothing(p.slave), "half a line is none");
    ioctl(p.slave, FIONREAD, &count);
    equal(count, 0, "for FIONREAD, too");
    write(p.master, "\n", 1);
    equal(holds(p.slave, 5), 5, "a whole one counts");
    equal(holds(p.master, 6), 6, "and its echo at the master");
    equal(tcflush(p.slave, TCIFLUSH), 0, "TCIFLUSH");
    check(has_nothing(p.slave), "throws it away");
    check(gives(p.master, "half\r\n", 6), "but not the echo");
    struct termios t, back;
    tcgetattr(p.slave, &t);
    t.c_lflag &= ~ECHO;
    equal(tcsetattr(p.master, TCSANOW, &t), 0, "the master sets the slave's settings");
    tcgetattr(p.slave, &back);
    equal(back.c_lflag & ECHO, 0, "the slave has them");
    write(p.master, "quiet\n", 6);
    equal(read(p.slave, got, 64), 6, "no echo");
    check(has_nothing(p.master), "none");
    t.c_cflag = (t.c_cflag & ~CSIZE) | CS7 | PARENB;
    tcsetattr(p.slave, TCSANOW, &t);
    tcgetattr(p.slave, &back);
    equal(back.c_cflag & (CSIZE | PARENB), CS8, "bytes have eight bits here");
    count = -1;
    write(p.slave, "unread", 6);
    equal(ioctl(p.slave, TIOCOUTQ, &count), 0, "TIOCOUTQ");
    equal(count, 0, "what the master can read has gone out");
    equal(tcflush(p.master, TCIFLUSH), 0, "the master flushes");
    check(has_nothing(p.master), "what it had not read");
    equal(tcdrain(p.slave) | tcsendbreak(p.slave, 0), 0, "tcdrain, tcsendbreak");
    fails(tcflush(p.slave, 7), EINVAL, "no such queue");
    fails(ioctl(p.slave, 0x5499, 0), ENOTTY, "no such ioctl");
    drop(p);
}

/* ^W takes a word and what is behind it. Bytes of raw mode are a line for canonical mode. */
static void words(void)
{
    struct pair p = pair();
    char got[64];
    struct termios t;
    tcgetattr(p.slave, &t);
    write(p.master, "cp foo_bar2\x17", 12);
    write(p.master, "a-b_ \x17", 6);
    write(p.master, "c\n", 2);
    equal(read(p.slave, got, 64), 7, "^W: a line without two words");
    check(memcmp(got, "cp a-c\n", 7) == 0, "of letters, digits and underscores");
    raw(p.slave, 1, 0);
    write(p.master, "rest", 4);
    equal(holds(p.slave, 4), 4, "bytes in raw mode");
    tcsetattr(p.slave, TCSANOW, &t);
    equal(events(p.slave, POLLIN, 0), POLLIN, "are a line after it");
    write(p.master, "more\n", 5);
    equal(holds(p.slave, 9), 9, "before what comes");
    equal(read(p.slave, got, 64), 4, "without an end of its own");
    equal(read(p.slave, got, 64), 5, "the next is apart");
    check(memcmp(got, "more\n", 5) == 0, "and whole");
    drop(p);
}

static void raw_bytes(void)
{
    struct pair p = pair();
    raw(p.slave, 1, 0);
    char all[256], got[1024];
    for (int i = 0; i < 256; i++)
        all[i] = i;
    equal(write(p.master, all, 256), 256, "every byte");
    check(gives(p.slave, all, 256), "arrives");
    equal(write(p.slave, all, 256), 256, "and back");
    check(gives(p.master, all, 256), "arrives");
    check(has_nothing(p.master) && has_nothing(p.slave), "nothing else");
    int same = 1;
    for (int i = 0; i < 3000; i++) {
        char c = i, d = ~c;
        same &= write(p.master, &c, 1) == 1 && read(p.slave, &d, 1) == 1 && c == d;
        same &= write(p.slave, &c, 1) == 1 && read(p.master, &d, 1) == 1 && c == d;
    }
    check(same, "byte by byte, often enough for all places");
    fails(write(p.master, (void *)8, 1), EFAULT, "from nowhere");
    fails(write(p.slave, (void *)8, 1), EFAULT, "from nowhere");
    equal(write(p.master, all, 0), 0, "nothing at all");
    equal(read(p.master, got, 0), 0, "nothing at all");
    write(p.master, "x", 1);
    fails(read(p.slave, (void *)8, 1), EFAULT, "to nowhere");
    tcflush(p.slave, TCIOFLUSH);
    drop(p);

    p = pair_with(O_NONBLOCK);
    raw(p.slave, 1, 0);
    fails(read(p.slave, got, 1), EAGAIN, "nothing to read");
    fails(read(p.master, got, 1), EAGAIN, "nor at the master");
    memset(got, 'x', sizeof got);
    long sum = 0;
    for (ssize_t n; (n = write(p.slave, got, sizeof got)) > 0;)
        sum += n;
    equal(errno, EAGAIN, "a slave that nobody reads from");
    check(sum >= 4096, "takes a good deal");
    equal(events(p.slave, POLLOUT, 0), 0, "until it takes no more");
    long back = 0;
    for (ssize_t n;
         back < sum && events(p.master, POLLIN, 2000) & POLLIN && (n = read(p.master, got, sizeof got)) > 0;)
        back += n;
    equal(back, sum, "all of it arrives");
    equal(events(p.slave, POLLOUT, 2000), POLLOUT, "then it takes more");
    sum = back = 0;
    for (ssize_t n; (n = write(p.master, got, sizeof got)) > 0;)
        sum += n;
    equal(errno, EAGAIN, "a master that nobody reads from");
    check(sum >= 4095, "takes a good deal");
    for (ssize_t n;
         back < sum && events(p.slave, POLLIN, 2000) & POLLIN && (n = read(p.slave, got, sizeof got)) > 0;)
        back += n;
    equal(back, sum, "all of it arrives");
    equal(events(p.master, POLLOUT, 2000), POLLOUT, "then it takes more");
    drop(p);
}

/* A thread that does one thing to a descriptor. */
struct task {
    int fd, writes;
    const char *bytes;
    size_t length;
    long done;
};

static void *carry(void *argument)
{
    struct task *t = argument;
    char buffer[4096];
    while (t->done < (long)t->length) {
        ssize_t n = t->writes ? write(t->fd, t->bytes + t->done, t->length - t->done)
                              : read(t->fd, buffer, sizeof buffer);
        if (n <= 0)
            break;
        if (!t->writes && memcmp(buffer, t->bytes + t->done, n))
            break;
        t->done += n;
    }
    return NULL;
}

static void both_ways(void)
{
    enum { MANY = 300000 };
    static char bytes[MANY];
    unsigned x = 1;
    for (int i = 0; i < MANY; i++)
        bytes[i] = (x = x * 1103515245 + 12345) >> 16;
    struct pair p = pair();
    raw(p.slave, 1, 0);
    struct task tasks[] = {{p.slave, 1, bytes, MANY, 0},
                           {p.master, 0, bytes, MANY, 0},
                           {p.master, 1, bytes, MANY, 0},
                           {p.slave, 0, bytes, MANY, 0}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, carry, &tasks[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    equal(tasks[0].done, MANY, "much is written at the slave");
    equal(tasks[1].done, MANY, "and read at the master, in order");
    equal(tasks[2].done, MANY, "and the other way");
    equal(tasks[3].done, MANY, "at the same time");
    drop(p);
}

static long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void minimum_and_time(void)
{
    struct pair p = pair();
    char got[64];
    raw(p.slave, 0, 0);
    equal(read(p.slave, got, 64), 0, "VMIN 0, VTIME 0: nothing there, nothing read");
    raw(p.slave, 0, 1);
    long begun = now_ms();
    equal(read(p.slave, got, 64), 0, "VTIME alone: nothing comes");
    check(now_ms() - begun >= 90, "after a tenth of a second");
    write(p.master, "abc", 3);
    equal(read(p.slave, got, 64), 3, "or what is there");
    raw(p.slave, 3, 0);
    write(p.master, "ab", 2);
    equal(events(p.slave, POLLIN, 0), 0, "VMIN 3: two are not enough");
    write(p.master, "c", 1);
    equal(events(p.slave, POLLIN, 2000), POLLIN, "three are");
    equal(read(p.slave, got, 64), 3, "and are read");
    raw(p.slave, 5, 1);
    write(p.master, "ab", 2);
    begun = now_ms();
    equal(read(p.slave, got, 64), 2, "VMIN 5 and VTIME: what came until nothing more did");
    check(now_ms() - begun >= 90, "for a tenth of a second");
    drop(p);
}

static void outside_editing(void)
{
    struct pair p = pair();
    struct termios t;
    tcgetattr(p.slave, &t);
    t.c_lflag |= EXTERNAL;
    tcsetattr(p.slave, TCSANOW, &t);
    write(p.master, "a\x7f\3", 3);
    check(gives(p.slave, "a\x7f\3", 3), "EXTPROC: keys come as they are");
    check(has_nothing(p.master), "and are not shown");
    drop(p);
}

/* --- ends --- */

static void ends(void)
{
    struct pair p = pair();
    raw(p.slave, 1, 0);
    char got[64];
    equal(events(p.master, POLLIN | POLLOUT, 0), POLLOUT, "a pair at rest");
    write(p.slave, "last", 4);
    close(p.slave);
    equal(events(p.master, POLLIN, 2000) & (POLLIN | POLLHUP), POLLIN | POLLHUP, "the last slave was closed");
    equal(read(p.master, got, 64), 4, "what it wrote is there");
    fails(read(p.master, got, 64), EIO, "then there is an end");
    fails(read(p.master, got, 64), EIO, "and stays");
    equal(events(p.master, POLLIN, 0), POLLHUP, "POLLHUP alone");
    p.slave = ioctl(p.master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    check(p.slave >= 0, "opened again");
    equal(events(p.master, POLLIN, 0), 0, "it lives");
    write(p.slave, "new", 3);
    check(gives(p.master, "new", 3), "and speaks");
    int twice = dup(p.slave);
    close(p.slave);
    equal(events(p.master, POLLIN, 0), 0, "a duplicate keeps it");
    p.slave = twice;
    write(p.master, "bye", 3);
    close(p.master);
    short hup = POLLIN | POLLOUT | POLLERR | POLLHUP;
    equal(events(p.slave, POLLIN | POLLOUT, 0), hup, "the master was closed");
    equal(read(p.slave, got, 64), 0, "an end for the slave");
    fails(write(p.slave, "x", 1), EIO, "which writes to nobody");
    struct termios t;
    fails(tcgetattr(p.slave, &t), EIO, "and has no settings");
    pid_t group = 1;
    fails(ioctl(p.slave, TIOCSPGRP, &group), ENOTTY, "nor a group");
    close(p.slave);

    int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    fails(read(master, got, 1), EAGAIN, "a slave that was never open has not ended");
    equal(events(master, POLLIN | POLLOUT, 0), POLLOUT, "nor hung up");
    equal(write(master, "k\n", 2), 2, "and may be typed at");
    check(gives(master, "k\r\n", 3), "which shows");
    close(master);
}

static void *reads_one(void *argument)
{
    struct task *t = argument;
    char byte;
    t->done = read(t->fd, &byte, 1) < 0 ? -errno : 0;
    return NULL;
}

static void *writes_all(void *argument)
{
    struct task *t = argument;
    t->done = 0;
    for (ssize_t n; (n = write(t->fd, t->bytes, t->length)) > 0;)
        t->done += n;
    t->done = -errno;
    return NULL;
}

/* A waiting thread hears of the end. It is seen asleep before. */
static void sleeps(pthread_t thread)
{
    (void)thread;
    struct timespec pause = {0, 30000000};
    nanosleep(&pause, NULL);
}

static void ends_of_waits(void)
{
    struct pair p = pair();
    raw(p.slave, 1, 0);
    pthread_t thread;
    struct task reader = {p.master, 0, NULL, 0, 1};
    pthread_create(&thread, NULL, reads_one, &reader);
    sleeps(thread);
    close(p.slave);
    pthread_join(thread, NULL);
    equal(reader.done, -EIO, "the master's reader hears of the last close");
    p.slave = ioctl(p.master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    reader.fd = p.slave;
    pthread_create(&thread, NULL, reads_one, &reader);
    sleeps(thread);
    close(p.master);
    pthread_join(thread, NULL);
    check(reader.done == 0 || reader.done == -EIO, "the slave's reader of the master's");
    close(p.slave);
    p = pair();
    static char much[65536];
    struct task writer = {p.slave, 1, much, sizeof much, 0};
    pthread_create(&thread, NULL, writes_all, &writer);
    sleeps(thread);
    close(p.master);
    pthread_join(thread, NULL);
    equal(writer.done, -EIO, "and its writer");
    close(p.slave);
}

#include "ptys-sessions.h"

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    run_groups(GROUPS(all), NULL, argc, argv);
    return done();
}

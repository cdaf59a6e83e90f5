/* Checks the kernel's log as programs read and write it: /dev/kmsg, /proc/kmsg, syslog; passes on Linux and
 * must pass here.
 *
 * Interface: kmsgs [GROUP...] runs all groups, or those named; TAP on standard output. As root; it reads the
 * log away from others.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "tap.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ 2
#define CLEAR 5
#define UNREAD 9

/* A record as it is read. */
static struct record {
    int kind;
    long long number, microseconds;
    char text[4096];
} record;

/* Reads a record: the bytes, or -1. */
static int next(int fd)
{
    char line[8192];
    int count = read(fd, line, sizeof line - 1), head = 0;
    if (count < 0)
        return -1;
    line[count] = 0;
    /* Further fields may follow the third. */
    if (sscanf(line, "%d,%lld,%lld,%n", &record.kind, &record.number, &record.microseconds, &head) != 3 ||
        !head || !strchr(line, ';'))
        return -2;
    snprintf(record.text, sizeof record.text, "%s", strchr(line, ';') + 1);
    return count;
}

/* Reads on to the record whose text begins with `text`: whether there is one. */
static int find(int fd, const char *text)
{
    int count;
    while ((count = next(fd)) > 0 || (count < 0 && errno == EPIPE))
        if (count > 0 && strncmp(record.text, text, strlen(text)) == 0)
            return 1;
    return 0;
}

static int writer;
static char *volatile nowhere = (char *)8;

/* Writes a line. (Without a newline at its end Linux keeps it back until the next one comes.) */
static void say(const char *text)
{
    struct iovec parts[] = {{(void *)text, strlen(text)}, {"\n", 1}};
    (void)!writev(writer, parts, 2);
}

static int reader(int flags)
{
    int fd = open("/dev/kmsg", O_RDONLY | flags);
    lseek(fd, 0, SEEK_END);
    return fd;
}

static void records(void)
{
    int fd = reader(O_NONBLOCK);
    fails(next(fd), EAGAIN, "nothing at the end");
    equal(write(writer, "<3>kmsgs: a line\n", 17), 17, "a line is written");
    check(find(fd, "kmsgs: a line\n"), "and read");
    equal(record.kind, 8 | 3, "with its level, as a program's");
    long long number = record.number, when = record.microseconds;
    check(number > 0 && when > 0, "with a number and a time");
    equal(write(writer, "kmsgs: another", 14), 14, "without a newline");
    say("kmsgs: behind it");
    check(find(fd, "kmsgs: another\n"), "one is added");
    equal(record.kind, 8 | 4, "a level is chosen");
    check(record.number > number && record.microseconds >= when, "number and time grow");
    say("<30>kmsgs: of a daemon");
    check(find(fd, "kmsgs: of a daemon\n") && record.kind == 30, "a facility is kept");
    say("<x>kmsgs");
    check(find(fd, "<x>kmsgs\n") && record.kind == 12, "other text in angles is text");
    say("kmsgs: a\\b\tc\x7f\xc3");
    check(find(fd, "kmsgs: a\\x5cb\\x09c\\x7f\\xc3\n"), "other bytes are escaped");
    say("kmsgs: one\ntwo\n");
    check(find(fd, "kmsgs: one\\x0atwo\\x0a\n"), "and newlines inside");
    struct iovec parts[] = {{"kmsgs: ", 7}, {"of three ", 9}, {"parts\n", 6}};
    equal(writev(writer, parts, 3), 22, "a line of parts");
    check(find(fd, "kmsgs: of three parts\n"), "is one record");
    char line[2000];
    memset(line, 'x', sizeof line);
    memcpy(line, "kmsgs: long ", 12);
    fails(write(writer, line, sizeof line), EINVAL, "a line that is too long");
    line[899] = '\n';
    equal(write(writer, line, 900), 900, "a long line");
    check(find(fd, "kmsgs: long xxx") && strlen(record.text) == 900, "comes whole");
    say("kmsgs: does not fit");
    say("kmsgs: fits");
    fails(read(fd, line, 5), EINVAL, "too little room");
    check(find(fd, "kmsgs: fits\n"), "and the record is passed over");
    fails(write(writer, nowhere, 10), EFAULT, "a line from nowhere");
    say("kmsgs: for nowhere");
    fails(read(fd, nowhere, 4096), EFAULT, "a record to nowhere");
    fails(next(fd), EAGAIN, "is passed over too");
    close(fd);
}

static void places(void)
{
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
    check(next(fd) > 0, "a description begins at the oldest record");
    long long oldest = record.number;
    say("kmsgs: place");
    equal(lseek(fd, 0, SEEK_SET), 0, "to the beginning");
    check(next(fd) > 0 && record.number >= oldest && record.number < oldest + 20, "the oldest again");
    equal(lseek(fd, 0, SEEK_END), 0, "to the end");
    fails(next(fd), EAGAIN, "nothing there");
    equal(klogctl(CLEAR, 0, 0), 0, "cleared");
    say("kmsgs: behind");
    equal(lseek(fd, 0, SEEK_DATA), 0, "to where it was cleared");
    check(next(fd) > 0 && strcmp(record.text, "kmsgs: behind\n") == 0, "what is behind");
    equal(lseek(fd, 0, SEEK_SET), 0, "clearing hides nothing here");
    check(next(fd) > 0 && record.number < oldest + 20, "from the beginning");
    fails(lseek(fd, 1, SEEK_SET), ESPIPE, "no offset");
    fails(lseek(fd, 0, SEEK_CUR), EINVAL, "no place of one's own");
    equal(lseek(writer, 0, SEEK_END), 0, "a writer has one, too");
    close(fd);
}

static int polled(int fd, int events)
{
    struct pollfd p = {fd, events, 0x55};
    return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}

static void polls(void)
{
    int fd = reader(O_NONBLOCK);
    equal(polled(fd, POLLIN | POLLOUT), 0, "nothing to read");
    say("kmsgs: polled");
    equal(polled(fd, POLLIN | POLLOUT), POLLIN, "something");
    equal(polled(writer, POLLOUT), 0, "there is room, but nobody is told");
    check(find(fd, "kmsgs: polled"), "read");
    equal(polled(fd, POLLIN), 0, "nothing again");
    int set = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u32 = 7}}, got;
    equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0, "watched");
    equal(epoll_wait(set, &got, 1, 0), 0, "nothing");
    say("kmsgs: watched");
    equal(epoll_wait(set, &got, 1, 1000), 1, "something");
    equal(epoll_wait(set, &got, 1, 0), 0, "once");
    say("kmsgs: watched again");
    equal(epoll_wait(set, &got, 1, 1000), 1, "and again");
    close(set);
    close(fd);
}

/* -- waiting --------------------------------------------------------------------------------------------- */

static void reads_record(void)
{
    int fd = reader(0);
    _exit(find(fd, "kmsgs: wakes"));
}

static void polls_record(void)
{
    int fd = reader(O_NONBLOCK);
    do {
        struct pollfd p = {fd, POLLIN, 0};
        poll(&p, 1, -1);
    } while (!find(fd, "kmsgs: wakes"));
    _exit(1);
}

static void watches_record(void)
{
    int fd = reader(O_NONBLOCK), set = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {0}};
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    do
        epoll_wait(set, &event, 1, -1);
    while (!find(fd, "kmsgs: wakes"));
    _exit(1);
}

/* By `read`, of text: until the line is there. */
static void reads_text(int (*take)(char *, int))
{
    static char text[1 << 20];
    int length = 0;
    while (length < (int)sizeof text - 1) {
        int count = take(text + length, sizeof text - 1 - length);
        if (count <= 0)
            _exit(0);
        length += count;
        text[length] = 0;
        if (strstr(text, "kmsgs: wakes\n"))
            _exit(1);
    }
}

static int by_call(char *text, int room) { return klogctl(READ, text, room); }

static int proc = -1;
static int by_proc(char *text, int room) { return read(proc, text, room); }

static int by_poll(char *text, int room)
{
    struct pollfd p = {proc, POLLIN, 0};
    poll(&p, 1, -1);
    return read(proc, text, room);
}

static void reads_call(void) { reads_text(by_call); }
static void reads_proc(void) { reads_text(by_proc); }
static void polls_proc(void) { reads_text(by_poll); }

/* Whether all that was told sleeps, a line wakes it, and it has the line. */
static void wakes(void (*waits)(void), const char *name)
{
    char text[100];
    int good = 0;
    for (int round = 0; round < 10; round++) {
        while (klogctl(UNREAD, 0, 0) > 0)
            klogctl(READ, text, sizeof text);
        pid_t child = fork();
        if (child == 0)
            waits();
        until_asleep(child);
        say("kmsgs: wakes");
        good += status_of(child) == 1 << 8;
    }
    equal(good, 10, name);
}

static void nothing(int signal) { (void)signal; }

static void waits(void)
{
    proc = open("/proc/kmsg", O_RDONLY);
    check(proc >= 0, "/proc/kmsg");
    wakes(reads_record, "a line wakes a reader of records");
    wakes(polls_record, "one who polls");
    wakes(watches_record, "one who watches");
    wakes(reads_call, "one who calls syslog");
    wakes(reads_proc, "a reader of /proc/kmsg");
    wakes(polls_proc, "one who polls that");
    close(proc);
    /* A signal ends the waiting. */
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, 0);
    int fd = reader(0);
    pid_t child = fork();
    if (child == 0) {
        struct sigaction taken = {.sa_handler = nothing};
        sigaction(SIGUSR1, &taken, 0);
        _exit(next(fd) == -1 && errno == EINTR);
    }
    until_asleep(child);
    kill(child, SIGUSR1);
    equal(status_of(child), 1 << 8, "a signal ends the waiting");
    proc = open("/proc/kmsg", O_RDONLY | O_NONBLOCK);
    char text[4096];
    while (read(proc, text, sizeof text) > 0)
        ;
    equal(errno, EAGAIN, "who does not wait is told so");
    equal(polled(proc, POLLIN), 0, "nothing is left");
    say("kmsgs: told");
    equal(polled(proc, POLLIN), POLLIN, "something");
    int unread = klogctl(UNREAD, 0, 0);
    check(unread > 12 && unread < 200, "its bytes");
    int count = read(proc, text, sizeof text - 1);
    text[count > 0 ? count : 0] = 0;
    check(count == unread && strncmp(text, "<12>[", 5) == 0 && strstr(text, "] kmsgs: told\n"), "as text");
    close(proc);
    close(fd);
}

/* -- many ------------------------------------------------------------------------------------------------ */

#define WRITERS 4
#define LINES 3000

static void writes_many(int me)
{
    char line[200];
    for (int n = 0; n < LINES; n++) {
        int width = (n * 7 + me * 11) % 90;
        int length = snprintf(line, sizeof line, "kmsgs: %d %d %0*d.\n", me, n, width + 1, 0);
        if (write(writer, line, length) != length)
            _exit(0);
    }
    _exit(1);
}

/* The lines of four that write at the same time are read whole, in order, and none is lost but those that
 * were overwritten. */
static void many(void)
{
    int fd = reader(0);
    pid_t last_word = fork();
    if (last_word == 0) {
        pid_t child[WRITERS];
        int good = 0;
        for (int i = 0; i < WRITERS; i++) {
            child[i] = fork();
            if (child[i] == 0)
                writes_many(i);
        }
        for (int i = 0; i < WRITERS; i++)
            good += status_of(child[i]) == 1 << 8;
        say("kmsgs: over");
        _exit(good);
    }
    long long last = -1;
    int seen[WRITERS] = {0}, broken = 0, disordered = 0, unexplained = 0, gone = 0, found = 0;
    record.text[0] = 0;
    while (strcmp(record.text, "kmsgs: over\n") != 0) {
        int count = next(fd);
        if (count < 0) {
            broken += count < -1 || errno != EPIPE;
            gone = 1;
            continue;
        }
        disordered += record.number <= last;
        unexplained += last >= 0 && record.number != last + 1 && !gone;
        last = record.number;
        gone = 0;
        int me, n, at = 0;
        if (sscanf(record.text, "kmsgs: %d %d %n", &me, &n, &at) != 2 || !at)
            continue;
        int width = (n * 7 + me * 11) % 90 + 1;
        broken += me < 0 || me >= WRITERS || (int)strspn(record.text + at, "0") != width ||
                  strcmp(record.text + at + width, ".\n") != 0;
        if (me >= 0 && me < WRITERS) {
            disordered += n < seen[me];
            seen[me] = n + 1;
        }
        found++;
    }
    printf("# %d of %d lines read\n", found, WRITERS * LINES);
    equal(status_of(last_word), WRITERS << 8, "all lines are written");
    check(found > 0 && found <= WRITERS * LINES, "and read");
    equal(broken, 0, "every line is whole");
    equal(disordered, 0, "they come in order");
    equal(unexplained, 0, "none is lost without a word");
    close(fd);
}

/* A reader that is overtaken is told so, and goes on at the oldest record. */
static void overtaken(void)
{
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
    check(next(fd) > 0, "a record");
    long long first = record.number;
    char line[900];
    memset(line, 'o', sizeof line);
    line[sizeof line - 1] = '\n';
    for (int i = 0; i < 4000; i++)
        (void)!write(writer, line, sizeof line);
    equal(polled(fd, POLLIN), POLLIN | POLLERR, "something is gone");
    fails(next(fd), EPIPE, "a reader is told so");
    equal(polled(fd, POLLIN), POLLIN, "and goes on");
    check(next(fd) > 0 && record.number > first + 1, "behind what is gone");
    check(record.text[0] == 'o' && strlen(record.text) == 900, "with a whole record");
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"records", records}, {"places", places}, {"polls", polls},
        {"waits", waits},     {"many", many},     {"overtaken", overtaken},
    };
    /* Linux drops what one writes too often, unless it is told not to. */
    int limit = open("/proc/sys/kernel/printk_devkmsg", O_WRONLY);
    if (limit >= 0) {
        (void)!write(limit, "on\n", 3);
        close(limit);
    }
    writer = open("/dev/kmsg", O_WRONLY);
    check(writer >= 0, "/dev/kmsg");
    alarm(240);
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

/* Checks details of Linux's calls that its test programs look at: clocks that would wake the machine, the
 * kernel's log, random numbers' ioctls, addresses that nobody wants, interfaces. Passes on Linux as root and
 * must pass here.
 *
 * Interface: details [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <linux/random.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

/* Whether `act` holds in a child that is nobody. */
static int as_nobody(int (*act)(void))
{
    pid_t child = fork();
    if (child == 0) {
        if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
            _exit(9);
        _exit(act() ? 0 : 1);
    }
    int status = status_of(child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* -- clocks that would wake the machine ------------------------------------------------------------------ */

static const int clocks[] = {CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM};
static const int likes[] = {CLOCK_REALTIME, CLOCK_BOOTTIME};

static int refused(void)
{
    const struct timespec soon = {0, 1000}, wrong = {0, -1};
    for (int i = 0; i < 2; i++) {
        timer_t timer;
        if (syscall(SYS_timer_create, clocks[i], NULL, &timer) != -1 || errno != EPERM)
            return 0;
        if (syscall(SYS_clock_nanosleep, clocks[i], 0, &soon, NULL) != -1 || errno != EPERM)
            return 0;
        if (syscall(SYS_clock_nanosleep, clocks[i], 0, &wrong, NULL) != -1 || errno != EINVAL)
            return 0;
        if (timerfd_create(clocks[i], 0) != -1 || errno != EPERM)
            return 0;
    }
    return 1;
}

static void alarms(void)
{
    timer_t timer;
    if (syscall(SYS_timer_create, clocks[0], NULL, &timer) != 0 && errno == EOPNOTSUPP) {
        /* As on a Linux without a clock that runs while it sleeps. */
        check(1, "no clock wakes this machine");
        return;
    }
    check(as_nobody(refused), "clocks that would wake the machine are for who has the right");
    for (int i = 0; i < 2; i++) {
        struct timespec then, now;
        sigset_t alarm;
        sigemptyset(&alarm);
        sigaddset(&alarm, SIGALRM);
        sigprocmask(SIG_BLOCK, &alarm, NULL);
        int id = -1;
        struct sigevent thread = {.sigev_notify = SIGEV_THREAD, .sigev_signo = SIGALRM};
        equal(syscall(SYS_timer_create, clocks[i], i ? &thread : NULL, &id), 0,
              "a timer, also one that says to call a thread");
        struct itimerspec at = {.it_value = {0, 2000000}};
        equal(syscall(SYS_timer_settime, id, 0, &at, NULL), 0, "set");
        int signal = 0;
        sigwait(&alarm, &signal);
        equal(signal, SIGALRM, "and it rings");
        equal(syscall(SYS_timer_delete, id), 0, "deleted");
        clock_gettime(likes[i], &then);
        const struct timespec soon = {0, 3000000};
        equal(syscall(SYS_clock_nanosleep, clocks[i], 0, &soon, NULL), 0, "a sleep");
        clock_gettime(likes[i], &now);
        int64_t passed = (now.tv_sec - then.tv_sec) * 1000000000ll + now.tv_nsec - then.tv_nsec;
        check(passed >= 3000000, "of its length");
        then.tv_sec /= 2;
        equal(syscall(SYS_clock_nanosleep, clocks[i], TIMER_ABSTIME, &then, NULL), 0,
              "until a moment that has been");
    }
}

/* -- the kernel's log ------------------------------------------------------------------------------------ */

/* The console's level by `printk`; -1 when that says something else than four numbers. */
static int console_level(void)
{
    int numbers[4] = {0};
    FILE *file = fopen("/proc/sys/kernel/printk", "r");
    int read = file ? fscanf(file, "%d %d %d %d", numbers, numbers + 1, numbers + 2, numbers + 3) : 0;
    if (file)
        fclose(file);
    return read == 4 ? numbers[0] : -1;
}

static int no_log(void)
{
    char text[16];
    for (int action = 2; action <= 11; action++)
        if ((action < 3 || (action > 3 && action != 10)) &&
            (klogctl(action, text, sizeof text) != -1 || errno != EPERM))
            return 0;
    return 1;
}

static void logs(void)
{
    static char text[1 << 20];
    check(as_nobody(no_log), "the log is for who has the right, whatever is asked");
    fails(klogctl(11, text, 1), EINVAL, "no such action");
    fails(klogctl(-1, text, 1), EINVAL, "nor one below the first");
    equal(klogctl(0, text, 0), 0, "closed");
    equal(klogctl(1, text, 0), 0, "opened");
    fails(klogctl(2, NULL, 0), EINVAL, "nothing to read into");
    fails(klogctl(3, text, -1), EINVAL, "less than nothing");
    equal(klogctl(2, text, 0), 0, "nothing read");
    int size = klogctl(10, NULL, 0);
    check(size >= 4096 && (size & (size - 1)) == 0, "the size of the log");
    int all = klogctl(3, text, sizeof text);
    check(all > 0 && all <= (int)sizeof text, "what is in it");
    char end[1000];
    int part = klogctl(3, end, sizeof end);
    check(part > 0 && part <= (int)sizeof end, "its end");
    check(part > 0 && part <= all && memcmp(text + all - part, end, part) == 0, "is the end of all");
    char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fails(klogctl(3, none, 4096), EFAULT, "not where nothing can be written");
    int level = console_level();
    check(level >= 1, "the console's level");
    fails(klogctl(8, NULL, 0), EINVAL, "no level below one");
    fails(klogctl(8, NULL, 9), EINVAL, "none above eight");
    equal(klogctl(8, NULL, 5), 0, "another level");
    equal(console_level(), 5, "is told");
    equal(klogctl(6, NULL, 0), 0, "the console off");
    equal(console_level(), 1, "is the least level");
    equal(klogctl(6, NULL, 0), 0, "off again");
    equal(klogctl(7, NULL, 0), 0, "and on");
    equal(console_level(), 5, "is the level before");
    equal(klogctl(7, NULL, 0), 0, "on again");
    equal(console_level(), 5, "changes nothing");
    equal(klogctl(8, NULL, level), 0, "as it was");
    int mark = open("/dev/kmsg", O_WRONLY);
    equal(write(mark, "details: a line\n", 16), 16, "a line of one's own");
    close(mark);
    check(klogctl(9, NULL, 0) > 0, "something is unread");
    all = klogctl(3, text, sizeof text - 1);
    text[all > 0 ? all : 0] = 0;
    check(strstr(text, "details: a line\n") != NULL, "the line is there");
}

/* A cleared message is not told again, but is kept. Not asked for on a machine whose log others read. */
static void cleared(void)
{
    static char text[1 << 20];
    check(klogctl(4, text, sizeof text) > 0, "read and cleared");
    int mark = open("/dev/kmsg", O_WRONLY);
    write(mark, "details: behind\n", 16);
    close(mark);
    int count = klogctl(3, text, sizeof text);
    check(count >= 16 && count < 200 && memmem(text, count, "details: behind\n", 16), "what came behind it");
    equal(klogctl(5, NULL, 0), 0, "cleared");
    equal(klogctl(3, text, sizeof text), 0, "nothing");
    check(klogctl(2, text, 1) == 1, "a byte that is unread");
    while (klogctl(9, NULL, 0) > 0)
        if (klogctl(2, text, sizeof text) <= 0)
            break;
    equal(klogctl(9, NULL, 0), 0, "all is read");
}

/* -- random numbers -------------------------------------------------------------------------------------- */

static int no_entropy(void)
{
    struct rand_pool_info none = {0, 0};
    int fd = open("/dev/urandom", O_RDWR), bits = 8;
    return ioctl(fd, RNDGETENTCNT, &bits) == 0 && bits == 256 && ioctl(fd, RNDADDTOENTCNT, &bits) == -1 &&
           errno == EPERM && ioctl(fd, RNDADDENTROPY, &none) == -1 && errno == EPERM &&
           ioctl(fd, RNDCLEARPOOL) == -1 && errno == EPERM && ioctl(fd, RNDRESEEDCRNG) == -1 &&
           errno == EPERM;
}

static void entropy(void)
{
    check(as_nobody(no_entropy), "anybody sees how much there is, and changes nothing");
    struct {
        int bits, bytes;
        char data[600];
    } given = {8, 600, "seed"};
    const char *names[] = {"/dev/urandom", "/dev/random"};
    for (int i = 0; i < 2; i++) {
        int fd = open(names[i], O_RDWR), bits = -1, told = -2;
        equal(ioctl(fd, RNDGETENTCNT, &bits), 0, names[i]);
        FILE *file = fopen("/proc/sys/kernel/random/entropy_avail", "r");
        equal(file ? fscanf(file, "%d", &told) : 0, 1, "entropy_avail");
        if (file)
            fclose(file);
        equal(bits, told, "the same number");
        fails(ioctl(fd, RNDGETENTCNT, NULL), EFAULT, "nowhere to tell it");
        fails(ioctl(fd, RNDADDTOENTCNT, NULL), EFAULT, "nothing to add");
        bits = -1;
        fails(ioctl(fd, RNDADDTOENTCNT, &bits), EINVAL, "less than nothing");
        equal(ioctl(fd, RNDADDENTROPY, &given), 0, "what is given is taken");
        fails(ioctl(fd, RNDADDENTROPY, NULL), EFAULT, "not from nowhere");
        equal(ioctl(fd, RNDRESEEDCRNG), 0, "a new seed");
        fails(ioctl(fd, TIOCGPGRP, &bits), EINVAL, "nothing else");
        close(fd);
    }
}

/* -- addresses and interfaces ---------------------------------------------------------------------------- */

static void addresses(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    bind(listener, (struct sockaddr *)&name, sizeof name);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&name, &length);
    equal(connect(client, (struct sockaddr *)&name, sizeof name), 0, "a connection");
    int server = accept(listener, NULL, NULL);
    equal(write(client, "abcd", 4), 4, "bytes");
    char byte;
    length = sizeof name;
    equal(recvfrom(server, &byte, 1, 0, (void *)-1, &length), 1,
          "a stream tells no address, wherever it should go");
    equal(length, 0, "of no length");
    fails(recvfrom(server, &byte, 1, 0, (void *)&name, (void *)1), EFAULT, "its length must go somewhere");
    socklen_t wrong = -1;
    fails(recvfrom(server, &byte, 1, 0, (void *)&name, &wrong), EINVAL, "and be one");
    int pair[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    write(pair[1], "x", 1);
    length = sizeof name;
    equal(recvfrom(pair[0], &byte, 1, 0, (void *)-1, &length), 1, "nor does a socket without a name");
    length = 0;
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    name.sin_port = 0;
    bind(datagrams, (struct sockaddr *)&name, sizeof name);
    length = sizeof name;
    getsockname(datagrams, (struct sockaddr *)&name, &length);
    for (int i = 0; i < 2; i++)
        sendto(datagrams, "x", 1, 0, (struct sockaddr *)&name, sizeof name);
    length = 0;
    equal(recvfrom(datagrams, &byte, 1, 0, (void *)-1, &length), 1, "an address for which there is no room");
    equal(length, sizeof name, "has its length all the same");
    fails(recvfrom(datagrams, &byte, 1, 0, (void *)-1, &length), EFAULT, "where there is room it must go");
    const unsigned long operations[] = {SIOCSIFFLAGS, SIOCSIFADDR,  SIOCSIFNETMASK,
                                        SIOCSIFMTU,   SIOCGIFFLAGS, SIOCETHTOOL};
    for (int i = 0; i < 6; i++)
        fails(ioctl(datagrams, operations[i], NULL), EFAULT, "an operation on no interface");
    int of[] = {listener, client, server, datagrams, pair[0], pair[1]};
    for (int i = 0; i < 6; i++)
        close(of[i]);
}

int main(int argc, char **argv)
{
    const struct group groups[] = {
        {"cleared", cleared}, {"alarms", alarms},       {"logs", logs},
        {"entropy", entropy}, {"addresses", addresses},
    };
    run_groups(GROUPS(groups), "cleared", argc, argv);
    return done();
}

/* Packet mode, flow control, sessions and waiting for a terminal: a part of `ptys`.
 *
 * Interface: the groups packets, flow, sessions, watched, exclusive and many.
 */
#ifndef PTYS_SESSIONS_H
#define PTYS_SESSIONS_H

/* --- packets --- */

static int packet(int fd)
{
    unsigned char got[64];
    if (!(events(fd, POLLIN, 2000) & POLLIN))
        return -1;
    ssize_t n = read(fd, got, sizeof got);
    return n == 1 ? got[0] : n < 0 ? -1 : 1000 + n;
}

static void packets(void)
{
    struct pair p = pair();
    int on = 1, is = -1;
    equal(ioctl(p.master, TIOCPKT, &on), 0, "TIOCPKT");
    equal(ioctl(p.master, TIOCGPKT, &is) == 0 && is, 1, "TIOCGPKT");
    write(p.slave, "data", 4);
    check(gives(p.master, "\0data", 5), "data behind a zero");
    tcflush(p.slave, TCIFLUSH);
    equal(events(p.master, POLLIN | POLLPRI, 2000), POLLIN | POLLPRI, "a status is urgent");
    equal(packet(p.master), TIOCPKT_FLUSHREAD, "TCIFLUSH");
    tcflush(p.slave, TCOFLUSH);
    equal(packet(p.master), TIOCPKT_FLUSHWRITE, "TCOFLUSH");
    tcflow(p.slave, TCOOFF);
    equal(packet(p.master), TIOCPKT_STOP, "TCOOFF");
    tcflow(p.slave, TCOON);
    equal(packet(p.master), TIOCPKT_START, "TCOON");
    struct termios t;
    tcgetattr(p.slave, &t);
    t.c_iflag &= ~IXON;
    tcsetattr(p.slave, TCSANOW, &t);
    equal(packet(p.master), TIOCPKT_NOSTOP, "no flow control");
    t.c_iflag |= IXON;
    tcsetattr(p.slave, TCSANOW, &t);
    equal(packet(p.master), TIOCPKT_DOSTOP, "flow control");
    t.c_lflag |= EXTERNAL;
    tcsetattr(p.slave, TCSANOW, &t);
    equal(packet(p.master), PKT_IOCTL, "EXTPROC and a change");
    t.c_lflag &= ~EXTERNAL;
    tcsetattr(p.slave, TCSANOW, &t);
    equal(packet(p.master), PKT_IOCTL, "its end");
    tcflow(p.slave, TCOOFF);
    tcflow(p.slave, TCOON);
    write(p.slave, "more", 4);
    equal(packet(p.master), TIOCPKT_START, "what is no longer so is not told; a status comes before data");
    check(gives(p.master, "\0more", 5), "then the data");
    pthread_t thread;
    struct task reader = {p.master, 0, NULL, 0, 1};
    pthread_create(&thread, NULL, reads_one, &reader);
    sleeps(thread);
    tcflush(p.slave, TCIFLUSH);
    pthread_join(thread, NULL);
    equal(reader.done, 0, "who waits is told a status");
    tcflush(p.slave, TCIFLUSH);
    on = 0;
    ioctl(p.master, TIOCPKT, &on);
    on = 1;
    ioctl(p.master, TIOCPKT, &on);
    equal(events(p.master, POLLIN | POLLPRI, 0), 0, "a status from before is forgotten");
    on = 0;
    ioctl(p.master, TIOCPKT, &on);
    tcflush(p.slave, TCIFLUSH);
    write(p.slave, "x", 1);
    check(gives(p.master, "x", 1), "no packets any more");
    drop(p);
}

/* --- flow --- */

static void flow(void)
{
    struct pair p = pair_with(O_NONBLOCK);
    struct termios t;
    tcgetattr(p.slave, &t);
    t.c_lflag &= ~ECHO;
    tcsetattr(p.slave, TCSANOW, &t);
    write(p.master, "\x13", 1);
    equal(events(p.slave, POLLOUT, 20), 0, "^S: held");
    fails(write(p.slave, "x", 1), EAGAIN, "nothing goes out");
    write(p.master, "\x11", 1);
    equal(events(p.slave, POLLOUT, 2000), POLLOUT, "^Q: released");
    equal(write(p.slave, "y", 1), 1, "it goes out");
    check(gives(p.master, "y", 1), "and arrives");
    tcflow(p.slave, TCOOFF);
    fails(write(p.slave, "x", 1), EAGAIN, "TCOOFF");
    tcflow(p.slave, TCOON);
    equal(write(p.slave, "z", 1), 1, "TCOON");
    check(gives(p.master, "z", 1), "arrives");
    tcflow(p.slave, TCIOFF);
    check(gives(p.master, "\x13", 1), "TCIOFF sends ^S");
    tcflow(p.slave, TCION);
    check(gives(p.master, "\x11", 1), "TCION ^Q");
    fails(tcflow(p.slave, 9), EINVAL, "no such action");
    drop(p);

    p = pair();
    pthread_t thread;
    struct task writer = {p.slave, 1, "held", 4, 0};
    tcflow(p.slave, TCOOFF);
    pthread_create(&thread, NULL, carry, &writer);
    sleeps(thread);
    check(has_nothing(p.master), "TCOOFF: a writer waits");
    tcflow(p.slave, TCOON);
    check(gives(p.master, "held", 4), "TCOON: it goes on");
    pthread_join(thread, NULL);
    equal(writer.done, 4, "to its end");
    drop(p);
}

/* --- settings --- */

/* The settings in their old form; those in the upper halves of its numbers stay. */
struct old_settings {
    unsigned short iflag, oflag, cflag, lflag;
    unsigned char line, cc[8];
};

static void settings(void)
{
    struct pair p = pair_with(O_NONBLOCK);
    struct termios t, is;
    char got[64];
    tcgetattr(p.slave, &t);
    t.c_lflag &= ~ECHO;
    tcsetattr(p.slave, TCSANOW, &t);
    write(p.master, "\x13", 1);
    for (int i = 0; i < 400 && events(p.slave, POLLOUT, 0); i++)
        usleep(5000);
    fails(write(p.slave, "x", 1), EAGAIN, "^S: held");
    t.c_iflag &= ~IXON;
    tcsetattr(p.slave, TCSANOW, &t);
    equal(write(p.slave, "x", 1), 1, "released without flow control");
    check(gives(p.master, "x", 1), "it arrives");
    write(p.master, "kept\n", 5);
    equal(holds(p.slave, 5), 5, "a line");
    equal(tcsetattr(p.slave, TCSADRAIN, &t), 0, "TCSADRAIN");
    equal(holds(p.slave, 5), 5, "keeps it");
    equal(tcflush(p.slave, TCOFLUSH), 0, "TCOFLUSH");
    equal(holds(p.slave, 5), 5, "keeps it, too");
    equal(tcsetattr(p.slave, TCSAFLUSH, &t), 0, "TCSAFLUSH");
    fails(read(p.slave, got, 64), EAGAIN, "throws it away");
    struct old_settings old;
    t.c_lflag |= EXTERNAL;
    t.c_cc[VINTR] = 7;
    tcsetattr(p.slave, TCSANOW, &t);
    equal(ioctl(p.slave, TCGETA, &old), 0, "TCGETA");
    equal(old.iflag == (unsigned short)t.c_iflag && old.oflag == (unsigned short)t.c_oflag &&
              old.cflag == (unsigned short)t.c_cflag && old.lflag == (unsigned short)t.c_lflag &&
              old.line == t.c_line,
          1, "the lower halves");
    equal(old.cc[VINTR], 7, "and the characters");
    old.cc[VINTR] = 3;
    old.lflag ^= ECHO;
    equal(ioctl(p.slave, TCSETA, &old), 0, "TCSETA");
    tcgetattr(p.slave, &is);
    equal(is.c_lflag, t.c_lflag ^ ECHO, "changes them and keeps the upper ones");
    equal(is.c_cc[VINTR], 3, "the characters");
    equal(is.c_cc[VLNEXT], t.c_cc[VLNEXT], "but for those that it lacks");
    drop(p);
}

/* --- sessions --- */

static volatile int signals[65];
static void note(int number) { signals[number]++; }

static void catch_all(void)
{
    struct sigaction a = {.sa_handler = note};
    for (int number = 1; number < 32; number++)
        if (number != SIGCHLD && number != SIGSEGV)
            sigaction(number, &a, NULL);
}

/* Waits until `number` has come. */
static int came(int number)
{
    for (int i = 0; i < 400 && !signals[number]; i++) {
        struct timespec t = {0, 5000000};
        nanosleep(&t, NULL);
    }
    int count = signals[number];
    signals[number] = 0;
    return count;
}

#define must(x)                                                     \
    do {                                                            \
        if (!(x)) {                                                 \
            dprintf(report, "line %d errno %d\n", __LINE__, errno); \
            _exit(1);                                               \
        }                                                           \
    } while (0)

/* Runs `body` as the leader of a new session whose terminal is the slave; whether it was content. Its
 * report of an error is shown. */
static int in_session(void (*body)(struct pair, int), int own)
{
    struct pair p = pair();
    int pipes[2];
    if (pipe(pipes))
        return 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int report = pipes[1];
        close(pipes[0]);
        alarm(20);
        must(setsid() > 0);
        if (own)
            must(ioctl(p.slave, TIOCSCTTY, 0) == 0);
        body(p, report);
        _exit(0);
    }
    close(pipes[1]);
    drop(p);
    char told[256];
    ssize_t n = read(pipes[0], told, sizeof told - 1);
    if (n > 0) {
        told[n] = 0;
        printf("# %s", told);
    }
    close(pipes[0]);
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
}

static void controls(struct pair p, int report)
{
    catch_all();
    must(tcgetsid(p.slave) == getsid(0));
    must(tcgetpgrp(p.slave) == getpgrp());
    must(tcgetpgrp(p.master) == getpgrp());
    pid_t session = 0;
    must(ioctl(p.master, TIOCGSID, &session) == 0 && session == getsid(0));
    int tty = open("/dev/tty", O_RDWR);
    must(tty >= 0);
    must(write(tty, "t", 1) == 1 && gives(p.master, "t", 1));
    close(tty);
    write(p.master, "\3", 1);
    must(came(SIGINT) == 1);
    must(gives(p.master, "^C", 2));
    write(p.master, "\x1c", 1);
    must(came(SIGQUIT) == 1);
    write(p.master, "\x1a", 1);
    must(came(SIGTSTP) == 1);
    must(gives(p.master, "^\\^Z", 4));
    struct winsize w = {10, 20, 0, 0}, is;
    must(ioctl(p.master, TIOCSWINSZ, &w) == 0);
    must(came(SIGWINCH) == 1);
    must(ioctl(p.slave, TIOCGWINSZ, &is) == 0 && is.ws_row == 10 && is.ws_col == 20);
    must(ioctl(p.master, TIOCSWINSZ, &w) == 0);
    must(ioctl(p.master, 0x40045436, SIGINT) == 0);
    must(came(SIGINT) == 1 && signals[SIGWINCH] == 0);
    must(ioctl(p.master, 0x40045436, SIGUSR1) == -1 && errno == EINVAL);
    char key = 'k';
    must(ioctl(p.slave, TIOCSTI, &key) == 0 && gives(p.master, "k", 1));
}

static void background(struct pair p, int report)
{
    signal(SIGTTOU, SIG_DFL);
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        char c;
        read(p.slave, &c, 1);
        _exit(c);
    }
    setpgid(child, child);
    int status = 0;
    must(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTIN);
    must(tcsetpgrp(p.slave, child) == 0);
    must(tcgetpgrp(p.slave) == child);
    write(p.master, "\7\n", 2);
    kill(child, SIGCONT);
    must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    /* Now this is in the background. */
    signal(SIGTTOU, SIG_IGN);
    must(tcsetpgrp(p.slave, getpgrp()) == 0);
    must(tcsetpgrp(p.slave, 1) == -1 && errno == EPERM);
    must(tcsetpgrp(p.slave, -1) == -1 && errno == EINVAL);
}

static void gives_up(struct pair p, int report)
{
    catch_all();
    must(ioctl(p.slave, TIOCNOTTY, 0) == 0);
    must(came(SIGHUP) == 1 && came(SIGCONT) == 1);
    must(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
    must(tcgetpgrp(p.slave) == -1 && errno == ENOTTY);
    must(ioctl(p.slave, TIOCSCTTY, 0) == 0);
}

static void by_opening(struct pair p, int report)
{
    char name[64];
    must(ptsname_r(p.master, name, sizeof name) == 0);
    must(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
    int quiet = open(name, O_RDWR | O_NOCTTY);
    must(quiet >= 0 && tcgetpgrp(quiet) == -1);
    int fd = open(name, O_WRONLY);
    must(fd >= 0 && tcgetpgrp(quiet) == -1);
    fd = open(name, O_RDWR);
    must(fd >= 0 && tcgetpgrp(quiet) == getpgrp());
    struct pair other = pair();
    must(ioctl(other.slave, TIOCSCTTY, 0) == -1 && errno == EPERM);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        /* It has a session already, and is taken from that by nobody without rights. */
        must(ioctl(p.slave, TIOCSCTTY, 0) == -1 && errno == EPERM);
        _exit(0);
    }
    int status = -1;
    must(waitpid(child, &status, 0) == child && status == 0);
}

static void hangs_up(struct pair p, int report)
{
    catch_all();
    int ready[2], end[2];
    must(pipe(ready) == 0 && pipe(end) == 0);
    pid_t child = fork();
    if (child == 0) {
        /* In the foreground, but no leader: hears of it when the leader ends. */
        must(setpgid(0, 0) == 0);
        signal(SIGTTOU, SIG_IGN);
        must(tcsetpgrp(p.slave, getpid()) == 0);
        close(end[0]);
        write(ready[1], "r", 1);
        close(p.master);
        char c;
        while (read(p.slave, &c, 1) < 0 && errno == EINTR)
            ;
        must(signals[SIGHUP] == 0);
        write(ready[1], "e", 1);
        must(came(SIGHUP) == 1 && came(SIGCONT) == 1);
        write(end[1], "h", 1);
        _exit(0);
    }
    char c;
    must(read(ready[0], &c, 1) == 1);
    close(p.master);
    must(came(SIGHUP) == 1 && came(SIGCONT) == 1);
    must(read(p.slave, &c, 1) == 0);
    must(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
    must(read(ready[0], &c, 1) == 1);
    close(end[1]);
    if (fork() == 0) {
        /* Outlives the leader, and sees what the child says. */
        setpgid(0, 0);
        must(read(end[0], &c, 1) == 1 && c == 'h');
        _exit(0);
    }
    close(report);
}

/* Nobody would continue a process of an orphaned group, so a read in the background does not stop it. That
 * holds as soon as it sees its new parent, wherever in the end of the old one another thread runs. */
static void orphan(struct pair p, int report)
{
    enum { ENDS = 1000, STEP = 37, LATEST = 40000 };
    for (int i = 0; i < ENDS; i++) {
        int told[2];
        char said = 0;
        must(pipe(told) == 0);
        pid_t child = fork();
        if (child == 0) {
            setpgid(0, 0);
            if (fork() == 0) {
                while (getppid() == getpgrp())
                    ;
                char c;
                said = read(p.slave, &c, 1) == -1 && errno == EIO ? 'y' : 'n';
                write(told[1], &said, 1);
            }
            for (volatile int wait = i * STEP % LATEST; wait > 0; wait--)
                ;
            _exit(0);
        }
        close(told[1]);
        must(waitpid(child, NULL, 0) == child);
        must(read(told[0], &said, 1) == 1 && said == 'y');
        close(told[0]);
    }
}

/* The superuser takes a terminal from another session, which then has none. Others may not type there. */
static void robbed(struct pair p, int report)
{
    signal(SIGHUP, SIG_IGN);
    must(open("/dev/tty", O_RDWR) >= 0);
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        char key = 'k';
        must(setsid() > 0 && setgid(1000) == 0 && setuid(1000) == 0);
        must(ioctl(p.slave, TIOCSTI, &key) == -1 && errno == EPERM);
        must(ioctl(p.slave, TIOCSCTTY, 1) == -1 && errno == EPERM);
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0);
    child = fork();
    if (child == 0) {
        must(setsid() > 0 && ioctl(p.slave, TIOCSCTTY, 0) == -1 && errno == EPERM);
        must(ioctl(p.slave, TIOCSCTTY, 1) == 0 && tcgetsid(p.slave) == getpid());
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0);
    must(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
}

static void sessions(void)
{
    check(in_session(orphan, 1), "a reader of an orphaned group is told an error");
    if (geteuid() == 0)
        check(in_session(robbed, 1), "a terminal is taken from another session");
    check(in_session(controls, 1), "control characters, sizes, /dev/tty");
    check(in_session(background, 1), "a reader in the background stops");
    check(in_session(gives_up, 1), "TIOCNOTTY");
    check(in_session(by_opening, 0), "a leader gets a terminal by opening it");
    check(in_session(hangs_up, 1), "the master's close hangs up");
    struct pair p = pair();
    pid_t group;
    fails(tcgetpgrp(p.slave), ENOTTY, "a slave of no session");
    fails(ioctl(p.master, TIOCGSID, &group), ENOTTY, "nor at the master");
    equal(ioctl(p.master, TIOCGPGRP, &group) == 0 && group == 0, 1, "no group");
    drop(p);
}

/* --- watching --- */

static void watched(void)
{
    struct pair p = pair();
    raw(p.slave, 1, 0);
    int ep = epoll_create1(0);
    struct epoll_event e = {EPOLLIN | EPOLLET, {.u32 = 1}}, got;
    equal(epoll_ctl(ep, EPOLL_CTL_ADD, p.master, &e), 0, "the master is watched");
    e.data.u32 = 2;
    equal(epoll_ctl(ep, EPOLL_CTL_ADD, p.slave, &e), 0, "and the slave");
    equal(epoll_wait(ep, &got, 1, 0), 0, "nothing yet");
    write(p.slave, "a", 1);
    equal(epoll_wait(ep, &got, 1, 2000) == 1 && got.data.u32 == 1, 1, "the slave writes");
    equal(epoll_wait(ep, &got, 1, 0), 0, "told once");
    write(p.slave, "b", 1);
    equal(epoll_wait(ep, &got, 1, 2000) == 1 && got.data.u32 == 1, 1, "and again for more");
    write(p.master, "c", 1);
    equal(epoll_wait(ep, &got, 1, 2000) == 1 && got.data.u32 == 2, 1, "the master writes");
    close(p.master);
    equal(epoll_wait(ep, &got, 1, 2000) == 1 && got.data.u32 == 2 && (got.events & EPOLLHUP), 1,
          "the master goes");
    close(p.slave);
    close(ep);
}

static void exclusive(void)
{
    struct pair p = pair();
    equal(ioctl(p.slave, TIOCEXCL, 0), 0, "TIOCEXCL");
    int is = -1;
    equal(ioctl(p.slave, 0x80045440, &is) == 0 && is, 1, "TIOCGEXCL");
    int fd = ioctl(p.master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    if (geteuid() == 0)
        check(fd >= 0, "the superuser opens it");
    else
        check(fd == -1 && errno == EBUSY, "nobody else opens it");
    close(fd);
    if (geteuid() == 0) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            (void)!setgid(1000), (void)!setuid(1000);
            _exit(ioctl(p.master, TIOCGPTPEER, O_RDWR | O_NOCTTY) == -1 && errno == EBUSY ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        equal(status, 0, "and nobody else");
    }
    if (geteuid() == 0) {
        close(p.slave);
        p.slave = ioctl(p.master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
        equal(ioctl(p.slave, 0x80045440, &is) == 0 && is, 1, "still so when it is opened again");
    }
    equal(ioctl(p.slave, TIOCNXCL, 0), 0, "TIOCNXCL");
    equal(ioctl(p.slave, 0x80045440, &is) == 0 && is == 0, 1, "is told");
    fd = ioctl(p.master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    check(fd >= 0, "anybody does");
    close(fd);
    drop(p);
}

/* Many, and what they leave. */
static void many(void)
{
    enum { MANY = 60 };
    struct pair p[MANY];
    int good = 1;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            p[i] = pair();
            good &= p[i].slave >= 0;
        }
        for (int i = 0; i < MANY; i++) {
            char c = '0' + i;
            good &= write(p[i].slave, &c, 1) == 1;
        }
        for (int i = 0; i < MANY; i++) {
            char c = -1;
            good &= read(p[i].master, &c, 1) == 1 && c == '0' + i;
            drop(p[i]);
        }
    }
    check(good, "sixty at a time, three times");
}

#include "ptys-racing.h"

static const struct group all[] = {
    {"names", names},         {"lines", lines},
    {"words", words},         {"raw_bytes", raw_bytes},
    {"both_ways", both_ways}, {"minimum_and_time", minimum_and_time},
    {"settings", settings},   {"outside_editing", outside_editing},
    {"ends", ends},           {"ends_of_waits", ends_of_waits},
    {"packets", packets},     {"flow", flow},
    {"sessions", sessions},   {"watched", watched},
    {"exclusive", exclusive}, {"many", many},
    {"racing", racing},
};
#endif

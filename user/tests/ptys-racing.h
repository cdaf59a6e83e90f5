/* Leaders of sessions that want one terminal at once: a part of `ptys`.
 *
 * Interface: racing(). As root, since only that may take a terminal from another session.
 */
#ifndef PTYS_RACING_H
#define PTYS_RACING_H
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { LEADERS = 4 };

static struct {
    atomic_int arrived, round, wins, owners, torn, most, rounds_with_owner;
} *meeting;

/* Until all leaders are here. The last one to come does `last` before the others go on. */
static void meet(void (*last)(void))
{
    int round = atomic_load(&meeting->round);
    if (atomic_fetch_add(&meeting->arrived, 1) == LEADERS - 1) {
        if (last)
            last();
        atomic_store(&meeting->arrived, 0);
        atomic_store(&meeting->round, round + 1);
        return;
    }
    while (atomic_load(&meeting->round) == round)
        sched_yield();
}

static void count_owners(void)
{
    int owners = atomic_exchange(&meeting->owners, 0);
    if (owners > atomic_load(&meeting->most))
        atomic_store(&meeting->most, owners);
    meeting->rounds_with_owner += owners == 1;
}

/* Whether the terminal is its session's: by the session and by the terminal, which have to agree. */
static void look(int slave)
{
    int tty = open("/dev/tty", O_RDWR | O_NOCTTY), controls = tcgetsid(slave) == getpid();
    meeting->torn += controls != (tty >= 0);
    meeting->owners += controls || tty >= 0;
    if (tty >= 0)
        close(tty);
}

static void lead(int slave, int steals, int rounds)
{
    unsigned chance = getpid() * 2654435761u;
    signal(SIGHUP, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    if (setsid() < 0)
        _exit(1);
    for (int i = 0; i < rounds; i++) {
        meet(0);
        chance = chance * 1664525 + 1013904223;
        if (!steals)
            meeting->wins += ioctl(slave, TIOCSCTTY, 0) == 0;
        else if (chance >> 30 == 0)
            ioctl(slave, TIOCNOTTY);
        else if (chance >> 30 == 1)
            tcsetpgrp(slave, getpid());
        else
            ioctl(slave, TIOCSCTTY, 1);
        meet(0);
        look(slave);
        meet(count_owners);
        if (!steals)
            ioctl(slave, TIOCNOTTY);
    }
    _exit(0);
}

static void raced(int steals, int rounds)
{
    struct pair p = pair();
    pid_t leaders[LEADERS];
    int bad = 0;
    memset(meeting, 0, sizeof *meeting);
    fflush(stdout);
    for (int i = 0; i < LEADERS; i++)
        if ((leaders[i] = fork()) == 0)
            lead(p.slave, steals, rounds);
    for (int i = 0; i < LEADERS; i++) {
        int status = -1;
        waitpid(leaders[i], &status, 0);
        bad += status != 0;
    }
    equal(bad, 0, steals ? "leaders that take a terminal from each other" : "leaders that want one terminal");
    if (!steals)
        equal(meeting->wins, rounds, "one of them gets it each time");
    check(meeting->rounds_with_owner > 0, "somebody has it now and then");
    equal(meeting->most, 1, "never two");
    equal(meeting->torn, 0, "session and terminal agree");
    drop(p);
}

static void racing(void)
{
    meeting = mmap(0, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    raced(0, repeats(800));
    raced(1, repeats(800));
    munmap(meeting, sizeof *meeting);
}
#endif

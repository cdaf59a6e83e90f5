/* The instructions of a context switch at the end of a quantum, from one thread's last to the next one's
 * first.
 *
 * Interface: two parties, `who` 0 and 1, share a `struct turns` and call take_turns, which touches no vector
 * register. Each stamps the time as often as it can, and notes when it was away: its last stamp before, and
 * the first one after. Where one party left while the other was away, the time from the former's last stamp
 * to the latter's first one is a gap. typical_turn() and mean_turn() are the median and the mean of the gaps,
 * in ticks of rdtsc, which counts instructions under `-icount shift=0`. An interrupt comes anywhere in a
 * party's round of stamps; the parts of rounds before and after it are one round in the mean, which is
 * subtracted. No round is left out. The mean includes interrupts that do something else too.
 */
#ifndef QUANTUM_ENDS_H
#define QUANTUM_ENDS_H
#include <stdint.h>
#include <stdlib.h>

enum {
    TURNS_KEPT = 500,
    /* Ticks between two stamps that no round takes, and every interrupt. */ TURNS_AWAY = 60
};

struct turns {
    volatile long quit;
    /* Each party's absences, by time, and the time of a round. */
    struct absence {
        uint64_t from, to;
    } away[2][TURNS_KEPT];
    long count[2];
    uint64_t own[2];
    uint64_t gaps[2 * TURNS_KEPT];
};

__attribute__((target("general-regs-only"))) static inline uint64_t turns_stamp(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

/* Stamps until the party has been away `most` times, or the other party has. */
__attribute__((target("general-regs-only"), unused)) static void take_turns(struct turns *t, uint64_t who,
                                                                            long most)
{
    uint64_t own = 0, before = turns_stamp();
    long count = 0;
    if (most > TURNS_KEPT)
        most = TURNS_KEPT;
    while (!t->quit) {
        uint64_t now = turns_stamp(), passed = now - before;
        if (passed < TURNS_AWAY) {
            own = passed;
        } else {
            t->away[who][count].from = before;
            t->away[who][count].to = now;
            if (++count >= most)
                t->quit = 1;
        }
        before = now;
    }
    t->own[who] = own;
    t->count[who] = count;
}

static int by_size(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

/* The gaps without the rounds, in the order of size; returns how many. Both parties have ended. */
static long turns_counted(struct turns *t)
{
    long count = 0;
    for (int who = 0; who < 2; who++) {
        struct absence *mine = t->away[who], *its = t->away[!who];
        uint64_t own = (t->own[0] + t->own[1]) / 2;
        for (long i = 0, k = 0; i < t->count[who]; i++) {
            while (k < t->count[!who] && its[k].to < mine[i].from)
                k++;
            if (k < t->count[!who] && its[k].from < mine[i].from && its[k].to < mine[i].to)
                t->gaps[count++] = its[k].to - mine[i].from - own;
        }
    }
    qsort(t->gaps, count, sizeof *t->gaps, by_size);
    return count;
}

__attribute__((unused)) static uint64_t typical_turn(struct turns *t)
{
    long count = turns_counted(t);
    return count ? t->gaps[count / 2] : -1ul;
}

__attribute__((unused)) static uint64_t mean_turn(struct turns *t)
{
    long count = turns_counted(t);
    uint64_t sum = 0;
    for (long i = 0; i < count; i++)
        sum += t->gaps[i];
    return count ? sum / count : -1ul;
}
#endif

/* The end of a quantum, counted from the last instruction of the one whose quantum ends to the first of the next.
 *
 * Interface: two parties, `who` 0 and 1, share a `struct turns` and call take_turns; each stamps the time as often as it can, and notes the gap
 * when the last stamp is the other's. typical_turn() and mean_turn() are ticks of rdtsc, which counts instructions under `-icount shift=0`. The
 * parties are interrupted anywhere in their loops, so the parts before the interrupt and behind it are one round in the mean, which is taken off.
 * The mean has the interrupts in it that do something else too. take_turns touches no vector register.
 */
#ifndef TURNS_H
#define TURNS_H
#include <stdint.h>
#include <stdlib.h>

enum { TURNS_KEPT = 500 };

struct turns {
    /* The last stamp, twice, and whose it is: one word, so that none is taken for the other's. */
    volatile uint64_t last;
    volatile uint64_t own;
    volatile long count, quit;
    uint64_t gaps[TURNS_KEPT];
};

/* Stamps until `most` changes of the party have been seen. */
__attribute__((target("general-regs-only"), unused)) static void take_turns(struct turns *t, uint64_t who, long most)
{
    uint64_t least = -1ul;
    while (!t->quit) {
        uint32_t low, high;
        __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
        uint64_t now = ((uint64_t)high << 32 | low) << 1 | who, last = t->last, gap = (now >> 1) - (last >> 1);
        if ((last & 1) == who) {
            if (gap < least)
                t->own = least = gap;
        } else if ((long)gap > 0 && last > 1) {
            /* A stamp that was taken before the other's turn is no measure. */
            if (t->count < TURNS_KEPT)
                t->gaps[t->count] = gap;
            if (++t->count >= most)
                t->quit = 1;
        }
        t->last = now;
    }
}

static int by_size(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

static long turns_counted(struct turns *t) { return t->count < TURNS_KEPT ? t->count : TURNS_KEPT; }

__attribute__((unused)) static uint64_t typical_turn(struct turns *t)
{
    long count = turns_counted(t);
    qsort(t->gaps, count, sizeof *t->gaps, by_size);
    return count ? t->gaps[count / 2] - t->own : -1ul;
}

__attribute__((unused)) static uint64_t mean_turn(struct turns *t)
{
    long count = turns_counted(t);
    uint64_t sum = 0;
    for (long i = 0; i < count; i++)
        sum += t->gaps[i];
    return count ? sum / count - t->own : -1ul;
}
#endif

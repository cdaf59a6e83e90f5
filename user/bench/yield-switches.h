/* The instructions of a context switch by sched_yield, from the call of one thread to the return of another.
 *
 * Interface: two parties, `who` 0 and 1, share a `struct passage` and call pass_plain or pass_vectors. The
 * party that comes back just after the other one gave way notes the time between. `least` is the switch
 * without an interrupt in it, in ticks of rdtsc, which counts instructions under `-icount shift=0`;
 * own_ticks() of them belong to the program. pass_plain touches no vector register. pass_vectors keeps its
 * number in one, and counts in `lost` how often it found another there.
 */
#ifndef YIELD_SWITCHES_H
#define YIELD_SWITCHES_H
#include <stdint.h>
#include <sys/syscall.h>

struct passage {
    /* When the last party gave way, and which it was. */
    volatile uint64_t from;
    volatile long last;
    volatile uint64_t least;
    volatile long count, lost, quit;
};

/* A time stamp into `from`, the caller's number into `last`, then INSTRUCTION with `number` in rax, then
 * another time stamp. */
#define STAMPED(PREPARE, INSTRUCTION, LOOK)                                                              \
    PREPARE "rdtsc\n shl $32, %%rdx\n or %%rdx, %%rax\n mov %%rax, %[from]\n mov %[who], %[last]\n mov " \
            "%[number], %%rax\n" INSTRUCTION "\n rdtsc\n shl $32, %%rdx\n or %%rdx, %%rax\n" LOOK

#define STAMPS(P) [from] "=m"((P)->from), [last] "=m"((P)->last)
#define NUMBERS(WHO) [who] "r"((long)(WHO)), [number] "r"((long)SYS_sched_yield)

#define PLAIN __attribute__((target("general-regs-only"), unused))

PLAIN static void note(struct passage *p, long who, uint64_t now)
{
    if (p->last == who)
        return;
    if (now - p->from < p->least)
        p->least = now - p->from;
    p->count++;
}

/* One that gives way and does not look at what the other noted: ticks until it is back. */
PLAIN static uint64_t give_way(struct passage *p, long who)
{
    uint64_t now;
    __asm__ volatile(STAMPED("", "syscall", "")
                     : "=&a"(now), STAMPS(p)
                     : NUMBERS(who)
                     : "rcx", "rdx", "r11", "memory");
    return now;
}

PLAIN static void pass_plain(struct passage *p, long who, long rounds)
{
    while (rounds-- && !p->quit)
        note(p, who, give_way(p, who));
}

__attribute__((unused)) static void pass_vectors(struct passage *p, long who, long rounds)
{
    while (rounds-- && !p->quit) {
        uint64_t now;
        long kept;
        __asm__ volatile(STAMPED("movq %[who], %%xmm7\n", "syscall", "movq %%xmm7, %[kept]\n")
                         : "=&a"(now), STAMPS(p), [kept] "=&r"(kept)
                         : NUMBERS(who)
                         : "rcx", "rdx", "r11", "xmm7", "memory");
        note(p, who, now);
        if (kept != who)
            p->lost++;
    }
}

/* From the first time stamp to the instruction behind the call: the same without entering the kernel. */
PLAIN static uint64_t own_ticks(struct passage *p)
{
    uint64_t least = -1ul;
    for (int i = 0; i < 100; i++) {
        uint64_t now;
        __asm__ volatile(STAMPED("", "nop", "")
                         : "=&a"(now), STAMPS(p)
                         : NUMBERS(0)
                         : "rcx", "rdx", "r11", "memory");
        if (now - p->from < least)
            least = now - p->from;
    }
    return least;
}
#endif

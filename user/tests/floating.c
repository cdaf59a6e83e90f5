/* Vector registers, x87 state, thread-local storage and segment bases survive switches between processes and
 * threads, and no other thread sees them.
 *
 * Interface: floating ROUNDS. Two processes of two threads each hold values of their own in every register
 * that this processor has, give way and are preempted, and look whether the values are still there. Prints
 * `ok ...`.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define XMM 16

struct registers {
    _Alignas(32) uint8_t vector[XMM][32];
    uint32_t mxcsr;
    uint16_t control;
    double x87;
};

static int wide;
static long rounds;
static _Thread_local uint64_t own;

/* Whether the system has made the upper halves of the vector registers usable. */
static int has_avx(void)
{
    uint32_t a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (bit_OSXSAVE | bit_AVX)) != (bit_OSXSAVE | bit_AVX))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6;
}

#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define LOAD_X(n) "movdqa " #n "*32(%[in]), %%xmm" #n "\n"
#define STORE_X(n) "movdqa %%xmm" #n ", " #n "*32(%[out])\n"
#define LOAD_Y(n) "vmovdqa " #n "*32(%[in]), %%ymm" #n "\n"
#define STORE_Y(n) "vmovdqa %%ymm" #n ", " #n "*32(%[out])\n"
#define CLOBBERED                                                                                     \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
        "xmm12", "xmm13", "xmm14", "xmm15", "rax", "rcx", "r11", "memory"
/* In between: the system call `number`, then `spins` turns in user mode. The call's arguments are `a`, `b`
 * and `c`. */
#define BETWEEN "syscall\n mov %%rax, %[result]\n mov %[spins], %%rcx\n 1: dec %%rcx\n jnz 1b\n"
#define CALLED [number] "r"(number), [spins] "r"(spins), "D"(a), "S"(b), "d"(c)

static long through(const struct registers *in, struct registers *out, long number, long a, long b, long c,
                    long spins)
{
    long result;
    __asm__ volatile("ldmxcsr %[mxcsr]\n fldcw %[control]\n fldl %[x87]\n"
                     :
                     : [mxcsr] "m"(in->mxcsr), [control] "m"(in->control), [x87] "m"(in->x87));
    if (wide)
        __asm__ volatile(EACH(LOAD_Y) "mov %[number], %%rax\n" BETWEEN EACH(STORE_Y) "vzeroupper\n"
                         : [result] "=m"(result)
                         : [in] "r"(in->vector), [out] "r"(out->vector), CALLED
                         : CLOBBERED);
    else
        __asm__ volatile(EACH(LOAD_X) "mov %[number], %%rax\n" BETWEEN EACH(STORE_X)
                         : [result] "=m"(result)
                         : [in] "r"(in->vector), [out] "r"(out->vector), CALLED
                         : CLOBBERED);
    __asm__ volatile("fstpl %[x87]\n fnstcw %[control]\n stmxcsr %[mxcsr]\n"
                     : [mxcsr] "=m"(out->mxcsr), [control] "=m"(out->control), [x87] "=m"(out->x87));
    return result;
}

#define ARCH_SET_GS 0x1001
#define ARCH_GET_GS 0x1004

/* The program may use the instructions for segment bases. */
static int has_bases;

/* Whether that is so: the processor has them, and the system permits them. */
static int may_use_bases(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        uint64_t base;
        signal(SIGILL, SIG_DFL);
        __asm__ volatile("rdgsbase %0" : "=r"(base));
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status == 0;
}

static uint64_t gs_base(void)
{
    uint64_t base = 0;
    if (has_bases)
        __asm__ volatile("rdgsbase %0" : "=r"(base));
    else
        syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    return base;
}

static void set_gs_base(uint64_t base, int by_instruction)
{
    if (by_instruction && has_bases)
        __asm__ volatile("wrgsbase %0" : : "r"(base));
    else
        syscall(SYS_arch_prctl, ARCH_SET_GS, base);
}

/* Another FS base, set by an instruction, survives this call. */
static int fs_survives(uint64_t base, long number)
{
    uint64_t own, then;
    if (!has_bases)
        return 1;
    __asm__ volatile("rdfsbase %[own]\n wrfsbase %[base]\n syscall\n rdfsbase %[then]\n wrfsbase %[own]\n"
                     : [own] "=&r"(own), [then] "=&r"(then), "+a"(number)
                     : [base] "r"(base)
                     : "rcx", "r11", "memory");
    return then == base;
}

static void on_signal(int number)
{
    /* The handler has a clean state of its own and spoils it. */
    double x = number;
    for (int i = 0; i < 20; i++)
        x = x * 1.5 + i;
    __asm__ volatile("pxor %%xmm3, %%xmm3\n fldpi\n fstp %%st(0)" : : "x"(x) : "xmm3");
}

static void *hold(void *which)
{
    static const uint32_t rounding[] = {0x1f80, 0x3f80, 0x5f80, 0x7f80};
    static const uint16_t control[] = {0x037f, 0x077f, 0x0b7f, 0x0f7f};
    long self = (long)which;
    struct registers in, out;
    pid_t thread = syscall(SYS_gettid);
    own = self;
    /* Every second party has none. */
    uint64_t base = self % 2 ? 0x10000 * self : 0;
    if (base)
        set_gs_base(base, self % 4 == 3);
    for (long round = 0; round < rounds; round++) {
        memset(&in, 0, sizeof in);
        memset(&out, 0, sizeof out);
        for (int r = 0; r < XMM; r++)
            for (int b = 0; b < (wide ? 32 : 16); b++)
                in.vector[r][b] = self * 61 + r * 17 + b * 3 + round;
        in.mxcsr = rounding[self % 4];
        in.control = control[self % 4];
        in.x87 = self * 1000.25 + round;
        long spins = round % 16 == 5 ? 400000 : 300, child = -1;
        if (round % 8 == 3)
            syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
        /* Values in the registers and nowhere else, just after giving way: a handler's frame keeps them,
         * and a child has them. */
        if (round % 8 == 6)
            syscall(SYS_sched_yield);
        if (round % 16 == 6)
            through(&in, &out, SYS_tgkill, getpid(), thread, SIGUSR1, spins);
        else if (round % 16 == 14)
            child = through(&in, &out, SYS_fork, 0, 0, 0, spins);
        else
            through(&in, &out, round % 2 ? SYS_sched_yield : SYS_getuid, 0, 0, 0, spins);
        if (memcmp(in.vector, out.vector, sizeof in.vector) || in.mxcsr != (out.mxcsr & ~0x3fu) ||
            in.control != out.control || in.x87 != out.x87) {
            printf("not ok party %ld, round %ld: mxcsr %x %x, control %x %x, x87 %f %f\n", self, round,
                   in.mxcsr, out.mxcsr, in.control, out.control, in.x87, out.x87);
            _exit(1);
        }
        if (round % 32 == 9 && base)
            set_gs_base(base += 16, round % 64 == 9);
        if (gs_base() != base || !fs_survives(0x1000 * self + round, SYS_sched_yield)) {
            printf("not ok party %ld, round %ld: segment bases, GS %lx\n", self, round, (long)gs_base());
            _exit(1);
        }
        if (own != (uint64_t)self) {
            printf("not ok party %ld: thread-local storage\n", self);
            _exit(1);
        }
        if (child == 0)
            _exit(gs_base() != base);
        int status = 0;
        if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) {
            printf("not ok party %ld: its child, status %x\n", self, status);
            _exit(1);
        }
    }
    return 0;
}

static int process(long number)
{
    pthread_t other;
    if (pthread_create(&other, 0, hold, (void *)(2 * number + 1)))
        return 2;
    hold((void *)(2 * number));
    return pthread_join(other, 0) != 0;
}

int main(int argc, char **argv)
{
    int status = 0, bad = 0;
    has_bases = may_use_bases();
    if (has_bases != ((getauxval(AT_HWCAP2) & 2) != 0)) {
        printf("not ok AT_HWCAP2 tells of the instructions for segment bases\n");
        return 1;
    }
    if (argc == 2) {
        /* The next program has none. */
        set_gs_base(0x5000, 1);
        execl("/proc/self/exe", argv[0], argv[1], "again", (char *)0);
    }
    bad |= gs_base() != 0;
    rounds = argc > 1 ? atol(argv[1]) : 200;
    wide = has_avx();
    signal(SIGUSR1, on_signal);
    for (long number = 0; number < 2; number++)
        if (fork() == 0)
            _exit(process(number));
    while (wait(&status) > 0)
        bad |= status;
    if (bad)
        printf("not ok status %x\n", bad);
    else
        printf("ok %ld rounds, %s\n", rounds, wide ? "32-byte vectors" : "16-byte vectors");
    return bad != 0;
}

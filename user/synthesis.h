/* The native calls of Synthesis for C programs: what one thread does to another, in whatever address space.
 *
 * Interface: one function an operation; each gives 0, a handle or a state, or a negative error number. A thread is named by its
 * handle, 0 is the caller. What they do, and who may, is in docs/thread.md and abi/src/native.rs. No function needs the C library.
 *
 * Source: dissertation, section 4.3.2.
 */
#ifndef SYNTHESIS_H
#define SYNTHESIS_H

#define SYN_CALL 0x5359L

enum syn_operation {
    SYN_HANDLE,
    SYN_CREATE,
    SYN_DESTROY,
    SYN_SUSPEND,
    SYN_RESUME,
    SYN_STOP,
    SYN_STEP,
    SYN_INTERRUPT,
    SYN_SIGNAL,
    SYN_SETSIGNAL,
    SYN_WAIT,
    SYN_NOTIFY,
    SYN_STATE,
};

/* Bits of a state. */
enum { SYN_SUSPENDED = 1, SYN_STOPPING = 2, SYN_HALTED = 4, SYN_ASLEEP = 8, SYN_KERNEL = 16 };
/* For syn_create: the thread begins suspended. */
enum { SYN_CREATE_SUSPENDED = 1 };

typedef long syn_thread;

static inline long syn_call(long operation, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = c;
    register long r8 __asm__("r8") = d;
    register long r9 __asm__("r9") = e;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYN_CALL), "D"(operation), "S"(a), "d"(b), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* The handle of the thread that gettid() calls `tid`; 0: the caller's. */
static inline syn_thread syn_handle(int tid) { return syn_call(SYN_HANDLE, tid, 0, 0, 0, 0); }

/* Makes a thread that calls entry(argument) on the stack that ends at `stack`, and ends when it returns. `tls` 0: the caller's. */
static inline syn_thread syn_create(void (*entry)(long), void *stack, long argument, void *tls, long flags)
{
    return syn_call(SYN_CREATE, (long)entry, (long)stack, argument, (long)tls, flags);
}

static inline long syn_destroy(syn_thread thread) { return syn_call(SYN_DESTROY, thread, 0, 0, 0, 0); }
static inline long syn_suspend(syn_thread thread) { return syn_call(SYN_SUSPEND, thread, 0, 0, 0, 0); }
static inline long syn_resume(syn_thread thread) { return syn_call(SYN_RESUME, thread, 0, 0, 0, 0); }
static inline long syn_stop(syn_thread thread) { return syn_call(SYN_STOP, thread, 0, 0, 0, 0); }
static inline long syn_step(syn_thread thread) { return syn_call(SYN_STEP, thread, 0, 0, 0, 0); }

/* `procedure` is an address in the other thread's space. */
static inline long syn_interrupt(syn_thread thread, void (*procedure)(void))
{
    return syn_call(SYN_INTERRUPT, thread, (long)procedure, 0, 0, 0);
}

static inline long syn_signal(syn_thread thread, long number) { return syn_call(SYN_SIGNAL, thread, number, 0, 0, 0); }

static inline long syn_setsignal(syn_thread thread, long number, void (*procedure)(void))
{
    return syn_call(SYN_SETSIGNAL, thread, number, (long)procedure, 0, 0);
}

static inline long syn_wait(long event) { return syn_call(SYN_WAIT, 0, event, 0, 0, 0); }
static inline long syn_notify(syn_thread thread, long event) { return syn_call(SYN_NOTIFY, thread, event, 0, 0, 0); }
static inline long syn_state(syn_thread thread) { return syn_call(SYN_STATE, thread, 0, 0, 0, 0); }

#endif

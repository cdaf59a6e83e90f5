/* The native library of Synthesis for C programs: threads, quajects, filters, stubs, asynchronous input and
 * output.
 *
 * Interface: one function an operation; each gives 0, a handle, a descriptor or a number, or a negative error
 * number. A thread is named by its handle, 0 is the caller; a quaject is named by a descriptor. Their
 * effects, and the rights to call them, are in docs/native.md, with examples. No function needs the C
 * library.
 *
 * Source: dissertation, sections 3.3.4, 4.1 and 4.3.2.
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
    SYN_MAKE,
    SYN_NOTICE,
    SYN_LINK,
    SYN_UNLINK,
    SYN_ENTRY,
    SYN_INVOKE,
    SYN_INSERT,
    SYN_REMOVE,
    SYN_BETWEEN,
    SYN_APART,
    SYN_STUB,
    SYN_JOB,
    SYN_STRIP,
    SYN_CACHE,
    SYN_UNCACHE,
    SYN_THREAD,
};

/* Bits of a state. */
enum { SYN_SUSPENDED = 1, SYN_STOPPING = 2, SYN_HALTED = 4, SYN_ASLEEP = 8, SYN_KERNEL = 16 };
/* For syn_create: the thread begins suspended. */
enum { SYN_CREATE_SUSPENDED = 1 };

/* The ways of bytes: what is read from a file, and what is written to it. */
enum { SYN_IN = 0, SYN_OUT = 1 };
/* Added to the number of a callentry, for syn_stub. */
enum { SYN_STUB_ENTRY = 0x10000 };
/* Added to an operation, for syn_stub: the procedure makes the call by a number of the program's own. */
enum { SYN_STUB_CACHED = 0x20000 };
/* The first such number, and how many there are. */
enum { SYN_CACHED = 0x5400, SYN_CACHED_MOST = 16 };

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

/* Makes a thread that calls entry(argument) on the stack that ends at `stack`, and ends when it returns.
 * `tls` 0: the caller's. */
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

static inline long syn_signal(syn_thread thread, long number)
{
    return syn_call(SYN_SIGNAL, thread, number, 0, 0, 0);
}

static inline long syn_setsignal(syn_thread thread, long number, void (*procedure)(void))
{
    return syn_call(SYN_SETSIGNAL, thread, number, (long)procedure, 0, 0);
}

static inline long syn_wait(long event) { return syn_call(SYN_WAIT, 0, event, 0, 0, 0); }
static inline long syn_notify(syn_thread thread, long event)
{
    return syn_call(SYN_NOTIFY, thread, event, 0, 0, 0);
}
static inline long syn_state(syn_thread thread) { return syn_call(SYN_STATE, thread, 0, 0, 0, 0); }

/* The caller has `strips` to do until this time of CLOCK_MONOTONIC, nanoseconds. It calls the procedure,
 * once, when it will be late. */
static inline long syn_job(unsigned long strips, long deadline, void (*procedure)(void))
{
    return syn_call(SYN_JOB, (long)strips, deadline, (long)procedure, 0, 0);
}

/* A strip is done. Gives the part of the CPU that the rest needs, in thousandths of the part that the
 * caller has; 0: all is done. */
static inline long syn_strip(void) { return syn_call(SYN_STRIP, 0, 0, 0, 0, 0); }

/* --- Quajects: `quaject`, `from`, `to` and `filter` are descriptors that syn_make and syn_notice give.
 * --- */

/* Makes a quaject of the class of this name. `number` is the class's own: bytes of a Queue, a second's
 * bytes of a Rate; else 0. */
static inline long syn_make(const char *class_name, unsigned long number)
{
    return syn_call(SYN_MAKE, (long)class_name, (long)number, 0, 0, 0);
}

/* Makes a quaject that tells `thread` of `event`: its callentries are "tell" and "give_up". */
static inline long syn_notice(syn_thread thread, long event)
{
    return syn_call(SYN_NOTICE, thread, event, 0, 0, 0);
}

/* Makes a quaject whose callentries are the operations on `thread`, and need the caller's rights at each
 * call. `number` is that of an entry of the thread's signal table, for "signal" and "setsignal", and of an
 * event, for "wait" and "notify". */
static inline long syn_thread_quaject(syn_thread thread, long number)
{
    return syn_call(SYN_THREAD, thread, number, 0, 0, 0);
}

/* Links the callout or callback `port` of one quaject to the callentry `entry` of another, or gives it its
 * default action back. */
static inline long syn_link(int from, const char *port, int to, const char *entry)
{
    return syn_call(SYN_LINK, from, (long)port, to, (long)entry, 0);
}
static inline long syn_unlink(int from, const char *port)
{
    return syn_call(SYN_UNLINK, from, (long)port, 0, 0, 0);
}

/* The number of the callentry of this name, and a call of a callentry by its number. */
static inline long syn_entry(int quaject, const char *name)
{
    return syn_call(SYN_ENTRY, quaject, (long)name, 0, 0, 0);
}
static inline long syn_invoke(int quaject, long entry, long argument)
{
    return syn_call(SYN_INVOKE, quaject, entry, argument, 0, 0);
}

/* --- Filters in the streams of open files; `way` is SYN_IN or SYN_OUT. --- */

/* Puts a filter in front of those that there are, takes it out again, takes all out. */
static inline long syn_insert(int file, long way, int filter)
{
    return syn_call(SYN_INSERT, file, way, filter, 0, 0);
}
static inline long syn_remove(int file, long way, int filter)
{
    return syn_call(SYN_REMOVE, file, way, filter, 0, 0);
}
static inline long syn_remove_all(int file, long way) { return syn_call(SYN_REMOVE, file, way, -1, 0, 0); }

/* The same between a port of any quaject of the kernel, by its number in /syn/quajects, and its target:
 * for the superuser. */
static inline long syn_between(long number, const char *port, int filter)
{
    return syn_call(SYN_BETWEEN, number, (long)port, filter, 0, 0);
}
static inline long syn_apart(long number, const char *port, int filter)
{
    return syn_call(SYN_APART, number, (long)port, filter, 0, 0);
}

/* --- Stubs --- */

/* Has the kernel write, to memory that the program makes executable, a procedure that calls an operation
 * of one file: `operation` is the number of a call of Linux's (SYS_read), whose arguments behind the
 * descriptor are the procedure's, or SYN_STUB_ENTRY and the number of a quaject's callentry, whose
 * argument is the procedure's. With SYN_STUB_CACHED the procedure uses a number of the program's own, as
 * of syn_cache. Gives its length. */
static inline long syn_stub(int file, long operation, void *memory, unsigned long size)
{
    return syn_call(SYN_STUB, file, operation, (long)memory, (long)size, 0);
}

/* Gives an operation, as syn_stub names it, a call number of the program's own, and takes it back: a
 * cached procedure. */
static inline long syn_cache(int file, long operation)
{
    return syn_call(SYN_CACHE, file, operation, 0, 0, 0);
}
static inline long syn_uncache(long number) { return syn_call(SYN_UNCACHE, number, 0, 0, 0, 0); }

/* Calls by such a number in the caller's own code: of a callentry, with its argument; of a call of
 * Linux's, with up to three arguments behind the descriptor. */
static inline long syn_cached(long number, long argument)
{
    register long r10 __asm__("r10") = argument;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result), "+r"(r10)
                     : "a"(number)
                     : "rcx", "r11", "rdi", "rsi", "rdx", "memory");
    return result;
}

static inline long syn_cached_file(long number, long a, long b, long c)
{
    register long r10 __asm__("r10") = c;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "S"(a), "d"(b), "r"(r10)
                     : "rcx", "r11", "rdi", "memory");
    return result;
}

/* --- Asynchronous input and output --- */

/* One transfer. The caller fills in the first fields, and leaves it alone until syn_finish. */
struct syn_transfer {
    int file;
    long operation; /* 0 reads, 1 writes: the numbers of Linux's calls. */
    void *bytes;
    unsigned long count;
    long event;  /* Occurs for the caller when the transfer is over. */
    long result; /* As of the call. */
    syn_thread owner, carrier;
    char stack[4096] __attribute__((aligned(16)));
};

static inline void syn_carry(long address)
{
    struct syn_transfer *transfer = (struct syn_transfer *)address;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(transfer->operation), "D"((long)transfer->file), "S"(transfer->bytes),
                       "d"(transfer->count)
                     : "rcx", "r11", "memory");
    transfer->result = result;
    syn_notify(transfer->owner, transfer->event);
}

/* Begins the transfer, in a thread of its own, and returns at once. */
static inline long syn_begin(struct syn_transfer *transfer)
{
    transfer->owner = syn_handle(0);
    transfer->carrier = syn_create(syn_carry, transfer->stack + sizeof transfer->stack, (long)transfer, 0, 0);
    return transfer->carrier < 0 ? transfer->carrier : 0;
}

/* Waits for its event, and for the end of its thread; gives the result. */
static inline long syn_finish(struct syn_transfer *transfer)
{
    long waited;
    do
        waited = syn_wait(transfer->event);
    while (waited < 0);
    while (syn_state(transfer->carrier) >= 0)
        syn_call(SYN_STATE, 0, 0, 0, 0, 0);
    return transfer->result;
}

#endif

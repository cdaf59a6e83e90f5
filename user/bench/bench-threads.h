/* The operations of one thread on another: the rows of table 5.2, and switches from the last instruction of
 * one thread to the first of the next.
 *
 * Interface: `timed_operations`, each of which gives the instructions that `n` of it took, leaving out what
 * only prepares the next. Where the native calls exist they are used; elsewhere what Linux's programs use
 * instead: clone, tgkill with a handler, futex. A thread that another thread suspends waits in a signal
 * handler there, as the threads of a garbage-collected program do.
 */
#include "yield-switches.h"
#include "synthesis.h"
#include <errno.h>
#include <linux/futex.h>
#include <sys/ptrace.h>

#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

static char thread_stack[65536] __attribute__((aligned(64)));
static volatile uint64_t stamp;
static volatile int acknowledged, released, quit, tid_word;
static syn_thread other, self_handle;
static int other_tid;

static void futex_wait(volatile int *word, int value)
{
    call6(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, value, 0, 0, 0);
}
static void futex_wake(volatile int *word) { call6(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0); }

/* The kernel wakes whoever waits for a thread's end without knowing that nobody else shares the word. */
static void wait_for_end(void)
{
    while (tid_word)
        call6(SYS_futex, (long)&tid_word, FUTEX_WAIT, 1, 0, 0, 0);
}

/* Lets the other thread come to rest: nobody can be seen from outside to sleep on a futex. */
static void settle(void)
{
    struct {
        long s, ns;
    } time = {0, 50000};
    call(SYS_nanosleep, (long)&time, 0, 0);
}

static int native(void) { return syn_handle(0) > 0; }

/* Ends the calling thread alone, touching no stack afterwards. */
static void end_thread(void)
{
    call(SYS_exit, 0, 0, 0);
    __builtin_unreachable();
}

/* --- the life of a thread --- */

static int first_steps(void *unused)
{
    (void)unused;
    stamp = instructions();
    end_thread();
    return 0;
}

static void native_first_steps(long creator)
{
    stamp = instructions();
    syn_resume(creator);
}

/* The part of a thread's life that is counted. */
enum part { REQUEST, FIRST, WHOLE };

static uint64_t lives(long n, enum part part)
{
    uint64_t total = 0;
    self_handle = syn_handle(0);
    while (n--) {
        uint64_t before, after;
        stamp = 0;
        if (self_handle > 0) {
            before = instructions();
            syn_thread made =
                syn_create(native_first_steps, thread_stack + sizeof thread_stack, self_handle, 0, 0);
            after = instructions();
            must(made > 0, "create");
            syn_suspend(0);
            /* Gone only when its stack is free. */
            while (syn_state(made) != -ESRCH)
                call(SYS_sched_yield, 0, 0, 0);
        } else {
            tid_word = 1;
            before = instructions();
            int made = clone(first_steps, thread_stack + sizeof thread_stack,
                             THREAD_FLAGS | CLONE_CHILD_CLEARTID, 0, 0, 0, &tid_word);
            after = instructions();
            must(made > 0, "clone");
            wait_for_end();
        }
        total += (part == WHOLE ? instructions() : part == FIRST ? stamp : after) - before;
    }
    return total;
}

static uint64_t time_create(long n) { return lives(n, REQUEST); }
static uint64_t time_create_first(long n) { return lives(n, FIRST); }
static uint64_t time_create_run_end(long n) { return lives(n, WHOLE); }

/* --- a thread that waits --- */

static void acknowledge(int number)
{
    (void)number;
    acknowledged = 1;
    futex_wake(&acknowledged);
}

static void rest(int number)
{
    acknowledge(number);
    while (!released)
        futex_wait(&released, 0);
    acknowledged = 2;
    futex_wake(&acknowledged);
}

static void leave(int number)
{
    (void)number;
    end_thread();
}

static int linux_waits(void *unused)
{
    (void)unused;
    acknowledge(0);
    for (;;)
        call(SYS_pause, 0, 0, 0);
    return 0;
}

static void native_waits(long unused)
{
    (void)unused;
    syn_resume(self_handle);
    while (!quit)
        syn_suspend(0);
}

static void native_works(long unused)
{
    (void)unused;
    while (!quit)
        call(SYS_sched_yield, 0, 0, 0);
}

static void native_procedure(void) { syn_resume(self_handle); }

static void handle_with(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    must(sigaction(number, &action, 0) == 0, "sigaction");
}

static void wait_acknowledged(void)
{
    while (!acknowledged)
        futex_wait(&acknowledged, 0);
}

static void begin(void (*native_body)(long))
{
    quit = acknowledged = released = 0;
    self_handle = syn_handle(0);
    if (self_handle > 0) {
        other = syn_create(native_body, thread_stack + sizeof thread_stack, 0, 0, 0);
        must(other > 0, "create");
        if (native_body == native_waits)
            syn_suspend(0);
        call(SYS_sched_yield, 0, 0, 0);
        syn_setsignal(other, 3, native_procedure);
    } else {
        handle_with(SIGUSR1, acknowledge);
        handle_with(SIGUSR2, rest);
        handle_with(SIGWINCH, leave);
        tid_word = 1;
        other_tid = clone(linux_waits, thread_stack + sizeof thread_stack,
                          THREAD_FLAGS | CLONE_CHILD_CLEARTID, 0, 0, 0, &tid_word);
        must(other_tid > 0, "clone");
        wait_acknowledged();
    }
}

static void finish_other(void)
{
    if (self_handle > 0) {
        syn_destroy(other);
        while (syn_state(other) != -ESRCH)
            call(SYS_sched_yield, 0, 0, 0);
    } else {
        call(SYS_tgkill, getpid(), other_tid, SIGWINCH);
        wait_for_end();
    }
    handle_with(SIGUSR1, on_signal);
}

/* Destroys a thread that waits, until it is gone. */
static uint64_t time_destroy(long n)
{
    uint64_t total = 0;
    while (n--) {
        begin(native_waits);
        uint64_t before = instructions();
        finish_other();
        total += instructions() - before;
    }
    return total;
}

static uint64_t signals(long n, int whole)
{
    uint64_t total = 0;
    begin(native_waits);
    while (n--) {
        acknowledged = 0;
        uint64_t before = instructions(), after;
        if (self_handle > 0) {
            syn_signal(other, 3);
            after = instructions();
            syn_suspend(0);
        } else {
            call(SYS_tgkill, getpid(), other_tid, SIGUSR1);
            after = instructions();
            wait_acknowledged();
        }
        total += (whole ? instructions() : after) - before;
        /* It comes to rest before the next one. */
        settle();
    }
    finish_other();
    return total;
}

static uint64_t time_signal(long n) { return signals(n, 0); }
static uint64_t time_signal_run(long n) { return signals(n, 1); }

enum { SUSPEND, RESUME };

static uint64_t suspensions(long n, int what)
{
    uint64_t total = 0;
    begin(native_works);
    while (n--) {
        uint64_t a, b, c, d;
        acknowledged = released = 0;
        a = instructions();
        if (self_handle > 0) {
            syn_suspend(other);
            b = instructions();
            while (!(syn_state(other) & SYN_HALTED))
                call(SYS_sched_yield, 0, 0, 0);
            c = instructions();
            syn_resume(other);
        } else {
            call(SYS_tgkill, getpid(), other_tid, SIGUSR2);
            b = instructions();
            wait_acknowledged();
            settle();
            c = instructions();
            released = 1;
            futex_wake(&released);
        }
        d = instructions();
        /* It goes on before the next round. */
        if (self_handle > 0)
            call(SYS_sched_yield, 0, 0, 0);
        else
            while (acknowledged != 2)
                futex_wait(&acknowledged, 1);
        total += what == SUSPEND ? b - a : d - c;
    }
    finish_other();
    return total;
}

static uint64_t time_suspend(long n) { return suspensions(n, SUSPEND); }
static uint64_t time_resume(long n) { return suspensions(n, RESUME); }

/* One instruction of a stopped child: by the native calls, or as Linux's debuggers do it. */
static uint64_t time_step(long n)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            ;
    must(child > 0, "fork");
    if (native()) {
        syn_thread thread = syn_handle(child);
        syn_stop(thread);
        while (!(syn_state(thread) & SYN_HALTED))
            call(SYS_sched_yield, 0, 0, 0);
        uint64_t before = instructions();
        for (long i = n; i--;) {
            syn_step(thread);
            while (!(syn_state(thread) & SYN_HALTED))
                call(SYS_sched_yield, 0, 0, 0);
        }
        before = instructions() - before;
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return before;
    }
    must(ptrace(PTRACE_ATTACH, child, 0, 0) == 0, "attach");
    waitpid(child, &status, 0);
    uint64_t before = instructions();
    for (long i = n; i--;) {
        call6(SYS_ptrace, PTRACE_SINGLESTEP, child, 0, 0, 0, 0);
        call6(SYS_wait4, child, (long)&status, 0, 0, 0, 0);
    }
    before = instructions() - before;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return before;
}

/* --- switches --- */

static struct passage *passage;

static int passing_thread(void *unused)
{
    (void)unused;
    pass_vectors(passage, 1, 1L << 40);
    return 0;
}

/* The least of many, with vector registers in use by both, at this policy. 0: giving way did not lead to
 * the other. */
static uint64_t switches_at(long n, int flags, int policy)
{
    int status;
    struct {
        int priority;
    } equal = {policy == SCHED_OTHER ? 0 : 1}, none = {0};
    call(SYS_sched_setscheduler, 0, policy, (long)&equal);
    passage = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(passage != MAP_FAILED, "mmap");
    uint64_t own = own_ticks(passage);
    passage->least = -1ul;
    fflush(stdout);
    pid_t child =
        flags ? clone(passing_thread, thread_stack + sizeof thread_stack, flags | SIGCHLD, 0) : fork();
    if (child == 0)
        _exit(passing_thread(0));
    must(child > 0, "clone");
    pass_vectors(passage, 0, n);
    uint64_t each = passage->count ? passage->least - own : 0;
    passage->quit = 1;
    call(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&none);
    waitpid(child, &status, 0);
    munmap(passage, PAGE);
    return each * n;
}

/* Where it does not always lead there, as on Linux, it does among equals of a real-time policy. */
static uint64_t switches(long n, int flags)
{
    uint64_t usual = switches_at(n, flags, SCHED_OTHER);
    return usual ? usual : switches_at(n, flags, SCHED_FIFO);
}

static uint64_t time_switch_thread(long n) { return switches(n, CLONE_VM); }
static uint64_t time_switch_process(long n) { return switches(n, 0); }

static const struct timed_operation {
    const char *section, *name;
    uint64_t (*run)(long);
    long count;
} timed_operations[] = {
    {"waits", "select_100", time_select_100, 1000},
    {"waits", "poll_100", time_poll_100, 1000},
    {"files", "stat", time_stat, 2000},
    {"files", "fstat", time_fstat, 2000},
    {"files", "stat_deep", time_stat_deep, 2000},
    {"files", "stat_10k", time_stat_10k, 3000},
    {"files", "open_read_close_many", time_open_read_close_many, 3000},
    {"files", "open_read_close_many_10k", time_open_read_close_many_10k, 3000},
    {"files", "open_close_made", time_open_close_made, TURNS},
    {"files", "open_close_second", time_open_close_second, TURNS},
    {"files", "open_close_unlink", time_open_close_unlink, 1000},
    {"files", "open_close_unlink_10k", time_open_close_unlink_10k, 1000},
    {"files", "create_write_close_unlink", time_create_write_close_unlink, 1000},
    {"files", "create_write_close_unlink_10k", time_create_write_close_unlink_10k, 1000},
    {"files", "file_create", time_file_create, 1000},
    {"files", "file_delete", time_file_delete, 1000},
    {"files", "readdir_1000", time_readdir_1000, 20},
    {"files", "readdir_1000_10k", time_readdir_1000_10k, 20},
    {"files", "inotify_add_rm", time_inotify_add_rm, 1000},
    {"files", "inotify_add_rm_open", time_inotify_add_rm_open, 1000},
    {"files", "inotify_add_rm_dir", time_inotify_add_rm_dir, 1000},
    {"table-5.2", "thread_create", time_create, 200},
    {"table-5.2", "thread_create_first", time_create_first, 200},
    {"table-5.2", "thread_create_run_end", time_create_run_end, 200},
    {"table-5.2", "thread_destroy", time_destroy, 100},
    {"table-5.2", "thread_suspend", time_suspend, 500},
    {"table-5.2", "thread_resume", time_resume, 500},
    {"table-5.2", "thread_signal", time_signal, 500},
    {"table-5.2", "thread_signal_run", time_signal_run, 500},
    {"table-5.2", "thread_step", time_step, 500},
    {"clock", "quantum_switch", time_quantum_switch, 100},
    {"clock", "quantum_switch_mean", time_quantum_switch_mean, 100},
    {"clock", "timer_fire", time_timer_fire, 200},
    {"table-5.3", "switch_thread", time_switch_thread, 2000},
    {"table-5.3", "switch_process", time_switch_process, 2000},
    /* Last: the process has a large descriptor table from then on, which a native thread of its own is
     * made with. */
    {"waits", "epoll_wake_10k", time_epoll_wake_10k, 2000},
    {"waits", "pthread_create_join_10k", time_pthread_create_join_10k, 500},
};

static void measure_timed(const struct timed_operation *operation)
{
    fflush(stdout);
    operation->run(operation->count / 10);
    uint64_t spent = operation->run(operation->count);
    printf("row %s %s instructions %ld\n", operation->section, operation->name,
           (long)((spent + operation->count / 2) / operation->count));
    fflush(stdout);
}

/* The promises of ptrace to debuggers; passes on Linux and must pass here.
 *
 * Interface: trace; TAP on standard output. (`trace exit N` only exits, for the test of exec.)
 */
#define _GNU_SOURCE
#include "processes.h"
#include <elf.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long word = 41;
static volatile int handled;

static int stopped(int status, int signal) { return WIFSTOPPED(status) && WSTOPSIG(status) == signal; }
static int exited(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

/* A child that lets itself be traced, stops, and then runs `body`. */
static pid_t traced(void (*body)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        body();
        _exit(0);
    }
    check(stopped(status_of(child), SIGSTOP), "a traced child stops");
    return child;
}

static struct user_regs_struct registers(pid_t child)
{
    struct user_regs_struct r;
    memset(&r, 0, sizeof r);
    if (ptrace(PTRACE_GETREGS, child, 0, &r))
        r.rip = -1;
    return r;
}

static void exit_with_word(void) { _exit(word); }

static void memory(void)
{
    pid_t child = traced(exit_with_word);
    errno = 0;
    equal(ptrace(PTRACE_PEEKDATA, child, &word, 0), 41, "peek");
    fails(ptrace(PTRACE_PEEKDATA, child, (void *)16, 0), EIO, "peek where nothing is");
    equal(ptrace(PTRACE_POKEDATA, child, &word, 7), 0, "poke");
    equal(word, 41, "its memory, not ours");
    struct user_regs_struct r = registers(child);
    equal(r.orig_rax == SYS_tgkill || r.orig_rax == SYS_tkill, 1, "the call it stopped in");
    equal(r.cs, 0x33, "its code segment");
    errno = 0;
    equal(ptrace(PTRACE_PEEKUSER, child, offsetof(struct user_regs_struct, rip), 0), r.rip,
          "a register by its place");
    fails(ptrace(PTRACE_PEEKUSER, child, 3, 0), EIO, "no register is there");
    struct user_regs_struct set;
    struct iovec part = {&set, sizeof set};
    equal(ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &part), 0, "the registers as a set");
    check(part.iov_len == sizeof set && memcmp(&set, &r, sizeof set) == 0, "are the same");
    equal(ptrace(PTRACE_CONT, child, 0, 0), 0, "cont");
    check(exited(status_of(child), 7), "it used what was poked");
    fails(ptrace(PTRACE_CONT, child, 0, 0), ESRCH, "it is gone");
}

static void three_calls(void)
{
    syscall(SYS_getpid);
    long parent = syscall(SYS_getppid);
    char c = 'x';
    syscall(SYS_write, -1, &c, 1);
    _exit(parent == 12345 ? 3 : 4);
}

static void calls(void)
{
    pid_t child = traced(three_calls);
    long numbers[4] = {0}, result = 0;
    int entries = 0, leaves = 0, status;
    equal(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD), 0, "options");
    fails(ptrace(PTRACE_SETOPTIONS, child, 0, 1 << 30), EINVAL, "options that nobody knows");
    for (;;) {
        ptrace(PTRACE_SYSCALL, child, 0, 0);
        status = status_of(child);
        if (!stopped(status, SIGTRAP | 0x80))
            break;
        struct user_regs_struct r = registers(child);
        if ((entries + leaves) % 2 == 0) {
            if (entries < 4)
                numbers[entries] = r.orig_rax;
            if ((long)r.rax == -ENOSYS)
                entries++;
            else
                break;
        } else {
            leaves++;
            if (r.orig_rax == SYS_getppid) {
                r.rax = 12345;
                ptrace(PTRACE_SETREGS, child, 0, &r);
            }
            if (r.orig_rax == SYS_write)
                result = r.rax;
        }
    }
    equal(entries, 4, "four calls");
    equal(leaves, 3, "three returned");
    check(numbers[0] == SYS_getpid && numbers[1] == SYS_getppid && numbers[2] == SYS_write &&
              numbers[3] == SYS_exit_group,
          "in their order");
    equal(result, -EBADF, "with their results");
    check(exited(status, 3), "a changed result was seen");
}

static void changed_call(void) { _exit(syscall(SYS_getpid) == syscall(SYS_getppid) ? 1 : 2); }

static void other_call(void)
{
    pid_t child = traced(changed_call);
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    check(stopped(status_of(child), SIGTRAP), "a call without the mark");
    struct user_regs_struct r = registers(child);
    equal(r.orig_rax, SYS_getpid, "the first one");
    r.orig_rax = SYS_getppid;
    equal(ptrace(PTRACE_SETREGS, child, 0, &r), 0, "makes another call of it");
    ptrace(PTRACE_CONT, child, 0, 0);
    check(exited(status_of(child), 1), "which was done");
}

extern char nops_begin[], nops_end[];
static void nops(void)
{
    __asm__ volatile(".globl nops_begin, nops_end\n nops_begin: nop\n nop\n nop\n nop\n nop\n nop\n nop\n "
                     "nop\n nop\n nop\n nops_end: nop");
}

static void steps(void)
{
    pid_t child = traced(nops);
    int inside = 0, total = 0, wrong = 0;
    while (total++ < 20000) {
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        int status = status_of(child);
        if (!stopped(status, SIGTRAP)) {
            wrong = 1;
            break;
        }
        struct user_regs_struct r = registers(child);
        inside += r.rip > (uint64_t)nops_begin && r.rip <= (uint64_t)nops_end;
        if (r.rip == (uint64_t)nops_end)
            break;
    }
    equal(inside, 10, "ten steps through ten instructions");
    check(!wrong, "each ends in a trap");
    siginfo_t info;
    equal(ptrace(PTRACE_GETSIGINFO, child, 0, &info), 0, "why it stopped");
    check(info.si_signo == SIGTRAP && info.si_code == TRAP_TRACE, "for a step");
    ptrace(PTRACE_CONT, child, 0, 0);
    check(exited(status_of(child), 0), "and it goes on");
}

__attribute__((noinline)) static void marked(void)
{
    __asm__ volatile("");
    word++;
}
static void call_marked(void)
{
    marked();
    marked();
    _exit(word);
}

static void breakpoint(void)
{
    pid_t child = traced(call_marked);
    errno = 0;
    long text = ptrace(PTRACE_PEEKTEXT, child, marked, 0);
    equal(errno, 0, "peek at its text");
    equal(ptrace(PTRACE_POKETEXT, child, marked, (text & ~0xffL) | 0xcc), 0, "a breakpoint");
    ptrace(PTRACE_CONT, child, 0, 0);
    check(stopped(status_of(child), SIGTRAP), "is met");
    struct user_regs_struct r = registers(child);
    equal(r.rip, (long)marked + 1, "there");
    equal(*(unsigned char *)marked == 0xcc, 0, "ours has none");
    ptrace(PTRACE_POKETEXT, child, marked, text);
    r.rip--;
    equal(ptrace(PTRACE_SETREGS, child, 0, &r), 0, "back to before it");
    ptrace(PTRACE_CONT, child, 0, 0);
    check(exited(status_of(child), 43), "goes on as if nothing had been");
}

static void on_signal(int number) { handled += number == SIGUSR1 ? 1 : 10; }
static void signalled(void)
{
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    raise(SIGUSR1);
    raise(SIGUSR1);
    raise(SIGUSR1);
    _exit(handled);
}

static void signals(void)
{
    pid_t child = traced(signalled);
    ptrace(PTRACE_CONT, child, 0, 0);
    check(stopped(status_of(child), SIGUSR1), "the tracer sees a signal first");
    siginfo_t info;
    ptrace(PTRACE_GETSIGINFO, child, 0, &info);
    check(info.si_signo == SIGUSR1 && info.si_pid == child, "and who sent it");
    ptrace(PTRACE_CONT, child, 0, 0);
    check(stopped(status_of(child), SIGUSR1), "one was dropped");
    ptrace(PTRACE_CONT, child, 0, SIGUSR1);
    check(stopped(status_of(child), SIGUSR1), "one was delivered");
    ptrace(PTRACE_CONT, child, 0, SIGUSR2);
    check(exited(status_of(child), 11), "one became another");
}

static void crash(void)
{
    int *volatile nowhere = (int *)8;
    *nowhere = 1;
}

static void faults(void)
{
    pid_t child = traced(crash);
    ptrace(PTRACE_CONT, child, 0, 0);
    check(stopped(status_of(child), SIGSEGV), "a fault");
    siginfo_t info;
    ptrace(PTRACE_GETSIGINFO, child, 0, &info);
    equal((long)info.si_addr, 8, "and where");
    ptrace(PTRACE_CONT, child, 0, SIGSEGV);
    int status = status_of(child);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "ends it");

    child = traced(exit_with_word);
    equal(ptrace(PTRACE_KILL, child, 0, 0), 0, "kill");
    status = status_of(child);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "ends it, too");
}

static pid_t waiting(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* Blocked but while it sleeps: one that came before would leave it asleep. */
        sigset_t own, old;
        sigemptyset(&own);
        sigaddset(&own, SIGUSR1);
        sigprocmask(SIG_BLOCK, &own, &old);
        signal(SIGUSR1, on_signal);
        while (!handled)
            sigsuspend(&old);
        _exit(9);
    }
    usleep(20000);
    return child;
}

static void attaching(void)
{
    pid_t child = waiting();
    fails(ptrace(PTRACE_ATTACH, getpid(), 0, 0), EPERM, "oneself is not traced");
    fails(ptrace(PTRACE_ATTACH, 32000, 0, 0), ESRCH, "nobody, neither");
    fails(ptrace(PTRACE_CONT, child, 0, 0), ESRCH, "who is not traced is not continued");
    equal(ptrace(PTRACE_ATTACH, child, 0, 0), 0, "attach");
    check(stopped(status_of(child), SIGSTOP), "it stops in its sleep");
    fails(ptrace(PTRACE_ATTACH, child, 0, 0), EPERM, "once");
    struct user_regs_struct r = registers(child);
    check(r.orig_rax == SYS_pause || r.orig_rax == SYS_rt_sigsuspend, "the call it sleeps in");
    equal(ptrace(PTRACE_DETACH, child, 0, 0), 0, "detach");
    fails(ptrace(PTRACE_CONT, child, 0, 0), ESRCH, "no longer ours");
    kill(child, SIGUSR1);
    check(exited(status_of(child), 9), "it lived on");

    child = waiting();
    equal(ptrace(PTRACE_SEIZE, child, 0, 0), 0, "seize");
    int status = 0;
    equal(waitpid(child, &status, WNOHANG | __WALL), 0, "does not stop it");
    fails(ptrace(PTRACE_GETREGS, child, 0, &r), ESRCH, "nor show anything");
    equal(ptrace(PTRACE_INTERRUPT, child, 0, 0), 0, "interrupt");
    status = status_of(child);
    check(stopped(status, SIGTRAP) && status >> 16 == PTRACE_EVENT_STOP, "does");
    ptrace(PTRACE_CONT, child, 0, 0);
    kill(child, SIGUSR1);
    check(stopped(status_of(child), SIGUSR1), "a signal, seen");
    ptrace(PTRACE_CONT, child, 0, SIGUSR1);
    check(exited(status_of(child), 9), "and delivered");
}

static void execute(void)
{
    execl("/proc/self/exe", "trace", "exit", "5", (char *)0);
    _exit(1);
}

static void programs(void)
{
    pid_t child = traced(execute);
    ptrace(PTRACE_CONT, child, 0, 0);
    check(stopped(status_of(child), SIGTRAP), "a new program begins with a trap");
    ptrace(PTRACE_CONT, child, 0, 0);
    check(exited(status_of(child), 5), "and runs");
    child = traced(execute);
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACEEXEC);
    ptrace(PTRACE_CONT, child, 0, 0);
    int status = status_of(child);
    check(stopped(status, SIGTRAP) && status >> 16 == PTRACE_EVENT_EXEC, "or with an event");
    ptrace(PTRACE_CONT, child, 0, 0);
    check(exited(status_of(child), 5), "and runs as well");
}

/* A tracer that ends without a word. */
static void tracers(void)
{
    pid_t child = waiting();
    fflush(stdout);
    pid_t tracer = fork();
    if (tracer == 0) {
        if (ptrace(PTRACE_ATTACH, child, 0, 0))
            _exit(1);
        waitpid(child, 0, __WALL);
        _exit(0);
    }
    check(exited(status_of(tracer), 0), "a tracer that is not the parent");
    ptrace(PTRACE_SEIZE, child, 0, 0);
    fflush(stdout);
    tracer = fork();
    if (tracer == 0) {
        int refused = ptrace(PTRACE_ATTACH, child, 0, 0) == -1 && errno == EPERM;
        refused &= ptrace(PTRACE_SEIZE, child, 0, 0) == -1 && errno == EPERM;
        _exit(refused ? 0 : 1);
    }
    check(exited(status_of(tracer), 0), "one that is traced has no second tracer");
    ptrace(PTRACE_INTERRUPT, child, 0, 0);
    check(stopped(status_of(child), SIGTRAP), "and still its first");
    ptrace(PTRACE_DETACH, child, 0, 0);
    kill(child, SIGUSR1);
    check(exited(status_of(child), 9), "whom it traced goes on when it ends");
}

/* A tracer that ends before it has heard of the stop. */
static void silent(void)
{
    pid_t child = waiting();
    fflush(stdout);
    pid_t tracer = fork();
    if (tracer == 0) {
        siginfo_t info;
        if (ptrace(PTRACE_SEIZE, child, 0, 0))
            _exit(1);
        kill(child, SIGUSR1);
        _exit(waitid(P_PID, child, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL) != 0);
    }
    check(exited(status_of(tracer), 0), "a tracer that has not waited for the stop");
    int status = 0;
    for (int looks = 0; looks < 2000 && waitpid(child, &status, WNOHANG) == 0; looks++)
        usleep(1000);
    check(exited(status, 9), "leaves the signal behind");
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
}

/* How long a contest goes on at most, seconds: where many processors are emulated by few, each step of one
 * waits for another's turn. */
enum { CONTEST = 8 };

/* Two threads of a tracer take turns: one may begin while the other has not quite ended. */
static void *turns(void *of)
{
    enum { TURNS = 3000, MOST = 1000000 };
    pid_t child = *(pid_t *)of;
    time_t end = time(0) + CONTEST;
    for (int turn = 0; turn < repeats(TURNS) && time(0) < end; turn++) {
        int status = 0, looks = 0;
        while (ptrace(PTRACE_SEIZE, child, 0, 0)) {
            if (looks++ == MOST)
                return (void *)1;
            sched_yield();
        }
        ptrace(PTRACE_INTERRUPT, child, 0, 0);
        while (waitpid(child, &status, WNOHANG | __WALL) == 0 && looks++ < 2 * MOST)
            sched_yield();
        if (!stopped(status, SIGTRAP))
            return (void *)1;
        ptrace(PTRACE_DETACH, child, 0, 0);
    }
    return 0;
}

static void handovers(void)
{
    pid_t child = waiting();
    pthread_t other;
    void *wrong = (void *)1;
    pthread_create(&other, 0, turns, &child);
    int lost = turns(&child) != 0;
    pthread_join(other, &wrong);
    check(!lost && !wrong, "a stop is told to whoever traces by then");
    kill(child, SIGUSR1);
    check(exited(status_of(child), 9), "the traced one lived on");
}

static volatile int *shared(void)
{
    return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void linger(int turns)
{
    for (volatile int i = 0; i < turns; i++)
        ;
}

/* Whether its own parent traces the process, as one does that takes in whom a tracer left. */
static int taken_in(pid_t pid)
{
    char name[40], line[80];
    int parent = 0, tracer = 0;
    snprintf(name, sizeof name, "/proc/%d/status", pid);
    FILE *status = fopen(name, "r");
    while (status && fgets(line, sizeof line, status)) {
        sscanf(line, "PPid: %d", &parent);
        sscanf(line, "TracerPid: %d", &tracer);
    }
    if (status)
        fclose(status);
    return tracer != 0 && tracer == parent;
}

static volatile int *over;
static volatile int calm;
static pid_t contended;

/* Lets the traced one go again and again, whoever traces it. */
static void *meddle(void *unused)
{
    while (!*over)
        if (calm)
            sched_yield();
        else
            ptrace(PTRACE_CONT, contended, 0, 0);
    return unused;
}

/* One process traces on and off while a thread of it lets the traced one go; another's stops are not
 * touched by that. */
static void former(void)
{
    enum { ROUNDS = 3000, LOOKS = 200, MOST = 1000000 };
    over = shared();
    contended = waiting();
    fflush(stdout);
    pid_t other = fork();
    if (other == 0) {
        pthread_t meddler;
        pthread_create(&meddler, 0, meddle, 0);
        while (!*over) {
            if (ptrace(PTRACE_SEIZE, contended, 0, 0))
                continue;
            /* On one CPU the other thread may come between each time, so it pauses after a few. */
            int tries = 0;
            do {
                calm = tries++ > 10;
                ptrace(PTRACE_INTERRUPT, contended, 0, 0);
                sched_yield();
            } while (ptrace(PTRACE_DETACH, contended, 0, 0));
            calm = 0;
            /* There, too, the first process would else find it traced whenever it runs. */
            sched_yield();
        }
        pthread_join(meddler, 0);
        _exit(0);
    }
    int touched = 0;
    time_t end = time(0) + CONTEST;
    for (int round = 0; round < repeats(ROUNDS) && !touched && time(0) < end; round++) {
        while (ptrace(PTRACE_SEIZE, contended, 0, 0))
            sched_yield();
        ptrace(PTRACE_INTERRUPT, contended, 0, 0);
        int status = 0, looks = 0;
        while (waitpid(contended, &status, WNOHANG | __WALL) == 0 && looks++ < MOST)
            sched_yield();
        touched = !stopped(status, SIGTRAP);
        for (int look = 0; look < LOOKS && !touched; look++)
            touched = registers(contended).rip == (unsigned long)-1;
        ptrace(PTRACE_DETACH, contended, 0, 0);
    }
    check(!touched, "who traced before does not let go whom another traces");
    *over = 1;
    check(exited(status_of(other), 0), "and ends");
    kill(contended, SIGKILL);
    status_of(contended);
}

/* A child asks to be traced while its parent ends: then nobody traces it. */
static void orphans(void)
{
    enum { ROUNDS = 400, LOOKS = 2000, BUSY = 0, LATE, MET };
    volatile int *told = shared();
    int left = 0;
    time_t end = time(0) + CONTEST;
    for (int round = 0; round < repeats(ROUNDS) && !left && time(0) < end; round++) {
        told[0] = told[1] = 0;
        fflush(stdout);
        pid_t parent = fork();
        if (parent == 0) {
            pid_t me = getpid();
            if (fork() == 0) {
                signal(SIGUSR1, on_signal);
                told[1] = getpid();
                linger(round * 37 % 6000);
                if (getppid() != me)
                    _exit(told[0] = LATE);
                ptrace(PTRACE_TRACEME, 0, 0, 0);
                while (getppid() == me)
                    sched_yield();
                raise(SIGUSR1);
                _exit(told[0] = MET);
            }
            while (!told[1])
                ;
            _exit(0);
        }
        status_of(parent);
        for (int looks = 0; told[0] == BUSY && looks < LOOKS; looks++)
            usleep(1000);
        if (told[0] == BUSY) {
            left = !taken_in(told[1]);
            kill(told[1], SIGKILL);
        }
    }
    check(!left, "whose parent ends is traced by nobody");
}

static volatile sig_atomic_t alarms;
static void on_alarm(int number) { alarms += number == SIGALRM; }

/* A stranger attaches to processes that end. */
static void endings(void)
{
    enum { ROUNDS = 1500, PATIENCE = 3 };
    volatile int *told = shared();
    struct sigaction act = {.sa_handler = on_alarm}, old;
    sigaction(SIGALRM, &act, &old);
    fflush(stdout);
    pid_t parent = fork();
    if (parent == 0) {
        for (int round = 1;; round++) {
            while (told[0] != round)
                sched_yield();
            pid_t child = fork();
            if (child == 0) {
                told[1] = getpid();
                linger(round * 37 % 5000);
                _exit(0);
            }
            waitpid(child, 0, 0);
            told[2] = round;
        }
    }
    int lost = 0;
    time_t end = time(0) + CONTEST;
    for (int round = 1; round <= repeats(ROUNDS) && !lost && time(0) < end; round++) {
        told[1] = 0;
        told[0] = round;
        while (!told[1])
            sched_yield();
        pid_t child = told[1];
        linger(round * 53 % 5000);
        if (ptrace(PTRACE_ATTACH, child, 0, 0) == 0) {
            int status = 0;
            alarm(PATIENCE);
            pid_t got = waitpid(child, &status, __WALL);
            alarm(0);
            lost = alarms != 0;
            if (got == child && WIFSTOPPED(status))
                ptrace(PTRACE_DETACH, child, 0, 0);
        }
        while (!lost && told[2] != round)
            sched_yield();
    }
    check(!lost, "nobody waits for ever for one that has ended");
    kill(parent, SIGKILL);
    status_of(parent);
    sigaction(SIGALRM, &old, 0);
}

static void pause_for_ever(void)
{
    for (;;)
        pause();
}

/* SIGCONT takes back a stop that the tracer has seen and the traced one not begun. */
static void continues(void)
{
    pid_t child = traced(pause_for_ever);
    ptrace(PTRACE_CONT, child, 0, 0);
    kill(child, SIGSTOP);
    check(stopped(status_of(child), SIGSTOP), "the tracer sees SIGSTOP");
    syscall(SYS_tgkill, child, child, SIGCONT);
    ptrace(PTRACE_CONT, child, 0, SIGSTOP);
    int status;
    waitpid(child, &status, WUNTRACED);
    check(stopped(status, SIGCONT), "passed on after SIGCONT it does not stop");
    kill(child, SIGKILL);
    check(WIFSIGNALED(status_of(child)), "and SIGKILL ends it");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "exit") == 0)
        return atoi(argv[2]);
    memory();
    calls();
    other_call();
    steps();
    breakpoint();
    signals();
    faults();
    attaching();
    programs();
    tracers();
    silent();
    handovers();
    former();
    orphans();
    endings();
    continues();
    return done();
}

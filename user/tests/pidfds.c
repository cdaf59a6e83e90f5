/* Checks signals and processes as files, as Linux has them: signalfd, pidfd; passes on Linux and must pass
 * here.
 *
 * Interface: pidfds [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define P_PIDFD_ 3
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

static int polled(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}

static sigset_t set_of(int a, int b)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, a);
    if (b)
        sigaddset(&set, b);
    return set;
}

/* The number of the signal that is read, or -1. */
static int taken(int fd, struct signalfd_siginfo *info)
{
    return read(fd, info, sizeof *info) == sizeof *info ? (int)info->ssi_signo : -1;
}

/* The number in a file of fdinfo behind `name`, or -9. */
static long said(int fd, const char *name, int base)
{
    char path[64], line[256];
    long value = -9;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name), NULL, base);
    if (file)
        fclose(file);
    return value;
}

/* --- signalfd --- */

static void records(void)
{
    struct signalfd_siginfo info[3];
    sigset_t set = set_of(SIGUSR1, SIGRTMIN), old;
    sigaddset(&set, SIGKILL);
    sigprocmask(SIG_BLOCK, &set, &old);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    equal(fcntl(fd, F_GETFD), FD_CLOEXEC, "SFD_CLOEXEC");
    equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK, "SFD_NONBLOCK");
    equal(said(fd, "sigmask:\t", 16), 1 << 9 | 1L << (SIGRTMIN - 1), "fdinfo tells which, and not SIGKILL");
    equal(polled(fd), 0, "nothing waits");
    fails(read(fd, info, sizeof *info), EAGAIN, "so there is nothing to read");
    fails(read(fd, info, sizeof *info - 1), EINVAL, "no room");
    fails(write(fd, info, sizeof *info), EINVAL, "nobody writes it");
    equal(lseek(fd, 0, SEEK_CUR), 0, "it has no offset");
    kill(getpid(), SIGUSR1);
    equal(polled(fd), POLLIN, "one waits");
    equal(taken(fd, info), SIGUSR1, "it is read");
    equal(info->ssi_code == SI_USER && (pid_t)info->ssi_pid == getpid() && info->ssi_uid == getuid(), 1,
          "with its sender");
    fails(read(fd, info, sizeof *info), EAGAIN, "once");
    for (int i = 1; i < 4; i++)
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
    kill(getpid(), SIGUSR1);
    equal(read(fd, info, sizeof info), 3 * sizeof *info, "as many as there is room for");
    equal(info[0].ssi_signo == SIGUSR1 && info[1].ssi_int == 1 && info[2].ssi_int == 2, 1, "in order");
    equal(info[1].ssi_code, SI_QUEUE, "a queued one says so");
    equal(read(fd, info, sizeof info), sizeof *info, "then the rest");
    equal(info[0].ssi_ptr, 3, "with its value");
    syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
    equal(taken(fd, info) == SIGUSR1 && info->ssi_code == SI_TKILL, 1, "one for the thread alone");
    kill(getpid(), SIGUSR1);
    fails(syscall(SYS_read, fd, 8, sizeof *info), EFAULT, "to nowhere");
    fails(read(fd, info, sizeof *info), EAGAIN, "which takes it");
    sigset_t other = set_of(SIGUSR2, 0);
    sigprocmask(SIG_BLOCK, &other, NULL);
    equal(signalfd(fd, &other, 0), fd, "other signals");
    kill(getpid(), SIGUSR1);
    equal(polled(fd), 0, "are others");
    kill(getpid(), SIGUSR2);
    equal(taken(fd, info), SIGUSR2, "than before");
    sigtimedwait(&set, NULL, &(struct timespec){0, 0});
    fails(signalfd(-1, &set, 1), EINVAL, "an unknown flag");
    fails(syscall(SYS_signalfd4, -1, &set, 4, 0), EINVAL, "a set of another size");
    fails(syscall(SYS_signalfd4, -1, 8, 8, 0), EFAULT, "a set nowhere");
    fails(signalfd(-2, &set, 0), EBADF, "no descriptor");
    fails(signalfd(0, &set, 0), EINVAL, "another kind of file");
    close(fd);
    fd = syscall(SYS_signalfd, -1, &set, 8);
    equal(fcntl(fd, F_GETFD) == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0, 1, "the old call");
    close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void children_tell(void)
{
    struct signalfd_siginfo info;
    sigset_t set = set_of(SIGCHLD, 0), old;
    sigprocmask(SIG_BLOCK, &set, &old);
    int fd = signalfd(-1, &set, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(5);
    equal(taken(fd, &info), SIGCHLD, "a child's end is waited for and read");
    equal((pid_t)info.ssi_pid == child && info.ssi_status == 5 && info.ssi_code == CLD_EXITED, 1,
          "whose, and how");
    waitpid(child, NULL, 0);
    child = fork();
    if (child == 0) {
        /* The file tells of the signals of who looks. */
        sigset_t mine = set_of(SIGCHLD, 0);
        raise(SIGCHLD);
        _exit(sigismember(&mine, SIGCHLD) && taken(fd, &info) == SIGCHLD && (pid_t)info.ssi_pid == getpid()
                  ? 0
                  : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    equal(status, 0, "each reads its own");
    sigtimedwait(&set, NULL, &(struct timespec){0, 0});
    equal(polled(fd), 0, "not others'");
    close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void timers_tell(void)
{
    struct signalfd_siginfo info;
    sigset_t set = set_of(SIGALRM, SIGRTMIN), old;
    sigprocmask(SIG_BLOCK, &set, &old);
    int fd = signalfd(-1, &set, 0);
    struct itimerval soon = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    equal(taken(fd, &info), SIGALRM, "a timer that everybody blocks wakes a reader");
    setitimer(ITIMER_REAL, &soon, NULL);
    struct pollfd p = {fd, POLLIN, 0};
    equal(poll(&p, 1, 20000), 1, "and who polls");
    equal(taken(fd, &info), SIGALRM, "who reads then");
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 77};
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec again = {{0, 10000000}, {0, 10000000}};
    timer_settime(timer, 0, &again, NULL);
    int epoll = epoll_create1(0), good = 1;
    struct epoll_event e = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
    for (int i = 0; i < 3; i++) {
        good &= epoll_wait(epoll, &e, 1, 20000) == 1;
        good &= taken(fd, &info) == SIGRTMIN && info.ssi_int == 77 && info.ssi_code == SI_TIMER;
    }
    check(good, "one that repeats tells an epoll instance each time");
    timer_delete(timer);
    close(epoll), close(fd);
    sigtimedwait(&set, NULL, &(struct timespec){0, 0});
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static int shared_fd;

static void *read_one(void *result)
{
    struct signalfd_siginfo info;
    *(int *)result = taken(shared_fd, &info);
    return NULL;
}

static void on_signal(int signal) { (void)signal; }

static void waits(void)
{
    sigset_t set = set_of(SIGUSR1, SIGUSR2), old;
    sigprocmask(SIG_BLOCK, &set, &old);
    int results[2] = {0, 0};
    pthread_t threads[2];
    shared_fd = signalfd(-1, &set, 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, read_one, &results[i]);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    equal(results[0] + results[1], SIGUSR1 + SIGUSR2, "two readers get one each");
    pthread_create(&threads[0], NULL, read_one, &results[0]);
    pthread_kill(threads[0], SIGUSR2);
    pthread_join(threads[0], NULL);
    equal(results[0], SIGUSR2, "a reader is woken by a signal for its thread");
    /* Another signal ends the wait. */
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval again = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &again, NULL);
    struct signalfd_siginfo info;
    fails(read(shared_fd, &info, sizeof info), EINTR, "another signal ends the wait");
    setitimer(ITIMER_REAL, &never, NULL);
    /* An instance stands at the process that had it watch, and looks at who asks. */
    int epoll = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, shared_fd, &e);
    pid_t child = fork();
    if (child == 0) {
        raise(SIGUSR1);
        _exit(epoll_wait(epoll, &e, 1, 0) == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    equal(status, 0, "a child's signal does not make its parent's instance ready");
    raise(SIGUSR1);
    equal(epoll_wait(epoll, &e, 1, 20000), 1, "the parent's does");
    raise(SIGUSR2);
    child = fork();
    if (child == 0)
        _exit(epoll_wait(epoll, &e, 1, 0) == 0 ? 0 : 1);
    waitpid(child, &status, 0);
    equal(status, 0, "but not for a child that asks");
    sigtimedwait(&set, NULL, &(struct timespec){0, 0});
    sigtimedwait(&set, NULL, &(struct timespec){0, 0});
    close(epoll), close(shared_fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

/* --- pidfd --- */

static int pidfd_open_(pid_t pid, unsigned flags) { return syscall(SYS_pidfd_open, pid, flags); }
static int send_(int fd, int signal, siginfo_t *info, unsigned flags)
{
    return syscall(SYS_pidfd_send_signal, fd, signal, info, flags);
}
static int getfd_(int fd, int of, unsigned flags) { return syscall(SYS_pidfd_getfd, fd, of, flags); }

/* A child that lives until the other end of *gate is closed, and ends with 3. */
static pid_t child_behind(int *gate)
{
    int two[2];
    (void)!pipe(two);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(two[1]);
        (void)!read(two[0], &byte, 1);
        _exit(3);
    }
    close(two[0]);
    *gate = two[1];
    return child;
}

static void *wait_here(void *tid)
{
    *(_Atomic int *)tid = (int)syscall(SYS_gettid);
    pause();
    return NULL;
}

static void ends(void)
{
    int gate, status;
    siginfo_t info = {0};
    pid_t child = child_behind(&gate);
    int fd = pidfd_open_(child, 0);
    equal(fcntl(fd, F_GETFD), FD_CLOEXEC, "a process's file is closed by exec");
    equal(said(fd, "Pid:\t", 10), child, "fdinfo tells the number");
    equal(polled(fd), 0, "it lives");
    int epoll = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
    equal(epoll_wait(epoll, &e, 1, 0), 0, "so says an instance");
    fails(read(fd, &status, 4), EINVAL, "nothing to read");
    equal(waitid(P_PIDFD_, fd, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0, 1, "waitid would wait");
    equal(send_(fd, 0, NULL, 0), 0, "signal 0 finds it");
    close(gate);
    struct pollfd p = {fd, POLLIN, 0};
    equal(poll(&p, 1, 20000), 1, "its end is told");
    equal(p.revents, POLLIN, "as something to read");
    equal(epoll_wait(epoll, &e, 1, 20000), 1, "to an instance, too");
    equal(send_(fd, SIGTERM, NULL, 0), 0, "a zombie takes a signal");
    equal(waitid(P_PIDFD_, fd, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == child && info.si_status == 3,
          1, "waitid of what has ended");
    equal(said(fd, "Pid:\t", 10), child, "the number stays");
    equal(waitid(P_PIDFD_, fd, &info, WEXITED) == 0 && info.si_code == CLD_EXITED, 1,
          "until it has been waited for");
    equal(said(fd, "Pid:\t", 10), -1, "then there is none");
    fails(waitid(P_PIDFD_, fd, &info, WEXITED), ECHILD, "no child any more");
    fails(send_(fd, 0, NULL, 0), ESRCH, "nobody to signal");
    fails(getfd_(fd, 0, 0), ESRCH, "nobody to take from");
    equal(polled(fd) & POLLIN, POLLIN, "its end is still told");
    close(epoll), close(fd);

    child = child_behind(&gate);
    fd = pidfd_open_(child, O_NONBLOCK);
    equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK, "PIDFD_NONBLOCK");
    fails(waitid(P_PIDFD_, fd, &info, WEXITED), EAGAIN, "waitid does not wait then");
    fails(send_(fd, SIGKILL, NULL, 16), EINVAL, "an unknown flag");
    fails(send_(fd, 65, NULL, 0), EINVAL, "an unknown signal");
    fails(send_(0, 0, NULL, 0), EBADF, "another kind of file");
    fails(send_(-1, 0, NULL, 0), EBADF, "no descriptor");
    siginfo_t forged = {.si_signo = SIGTERM, .si_code = SI_USER};
    fails(send_(fd, SIGTERM, &forged, 0), EPERM, "nobody pretends to be kill");
    fails(send_(fd, SIGHUP, &forged, 0), EINVAL, "two numbers");
    fails(send_(fd, SIGHUP, (void *)8, 0), EFAULT, "nowhere");
    equal(send_(fd, SIGKILL, NULL, 0), 0, "killed by way of it");
    p.fd = fd;
    poll(&p, 1, 20000);
    equal(waitid(P_PIDFD_, fd, &info, WEXITED) == 0 && info.si_code == CLD_KILLED, 1, "as waitid says");
    close(fd), close(gate);
    fails(waitid(P_PIDFD_, -1, &info, WEXITED), EINVAL, "no number of a descriptor");
    fails(waitid(P_PIDFD_, 999, &info, WEXITED), EBADF, "no descriptor");
    fails(waitid(P_PIDFD_, 0, &info, WEXITED), EBADF, "of another kind");

    fails(pidfd_open_(0, 0), EINVAL, "no number");
    fails(pidfd_open_(-1, 0), EINVAL, "a negative one");
    fails(pidfd_open_(4000000, 0), ESRCH, "nobody's number");
    fails(pidfd_open_(getpid(), 1), EINVAL, "an unknown flag");
    _Atomic int tid = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, wait_here, (void *)&tid);
    while (!tid)
        sched_yield();
    fd = pidfd_open_(tid, 0);
    equal(fd == -1 && (errno == EINVAL || errno == ENOENT), 1, "a thread is no process");
    fd = pidfd_open_(getpid(), 0);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    siginfo_t own = {.si_signo = SIGUSR1, .si_code = SI_USER};
    equal(send_(fd, SIGUSR1, &own, 0), 0, "who sends himself says what he likes");
    close(fd);
}

static void takes(void)
{
    int gate, two[2], value = 0;
    (void)!pipe(two);
    int memory = syscall(SYS_memfd_create, "m", 0), event = eventfd(0, 0);
    (void)!write(memory, "held", 4);
    pid_t child = child_behind(&gate);
    int place = dup(memory);
    close(memory), close(event);
    int fd = pidfd_open_(child, 0);
    int found = getfd_(fd, memory, 0);
    char text[5] = "";
    equal(pread(found, text, 4, 0) == 4 && strcmp(text, "held") == 0, 1, "a child's descriptor is taken");
    equal(fcntl(found, F_GETFD), FD_CLOEXEC, "closed by exec");
    equal(lseek(found, 1, SEEK_SET) == 1 && lseek(place, 0, SEEK_CUR) == 1, 1, "it is the same description");
    int counter = getfd_(fd, event, 0);
    uint64_t number = 7;
    equal(write(counter, &number, 8) == 8 && read(counter, &number, 8) == 8 && number == 7, 1,
          "an eventfd works there");
    fails(getfd_(fd, 999, 0), EBADF, "no such descriptor");
    fails(getfd_(fd, memory, 1), EINVAL, "an unknown flag");
    fails(getfd_(0, memory, 0), EBADF, "another kind of file");
    if (getuid() == 0) {
        pid_t stranger = fork();
        if (stranger == 0) {
            (void)!setgid(1000), (void)!setuid(1000);
            _exit(getfd_(fd, memory, 0) == -1 && errno == EPERM && send_(fd, SIGTERM, NULL, 0) == -1 &&
                          errno == EPERM
                      ? 0
                      : 1);
        }
        waitpid(stranger, &value, 0);
        equal(value, 0, "who may not look into it gets nothing");
    }
    close(gate);
    waitpid(child, NULL, 0);
    close(fd), close(found), close(counter), close(place), close(two[0]), close(two[1]);
}

static void clones(void)
{
    int fd = -1, status;
    pid_t child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &fd, 0, 0);
    if (child == 0)
        _exit(fcntl(4, F_GETFD) == -1 ? 7 : 8);
    check(child > 0, "CLONE_PIDFD");
    equal(said(fd, "Pid:\t", 10), child, "gives the child's file");
    equal(fcntl(fd, F_GETFD), FD_CLOEXEC, "closed by exec");
    siginfo_t info = {0};
    equal(waitid(P_PIDFD_, fd, &info, WEXITED) == 0 && info.si_pid == child, 1, "which can be waited for");
    close(fd);
    int next = dup(0);
    close(next);
    fails(syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, 8, 0, 0), EFAULT, "no place for it");
    fails(waitpid(-1, &status, 0), ECHILD, "then there is no child");
    fails(syscall(SYS_clone, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, 0, &fd, 0, 0), EINVAL,
          "one place for two");
    fails(syscall(SYS_clone, CLONE_PIDFD | CLONE_DETACHED | SIGCHLD, 0, &fd, 0, 0), EINVAL, "CLONE_DETACHED");
    equal(dup(0), next, "a failure leaves no descriptor");
    close(next);
    uint64_t args[8] = {CLONE_PIDFD, (uint64_t)&fd, 0, 0, SIGCHLD, 0, 0, 0};
    child = syscall(SYS_clone3, args, sizeof args);
    if (child == 0)
        _exit(9);
    equal(waitid(P_PIDFD_, fd, &info, WEXITED) == 0 && info.si_status == 9, 1, "clone3's");
    close(fd);
}

static long resident(pid_t child)
{
    char path[64];
    long all = -1, pages = -1;
    snprintf(path, sizeof path, "/proc/%d/statm", child);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%ld %ld", &all, &pages) != 2)
        pages = -1;
    if (file)
        fclose(file);
    return pages;
}

/* The memory of one that is about to end. */
static void releases(void)
{
    enum { PAGES = 2000 };
    int status;
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char *memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(memory, 1, PAGES * 4096);
        shared[0] = 7;
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(9);
    }
    waitpid(child, &status, 0);
    equal(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACEEXIT), 0, "it stops before it ends");
    int fd = pidfd_open_(child, 0);
    fails(syscall(SYS_process_mrelease, fd, 1), EINVAL, "process_mrelease knows no flags");
    fails(syscall(SYS_process_mrelease, 0, 0), EBADF, "only pidfds");
    fails(syscall(SYS_process_mrelease, fd, 0), EINVAL, "nothing of who goes on");
    check(resident(child) >= PAGES, "it has its memory");
    ptrace(PTRACE_CONT, child, 0, 0);
    equal(waitpid(child, &status, 0) == child && status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8), 1,
          "it is about to end");
    check(resident(child) >= PAGES, "and still has it");
    equal(syscall(SYS_process_mrelease, fd, 0), 0, "which is given back");
    check(resident(child) < PAGES / 2, "at once");
    equal(syscall(SYS_process_mrelease, fd, 0), 0, "once more is no error");
    equal(shared[0], 7, "what others share stays");
    ptrace(PTRACE_CONT, child, 0, 0);
    siginfo_t info;
    equal(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0 && info.si_status == 9, 1,
          "it ends as it was told");
    fails(syscall(SYS_process_mrelease, fd, 0), ESRCH, "then there is no memory");
    waitpid(child, &status, 0);
    fails(syscall(SYS_process_mrelease, fd, 0), ESRCH, "nor a process");
    close(fd);
    munmap(shared, 4096);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"records", records},    {"children", children_tell},
        {"timers", timers_tell}, {"waits", waits},
        {"ends", ends},          {"takes", takes},
        {"clones", clones},      {"releases", releases},
    };
    run_groups(groups, sizeof groups / sizeof *groups, NULL, argc, argv);
    return done();
}

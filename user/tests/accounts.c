/* Checks what is told about time, faults and switches of processes and threads; passes on Linux and must pass
 * here.
 *
 * Interface: accounts runs all; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "tap.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll

static int64_t ns_of(struct timespec t) { return t.tv_sec * 1000 * MS + t.tv_nsec; }

static int64_t clock_ns(clockid_t id)
{
    struct timespec t = {0};
    if (clock_gettime(id, &t))
        return -1;
    return ns_of(t);
}

static int64_t tv(struct timeval t) { return t.tv_sec * 1000 * MS + t.tv_usec * 1000; }

static volatile unsigned long sink;

/* Computes in user mode for so much CPU time of the thread. */
static void compute(int64_t ns)
{
    int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 200000; i++)
            sink += i;
}

/* Has the kernel work for so much CPU time of the thread. */
static void call(int64_t ns)
{
    int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
    static char buffer[1 << 18];
    int zero = open("/dev/zero", O_RDONLY);
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 4; i++)
            if (read(zero, buffer, sizeof buffer) < 0)
                break;
    close(zero);
}

static void split(void)
{
    struct rusage before, after;
    struct tms tms;
    getrusage(RUSAGE_SELF, &before);
    compute(400 * MS);
    getrusage(RUSAGE_SELF, &after);
    int64_t user = tv(after.ru_utime) - tv(before.ru_utime),
            system = tv(after.ru_stime) - tv(before.ru_stime);
    if (!check(user > 200 * MS && user > 3 * system, "who computes has used the user's time"))
        printf("# user %ld ms, system %ld ms\n", (long)(user / MS), (long)(system / MS));
    before = after;
    call(600 * MS);
    getrusage(RUSAGE_SELF, &after);
    user = tv(after.ru_utime) - tv(before.ru_utime), system = tv(after.ru_stime) - tv(before.ru_stime);
    if (!check(system > 200 * MS && system > 2 * user, "who calls has used the kernel's time"))
        printf("# user %ld ms, system %ld ms\n", (long)(user / MS), (long)(system / MS));
    clock_t up = times(&tms);
    check(up != (clock_t)-1 && tms.tms_utime > 10 && tms.tms_stime > 10, "times tells both");
    check(tms.tms_cutime == 0 && tms.tms_cstime == 0, "nobody was waited for yet");
    int64_t sum = tv(after.ru_utime) + tv(after.ru_stime), now = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    check(sum <= now && now - sum < 100 * MS, "both together are the time of the process's clock");
    int steady = 1;
    for (int i = 0; i < 200; i++) {
        struct rusage next;
        getrusage(RUSAGE_SELF, &next);
        steady &= tv(next.ru_utime) >= tv(after.ru_utime) && tv(next.ru_stime) >= tv(after.ru_stime);
        after = next;
        i % 2 ? compute(MS) : call(MS);
    }
    check(steady, "neither goes back");
}

static void *computes(void *arg)
{
    compute((intptr_t)arg * MS);
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (void *)(intptr_t)((tv(usage.ru_utime) + tv(usage.ru_stime)) / MS);
}

static void threads(void)
{
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    pthread_t thread;
    pthread_create(&thread, 0, computes, (void *)200);
    void *result;
    pthread_join(thread, &result);
    getrusage(RUSAGE_THREAD, &after);
    long theirs = (long)(intptr_t)result;
    check(theirs >= 190 && theirs < 400, "a thread's own time");
    int64_t mine = tv(after.ru_utime) + tv(after.ru_stime) - tv(before.ru_utime) - tv(before.ru_stime);
    check(mine < 100 * MS, "is not that of one that waits for it");
    check(clock_ns(CLOCK_PROCESS_CPUTIME_ID) >= 190 * MS,
          "the process keeps the time of a thread that has ended");
}

static void children(void)
{
    struct rusage usage, sum;
    struct tms tms;
    pid_t child = fork();
    if (child == 0) {
        compute(250 * MS);
        call(250 * MS);
        _exit(0);
    }
    getrusage(RUSAGE_CHILDREN, &sum);
    int64_t before = tv(sum.ru_utime) + tv(sum.ru_stime);
    int status;
    check(wait4(child, &status, 0, &usage) == child, "a child is waited for");
    check(tv(usage.ru_utime) > 50 * MS && tv(usage.ru_stime) > 50 * MS, "its usage has both parts");
    getrusage(RUSAGE_CHILDREN, &sum);
    check(before == 0 && tv(sum.ru_utime) == tv(usage.ru_utime) && tv(sum.ru_stime) == tv(usage.ru_stime),
          "and is the children's from then on, not before");
    times(&tms);
    check(tms.tms_cutime > 4 && tms.tms_cstime > 4, "times has it, too");
    check(usage.ru_maxrss > 0 && sum.ru_maxrss >= usage.ru_maxrss, "the largest child's memory is told");
}

/* The signal about a child's end tells its times in ticks of ten milliseconds. */
static void times_told(void)
{
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    pid_t child = fork();
    if (child == 0) {
        compute(150 * MS);
        _exit(0);
    }
    siginfo_t info = {0};
    struct rusage usage;
    int status;
    check(sigwaitinfo(&set, &info) == SIGCHLD && info.si_pid == child, "the signal comes");
    check(wait4(child, &status, 0, &usage) == child, "and the child is waited for");
    equal(info.si_utime, tv(usage.ru_utime) / (10 * MS), "its time in user mode");
    equal(info.si_stime, tv(usage.ru_stime) / (10 * MS), "and its time in the kernel");
    check(info.si_utime > info.si_stime, "are two");
    sigprocmask(SIG_SETMASK, &old, 0);
}

static void faults(void)
{
    struct rusage before, after;
    long page = sysconf(_SC_PAGESIZE);
    enum { PAGES = 512 };
    char *area = mmap(0, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(area, PAGES * page, MADV_NOHUGEPAGE);
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < PAGES; i++)
        area[i * page] = 1;
    getrusage(RUSAGE_SELF, &after);
    long seen = after.ru_minflt - before.ru_minflt;
    if (!check(seen >= PAGES / 16 && seen <= PAGES + 32, "faults are counted"))
        printf("# %ld\n", seen);
    equal(after.ru_majflt - before.ru_majflt, 0, "none had to wait for a disk");
    check(after.ru_maxrss >= PAGES * page / 1024, "memory that was touched is in the largest resident set");
    long most = after.ru_maxrss;
    munmap(area, PAGES * page);
    getrusage(RUSAGE_SELF, &after);
    check(after.ru_maxrss >= most, "which stays when it is given back");
    struct rusage mine;
    getrusage(RUSAGE_THREAD, &mine);
    check(mine.ru_minflt > 0 && mine.ru_minflt <= after.ru_minflt && mine.ru_maxrss == after.ru_maxrss,
          "a thread has its faults");
}

static void switches(void)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 20; i++)
        usleep(1000);
    getrusage(RUSAGE_SELF, &after);
    if (!check(after.ru_nvcsw - before.ru_nvcsw >= 10, "who sleeps switches of its own will"))
        printf("# %ld, and %ld others\n", after.ru_nvcsw - before.ru_nvcsw,
               after.ru_nivcsw - before.ru_nivcsw);
    /* Two that compute on one CPU take it from each other. */
    cpu_set_t old, one;
    sched_getaffinity(0, sizeof old, &old);
    int cpus = CPU_COUNT(&old), alone = -1;
    for (int i = 0; i < CPU_SETSIZE && alone < 0; i++)
        if (CPU_ISSET(i, &old))
            alone = i;
    CPU_ZERO(&one);
    CPU_SET(alone, &one);
    sched_setaffinity(0, sizeof one, &one);
    pid_t child[8];
    for (int i = 0; i < cpus + 1 && i < 8; i++)
        if (!(child[i] = fork()))
            for (;;)
                sink++;
    getrusage(RUSAGE_SELF, &before);
    compute(200 * MS);
    getrusage(RUSAGE_SELF, &after);
    check(after.ru_nivcsw > before.ru_nivcsw, "who computes beside others has the CPU taken");
    for (int i = 0; i < cpus + 1 && i < 8; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], 0, 0);
    }
    sched_setaffinity(0, sizeof old, &old);
}

static void *waits(void *arg)
{
    char byte;
    if (read(*(int *)arg, &byte, 1) < 0)
        return arg;
    return 0;
}

static void clocks(void)
{
    clockid_t id;
    struct timespec t;
    fails(clock_gettime(-1, &t), EINVAL, "clock -1 is none");
    fails(syscall(SYS_clock_gettime, CLOCK_REALTIME, 0), EFAULT, "a time goes to an address");
    check(clock_getcpuclockid(0, &id) == 0 && clock_ns(id) > 0, "the clock of process 0 is the caller's");
    int64_t one = clock_ns(CLOCK_PROCESS_CPUTIME_ID), two = clock_ns(id);
    check(two >= one && two - one < 50 * MS, "and goes as the process's");
    int told[2];
    pipe(told);
    pid_t child = fork();
    if (child == 0) {
        compute(100 * MS);
        write(told[1], "", 1);
        pause();
        _exit(0);
    }
    check(clock_getcpuclockid(child, &id) == 0, "a child's clock has a number");
    char byte;
    read(told[0], &byte, 1);
    check(clock_ns(id) >= 100 * MS, "it tells what the child has used");
    close(told[0]);
    close(told[1]);
    one = clock_ns(id);
    usleep(20000);
    two = clock_ns(id);
    check(two - one < 15 * MS, "it stands still while the child sleeps");
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    fails(clock_gettime(id, &t), EINVAL, "a process that is gone has no clock");
    int ends[2];
    pipe(ends);
    pthread_t thread;
    pthread_create(&thread, 0, waits, &ends[0]);
    check(pthread_getcpuclockid(thread, &id) == 0 && clock_ns(id) >= 0 && clock_ns(id) < 50 * MS,
          "another thread's clock");
    struct timespec soon = {0, 1};
    equal(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &soon, 0), EINVAL,
          "nobody sleeps by its own thread's clock");
    equal(syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &soon, 0) == -1 ? errno : 0, EOPNOTSUPP,
          "the call says so in its way");
    close(ends[1]);
    pthread_join(thread, 0);
    close(ends[0]);
    /* 2 the exact one, 1 the user's part, 0 both by ticks. */
    one = clock_ns((~0u << 3) | 1);
    two = clock_ns((~0u << 3) | 0);
    check(one > 0 && one <= two + 20 * MS, "the user's part is at most all");
    fails(clock_gettime((~0u << 3) | 3, &t), EINVAL, "there is no fourth part");
    equal(clock_getres(CLOCK_PROCESS_CPUTIME_ID, &t), 0, "their grain");
    check(t.tv_sec == 0 && t.tv_nsec == 1, "is a nanosecond");
    equal(clock_getres((~0u << 3) | 1, &t), 0, "that of a part");
    check(t.tv_sec == 0 && t.tv_nsec >= 1000000 && t.tv_nsec <= 10000000, "is a tick");
    fails(clock_settime(CLOCK_PROCESS_CPUTIME_ID, &t), EINVAL, "nobody sets them");
    clock_getcpuclockid(0, &id);
    fails(clock_settime(id, &t), EPERM, "under no name");
    fails(clock_settime(CLOCK_MONOTONIC, &t), EINVAL, "nor the monotonic one");
    equal(clock_nanosleep(CLOCK_MONOTONIC_RAW, 0, &soon, 0), EOPNOTSUPP, "nobody sleeps by a raw clock");
    timer_t timer;
    fails(timer_create(CLOCK_MONOTONIC_COARSE, 0, &timer), EOPNOTSUPP, "or has timers by a coarse one");
}

static volatile int rung;

static void ring(int number) { rung = number; }

static void by_clock(clockid_t id, int number, const char *name)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = number};
    timer_t timer;
    signal(number, ring);
    rung = 0;
    if (!equal(timer_create(id, &event, &timer), 0, name))
        return;
    struct itimerspec set = {.it_value = {0, 60 * MS}};
    int64_t before = clock_ns(id);
    timer_settime(timer, 0, &set, 0);
    usleep(150000);
    equal(rung, 0, "it does not ring while the account stands still");
    while (!rung && clock_ns(id) < before + 1000 * MS)
        compute(MS);
    int64_t used = clock_ns(id) - before;
    if (!check(rung == number && used >= 60 * MS && used < 160 * MS, "and does when it has come to that"))
        printf("# %ld us\n", (long)(used / 1000));
    timer_delete(timer);
}

static void timers(void)
{
    by_clock(CLOCK_PROCESS_CPUTIME_ID, SIGUSR1, "a timer by the process's time");
    by_clock(CLOCK_THREAD_CPUTIME_ID, SIGUSR2, "a timer by the thread's time");
    static const struct {
        int which, number;
        const char *name;
    } kinds[] = {
        {ITIMER_VIRTUAL, SIGVTALRM, "ITIMER_VIRTUAL rings by the user's time"},
        {ITIMER_PROF, SIGPROF, "ITIMER_PROF rings by all time"},
    };
    for (int i = 0; i < 2; i++) {
        struct itimerval set = {.it_value = {0, 100000}}, left;
        signal(kinds[i].number, ring);
        rung = 0;
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        setitimer(kinds[i].which, &set, 0);
        getitimer(kinds[i].which, &left);
        check(left.it_value.tv_usec > 50000 && left.it_value.tv_usec <= 110000, "the time left is told");
        while (!rung) {
            compute(MS);
            getrusage(RUSAGE_SELF, &after);
            if (tv(after.ru_utime) - tv(before.ru_utime) > 1000 * MS)
                break;
        }
        getrusage(RUSAGE_SELF, &after);
        int64_t used = tv(after.ru_utime) - tv(before.ru_utime) + tv(after.ru_stime) - tv(before.ru_stime);
        if (!check(rung == kinds[i].number && used >= 80 * MS && used < 250 * MS, kinds[i].name))
            printf("# %ld us\n", (long)(used / 1000));
    }
    /* The kernel's time is none of the program's. */
    struct itimerval set = {.it_value = {0, 300000}}, off = {0}, left;
    setitimer(ITIMER_VIRTUAL, &set, 0);
    call(200 * MS);
    getitimer(ITIMER_VIRTUAL, &left);
    setitimer(ITIMER_VIRTUAL, &off, 0);
    if (!check(left.it_value.tv_usec > 150000, "calls hardly move ITIMER_VIRTUAL"))
        printf("# %ld us left\n", (long)left.it_value.tv_usec);
    pid_t child = fork();
    if (child == 0) {
        compute(150 * MS);
        pause();
        _exit(0);
    }
    clockid_t id;
    clock_getcpuclockid(child, &id);
    struct timespec at = {0, 80 * MS};
    equal(clock_nanosleep(id, TIMER_ABSTIME, &at, 0), 0, "one sleeps by a child's time");
    check(clock_ns(id) >= 80 * MS, "until that has come");
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
}

static long field(const char *path, int number)
{
    char text[2048];
    int fd = open(path, O_RDONLY);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return -1;
    text[length] = 0;
    char *at = strrchr(text, ')');
    for (int i = 2; at && i < number; i++)
        at = strchr(at + 1, ' ');
    return at ? atol(at + 1) : -1;
}

static void files(void)
{
    struct rusage usage;
    compute(100 * MS);
    call(100 * MS);
    getrusage(RUSAGE_SELF, &usage);
    long user = field("/proc/self/stat", 14), system = field("/proc/self/stat", 15);
    long tick = 10 * MS;
    check(labs(user - tv(usage.ru_utime) / tick) <= 15 && labs(system - tv(usage.ru_stime) / tick) <= 15,
          "stat has both times");
    check(labs(field("/proc/self/stat", 10) - usage.ru_minflt) < 40, "and the faults");
    check(field("/proc/self/stat", 17) >= 0 && field("/proc/self/stat", 16) > 0, "and the children's");
    FILE *stat = fopen("/proc/stat", "r");
    long cpu[4] = {0}, sum[4] = {0};
    char line[4096];
    int rows = 0, one = 0;
    while (fgets(line, sizeof line, stat)) {
        long n[4];
        int number;
        if (line[3] == ' ' && sscanf(line, "cpu %ld %ld %ld %ld", &n[0], &n[1], &n[2], &n[3]) == 4)
            memcpy(cpu, n, sizeof n), one++;
        else if (sscanf(line, "cpu%d %ld %ld %ld %ld", &number, &n[0], &n[1], &n[2], &n[3]) == 5) {
            rows++;
            for (int i = 0; i < 4; i++)
                sum[i] += n[i];
        }
    }
    fclose(stat);
    check(one == 1 && rows == sysconf(_SC_NPROCESSORS_ONLN), "/proc/stat has a row for each CPU");
    check(cpu[0] >= user - 3 && cpu[2] >= system - 3, "its user's and kernel's times contain this process's");
    check(labs(cpu[0] - sum[0]) < 20 && labs(cpu[2] - sum[2]) < 20, "its first row is the sum");
    double load[3];
    int ready, all, last;
    stat = fopen("/proc/loadavg", "r");
    check(fscanf(stat, "%lf %lf %lf %d/%d %d", &load[0], &load[1], &load[2], &ready, &all, &last) == 6 &&
              ready >= 1 && all >= ready && last >= getpid() && load[0] >= 0,
          "/proc/loadavg has six numbers");
    fclose(stat);
}

static long all_switches(void) { return number_in("/proc/stat", "ctxt "); }

static void ended_switches(void)
{
    long before = all_switches();
    pid_t child = fork();
    if (child == 0) {
        struct timespec moment = {0, 300000};
        for (int i = 0; i < 100; i++)
            nanosleep(&moment, 0);
        _exit(0);
    }
    waitpid(child, 0, 0);
    check(before > 0 && all_switches() - before >= 100,
          "/proc/stat counts the switches of threads that have ended");
}

/* Takes longer than five seconds: `accounts load`. */
static void load(void)
{
    double before, after;
    FILE *file = fopen("/proc/loadavg", "r");
    int got = fscanf(file, "%lf", &before);
    fclose(file);
    pid_t child[3];
    for (int i = 0; i < 3; i++)
        if (!(child[i] = fork()))
            for (;;)
                sink++;
    sleep(6);
    file = fopen("/proc/loadavg", "r");
    got += fscanf(file, "%lf", &after);
    fclose(file);
    /* Three for one moment: three twelfths. */
    if (!check(got == 2 && after - before * 0.9 > 0.12 && after < before + 1.0,
               "the load average grows slowly"))
        printf("# %f to %f\n", before, after);
    for (int i = 0; i < 3; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], 0, 0);
    }
}

static const struct group groups[] = {
    {"split", split},   {"threads", threads},   {"children", children},
    {"times_told", times_told},
    {"faults", faults}, {"switches", switches}, {"ended", ended_switches},
    {"clocks", clocks}, {"timers", timers},     {"files", files},
    {"load", load},
};

int main(int argc, char **argv)
{
    run_groups(GROUPS(groups), "load", argc, argv);
    return done();
}

/* Time, waiting for several things, threads, and what calls say of the system: a part of `calls`.
 *
 * Interface: the groups times, waiting, threads and system_facts.
 */
#ifndef CALLS_WAITING_H
#define CALLS_WAITING_H

/* --- time --- */

static void times(void)
{
    struct timespec t, u;
    equal(clock_gettime(CLOCK_REALTIME, &t), 0, "CLOCK_REALTIME");
    check(t.tv_sec > 1600000000, "is a date of today");
    equal(clock_gettime(CLOCK_MONOTONIC, &t), 0, "CLOCK_MONOTONIC");
    clock_gettime(CLOCK_MONOTONIC, &u);
    check(u.tv_sec > t.tv_sec || (u.tv_sec == t.tv_sec && u.tv_nsec >= t.tv_nsec), "never goes back");
    fails(clock_gettime(9999, &t), EINVAL, "an unknown clock");
    double before = seconds();
    usleep(50000);
    double passed = seconds() - before;
    check(passed >= 0.05 && passed < 2, "usleep takes its time");
    t = (struct timespec){0, 2000000000};
    fails(nanosleep(&t, 0), EINVAL, "nanosleep with wrong nanoseconds");
    before = seconds();
    struct pollfd none;
    equal(poll(&none, 0, 30), 0, "poll of nothing");
    check(seconds() - before >= 0.03, "waits");
    struct timeval v = {0, 30000};
    before = seconds();
    equal(select(0, 0, 0, 0, &v), 0, "select of nothing");
    check(seconds() - before >= 0.03, "waits");
    signal(SIGALRM, count_signal);
    counted = 0;
    struct itimerval every = {{0, 10000}, {0, 10000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, 0);
    for (int i = 0; i < 3; i++)
        pause();
    setitimer(ITIMER_REAL, &off, 0);
    check(counted >= 3, "an interval timer ticks");
    alarm(100);
    equal(alarm(0), 100, "alarm gives what was left");
    struct timeval day;
    equal(gettimeofday(&day, 0), 0, "gettimeofday");
    check(labs(day.tv_sec - time(0)) <= 1, "agrees with time");
    struct timespec cpu;
    equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu), 0, "CPU time");
    for (volatile int i = 0; i < 20000000; i++)
        ;
    struct timespec later;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &later);
    check(later.tv_sec + later.tv_nsec * 1e-9 > cpu.tv_sec + cpu.tv_nsec * 1e-9, "grows");
}

/* --- waiting for several --- */

static void waiting(void)
{
    int fd[2];
    pipe(fd);
    fflush(stdout);
    if (fork() == 0) {
        usleep(30000);
        write(fd[1], "x", 1);
        _exit(0);
    }
    struct pollfd p[2] = {{fd[0], POLLIN, 0}, {-1, POLLIN, 0}};
    equal(poll(p, 2, 5000), 1, "poll wakes");
    equal(p[0].revents, POLLIN, "and says for what");
    wait(0);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd[0], &set);
    struct timeval v = {5, 0};
    equal(select(fd[0] + 1, &set, 0, 0, &v), 1, "select");
    check(FD_ISSET(fd[0], &set), "and says for what");
    p[0].fd = 555;
    equal(poll(p, 1, 0) == 1 && p[0].revents == POLLNVAL, 1, "POLLNVAL");
    close(fd[0]);
    p[0] = (struct pollfd){fd[1], POLLOUT, 0};
    equal(poll(p, 1, 0) == 1 && (p[0].revents & POLLERR), 1, "POLLERR without readers");
    close(fd[1]);
}

/* --- threads --- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long shared_count;
static int turn, turns_taken;
static __thread int own;

static void *add_many(void *argument)
{
    own = (int)(long)argument;
    for (int i = 0; i < 10000; i++) {
        pthread_mutex_lock(&mutex);
        shared_count++;
        pthread_mutex_unlock(&mutex);
    }
    return (void *)(long)own;
}

static void *take_turns(void *argument)
{
    int me = (int)(long)argument;
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != me)
            pthread_cond_wait(&condition, &mutex);
        turn = !me;
        turns_taken++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
    }
    return 0;
}

static void *floating_point(void *argument)
{
    double start = (long)argument, value = start;
    for (int i = 0; i < 200000; i++) {
        value = value * 1.0000001 + 1e-9;
        if (i % 20000 == 0)
            sched_yield();
    }
    double again = start;
    for (int i = 0; i < 200000; i++)
        again = again * 1.0000001 + 1e-9;
    return (void *)(long)(value == again);
}

static void threads(void)
{
    pthread_t list[8];
    int made = 1, rightly = 1;
    for (long i = 0; i < 8; i++)
        made &= pthread_create(&list[i], 0, add_many, (void *)i) == 0;
    check(made, "eight threads");
    for (long i = 0; i < 8; i++) {
        void *result = 0;
        pthread_join(list[i], &result);
        rightly &= result == (void *)i;
    }
    check(rightly, "each has its own thread-local word");
    equal(shared_count, 80000, "and a mutex keeps them apart");
    for (long i = 0; i < 2; i++)
        pthread_create(&list[i], 0, take_turns, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(list[i], 0);
    equal(turns_taken, 400, "a condition variable, four hundred turns");
    rightly = 1;
    for (long i = 0; i < 6; i++)
        pthread_create(&list[i], 0, floating_point, (void *)(i + 1));
    for (long i = 0; i < 6; i++) {
        void *result = 0;
        pthread_join(list[i], &result);
        rightly &= result == (void *)1;
    }
    check(rightly, "floating point is each thread's own");
    check(syscall(SYS_gettid) == getpid(), "the first thread's id is the process's");
}

/* --- the rest --- */

static void system_facts(void)
{
    struct utsname u;
    equal(uname(&u), 0, "uname");
    check(strcmp(u.machine, "x86_64") == 0, "x86_64");
    fails(syscall(999), ENOSYS, "an unknown call");
    fails(syscall(-1L), ENOSYS, "call -1");
    struct sysinfo s;
    equal(sysinfo(&s), 0, "sysinfo");
    check(s.totalram > 0 && s.freeram < s.totalram, "memory");
    /* `as` says whom it has made of us. */
    unsigned user = getenv("TEST_USER") ? atoi(getenv("TEST_USER")) : 0;
    check(getuid() == user && geteuid() == user && getgid() == user && getegid() == user,
          "we are who we should be");
    cpu_set_t set;
    check(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 1, "sched_getaffinity");
    char name[64];
    equal(gethostname(name, sizeof name), 0, "gethostname");
    equal(getpriority(PRIO_PROCESS, 0), 0, "getpriority");
    struct rlimit limit;
    equal(getrlimit(RLIMIT_STACK, &limit), 0, "getrlimit");
    char link[100];
    long length = readlink("/proc/self/exe", link, sizeof link - 1);
    check(length > 0 && link[0] == '/', "/proc/self/exe");
    struct termios t;
    int fd = open("/dev/null", O_RDWR);
    fails(tcgetattr(fd, &t), ENOTTY, "/dev/null is no terminal");
    close(fd);
}

static const struct group groups[] = {
    {"files", files},         {"directories", directories},
    {"pipes", pipes},         {"descriptors", descriptors},
    {"devices", devices},     {"pointers", pointers},
    {"memory", memory},       {"processes", processes},
    {"signals", signals},     {"times", times},
    {"waiting", waiting},     {"threads", threads},
    {"system", system_facts},
};
#endif

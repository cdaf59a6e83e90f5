/* Robust locks, futexes, what threads do together, and timers that start one: a part of `jobs`.
 *
 * Interface: the groups robust, futexes, threads and timers.
 */
#ifndef JOBS_THREADS_H
#define JOBS_THREADS_H

static pthread_mutex_t *shared_lock;

static void *lock_and_end(void *unused)
{
    pthread_mutex_lock(shared_lock);
    return unused;
}

static void robust(void)
{
    shared_lock = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_t *semaphore = (void *)(shared_lock + 8);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(shared_lock, &attributes);

    pthread_t thread;
    pthread_create(&thread, 0, lock_and_end, 0);
    pthread_join(thread, 0);
    equal(pthread_mutex_lock(shared_lock), EOWNERDEAD, "a thread that ends with a robust lock is noticed");
    pthread_mutex_consistent(shared_lock);
    pthread_mutex_unlock(shared_lock);

    pid_t child = fork();
    if (child == 0)
        _exit(pthread_mutex_lock(shared_lock));
    status_of(child);
    equal(pthread_mutex_lock(shared_lock), EOWNERDEAD, "and so is a process");
    pthread_mutex_consistent(shared_lock);
    child = fork();
    if (child == 0)
        _exit(pthread_mutex_lock(shared_lock));
    usleep(20000);
    pthread_mutex_unlock(shared_lock);
    check(exited(status_of(child), 0), "a lock in shared memory wakes the other process");

    sem_init(semaphore, 1, 0);
    child = fork();
    if (child == 0) {
        usleep(20000);
        _exit(sem_post(semaphore));
    }
    equal(sem_wait(semaphore), 0, "and so does a semaphore");
    status_of(child);
    munmap(shared_lock, 4096);
}

static void futexes(void)
{
    uint32_t word = 0, other = 5;
    struct timespec short_time = {0, 5000000};
    fails(syscall(SYS_futex, &word, FUTEX_WAIT, 1, 0), EAGAIN, "a futex that is not as expected");
    fails(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &short_time), ETIMEDOUT, "a futex wait times out");
    fails(syscall(SYS_futex, 1, FUTEX_WAIT, 0, &short_time), EINVAL, "a futex that is not aligned");
    fails(syscall(SYS_futex, 4096, FUTEX_WAIT, 0, &short_time), EFAULT, "a futex that is not there");
    equal(syscall(SYS_futex, &word, FUTEX_WAKE, 1), 0, "nobody to wake");
    fails(syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE, 1, 1, &other, 7), EAGAIN,
          "a requeue that is not as expected");
    int operation = FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 5);
    equal(syscall(SYS_futex, &word, FUTEX_WAKE_OP, 1, 1, &other, operation), 0, "FUTEX_WAKE_OP");
    equal(other, 8, "which adds");
}

static pthread_barrier_t barrier;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long total, meetings;

static void *meet(void *unused)
{
    /* One of those who meet is told so. */
    for (int i = 0; i < 200; i++)
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_add_fetch(&meetings, 1, __ATOMIC_SEQ_CST);
    return unused;
}

static void *read_and_write(void *unused)
{
    for (int i = 0; i < 500; i++) {
        pthread_rwlock_wrlock(&rwlock);
        total++;
        pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_rdlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
    }
    return unused;
}

static void *start_and_exec(void *unused)
{
    usleep(10000);
    execl("/bin/sh", "sh", "-c", "exit 6", (char *)0);
    return unused;
}

static void many(void *(*body)(void *), int count)
{
    pthread_t threads[8];
    for (int i = 0; i < count; i++)
        pthread_create(threads + i, 0, body, 0);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], 0);
}

static void threads(void)
{
    pthread_barrier_init(&barrier, 0, 5);
    many(meet, 5);
    equal(meetings, 200, "five threads meet two hundred times");
    many(read_and_write, 5);
    equal(total, 2500, "five writers and readers");

    pthread_t thread;
    pid_t child = fork();
    if (child == 0) {
        pthread_create(&thread, 0, (void *(*)(void *))pause_for_ever, 0);
        usleep(10000);
        start_and_exec(0);
        _exit(1);
    }
    check(exited(status_of(child), 6), "exec ends the other threads");
    child = fork();
    if (child == 0) {
        pthread_create(&thread, 0, start_and_exec, 0);
        for (;;)
            pause();
    }
    check(exited(status_of(child), 6), "exec from another thread ends the first");
    child = fork();
    if (child == 0) {
        pthread_create(&thread, 0, (void *(*)(void *))pause_for_ever, 0);
        usleep(10000);
        abort();
    }
    check(killed(status_of(child), SIGABRT), "a fatal signal ends all threads");
}

static void fire(union sigval value) { *(volatile int *)value.sival_ptr = 1; }

static void timers(void)
{
    static volatile int fired;
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = fire};
    event.sigev_value.sival_ptr = (void *)&fired;
    struct itimerspec soon = {{0, 0}, {0, 10000000}};
    equal(timer_create(CLOCK_REALTIME, &event, &timer), 0, "a timer that starts a thread");
    timer_settime(timer, 0, &soon, 0);
    for (int i = 0; i < 200 && !fired; i++)
        usleep(5000);
    check(fired, "starts it");
    timer_delete(timer);

    handle(SIGPROF, SA_RESTART);
    seen = 0;
    struct itimerval profile = {{0, 10000}, {0, 10000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &profile, 0);
    for (volatile long i = 0; i < 400000000 && !seen; i++)
        ;
    equal(seen, SIGPROF, "a timer on CPU time");
    setitimer(ITIMER_PROF, &off, 0);
    signal(SIGPROF, SIG_DFL);
}
#endif

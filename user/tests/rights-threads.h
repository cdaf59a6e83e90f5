/* Credentials of single threads: a part of `rights`. A call of a thread changes that thread alone; the C
 * library makes such a call in all threads, so the calls here are bare.
 */
#include <pthread.h>

#define THREADS_USER 1234

static int thread_to_main[2], main_to_thread[2];
static pid_t worker_tid;

/* One side has done its part, and waits for the other. */
static void turn(int *mine, int *others)
{
    char byte = 0;
    (void)!write(mine[1], &byte, 1);
    (void)!read(others[0], &byte, 1);
}

static long bare_uid(void) { return syscall(SYS_getuid); }

static void *asks_uid(void *unused)
{
    (void)unused;
    return (void *)bare_uid();
}

static long uid_of_new_thread(void)
{
    pthread_t thread;
    void *uid = (void *)-1;
    if (pthread_create(&thread, NULL, asks_uid, NULL) == 0)
        pthread_join(thread, &uid);
    return (long)uid;
}

/* The exit status of a child that tells `what`. */
static int told_by_child(long (*what)(void))
{
    pid_t child = fork();
    if (child == 0)
        _exit(what() & 0xff);
    return code_of(child);
}

static long bound(void) { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); }

/* Whether /proc/self/task/TID/status has this line. */
static int thread_says(pid_t tid, const char *wanted)
{
    char path[64], line[256];
    int found = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        found |= strcmp(line, wanted) == 0;
    }
    if (file)
        fclose(file);
    return found;
}

static unsigned effective_of(pid_t tid)
{
    unsigned header[2] = {0x20080522, tid}, data[6] = {0};
    syscall(SYS_capget, header, data);
    return data[0];
}

/* Whether the other user's processes have power over this one. */
static int others_may(void)
{
    pid_t child = fork();
    if (child == 0) {
        syscall(SYS_setresuid, THREADS_USER, THREADS_USER, THREADS_USER);
        _exit(kill(getppid(), 0) == 0);
    }
    return code_of(child);
}

static void *worker(void *victim)
{
    struct stat st;
    unsigned few[4];
    worker_tid = syscall(SYS_gettid);
    equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0, "a thread gives up new rights");
    equal(prctl(PR_SET_KEEPCAPS, 1), 0, "and keeps its capabilities at a change of user");
    turn(thread_to_main, main_to_thread);
    equal(bound(), 1, "it has given them up");
    equal(told_by_child(bound), 1, "so has its child");
    prctl(PR_SET_KEEPCAPS, 0);
    equal(syscall(SYS_setgroups, 0, NULL), 0, "it leaves its groups");
    equal(syscall(SYS_setresgid, THREADS_USER, THREADS_USER, THREADS_USER), 0, "it changes its group");
    equal(syscall(SYS_setresuid, THREADS_USER, THREADS_USER, THREADS_USER), 0, "and its user");
    turn(thread_to_main, main_to_thread);
    equal(bare_uid(), THREADS_USER, "it is the other user");
    equal(syscall(SYS_setresuid, 0, 0, 0), -1, "for ever");
    fails(open(DIRECTORY "/secret", O_RDONLY), EACCES, "which may not open what is root's");
    int fd = open(DIRECTORY "/all/mine", O_CREAT | O_RDWR, 0600);
    check(fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == THREADS_USER && st.st_gid == THREADS_USER,
          "makes files of its own");
    close(fd);
    (void)!pipe((int *)few);
    check(fstat(few[0], &st) == 0 && st.st_uid == THREADS_USER, "and pipes");
    close(few[0]);
    close(few[1]);
    fails(kill((pid_t)(long)victim, 0), EPERM, "has no power over root's processes");
    equal(effective_of(0), 0, "has no capabilities");
    equal(told_by_child(bare_uid), THREADS_USER & 0xff, "its child is as it is");
    equal(uid_of_new_thread(), THREADS_USER, "so is its thread");
    turn(thread_to_main, main_to_thread);
    return NULL;
}

static void *executes(void *unused)
{
    (void)unused;
    syscall(SYS_setresuid, THREADS_USER, THREADS_USER, THREADS_USER);
    execl("/proc/self/exe", "rights", "as", "another", (char *)NULL);
    _exit(99);
}

static void *stays_root(void *answer)
{
    char byte;
    (void)!read(main_to_thread[0], &byte, 1);
    *(long *)answer = bare_uid();
    return NULL;
}

static void threads_group(void)
{
    pthread_t thread;
    unlink(DIRECTORY "/all/mine");
    mkdir(DIRECTORY "/all", 0777);
    chmod(DIRECTORY "/all", 0777);
    close(open(DIRECTORY "/secret", O_CREAT | O_RDWR, 0600));
    (void)!pipe(thread_to_main);
    (void)!pipe(main_to_thread);
    pid_t victim = fork();
    if (victim == 0)
        for (;;)
            pause();
    pthread_create(&thread, NULL, worker, (void *)(long)victim);
    char byte;
    (void)!read(thread_to_main[0], &byte, 1);
    equal(bound(), 0, "the first thread has given up nothing");
    equal(prctl(PR_GET_KEEPCAPS), 0, "nor does it keep anything");
    check(thread_says(worker_tid, "NoNewPrivs:\t1") && thread_says(getpid(), "NoNewPrivs:\t0"),
          "/proc says it of each thread");
    turn(main_to_thread, thread_to_main);
    equal(bare_uid(), 0, "the first thread is root");
    check(thread_says(worker_tid, "Uid:\t1234\t1234\t1234\t1234"), "/proc says who the other is");
    check(thread_says(getpid(), "Uid:\t0\t0\t0\t0"), "and who the first");
    int fd = open(DIRECTORY "/secret", O_RDONLY);
    check(fd >= 0, "root opens what is its own");
    close(fd);
    check(effective_of(0) != 0, "and has capabilities");
    equal(effective_of(worker_tid), 0, "but not those of the other thread");
    equal(kill(victim, 0), 0, "it has power over its processes");
    equal(uid_of_new_thread(), 0, "its new threads are root");
    equal(others_may(), 0, "the other user has no power over the process");
    turn(main_to_thread, thread_to_main);
    (void)!write(main_to_thread[1], &byte, 1);
    pthread_join(thread, NULL);
    kill(victim, SIGKILL);
    waitpid(victim, NULL, 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_create(&thread, NULL, executes, NULL);
        pthread_join(thread, NULL);
        _exit(98);
    }
    equal(code_of(child), 0, "a program is run as who runs it");
    child = fork();
    if (child == 0) {
        long uid = -1;
        pthread_create(&thread, NULL, stays_root, &uid);
        syscall(SYS_setresuid, THREADS_USER, THREADS_USER, THREADS_USER);
        (void)!write(main_to_thread[1], &byte, 1);
        pthread_join(thread, NULL);
        _exit(uid != 0 || bare_uid() != THREADS_USER || !others_may());
    }
    equal(code_of(child), 0, "a change of the first thread is no other's");
    for (int i = 0; i < 2; i++) {
        close(thread_to_main[i]);
        close(main_to_thread[i]);
    }
}

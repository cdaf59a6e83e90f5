/* Areas, tables of pages, threads and arguments until there are no more: a part of `hogs`.
 *
 * Interface: the kinds mappings, tables, tracees, threads and arguments.
 */
#ifndef HOGS_MEMORY_H
#define HOGS_MEMORY_H

/* Areas until there are a hundred thousand, or no more. */
static struct told mappings(void)
{
    enum { AREAS = 100000 };
    struct told told = {0, 0};
    char *at = mmap(0, AREAS * 4096L, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (; told.made < AREAS && at != MAP_FAILED; told.made += 2)
        if (mprotect(at + told.made * 4096L, 4096, PROT_READ))
            break;
    told.error = told.made < AREAS ? errno : ENOMEM;
    return told;
}

/* A page of every two mebibytes, each with a table of its own. */
static struct told tables(void)
{
    struct told told = {0, 0};
    for (;; told.made++) {
        char *at =
            mmap(0, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            break;
        *at = 1;
    }
    told.error = errno;
    return told;
}

static void *thread(void *arg)
{
    for (;;)
        pause();
    return arg;
}

/* Says who it is, and ends when it may. */
static void *short_life(void *ends)
{
    int *pipes = ends, tid = gettid();
    char go;
    if (write(pipes[1], &tid, sizeof tid) != sizeof tid || read(pipes[2], &go, 1) != 1)
        _exit(6);
    return 0;
}

/* Threads that end while they are traced, of whose ends nobody asks. */
static struct told tracees(void)
{
    struct told told = {0, 0};
    pid_t self = getpid();
    int ends[4], tid;
    if (pipe(ends) || pipe(ends + 2))
        _exit(8);
    if (fork() == 0) {
        pthread_t one;
        pthread_attr_t small;
        end_with(self);
        prctl(PR_SET_DUMPABLE, 1);
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 16384);
        while (pthread_create(&one, &small, short_life, ends) == 0)
            pthread_join(one, 0);
        _exit(5);
    }
    close(ends[1]);
    /* Each is looked for among all: where a user may have very many, and as root, some do. */
    struct sysinfo about;
    sysinfo(&about);
    int most = geteuid() == 0 || about.totalram > 32 << 20 ? 4000 : 60000;
    for (told.error = most == 4000 ? ENOMEM : 0; told.made < most; told.made++) {
        if (read(ends[0], &tid, sizeof tid) != sizeof tid)
            break;
        if (ptrace(PTRACE_SEIZE, tid, 0, 0)) {
            told.error = errno;
            break;
        }
        if (write(ends[3], "", 1) != 1)
            break;
    }
    return told;
}

static struct told threads(void)
{
    struct told told = {0, 0};
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (; told.made < 20000; told.made++) {
        pthread_t one;
        told.error = pthread_create(&one, &small, thread, 0);
        if (told.error)
            break;
    }
    return told;
}

/* Thirty programs with as much environment as one may have. */
static struct told arguments(void)
{
    enum { STRINGS = 19, LENGTH = 100000, PROGRAMS = 30 };
    static char text[STRINGS][LENGTH];
    char *environment[STRINGS + 1] = {0}, *words[] = {"hogs", "wait", 0};
    struct told told = {0, ENOMEM};
    pid_t self = getpid();
    for (int i = 0; i < STRINGS; i++) {
        memset(text[i], 'x', LENGTH - 1);
        environment[i] = text[i];
    }
    for (; told.made < PROGRAMS; told.made++) {
        int ends[2];
        char byte;
        if (pipe(ends))
            break;
        pid_t child = fork();
        if (child == 0) {
            end_with(self);
            fcntl(ends[1], F_SETFD, FD_CLOEXEC);
            execve("/proc/self/exe", words, environment);
            _exit(1);
        }
        close(ends[1]);
        /* The other end goes when it runs, or has ended. */
        while (read(ends[0], &byte, 1) > 0)
            ;
        close(ends[0]);
        if (child < 0)
            break;
    }
    return told;
}
#endif

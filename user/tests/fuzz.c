/* Makes sequences of system calls that would do harm if anything could, and looks whether anything did.
 *
 * Interface: fuzz run SECONDS SEED WORKERS user|root|all [blind] [marks] [FILE...]: rounds of random
 * sequences; what brings answers not seen before is kept and changed further, unless `blind`, and so are the
 * sequences in the files. fuzz replay [marks] FILE...: the sequences in these files, five times each, for a
 * race may need it; those of a corpus once. fuzz again user|root|all [FILE...] ID...: those that the log
 * named. fuzz show user|root|all [FILE...] ID: as text. With `marks` each step calls an address of its own.
 * Status 0 and a last line that begins with `ok`: nothing of root's has changed, nobody has got rights,
 * whatever was killed has ended, a shell answers, memory is back. The log names each sequence before it runs,
 * so a crash names its cause: `fuzz WORKER ID`. Run by a set-user-id bit or as `victim` it only looks after
 * itself: nobody may lead it elsewhere.
 *
 * A sequence has three actors (fuzz-act.h) in a world of descriptors and mappings (fuzz-world.h), and steps
 * (fuzz-sequence.h) by what is known of each call (fuzz-calls.h). Only for a machine of its own: as root it
 * kills every process that it does not know.
 */
#define _GNU_SOURCE
#include "fuzz-act.h"
#include "fuzz-guard.h"
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

#define SEQUENCES 40 /* by a worker in a round */
#define POOL 128     /* sequences that brought something new, for each worker */
#define IDLE_POLLS 6
#define EARLY_POLLS 20
#define NUDGES 3

struct pool {
    struct id id[POOL];
    int count;
};

static struct common *common;
static struct share *shares[WORKERS];
static struct pool *pools;
static struct totals {
    unsigned long calls, sequences, nudges, kills, kept;
    int bad;
} *totals;
static int blind;
static struct termios terminal;
static unsigned arrangements = ~0U;
#define WITH_ROOT (1 << BESIDE | 1 << ALL_ROOT | 1 << ROOT_FAMILY)

static void say(const char *format, ...)
{
    char line[240];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    (void)!write(kmsg, line, length);
}

static void bad(const char *what, const char *detail)
{
    __atomic_fetch_add(&totals->bad, 1, __ATOMIC_RELAXED);
    say("fuzz bad: %s %s\n", what, detail);
    printf("bad: %s %s\n", what, detail);
    fflush(stdout);
}

static void name_of(const struct id *id, char *text)
{
    if (id->base)
        text += sprintf(text, "@%x", id->base);
    for (int i = 0; i < CHANGES && (i == 0 || id->seed[i]); i++)
        text += sprintf(text, i || id->base ? ".%x" : "%x", id->seed[i]);
}

static struct id id_of(const char *text)
{
    struct id id = {0};
    if (*text == '@') {
        id.base = strtoul(text + 1, 0, 16);
        text = strchr(text, '.');
        text = text ? text + 1 : 0;
    }
    for (int i = 0; i < CHANGES && text; i++) {
        id.seed[i] = strtoul(text, 0, 16);
        text = strchr(text, '.');
        text = text ? text + 1 : 0;
    }
    return id;
}

static void limit(int resource, unsigned long value)
{
    struct rlimit both = {value, value};
    setrlimit(resource, &both);
}

/* The first process of a sequence: makes its world, gives up its rights unless all keep them, and acts. */
static void lead(struct share *share)
{
    static struct actor actors[ACTORS];
    struct sequence *q = &share->sequence;
    int root = q->arrangement >= ALL_ROOT, user = share->user;
    if (q->world & OWN_SESSION)
        setsid();
    else
        setpgid(0, 0);
    open_world(root ? 0 : user, q->arrangement == BESIDE);
    for (int i = 0; i < ACTORS; i++)
        actors[i] = (struct actor){.index = i,
                                   .privileged = root || (q->arrangement == BESIDE && i == 2),
                                   .share = share,
                                   .common = common};
    limit(RLIMIT_NOFILE, 256);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NPROC, 24);
    if (!(q->world & UNLIMITED_FILES))
        limit(RLIMIT_FSIZE, 1 << 20);
    if (!(q->world & UNLIMITED_MEMORY))
        limit(RLIMIT_AS, 32 << 20);
    if (q->world & NO_HANDLERS)
        for (int i = 1; i < 65; i++)
            signal(i, SIG_DFL);
    if (q->arrangement == BESIDE)
        start(&actors[2], CLONE_FILES | CLONE_FS | SIGCHLD);
    if (!root && (raw(SYS_setgroups, 0, 0, 0, 0, 0, 0) || raw(SYS_setresgid, user, user, user, 0, 0, 0) ||
                  raw(SYS_setresuid, user, user, user, 0, 0, 0)))
        _exit(9);
    raw(SYS_prctl, PR_SET_DUMPABLE, q->world & DUMPABLE, 0, 0, 0, 0);
    long thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
         family = CLONE_FILES | CLONE_FS | SIGCHLD;
    long beside = q->arrangement == FAMILY || q->arrangement == ROOT_FAMILY ? family
                  : q->arrangement == MEMORY                                ? family | CLONE_VM
                                                                            : thread;
    start(&actors[1], beside);
    if (q->arrangement != BESIDE)
        start(&actors[2], q->arrangement == MEMORY ? thread : beside);
    act(&actors[0]);
}

static void pause_us(long us)
{
    struct timespec time = {0, us * 1000};
    nanosleep(&time, 0);
}

/* Interrupts what the actors wait for. */
static void nudge(const struct share *share)
{
    for (int i = 0; i < ACTORS; i++) {
        int tid = share->tid[i];
        if (tid > 2 && tid != common->supervisor && tid != share->worker_pid)
            syscall(SYS_tkill, tid, SIGUSR2);
    }
    totals->nudges++;
}

/* Runs what `share` describes until all have ended or nothing goes on. */
static void run(struct share *share)
{
    const struct sequence *q = &share->sequence;
    for (int i = 0; i < STEPS; i++)
        share->result[i] = -1;
    for (int i = 0; i < ACTORS; i++)
        share->at[i] = share->tid[i] = share->pid[i] = share->finished[i] = 0;
    pid_t pid = fork();
    if (pid == 0)
        lead(share);
    if (pid < 0) {
        pause_us(1000);
        return;
    }
    if (!(q->world & OWN_SESSION))
        setpgid(pid, pid);
    unsigned long seen = share->calls;
    int status, idle = 0, nudges = 0, gone = 0;
    for (int polls = 0; polls < 1500; polls++) {
        pause_us(polls < EARLY_POLLS ? 200 : 1000);
        gone = gone || waitpid(pid, &status, WNOHANG) == pid;
        if (gone && kill(-pid, 0))
            break;
        if (share->calls != seen) {
            seen = share->calls, idle = 0;
            continue;
        }
        /* Before the first step the world is made, which takes as long as it takes. */
        if (polls < EARLY_POLLS || share->tid[0] == 0 || ++idle < IDLE_POLLS)
            continue;
        idle = 0;
        if (++nudges > NUDGES)
            break;
        nudge(share);
    }
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    for (int polls = 0; !gone; polls++) {
        gone = waitpid(pid, &status, WNOHANG) == pid;
        if (gone)
            break;
        pause_us(1000);
        if (polls == 20000) {
            bad("killed, but has not ended after 20000 looks:", "the leader");
            break;
        }
    }
    totals->sequences++;
    totals->kills += gone && WIFSIGNALED(status);
    clear_directory(".", q->arrangement >= BESIDE);
}

static void check_share(struct share *share, const char *name)
{
    if (!share->violation)
        return;
    char detail[160];
    snprintf(detail, sizeof detail, "kind %d at step %d of %s", share->violation, share->violation_step,
             name);
    bad("rights that should not be:", detail);
    share->violation = 0;
}

/* A worker's directory, memory and identity. */
static void prepare(int worker)
{
    char directory[32];
    struct share *share = shares[worker];
    share->worker_pid = getpid();
    share->user = BASE_USER + worker;
    common->workers[worker] = share->worker_pid;
    common->handles[worker] = syn_handle(0);
    snprintf(directory, sizeof directory, "/tmp/fuzz/%d", worker);
    mkdir(directory, 0777);
    (void)!chdir(directory);
    (void)!chown(".", share->user, share->user);
    map_world();
    struct sigaction action = {.sa_handler = handler};
    for (int i = 1; i < 65; i++)
        if (i != SIGKILL && i != SIGSTOP && i != SIGCHLD && i != SIGCONT)
            sigaction(i, &action, 0);
    action = (struct sigaction){.sa_sigaction = skip_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
}

static void one(int worker, const struct sequence *q, const char *name)
{
    struct share *share = shares[worker];
    share->sequence = *q;
    refresh_program("x", share->user);
    common->marked++;
    mark(common, MARKS_EACH - 1);
    say("fuzz %d %s\n", worker, name);
    run(share);
    check_share(share, name);
}

static void work(int worker, uint64_t seed)
{
    struct pool *pool = &pools[worker];
    char name[80];
    prepare(worker);
    for (int i = 0; i < SEQUENCES; i++) {
        struct id id = {0};
        int at = 0;
        if (!blind && kept_count && below(&seed, 4) == 0) {
            id.base = 1 + below(&seed, kept_count);
        } else if (!blind && pool->count && below(&seed, 2)) {
            id = pool->id[below(&seed, pool->count < POOL ? pool->count : POOL)];
            while (at < CHANGES - 1 && id.seed[at])
                at++;
        }
        id.seed[at] = (uint32_t)draw(&seed) | 1;
        struct sequence q;
        make(&q, &id, arrangements);
        name_of(&id, name);
        shares[worker]->news = 0;
        one(worker, &q, name);
        if (shares[worker]->news && at < CHANGES - 2) {
            pool->id[pool->count++ % POOL] = id;
            totals->kept++;
        }
    }
    _exit(0);
}

static unsigned long calls_made(int workers)
{
    unsigned long calls = 0;
    for (int i = 0; i < workers; i++)
        calls += shares[i]->calls;
    return calls;
}

/* Waits for the workers. None may do nothing for long: 30000 looks of a millisecond. */
static void await(pid_t *pids, int workers)
{
    unsigned long seen = 0, calls;
    int left = workers, status, still = 0;
    while (left) {
        pid_t pid = waitpid(-1, &status, WNOHANG);
        for (int i = 0; i < workers; i++)
            if (pid > 0 && pids[i] == pid) {
                pids[i] = 0;
                left--;
                if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                    char detail[40];
                    snprintf(detail, sizeof detail, "worker %d, status %x", i, status);
                    bad("a process of root's was ended:", detail);
                }
            }
        if (pid > 0)
            continue;
        pause_us(1000);
        calls = calls_made(workers) + totals->sequences;
        still = calls == seen ? still + 1 : 0;
        seen = calls;
        if (still == 30000) {
            bad("nothing goes on", "");
            show_file("/syn/threads");
            exit(1);
        }
    }
}

static void guard(int workers)
{
    const char *fault = guard_fault((arrangements & WITH_ROOT) != 0);
    if (fault)
        bad("guard:", fault);
    end_strangers(common, bad);
    remove_objects();
    /* A sequence that had the terminal may have stopped it. */
    ioctl(1, TCXONC, TCOON);
    tcsetattr(1, TCSANOW, &terminal);
    for (int i = 0; i < workers; i++)
        common->workers[i] = common->handles[i] = 0;
}

static int run_rounds(int seconds, uint64_t seed, int workers)
{
    struct timespec now, begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    long warm = 0, level = 0;
    int rounds = 0;
    do {
        pid_t pids[WORKERS];
        for (int i = 0; i < workers; i++) {
            uint64_t own = seed + ((uint64_t)rounds * WORKERS + i) * 0x9e3779b97f4a7c15ULL;
            uint64_t mixed = draw(&own);
            fflush(stdout);
            if ((pids[i] = fork()) == 0)
                work(i, mixed);
            if (pids[i] < 0)
                workers = i;
        }
        if (workers == 0) {
            bad("root's fork fails", "");
            break;
        }
        await(pids, workers);
        guard(workers);
        level = memory_level();
        if (++rounds == 4)
            warm = level;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begun.tv_sec < seconds && totals->bad == 0);
    int outcomes = 0;
    for (int i = 0; i < OUTCOMES; i++)
        outcomes += common->outcome[i];
    say("fuzz seed %lu: %d rounds, %lu sequences, %lu calls, %d outcomes, %lu kept, %lu nudges, %lu killed, "
        "memory %ld then %ld KiB\n",
        seed, rounds, totals->sequences, calls_made(workers), outcomes, totals->kept, totals->nudges,
        totals->kills, warm, level);
    if (warm && level > warm + MEMORY_SLACK) {
        show_file("/syn/memory");
        bad("memory has not returned", "");
    }
    return totals->bad != 0;
}

/* A sequence by itself, in a worker. */
static void run_one(const struct sequence *q, const char *name)
{
    pid_t pid = fork();
    if (pid == 0) {
        prepare(0);
        one(0, q, name);
        _exit(0);
    }
    await(&pid, 1);
    guard(1);
}

static int replay(char **files)
{
    struct sequence q;
    char name[80];
    for (; *files; files++) {
        FILE *file = fopen(*files, "r");
        int got = -1, count = 0;
        while (file && (got = parse_sequence(file, &q)) > 0) {
            snprintf(name, sizeof name, "%.60s:%d", *files, ++count);
            for (int i = common->marking || strstr(*files, "corpus") ? 1 : 5; i; i--)
                run_one(&q, name);
        }
        if (got < 0 || count == 0)
            bad("no sequence in", *files);
        if (file)
            fclose(file);
    }
    return totals->bad != 0;
}

static volatile unsigned char pattern[4096];

/* A program that runs with other rights than its user's: it does nothing but look whether it is still
 * itself. */
static int victim(void)
{
    for (unsigned i = 0; i < sizeof pattern; i++)
        pattern[i] = i * 7;
    for (int round = 0; round < 60; round++) {
        for (unsigned i = 0; i < sizeof pattern; i++)
            if (pattern[i] != (unsigned char)(i * 7) && getuid() != 0)
                report(LED_ASTRAY);
        if (round % 8 == 0)
            pause_us(50);
    }
    return 0;
}

static void *shared(size_t size)
{
    return mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void choose(const char *word)
{
    arrangements = strcmp(word, "user") == 0   ? 1 << THREADS | 1 << FAMILY | 1 << MEMORY
                   : strcmp(word, "root") == 0 ? WITH_ROOT
                                               : ~0U;
}

/* The rest of the command line, in order: files, whose names have a slash, and words. */
static void take_files(char **words)
{
    for (; *words; words++)
        if (strchr(*words, '/'))
            keep_file(*words, arrangements);
        else if (strcmp(*words, "blind") == 0)
            blind = 1;
}

static int marks_wanted(char **words)
{
    while (*words && strcmp(*words, "marks"))
        words++;
    return *words != 0;
}

int main(int argc, char **argv)
{
    if (geteuid() != getuid() || getegid() != getgid() || argc < 2 || strcmp(argv[1], "victim") == 0)
        return victim();
    if (argc > 3 && strcmp(argv[1], "show") == 0) {
        struct sequence q;
        struct id id = id_of(argv[argc - 1]);
        choose(argv[2]);
        take_files(argv + 3);
        make(&q, &id, arrangements);
        print_sequence(stdout, &q);
        return 0;
    }
    /* Sequences of root's execute this program with any words: nothing is touched before these are known. */
    int known_word =
        strcmp(argv[1], "run") == 0 || strcmp(argv[1], "replay") == 0 || strcmp(argv[1], "again") == 0;
    if (argc < 3 || !known_word || getuid() != 0 || !own_machine())
        return 2;
    common = shared(sizeof *common);
    pools = shared(WORKERS * sizeof *pools);
    totals = shared(sizeof *totals);
    for (int i = 0; i < WORKERS; i++)
        shares[i] = shared(sizeof **shares);
    common->supervisor = getpid();
    common->supervisor_handle = syn_handle(0);
    kmsg = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
    for (int i = 1; i < 32; i++)
        if (i != SIGCHLD && i != SIGSEGV && i != SIGBUS && i != SIGKILL && i != SIGSTOP)
            signal(i, SIG_IGN);
    tcgetattr(1, &terminal);
    lay_canaries();
    int failed = 2;
    if (marks_wanted(argv + 2)) {
        void *marks = mmap((void *)MARKS, MARKS_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        common->marking = marks != MAP_FAILED;
        if (common->marking)
            memset(marks, 0xc3, MARKS_SIZE); /* ret */
    }
    if (strcmp(argv[1], "replay") == 0) {
        failed = replay(argv + (common->marking ? 3 : 2));
    } else if (strcmp(argv[1], "again") == 0) {
        choose(argv[2]);
        take_files(argv + 3);
        for (int i = 3; i < argc; i++) {
            if (strchr(argv[i], '/'))
                continue;
            struct sequence q;
            struct id id = id_of(argv[i]);
            make(&q, &id, arrangements);
            run_one(&q, argv[i]);
        }
        failed = totals->bad != 0;
    } else if (argc > 5) {
        int workers = atoi(argv[4]);
        choose(argv[5]);
        take_files(argv + 6);
        failed = run_rounds(atoi(argv[2]), strtoull(argv[3], 0, 0),
                            workers < 1         ? 1
                            : workers < WORKERS ? workers
                                                : WORKERS);
    }
    say("fuzz %s: %lu sequences, %lu calls\n", failed ? "failed" : "ok", totals->sequences,
        calls_made(WORKERS));
    printf("%s %lu sequences, %lu calls\n", failed ? "failed" : "ok", totals->sequences, calls_made(WORKERS));
    return failed;
}

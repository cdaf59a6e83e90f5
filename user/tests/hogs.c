/* Takes each kind of thing until there is no more, and checks that the machine goes on: as user 1000, that
 * root works meanwhile within a second; and that memory comes back.
 *
 * Interface: hogs [root] [KIND...] for all kinds or those named; TAP on standard output. As root only what is
 * so afterwards is checked: nothing is refused to root as long as there is any. tests/kinds.txt says which
 * call makes which kind.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* A hog's report when it has taken all it gets. */
struct told {
    int made, error;
};

/* Ends with its parent, also when that has ended already: nobody would tell it any more. */
static void end_with(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(7);
}

static void become_user(int user)
{
    pid_t parent = getppid();
    if (setgid(user) || setuid(user))
        _exit(9);
    end_with(parent);
}

static struct told hog_processes(int limit)
{
    struct told told = {0, 0};
    pid_t self = getpid();
    for (; told.made < limit; told.made++) {
        pid_t child = fork();
        if (child == 0) {
            end_with(self);
            for (;;)
                pause();
        }
        if (child < 0)
            break;
    }
    told.error = errno;
    return told;
}

static int take_pipe(void)
{
    int fd[2];
    return pipe(fd);
}

static int take_open(void) { return open("/dev/null", O_RDONLY) < 0 ? -1 : 0; }

static int take_memfd(void) { return memfd_create("hog", 0) < 0 ? -1 : 0; }

/* In several processes, for each may have only so many descriptors. */
static struct told hog_descriptors(int (*take)(void), int limit)
{
    struct told all = {0, 0};
    pid_t self = getpid();
    for (int i = 0; i < 8 && all.error != ENFILE && all.error != ENOSPC && all.error != ENOMEM; i++) {
        int ends[2];
        if (pipe(ends))
            break;
        pid_t child = fork();
        if (child == 0) {
            struct told told = {0, 0};
            struct rlimit most;
            end_with(self);
            getrlimit(RLIMIT_NOFILE, &most);
            most.rlim_cur = most.rlim_max;
            setrlimit(RLIMIT_NOFILE, &most);
            while (told.made < limit && take() == 0)
                told.made++;
            told.error = errno;
            if (write(ends[1], &told, sizeof told) != sizeof told)
                _exit(1);
            for (;;)
                pause();
        }
        all.error = errno;
        /* A sign of its own: the end of the pipe comes if it is ended before. */
        close(ends[1]);
        struct told one;
        int tells = child > 0 && read(ends[0], &one, sizeof one) == sizeof one;
        close(ends[0]);
        if (!tells)
            break;
        all.made += one.made;
        all.error = one.error;
    }
    return all;
}

static struct told processes(void) { return hog_processes(20000); }

static struct told pipes(void) { return hog_descriptors(take_pipe, 5000); }

static struct told descriptions(void) { return hog_descriptors(take_open, 5000); }

static struct told memfds(void) { return hog_descriptors(take_memfd, 5000); }

static struct told watches(void)
{
    struct told told = {0, 0};
    int fd[2];
    if (pipe(fd))
        _exit(8);
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    for (int i = 0; i < 800; i++)
        if (dup(fd[0]) < 0)
            break;
    for (int instances = 0; instances < 1000 && !told.error; instances++) {
        int poll = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        if (poll < 0)
            told.error = errno;
        for (int i = fd[1] + 1; i < fd[1] + 800 && !told.error; i++)
            if (epoll_ctl(poll, EPOLL_CTL_ADD, i, &event))
                told.error = errno;
            else
                told.made++;
    }
    return told;
}

static struct told file(void)
{
    static char block[65536];
    struct told told = {0, 0};
    int fd = open("/tmp/hog", O_CREAT | O_WRONLY, 0600);
    while (told.made < 1 << 20 && write(fd, block, sizeof block) > 0)
        told.made += 16;
    told.error = errno;
    unlink("/tmp/hog");
    return told;
}

static struct told files(void)
{
    struct told told = {0, 0};
    char name[64];
    mkdir("/tmp/hogs", 0700);
    for (; told.made < 1 << 20; told.made++) {
        sprintf(name, "/tmp/hogs/%d", told.made);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    told.error = errno;
    return told;
}

static struct told directories(void)
{
    struct told told = {0, 0};
    mkdir("/tmp/hogd", 0700);
    for (; told.made < 1 << 20 && chdir("/tmp/hogd") == 0; told.made++) {
        char name[32];
        sprintf(name, "%d", told.made);
        if (mkdir(name, 0700))
            break;
    }
    told.error = errno;
    return told;
}

static struct told names(void)
{
    struct told told = {0, 0};
    mkdir("/tmp/hogn", 0700);
    close(open("/tmp/hogn/first", O_CREAT | O_WRONLY, 0600));
    for (; told.made < 1 << 20; told.made++) {
        char name[64];
        sprintf(name, "/tmp/hogn/%d", told.made);
        if (told.made % 2 ? symlink("/tmp/hogn/first/and/more", name) : link("/tmp/hogn/first", name))
            break;
    }
    told.error = errno;
    return told;
}

static int take_instance(void) { return epoll_create1(0) < 0 ? -1 : 0; }

static struct told instances(void) { return hog_descriptors(take_instance, 5000); }

static int take_counter(void) { return eventfd(1, 0) < 0 ? -1 : 0; }

static struct told counters(void) { return hog_descriptors(take_counter, 5000); }

/* A timer that will ring in an hour. */
static int take_bell(void)
{
    struct itimerspec hour = {{0, 0}, {3600, 0}};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    return fd < 0 ? -1 : timerfd_settime(fd, 0, &hour, 0);
}

static struct told bells(void) { return hog_descriptors(take_bell, 5000); }

/* Objects without a descriptor are taken away again by who made them. */
static struct told hog_objects(int (*take)(int *id), int (*give)(int id), int most)
{
    struct told told = {0, 0};
    int *ids = malloc(most * sizeof *ids);
    while (ids && told.made < most && take(&ids[told.made]) == 0)
        told.made++;
    told.error = errno;
    for (int i = 0; i < told.made; i++)
        give(ids[i]);
    free(ids);
    return told;
}

static int take_segment(int *id)
{
    *id = shmget(IPC_PRIVATE, 4096, 0600);
    return *id < 0 ? -1 : 0;
}

static int give_segment(int id) { return shmctl(id, IPC_RMID, 0); }

static struct told segments(void) { return hog_objects(take_segment, give_segment, 40000); }

static int take_semaphores(int *id)
{
    *id = semget(IPC_PRIVATE, 100, 0600);
    return *id < 0 ? -1 : 0;
}

static int give_semaphores(int id) { return semctl(id, 0, IPC_RMID); }

static struct told semaphores(void) { return hog_objects(take_semaphores, give_semaphores, 40000); }

/* Values and lists of one file and of many, small ones and large ones. */
static struct told attributes(void)
{
    static char value[65536];
    struct told told = {0, 0};
    char name[64], path[64];
    mkdir("/tmp/hogx", 0700);
    for (; told.made < 200000; told.made++) {
        snprintf(path, sizeof path, "/tmp/hogx/%d", told.made % 50);
        snprintf(name, sizeof name, "user.%d", told.made);
        int file = open(path, O_CREAT | O_WRONLY, 0600);
        int error = fsetxattr(file, name, value, told.made % 3 ? 10 : 60000, 0) ? errno : 0;
        close(file);
        if (error) {
            told.error = error;
            break;
        }
    }
    return told;
}

/* A queue that is full. */
static int take_letters(int *id)
{
    static struct {
        long kind;
        char text[8192];
    } message = {1, ""};
    *id = msgget(IPC_PRIVATE, 0600);
    if (*id < 0)
        return -1;
    while (msgsnd(*id, &message, sizeof message.text, IPC_NOWAIT) == 0)
        ;
    if (errno == EAGAIN)
        return 0;
    int error = errno;
    msgctl(*id, IPC_RMID, 0);
    errno = error;
    return -1;
}

static int give_letters(int id) { return msgctl(id, IPC_RMID, 0); }

static struct told letters(void) { return hog_objects(take_letters, give_letters, 40000); }

/* Queues of POSIX that are full, each with one who is to be told: without names, and then with them. */
static int take_mailbox(void)
{
    static int number;
    struct sigevent silent = {.sigev_notify = SIGEV_NONE};
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 64};
    char name[40];
    snprintf(name, sizeof name, "/hog.%d.%d", getpid(), number++);
    mqd_t q = mq_open(name, O_CREAT | O_EXCL | O_RDWR | O_NONBLOCK, 0600, &attr);
    if (q < 0)
        return -1;
    mq_unlink(name);
    mq_notify(q, &silent);
    while (mq_send(q, name, sizeof name, 0) == 0)
        ;
    return 0;
}

static struct told mailboxes(void) { return hog_descriptors(take_mailbox, 5000); }

static int take_notice(void) { return inotify_init() < 0 ? -1 : 0; }

static struct told notices(void) { return hog_descriptors(take_notice, 5000); }

/* Marks on one directory by many instances, and on many files by one, until there are no more; each has
 * events that nobody reads. */
static struct told marks(void)
{
    struct told told = {0, 0};
    char path[32];
    int fd = inotify_init();
    mkdir("/tmp/hogm", 0700);
    inotify_add_watch(fd, "/tmp/hogm", IN_ALL_EVENTS);
    for (; told.made < 200000; told.made++) {
        snprintf(path, sizeof path, "/tmp/hogm/%d", told.made);
        int file = open(path, O_CREAT | O_RDWR, 0600);
        if (file < 0 || inotify_add_watch(fd, path, IN_ALL_EVENTS) < 0)
            break;
        close(file);
    }
    told.error = errno;
    for (int i = 0; i <= told.made; i++) {
        snprintf(path, sizeof path, "/tmp/hogm/%d", i);
        unlink(path);
    }
    rmdir("/tmp/hogm");
    return told;
}

/* A connection with something unread. */
static int take_socket(void)
{
    int s[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, s) || write(s[0], s, 1) != 1 || write(s[1], s, 1) != 1 ? -1
                                                                                                      : 0;
}

static struct told sockets(void) { return hog_descriptors(take_socket, 5000); }

/* A connection over loopback with something unread. */
static int take_connection(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0), other = -1;
    if (listener >= 0 && one >= 0 && bind(listener, (void *)&here, length) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, (void *)&here, &length) == 0 && connect(one, (void *)&here, length) == 0)
        other = accept(listener, 0, 0);
    int error = errno;
    close(listener);
    errno = error;
    return other < 0 || write(one, "x", 1) != 1 || write(other, "y", 1) != 1 ? -1 : 0;
}

static struct told connections(void) { return hog_descriptors(take_connection, 5000); }

/* A socket that has got messages over loopback, which nobody reads. */
static int take_inbox(void)
{
    static char message[4000];
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (void *)&here, length) || getsockname(fd, (void *)&here, &length))
        return -1;
    for (int i = 0; i < 8; i++)
        if (sendto(fd, message, sizeof message, 0, (void *)&here, length) < 0)
            return -1;
    return 0;
}

static struct told inboxes(void) { return hog_descriptors(take_inbox, 20000); }

/* Messages that nobody reads, each with two descriptors, as many as go into one socket and then into
 * another. */
static int take_message(void)
{
    static int to[2] = {-1, -1};
    static char bytes[3000];
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(8)];
    } control = {.head = {.cmsg_len = CMSG_LEN(8), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec piece = {bytes, sizeof bytes};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    for (int tries = 0; tries < 2; tries++) {
        memcpy(CMSG_DATA(&control.head), to, 8);
        if (to[0] >= 0 && sendmsg(to[0], &message, MSG_DONTWAIT) >= 0)
            return 0;
        if (to[0] >= 0 && errno == ETOOMANYREFS) {
            message.msg_controllen = 0;
            if (sendmsg(to[0], &message, MSG_DONTWAIT) >= 0)
                return 0;
        }
        if (to[0] >= 0 && errno != EAGAIN)
            return -1;
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, to))
            return -1;
    }
    return -1;
}

static struct told messages(void) { return hog_descriptors(take_message, 200000); }

static int take_terminal(void)
{
    /* The C library would tell another error. */
    return open("/dev/ptmx", O_RDWR | O_NOCTTY) < 0 ? -1 : 0;
}

static struct told terminals(void) { return hog_descriptors(take_terminal, 5000); }

static int take_text(void)
{
    char byte;
    int fd = open("/proc/self/maps", O_RDONLY);
    return fd < 0 || read(fd, &byte, 1) != 1 ? -1 : 0;
}

static struct told texts(void) { return hog_descriptors(take_text, 5000); }

static int take_timer(void)
{
    timer_t timer;
    return timer_create(CLOCK_MONOTONIC, 0, &timer);
}

static struct told timers(void) { return hog_descriptors(take_timer, 5000); }

static int take_signal(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    return sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1});
}

static struct told signals(void) { return hog_descriptors(take_signal, 100000); }

static struct told locks(void)
{
    struct told told = {0, 0};
    int fd = open("/tmp/hogl", O_CREAT | O_RDWR, 0600);
    for (; told.made < 300000; told.made++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * told.made, .l_len = 1};
        if (fcntl(fd, F_SETLK, &lock))
            break;
    }
    told.error = errno;
    return told;
}

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

/* The work of a shell: a process, a pipe, a file, a program. The errno, or 0. */
static int works(void)
{
    int fd[2], status = -1;
    if (pipe(fd))
        return errno;
    pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], 1);
        execl("/proc/self/exe", "hogs", "nothing", (char *)0);
        _exit(errno);
    }
    int error = child < 0 ? errno : 0;
    close(fd[1]);
    char text[64];
    if (child > 0) {
        while (read(fd[0], text, sizeof text) > 0)
            ;
        waitpid(child, &status, 0);
        error = WIFEXITED(status) ? WEXITSTATUS(status) : 127;
    }
    close(fd[0]);
    int file = open("/tmp/works", O_CREAT | O_WRONLY, 0600);
    if (file < 0 || write(file, text, 1) != 1)
        error = error ? error : errno;
    close(file);
    unlink("/tmp/works");
    return error;
}

static long free_kib(void)
{
    char text[512] = "";
    int fd = open("/proc/meminfo", O_RDONLY);
    long got = read(fd, text, sizeof text - 1);
    close(fd);
    char *at = got > 0 ? strstr(text, "MemFree:") : 0;
    return at ? strtol(at + 8, 0, 10) : 0;
}

struct kind {
    const char *name;
    struct told (*hog)(void);
    int a, b;
    /* It may also pay with its life: what it takes is its own memory. */
    int pays;
};

static int as_root;

/* Takes away the objects of System V IPC, which outlive a process that ended before it could. */
static void remove_objects(void)
{
    struct msqid_ds letters;
    struct shmid_ds segment;
    struct semid_ds semaphores;
    for (int i = 0, most = msgctl(0, MSG_INFO, &letters); i <= most; i++)
        msgctl(msgctl(i, MSG_STAT, &letters), IPC_RMID, 0);
    for (int i = 0, most = shmctl(0, SHM_INFO, &segment); i <= most; i++)
        shmctl(shmctl(i, SHM_STAT, &segment), IPC_RMID, 0);
    for (int i = 0, most = semctl(0, 0, SEM_INFO, &semaphores); i <= most; i++)
        semctl(semctl(i, 0, SEM_STAT, &semaphores), 0, IPC_RMID);
}

static void clean(void)
{
    remove_objects();
    static const char *const dirs[] = {"/tmp/hogs", "/tmp/hogd", "/tmp/hogn", "/tmp/hogx"};
    unlink("/tmp/hog"), unlink("/tmp/hogl");
    for (int i = 0; i < 4; i++) {
        DIR *dir = opendir(dirs[i]);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)))
            unlinkat(dirfd(dir), entry->d_name, i == 1 ? AT_REMOVEDIR : 0);
        if (dir)
            closedir(dir);
        rmdir(dirs[i]);
    }
}

/* The hog and what it has made: all of its group. */
static void until_ended(pid_t hog)
{
    for (double end = seconds() + 60; kill(-hog, 0) == 0 && seconds() < end; sched_yield())
        ;
}

static void once(const struct kind *kind)
{
    int ends[2], status;
    char text[100];
    struct told told = {0, 0};
    if (pipe(ends)) {
        check(0, "a pipe");
        return;
    }
    pid_t child = fork();
    if (child < 0) {
        check(0, "a process");
        return;
    }
    if (child == 0) {
        setpgid(0, 0);
        if (!as_root)
            become_user(1000);
        told = kind->hog();
        _exit(write(ends[1], &told, sizeof told) != sizeof told || pause());
    }
    close(ends[1]);
    long got = read(ends[0], &told, sizeof told);
    if (!as_root) {
        double start = seconds();
        int error = works();
        double took = seconds() - start;
        sprintf(text, "%s: root works meanwhile", kind->name);
        /* Where programs have all memory as their own, it may be told so. */
        if (!check(error == 0 || (kind->pays && error == ENOMEM), text))
            printf("# %s\n", strerror(error));
        sprintf(text, "%s: within a second", kind->name);
        if (!check(took < 1, text))
            printf("# %.2f s\n", took);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    until_ended(child);
    close(ends[0]);
    clean();
    if (as_root)
        return;
    sprintf(text, "%s: a user gets many, and then an error that says so", kind->name);
    int refused = got == sizeof told && told.made > 20 && (told.error == kind->a || told.error == kind->b);
    if (!check(refused || (kind->pays && got != sizeof told), text))
        printf("# %ld bytes, %d made, errno %d\n", got, told.made, told.error);
}

/* Lets go of all that the kernel keeps because it may be of use again; what is free then. */
static long shrunk_kib(void)
{
    static const char word[] = "shrink";
    int fd = open("/syn/memory", O_WRONLY);
    if (fd < 0 || write(fd, word, sizeof word - 1) != sizeof word - 1)
        check(0, "root lets caches go");
    close(fd);
    return free_kib();
}

/* The free memory when no more comes: a killed process may not be quite gone yet. */
static long level_kib(void)
{
    long most = shrunk_kib();
    for (int same = 0; same < 3; same++) {
        long now = shrunk_kib();
        if (now > most) {
            most = now;
            same = -1;
        }
    }
    return most;
}

/* As comments. */
static void show(const char *path)
{
    char line[200];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        printf("# %s", line);
    if (file)
        fclose(file);
}

/* Twice: what is never given back by design, as headers of quajects that wait for the next use, is there
 * after the first time. */
static void beside(const struct kind *kind)
{
    /* KiB: pages that a CPU keeps ready for itself, and parts of the heap's pages; most where many small
     * things were. */
    enum { TOLERANCE = 512 };
    char text[100];
    once(kind);
    long level = level_kib();
    once(kind);
    double end = seconds() + 10;
    long after = level_kib();
    while (after < level - TOLERANCE && seconds() < end)
        after = level_kib();
    sprintf(text, "%s: memory comes back", kind->name);
    if (!check(after >= level - TOLERANCE, text))
        show("/syn/memory");
    printf("# %s: %ld KiB, then %+ld\n", kind->name, level, after - level);
    sprintf(text, "%s: root works afterwards", kind->name);
    equal(works(), 0, text);
}

static void *computes(void *unused)
{
    (void)unused;
    for (volatile long turns = 0;; turns++)
        ;
}

/* How many threads have ended and keep their stacks. */
static int ended(void)
{
    char line[200];
    int count = 0;
    FILE *file = fopen("/syn/threads", "r");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, " ended ") != 0;
    if (file)
        fclose(file);
    return count;
}

/* Killed threads end at the same time, on a machine that is never idle afterwards: none waits for a next
 * one to end. */
static void remains(void)
{
    int most = 0;
    for (int round = 0; round < 20; round++) {
        int ends[2];
        char byte;
        pthread_t one;
        if (pipe(ends)) {
            check(0, "a pipe");
            return;
        }
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 60 && pthread_create(&one, 0, computes, 0) == 0; i++)
                ;
            write(ends[1], "", 1);
            computes(0);
        }
        read(ends[0], &byte, 1);
        kill(child, SIGKILL);
        while (waitpid(child, 0, WNOHANG) == 0)
            sched_yield();
        /* The last one of the process may be a moment behind the news of its end. */
        int left = ended();
        for (double end = seconds() + 5; left > 1 && seconds() < end; left = ended())
            ;
        most = left > most ? left : most;
        close(ends[0]);
        close(ends[1]);
    }
    if (!check(most <= 1, "the remains of killed threads wait for no idle moment"))
        printf("# of %d threads\n", most);
}

static void limit(void)
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit five = {5, 5};
        become_user(1001);
        setrlimit(RLIMIT_NPROC, &five);
        struct told told = hog_processes(50);
        _exit(told.error == EAGAIN && told.made <= 5 && told.made >= 4 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "RLIMIT_NPROC binds");
}

int main(int argc, char **argv)
{
    static const struct kind all[] = {
        {"processes", processes, EAGAIN, ENOMEM, 0},
        {"threads", threads, EAGAIN, ENOMEM, 0},
        {"tracees", tracees, ENOMEM, ENOMEM, 0},
        {"pipes", pipes, ENFILE, EMFILE, 0},
        {"descriptions", descriptions, ENFILE, EMFILE, 0},
        {"memfds", memfds, ENFILE, ENOSPC, 0},
        {"instances", instances, ENFILE, EMFILE, 0},
        {"counters", counters, ENFILE, EMFILE, 0},
        {"bells", bells, ENFILE, ENOMEM, 0},
        {"sockets", sockets, ENOBUFS, ENFILE, 0},
        {"connections", connections, ENOBUFS, ENFILE, 0},
        {"inboxes", inboxes, ENOBUFS, ENOMEM, 0},
        {"messages", messages, ENOBUFS, ENOMEM, 0},
        {"terminals", terminals, ENOSPC, ENOMEM, 0},
        {"texts", texts, ENFILE, EMFILE, 0},
        {"watches", watches, ENOSPC, ENFILE, 0},
        {"attributes", attributes, ENOSPC, ENOMEM, 0},
        {"segments", segments, ENOSPC, ENOMEM, 0},
        {"semaphores", semaphores, ENOSPC, ENOMEM, 0},
        {"letters", letters, ENOSPC, ENOMEM, 0},
        {"mailboxes", mailboxes, ENFILE, EMFILE, 0},
        {"notices", notices, EMFILE, EMFILE, 0},
        {"marks", marks, ENOSPC, ENOMEM, 0},
        {"timers", timers, EAGAIN, EAGAIN, 0},
        {"signals", signals, EAGAIN, EAGAIN, 0},
        {"locks", locks, ENOLCK, ENOLCK, 0},
        {"file", file, ENOSPC, ENOSPC, 0},
        {"files", files, ENOSPC, ENOSPC, 0},
        {"directories", directories, ENOSPC, ENOSPC, 0},
        {"names", names, ENOSPC, ENOSPC, 0},
        {"mappings", mappings, ENOMEM, ENOMEM, 1},
        {"tables", tables, ENOMEM, ENOMEM, 1},
        {"arguments", arguments, ENOMEM, EAGAIN, 1},
    };
    if (argc > 1 && strcmp(argv[1], "nothing") == 0)
        return 0;
    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        return pause();
    as_root = argc > 1 && strcmp(argv[1], "root") == 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int wanted = argc < 2 + as_root;
        for (int j = 1 + as_root; j < argc; j++)
            wanted |= strcmp(argv[j], all[i].name) == 0;
        if (wanted)
            beside(all + i);
    }
    if (!as_root) {
        limit();
        remains();
    }
    return done();
}

/* The world of the fuzzer's sequences: descriptors, mappings, files, and the structures that calls get.
 *
 * Interface: map_world() once in each worker; open_world() in each sequence's first process, before it gives
 * up its rights; resolve() makes a number of a value. Nothing from resolve() on needs the C library: a
 * sequence may have changed the thread's pointer.
 */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H
#include "fuzz-sequence.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define PAGE 4096L
#define FIRST_FD 10
#define WORLD 0x1000000000L
#define PLACE_SIZE 0x100000L
#define PLACE_PAGES 8
/* Each argument of each actor has a slot for its structure, which ends before a page that is not there. */
#define ARENA (WORLD + 0x10000000L)
#define SLOT (8 * PAGE)
#define SLOT_END (7 * PAGE)
#define ARENA_SIZE 0x200000L
#define CHILD_STACKS (8 * SLOT) /* within an actor's arena */
#define CHILD_STACK 0x4000L
#define CHILDREN 8
#define OUTCOMES 65536
#define WORKERS 8
/* Code that does nothing, a byte for each step of each sequence: whoever watches the machine from outside
 * sees by it whose step is under way. */
#define MARKS 0x2000000000L
#define MARKS_SIZE 0x100000L
#define MARKS_EACH 64
#define BASE_USER 1000

/* The memory that a worker and its sequence share. Nothing that matters is decided by the values that come
 * back in it. */
struct share {
    struct sequence sequence;
    volatile long result[STEPS];
    volatile int at[ACTORS], tid[ACTORS], pid[ACTORS], finished[ACTORS];
    volatile int violation, violation_step;
    volatile unsigned long calls, news;
    int worker_pid, user;
};

/* The memory that all workers share. */
struct common {
    volatile unsigned char outcome[OUTCOMES];
    volatile int workers[WORKERS];
    volatile long handles[WORKERS], supervisor_handle; /* as native calls name them */
    int supervisor, marking;
    volatile unsigned marked; /* sequences begun, of one worker */
};

struct actor {
    int index, privileged, main, traced, depth, from, children;
    struct share *share;
    struct common *common;
};

enum { SAFE_NAMES = 12 };
/* The first are the sequence's own; only those a privileged actor gets. */
static const char *const names[64] = {"a",
                                      "b",
                                      "d",
                                      "d/a",
                                      "l",
                                      "d/b",
                                      "new",
                                      "n2",
                                      "fifo",
                                      "loop",
                                      ".",
                                      "s",
                                      "x",
                                      "..",
                                      "",
                                      "/",
                                      "/canary/secret",
                                      "/canary/public",
                                      "/canary/locked/in",
                                      "/canary/sticky/root",
                                      "/canary/setuid",
                                      "/canary/setgid",
                                      "/canary/sticky/new",
                                      "/canary/new",
                                      "/canary/append",
                                      "/canary/link",
                                      "/proc/self/exe",
                                      "/proc/self/fd/10",
                                      "/proc/self/fd",
                                      "/proc/1/maps",
                                      "/proc/2/maps",
                                      "/proc/2/environ",
                                      "/proc/2/fd",
                                      "/proc/2/fd/1",
                                      "/proc/self/task",
                                      "/proc/self/maps",
                                      "/proc/self/status",
                                      "/proc/2/cwd",
                                      "/proc/2/root/canary/secret",
                                      "/proc/thread-self/comm",
                                      "/syn/code",
                                      "/syn/log",
                                      "/syn/probes",
                                      "/syn/memory",
                                      "/syn/threads",
                                      "/dev/null",
                                      "/dev/tty",
                                      "/dev/kmsg",
                                      "/dev/console",
                                      "/dev/full",
                                      "/bin/busybox",
                                      "/run/fuzz/report",
                                      "/etc/passwd",
                                      "/tests",
                                      "/proc",
                                      "d/../d/../d/../a",
                                      "d/d/d/d/d/d",
                                      "a/b",
                                      "loop/a",
                                      "/proc/self/mem",
                                      "/canary",
                                      "/tmp",
                                      0,
                                      0};
static char long_name[300], long_path[5000];

static long raw(long n, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static void mark(const struct common *common, unsigned step)
{
    unsigned long at = (unsigned long)(common->marked - 1) * MARKS_EACH + step;
    if (common->marking && at < MARKS_SIZE)
        ((void (*)(void))(MARKS + at))();
}

static long base_of(int place) { return WORLD + place * PLACE_SIZE; }

static void map_at(int place, int prot, int flags, int fd)
{
    mmap((void *)base_of(place), PLACE_PAGES * PAGE, prot, flags | MAP_FIXED, fd, 0);
}

static void map_world(void)
{
    memset(long_name, 'n', sizeof long_name - 1);
    memset(long_path, '/', sizeof long_path - 1);
    map_at(PRIVATE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    map_at(SHARED_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    map_at(CONSTANT, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    map_at(NO_ACCESS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    map_at(EXECUTABLE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    map_at(GROWN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1);
    for (int actor = 0; actor < ACTORS; actor++) {
        long at = ARENA + actor * ARENA_SIZE;
        mmap((void *)at, CHILD_STACKS + CHILDREN * CHILD_STACK, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        for (int slot = 0; slot < 6; slot++)
            munmap((void *)(at + slot * SLOT + SLOT_END), SLOT - SLOT_END);
    }
}

static void put_fd(int kind, int fd)
{
    if (fd < 0)
        return;
    dup2(fd, FIRST_FD + kind);
    if (fd < FIRST_FD || fd >= FIRST_FD + OPEN_KINDS)
        close(fd);
}

static void fill_file(const char *name, int bytes, int user)
{
    static char block[PAGE];
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    for (int done = 0; done < bytes; done += PAGE)
        (void)!write(fd, block, bytes - done < PAGE ? bytes - done : PAGE);
    (void)!fchown(fd, user, user);
    close(fd);
}

/* In the sequence's own directory, as root. `beside`: some of those who share the descriptors keep root. */
static void open_world(int user, int beside)
{
    int two[2], fd;
    syscall(SYS_close_range, 0, ~0U, 0);
    for (int i = 0; i < 3; i++)
        open("/dev/null", O_RDWR);
    umask(0);
    fill_file("a", 10000, user);
    fill_file("b", 100, user);
    mkdir("d", 0777);
    (void)!chown("d", user, user);
    fill_file("d/a", 1, user);
    int script = open("s", O_RDWR | O_CREAT | O_TRUNC, 0755);
    (void)!write(script, "#!x look\n", 9);
    (void)!fchown(script, user, user);
    close(script);
    (void)!symlink("a", "l");
    (void)!symlink("loop", "loop");
    mkfifo("fifo", 0666);
    (void)!chown("fifo", user, user);
    put_fd(FD_FILE, open("a", O_RDWR));
    put_fd(FD_READ_ONLY, open("a", O_RDONLY));
    put_fd(FD_APPEND, open("b", O_RDWR | O_APPEND));
    put_fd(FD_DIRECTORY, open("d", O_RDONLY | O_DIRECTORY));
    put_fd(FD_LARGE, open("b", O_RDWR));
    for (int quiet = 0; quiet < 2; quiet++)
        if (pipe2(two, quiet ? O_NONBLOCK : 0) == 0)
            put_fd(quiet ? FD_QUIET_READ : FD_PIPE_READ, two[0]),
                put_fd(quiet ? FD_QUIET_WRITE : FD_PIPE_WRITE, two[1]);
    if (pipe2(two, O_NONBLOCK | O_DIRECT) == 0)
        put_fd(FD_PACKET_READ, two[0]), put_fd(FD_PACKET_WRITE, two[1]);
    put_fd(FD_TERMINAL, open("/dev/console", O_RDWR | O_NOCTTY | O_NONBLOCK));
    put_fd(FD_NULL, open("/dev/null", O_RDWR));
    fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
    raw(SYS_ioctl, fd, 0x40045431 /* TIOCSPTLCK */, (long)&(int){0}, 0, 0, 0);
    put_fd(FD_SLAVE, raw(SYS_ioctl, fd, 0x5441 /* TIOCGPTPEER */, O_RDWR | O_NOCTTY | O_NONBLOCK, 0, 0, 0));
    put_fd(FD_MASTER, fd);
    put_fd(FD_ZERO, open("/dev/zero", O_RDWR));
    put_fd(FD_FULL, open("/dev/full", O_RDWR));
    put_fd(FD_RANDOM, open("/dev/urandom", O_RDWR));
    put_fd(FD_PROC, open("/proc/self/maps", O_RDONLY));
    put_fd(FD_SYN, open("/syn/memory", O_RDONLY));
    fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};
    epoll_ctl(fd, EPOLL_CTL_ADD, FIRST_FD + FD_PIPE_READ, &event);
    put_fd(FD_EPOLL, fd);
    int quiet = epoll_create1(0);
    put_fd(FD_COUNTER, raw(SYS_eventfd2, 3, O_NONBLOCK, 0, 0, 0, 0));
    put_fd(FD_BELL, raw(SYS_timerfd_create, 1, O_NONBLOCK, 0, 0, 0, 0));
    unsigned long signals = ~0UL;
    put_fd(FD_SIGNALS, raw(SYS_signalfd4, -1, (long)&signals, 8, O_NONBLOCK, 0, 0));
    int notices = raw(SYS_inotify_init1, O_NONBLOCK, 0, 0, 0, 0, 0);
    raw(SYS_inotify_add_watch, notices, (long)".", 0xfff, 0, 0, 0);
    raw(SYS_inotify_add_watch, notices, (long)"a", 0xfff, 0, 0, 0);
    put_fd(FD_NOTICES, notices);
    put_fd(FD_PROCESS, raw(434, getpid(), 0, 0, 0, 0, 0));
    event.events |= EPOLLET;
    epoll_ctl(quiet, EPOLL_CTL_ADD, FIRST_FD + FD_SIGNALS, &event);
    epoll_ctl(quiet, EPOLL_CTL_ADD, FIRST_FD + FD_PROCESS, &event);
    epoll_ctl(quiet, EPOLL_CTL_ADD, FIRST_FD + FD_COUNTER, &event);
    epoll_ctl(quiet, EPOLL_CTL_ADD, FIRST_FD + FD_EPOLL, &event);
    put_fd(FD_EPOLL_EDGES, quiet);
    static const int kinds[3] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (int i = 0; i < 3; i++)
        if (socketpair(AF_UNIX, kinds[i] | SOCK_NONBLOCK, 0, two) == 0)
            put_fd(FD_STREAM + 2 * i, two[0]), put_fd(FD_STREAM_END + 2 * i, two[1]);
    struct sockaddr_un name = {AF_UNIX, "sock"};
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    bind(fd, (struct sockaddr *)&name, sizeof name);
    listen(fd, 3);
    chmod("sock", 0777);
    put_fd(FD_LISTENER, fd);
    put_fd(FD_SOCKET, socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    put_fd(FD_ROUTES, socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, 0));
    put_fd(FD_DIAGNOSIS, socket(AF_NETLINK, SOCK_DGRAM | SOCK_NONBLOCK, 4));
    /* The same of IP: one that listens at a port that random addresses have, one that has a peer, one of
     * messages. */
    uint8_t here[16] = {2, 0, 0x80, 1, 127, 0, 0, 1};
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int sharing = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &sharing, sizeof sharing);
    bind(fd, (struct sockaddr *)here, 16);
    listen(fd, 3);
    put_fd(FD_INET_LISTENER, fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(fd, (struct sockaddr *)here, 16);
    put_fd(FD_INET, fd);
    fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    put_fd(FD_INET_MESSAGES, fd);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 136 /* IPPROTO_UDPLITE */);
    bind(fd, (struct sockaddr *)here, 16);
    put_fd(FD_LITE, fd);
    put_fd(FD_MEMFD, raw(SYS_memfd_create, (long)"m", 2, 0, 0, 0, 0));
    put_fd(FD_FIFO, open("fifo", O_RDWR | O_NONBLOCK));
    put_fd(FD_PATH, open("a", O_PATH));
    put_fd(FD_PATH_DIRECTORY, open("d", O_PATH | O_DIRECTORY));
    put_fd(FD_PROC_DIRECTORY, open("/proc/self/fd", O_RDONLY | O_DIRECTORY));
    if (!beside) {
        put_fd(FD_CANARY, open("/canary/public", O_RDONLY));
        put_fd(FD_CANARIES, open("/canary", O_RDONLY | O_DIRECTORY));
        put_fd(FD_PROGRAM, open("x", O_RDONLY));
    }
    map_at(FILE_SHARED, PROT_READ | PROT_WRITE, MAP_SHARED, FIRST_FD + FD_FILE);
    map_at(FILE_PRIVATE, PROT_READ | PROT_WRITE, MAP_PRIVATE, FIRST_FD + FD_FILE);
}

/* Signals come here; and where nobody but who is privileged may be led. Both in fuzz-act.h. */
static void handler(int signal);
static void landing(void);
extern char restorer[];

static long place_address(const struct value *v)
{
    long n = (long)v->number;
    switch (v->which) {
    case EDGE:
        return base_of(PRIVATE) + PLACE_PAGES * PAGE - (n & 63);
    case STACK:
        return (long)__builtin_frame_address(0) - 16384 + n;
    case TEXT:
        return ((long)landing & -PAGE) + n;
    case KERNEL:
        return 0xffffffff80100000L + n;
    case PHYSICAL:
        return (long)0xffff800000000000L + n;
    case GENERATED:
        return 0xffffffffc0000000L + n;
    case BEYOND:
        return 0x800000000000L + n;
    case NULL_:
        return n;
    case TOP:
        return 0x7ffffffff000L - 32768 + n;
    case ALL:
        return -PAGE + n;
    default:
        return base_of(v->which % PLACES) + n;
    }
}

static long code_address(const struct actor *me, int which)
{
    switch (which) {
    case HANDLER:
        return (long)handler;
    case LANDING:
        return me->privileged ? (long)handler : (long)landing;
    case DEFAULT_:
        return 0;
    case IGNORE_:
        return 1;
    case NOWHERE:
        return base_of(HOLE);
    case IN_KERNEL:
        return 0xffffffff80100000L;
    case NOT_CANONICAL:
        return 0x800000000000L;
    case NOT_CANONICAL_HIGH:
        return (long)0x8000000000001000L;
    default:
        return base_of(PRIVATE) + 64;
    }
}

static long process_number(const struct actor *me, int which)
{
    struct share *share = me->share;
    switch (which) {
    case SELF:
        return raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
    case OTHER:
    case THIRD:
        return share->tid[(me->index + which) % ACTORS];
    case ROOT_ACTOR:
        return share->pid[2];
    case WORKER:
        return share->worker_pid;
    case SUPERVISOR:
        return me->common->supervisor;
    case EVERYBODY:
        return -1;
    case OWN_GROUP:
        return 0;
    case FIRST_PROCESS:
        return 1;
    default:
        return 0x7fffffff;
    }
}

static long descriptor_number(const struct actor *me, int which)
{
    switch (which) {
    case FD_CLOSED:
        return 700;
    case FD_HUGE:
        return 0x7fffffff;
    case FD_NEGATIVE:
        return -1;
    case FD_CWD:
        return AT_FDCWD;
    case FD_LAST:
        return 4095;
    case FD_HIGH:
        return 200; /* more room than a table has at first */
    case FD_CANARY:
    case FD_CANARIES:
        return me->privileged ? 700 : FIRST_FD + which;
    default:
        return FIRST_FD + which;
    }
}

static long identity_number(const struct actor *me, int which)
{
    return (const long[]){me->share->user, 0, -1, me->share->user + 1, 65534}[which % IDENTITIES];
}

static long name_address(const struct actor *me, uint64_t n)
{
    n %= me->privileged ? SAFE_NAMES : 64;
    return n == 62 ? (long)long_name : n == 63 ? (long)long_path : (long)names[n];
}

static uint64_t small_time(uint64_t *s) { return below(s, 8) ? below(s, 2000) : edge_number(s); }

/* A word for a structure: an address, a number, an edge. */
static uint64_t any_word(uint64_t *s)
{
    struct value v = place(s);
    return below(s, 3) ? (uint64_t)place_address(&v) : below(s, 2) ? edge_number(s) : below(s, 100);
}

/* Fills a structure of this kind at `at`, which has room for 2048 bytes; how many it has. */
static int fill(const struct actor *me, int kind, uint64_t seed, char *at)
{
    static const char *const strings[] = {
        "tmpfs", "proc", "synfs",   "none",   "",  "devtmpfs",          "ext4",
        "d",     "a",    long_name, "victim", "x", "mode=755,size=64k", "mode=01777"};
    uint64_t state = seed * 0x2545f4914f6cdd1dULL + kind, *s = &state;
    uint64_t *w = (uint64_t *)at;
    uint32_t *u = (uint32_t *)at;
    switch (kind + P_ACTION) {
    case P_ACTION:
        w[0] = code_address(me, below(s, CODES));
        w[1] = draw(s) & 0xdc000007;
        w[1] |= below(s, 8) ? 0x04000000 : 0; /* SA_RESTORER */
        w[2] = below(s, 8) ? (uint64_t)restorer : (uint64_t)code_address(me, below(s, CODES));
        w[3] = below(s, 2) ? 0 : draw(s);
        return 32;
    case P_SIGSET:
        w[0] = below(s, 2) ? 1UL << below(s, 64) : draw(s);
        return 8;
    case P_TIMESPEC:
    case P_TIMEVALS:
    case P_ITIMERVAL:
    case P_ITIMERSPEC: {
        int words = kind + P_ACTION == P_TIMESPEC ? 2 : 4;
        for (int i = 0; i < words; i += 2)
            w[i] = below(s, 6) ? 0 : edge_number(s), w[i + 1] = small_time(s) * (below(s, 2) ? 1000 : 1);
        return 8 * words;
    }
    case P_IOVEC: {
        for (int i = 0; i < 10; i++) {
            struct value v = place(s);
            w[2 * i] = below(s, 4) ? (uint64_t)base_of(below(s, FILE_PRIVATE + 1)) + below(s, 9000)
                                   : (uint64_t)place_address(&v);
            w[2 * i + 1] = below(s, 3) ? below(s, 5000) : edge_number(s);
        }
        return 160;
    }
    case P_EVENT:
        u[0] = below(s, 2) ? 0x5 : (uint32_t)draw(s);
        u[1] = below(s, 100), u[2] = 0;
        return 12;
    case P_RLIMIT:
        w[0] = edge_number(s), w[1] = below(s, 2) ? w[0] : edge_number(s);
        return 16;
    case P_CLONE: {
        struct value flags = value_of(s, CLONE_, 0);
        w[0] = flags.number & ~0xffUL;
        for (int i = 1; i < 11; i++)
            w[i] = below(s, 4) ? 0 : any_word(s);
        w[4] = below(s, 4) ? 17 : below(s, 80);
        if (below(s, 2))
            w[5] = base_of(PRIVATE), w[6] = 8 * PAGE;
        return 88;
    }
    case P_SIGINFO:
        for (int i = 0; i < 16; i++)
            w[i] = any_word(s);
        u[0] = below(s, 65), u[1] = 0, u[2] = below(s, 4) ? -1 - below(s, 6) : below(s, 200);
        return 128;
    case P_CAPHEADER:
        u[0] = (const uint32_t[]){0x20080522, 0x20080522, 0x20071026, 0x19980330, 0}[below(s, 5)];
        u[1] = below(s, 4) ? 0 : me->privileged ? 0 : below(s, 50);
        return 8;
    case P_CAPDATA:
        for (int i = 0; i < 6; i++)
            u[i] = below(s, 2) ? 0 : below(s, 2) ? ~0U : 1U << below(s, 32);
        return 24;
    case P_TERMIOS:
        for (int i = 0; i < 8; i++)
            w[i] = draw(s) & draw(s);
        return 60;
    case P_POLLFDS:
        for (int i = 0; i < 10; i++)
            u[2 * i] = FIRST_FD + below(s, OPEN_KINDS + 2), u[2 * i + 1] = draw(s) & 0xffff;
        return 80;
    case P_FDSET:
        for (int i = 0; i < 16; i++)
            w[i] = below(s, 2) && i ? 0 : draw(s) & draw(s);
        return 128;
    case P_STACK:
        w[0] = any_word(s), w[1] = below(s, 4) ? 0 : below(s, 8), w[2] = below(s, 2) ? 16384 : edge_number(s);
        return 24;
    case P_FLOCK:
        u[0] = below(s, 4) | below(s, 4) << 16;
        w[1] = below(s, 2) ? below(s, 200) : edge_number(s),
        w[2] = below(s, 2) ? below(s, 200) : edge_number(s), w[3] = 0;
        u[1] = 0;
        return 32;
    case P_ARGV: {
        int words = below(s, 6);
        for (int i = 0; i < words; i++)
            w[i] = below(s, 16) ? (uint64_t)strings[below(s, 12)] : any_word(s);
        if (words > 1 && below(s, 2))
            w[1] = (uint64_t)strings[10];
        w[words] = 0;
        return 8 * (words + 1);
    }
    case P_OPENHOW: {
        struct value flags = value_of(s, O_FLAGS, 0);
        w[0] = flags.number, w[1] = below(s, 2) ? 0 : below(s, 010000),
        w[2] = below(s, 2) ? 0 : 1UL << below(s, 7);
        return 24;
    }
    case P_SIGEVENT:
        memset(at, 0, 64);
        w[0] = any_word(s);
        u[2] = below(s, 4) ? 10 + below(s, 8) : below(s, 70), u[3] = below(s, 6);
        u[4] = me->share->tid[below(s, ACTORS)];
        return 64;
    case P_WORD:
        u[0] = below(s, 4) ? below(s, 4) : (uint32_t)draw(s), u[1] = below(s, 4);
        return 8;
    case P_OFFSET:
        w[0] = below(s, 2) ? below(s, 20000) : edge_number(s);
        return 8;
    case P_IDS:
        for (int i = 0; i < 10; i++)
            u[i] = below(s, 3) ? below(s, 2000) : (uint32_t)edge_number(s);
        return 40;
    case P_ROBUST:
        w[0] = below(s, 4) ? (uint64_t)w : any_word(s), w[1] = below(s, 2) ? 16 : edge_number(s),
        w[2] = below(s, 2) ? 0 : any_word(s);
        return 24;
    case P_MASK_ARGUMENT:
        w[0] = below(s, 2) ? 0 : any_word(s), w[1] = below(s, 2) ? 8 : edge_number(s);
        return 16;
    case P_REGISTERS:
        /* As `user_regs_struct`, or, if it begins so, an iovec of one. */
        for (int i = 0; i < 27; i++)
            w[i] = any_word(s);
        w[16] = code_address(me, below(s, CODES)), w[17] = below(s, 8) ? 0x33 : below(s, 256),
        w[18] = below(s, 4) ? 0x202 : draw(s);
        w[19] = base_of(PRIVATE) + 16384, w[20] = below(s, 8) ? 0x2b : below(s, 256);
        if (below(s, 4) == 0)
            w[0] = base_of(PRIVATE), w[1] = below(s, 2) ? 216 : below(s, 600);
        return 216;
    case P_SOCKADDR: {
        static const char *const names[] = {"sock", "sock", "a", "d", "new", "nowhere/x", "/tmp/fuzz-socket"};
        memset(at, 0, 112);
        if (below(s, 2)) {
            /* Of IPv4 or IPv6: this host, any, a group, all, one elsewhere; few ports, so that they meet. */
            static const uint8_t fours[6][4] = {{127, 0, 0, 1}, {0, 0, 0, 0},         {127, 0, 0, 2},
                                                {224, 0, 0, 1}, {127, 255, 255, 255}, {10, 0, 0, 1}};
            int six = below(s, 2), mapped = below(s, 3) == 0;
            *(uint16_t *)at = below(s, 12) == 0 ? 0 : six ? 10 : 2;
            at[2] = below(s, 8) ? 0x80 : 0, at[3] = below(s, 6);
            if (six && mapped)
                at[18] = at[19] = 0xff;
            if (!six || mapped)
                memcpy(at + (six ? 20 : 4), fours[below(s, 6)], 4);
            else
                at[8] = below(s, 8) ? 0 : 0xff, at[23] = below(s, 3);
            return 112;
        }
        *(uint16_t *)at = below(s, 8) ? 1 : below(s, 20);
        switch (below(s, 5)) {
        case 0:
            at[3] = 'a' + below(s, 4);
            break;
        case 1:
            memset(at + 2, 1 + below(s, 255), 110);
            break;
        default:
            strcpy((char *)at + 2, names[below(s, 7)]);
        }
        return 112;
    }
    case P_NETLINK: {
        /* Three messages whose heads may lie; then a fixed part and attributes. */
        static const uint16_t types[] = {16, 18, 19, 20, 21, 22, 24, 26, 30, 20, 2, 3, 0, 0xffff};
        for (int i = 0; i < 192; i += 8)
            *(uint64_t *)(at + i) = below(s, 3) ? below(s, 256) : any_word(s);
        for (int i = 0; i < 3; i++) {
            char *head = at + 64 * i;
            *(uint32_t *)head = below(s, 4) ? 64 : edge_number(s);
            *(uint16_t *)(head + 4) = types[below(s, sizeof types / sizeof *types)];
            *(uint16_t *)(head + 6) = below(s, 3) ? 1 | below(s, 2) * 0x300 | below(s, 2) * 4 : draw(s);
            head[16] = below(s, 3) ? (int[]){0, 1, 2, 10}[below(s, 4)] : below(s, 256),
            head[17] = below(s, 2) ? 6 : below(s, 256);
            /* An attribute behind the largest fixed part. */
            *(uint16_t *)(head + 32) = below(s, 3) ? 7 : below(s, 70),
                                 *(uint16_t *)(head + 34) = below(s, 60);
            strcpy((char *)head + 36, "lo");
        }
        return 192;
    }
    case P_MSGHDR:
        /* Four of them; names, pieces and control data lie behind, or nowhere. */
        memset(at, 0, 1024);
        for (int i = 0; i < 4; i++) {
            uint64_t *m = w + 8 * i, *piece = w + 32 + 2 * i, *control = w + 40 + 16 * i;
            uint16_t *name = (uint16_t *)(w + 110);
            struct value v = place(s);
            name[0] = 1, memcpy(name + 1, "sock", 5);
            m[0] = below(s, 3) ? 0 : (uint64_t)name, m[1] = below(s, 4) ? 7 : (uint32_t)edge_number(s);
            m[2] = (uint64_t)piece, m[3] = below(s, 8) ? 1 : edge_number(s);
            piece[0] = below(s, 4) ? (uint64_t)base_of(PRIVATE) : (uint64_t)place_address(&v),
            piece[1] = below(s, 5) ? below(s, 5000) : edge_number(s);
            m[4] = below(s, 4) ? (uint64_t)control : 0,
            m[5] = below(s, 6) ? 16 + 4 * below(s, 20) : edge_number(s);
            control[0] = below(s, 5) ? 16 + 4 * below(s, 12) : edge_number(s);
            static const uint32_t kinds[][2] = {{1, 1}, {1, 2},   {1, 3},   {0, 1},  {0, 2},
                                                {0, 8}, {41, 50}, {41, 52}, {41, 67}};
            const uint32_t *kind = kinds[below(s, sizeof kinds / sizeof *kinds)];
            control[1] = below(s, 8) ? kind[0] | (uint64_t)kind[1] << 32 : any_word(s);
            for (int j = 0; j < 26; j++)
                ((uint32_t *)(control + 2))[j] =
                    below(s, 3) ? FIRST_FD + below(s, OPEN_KINDS) : (uint32_t)any_word(s);
        }
        return 1024;
    case P_INT:
        u[0] = below(s, 2) ? below(s, 100) : (uint32_t)edge_number(s), u[1] = 0;
        return 8;
    case P_ATTRIBUTE: {
        static const char *const names[] = {"user.a",
                                            "user.b",
                                            "trusted.a",
                                            "security.a",
                                            "security.capability",
                                            "system.posix_acl_access",
                                            "system.posix_acl_default",
                                            "user."};
        const char *name = names[below(s, 8)];
        memcpy(at, name, strlen(name) + 1);
        return (int)strlen(name) + 1;
    }
    /* A file's handle, nearly right: early files of the first file systems. */
    case P_HANDLE:
        u[0] = below(s, 6) ? 12 : (uint32_t)edge_number(s), u[1] = 1;
        u[2] = below(s, 8) ? 1 + below(s, 6) : (uint32_t)edge_number(s);
        u[3] = below(s, 8) ? below(s, 2000) : (uint32_t)edge_number(s), u[4] = 0;
        return 20;
    /* Capabilities of a file, or an access control list, nearly right. */
    case P_VALUE:
        if (below(s, 2)) {
            u[0] = below(s, 6) ? 0x02000000u + (below(s, 3) << 24) + below(s, 2) : (uint32_t)edge_number(s);
            for (int i = 1; i < 6; i++)
                u[i] = below(s, 3) ? 0 : (uint32_t)any_word(s);
            return 24;
        }
        u[0] = below(s, 8) ? 2 : (uint32_t)edge_number(s);
        for (int i = 0, tag = 1; i < 7; i++, tag *= below(s, 8) ? 2 : 1) {
            u[1 + 2 * i] = (uint32_t)tag | below(s, 8) << 16;
            u[2 + 2 * i] = below(s, 2) ? 1000 : (uint32_t)edge_number(s);
        }
        return 60;
    case SET: { /* S_STRING */
        unsigned which = below(s, 12);
        const char *text = strings[which < 10 ? which : which + 2];
        int length = 0;
        do
            at[length] = text[length];
        while (text[length++]);
        return length;
    }
    default:
        for (int i = 0; i < 64; i++)
            w[i] = below(s, 2) ? any_word(s) : draw(s);
        return 8 << below(s, 7);
    }
}

static long structure_address(const struct actor *me, const struct value *v, int argument)
{
    char *slot = (char *)(ARENA + me->index * ARENA_SIZE + argument * SLOT);
    char *at = slot + 64 * (v->number % 8);
    int size = fill(me, v->which, v->number, at);
    if (v->spot == 0)
        return (long)at;
    char *end = slot + SLOT_END;
    int there = v->spot == 1 ? size : size / 2;
    for (int i = 0; i < there; i++)
        end[i - there] = at[i];
    return (long)(end - there);
}

/* May a privileged actor name this process? The experiment's own are out of its reach, and all at once. */
static int may_name(const struct actor *me, int pid)
{
    for (int i = 0; i < WORKERS; i++)
        if (pid == me->common->workers[i])
            return 0;
    return pid == 0 || (pid > 2 && pid != me->share->worker_pid && pid != me->common->supervisor);
}

/* May it name this thread in a native call, by its handle or, to learn that, by its number? */
static int may_steer(const struct actor *me, long n)
{
    for (int i = 0; i < WORKERS; i++)
        if (n && n == me->common->handles[i])
            return 0;
    return n != me->common->supervisor_handle && may_name(me, (int)n);
}

static long resolve(const struct actor *me, const struct step *step, int argument)
{
    const struct value *v = &step->value[argument];
    int kind = calls[step->call].kind[argument];
    long n = (long)v->number;
    switch (v->form) {
    case NUMBER:
        break;
    case DESCRIPTOR:
        n = descriptor_number(me, v->which);
        break;
    case PLACE:
        n = place_address(v);
        break;
    case RESULT:
        n = me->share->result[v->number % STEPS];
        break;
    case NAME:
        n = name_address(me, v->number);
        break;
    case PROCESS:
        n = process_number(me, v->which);
        break;
    case IDENTITY:
        n = identity_number(me, v->which);
        break;
    case CODE:
        n = code_address(me, v->which);
        break;
    default:
        n = structure_address(me, v, argument);
    }
    /* Root's actor may signal processes that a user opens here. */
    if (calls[step->call].number == 434 && argument == 0 && me->share->sequence.arrangement == BESIDE &&
        !may_name(me, (int)n))
        return raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
    if (!me->privileged)
        return n;
    if (kind == PID && !may_name(me, (int)n))
        return raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
    if (calls[step->call].number == SYN_CALL && argument == 1 && !may_steer(me, n))
        return -1;
    /* A path that others may have written. */
    if ((kind == PATH || kind == STRING) && v->form != NAME && v->form != STRUCTURE && n >= PAGE &&
        n < 0x800000000000L)
        return name_address(me, v->number);
    return n;
}
#endif

/* From one party to another: bytes there and back by pipes and sockets, and the CPU by sched_yield.
 *
 * Interface: `do_*`, for the table of bench.c.
 */

static void do_sched_yield(long n)
{
    while (n--)
        call(SYS_sched_yield, 0, 0, 0);
}

/* The other side of a ping-pong: sends back what it gets, until end of file. */
static int echo(void *unused)
{
    char c;
    (void)unused;
    while (call(SYS_read, ends[0], (long)&c, 1) == 1)
        call(SYS_write, back[1], (long)&c, 1);
    return 0;
}

static void pingpong(long n, int flags)
{
    static char stack[65536] __attribute__((aligned(16)));
    char c = 0;
    int status, keep;
    must(pipe(back) == 0, "pipe");
    int old[2] = {ends[0], ends[1]};
    must(pipe(ends) == 0, "pipe");
    pid_t child;
    if (flags) {
        child = clone(echo, stack + sizeof stack, flags | SIGCHLD, 0);
        keep = ends[0];
    } else {
        fflush(stdout);
        child = fork();
        if (child == 0) {
            close(ends[1]);
            _exit(echo(0));
        }
        keep = -1;
    }
    must(child > 0, "clone");
    while (n--) {
        call(SYS_write, ends[1], (long)&c, 1);
        call(SYS_read, back[0], (long)&c, 1);
    }
    close(ends[1]);
    wait4(child, &status, 0, 0);
    if (keep >= 0)
        close(keep);
    else
        close(ends[0]);
    close(back[0]);
    close(back[1]);
    ends[0] = old[0];
    ends[1] = old[1];
}

static void do_pipe_pingpong(long n) { pingpong(n, 0); }
static void do_pipe_pingpong_threads(long n)
{
    pingpong(n, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND);
}

/* 64 KiB at a time from one process to another, which reads as much at a time. */
static void do_pipe_bulk(long n)
{
    enum { BULK = 1 << 16 };
    static char bulk[BULK];
    int way[2], status;
    must(pipe(way) == 0, "pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(way[1]);
        while (call(SYS_read, way[0], (long)bulk, BULK) > 0)
            ;
        _exit(0);
    }
    must(child > 0, "fork");
    close(way[0]);
    while (n--)
        must(call(SYS_write, way[1], (long)bulk, BULK) == BULK, "write");
    close(way[1]);
    wait4(child, &status, 0, 0);
}

/* A byte there and back between two processes, by a connection to a name. */
static void do_unix_pingpong(long n)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0bench"};
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + 6;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), status;
    char c = 0;
    must(bind(listener, (struct sockaddr *)&name, length) == 0 && listen(listener, 1) == 0, "listen");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int end = accept(listener, 0, 0);
        while (call(SYS_read, end, (long)&c, 1) == 1)
            call(SYS_write, end, (long)&c, 1);
        _exit(0);
    }
    int end = socket(AF_UNIX, SOCK_STREAM, 0);
    must(child > 0 && connect(end, (struct sockaddr *)&name, length) == 0, "connect");
    while (n--) {
        call(SYS_write, end, (long)&c, 1);
        call(SYS_read, end, (long)&c, 1);
    }
    close(end);
    close(listener);
    wait4(child, &status, 0, 0);
}

static int at_loopback(int kind, struct sockaddr_in *name)
{
    socklen_t length = sizeof *name;
    int fd = socket(AF_INET, kind, 0);
    *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(bind(fd, (struct sockaddr *)name, length) == 0 &&
             getsockname(fd, (struct sockaddr *)name, &length) == 0,
         "bind");
    return fd;
}

/* A byte there and back between two processes, by a connection over loopback. */
static void do_tcp_lo_pingpong(long n)
{
    struct sockaddr_in name;
    int listener = at_loopback(SOCK_STREAM, &name), status, on = 1;
    char c = 0;
    must(listen(listener, 1) == 0, "listen");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int end = accept(listener, 0, 0);
        setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        while (call(SYS_read, end, (long)&c, 1) == 1)
            call(SYS_write, end, (long)&c, 1);
        _exit(0);
    }
    int end = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    must(child > 0 && connect(end, (struct sockaddr *)&name, sizeof name) == 0, "connect");
    while (n--) {
        call(SYS_write, end, (long)&c, 1);
        call(SYS_read, end, (long)&c, 1);
    }
    close(end);
    close(listener);
    wait4(child, &status, 0, 0);
}

/* A message of a byte there and back between two processes, by sockets that know each other. */
static void do_udp_lo_pingpong(long n)
{
    struct sockaddr_in here, there;
    int one = at_loopback(SOCK_DGRAM, &here), other = at_loopback(SOCK_DGRAM, &there), status;
    char c = 0;
    must(connect(one, (struct sockaddr *)&there, sizeof there) == 0 &&
             connect(other, (struct sockaddr *)&here, sizeof here) == 0,
         "connect");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        while (call(SYS_read, other, (long)&c, 1) == 1)
            call(SYS_write, other, (long)&c, 1);
        _exit(0);
    }
    must(child > 0, "fork");
    while (n--) {
        call(SYS_write, one, (long)&c, 1);
        call(SYS_read, one, (long)&c, 1);
    }
    call(SYS_write, one, (long)&c, 0);
    wait4(child, &status, 0, 0);
    close(one);
    close(other);
}

/* A connection over loopback, made, accepted and closed at both ends. */
static void do_connect_accept_close(long n)
{
    struct sockaddr_in name;
    int listener = at_loopback(SOCK_STREAM, &name);
    must(listen(listener, 5) == 0, "listen");
    while (n--) {
        int one = socket(AF_INET, SOCK_STREAM, 0);
        must(connect(one, (struct sockaddr *)&name, sizeof name) == 0, "connect");
        int other = accept(listener, 0, 0);
        close(one);
        close(other);
    }
    close(listener);
}

/* Two parties that only yield to each other; with `floating`, both use vector registers. */
static volatile int floating;
static long rounds;

static int yield_party(void *unused)
{
    (void)unused;
    for (long n = rounds; n--;) {
        if (floating)
            __asm__ volatile("addpd %%xmm1, %%xmm0" : : : "xmm0");
        call(SYS_sched_yield, 0, 0, 0);
    }
    return 0;
}

static void yield_pair(long n, int flags, int with_floating)
{
    static char stack[65536] __attribute__((aligned(16)));
    int status;
    pid_t child;
    floating = with_floating;
    rounds = n / 2;
    if (flags) {
        child = clone(yield_party, stack + sizeof stack, flags | SIGCHLD, 0);
    } else {
        fflush(stdout);
        child = fork();
        if (child == 0)
            _exit(yield_party(0));
    }
    must(child > 0, "clone");
    yield_party(0);
    wait4(child, &status, 0, 0);
}

static void do_switch_thread(long n) { yield_pair(n, CLONE_VM, 0); }
static void do_switch_thread_fp(long n) { yield_pair(n, CLONE_VM, 1); }
static void do_switch_process(long n) { yield_pair(n, 0, 0); }
static void do_switch_process_fp(long n) { yield_pair(n, 0, 1); }

/* Calls on descriptors: pipes, files, terminals, sockets and devices, and what their routines assume.
 *
 * Interface: `do_*`, for the table of bench.c; open_close also for bench-programs.h.
 */

static void through_pipe(long n, long size)
{
    while (n--) {
        call(SYS_write, ends[1], (long)page, size);
        call(SYS_read, ends[0], (long)page, size);
    }
}

static void do_pipe_1(long n) { through_pipe(n, 1); }

/* A pseudo-terminal: its ends, and its settings. */
static struct termios terminal(int *master, int *slave)
{
    int unlocked = 0;
    struct termios t;
    char name[64];
    *master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    must(ioctl(*master, TIOCSPTLCK, &unlocked) == 0 && ptsname_r(*master, name, sizeof name) == 0, "master");
    *slave = open(name, O_RDWR | O_NOCTTY);
    must(tcgetattr(*slave, &t) == 0, "slave");
    return t;
}

/* A byte typed at a pseudo-terminal's master and read at its slave. */
static void do_pty_1(long n)
{
    static int master = -1, slave = -1;
    if (master < 0) {
        struct termios t = terminal(&master, &slave);
        cfmakeraw(&t);
        tcsetattr(slave, TCSANOW, &t);
    }
    while (n--) {
        call(SYS_write, master, (long)page, 1);
        call(SYS_read, slave, (long)page, 1);
    }
}

/* A byte through a pair of stream sockets. */
static void do_socketpair_1(long n)
{
    static int pair[2] = {-1, -1};
    if (pair[0] < 0)
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    while (n--) {
        call(SYS_write, pair[0], (long)page, 1);
        call(SYS_read, pair[1], (long)page, 1);
    }
}

static void do_pipe_1024(long n) { through_pipe(n, KIB); }
static void do_pipe_4096(long n) { through_pipe(n, PAGE); }

static void do_file_loop(long n)
{
    while (n--) {
        call(SYS_lseek, file, 0, SEEK_SET);
        for (int i = 10; i--;)
            call(SYS_write, file, (long)page, KIB);
        call(SYS_lseek, file, 0, SEEK_SET);
        for (int i = 10; i--;)
            call(SYS_read, file, (long)page, KIB);
    }
}

static void do_file_read_1(long n)
{
    call(SYS_lseek, file, 0, SEEK_SET);
    while (n--)
        call(SYS_read, file, (long)page, 1);
}

static void do_file_write_1(long n)
{
    call(SYS_lseek, file, 0, SEEK_SET);
    while (n--)
        call(SYS_write, file, (long)page, 1);
}

static void do_pread_1(long n)
{
    while (n--)
        call4(SYS_pread64, file, (long)page, 1, 77);
}

static void do_pwrite_1(long n)
{
    while (n--)
        call4(SYS_pwrite64, file, (long)page, 1, 77);
}

static struct iovec segment = {page, 1};

static void do_readv_1(long n)
{
    call(SYS_lseek, file, 0, SEEK_SET);
    while (n--)
        call(SYS_readv, file, (long)&segment, 1);
}

static void do_writev_1(long n)
{
    call(SYS_lseek, file, 0, SEEK_SET);
    while (n--)
        call(SYS_writev, file, (long)&segment, 1);
}

static void do_file_read_1024(long n)
{
    while (n--) {
        call(SYS_lseek, file, 0, SEEK_SET);
        call(SYS_read, file, (long)page, KIB);
    }
}

enum { LARGE = 64 * KIB };
static char bulk[LARGE];

/* The first `bytes` of a file of LARGE, from the start each time. */
static void from_start(long n, long bytes)
{
    static int large = -1;
    if (large < 0) {
        large = open("/tmp/large", O_RDWR | O_CREAT, 0600);
        must(large >= 0 && write(large, bulk, LARGE) == LARGE, "large");
    }
    while (n--) {
        call(SYS_lseek, large, 0, SEEK_SET);
        call(SYS_read, large, (long)bulk, bytes);
    }
}

static void do_file_read_8192(long n) { from_start(n, 8 * KIB); }
static void do_file_read_65536(long n) { from_start(n, LARGE); }

/* Each change replaces the pipe's reading routine by another one. */
static void do_pipe_nonblock(long n)
{
    for (long flags = 0; n--; flags ^= O_NONBLOCK)
        call(SYS_fcntl, ends[0], F_SETFL, flags ^ O_NONBLOCK);
    call(SYS_fcntl, ends[0], F_SETFL, 0);
}

/* -- guards: an operation while an assumption does not hold, and the events that change one -- */

/* An operation while another process has everything open that the caller has: from the first run, which
 * warms, to the end of the second, which is counted and long enough for that end not to matter. */
static void while_shared(long n, void (*operation)(long))
{
    static pid_t sharer;
    pid_t known = sharer;
    if (!known) {
        fflush(stdout);
        sharer = fork();
        while (sharer == 0)
            pause();
    }
    operation(n);
    if (known) {
        kill(sharer, SIGKILL);
        waitpid(sharer, 0, 0);
        sharer = 0;
    }
}

static void do_shared_read_1(long n) { while_shared(n, do_file_read_1); }
static void do_shared_pipe_1(long n) { while_shared(n, do_pipe_1); }

/* A pipe whose queue was exchanged for a larger one: its routines are reached through a relay. */
static void do_resized_pipe_1(long n)
{
    static int queue[2] = {-1, -1};
    if (queue[0] < 0)
        must(pipe(queue) == 0 && fcntl(queue[0], F_SETPIPE_SZ, 128 * KIB) == 128 * KIB, "resized");
    while (n--) {
        call(SYS_write, queue[1], (long)page, 1);
        call(SYS_read, queue[0], (long)page, 1);
    }
}

/* A second descriptor comes and goes, with two reads between: the description's routines become shared
 * ones, and its own again. */
static void do_dup_read_close(long n)
{
    call(SYS_lseek, file, 0, SEEK_SET);
    while (n--) {
        long second = call(SYS_dup, file, 0, 0);
        call(SYS_read, file, (long)page, 1);
        call(SYS_close, second, 0, 0);
        call(SYS_read, file, (long)page, 1);
    }
}

/* The same without another descriptor. */
static void do_dup_close(long n)
{
    while (n--)
        call(SYS_close, call(SYS_dup, file, 0, 0), 0, 0);
}

/* A terminal's settings change; two routines assume them. */
static void do_tty_settings(long n)
{
    static int master = -1, slave = -1;
    static struct termios t;
    if (master < 0)
        t = terminal(&master, &slave);
    while (n--) {
        t.c_oflag ^= ONLCR;
        tcsetattr(slave, TCSANOW, &t);
    }
}

static void do_lseek(long n)
{
    while (n--)
        call(SYS_lseek, file, 0, SEEK_SET);
}

static void do_null_write_1(long n)
{
    while (n--)
        call(SYS_write, null, (long)page, 1);
}

static void do_null_read_1(long n)
{
    while (n--)
        call(SYS_read, null, (long)page, 1);
}

static void open_close(const char *name, long n)
{
    while (n--)
        call(SYS_close, call(SYS_open, (long)name, O_RDONLY, 0), 0, 0);
}

static void do_null_open_close(long n) { open_close("/dev/null", n); }
static void do_console_open_close(long n) { open_close("/dev/console", n); }
static void do_file_open_close(long n) { open_close("/tmp/bench-file", n); }

static void do_pipe_open_close(long n)
{
    int fd[2];
    while (n--) {
        call(SYS_pipe, (long)fd, 0, 0);
        call(SYS_close, fd[0], 0, 0);
        call(SYS_close, fd[1], 0, 0);
    }
}

/* Asks for one descriptor that is ready. */
static void do_poll_1(long n)
{
    struct {
        int fd;
        short events, revents;
    } asked = {ends[0], 1, 0};
    char c = 0;
    must(write(ends[1], &c, 1) == 1, "write");
    while (n--)
        must(call(SYS_poll, (long)&asked, 1, 0) == 1, "poll");
    must(read(ends[0], &c, 1) == 1, "read");
}

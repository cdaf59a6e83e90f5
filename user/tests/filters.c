/* Checks filters in the streams of open files: the bytes that pass, by every call and kind of file, while
 * filters come and go, and who may put them there.
 *
 * Interface: filters; TAP on standard output. As user 0.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "synthesis.h"
#include <pthread.h>
#include <pty.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <termios.h>

#define LARGE 100000

static int same(int fd, const char *text)
{
    char got[64] = "";
    ssize_t count = read(fd, got, sizeof got - 1);
    if (count == (ssize_t)strlen(text) && memcmp(got, text, count) == 0)
        return 1;
    printf("# got %zd bytes: %s\n", count, count > 0 ? got : "");
    return 0;
}

/* Writes a request to /syn/filters; 0 or a negative error number. */
static int request(const char *text)
{
    int fd = open("/syn/filters", O_WRONLY | O_CLOEXEC);
    int result = write(fd, text, strlen(text)) < 0 ? -errno : 0;
    close(fd);
    return result;
}

#define requests(...)                             \
    ({                                            \
        char line[128];                           \
        snprintf(line, sizeof line, __VA_ARGS__); \
        request(line);                            \
    })

static char shown[65536];

static int shows(const char *path, const char *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t count = 0;
    for (ssize_t got;
         count < sizeof shown - 1 && (got = read(fd, shown + count, sizeof shown - 1 - count)) > 0;)
        count += got;
    shown[count] = 0;
    close(fd);
    return strstr(shown, text) != 0;
}

static unsigned adler(const unsigned char *bytes, size_t count)
{
    unsigned a = 1, b = 0;
    for (size_t i = 0; i < count; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static void pipes(void)
{
    int ends[2], upper = syn_make("Upper", 0);
    check(pipe(ends) == 0 && upper >= 0, "a pipe and a filter");
    for (int i = 0; i < 3; i++)
        check(write(ends[1], "warm", 4) == 4 && same(ends[0], "warm"), "bytes pass as they are");
    equal(syn_insert(ends[1], SYN_OUT, upper), 0, "a filter in front of the writing end");
    check(shows("/syn/quajects", "outgoing -> pass"), "the interfacer shows the link");
    check(shows("/syn/quajects", "in line"), "it is collapsed");
    check(shows("/syn/filters", "Upper"), "and the filter");
    for (int i = 0; i < 3; i++)
        check(write(ends[1], "one Two", 7) == 7 && same(ends[0], "ONE TWO"), "bytes pass it");
    check(shows("/syn/quajects", "filtered"), "it stands in the descriptor's routine");
    check(write(ends[1], "b", 1) == 1 && same(ends[0], "B"), "a single one, too");
    equal(fcntl(ends[1], F_GETFL), O_WRONLY, "its flags say nothing of it");
    equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0, "they are changed");
    check(write(ends[1], "three", 5) == 5 && same(ends[0], "THREE"), "it is still there");
    fcntl(ends[1], F_SETFL, 0);
    struct iovec two[2] = {{"vec", 3}, {"tor", 3}};
    check(writev(ends[1], two, 2) == 6 && same(ends[0], "VECTOR"), "writev");
    check(writev(ends[1], two, 1) == 3 && same(ends[0], "VEC"), "of one segment");
    equal(syn_remove(ends[1], SYN_OUT, upper), 0, "it is taken out");
    for (int i = 0; i < 3; i++)
        check(write(ends[1], "four", 4) == 4 && same(ends[0], "four"), "bytes pass as they were");
    check(!shows("/syn/filters", "Upper"), "it is not shown");
    equal(syn_remove(ends[1], SYN_OUT, upper), -ENOENT, "it is not there");

    equal(syn_insert(ends[0], SYN_IN, upper), 0, "in front of the reading end");
    for (int i = 0; i < 3; i++)
        check(write(ends[1], "five", 4) == 4 && same(ends[0], "FIVE"), "bytes pass it");
    char got[2][4];
    struct iovec to[2] = {{got[0], 3}, {got[1], 4}};
    check(write(ends[1], "scatter", 7) == 7 && readv(ends[0], to, 2) == 7 && !memcmp(got[0], "SCA", 3) &&
              !memcmp(got[1], "TTER", 4),
          "readv");
    check(write(ends[1], "lost", 4) == 4 && read(ends[0], (char *)8, 4) == -1 && errno == EFAULT &&
              same(ends[0], "LOST"),
          "a bad address loses nothing");
    fails(syscall(SYS_tee, ends[0], ends[1], 4, 0), EINVAL, "its bytes do not move past it: tee");
    int file = open("/tmp/filters", O_CREAT | O_RDWR | O_TRUNC, 0600);
    fails(splice(ends[0], 0, file, 0, 4, 0), EINVAL, "splice");
    equal(syn_remove_all(ends[0], SYN_IN), 0, "all are taken out");
    equal(syn_remove_all(ends[0], SYN_IN), -ENOENT, "there is none");
    check(write(ends[1], "six", 3) == 3 && same(ends[0], "six"), "bytes pass as they were");
    close(file);
    close(ends[0]);
    close(ends[1]);
    close(upper);
}

/* --- Routines: with a probe around them, calls that they begin and those that they return from --- */

static int probes(int fd, const char *what)
{
    char line[64];
    int to = open("/syn/probes", O_WRONLY | O_CLOEXEC),
        count = snprintf(line, sizeof line, "%d %d %s", getpid(), fd, what);
    int good = write(to, line, count) == count;
    close(to);
    return good;
}

static void probed(int fd, const char *call, long begun[2])
{
    char head[32];
    snprintf(head, sizeof head, "\n%6d %4d %-6s", getpid(), fd, call);
    begun[0] = begun[1] = -1;
    shows("/syn/probes", head);
    char *line = strstr(shown, head);
    if (line)
        sscanf(line + strlen(head), "%ld %ld", &begun[0], &begun[1]);
}

/* Bytes go from one descriptor to the other, which has filters: the calls of `call` by `fd` are its
 * routine's. */
static void served(const char *name, int to, int from, int fd, const char *call)
{
    enum { CALLS = 40 };
    long before[2], after[2];
    int right = 0;
    for (int i = 0; i < 4; i++)
        right += write(to, "warm123", 7) == 7 && same(from, "WARM123");
    check(probes(fd, ""), "a probe");
    for (int i = 0; i < 4; i++)
        right += write(to, "warm123", 7) == 7 && same(from, "WARM123");
    probed(fd, call, before);
    for (int i = 0; i < CALLS; i++)
        right += write(to, "served8", 7) == 7 && same(from, "SERVED8");
    probed(fd, call, after);
    equal(right, CALLS + 8, name);
    printf("# %s: %s %ld, %ld\n", name, call, after[0] - before[0], after[1] - before[1]);
    check(before[0] > 0 && after[0] - before[0] == CALLS, "each call is begun by the routine");
    check(after[1] - before[1] == CALLS, "and ends in it");
    check(probes(fd, "off"), "the probe goes");
}

static volatile int rests_on;

static void *rests(void *unused __attribute__((unused)))
{
    while (rests_on)
        usleep(1000);
    return 0;
}

static void routines(void)
{
    for (int threads = 1; threads <= 2; threads++) {
        pthread_t thread;
        rests_on = threads > 1;
        pthread_create(&thread, 0, rests, 0);
        if (threads == 1)
            pthread_join(thread, 0);
        printf("# with %d threads\n", threads);
        int ends[2], pair[2], sum = syn_make("Checksum", 0), upper = syn_make("Upper", 0);
        check(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "a pipe and a socket");
        syn_insert(ends[1], SYN_OUT, upper);
        syn_insert(ends[1], SYN_OUT, sum);
        served("a pipe is written", ends[1], ends[0], ends[1], "write");
        syn_remove_all(ends[1], SYN_OUT);
        syn_insert(ends[0], SYN_IN, upper);
        served("a pipe is read", ends[1], ends[0], ends[0], "read");
        syn_remove_all(ends[0], SYN_IN);
        mkfifo("/tmp/filtered", 0600);
        int fifo = open("/tmp/filtered", O_RDWR);
        syn_insert(fifo, SYN_OUT, upper);
        served("a fifo is written", fifo, fifo, fifo, "write");
        syn_remove_all(fifo, SYN_OUT);
        syn_insert(pair[0], SYN_IN, upper);
        served("a socket is read", pair[1], pair[0], pair[0], "read");
        syn_remove_all(pair[0], SYN_IN);
        unlink("/tmp/filtered");
        int to = open("/tmp/filtered", O_CREAT | O_RDWR | O_TRUNC, 0600),
            from = open("/tmp/filtered", O_RDONLY);
        syn_insert(from, SYN_IN, upper);
        served("a file is read", to, from, from, "read");
        unlink("/tmp/filtered");
        int all[] = {ends[0], ends[1], pair[0], pair[1], fifo, to, from, sum, upper};
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
            close(all[i]);
        if (threads > 1) {
            rests_on = 0;
            pthread_join(thread, 0);
        }
    }
}

static void files(void)
{
    int file = open("/tmp/filters", O_CREAT | O_RDWR | O_TRUNC, 0600), upper = syn_make("Upper", 0);
    for (int i = 0; i < 3; i++)
        check(pwrite(file, "abcdefgh", 8, 0) == 8, "a file is written");
    equal(syn_insert(file, SYN_OUT, upper), 0, "a filter for what is written");
    check(pwrite(file, "xyz", 3, 2) == 3, "at a place");
    check(same(file, "abXYZfgh"), "it has passed");
    check(write(file, "more", 4) == 4 && lseek(file, 8, SEEK_SET) == 8 && same(file, "MORE"),
          "at the end, too");
    int other = open("/tmp/filters", O_RDWR);
    check(pwrite(other, "by", 2, 0) == 2, "another description has none");
    lseek(file, 0, SEEK_SET);
    check(same(file, "byXYZfghMORE"), "so it is");
    fails(sendfile(file, other, 0, 4), EINVAL, "sendfile does not move past it");
    fails(copy_file_range(other, 0, file, 0, 4, 0), EINVAL, "nor does copy_file_range");
    syn_remove(file, SYN_OUT, upper);
    equal(syn_insert(file, SYN_IN, upper), 0, "a filter for what is read");
    lseek(file, 0, SEEK_SET);
    check(same(file, "BYXYZFGHMORE"), "it passes");
    char got[4] = "";
    check(pread(file, got, 3, 5) == 3 && !memcmp(got, "FGH", 3), "at a place");
    fcntl(file, F_SETFL, O_APPEND);
    lseek(file, 0, SEEK_SET);
    check(same(file, "BYXYZFGHMORE"), "with other flags");
    close(other);
    other = open("/tmp/filters", O_RDONLY);
    check(same(other, "byXYZfghMORE"), "the file is as it was");
    close(other);
    close(file);
    file = open("/tmp/filters", O_RDONLY);
    check(same(file, "byXYZfghMORE"), "another open has no filter");
    close(file);
    close(upper);

    /* Large transfers, counted. */
    static unsigned char bytes[LARGE], back[LARGE];
    for (int i = 0; i < LARGE; i++)
        bytes[i] = i * 13 + i / 256;
    file = open("/tmp/filters", O_CREAT | O_RDWR | O_TRUNC, 0600);
    int tap = syn_make("Tap", 0), gauge = syn_make("Gauge", 0), sum = syn_make("Checksum", 0);
    equal(syn_link(tap, "each", gauge, "count"), 0, "a tap with a gauge");
    equal(syn_insert(file, SYN_OUT, tap), 0, "counts");
    equal(syn_insert(file, SYN_OUT, sum), 0, "beside a checksum");
    equal(write(file, bytes, LARGE), LARGE, "many bytes");
    equal(syn_invoke(gauge, syn_entry(gauge, "read"), 0), LARGE, "are counted");
    equal(syn_invoke(sum, syn_entry(sum, "value"), 0), adler(bytes, LARGE), "and summed up");
    check(pread(file, back, LARGE, 0) == LARGE && !memcmp(bytes, back, LARGE), "and right");
    close(file);
    close(tap);
    close(gauge);
    close(sum);
    unlink("/tmp/filters");
}

static void others(void)
{
    int pair[2], upper = syn_make("Upper", 0), feed = syn_make("Newline", 10);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int i = 0; i < 3; i++)
        check(write(pair[0], "warm", 4) == 4 && same(pair[1], "warm"), "a socket");
    equal(syn_insert(pair[1], SYN_IN, upper), 0, "a filter for what it receives");
    char got[16] = "";
    check(write(pair[0], "read", 4) == 4 && same(pair[1], "READ"), "read");
    check(write(pair[0], "recv", 4) == 4 && recv(pair[1], got, 16, 0) == 4 && !memcmp(got, "RECV", 4),
          "recv");
    fails(recv(pair[1], got, 16, MSG_PEEK), EOPNOTSUPP, "no look ahead");
    struct msghdr message = {0};
    fails(recvmsg(pair[1], &message, 0), EOPNOTSUPP, "no messages");
    equal(syn_insert(pair[1], SYN_OUT, feed), 0, "another for what it sends");
    check(send(pair[1], "a\nb", 3, 0) == 3 && same(pair[0], "a\rb"), "send");
    check(write(pair[1], "c\nd", 3) == 3 && same(pair[0], "c\rd"), "write");
    syn_remove_all(pair[1], SYN_IN);
    syn_remove_all(pair[1], SYN_OUT);
    check(send(pair[0], "e\nf", 3, 0) == 3 && same(pair[1], "e\nf"), "and none");
    close(pair[0]);
    close(pair[1]);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    syn_insert(pair[0], SYN_OUT, upper);
    check(write(pair[0], "message", 7) == 7 && send(pair[0], "", 0, 0) == 0 && same(pair[1], "MESSAGE") &&
              same(pair[1], ""),
          "messages stay whole");
    close(pair[0]);
    close(pair[1]);

    int master, slave;
    openpty(&master, &slave, 0, 0, 0);
    struct termios raw;
    tcgetattr(slave, &raw);
    cfmakeraw(&raw);
    tcsetattr(slave, TCSANOW, &raw);
    check(write(slave, "warm", 4) == 4 && same(master, "warm"), "a terminal");
    equal(syn_insert(slave, SYN_OUT, upper), 0, "a filter for what is written to it");
    check(write(slave, "text", 4) == 4 && same(master, "TEXT"), "it passes");
    equal(syn_insert(slave, SYN_IN, upper), 0, "and for what is typed");
    check(write(master, "keys", 4) == 4 && same(slave, "KEYS"), "it passes, too");
    close(master);
    close(slave);
    int null = open("/dev/null", O_RDWR), gauge = syn_make("Gauge", 0), tap = syn_make("Tap", 0);
    syn_link(tap, "each", gauge, "count");
    equal(syn_insert(null, SYN_OUT, tap), 0, "before /dev/null");
    check(write(null, "seven..", 7) == 7, "bytes go");
    close(null);
    null = open("/dev/null", O_RDWR);
    check(write(null, "none", 4) == 4, "by another open, too");
    check(syn_invoke(gauge, syn_entry(gauge, "take"), 0) <= 7, "which has no filter");
    close(null);
    close(gauge);
    close(tap);
    close(upper);
    close(feed);
}

/* A read that waits when the filter comes. */
static void *waits(void *argument)
{
    int *ends = argument;
    return (void *)(long)same(ends[0], "LATE");
}

static void waiting(void)
{
    for (int nonpatient = 0; nonpatient < 2; nonpatient++) {
        int ends[2], upper = syn_make("Upper", 0);
        if (nonpatient)
            socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        else
            check(pipe(ends) == 0, "a pipe");
        pid_t child = fork();
        if (child == 0)
            _exit(!same(ends[0], "LATE"));
        until_asleep(child);
        equal(syn_insert(ends[0], SYN_IN, upper), 0, "a filter comes while a process waits for bytes");
        check(write(ends[1], "late", 4) == 4, "these come behind");
        equal(status_of(child), 0, "and pass it");
        syn_remove_all(ends[0], SYN_IN);
        pthread_t thread;
        pthread_create(&thread, 0, waits, ends);
        usleep(20000);
        syn_insert(ends[0], SYN_IN, upper);
        check(write(ends[1], "late", 4) == 4, "the same of a thread");
        void *good;
        pthread_join(thread, &good);
        check(good != 0, "it has passed");
        close(ends[0]);
        close(ends[1]);
        close(upper);
    }
}

static void shared(void)
{
    int ends[2], upper = syn_make("Upper", 0);
    check(pipe(ends) == 0, "a pipe");
    syn_insert(ends[1], SYN_OUT, upper);
    pid_t child = fork();
    if (child == 0) {
        if (write(ends[1], "child", 5) != 5)
            _exit(1);
        _exit(-syn_remove(ends[1], SYN_OUT, upper));
    }
    equal(status_of(child), 0, "a child has the filter, and takes it out");
    check(same(ends[0], "CHILD"), "it has passed");
    check(write(ends[1], "parent", 6) == 6 && same(ends[0], "parent"), "there is none for the parent either");
    int twin = dup(ends[1]);
    syn_insert(twin, SYN_OUT, upper);
    check(write(ends[1], "dup", 3) == 3 && same(ends[0], "DUP"), "a duplicate is the same stream");
    close(upper);
    check(write(ends[1], "gone", 4) == 4 && same(ends[0], "GONE"), "the filter stays without its descriptor");
    equal(requests("%d %d out off", getpid(), twin), 0, "and is taken out by a request");
    check(write(ends[1], "gone", 4) == 4 && same(ends[0], "gone"), "it is gone");
    close(twin);
    close(ends[0]);
    close(ends[1]);
}

static void limited(void)
{
    int ends[2], rate = syn_make("Rate", 20000);
    check(pipe(ends) == 0, "a pipe");
    equal(syn_insert(ends[1], SYN_OUT, rate), 0, "a limit of the rate");
    static char bytes[10000];
    double begin = seconds();
    size_t done = 0;
    while (done < sizeof bytes) {
        ssize_t count = write(ends[1], bytes + done, 1000);
        if (count <= 0)
            break;
        done += count;
    }
    double took = seconds() - begin;
    equal(done, sizeof bytes, "all pass");
    check(took > 0.35, "but not at once");
    printf("# %.3f s\n", took);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    fails(write(ends[1], bytes, 1), EAGAIN, "who does not wait is told");
    fcntl(ends[1], F_SETFL, 0);
    close(ends[0]);
    close(ends[1]);
    close(rate);
}

/* As user 1000: the request, and what comes of it. */
static int as_user(const char *text)
{
    pid_t child = fork();
    if (child == 0) {
        if (setgid(1000) || setuid(1000))
            _exit(99);
        _exit(-request(text));
    }
    return -WEXITSTATUS(status_of(child));
}

static void hostile(void)
{
    int ends[2], upper = syn_make("Upper", 0), gauge = syn_make("Gauge", 0), queue = syn_make("Queue", 16),
                 me = getpid();
    check(pipe(ends) == 0, "a pipe");
    equal(syn_insert(ends[0], SYN_OUT, upper), -EBADF, "an end that is not written");
    equal(syn_insert(ends[1], SYN_IN, upper), -EBADF, "one that is not read");
    equal(syn_insert(ends[1], 2, upper), -EINVAL, "no such way");
    equal(syn_insert(99, SYN_OUT, upper), -EBADF, "no such file");
    equal(syn_insert(ends[1], SYN_OUT, 99), -EBADF, "no such filter");
    equal(syn_insert(ends[1], SYN_OUT, ends[0]), -EINVAL, "a pipe is none");
    equal(syn_insert(ends[1], SYN_OUT, gauge), -EPROTOTYPE, "a gauge neither");
    equal(syn_insert(ends[1], SYN_OUT, queue), -EPROTOTYPE, "nor a queue");
    equal(syn_insert(ends[1], SYN_OUT, upper), 0, "a filter");
    equal(syn_insert(ends[1], SYN_OUT, upper), -ELOOP, "not twice");
    equal(syn_link(upper, "next", upper, "pass"), -ELOOP, "nor behind itself");
    int second = syn_make("Upper", 0);
    equal(syn_insert(ends[1], SYN_OUT, second), 0, "another in front");
    equal(syn_insert(ends[1], SYN_OUT, second), -EBUSY, "which leads on already");
    long result = 0;
    int count = 2;
    for (; count < 30 && result == 0; count++) {
        int more = syn_make("Newline", 13);
        result = syn_insert(ends[1], SYN_OUT, more);
        close(more);
    }
    equal(result, -EMLINK, "too many");
    equal(count, 17, "more than sixteen");
    check(write(ends[1], "deep\r", 5) == 5 && same(ends[0], "DEEP\n"),
          "those that are there are called where they are too deep");
    int path = open("/tmp", O_PATH);
    equal(syn_insert(path, SYN_IN, second), -EBADF, "a place has no bytes");
    close(path);
    equal(syn_remove(ends[1], 7, upper), -EINVAL, "taken out of no way");
    equal(syn_remove(ends[1], SYN_OUT, ends[0]), -EINVAL, "what is no filter");
    equal(syn_remove_all(ends[1], SYN_OUT), 0, "all of them out");
    check(write(ends[1], "plain", 5) == 5 && same(ends[0], "plain"), "none is left");

    equal(requests(" "), -EINVAL, "an empty request");
    equal(requests("%d %d out", me, ends[1]), -EINVAL, "half a request");
    equal(requests("%d %d through Upper", me, ends[1]), -EINVAL, "no such way");
    equal(requests("%d %d out Lower", me, ends[1]), -ENOENT, "no such class");
    equal(requests("%d %d out Rate 0", me, ends[1]), -EINVAL, "no such rate");
    equal(requests("%d %d out Rate x", me, ends[1]), -EINVAL, "no number");
    equal(requests("%d 99 out Upper", me), -EBADF, "no such descriptor");
    equal(requests("%d -1 out Upper", me), -EINVAL, "nor this");
    equal(requests("%d 4294967296 out Upper", me), -EBADF, "nor that");
    equal(requests("99999999 1 out Upper"), -ESRCH, "no such process");
    equal(requests("99999999999 1 out Upper"), -ESRCH, "nor this");
    equal(requests("%d %d out off 1", me, ends[1]), -ENOENT, "no such filter");
    equal(requests("quaject 999999 output Upper"), -ESRCH, "no such quaject");
    equal(requests("quaject 1 nothing Upper"), -ENOENT, "no such port");

    /* Others. */
    char line[128];
    snprintf(line, sizeof line, "%d %d out Upper", me, ends[1]);
    equal(as_user(line), -EPERM, "another user may not");
    equal(as_user("quaject 1 output Upper"), -EPERM, "nor into the kernel's streams");
    equal(request(line), 0, "the superuser may");
    snprintf(line, sizeof line, "%d %d out off", me, ends[1]);
    equal(as_user(line), -EPERM, "another user may not take it out");
    pid_t child = fork();
    if (child == 0) {
        if (setgid(1000) || setuid(1000))
            _exit(99);
        int own = syn_make("Upper", 0);
        if (syn_insert(ends[1], SYN_OUT, own) != -EPERM || syn_remove_all(ends[1], SYN_OUT) != -EPERM)
            _exit(1);
        _exit(write(ends[1], "user", 4) != 4);
    }
    equal(status_of(child), 0, "nor by the descriptor that he has");
    check(same(ends[0], "USER"), "the superuser's filter acts for him");
    syn_remove_all(ends[1], SYN_OUT);
    child = fork();
    if (child == 0) {
        if (setgid(1000) || setuid(1000))
            _exit(99);
        int own = syn_make("Upper", 0);
        _exit(syn_insert(ends[1], SYN_OUT, own) || write(ends[1], "own", 3) != 3);
    }
    equal(status_of(child), 0, "he may put one into what he has open");
    check(same(ends[0], "OWN"), "it acts for him");
    check(write(ends[1], "root", 4) == 4 && same(ends[0], "root"), "and does not deceive the superuser");
    close(ends[0]);
    close(ends[1]);

    /* Memory is the user's own. */
    child = fork();
    if (child == 0) {
        struct {
            unsigned long now, most;
        } limit = {4096, 4096};
        if (syscall(SYS_prlimit64, 0, 7, &limit, 0) || setgid(1000) || setuid(1000))
            _exit(99);
        long last = 0;
        for (int i = 0; i < 4000 && last >= 0; i++)
            last = syn_make("Queue", 4096);
        _exit(last == -ENOMEM || last == -EMFILE ? 0 : 1);
    }
    equal(status_of(child), 0, "a user has so many and no more");
    close(upper);
    close(second);
    close(gauge);
    close(queue);
}

/* Between two stages of any stream, by a quaject's number: the test `session` does it in a terminal. */
static void stages(void)
{
    int upper = syn_make("Upper", 0), tap = syn_make("Tap", 0), gauge = syn_make("Gauge", 0);
    int pump = syn_make("Pump", 0), queue = syn_make("Queue", 16);
    syn_link(pump, "output", queue, "Q_put");
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", pump);
    check(readlink(path, text, sizeof text - 1) > 0, "a pump");
    long number = atol(strchr(text, ':') ? strrchr(text, ':') + 1 : "");
    check(number > 0, "it has a number");
    equal(syn_between(number, "output", upper), 0, "a filter behind it");
    equal(syn_between(number, "output", upper), -EBUSY, "not twice");
    equal(syn_link(tap, "each", gauge, "count"), 0, "a tap");
    equal(syn_between(number, "output", tap), 0, "in front of it");
    check(shows("/syn/quajects", "output -> put"), "the interfacer shows it");
    equal(requests("quaject %ld output Upper", number), 0, "another by a request");
    equal(syn_between(number, "input", upper), -EPROTOTYPE, "none where bytes are fetched");
    equal(syn_between(number, "run", upper), -ENOENT, "none at a callentry");
    equal(syn_between(0, "output", upper), -ESRCH, "none at a quaject that is not there");
    pid_t child = fork();
    if (child == 0) {
        if (setgid(1000) || setuid(1000))
            _exit(99);
        _exit(syn_apart(number, "output", upper) != -EPERM || syn_between(number, "output", upper) != -EPERM);
    }
    equal(status_of(child), 0, "another user may neither put it there nor take it out");
    equal(syn_apart(number, "output", upper), 0, "it is taken out");
    equal(syn_apart(number, "output", upper), -ENOENT, "it is not there");
    equal(syn_apart(number, "output", tap), 0, "nor is the other");
    shows("/syn/quajects", "output -> put ");
    char *rest = strstr(shown, "    output -> put ");
    equal(requests("quaject %ld output off %ld", number, rest ? atol(rest + 18) : 0), 0, "nor the third");
    check(shows("/syn/quajects", "    output -> Q_put") && !strstr(shown, "    output -> put"),
          "the stages are as they were");
    close(pump);
    close(queue);
    close(upper);
    close(tap);
    close(gauge);
}

/* Between a terminal's editor and what shows its echo. */
static void echoes(void)
{
    int master, slave, upper = syn_make("Upper", 0);
    check(openpty(&master, &slave, 0, 0, 0) == 0, "a terminal");
    check(write(master, "typed", 5) == 5 && same(master, "typed"), "its echo");
    shows("/syn/quajects", "");
    char *editor = strstr(shown, "\n  CookTTYin ");
    long number = editor ? atol(editor + 13) : 0;
    check(number > 0, "an editor");
    equal(syn_between(number, "echo", upper), 0, "a filter for its echo");
    check(write(master, "loud", 4) == 4 && same(master, "LOUD"), "it passes");
    check(write(master, "\n", 1) == 1 && same(master, "\r\n") && same(slave, "typedloud\n"),
          "what is read is as it was typed");
    equal(syn_apart(number, "echo", upper), 0, "it is taken out");
    check(write(master, "soft", 4) == 4 && same(master, "soft"), "the echo is as it was");
    close(master);
    close(slave);
    close(upper);
}

#include "filters-streams.h"

int main(void)
{
    pipes();
    routines();
    files();
    others();
    waiting();
    shared();
    limited();
    hostile();
    stages();
    echoes();
    storm();
    crowd();
    forks();
    nothing_left();
    return done();
}

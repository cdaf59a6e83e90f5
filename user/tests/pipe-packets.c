/* Checks pipes of packets (pipe2 with O_DIRECT) as Linux has them; passes on Linux and must pass here.
 *
 * Interface: pipe-packets; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int polled(int fd)
{
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}

static char large[65536], back[65536];

static void plain(void)
{
    int p[2], left = -1;
    equal(pipe2(p, O_DIRECT | O_NONBLOCK | O_CLOEXEC), 0, "a pipe of packets");
    equal(fcntl(p[1], F_GETFL) & (O_DIRECT | O_NONBLOCK | O_ACCMODE), O_DIRECT | O_NONBLOCK | O_WRONLY,
          "as its writing end says");
    equal(fcntl(p[0], F_GETFL) & (O_DIRECT | O_NONBLOCK | O_ACCMODE), O_NONBLOCK | O_RDONLY,
          "and its reading end does not");
    fails(read(p[0], back, 10), EAGAIN, "nothing");
    equal(polled(p[0]), 0, "as poll sees it");
    equal(polled(p[1]), POLLOUT, "and that there is room");
    for (int round = 0; round < 3; round++) {
        write(p[1], "first", 5), write(p[1], "second", 6), write(p[1], "", 0), write(p[1], "3", 1);
        equal(polled(p[0]), POLLIN, "packets");
        equal(ioctl(p[0], FIONREAD, &left) == 0 && left == 12, 1, "their bytes");
        equal(read(p[0], back, 0), 0, "nothing asked for is nothing taken");
        equal(read(p[0], back, 64) == 5 && memcmp(back, "first", 5) == 0, 1, "one by one");
        equal(read(p[0], back, 3) == 3 && memcmp(back, "sec", 3) == 0, 1, "what is not read of one");
        equal(read(p[0], back, 64) == 1 && back[0] == '3', 1, "is gone");
        fails(read(p[0], back, 64), EAGAIN, "no more");
    }
    fails(write(p[1], (void *)8, 5), EFAULT, "from nowhere");
    write(p[1], "kept", 4);
    fails(read(p[0], (void *)8, 10), EFAULT, "to nowhere");
    equal(read(p[0], back, 64) == 4 && memcmp(back, "kept", 4) == 0, 1, "it is still there");
    struct iovec two[2] = {{"ab", 2}, {"cde", 3}};
    equal(writev(p[1], two, 2), 5, "from pieces");
    struct iovec into[2] = {{back, 4}, {back + 10, 10}};
    equal(readv(p[0], into, 2) == 5 && memcmp(back, "abcd", 4) == 0 && back[10] == 'e', 1,
          "into pieces: one packet");

    /* Long ones. */
    for (int i = 0; i < (int)sizeof large; i++)
        large[i] = i * 7 ^ i >> 8;
    equal(write(p[1], large, 4096), 4096, "a packet as long as may be");
    equal(read(p[0], back, sizeof back) == 4096 && memcmp(large, back, 4096) == 0, 1, "comes whole");
    equal(write(p[1], large, 10000), 10000, "a longer one");
    equal(read(p[0], back, sizeof back), 4096, "is several");
    equal(read(p[0], back + 4096, sizeof back - 4096), 4096, "one after the other");
    equal(read(p[0], back + 8192, sizeof back - 8192), 1808, "and the rest");
    equal(memcmp(large, back, 10000), 0, "as it was");
    int good = 0;
    for (int length = 1; length <= 4096; length += 37)
        good += write(p[1], large + length, length) == length && read(p[0], back, sizeof back) == length &&
                memcmp(large + length, back, length) == 0;
    equal(good, 4096 / 37 + 1, "of any length, at any place");
    int packets = 0, got = 0;
    while (write(p[1], large, 4096) == 4096)
        packets++;
    check(errno == EAGAIN && packets >= 8, "as many as fit");
    equal(polled(p[1]), 0, "then it is full");
    while (read(p[0], back, sizeof back) == 4096)
        got++;
    equal(got, packets, "all come");
    check(fcntl(p[1], F_SETPIPE_SZ, 16384) >= 16384, "another size");
    write(p[1], "one", 3), write(p[1], "two", 3);
    check(fcntl(p[1], F_SETPIPE_SZ, 131072) >= 131072, "with packets inside");
    equal(read(p[0], back, 64), 3, "they stay");
    equal(read(p[0], back, 64) == 3 && memcmp(back, "two", 3) == 0, 1, "what they were");
    write(p[1], "last", 4), write(p[1], "ones", 4);
    close(p[1]);
    equal(read(p[0], back, 64) + read(p[0], back, 64), 8, "what was written before the end");
    equal(read(p[0], back, 64), 0, "the end");
    close(p[0]);
    signal(SIGPIPE, SIG_IGN);
    pipe2(p, O_DIRECT);
    close(p[0]);
    fails(write(p[1], "x", 1), EPIPE, "nobody reads");
    close(p[1]);
    pipe(p);
    equal(fcntl(p[1], F_GETFL) & O_DIRECT, 0, "the next pipe is of bytes");
    write(p[1], "a", 1), write(p[1], "b", 1);
    equal(read(p[0], back, 64), 2, "which are together");
    close(p[0]), close(p[1]);
}

/* Between processes, each waiting for the other. */
static void across(void)
{
    enum { COUNT = 3000 };
    int p[2], status;
    pipe2(p, O_DIRECT);
    pid_t writers[2];
    fflush(stdout);
    for (int w = 0; w < 2; w++) {
        writers[w] = fork();
        if (writers[w] == 0) {
            char packet[4096];
            memset(packet, w, sizeof packet);
            close(p[0]);
            for (int i = 0; i < COUNT; i++) {
                int length = 8 + (i * 61) % 4000;
                memcpy(packet, &length, 4);
                if (write(p[1], packet, length) != length)
                    _exit(1);
            }
            _exit(0);
        }
    }
    close(p[1]);
    int whole = 0, length, bad = 0;
    ssize_t got;
    while ((got = read(p[0], back, sizeof back)) > 0) {
        memcpy(&length, back, 4);
        if (length != got || back[4] != back[got - 1])
            bad++;
        whole++;
    }
    equal(got, 0, "until both have ended");
    equal(whole, 2 * COUNT, "each packet of two writers comes once");
    equal(bad, 0, "and whole");
    for (int w = 0; w < 2; w++)
        waitpid(writers[w], &status, 0), equal(status, 0, "who wrote them is content");
    close(p[0]);
}

int main(void)
{
    plain();
    across();
    return done();
}

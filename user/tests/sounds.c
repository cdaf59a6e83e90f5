/* Sound: what is played, mixed, recorded and refused.
 *
 * Interface: sounds CASE; TAP on standard output. The host looks at the file of what was played
 * (suites/src/test/sounds.rs), and knows these sequences of frames, too.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define SPEAKER "/dev/speaker"
#define MIC "/dev/mic"
#define RATE 44100
#define FRAME 4

static uint32_t state = 1;

static uint32_t next(void)
{
    state = state * 1664525u + 1013904223u;
    return state;
}

/* Frames of a sequence that is silent nowhere. */
static void noise(int16_t *frames, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t value = next();
        frames[2 * i] = (int16_t)(value >> 16 | 1);
        frames[2 * i + 1] = (int16_t)(value >> 8);
    }
}

/* With several processors the host's load may make gaps. */
static int alone(void) { return sysconf(_SC_NPROCESSORS_ONLN) == 1; }

static int write_all(int fd, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t done = write(fd, at, count);
        if (done <= 0)
            return 0;
        at += done, count -= done;
    }
    return 1;
}

/* The number behind `name:` in the descriptor's information. */
static long said(int fd, const char *name)
{
    char path[64], line[128];
    long value = -1;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *info = fopen(path, "r");
    while (info && fgets(line, sizeof line, info))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            value = atol(line + strlen(name) + 1);
    if (info)
        fclose(info);
    return value;
}

static int16_t frames[2 * 2 * RATE];

/* Two seconds, in pieces of any length, also of odd bytes. */
static void ramp(void)
{
    int fd = open(SPEAKER, O_WRONLY), good = 1;
    check(fd >= 0, "a speaker");
    equal(said(fd, "rate"), RATE, "at its rate");
    noise(frames, 2 * RATE);
    const char *at = (const char *)frames, *end = at + sizeof frames;
    for (unsigned piece = 1; at < end && good; at += piece) {
        piece = piece * 7 % 5003 + 1;
        if (piece > end - at)
            piece = end - at;
        good = write_all(fd, at, piece);
    }
    check(good, "all is taken");
    if (alone())
        equal(said(fd, "xruns"), 0, "and it never runs dry");
    check(said(fd, "delay") > 4000 || !alone(), "much waits then");
    double begun = seconds();
    check(close(fd) == 0, "closed");
    double took = seconds() - begun;
    check((took > 0.09 && took < 0.3) || !alone(), "when it was heard");
}

/* A client that stops is silent, and plays on later. */
static void pauses(void)
{
    int fd = open(SPEAKER, O_WRONLY);
    check(fd >= 0, "a speaker");
    noise(frames, RATE / 4);
    check(write_all(fd, frames, RATE / 4 * FRAME), "a quarter of a second");
    usleep(700000);
    equal(said(fd, "xruns"), 1, "it has run dry once");
    noise(frames, RATE / 4);
    check(write_all(fd, frames, RATE / 4 * FRAME), "another one");
    check(close(fd) == 0, "closed");
}

/* A program that ends without closing is heard to its end. */
static void ending(void)
{
    noise(frames, RATE / 4);
    pid_t child = fork();
    if (child == 0) {
        int fd = open(SPEAKER, O_WRONLY);
        _exit(fd < 0 || !write_all(fd, frames, RATE / 4 * FRAME));
    }
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, "a program writes and ends");
}

/* Two clients: the first's samples are multiples of 256, the second's are from 1 to 100. */
static void player(int which, int count)
{
    int fd = open(SPEAKER, O_WRONLY);
    for (int i = 0; i < count; i++) {
        uint32_t value = next();
        int sample = which ? 1 + value % 100 : (int)(value >> 8 & 0x7f) * 256 - 64 * 256;
        if (!which && sample == 0)
            sample = 256;
        frames[2 * i] = frames[2 * i + 1] = (int16_t)sample;
    }
    _exit(!(fd >= 0 && write_all(fd, frames, count * FRAME) && close(fd) == 0));
}

static void two(void)
{
    pid_t first = fork();
    if (first == 0)
        player(0, RATE);
    usleep(200000);
    pid_t second = fork();
    if (second == 0)
        player(1, RATE / 4);
    equal(status_of(second), 0, "the second has played");
    equal(status_of(first), 0, "the first has played");
}

/* The sum of loud ones stays at the limit. */
static void loud(void)
{
    for (int i = 0; i < RATE; i++)
        frames[i] = i % 2 ? 30000 : -30000;
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            int fd = open(SPEAKER, O_WRONLY);
            _exit(!(fd >= 0 && write_all(fd, frames, RATE / 2 * FRAME) && close(fd) == 0));
        }
    }
    equal(status_of(pids[0]), 0, "one has played");
    equal(status_of(pids[1]), 0, "the other has played");
}

/* Programs compute beside one that writes short pieces. */
static void load(void)
{
    pid_t pids[6];
    for (int i = 0; i < 6; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            for (volatile long turn = 0;; turn++)
                ;
    }
    int fd = open(SPEAKER, O_WRONLY), good = 1;
    check(fd >= 0, "a speaker");
    for (int i = 0; i < 3 * RATE / 64 && good; i++) {
        noise(frames, 64);
        good = write_all(fd, frames, 64 * FRAME);
    }
    check(good, "all is taken");
    if (alone())
        equal(said(fd, "xruns"), 0, "and it never runs dry");
    /* The machine ends behind this; without it the last frames could be in a buffer of QEMU's then. */
    memset(frames, 0, sizeof frames);
    check(write_all(fd, frames, RATE / 2 * FRAME), "silence behind it");
    check(close(fd) == 0, "closed");
    for (int i = 0; i < 6; i++)
        kill_child(pids[i]);
}

/* The microphone of a machine that hears nothing. */
static void mic(void)
{
    int fd = open(MIC, O_RDONLY), heard = 0;
    static char bytes[RATE * FRAME];
    check(fd >= 0, "a microphone");
    double begun = seconds();
    size_t count = 0;
    while (count < sizeof bytes) {
        ssize_t got = read(fd, bytes + count, sizeof bytes - count);
        if (got <= 0)
            break;
        count += got;
    }
    double took = seconds() - begun;
    equal(count, sizeof bytes, "a second is recorded");
    check(took > 0.9 && took < 1.5, "and takes a second");
    for (size_t i = 0; i < sizeof bytes; i++)
        heard |= bytes[i];
    equal(heard, 0, "of silence");
    equal(said(fd, "xruns"), 0, "without a loss");
    usleep(500000);
    check(said(fd, "xruns") > 0, "one that is not read loses blocks");
    struct pollfd polled = {fd, POLLIN, 0};
    equal(poll(&polled, 1, 0), 1, "and can be read");
    check(read(fd, bytes, sizeof bytes) > 0, "what it kept");
    fails(write(fd, bytes, 4), EBADF, "a microphone is not written");
    close(fd);
    fails(open(MIC, O_RDWR), EACCES, "nor opened for it");
    int quick = open(MIC, O_RDONLY | O_NONBLOCK);
    fails(read(quick, bytes, 4), EAGAIN, "a new one has nothing yet");
    close(quick);
}

/* Figure 6.7: plays a disc, which has a second of the known sequence. Then one that is not read loses
 * frames. */
static void cd(void)
{
    char buf[100];
    ssize_t n;
    long total = 0;
    int fd1 = open("/dev/cd", O_RDONLY), fd2 = open(SPEAKER, O_WRONLY), good = 1;
    check(fd1 >= 0 && fd2 >= 0, "a disc and a speaker");
    fails(open("/dev/cd", O_RDONLY), EBUSY, "there is one drive");
    double begun = seconds();
    while ((n = read(fd1, buf, sizeof buf)) > 0) {
        good &= write(fd2, buf, n) == n;
        total += n;
    }
    double took = seconds() - begun;
    check(n == 0 && good, "until the end of the disc");
    equal(total, RATE * FRAME, "all of it");
    check(took > 0.9 && took < 1.2, "at the disc's rate");
    equal(said(fd1, "lost"), 0, "and nothing is lost");
    close(fd1), close(fd2);
    fd1 = -1;
    for (int i = 0; i < 100 && fd1 < 0; i++, usleep(10000))
        fd1 = open("/dev/cd", O_RDONLY);
    usleep(600000);
    check(said(fd1, "lost") > RATE / 4, "a disc does not wait for its reader");
    check(read(fd1, buf, sizeof buf) == sizeof buf, "who has what came first");
    close(fd1);
    fails(open("/dev/cd", O_WRONLY), EACCES, "and is not written");
}

/* Wrong and too many calls. */
static void flood(void)
{
    int fds[64], count = 0;
    fails(open(SPEAKER, O_RDONLY), EACCES, "a speaker is not read");
    fails(open(SPEAKER, O_RDWR), EACCES, "nor both");
    while (count < 64 && (fds[count] = open(SPEAKER, O_WRONLY | O_NONBLOCK)) >= 0)
        count++;
    check(errno == EBUSY, "there are not any number of them");
    equal(count, 16, "but sixteen");
    int full = 0;
    noise(frames, RATE);
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < count; i++) {
            ssize_t done = write(fds[i], frames, next() % 20000);
            full += done < 0 && errno == EAGAIN;
        }
    check(full > 0, "full ones say so");
    int strange = 0;
    for (int i = 0; i < 20000; i++) {
        int fd = fds[next() % count];
        uint32_t command = next() % 3 ? next() : (next() & 0xc03f0000u) | 'P' << 8 | next() % 32;
        strange += ioctl(fd, command, next() % 2 ? (void *)frames : (void *)(uintptr_t)next()) > 0;
    }
    check(strange >= 0, "any controls");
    struct pollfd polled = {fds[0], POLLOUT, 0};
    equal(poll(&polled, 1, 1000), 1, "there is room again");
    fails(lseek(fds[0], 0, SEEK_SET), ESPIPE, "no place to go to");
    char *volatile nowhere = (char *)8;
    fails(write(fds[0], nowhere, 64), EFAULT, "bytes that are not there");
    for (int i = 0; i < count; i++)
        close(fds[i]);
    int fd = -1;
    for (int i = 0; i < 200 && fd < 0; i++, usleep(10000))
        fd = open(SPEAKER, O_WRONLY);
    check(fd >= 0, "and there is a place again");
    for (int i = 0; i < 300; i++) {
        int again = open(SPEAKER, O_WRONLY);
        if (again >= 0)
            close(again);
    }
    check(write_all(fd, frames, RATE / 4 * FRAME), "while others come and go");
    pid_t child = fork();
    if (child == 0) {
        write_all(fd, frames, sizeof frames);
        _exit(0);
    }
    usleep(100000);
    kill_child(child);
    check(close(fd) == 0, "and one that is killed");
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"cd", cd},     {"ramp", ramp}, {"pauses", pauses}, {"ending", ending}, {"two", two},
    {"loud", loud}, {"load", load}, {"mic", mic},       {"flood", flood},
};

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        for (size_t at = 0; at < sizeof cases / sizeof *cases; at++)
            if (strcmp(argv[i], cases[at].name) == 0)
                cases[at].run();
    return done();
}

/* The choice of the process that ends when memory is out: oom_score_adj moves what a process holds, and
 * oom_score shows it.
 *
 * Interface: oom-score; TAP on standard output. As root, on a machine whose memory may run out.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L
#define MIB (1L << 20)

static long score_of(pid_t pid)
{
    char name[64], text[32] = "";
    snprintf(name, sizeof name, "/proc/%d/oom_score", pid);
    int fd = open(name, O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 1)
        return -1;
    close(fd);
    return atol(text);
}

/* A process that cannot say how it wants to be treated would be treated as any other. */
static void adjust(int thousandths)
{
    char text[16];
    int fd = open("/proc/self/oom_score_adj", O_WRONLY), len = sprintf(text, "%d", thousandths);
    if (fd < 0 || write(fd, text, len) != len)
        _exit(98);
    close(fd);
}

/* Numbers that are no adjustment are refused and change nothing. */
static void limits(void)
{
    static const char *const beyond[] = {"1001", "-1001", "2147483647", "-2147483648", "x"};
    char text[16] = "";
    int fd = open("/proc/self/oom_score_adj", O_RDWR);
    check(write(fd, "7", 1) == 1, "seven is taken");
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        fails(pwrite(fd, beyond[i], strlen(beyond[i]), 0), EINVAL, beyond[i]);
    check(pread(fd, text, sizeof text - 1, 0) > 0 && strcmp(text, "7\n") == 0, "it is seven still");
    check(pwrite(fd, "0", 1, 0) == 1, "back to none");
    close(fd);
}

static int adjustment(void)
{
    char text[16] = "";
    int fd = open("/proc/self/oom_score_adj", O_RDONLY);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    return length > 0 ? atoi(text) : -9999;
}

/* The old scale, from -17 to 15, is the same adjustment. */
static void old_scale(void)
{
    static const struct {
        const char *old;
        int adjustment;
    } pairs[] = {{"8", 470}, {"14", 823}, {"15", 1000}, {"-17", -1000}, {"-1", -58}, {"0", 0}};
    static const struct {
        int adjustment;
        const char *old;
    } shown[] = {{1000, "15\n"}, {999, "15\n"},    {500, "8\n"},
                 {-500, "-8\n"}, {-1000, "-17\n"}, {0, "0\n"}};
    char text[16], name[64];
    int fd = open("/proc/self/oom_adj", O_RDWR);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        snprintf(name, sizeof name, "%s is %d", pairs[i].old, pairs[i].adjustment);
        ssize_t length = strlen(pairs[i].old);
        int done = pwrite(fd, pairs[i].old, length, 0) == length;
        equal(done ? adjustment() : -9999, pairs[i].adjustment, name);
    }
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        snprintf(name, sizeof name, "%d is shown on the old scale", shown[i].adjustment);
        adjust(shown[i].adjustment);
        memset(text, 0, sizeof text);
        check(pread(fd, text, sizeof text - 1, 0) > 0 && strcmp(text, shown[i].old) == 0, name);
    }
    fails(pwrite(fd, "16", 2, 0), EINVAL, "sixteen is beyond it");
    fails(pwrite(fd, "-18", 3, 0), EINVAL, "and -18");
    close(fd);
}

static char *room(long bytes)
{
    char *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        _exit(97);
    return at;
}

/* A child that holds `bytes` and waits to be ended; it does hold them when this returns. `alive` can be
 * read at its end. */
static pid_t bystander(int adjustment, long bytes, int *alive)
{
    int held[2];
    char byte;
    if (pipe(held))
        exit(2);
    pid_t child = fork();
    if (child == 0) {
        close(held[0]);
        adjust(adjustment);
        memset(room(bytes), 1, bytes);
        if (write(held[1], "h", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(held[1]);
    equal(read(held[0], &byte, 1), 1, "one holds some memory");
    *alive = held[0];
    return child;
}

/* A child that takes memory until it is ended, or another is, whose `alive` then says so. */
static pid_t hog(int adjustment, int alive)
{
    pid_t child = fork();
    if (child == 0) {
        struct sysinfo info;
        struct pollfd other = {.fd = alive};
        sysinfo(&info);
        long half = info.totalram * info.mem_unit / 2 & -PAGE;
        char *at[] = {room(half), room(half), room(half)};
        adjust(adjustment);
        for (long i = 0; i < 3 * half; i += PAGE) {
            at[i / half][i % half] = 1;
            if (poll(&other, 1, 0) == 1)
                _exit(0);
        }
        _exit(96);
    }
    return child;
}

static int ended(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* One that holds little and one that takes all there is: how each ends. */
static void rivals(int light, int heavy, int light_ends, const char *name)
{
    int alive;
    pid_t small = bystander(light, 4 * MIB, &alive);
    pid_t large = hog(heavy, alive);
    equal(ended(large), light_ends ? 0 : -SIGKILL, name);
    kill(small, SIGTERM);
    equal(ended(small), light_ends ? -SIGKILL : -SIGTERM, "and the other does not");
    close(alive);
}

static void scores(void)
{
    static const int adjustments[] = {-1000, -999, 0, 300, 1000};
    long score[5];
    int alive;
    for (int i = 0; i < 5; i++) {
        pid_t child = bystander(adjustments[i], MIB, &alive);
        score[i] = score_of(child);
        kill(child, SIGKILL);
        ended(child);
        close(alive);
    }
    equal(score[0], 0, "one that is spared has no points");
    check(score[1] < score[2] && score[2] < score[3] && score[3] < score[4], "an adjustment moves them");
    check(score[2] >= 666 && score[2] < 1000, "two thirds of a thousand are those of one that holds little");
    check(score[3] - score[2] >= 198 && score[3] - score[2] <= 202,
          "a thousandth of memory is two thirds of a point");
    check(score[4] >= 1332 && score[4] <= 2000, "all memory is worth a thousand");
}

static void weights(void) { rivals(0, 0, 0, "alike: who holds most ends"); }

static void first(void) { rivals(1000, 0, 1, "1000: who wants to be first ends, however little it holds"); }

static void last(void) { rivals(0, -1000, 1, "-1000: who is spared goes on, however much it takes"); }

static void part(void) { rivals(100, 0, 0, "100: one that holds less, with so much added, goes on"); }

/* With nobody else left one that is spared ends, for otherwise nothing would ever go on. */
static void alone(void)
{
    int none[2];
    if (pipe(none))
        exit(2);
    equal(ended(hog(-1000, none[0])), -SIGKILL, "-1000, with nobody else: it ends all the same");
    close(none[0]), close(none[1]);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"limits", limits}, {"old-scale", old_scale}, {"scores", scores}, {"weights", weights},
        {"first", first},   {"last", last},           {"part", part},     {"alone", alone},
    };
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

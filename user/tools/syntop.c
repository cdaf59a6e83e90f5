/* syntop: the threads, what they get of the processors, and the data that decides it, as they change.
 *
 * Interface: syntop [-b] [-n COUNT] [-d SECONDS]. On a terminal it fills the screen until `q` is pressed;
 * with -b, or when its output is no terminal, it prints text (-n pictures of it, otherwise without end).
 * Threads are in the order of the time that they have just used. It reads /syn/sched, and /proc/loadavg for
 * the first line. Status 2: wrong options; 1: there is no /syn/sched.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { CHANNELS = 8, WIDEST = 256 };

struct channel {
    char side;
    unsigned long held, size, passed;
    long xruns;
    double rate;
};

struct thread {
    int number, process, cpu, level, settled, channels;
    char state[12], name[64];
    unsigned long own, quantum, used, switches;
    double share;
    struct channel channel[CHANNELS];
};

struct sample {
    double at;
    int count, room;
    struct thread *threads;
};

static volatile sig_atomic_t ended;
static struct termios before;
static int screen;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void restore(void)
{
    if (screen) {
        static const char leave[] = "\033[?25h\033[?1049l";
        tcsetattr(0, TCSANOW, &before);
        if (write(1, leave, sizeof leave - 1) < 0)
            return;
    }
    screen = 0;
}

static void fail(const char *what)
{
    restore();
    fprintf(stderr, "syntop: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The channels of a thread, from a list as in /syn/sched. */
static void read_channels(struct thread *thread, char *list)
{
    thread->channels = 0;
    for (char *part = strtok(list, ","); part && thread->channels < CHANNELS; part = strtok(0, ",")) {
        struct channel *channel = &thread->channel[thread->channels];
        channel->rate = 0, channel->xruns = -1;
        if (sscanf(part, "%c:%lu/%lu:%lu:%ld", &channel->side, &channel->held, &channel->size,
                   &channel->passed, &channel->xruns) >= 4)
            thread->channels++;
    }
}

static int by_number(const void *left, const void *right)
{
    const struct thread *a = left, *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

static int by_share(const void *left, const void *right)
{
    const struct thread *a = left, *b = right;
    int order = (a->share < b->share) - (a->share > b->share);
    return order ? order : by_number(left, right);
}

static void take(struct sample *sample)
{
    char line[1024], list[512];
    FILE *file = fopen("/syn/sched", "re");
    if (!file)
        fail("/syn/sched");
    sample->count = 0;
    sample->at = now();
    while (fgets(line, sizeof line, file)) {
        if (sample->count == sample->room) {
            int room = sample->room * 2 + 64;
            void *more = realloc(sample->threads, room * sizeof *sample->threads);
            if (!more)
                fail("memory");
            sample->threads = more;
            sample->room = room;
        }
        struct thread *thread = &sample->threads[sample->count];
        thread->name[0] = 0;
        if (sscanf(line, "%d %d %d %d %11s %lu %lu %d %lu %lu %511s %63[^\n]", &thread->number,
                   &thread->process, &thread->cpu, &thread->level, thread->state, &thread->own,
                   &thread->quantum, &thread->settled, &thread->used, &thread->switches, list,
                   thread->name) < 11)
            continue;
        read_channels(thread, list);
        sample->count++;
    }
    fclose(file);
    qsort(sample->threads, sample->count, sizeof *sample->threads, by_number);
}

/* Each thread's CPU time, and the flow in its channels, since `old`. */
static void compare(const struct sample *old, struct sample *new)
{
    double passed = new->at - old->at;
    for (int i = 0; i < new->count; i++) {
        struct thread *thread = &new->threads[i];
        const struct thread *same =
            old->count ? bsearch(thread, old->threads, old->count, sizeof *thread, by_number) : 0;
        unsigned long used = same && same->process == thread->process ? same->used : 0;
        thread->share = passed > 0 && thread->used > used ? (thread->used - used) / passed / 1e7 : 0;
        for (int n = 0; same && n < thread->channels && n < same->channels && passed > 0; n++) {
            struct channel *channel = &thread->channel[n];
            const struct channel *was = &same->channel[n];
            if (channel->side == was->side && channel->size == was->size && channel->passed >= was->passed)
                channel->rate = (channel->passed - was->passed) / passed;
        }
    }
    qsort(new->threads, new->count, sizeof *new->threads, by_share);
}

static int width = 80, height = 24, printed;

/* A line of the picture, cut to the width of the screen. */
static void line(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (screen && printed >= height)
        return;
    if (screen)
        printf("%s%.*s\033[K", printed ? "\r\n" : "", width, text);
    else
        printf("%s\n", text);
    printed++;
}

/* A number of bytes in at most four letters. */
static const char *bytes(double number, char *text, size_t room)
{
    static const char units[] = " kMGTP";
    int unit = 0;
    for (; number >= 1000 && units[unit + 1]; unit++)
        number /= 1024;
    snprintf(text, room, unit && number < 9.95 ? "%.1f%.1s" : "%.0f%.1s", number, unit ? units + unit : "");
    return text;
}

static void show(const struct sample *sample, double passed)
{
    char load[64] = "", when[16];
    double all = 0;
    int ready = 0;
    FILE *file = fopen("/proc/loadavg", "re");
    if (file) {
        if (!fgets(load, sizeof load, file))
            load[0] = 0;
        load[strcspn(load, "\n")] = 0;
        fclose(file);
    }
    for (int i = 0; i < sample->count; i++) {
        all += sample->threads[i].share;
        ready += strcmp(sample->threads[i].state, "ready") == 0;
    }
    time_t clock = time(0);
    strftime(when, sizeof when, "%H:%M:%S", localtime(&clock));
    struct winsize size;
    if (screen && ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
        width = size.ws_col, height = size.ws_row;
    printed = 0;
    if (screen)
        fputs("\033[H", stdout);
    line("syntop %s  %d threads, %d ready  CPU %.1f%% of the last %.1f s  load %s", when, sample->count,
         ready, all, passed, load);
    line("%6s %7s %3s %5s %-7s %5s %7s %7s %5s  %-15s %s", "thread", "process", "cpu", "level", "state",
         "CPU%", "own us", "turn us", "share", "name", "channels: fill, flow");
    for (int i = 0; i < sample->count; i++) {
        const struct thread *thread = &sample->threads[i];
        char list[WIDEST] = "", rate[16], room[16];
        for (int n = 0, at = 0; n < thread->channels && at < WIDEST - 48; n++) {
            const struct channel *channel = &thread->channel[n];
            at += snprintf(list + at, sizeof list - at, "%s%s %lu%% of %s %s/s", n ? ", " : "",
                           channel->side == 'r' ? "in" : "out",
                           channel->size ? channel->held * 100 / channel->size : 0,
                           bytes(channel->size, room, sizeof room), bytes(channel->rate, rate, sizeof rate));
            if (channel->xruns >= 0 && at < WIDEST)
                at += snprintf(list + at, sizeof list - at, " %ld xruns", channel->xruns);
        }
        line("%6d %7d %3d %5d %-7s %5.1f %7lu %7lu %4d%%  %-15s %s", thread->number, thread->process,
             thread->cpu, thread->level, thread->state, thread->share, thread->own / 1000,
             thread->quantum / 1000, thread->settled, thread->name, list);
    }
    if (screen)
        fputs("\033[J", stdout);
    else
        putchar('\n');
    if (fflush(stdout) != 0)
        fail("output");
}

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

static void resized(int signal) { (void)signal; }

/* Lets `seconds` pass: 1 when a key or a signal ends the program, 0 when there is a new picture to be
 * made. */
static int rest(double seconds)
{
    for (double until = now() + seconds; !ended;) {
        double left = until - now();
        struct pollfd keys = {.fd = screen ? 0 : -1, .events = POLLIN};
        int some = left > 0 ? poll(&keys, 1, (int)(left < 1e6 ? left * 1000 + 1 : 1e9)) : 0;
        char key;
        if (some > 0) {
            if (read(0, &key, 1) <= 0 || key == 'q' || key == 'Q' || key == 3)
                return 1;
            return 0;
        }
        /* The size of the screen has changed, or the time is over. */
        if (some == 0 || errno != EINTR || screen)
            return ended;
    }
    return 1;
}

static void usage(void)
{
    fputs("usage: syntop [-b] [-n COUNT] [-d SECONDS]\n", stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    int batch = !isatty(0) || !isatty(1), option;
    long count = -1;
    double delay = 1;
    char *rest_of;
    while ((option = getopt(argc, argv, "bn:d:")) != -1)
        switch (option) {
        case 'b':
            batch = 1;
            break;
        case 'n':
            count = strtol(optarg, &rest_of, 10);
            if (*rest_of || rest_of == optarg || count < 1)
                usage();
            break;
        case 'd':
            delay = strtod(optarg, &rest_of);
            if (*rest_of || rest_of == optarg || !(delay >= 0.01 && delay <= 1e6))
                usage();
            break;
        default:
            usage();
        }
    if (optind != argc)
        usage();
    static struct sample samples[2];
    take(&samples[0]);
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGINT, &action, 0);
    sigaction(SIGTERM, &action, 0);
    sigaction(SIGHUP, &action, 0);
    action.sa_handler = resized;
    sigaction(SIGWINCH, &action, 0);
    if (!batch && tcgetattr(0, &before) == 0) {
        struct termios raw = before;
        raw.c_lflag &= ~(ICANON | ECHO | ISIG);
        screen = 1;
        tcsetattr(0, TCSANOW, &raw);
        fputs("\033[?1049h\033[?25l", stdout);
    }
    /* The first picture needs two samples, and should not keep anybody waiting. */
    for (double wait = delay < 0.2 ? delay : 0.2; count != 0 && !rest(wait); wait = delay) {
        struct sample *old = &samples[0], *new = &samples[1], other;
        take(new);
        compare(old, new);
        show(new, new->at - old->at);
        qsort(new->threads, new->count, sizeof *new->threads, by_number);
        other = *old, *old = *new, *new = other;
        count -= count > 0;
    }
    restore();
    return 0;
}

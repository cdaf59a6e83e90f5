/* Checks the texts about the scheduler: /syn/sched, the recorder, /syn/trace, and the program that shows
 * them, syntop.
 *
 * Interface: traces [GROUP...] runs all groups or those named, as root; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "loaded-stream.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { USER = 1000, ROOM = 1 << 20 };
static char text[ROOM];

/* The whole text of a file, in `text`; its length, or -1. */
static long whole(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    long length = 0, count = 0;
    while (fd >= 0 && (count = read(fd, text + length, ROOM - 1 - length)) > 0)
        length += count;
    text[length] = 0;
    if (fd >= 0)
        close(fd);
    return fd < 0 || count < 0 ? -1 : length;
}

/* A thread's line of /syn/sched, or an event. */
struct line {
    long time, thread, process, own, quantum, settled, need, used;
    char channels[256], name[64];
};

static int sched_line(const char *from, struct line *line)
{
    return sscanf(from, "%ld %ld %*d %*d %*s %ld %ld %ld %ld %*d %255s %63[^\n]", &line->thread,
                  &line->process, &line->own, &line->quantum, &line->settled, &line->used, line->channels,
                  line->name) == 8;
}

static int event_line(const char *from, struct line *line)
{
    char need[16];
    int count = sscanf(from, "%ld %*d %ld %ld %ld %ld %ld %15s %ld %255s %63[^\n]", &line->time,
                       &line->process, &line->thread, &line->own, &line->quantum, &line->settled, need,
                       &line->used, line->channels, line->name);
    line->need = strcmp(need, "-") == 0 ? -1000 : atol(need);
    return count == 10;
}

/* The line of a process in /syn/sched. */
static int find(pid_t process, struct line *line)
{
    if (whole("/syn/sched") < 0)
        return 0;
    for (char *at = strchr(text, '\n'); at && at[1]; at = strchr(at + 1, '\n'))
        if (sched_line(at + 1, line) && line->process == process)
            return 1;
    return 0;
}

static pid_t begin(const char *name, void (*body)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, name);
        body();
        _exit(0);
    }
    return pid;
}

static void pass(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, 0);
}

static void wait_for_ever(void)
{
    for (;;)
        pause();
}

static void sched(void)
{
    static const char heading[] =
        "thread process cpu level state own quantum settled used switches channels name\n";
    struct line line;
    check(whole("/syn/sched") > 0 && strncmp(text, heading, strlen(heading)) == 0,
          "the first line names the fields");
    int lines = 0, good = 0;
    for (char *at = strchr(text, '\n'); at && at[1]; at = strchr(at + 1, '\n'))
        lines++, good += sched_line(at + 1, &line);
    check(lines > 0 && good == lines, "each line has them");
    check(find(getpid(), &line) && line.own == line.quantum && line.settled == 100,
          "a thread without need has its own quantum");
    check(line.own == 400000 && line.used > 0, "in nanoseconds");
    pid_t odd = begin("a b\n1 1", wait_for_ever);
    until_asleep(odd);
    check(find(odd, &line) && strcmp(line.name, "a b?1 1") == 0, "a name has blanks, and no line of its own");
    kill_child(odd);
    check(pipe(channel) == 0 && write(channel[1], text, 100) == 100 && read(channel[0], text, 30) == 30,
          "a pipe");
    char wanted[64];
    check(find(getpid(), &line), "a thread with a pipe");
    snprintf(wanted, sizeof wanted, "r:70/65536:30,w:70/65536:100");
    check(strstr(line.channels, wanted) != 0, "both ends with fill, room and what has passed");
    printf("# %s\n", line.channels);
    close(channel[0]), close(channel[1]);
}

static void rights(void)
{
    struct line line;
    pid_t root = getpid(), child = fork();
    if (child == 0) {
        if (syscall(SYS_setgroups, 0, 0) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
            _exit(100);
        int wrong = prctl(PR_SET_DUMPABLE, 1) != 0;
        wrong |= (open("/syn/trace", O_RDONLY) >= 0 || errno != EACCES) << 1;
        wrong |= (tell("on") != -1 || errno != EACCES) << 2;
        wrong |= find(root, &line) << 3;
        wrong |= !find(getpid(), &line) << 4;
        _exit(wrong);
    }
    equal(status_of(child), 0, "another user has its own threads only, and no recorder");
    fails(tell("nonsense"), EINVAL, "a command that there is not");
    fails(tell(""), EINVAL, "nor an empty one");
}

/* The events of `process`. */
struct seen {
    long events, most, least, needs, fills, first, full;
};

static struct seen see(pid_t process, long since)
{
    struct seen seen = {.least = 1L << 62};
    struct line line;
    for (char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : 0) {
        if (*at == '#' || !event_line(at, &line) || line.process != process || line.time < since)
            continue;
        seen.events++;
        seen.most = line.quantum > seen.most ? line.quantum : seen.most;
        seen.least = line.quantum < seen.least ? line.quantum : seen.least;
        seen.needs += line.need > 0;
        seen.fills += strchr(line.channels, '/') != 0;
        if (!seen.first)
            seen.first = line.time;
        if (line.quantum >= 2 * line.own && !seen.full)
            seen.full = line.time;
    }
    return seen;
}

/* Lines of the text, and whether each is an event of a later time, or says how many were lost. */
static long events(long *lost)
{
    long count = 0, good = 1, last = 0, part;
    struct line line;
    *lost = 0;
    for (char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : 0) {
        if (sscanf(at, "# lost %ld", &part) == 1)
            *lost += part;
        if (*at == '#')
            continue;
        good &= event_line(at, &line) && line.time >= last;
        last = line.time;
        count++;
    }
    return good ? count : -1;
}

static void trace(void)
{
    long lost, length;
    check(whole("/syn/trace") > 0 && strncmp(text, "# quanta 1 off ", 15) == 0, "the recorder is off");
    equal(events(&lost), 0, "and has no event");
    check(pipe(channel) == 0 && tell("on") == 0, "it is on");
    pid_t pids[4] = {begin("consumer", consume), begin("producer", produce), begin("spinner", spin),
                     begin("spinner", spin)};
    close(channel[0]), close(channel[1]);
    pass(150);
    check(tell("off\n") == 0, "it is off again");
    for (int i = 0; i < 4; i++)
        kill_child(pids[i]);
    length = whole("/syn/trace");
    long count = events(&lost);
    printf("# %ld events, %ld lost\n", count, lost);
    check(count > 100 && lost == 0 && strncmp(text, "# quanta 1 off ", 15) == 0,
          "it has the events, in the order of time");
    struct seen consumer = see(pids[0], 0), spinner = see(pids[2], 0);
    printf("# consumer: %ld events, %ld with need, longest %ld, twice its own after %ld\n", consumer.events,
           consumer.needs, consumer.most, consumer.full - consumer.first);
    check(consumer.events > 10 && consumer.needs > 5 && consumer.fills == consumer.events,
          "a consumer whose queue is full shows need");
    check(consumer.most == 1600000, "and gets up to four times its own quantum");
    check(consumer.full && consumer.full - consumer.first <= 5000000, "twice its own within 5 ms");
    check(spinner.events > 10 && spinner.most == 400000 && spinner.least == 400000,
          "a thread without channels has its own");
    equal(whole("/syn/trace"), length, "what was recorded can be read again");
    check(tell("on") == 0 && tell("off") == 0 && whole("/syn/trace") > 0, "it is on and off again");
    check(events(&lost) < count && see(pids[0], 0).events == 0, "and has forgotten what there was");
}

/* More events than are kept: the oldest are forgotten, and the text says how many. */
static void loss(void)
{
    /* As many as make each turn one quantum. */
    enum { SIZE = 2048, SPINNERS = 34 };
    long lost;
    int fd;
    check(tell("on") == 0, "it is on");
    pid_t pids[SPINNERS];
    for (int i = 0; i < SPINNERS; i++)
        pids[i] = begin("spinner", spin);
    pass(400);
    check((fd = open("/syn/trace", O_RDONLY)) >= 0, "its text is opened");
    pass(700);
    check(whole("/syn/trace") > 0, "and read later by another");
    long count = events(&lost);
    printf("# %ld events, %ld lost\n", count, lost);
    check(count > 1000 && count <= SIZE && lost > 0, "it keeps the latest, and tells how many were lost");
    long length = 0, some = 0;
    while ((some = read(fd, text + length, ROOM - 1 - length)) > 0)
        length += some;
    text[length] = 0;
    count = events(&lost);
    printf("# %ld events, %ld lost\n", count, lost);
    check(some == 0 && count >= 0 && count < SIZE && lost > 0,
          "a text has nothing that came after it was opened");
    close(fd);
    check(tell("off") == 0, "it is off again");
    for (int i = 0; i < SPINNERS; i++)
        kill_child(pids[i]);
    check(tell("on") == 0 && tell("off") == 0, "and forgets");
}

/* The output of a program, in `text`, and its status. */
static int output_of(char *const *words)
{
    int ends[2];
    long length = 0, count;
    if (pipe(ends) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1), dup2(ends[1], 2);
        close(ends[0]), close(ends[1]);
        execv(words[0], words);
        _exit(127);
    }
    close(ends[1]);
    while ((count = read(ends[0], text + length, ROOM - 1 - length)) > 0)
        length += count;
    text[length] = 0;
    close(ends[0]);
    return status_of(pid);
}

#define OUTPUT(...) output_of((char *const[]){"/usr/bin/syntop", __VA_ARGS__, 0})

/* How often `what` is in the text. */
static int times(const char *what)
{
    int count = 0;
    for (char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* The fullest input of 64 KiB, in percent. */
static int fullest(void)
{
    int most = -1, percent, end;
    for (char *at = text; (at = strstr(at, "in ")); at++) {
        end = 0;
        if (sscanf(at, "in %d%% of 64k%n", &percent, &end) == 1 && end > 0 && percent > most)
            most = percent;
    }
    return most;
}

static void batch(void)
{
    check(pipe(channel) == 0, "a pipe");
    pid_t pids[3] = {begin("consumer", consume), begin("producer", produce), begin("spinner", spin)};
    close(channel[0]), close(channel[1]);
    pass(100);
    equal(OUTPUT("-b", "-n", "2", "-d", "0.1"), 0, "syntop prints");
    for (int i = 0; i < 3; i++)
        kill_child(pids[i]);
    equal(times(" threads, "), 2, "two pictures");
    equal(times(" consumer "), 2, "each has a consumer");
    check(fullest() >= 40, "with its queue, which is at least about half full");
    check(times(" 1600 ") > 0, "and its turn");
    char *consumer = strstr(text, " consumer "), *spinner = strstr(text, " spinner ");
    check(consumer && spinner && consumer < spinner, "the thread with the most CPU time comes first");
    printf("# %.400s\n", strchr(text, '\n') ? strchr(text, '\n') + 1 : text);
    equal(OUTPUT("-n", "0"), 2 << 8, "no pictures are not asked for");
    equal(OUTPUT("-d", "x"), 2 << 8, "nor a time that is none");
    equal(OUTPUT("more"), 2 << 8, "nor anything more");
}

/* Reads from `fd` until `what` has come: within ten seconds. */
static int comes(int fd, const char *what)
{
    long length = 0;
    for (double end = seconds() + 10; seconds() < end;) {
        struct pollfd ready = {fd, POLLIN, 0};
        if (poll(&ready, 1, 100) != 1)
            continue;
        long count = read(fd, text + length, ROOM - 1 - length);
        if (count <= 0)
            return 0;
        length += count;
        text[length] = 0;
        if (strstr(text, what))
            return 1;
    }
    return 0;
}

static void screen(void)
{
    struct winsize size = {.ws_row = 10, .ws_col = 28};
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    check(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0 &&
              ioctl(master, TIOCSWINSZ, &size) == 0,
          "a terminal");
    const char *name = ptsname(master);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        int fd = open(name, O_RDWR);
        dup2(fd, 0), dup2(fd, 1), dup2(fd, 2);
        execl("/usr/bin/syntop", "syntop", "-d", "1000", (char *)0);
        _exit(127);
    }
    check(comes(master, "\033[J"), "a picture");
    check(strstr(text, "syntop ") && strstr(text, "level state") == 0 &&
              strstr(text, "thread process cpu level"),
          "lines are cut to its width");
    size.ws_col = 70;
    check(ioctl(master, TIOCSWINSZ, &size) == 0 && comes(master, "\033[J"),
          "another when its size has changed");
    check(strstr(text, "level state") != 0, "which is wider");
    check(write(master, " ", 1) == 1 && comes(master, "\033[J"), "another when a key is pressed");
    check(write(master, "q", 1) == 1 && comes(master, "\033[?1049l"), "`q` gives the screen back");
    equal(status_of(pid), 0, "and ends it");
    close(master);
}

static const struct group groups[] = {
    {"sched", sched}, {"rights", rights}, {"trace", trace},
    {"loss", loss},   {"batch", batch},   {"screen", screen},
};

int main(int argc, char **argv)
{
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

/* Goes along the kernel's usual paths and shows what it is made of there: a line typed and read, a terminal's
 * output, a pipe, a file, `/dev/null`, a timer, a queue of a program's own.
 *
 * Interface: chains [streams], as user 0, with a terminal at which a line is typed, or with streams that
 * bring one. It prints `path NAME` before the text of the routines of each descriptor's path, `index` before
 * /syn/code/index, `pump` and `echo` before the listings of pumps and of editors' echo, `quajects` before
 * /syn/quajects, `links` before /syn/links, and `end`. The descriptors stay open meanwhile.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "synthesis.h"

enum { TIMES = 40 };
static char bytes[4096], text[1 << 20];

static void must(int good, const char *what)
{
    if (!good)
        printf("fail %s\n", what);
}

/* Prints a text of the kernel; whether there is one. */
static int show(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;
    size_t count = 0;
    if (fd < 0)
        return 0;
    while (count < sizeof text - 1 && (got = read(fd, text + count, sizeof text - 1 - count)) > 0)
        count += (size_t)got;
    text[count] = 0;
    close(fd);
    fputs(text, stdout);
    return 1;
}

static void routine(const char *name, int fd, const char *call)
{
    char path[64];
    snprintf(path, sizeof path, "/syn/code/self/%d/%s", fd, call);
    printf("path %s\n", name);
    must(show(path), name);
}

/* The listings of a class: its routines' entries are in the index. */
static void listings(const char *name, const char *class)
{
    char line[256], path[64];
    unsigned long entry;
    FILE *index = fopen("/syn/code/index", "r");
    printf("%s\n", name);
    while (index && fgets(line, sizeof line, index))
        if (strstr(line, class) && sscanf(line, "%lx", &entry) == 1) {
            snprintf(path, sizeof path, "/syn/code/at/%016lx", entry);
            show(path);
        }
    if (index)
        fclose(index);
}

/* The kernel's texts about its code. */
static int record(void)
{
    printf("index\n");
    show("/syn/code/index");
    printf("quajects\n");
    show("/syn/quajects");
    printf("links\n");
    show("/syn/links");
    printf("end\n");
    return 0;
}

/* The first process's input and output where they are no terminal. */
static int streams(void)
{
    must(read(0, bytes, sizeof bytes) == 5, "read");
    for (int i = 0; i < TIMES; i++)
        must(write(1, ".\n", 2) == 2, "written");
    routine("stream-read", 0, "read");
    routine("stream-write", 1, "write");
    return record();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "streams") == 0)
        return streams();
    int ends[2], file = open("/tmp/chains", O_RDWR | O_CREAT | O_TRUNC, 0600),
                 null = open("/dev/null", O_RDWR);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), queue = (int)syn_make("Queue", 64);
    struct itimerspec soon = {{0, 1000000}, {0, 1000000}};
    uint64_t ticks;
    /* As the command line of the kernel says. */
    struct winsize size = {0};
    must(ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_row == 25 && size.ws_col == 80, "size");
    must(pipe(ends) == 0 && file >= 0 && null >= 0 && timer >= 0 && queue >= 0, "descriptors");
    must(timerfd_settime(timer, 0, &soon, 0) == 0, "timer");
    printf("type\n");
    fflush(stdout);
    must(read(0, bytes, sizeof bytes) == 5 && memcmp(bytes, "type\n", 5) == 0, "typed");
    for (int i = 0; i < TIMES; i++) {
        must(write(1, ".\n", 2) == 2, "shown");
        must(write(ends[1], bytes, 1) == 1 && read(ends[0], bytes, 1) == 1, "pipe");
        must(write(ends[1], bytes, sizeof bytes) == sizeof bytes &&
                 read(ends[0], bytes, sizeof bytes) == sizeof bytes,
             "pipe");
        must(lseek(file, 0, SEEK_SET) == 0 && write(file, bytes, 100) == 100, "file");
        must(lseek(file, 0, SEEK_SET) == 0 && read(file, bytes, 100) == 100, "file");
        must(write(null, bytes, 1) == 1 && read(null, bytes, 1) == 0, "null");
        must(syn_invoke(queue, syn_entry(queue, "Q_put"), 'q') == 1 &&
                 syn_invoke(queue, syn_entry(queue, "Q_get"), 0) == 'q',
             "queue");
        must(read(timer, &ticks, sizeof ticks) == sizeof ticks, "ticks");
    }
    routine("keyboard", 0, "read");
    routine("terminal", 1, "write");
    routine("pipe-write", ends[1], "write");
    routine("pipe-read", ends[0], "read");
    routine("file-write", file, "write");
    routine("file-read", file, "read");
    routine("file-lseek", file, "lseek");
    routine("null-write", null, "write");
    routine("timer", timer, "read");
    listings("pump", " pump ");
    listings("echo", " editor echo ");
    return record();
}

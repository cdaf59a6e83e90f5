/* Records a step of load: two programs compute, and a producer has filled a pipe; then its consumer begins to
 * read, and later a third computes.
 *
 * Interface: step, as root; prints the text of the recorder, and a line `# mark NS TEXT` for each step.
 * `cargo xtask plot feeds` makes a picture of it.
 */
#define _GNU_SOURCE
#include "loaded-stream.h"
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

static int gates[2][2];

/* Closes the pipes that it has no use for, and waits for gate `number`, if that is one. */
static void await(int number)
{
    char byte;
    for (int i = 0; i < 2; i++) {
        close(gates[i][1]);
        if (i != number)
            close(gates[i][0]);
    }
    if (number >= 0 && read(gates[number][0], &byte, 1) != 1)
        _exit(1);
    close(gates[number >= 0 ? number : 0][0]);
}

static void produce_at_once(void)
{
    await(-1);
    produce();
}

static void consume_later(void)
{
    await(0);
    consume();
}

static void compute_at_once(void)
{
    close(channel[0]), close(channel[1]);
    await(-1);
    spin();
}

static void compute_later(void)
{
    close(channel[0]), close(channel[1]);
    await(1);
    spin();
}

static pid_t begin(const char *name, void (*body)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        /* The console would be a channel of theirs too. */
        close(0), close(1), close(2);
        prctl(PR_SET_NAME, name);
        body();
        _exit(0);
    }
    return pid;
}

static void pass(long milliseconds)
{
    struct timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, 0);
}

/* Opens a gate; the time. */
static long long open_gate(int number)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (write(gates[number][1], "g", 1) != 1)
        _exit(1);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

int main(void)
{
    char text[4096];
    if (pipe(channel) || pipe(gates[0]) || pipe(gates[1]) || tell("on")) {
        perror("step");
        return 1;
    }
    pid_t pids[5] = {begin("consumer", consume_later), begin("producer", produce_at_once),
                     begin("compute", compute_at_once), begin("compute", compute_at_once),
                     begin("compute", compute_later)};
    close(channel[0]), close(channel[1]);
    pass(20);
    long long first = open_gate(0);
    pass(40);
    long long second = open_gate(1);
    pass(40);
    tell("off");
    for (int i = 0; i < 5; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], 0, 0);
    }
    int fd = open("/syn/trace", O_RDONLY);
    for (long count; (count = read(fd, text, sizeof text)) > 0;)
        fwrite(text, 1, count, stdout);
    printf("# mark %lld the consumer begins\n# mark %lld a third computes\n", first, second);
    return 0;
}

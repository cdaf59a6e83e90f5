/* Checks corners of Linux's calls that programs from elsewhere look into; passes on Linux as root and must pass here.
 *
 * Interface: corners [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the file says, as a number; -9999 if nothing. */
static long number_in(const char *path)
{
    char text[64] = "";
    int fd = open(path, O_RDONLY);
    long count = read(fd, text, sizeof text - 1);
    close(fd);
    return count > 0 ? strtol(text, NULL, 10) : -9999;
}

static long put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_TRUNC);
    if (fd < 0)
        return -1;
    long count = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return count;
}

/* What a child's `act` gives. */
static int of_child(int (*act)(void))
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(act());
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define ADJUSTMENT "/proc/self/oom_score_adj"

static int has_500(void)
{
    return number_in(ADJUSTMENT) == 500;
}

static int may_only_rise(void)
{
    if (setuid(1000))
        return 1;
    /* Who changes its user cannot write the file of its own process until it executes a program: others' are the same to it. */
    return put(ADJUSTMENT, "100") != -1 || errno != EACCES;
}

static void adjustment(void)
{
    struct stat st;
    equal(number_in(ADJUSTMENT), 0, "oom_score_adj begins at 0");
    equal(put(ADJUSTMENT, "500\n"), 4, "it takes a number");
    equal(number_in(ADJUSTMENT), 500, "and keeps it");
    equal(of_child(has_500), 1, "a child inherits it");
    fails(put(ADJUSTMENT, "1001"), EINVAL, "not above 1000");
    fails(put(ADJUSTMENT, "-1001"), EINVAL, "not below -1000");
    fails(put(ADJUSTMENT, "x"), EINVAL, "nor what is no number");
    equal(number_in(ADJUSTMENT), 500, "what was refused changes nothing");
    equal(of_child(may_only_rise), 0, "a user cannot lower it");
    equal(put(ADJUSTMENT, "-1000"), 5, "root lowers it");
    equal(number_in(ADJUSTMENT), -1000, "to the least");
    put(ADJUSTMENT, "0");
    stat(ADJUSTMENT, &st);
    equal(st.st_mode & 07777, 0644, "everybody may read it");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"adjustment", adjustment},
    };
    run_groups(GROUPS(groups), NULL, argc, argv);
    return done();
}

/* Takes more than there is: memory, processes, pipes, disk. The machine must say no and live on.
 *
 * Interface: hungry memory|processes|orphans|pipes|files. Prints `ok ...` when it was refused or killed in an
 * orderly way and the machine then still works.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a child that may be killed for it: touch memory until something stops us. */
static int memory(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        for (long i = 0; i < 4096; i++) {
            char *at = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (at == MAP_FAILED)
                _exit(1);
            for (long j = 0; j < 1 << 20; j += 4096)
                at[j] = 1;
        }
        _exit(2);
    }
    waitpid(child, &status, 0);
    printf("ok memory: the hog %s %d\n", WIFSIGNALED(status) ? "was killed by signal" : "was refused, exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 2;
}

/* Those who have ended give their memory back soon: whether a fork works again then. */
static int forks_again(void)
{
    for (int i = 0; i < 1000; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child > 0)
            return waitpid(child, 0, 0) == child;
        usleep(10000);
    }
    return 0;
}

static int processes(void)
{
    int hold[2], made = 0, status;
    if (pipe(hold))
        return 1;
    pid_t root = fork();
    if (root == 0) {
        close(hold[1]);
        for (;;) {
            pid_t child = fork();
            if (child < 0 || made >= 5000)
                break;
            if (child == 0) {
                char c;
                _exit(read(hold[0], &c, 1) != 0);
            }
            made++;
        }
        printf("# %d processes, then errno %d\n", made, errno);
        fflush(stdout);
        _exit(made > 3 ? 0 : 1);
    }
    close(hold[0]);
    waitpid(root, &status, 0);
    close(hold[1]);
    /* The orphans end by themselves. */
    if (!forks_again())
        return 1;
    printf("ok processes\n");
    return status != 0;
}

/* Processes that belong to nobody grow together until memory is out: some of them have to end, and not the
 * shell, though each is smaller. */
static int orphans(void)
{
    enum { COUNT = 15, PAGES = 500 };
    int done[2], made = 0;
    char finished;
    if (pipe(done))
        return 1;
    if (fork() == 0) {
        close(done[0]);
        for (; made < COUNT; made++)
            if (fork() == 0) {
                char *at = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                for (long i = 0; at != MAP_FAILED && i < PAGES; i++) {
                    at[i * 4096] = 1;
                    sched_yield();
                }
                _exit(write(done[1], "f", 1) != 1);
            }
        _exit(0);
    }
    close(done[1]);
    /* The end comes when the last of them has ended. */
    for (made = 0; read(done[0], &finished, 1) == 1;)
        made++;
    wait(0);
    if (!forks_again())
        return 1;
    printf("%s orphans: %d of %d came to their end\n", made > 0 && made < COUNT ? "ok" : "not ok", made,
           COUNT);
    return made == 0 || made == COUNT;
}

static int pipes(void)
{
    struct rlimit limit = {4096, 4096};
    static int fd[4096];
    int made = 0;
    char c = 0;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (made < 2000 && pipe(fd + made) == 0)
        made += 2;
    printf("# %d pipes, then errno %d\n", made / 2, made < 2000 ? errno : 0);
    for (int i = 0; i < made; i += 2) {
        c = i / 2;
        if (write(fd[i + 1], &c, 1) != 1)
            return 1;
    }
    for (int i = 0; i < made; i += 2) {
        if (read(fd[i], &c, 1) != 1 || c != (char)(i / 2))
            return 1;
        close(fd[i]), close(fd[i + 1]);
    }
    printf("%s %d pipes open at once\n", made == 2000 ? "ok" : "not ok", made / 2);
    return made != 2000;
}

static int files(void)
{
    static char block[65536];
    int fd = open("/tmp/huge", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    long total = 0, wrote;
    while (total < 1L << 32 && (wrote = write(fd, block, sizeof block)) > 0)
        total += wrote;
    printf("# %ld KiB, then errno %d\n", total >> 10, errno);
    close(fd);
    unlink("/tmp/huge");
    printf("ok files\n");
    return total >= 1L << 32;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    signal(SIGPIPE, SIG_IGN);
    if (strcmp(what, "memory") == 0)
        return memory();
    if (strcmp(what, "processes") == 0)
        return processes();
    if (strcmp(what, "orphans") == 0)
        return orphans();
    if (strcmp(what, "pipes") == 0)
        return pipes();
    if (strcmp(what, "files") == 0)
        return files();
    return 2;
}

/* Long names and long tables when memory is refused: what was asked for is told so, and the machine lives
 * on.
 *
 * Interface: refused-lengths [GROUP...]; reports by TAP. For the superuser, who sets /syn/fail: each step
 * is made with the n-th question for memory and all after it refused.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A path of more than two pages. */
#define LEVELS 50
#define LEVEL_LENGTH 200
/* Lists of more are longer than a page of addresses. */
#define MANY 700
/* Questions that one step may ask before those for what is long are through. */
#define QUESTIONS 6
/* The program down there. */
#define DEEP "./program"

static int knob;

static void refuse_from(int n)
{
    char text[40];
    int length = n ? sprintf(text, "%d 1 %d", n, getsid(0)) : sprintf(text, "off");
    if (syscall(SYS_write, knob, text, length) != length)
        _exit(98);
}

/* Goes down a path that is longer than any that a call takes at once. */
static int go_deep(void)
{
    char name[LEVEL_LENGTH + 1] = "";
    memset(name, 'd', LEVEL_LENGTH);
    for (int i = 0; i < LEVELS; i++)
        if ((mkdir(name, 0755) && errno != EEXIST) || chdir(name))
            return 0;
    return 1;
}

static int copy(const char *from, const char *to)
{
    char part[4096];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    ssize_t count;
    while ((count = read(in, part, sizeof part)) > 0)
        if (write(out, part, count) != count)
            return 0;
    return in >= 0 && out >= 0 && count == 0 && close(in) == 0 && close(out) == 0;
}

/* Runs `step` in a child, whose status is 0 when the answer was one of a machine that lacks memory or does
 * not. */
static void with_questions_refused(int (*step)(int), const char *name)
{
    int good = 1;
    for (int n = 1; n <= QUESTIONS; n++) {
        pid_t child = fork();
        if (child == 0)
            _exit(step(n));
        int status = -1;
        good &= waitpid(child, &status, 0) == child;
        refuse_from(0);
        good &= status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (status)
            printf("# %s, %d: status %x\n", name, n, status);
    }
    check(good, name);
}

/* The answer may be a refusal, and no other failure. */
static int told(long answer)
{
    int error = errno;
    refuse_from(0);
    return !(answer >= 0 || error == ENOMEM);
}

static int new_name(int n)
{
    refuse_from(n);
    return told(syscall(SYS_prctl, PR_SET_NAME, "another"));
}

static int where(int n)
{
    static char path[LEVELS * (LEVEL_LENGTH + 2)];
    refuse_from(n);
    long length = syscall(SYS_getcwd, path, sizeof path);
    if (length < 0 && errno == ENAMETOOLONG)
        length = 0;
    return told(length);
}

static int own_file(int n)
{
    static char path[LEVELS * (LEVEL_LENGTH + 2)];
    refuse_from(n);
    long length = syscall(SYS_readlink, "/proc/self/fd/200", path, sizeof path);
    return told(length);
}

/* A mapped file shrinks: every area is looked at. */
static int shrink(int n)
{
    int file = open("mapped", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 8192) || mmap(0, 8192, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED)
        return 1;
    refuse_from(n);
    return told(syscall(SYS_ftruncate, file, 4096));
}

static int maps(int n)
{
    static char text[1 << 16];
    int file = open("/proc/self/maps", O_RDONLY);
    refuse_from(n);
    return told(syscall(SYS_read, file, text, sizeof text));
}

/* The program itself was started far down. */
static void group_paths(void)
{
    int file = open("open", O_RDWR | O_CREAT, 0600);
    if (file < 0 || dup2(file, 200) != 200)
        exit(2);
    with_questions_refused(new_name, "a program with a long path gets another name");
    with_questions_refused(where, "a directory with a long path is asked for");
    with_questions_refused(own_file, "a descriptor with a long path is looked at");
    with_questions_refused(shrink, "a mapped file with a long path shrinks");
    with_questions_refused(maps, "areas with long paths are shown");
}

static int mount_one(const char *at)
{
    for (int n = 1; n <= QUESTIONS; n++) {
        refuse_from(n);
        long answer = syscall(SYS_mount, at, at, "", MS_BIND, "");
        int error = errno;
        refuse_from(0);
        if (answer == 0)
            return 1;
        if (error != ENOMEM)
            return 0;
    }
    return mount(at, at, "", MS_BIND, "") == 0;
}

/* The table of mounts grows past a page. */
static void group_mounts(void)
{
    int count = 0;
    mkdir("/tmp/m", 0755);
    while (count < MANY && mount_one("/tmp/m"))
        count++;
    equal(count, MANY, "many mounts, each refused or made");
    while (count > 0 && umount("/tmp/m") == 0)
        count--;
    equal(count, 0, "and all are taken back");
}

/* A file system goes with its last mount, whatever is refused: many directories beside each other, and
 * many below each other. */
static void group_trees(void)
{
    mkdir("/tmp/t", 0755);
    for (int deep = 0; deep < 2; deep++) {
        int made = 0;
        if (mount("tmpfs", "/tmp/t", "tmpfs", 0, "") || chdir("/tmp/t"))
            break;
        for (; made < 2 * MANY; made++) {
            char name[20];
            sprintf(name, "d%d", made);
            if (mkdir(name, 0755) || chdir(name) || mkdir("in", 0755) || (!deep && chdir("..")))
                break;
        }
        equal(made, 2 * MANY, deep ? "directories below each other" : "directories beside each other");
        if (chdir("/"))
            break;
        refuse_from(1);
        long answer = syscall(SYS_umount2, "/tmp/t", 0);
        refuse_from(0);
        equal(answer, 0, "the file system goes with all memory refused");
    }
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int status = -1;
    check(waitpid(child, &status, 0) == child && status == 0, "the machine lives");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"paths", group_paths},
        {"mounts", group_mounts},
        {"trees", group_trees},
    };
    knob = open("/syn/fail", O_RDWR);
    if (knob < 0)
        return 2;
    /* The program goes on as a copy that lies far down. */
    if (strcmp(argv[0], DEEP) != 0) {
        if (chdir("/tmp") || !go_deep() || !copy(argv[0], DEEP))
            return 3;
        argv[0] = DEEP;
        execv(DEEP, argv);
        return 4;
    }
    run_groups(GROUPS(groups), "", argc, argv);
    return done();
}

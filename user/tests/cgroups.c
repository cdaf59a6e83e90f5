/* Control groups: the file system, processes in groups, limits, rights, and CPU time by weight.
 *
 * Interface: cgroups [GROUP...] runs all groups but `shares`, or those named, as user 0; TAP on standard
 * output. It uses what is mounted on /sys/fs/cgroup, or mounts it. `shares` wants a machine that counts
 * instructions, with one processor; `spread` prints what several do. Linux 6.1 passes `names` to `into`;
 * `hostile` takes it very long.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

static const char *top = "/sys/fs/cgroup";

/* A path below the mount point; four are kept. */
static const char *at(const char *format, ...)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    int length = snprintf(path, 512, "%s/", top);
    va_list list;
    va_start(list, format);
    vsnprintf(path + length, 512 - length, format, list);
    va_end(list);
    return path;
}

/* Writes `text` to a file: 0, or -1 with errno. */
static int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        return -1;
    ssize_t done = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return done == (ssize_t)strlen(text) ? 0 : -1;
}

static int put_number(const char *path, long number)
{
    char text[32];
    snprintf(text, sizeof text, "%ld\n", number);
    return put(path, text);
}

/* The text of a file, without the last line's end; empty if there is none. */
static const char *text_of(const char *path)
{
    static char text[8192];
    text[0] = 0;
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return text;
    ssize_t length = 0, more;
    while ((more = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += more;
    close(fd);
    text[length > 0 && text[length - 1] == '\n' ? length - 1 : length] = 0;
    return text;
}

static int says(const char *path, const char *text)
{
    const char *said = text_of(path);
    int same = strcmp(said, text) == 0;
    if (!same)
        printf("# %s says '%s', not '%s'\n", path, said, text);
    return same;
}

/* The number behind a word at the beginning of a line; -1: there is none. */
static long field(const char *path, const char *word)
{
    const char *text = text_of(path);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : 0)
        if (strncmp(line, word, strlen(word)) == 0 && line[strlen(word)] == ' ')
            return atol(line + strlen(word) + 1);
    return -1;
}

static int make(const char *name) { return mkdir(at("%s", name), 0755); }
static int removed(const char *name) { return rmdir(at("%s", name)); }

static int goes(pid_t process, const char *group)
{
    return put_number(at("%s/cgroup.procs", group), process);
}

/* A group that is about to become empty: an ended process leaves it before its parent has heard of that,
 * or soon. */
static int removed_soon(const char *name)
{
    for (int round = 0; round < 500; round++) {
        if (removed(name) == 0)
            return 0;
        if (errno != EBUSY)
            return -1;
        pause_for(0.01);
    }
    return -1;
}

static pid_t sleeper(void)
{
    pid_t child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    return child;
}

static const char *group_of(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cgroup", process);
    const char *text = text_of(path), *own = strstr(text, "0::");
    return own ? own + 3 : text;
}

static void names(void)
{
    struct statfs fs;
    struct stat st;
    check(statfs(top, &fs) == 0 && fs.f_type == 0x63677270, "it is a file system of control groups");
    check(strstr(text_of("/proc/filesystems"), "nodev\tcgroup2") != 0, "which the kernel names");
    check(strstr(text_of(at("cgroup.controllers")), "cpu") &&
              strstr(text_of(at("cgroup.controllers")), "pids"),
          "there are controllers");
    equal(make("t"), 0, "a group is made");
    check(stat(at("t"), &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0755 && st.st_nlink == 2,
          "it is a directory");
    check(stat(at("t/cgroup.procs"), &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0644,
          "with files");
    check(stat(at("t/cgroup.controllers"), &st) == 0 && (st.st_mode & 0777) == 0444,
          "some of which are only read");
    fails(make("t"), EEXIST, "a name is not given twice");
    fails(make("t/cgroup.procs"), EEXIST, "nor that of a file");
    fails(make("new\nline"), EINVAL, "a name is one line");
    fails(open(at("t/file"), O_CREAT | O_WRONLY, 0644), EACCES, "no other files are made");
    fails(unlink(at("t/cgroup.procs")), EPERM, "and none removed");
    fails(symlink("x", at("t/link")), EPERM, "no links");
    fails(removed("t/cgroup.procs"), ENOTDIR, "a file is no group");
    equal(make("t/u"), 0, "a group in a group");
    check(stat(at("t"), &st) == 0 && st.st_nlink == 3, "it is counted");
    equal(field(at("t/cgroup.stat"), "nr_descendants"), 1, "and told");
    fails(removed("t"), EBUSY, "that stays while there is one in it");
    check(says(at("t/cgroup.type"), "domain") && says(at("t/cgroup.events"), "populated 0\nfrozen 0"),
          "what it is");
    check(access(at("cgroup.type"), F_OK) != 0 && access(at("cgroup.events"), F_OK) != 0,
          "the root has no such files");
    int files = 0, groups = 0;
    DIR *dir = opendir(at("t"));
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        files += entry->d_type == DT_REG && strncmp(entry->d_name, "cgroup.", 7) == 0;
        groups += entry->d_type == DT_DIR && strcmp(entry->d_name, "u") == 0;
    }
    if (dir)
        closedir(dir);
    check(files >= 8 && groups == 1, "all are listed");
    int fd = open(at("t/u/cgroup.procs"), O_RDWR);
    int below = open(at("t/u"), O_RDONLY | O_DIRECTORY);
    equal(removed("t/u"), 0, "an empty group is removed");
    char byte;
    fails(read(fd, &byte, 1), ENODEV, "its open file has nothing behind it");
    fails(write(fd, "0", 1), ENODEV, "and takes nothing");
    fails(openat(below, "cgroup.procs", O_RDONLY), ENOENT, "nor is there a file in its directory");
    check(mkdirat(below, "x", 0755) != 0, "or a group made");
    close(fd);
    close(below);
    fails(removed("t/u"), ENOENT, "it is gone");
    /* The same groups elsewhere. */
    mkdir("/tmp/groups", 0755);
    equal(mount("none", "/tmp/groups", "cgroup2", 0, ""), 0, "it is mounted elsewhere");
    check(access("/tmp/groups/t/cgroup.procs", F_OK) == 0, "and is the same there");
    equal(umount("/tmp/groups"), 0, "and not any more");
    fails(mount("none", "/tmp/groups", "cgroup2", 0, "no-such-option"), EINVAL, "with options that it knows");
    rmdir("/tmp/groups");
    equal(chmod(at("t"), 0700) | chown(at("t"), 7, 8), 0, "it is given away");
    check(stat(at("t"), &st) == 0 && st.st_uid == 7 && st.st_gid == 8 && (st.st_mode & 0777) == 0700,
          "for good");
    equal(removed("t"), 0, "the last one is removed");
}

static void *waits(void *gate)
{
    pthread_barrier_wait(gate);
    pthread_barrier_wait(gate);
    return 0;
}

static void moves(void)
{
    char own[32], text[64];
    make("t");
    make("t/u");
    check(strcmp(group_of(getpid()), "/t") != 0, "a process is where its parent was");
    pid_t child = sleeper();
    until_asleep(child);
    equal(goes(child, "t/u"), 0, "it goes to another group");
    check(strcmp(group_of(child), "/t/u") == 0, "which its directory tells");
    snprintf(own, sizeof own, "%d", child);
    check(says(at("t/u/cgroup.procs"), own) && says(at("t/u/cgroup.threads"), own), "and the group's list");
    check(says(at("t/cgroup.procs"), ""), "that of the group above has it not");
    equal(field(at("t/cgroup.events"), "populated"), 1, "which is populated all the same");
    fails(removed("t/u"), EBUSY, "a group with a process stays");
    equal(goes(child, "t"), 0, "it moves up");
    equal(field(at("t/u/cgroup.events"), "populated"), 0, "and is no more below");
    fails(goes(0x3fffffff, "t"), ESRCH, "a process that is not there");
    fails(put(at("t/cgroup.procs"), "x"), EINVAL, "something that is no number");
    fails(put(at("t/cgroup.procs"), "-1"), EINVAL, "a number that is none of a process");
    kill_child(child);
    equal(removed_soon("t/u"), 0, "the lower one is removed");
    equal(goes(0, "t"), 0, "the caller goes by 0");
    check(strcmp(group_of(getpid()), "/t") == 0, "and is there");
    child = fork();
    if (child == 0)
        _exit(strcmp(group_of(getpid()), "/t") != 0);
    equal(status_of(child), 0, "its child is too");
    pthread_barrier_t gate;
    pthread_barrier_init(&gate, 0, 2);
    pthread_t thread;
    pthread_create(&thread, 0, waits, &gate);
    pthread_barrier_wait(&gate);
    snprintf(text, sizeof text, "%s", text_of(at("t/cgroup.threads")));
    check(strchr(text, '\n') && strtol(text, 0, 10) == getpid() &&
              !strchr(text_of(at("t/cgroup.procs")), '\n'),
          "and its thread");
    equal(goes(0, "."), 0, "it goes back");
    check(says(at("t/cgroup.threads"), ""), "with all its threads");
    pthread_barrier_wait(&gate);
    pthread_join(thread, 0);
    /* A zombie is in no group's way. */
    child = fork();
    if (child == 0)
        _exit(goes(0, "t") != 0);
    siginfo_t info;
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    check(says(at("t/cgroup.procs"), ""), "an ended process leaves its group");
    equal(removed_soon("t"), 0, "which can be removed");
    equal(status_of(child), 0, "before its parent has waited");
}

/* How often the lists of a group have its processes, read `size` bytes at a time: -1, unless each is there
 * once, in order. */
static int listed(const char *file, const pid_t *children, int count, size_t size)
{
    char text[1024];
    int fd = open(at("%s", file), O_RDONLY);
    size_t length = 0;
    ssize_t more;
    while (length + size < sizeof text && (more = read(fd, text + length, size)) > 0)
        length += more;
    close(fd);
    text[length] = 0;
    char *next = text;
    int found = 0;
    while (found < count && strtol(next, &next, 10) == children[found])
        found++;
    return found == count && strcmp(next, "\n") == 0 ? found : -1;
}

/* Lists are whole however they are read. */
static void lists(void)
{
    enum { COUNT = 12 };
    pid_t children[COUNT];
    make("t");
    for (int i = 0; i < COUNT; i++)
        children[i] = sleeper();
    for (int i = 0; i < COUNT; i++)
        goes(children[i], "t");
    static const size_t sizes[] = {1, 7, 500};
    for (int i = 0; i < 3; i++) {
        char name[80];
        snprintf(name, sizeof name, "processes, and their threads, read %zu bytes at a time", sizes[i]);
        check(listed("t/cgroup.procs", children, COUNT, sizes[i]) == COUNT &&
                  listed("t/cgroup.threads", children, COUNT, sizes[i]) == COUNT,
              name);
    }
    for (int i = 0; i < COUNT; i++)
        kill_child(children[i]);
    equal(removed_soon("t"), 0, "their group is removed");
}

static void controls(void)
{
    make("t");
    make("t/u");
    fails(put(at("cgroup.subtree_control"), "+nothing"), EINVAL, "no such controller");
    fails(put(at("cgroup.subtree_control"), "cpu"), EINVAL, "neither given nor taken");
    fails(put(at("t/u/cgroup.subtree_control"), "+cpu"), ENOENT, "one that the group has not got");
    check(access(at("t/u/cpu.weight"), F_OK) != 0, "without a controller there is no weight");
    equal(put(at("cgroup.subtree_control"), "+cpu -cpu"), 0, "given and taken in one line");
    check(!strstr(text_of(at("cgroup.subtree_control")), "cpu"), "it is taken");
    equal(put(at("cgroup.subtree_control"), "+cpu +pids"), 0, "controllers are given");
    check(strstr(text_of(at("cgroup.subtree_control")), "cpu") &&
              strstr(text_of(at("t/cgroup.controllers")), "cpu"),
          "and the groups have them");
    check(says(at("t/u/cgroup.controllers"), ""), "those below these not");
    equal(put(at("t/cgroup.subtree_control"), "+cpu"), 0, "they are given on");
    check(says(at("t/u/cgroup.controllers"), "cpu"), "one of them");
    fails(put(at("cgroup.subtree_control"), "-cpu"), EBUSY, "what is given on is not taken away");
    check(says(at("t/cpu.weight"), "100") && says(at("t/cpu.weight.nice"), "0"), "the usual weight");
    equal(put(at("t/cpu.weight"), "10000\n"), 0, "the largest");
    check(says(at("t/cpu.weight"), "10000"), "is read back as set");
    equal(put(at("t/cpu.weight"), "1"), 0, "the smallest");
    check(says(at("t/cpu.weight"), "1"), "too");
    fails(put(at("t/cpu.weight"), "0"), ERANGE, "not less");
    fails(put(at("t/cpu.weight"), "10001"), ERANGE, "nor more");
    fails(put(at("t/cpu.weight"), "-5"), EINVAL, "and a number");
    fails(put(at("t/cpu.weight"), "many"), EINVAL, "in digits");
    check(says(at("t/cpu.weight"), "1"), "a refused one changes nothing");
    for (int nice = -20; nice < 20; nice += 13) {
        char text[16];
        snprintf(text, sizeof text, "%d", nice);
        check(put(at("t/cpu.weight.nice"), text) == 0 && says(at("t/cpu.weight.nice"), text),
              "a weight by niceness");
    }
    fails(put(at("t/cpu.weight.nice"), "20"), ERANGE, "that there is");
    equal(put(at("t/cpu.weight.nice"), "-5"), 0, "a niceness");
    check(says(at("t/cpu.weight"), "305"), "is a weight");
    /* Processes are in the leaves. */
    pid_t child = sleeper(), other = sleeper();
    equal(goes(child, "t/u"), 0, "a process in the lower group");
    fails(goes(other, "t"), EBUSY, "none goes where controllers are given on");
    equal(put(at("t/cgroup.subtree_control"), "-cpu"), 0, "no more");
    equal(goes(other, "t"), 0, "now it does");
    fails(put(at("t/cgroup.subtree_control"), "+cpu"), EBUSY,
          "and they are not given to groups that have some");
    equal(goes(child, "."), 0, "when that has gone");
    equal(put(at("t/cgroup.subtree_control"), "+cpu"), 0, "they can be");
    check(says(at("t/cgroup.type"), "domain threaded") && says(at("t/u/cgroup.type"), "domain invalid"),
          "the processes compete with groups that can have none");
    fails(goes(child, "t/u"), EOPNOTSUPP, "as one finds");
    kill_child(child);
    kill_child(other);
    equal(removed_soon("t/u"), 0, "the end of the lower group");
    equal(removed_soon("t"), 0, "and of the upper one");
    equal(put(at("cgroup.subtree_control"), "-cpu -pids"), 0, "all is as before");
}

static void *stays(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

static void breed(void);

/* A child that counts, and so does a thread of it, until it is ended. */
static volatile long *counts;

static void *counting(void *nothing)
{
    for (;;)
        counts[1]++;
    return nothing;
}

static pid_t counter(void)
{
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        pthread_create(&thread, 0, counting, 0);
        for (;;)
            counts[0]++;
    }
    return child;
}

/* Whether both count within five seconds. */
static int count_on(void)
{
    long before[2] = {counts[0], counts[1]};
    for (int look = 0; look < 1000; look++) {
        if (counts[0] != before[0] && counts[1] != before[1])
            return 1;
        pause_for(0.005);
    }
    return 0;
}

/* Whether neither does for a while. */
static int stand(void)
{
    long before[2] = {counts[0], counts[1]};
    pause_for(0.03);
    return counts[0] == before[0] && counts[1] == before[1];
}

/* Whether `cgroup.events` comes to say so. */
static int comes(const char *group, const char *word, long value)
{
    for (int look = 0; look < 1000; look++) {
        if (field(at("%s/cgroup.events", group), word) == value)
            return 1;
        pause_for(0.005);
    }
    return 0;
}

/* A group whose processes are frozen. */
static void freezes(void)
{
    counts = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make("f"), make("f/g"), make("o");
    check(says(at("f/cgroup.freeze"), "0") && field(at("f/cgroup.events"), "frozen") == 0,
          "not frozen at first");
    fails(open(at("cgroup.freeze"), O_RDONLY), ENOENT, "nothing freezes all processes");
    fails(put(at("f/cgroup.freeze"), "2"), ERANGE, "it is or is not");
    fails(put(at("f/cgroup.freeze"), "-1"), ERANGE, "not less");
    fails(put(at("f/cgroup.freeze"), "on"), EINVAL, "in digits");
    pid_t child = counter();
    goes(child, "f/g");
    check(count_on(), "two threads count");
    equal(put(at("f/cgroup.freeze"), "1"), 0, "their group freezes");
    check(comes("f", "frozen", 1) && comes("f/g", "frozen", 1), "and says so, and that below");
    check(says(at("f/cgroup.freeze"), "1") && says(at("f/g/cgroup.freeze"), "0"), "the setting is of one");
    check(stand(), "neither counts");
    check(field(at("f/cgroup.events"), "populated") == 1, "they are there");
    equal(put(at("f/g/cgroup.freeze"), "1") | put(at("f/cgroup.freeze"), "0"), 0,
          "one level more, and one less");
    check(comes("f", "frozen", 0) && field(at("f/g/cgroup.events"), "frozen") == 1 && stand(),
          "one is enough");
    equal(put(at("f/g/cgroup.freeze"), "0"), 0, "none");
    check(count_on() && field(at("f/g/cgroup.events"), "frozen") == 0, "lets them go on");
    /* Into such a group and out of it. */
    equal(put(at("f/cgroup.freeze"), "1"), 0, "frozen again");
    check(comes("f/g", "frozen", 1) && stand(), "they stand");
    equal(goes(child, "o"), 0, "out of it");
    check(count_on(), "they count");
    equal(goes(child, "f"), 0, "and in");
    check(comes("f", "frozen", 1) && stand(), "they stand again");
    /* A stop, and a signal that continues, change nothing. */
    kill(child, SIGSTOP), kill(child, SIGCONT);
    check(stand(), "a signal that continues does not thaw");
    /* A call goes on where it was. */
    int ends[2], answer[2];
    equal(pipe(ends) | pipe(answer), 0, "pipes");
    pid_t reader = fork();
    if (reader == 0) {
        char byte;
        long got = read(ends[0], &byte, 1);
        write(answer[1], &got, sizeof got);
        pause_for(1000);
    }
    until_asleep(reader);
    equal(goes(reader, "f"), 0, "one that sleeps in a call comes");
    check(comes("f", "frozen", 1), "and is frozen");
    write(ends[1], "", 1);
    struct pollfd poll_ = {answer[0], POLLIN, 0};
    equal(poll(&poll_, 1, 30), 0, "it does not answer");
    equal(put(at("f/cgroup.freeze"), "0"), 0, "until it is let");
    long got = 0;
    read(answer[0], &got, sizeof got);
    equal(got, 1, "and then has read what came");
    /* A child that begins in such a group. */
    equal(put(at("o/cgroup.freeze"), "1"), 0, "another group freezes");
    check(comes("o", "frozen", 1), "without processes it is frozen");
    int directory = open(at("o"), O_RDONLY | O_DIRECTORY);
    struct clone_args_ {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
            set_tid_size, cgroup;
    } clone_ = {.flags = 0x200000000ull, .exit_signal = SIGCHLD, .cgroup = directory};
    counts[2] = 0;
    pid_t born = syscall(SYS_clone3, &clone_, sizeof clone_);
    if (born == 0) {
        counts[2] = 1;
        pause_for(1000);
    }
    close(directory);
    check(born > 0 && comes("o", "populated", 1) && comes("o", "frozen", 1), "a child begins there");
    pause_for(0.03);
    equal(counts[2], 0, "and does not run");
    /* The end. */
    kill(born, SIGKILL);
    int status;
    check(waitpid(born, &status, 0) == born && WIFSIGNALED(status), "one that is frozen can be killed");
    equal(put(at("f/cgroup.freeze"), "1"), 0, "the first group again");
    check(comes("f", "frozen", 1), "is frozen");
    equal(put(at("f/cgroup.kill"), "1"), 0, "and killed");
    check(waitpid(child, &status, 0) == child && WIFSIGNALED(status), "with one");
    check(waitpid(reader, &status, 0) == reader && WIFSIGNALED(status), "and the other");
    equal(removed_soon("f/g") | removed_soon("f") | removed_soon("o"), 0, "the groups are empty");
    /* Children that are made while their group freezes and thaws. */
    make("f");
    child = fork();
    if (child == 0) {
        goes(0, "f");
        breed();
    }
    check(comes("f", "populated", 1), "a process with children");
    int right = 1;
    for (int round = 0; round < 20; round++) {
        right &= put(at("f/cgroup.freeze"), "1") == 0 && comes("f", "frozen", 1);
        char before[8192];
        strcpy(before, text_of(at("f/cgroup.procs")));
        pause_for(0.005);
        right &=
            strcmp(before, text_of(at("f/cgroup.procs"))) == 0 && field(at("f/cgroup.events"), "frozen") == 1;
        right &= put(at("f/cgroup.freeze"), "0") == 0;
        pause_for(0.005);
    }
    check(right, "as long as it is frozen nobody comes or goes");
    put(at("f/cgroup.kill"), "1");
    waitpid(child, &status, 0);
    check(comes("f", "populated", 0), "all are killed");
    equal(removed_soon("f"), 0, "the group is empty");
    close(ends[0]), close(ends[1]), close(answer[0]), close(answer[1]);
    munmap((void *)counts, 4096);
}

/* A process that has children, and these children, as long as it can; each has a thread beside. */
static void breed(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, stays, 0);
    for (;;) {
        if (fork() == 0) {
            setsid();
            pthread_create(&thread, 0, stays, 0);
            for (int child = 0; child < 2; child++)
                if (fork() == 0)
                    pause_for(0.02);
            pause_for(0.01);
            _exit(0);
        }
        while (waitpid(-1, 0, WNOHANG) > 0)
            ;
        pause_for(0.001);
    }
}

/* A write ends all processes of a group and of those below it. */
static void kills(void)
{
    int status[4], right = 1;
    pid_t child[4];
    make("k"), make("k/l"), make("k/l/m"), make("o");
    const char *in[4] = {"k", "k/l", "k/l/m", "o"};
    for (int i = 0; i < 4; i++)
        child[i] = sleeper(), goes(child[i], in[i]);
    fails(open(at("k/cgroup.kill"), O_RDONLY), EACCES, "nothing to read");
    fails(open(at("k/cgroup.kill"), O_RDWR), EACCES, "nor beside a write");
    fails(open(at("cgroup.kill"), O_WRONLY), ENOENT, "nothing kills all processes");
    struct stat stat_;
    stat(at("k/cgroup.kill"), &stat_);
    equal(stat_.st_mode & 07777, 0200, "its mode");
    fails(put(at("k/cgroup.kill"), "0"), ERANGE, "one is the only number");
    fails(put(at("k/cgroup.kill"), "-1"), ERANGE, "not one below zero");
    fails(put(at("k/cgroup.kill"), "2"), ERANGE, "nor two");
    fails(put(at("k/cgroup.kill"), "x"), EINVAL, "nor a word");
    for (int i = 0; i < 4; i++)
        right &= waitpid(child[i], &status[i], WNOHANG) == 0;
    check(right, "and nobody has ended so far");
    equal(put(at("k/l/cgroup.kill"), " 1\n"), 0, "one kills");
    for (int i = 1; i < 3; i++)
        right &= waitpid(child[i], &status[i], 0) == child[i] && WIFSIGNALED(status[i]) &&
                 WTERMSIG(status[i]) == SIGKILL;
    check(right, "those of the group and below");
    check(waitpid(child[0], &status[0], WNOHANG) == 0 && waitpid(child[3], &status[3], WNOHANG) == 0,
          "not those above and beside");
    /* One that is stopped, and one that blocks all signals. */
    kill(child[0], SIGSTOP);
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    child[1] = sleeper();
    sigprocmask(SIG_SETMASK, &old, 0);
    goes(child[1], "k/l");
    equal(put(at("k/cgroup.kill"), "0x1"), 0, "it kills");
    for (int i = 0; i < 2; i++)
        right &= waitpid(child[i], &status[i], 0) == child[i] && WIFSIGNALED(status[i]) &&
                 WTERMSIG(status[i]) == SIGKILL;
    check(right, "one that is stopped, and one that blocks all signals");
    equal(put(at("k/cgroup.kill"), "1"), 0, "nobody is left, and that is no fault");
    /* Processes that have children all the time. */
    for (int round = 0; round < 5; round++) {
        child[0] = fork();
        if (child[0] == 0) {
            goes(0, "k/l");
            breed();
        }
        while (field(at("k/cgroup.events"), "populated") != 1)
            pause_for(0.001);
        pause_for(0.03);
        right &= put(at("k/cgroup.kill"), "1") == 0;
        right &= waitpid(child[0], &status[0], 0) == child[0];
        int empty = 0;
        for (int look = 0; look < 1000 && !empty; look++) {
            empty = field(at("k/cgroup.events"), "populated") == 0;
            if (!empty)
                pause_for(0.005);
        }
        right &= empty;
    }
    check(right, "nor does a child that is made meanwhile escape");
    equal(removed_soon("k/l/m") | removed_soon("k/l") | removed_soon("k"), 0, "the groups are empty");
    kill_child(child[3]);
    equal(removed_soon("o"), 0, "and the other one");
}

static void limits(void)
{
    put(at("cgroup.subtree_control"), "+pids");
    make("t");
    check(says(at("t/pids.max"), "max") && says(at("t/pids.current"), "0"), "no limit at first");
    equal(put(at("t/pids.max"), "3"), 0, "a limit");
    check(says(at("t/pids.max"), "3"), "is read back");
    fails(put(at("t/pids.max"), "-1"), EINVAL, "a number");
    fails(put(at("t/pids.max"), "4194305"), EINVAL, "that a machine can have");
    pid_t child = fork();
    if (child == 0) {
        goes(0, "t");
        pid_t first = sleeper(), second = sleeper(), third = sleeper();
        int refused = third == -1 && errno == EAGAIN;
        pthread_t thread;
        int thread_refused = pthread_create(&thread, 0, waits, 0) == EAGAIN;
        int counted = says(at("t/pids.current"), "3") && field(at("t/pids.events"), "max") == 2;
        kill_child(first);
        pid_t again = sleeper();
        int came = again > 0;
        kill_child(again);
        kill_child(second);
        _exit((refused ? 0 : 1) | (thread_refused ? 0 : 2) | (counted ? 0 : 4) | (came ? 0 : 8));
    }
    equal(status_of(child), 0,
          "the fourth process, and a thread, are refused; one that has ended makes room");
    child = sleeper();
    put(at("t/pids.max"), "0");
    equal(goes(child, "t"), 0, "a process comes all the same");
    check(says(at("t/pids.current"), "1"), "and counts");
    kill_child(child);
    equal(removed_soon("t"), 0, "the end of the group");
    put(at("cgroup.subtree_control"), "-pids");
    /* How many groups, and how deep. */
    make("t");
    check(says(at("t/cgroup.max.depth"), "max") && says(at("t/cgroup.max.descendants"), "max"),
          "groups without end");
    fails(put(at("t/cgroup.max.depth"), "-1"), ERANGE, "a depth");
    fails(put(at("t/cgroup.max.depth"), "deep"), EINVAL, "in digits");
    equal(put(at("t/cgroup.max.depth"), "1"), 0, "one level");
    equal(make("t/u"), 0, "has room");
    fails(make("t/u/v"), EAGAIN, "a second has not");
    equal(put(at("t/cgroup.max.depth"), "max") | put(at("t/cgroup.max.descendants"), "2"), 0, "two groups");
    equal(make("t/u/v"), 0, "have room");
    fails(make("t/w"), EAGAIN, "a third has not");
    equal(removed("t/u/v") | removed("t/u") | removed("t"), 0, "all are removed");
}

/* The rights of a user in a group that was given to it, and in others. */
static void rights(void)
{
    make("t");
    make("u");
    chown(at("t"), 1000, 1000);
    chown(at("t/cgroup.procs"), 1000, 1000);
    pid_t outside = sleeper(), inside = sleeper();
    goes(inside, "t");
    pid_t child = fork();
    if (child == 0) {
        goes(0, "t");
        int bad = setgid(1000) | setuid(1000);
        bad |= make("t/a") != 0 || make("t/b") != 0;
        bad |= (make("x") == 0 || errno != EACCES) << 1;
        /* Within what is its own it moves anything, its own process and others. */
        bad |= (goes(0, "t/a") != 0 || goes(inside, "t/b") != 0 || goes(inside, "t/a") != 0) << 2;
        /* Nothing comes in from outside, and nothing goes out. */
        bad |= (goes(outside, "t/a") == 0 || errno != EACCES) << 3;
        bad |= (goes(0, "u") == 0 || errno != EACCES) << 4;
        /* The files of the group itself are not its own. */
        bad |= (put(at("t/cgroup.subtree_control"), "+cpu") == 0 || errno != EACCES) << 5;
        struct stat st;
        bad |= (stat(at("t/a/cgroup.procs"), &st) != 0 || st.st_uid != 1000) << 6;
        _exit(bad);
    }
    equal(status_of(child), 0, "a user moves processes within its group, and no others");
    kill_child(inside);
    kill_child(outside);
    equal(removed_soon("t/a") | removed_soon("t/b") | removed_soon("t") | removed_soon("u"), 0,
          "all are removed");
    /* The opener's rights count. */
    make("t");
    int fd = open(at("t/cgroup.procs"), O_WRONLY);
    child = fork();
    if (child == 0) {
        if (setuid(1000) != 0)
            _exit(2);
        _exit(write(fd, "0", 1) != 1);
    }
    equal(status_of(child), 0, "who opened the file needs the rights");
    close(fd);
    equal(removed_soon("t"), 0, "the end of that group");
}

/* A child of clone3 in another group. */
static void into(void)
{
    make("t");
    int fd = open(at("t"), O_RDONLY | O_DIRECTORY), file = open(at("t/cgroup.procs"), O_RDONLY);
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
            set_tid_size, cgroup;
    } args = {.flags = 0x200000000ull, .exit_signal = SIGCHLD, .cgroup = fd};
    pid_t child = syscall(SYS_clone3, &args, sizeof args);
    if (child == 0)
        _exit(strcmp(group_of(getpid()), "/t") != 0);
    equal(child > 0 ? status_of(child) : -1, 0, "a child begins in another group");
    args.cgroup = file;
    fails(syscall(SYS_clone3, &args, sizeof args), EBADF, "which is a directory");
    args.cgroup = 99;
    fails(syscall(SYS_clone3, &args, sizeof args), EBADF, "that is open");
    args.cgroup = fd;
    equal(removed_soon("t"), 0, "it is removed");
    fails(syscall(SYS_clone3, &args, sizeof args), ENOENT, "and takes no child");
    close(fd);
    close(file);
}

static uint32_t dice;

static uint32_t roll(uint32_t sides)
{
    dice = dice * 1664525 + 1013904223;
    return (dice >> 8) % sides;
}

#include "cgroups-load.h"

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"names", names},     {"moves", moves},     {"lists", lists},     {"controls", controls},
        {"limits", limits},   {"kills", kills},     {"freezes", freezes}, {"rights", rights},
        {"into", into},       {"hostile", hostile}, {"races", races},     {"times", times},
        {"spread", spread},   {"shares", shares},
    };
    struct statfs fs;
    if (statfs(top, &fs) != 0 || fs.f_type != 0x63677270) {
        mkdir(top, 0755);
        if (mount("cgroup2", top, "cgroup2", 0, "") != 0)
            check(0, "the file system of control groups is mounted");
    }
    run_groups(GROUPS(groups), "shares", argc, argv);
    return done();
}

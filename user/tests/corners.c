/* Checks corners of Linux's calls that programs from elsewhere look into; passes on Linux as root and must
 * pass here.
 *
 * Interface: corners [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termio.h>
#include <unistd.h>

/* The file's text, as a number; -9999 if nothing. */
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

/* The result of a child's `act`. */
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

static int has_500(void) { return number_in(ADJUSTMENT) == 500; }

static int may_only_rise(void)
{
    if (setuid(1000))
        return 1;
    /* A process that changes its user cannot write the file of its own process until it may be dumped
     * again, or executes a program. */
    if (put(ADJUSTMENT, "600") != -1 || errno != EACCES)
        return 2;
    if (prctl(PR_SET_DUMPABLE, 1))
        return 3;
    if (put(ADJUSTMENT, "499") != -1 || errno != EACCES)
        return 4;
    if (put(ADJUSTMENT, "600") != 3)
        return 5;
    /* Back down as far as root has set it. */
    if (put(ADJUSTMENT, "550") != 3 || number_in(ADJUSTMENT) != 550)
        return 6;
    if (put(ADJUSTMENT, "499") != -1 || errno != EACCES)
        return 7;
    return put(ADJUSTMENT, "500") != 3;
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
    equal(of_child(may_only_rise), 0, "a user cannot lower it below what root has set");
    equal(put(ADJUSTMENT, "-1000"), 5, "root lowers it");
    equal(number_in(ADJUSTMENT), -1000, "to the least");
    put(ADJUSTMENT, "0");
    stat(ADJUSTMENT, &st);
    equal(st.st_mode & 07777, 0644, "everybody may read it");
}

static void both_ways(void)
{
    fd_set reading, writing;
    struct timeval soon = {1, 0};
    mkfifo("both", 0600);
    int fd = open("both", O_RDWR);
    FD_ZERO(&reading);
    FD_SET(fd, &reading);
    writing = reading;
    equal(write(fd, "x", 1), 1, "a pipe of both ways takes a byte");
    equal(select(fd + 1, &reading, &writing, NULL, &soon), 2, "select counts it in both sets");
    check(FD_ISSET(fd, &reading) && FD_ISSET(fd, &writing), "and it is in both");
    close(fd);
    unlink("both");
}

static void places(void)
{
    char byte = 0;
    struct iovec piece = {&byte, 1};
    int pipes[2];
    int fd = open("/dev/null", O_RDONLY);
    if (pipe(pipes))
        return;
    fails(pwrite(pipes[0], &byte, 1, 0), ESPIPE, "pwrite to a pipe's reading end: it has no places");
    fails(pread(pipes[1], &byte, 1, 0), ESPIPE, "pread from its writing end");
    fails(pwritev2(pipes[0], &piece, 1, 0, 0), ESPIPE, "pwritev2");
    fails(pwritev2(pipes[0], &piece, 1, -1, 0), EBADF, "pwritev2 without a place");
    fails(write(pipes[0], &byte, 1), EBADF, "write");
    fails(pwrite(fd, &byte, 1, 0), EBADF, "pwrite to what is open for reading");
    close(fd);
    close(pipes[0]);
    close(pipes[1]);
}

/* Numbers of the system are written at a place, too: what does not begin at the beginning is taken and
 * changes nothing. */
static void settings(void)
{
    static const char path[] = "/proc/sys/fs/pipe-max-size";
    char text[32] = "", now[32] = "";
    int fd = open(path, O_RDWR);
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    check(length > 1, "a number of the system");
    equal(pwrite(fd, "65536", 5, 0), 5, "pwrite sets it");
    equal(pread(fd, now, sizeof now - 1, 0) == 6 && strcmp(now, "65536\n") == 0, 1, "as is seen");
    equal(pwrite(fd, "131072", 6, 1), 6, "pwrite behind its beginning is taken");
    equal(pread(fd, now, sizeof now - 1, 0) == 6 && strcmp(now, "65536\n") == 0, 1, "and changes nothing");
    equal(pwrite(fd, text, length, 0), length, "it is put back");
    close(fd);
}

static int leaves_times(void)
{
    int own = open("own", O_RDWR | O_CREAT | O_TRUNC, 0600), roots = open("roots", O_RDONLY);
    if (fchown(own, 1000, 1000) || setuid(1000))
        return 1;
    if (fcntl(own, F_SETFL, O_NOATIME) || !(fcntl(own, F_GETFL) & O_NOATIME))
        return 2;
    if (fcntl(roots, F_SETFL, O_NOATIME) != -1 || errno != EPERM || fcntl(roots, F_GETFL) & O_NOATIME)
        return 3;
    return 0;
}

static void flags(void)
{
    static const char *const names[] = {"/dev/null", ".", "/proc/self/stat"};
    int pipes[2], file = open("roots", O_RDWR | O_CREAT, 0644), counter = eventfd(0, 0);
    for (int i = 0; i < 3; i++) {
        int fd = open(names[i], O_RDONLY);
        fails(fcntl(fd, F_SETFL, O_DIRECT | O_NONBLOCK), EINVAL, names[i]);
        equal(fcntl(fd, F_GETFL) & (O_DIRECT | O_NONBLOCK), 0, "nothing of it is set");
        close(fd);
        fails(open(names[i], O_RDONLY | O_DIRECT), EINVAL, "nor may it be opened so");
    }
    fails(fcntl(counter, F_SETFL, O_DIRECT), EINVAL, "O_DIRECT of a counter");
    equal(pipe(pipes), 0, "a pipe");
    equal(fcntl(pipes[0], F_SETFL, O_DIRECT), 0, "O_DIRECT of a pipe");
    equal(fcntl(file, F_SETFL, O_NOATIME), 0, "root leaves any file's times");
    equal(of_child(leaves_times), 0, "a user those of its own files");
    unlink("own"), unlink("roots");
    close(file), close(counter), close(pipes[0]), close(pipes[1]);
}

static void no_path(void)
{
    char text[16];
    fails(readlink("", text, sizeof text), ENOENT, "readlink without a path");
    fails(readlinkat(AT_FDCWD, "", text, sizeof text), ENOENT, "readlinkat without one");
    int fd = open(".", O_PATH);
    fails(readlinkat(fd, "", text, sizeof text), ENOENT, "of a directory itself");
    close(fd);
    symlink("there", "link");
    fd = open("link", O_PATH | O_NOFOLLOW);
    equal(readlinkat(fd, "", text, sizeof text), 5, "of a link itself");
    fails(readlink(".", text, sizeof text), EINVAL, "readlink of what is no link");
    close(fd);
    unlink("link");
}

#define DOMAIN "/proc/sys/kernel/domainname"

static int may_not_name(void) { return setuid(1000) || setdomainname("x", 1) != -1 || errno != EPERM; }

static void domain(void)
{
    struct utsname names;
    char name[80] = "";
    equal(setdomainname("first", 5), 0, "a domain gets a name");
    uname(&names);
    equal(strcmp(names.domainname, "first"), 0, "uname tells it");
    check(getdomainname(name, sizeof name) == 0 && strcmp(name, "first") == 0, "getdomainname too");
    equal(put(DOMAIN, "second"), 6, "so does what is written into " DOMAIN);
    uname(&names);
    equal(strcmp(names.domainname, "second"), 0, "for uname");
    fails(setdomainname((char *)-1, 4), EFAULT, "a name that cannot be read");
    fails(setdomainname(name, 65), EINVAL, "one too long");
    equal(of_child(may_not_name), 0, "a user cannot set one");
    equal(setdomainname("", 0), 0, "an empty name");
    uname(&names);
    equal(strcmp(names.domainname, ""), 0, "is a name");
    setdomainname("(none)", 6);
}

static int may_not_know(void)
{
    void *head;
    size_t size;
    return setuid(1000) || syscall(SYS_get_robust_list, 1, &head, &size) != -1 || errno != EPERM;
}

static void robust(void)
{
    void *head = (void *)1;
    size_t size = 0;
    equal(syscall(SYS_get_robust_list, 1, &head, &size), 0, "the first process has a list of robust futexes");
    check(size == 24, "a head of three words");
    equal(of_child(may_not_know), 0, "which is no user's business");
    fails(syscall(SYS_get_robust_list, 4000000, &head, &size), ESRCH, "nobody has none");
}

static void termio(void)
{
    struct termio old, now;
    struct termios whole;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    equal(ioctl(master, TCGETA, &old), 0, "a terminal tells its settings in the older form");
    tcgetattr(master, &whole);
    equal(old.c_lflag, whole.c_lflag & 0xffff, "which has the lower halves");
    equal(old.c_cc[0], whole.c_cc[0], "and the first characters");
    now = old;
    now.c_lflag ^= ECHO;
    now.c_cc[VINTR] = 5;
    equal(ioctl(master, TCSETAW, &now), 0, "they are set in it");
    tcgetattr(master, &whole);
    check((whole.c_lflag & ECHO) != (old.c_lflag & ECHO) && whole.c_cc[VINTR] == 5, "and have changed");
    equal(ioctl(master, TCSETAF, &old), 0, "set when all is flushed");
    equal(ioctl(master, TCSETA, &old), 0, "set at once");
    fails(ioctl(master, TCGETA, 8), EFAULT, "settings to nowhere");
    fails(ioctl(master, TCSETA, 8), EFAULT, "settings from nowhere");
    close(master);
    int fd = open("/dev/null", O_RDWR);
    fails(ioctl(fd, TCGETA, &old), ENOTTY, "of what is no terminal");
    close(fd);
}

static int may_not_separate(void)
{
    static const int flags[] = {CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC,
                                CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP};
    if (setuid(1000))
        return 100;
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (unshare(flags[i]) != -1 || errno != EPERM)
            return 1 + i;
        long child = syscall(SYS_clone, flags[i] | SIGCHLD, 0, 0, 0, 0);
        if (child == 0)
            _exit(0);
        if (child != -1 || errno != EPERM)
            return 11 + i;
    }
    return 0;
}

static void namespaces(void) { equal(of_child(may_not_separate), 0, "a user makes no namespaces"); }

static void cpuid(void)
{
    equal(syscall(SYS_arch_prctl, 0x1011, 0), 1, "everybody may execute cpuid");
    fails(syscall(SYS_arch_prctl, 0x1012, 0), ENODEV, "and nobody can have it fault");
}

static void mappings(void)
{
    int fd = open("/dev/zero", O_RDONLY), path = open("/dev/zero", O_PATH);
    char *seen = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    check(seen != MAP_FAILED && seen[0] == 0, "zeros are mapped shared");
    if (seen != MAP_FAILED)
        fails(mprotect(seen, 4096, PROT_READ | PROT_WRITE), EACCES,
              "and never written by who opened them to read");
    char *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    check(own != MAP_FAILED && (own[5] = 1) && own[0] == 0, "zeros are mapped privately");
    fails(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0, EACCES,
          "who may not write maps none to write");
    int both = open("/dev/zero", O_RDWR);
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, both, 0);
    if (shared != MAP_FAILED) {
        if (fork() == 0) {
            shared[9] = 7;
            _exit(0);
        }
        wait(NULL);
        equal(shared[9], 7, "a child writes into the same");
    }
    fails(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, path, 0) == MAP_FAILED ? -1 : 0, EBADF,
          "a path alone is not mapped");
    fails(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, -1, 0) == MAP_FAILED ? -1 : 0, EBADF,
          "no file comes before no length");
    fails(mmap(NULL, 4096, PROT_READ, 3 | 0x200000, fd, 0) == MAP_FAILED ? -1 : 0, EOPNOTSUPP,
          "a flag nobody knows, to be validated");
    fails(mmap(NULL, 4096, PROT_READ, 3 | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0, EINVAL,
          "there is nothing to validate without a file");
    close(fd);
    close(path);
    close(both);
}

static int sticky(void)
{
    struct timeval time = {0, 10000};
    personality(STICKY_TIMEOUTS);
    select(0, NULL, NULL, NULL, &time);
    return time.tv_usec == 10000;
}

static int loose(void)
{
    struct timeval time = {0, 10000};
    select(0, NULL, NULL, NULL, &time);
    return time.tv_usec == 0;
}

static void timeouts(void)
{
    equal(of_child(loose), 1, "select tells what is left");
    equal(of_child(sticky), 1, "but not to a personality with sticky timeouts");
}

static int tid_pipe[2];

static void *say_and_wait(void *unused)
{
    pid_t tid = syscall(SYS_gettid);
    (void)unused;
    if (write(tid_pipe[1], &tid, sizeof tid) == sizeof tid)
        pause();
    return NULL;
}

static int threaded(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, say_and_wait, NULL);
    pthread_join(thread, NULL);
    return 0;
}

static void by_thread(void)
{
    pid_t tid = 0;
    int status = 0;
    siginfo_t info = {.si_code = SI_QUEUE, .si_signo = SIGTERM};
    if (pipe(tid_pipe))
        return;
    pid_t child = fork();
    if (child == 0)
        _exit(threaded());
    check(read(tid_pipe[0], &tid, sizeof tid) == sizeof tid && tid != child, "a thread has a number");
    equal(kill(tid, 0), 0, "which names its process for kill");
    equal(syscall(SYS_rt_sigqueueinfo, tid, SIGTERM, &info), 0, "and for sigqueue");
    waitpid(child, &status, 0);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "the process ends of it");
}

static int usr1_seen;

static void on_usr1(int signo)
{
    (void)signo;
    usr1_seen++;
}

static void by_directory(void)
{
    int self = open("/proc/self", O_RDONLY | O_DIRECTORY), tmp = open("/tmp", O_RDONLY | O_DIRECTORY);
    int task = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    signal(SIGUSR1, on_usr1);
    equal(syscall(SYS_pidfd_send_signal, self, SIGUSR1, NULL, 0), 0,
          "a process's directory takes a signal as its descriptor does");
    equal(usr1_seen, 1, "which arrives");
    fails(syscall(SYS_pidfd_send_signal, tmp, SIGUSR1, NULL, 0), EBADF, "another does not");
    fails(syscall(SYS_pidfd_send_signal, task, SIGUSR1, NULL, 0), EBADF, "nor one below it");
    close(self);
    close(tmp);
    close(task);
}

static void *look_at_tasks(void *unused)
{
    (void)unused;
    struct stat at;
    equal(stat("/proc/self/task", &at), 0, "beside another thread");
    equal(at.st_nlink, 4, "the directory of threads has a link more");
    return NULL;
}

/* Programs learn by this whether they have a single thread. */
static void links_of_tasks(void)
{
    struct stat at, self;
    pthread_t thread;
    equal(stat("/proc/self/task", &at), 0, "a process without other threads");
    equal(at.st_nlink, 3, "has a directory of threads with three links");
    equal(pthread_create(&thread, NULL, look_at_tasks, NULL), 0, "a thread");
    pthread_join(thread, NULL);
    equal(stat("/proc/self", &self), 0, "its own directory");
    check(self.st_nlink >= 6, "counts those below it");
}

static void told_mask(void)
{
    char path[64], line[256];
    unsigned mask = 0;
    int fd = inotify_init();
    inotify_add_watch(fd, ".", IN_MODIFY);
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *at = strstr(line, "mask:");
        if (at && strncmp(line, "inotify", 7) == 0)
            mask = strtoul(at + 5, NULL, 16);
    }
    if (file)
        fclose(file);
    equal(mask, IN_MODIFY, "fdinfo tells the mask of a watch as it was given");
    close(fd);
}

#include "corners-children.h"
#include "corners-unnamed.h"

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"adjustment", adjustment},
        {"both-ways", both_ways},
        {"places", places},
        {"settings", settings},
        {"flags", flags},
        {"no-path", no_path},
        {"domain", domain},
        {"robust", robust},
        {"termio", termio},
        {"namespaces", namespaces},
        {"cpuid", cpuid},
        {"mappings", mappings},
        {"timeouts", timeouts},
        {"by-thread", by_thread},
        {"by-directory", by_directory},
        {"links-of-tasks", links_of_tasks},
        {"told-mask", told_mask},
        {"unnamed-attributes", unnamed_attributes},
        {"unnamed-owners", unnamed_owners},
        {"unnamed-locks", unnamed_locks},
        {"unnamed-sizes", unnamed_sizes},
        {"unnamed-places", unnamed_places},
        {"flags-of-calls", flags_of_calls},
        {"mode-three", mode_three},
        {"terminal-speeds", terminal_speeds},
        {"orders-to-clone", orders_to_clone},
        {"kinds-of-waits", kinds_of_waits},
        {"waits-of-threads", waits_of_threads},
        {"ends-of-parents", ends_of_parents},
        {"asked-of-the-ended", asked_of_the_ended},
    };
    run_groups(GROUPS(groups), NULL, argc, argv);
    return done();
}

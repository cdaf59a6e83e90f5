/* Checks inotify as Linux has it; passes on Linux and must pass here.
 *
 * Interface: inotifies [GROUP...] runs all groups or those named, in a directory of its own under /tmp; TAP
 * on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct {
    unsigned bit;
    const char *name;
} names[] = {
    {IN_ACCESS, "access"},        {IN_MODIFY, "modify"},
    {IN_ATTRIB, "attrib"},        {IN_CLOSE_WRITE, "written"},
    {IN_CLOSE_NOWRITE, "closed"}, {IN_OPEN, "open"},
    {IN_MOVED_FROM, "from"},      {IN_MOVED_TO, "to"},
    {IN_CREATE, "create"},        {IN_DELETE, "delete"},
    {IN_DELETE_SELF, "gone"},     {IN_MOVE_SELF, "moved"},
    {IN_UNMOUNT, "unmount"},      {IN_Q_OVERFLOW, "overflow"},
    {IN_IGNORED, "ignored"},      {IN_ISDIR, "/"},
};

static int fd;
static unsigned cookies[8];
static int cookie_count;

/* The events that wait in `of`, one word each: number of the watch, events, name. */
static const char *told_by(int of)
{
    static char text[4096];
    char buffer[8192];
    int used = 0, got;
    text[0] = 0;
    cookie_count = 0;
    while ((got = read(of, buffer, sizeof buffer)) > 0)
        for (char *at = buffer; at < buffer + got;) {
            struct inotify_event *e = (void *)at;
            used += snprintf(text + used, sizeof text - used, "%s%d", used ? " " : "", e->wd);
            for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (e->mask & names[i].bit)
                    used += snprintf(text + used, sizeof text - used, ":%s", names[i].name);
            if (e->len)
                used += snprintf(text + used, sizeof text - used, "=%s", e->name);
            if (e->cookie && cookie_count < 8)
                cookies[cookie_count++] = e->cookie;
            at += sizeof *e + e->len;
            if (used > (int)sizeof text - 512)
                used = 0;
        }
    return text;
}

static void told(const char *expected, const char *name)
{
    const char *text = told_by(fd);
    if (!tap_report(strcmp(text, expected) == 0, name))
        printf("# got \"%s\", expected \"%s\"\n", text, expected);
}

static void make(const char *path, const char *text)
{
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    (void)!write(file, text, strlen(text));
    close(file);
}

static void begin(void) { fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC); }

static void end(void) { close(fd); }

static void of_a_file(void)
{
    char byte[8];
    struct timespec times[2] = {{1, 0}, {0, UTIME_OMIT}};
    make("f", "abc");
    int before = open("f", O_RDWR);
    /* With its code in place. */
    (void)!read(before, byte, 1), (void)!write(before, "x", 1), (void)!lseek(before, 0, SEEK_SET);
    close(open("f", O_RDONLY)), close(open("f", O_RDONLY)), close(open("f", O_RDONLY));
    begin();
    equal(fcntl(fd, F_GETFD), FD_CLOEXEC, "IN_CLOEXEC");
    equal(inotify_add_watch(fd, "f", IN_ALL_EVENTS), 1, "the first watch");
    told("", "nothing yet");
    fails(read(fd, byte, sizeof byte), EAGAIN, "nothing to read");
    (void)!read(before, byte, 1);
    told("1:access", "a read by a descriptor of before");
    (void)!write(before, "y", 1);
    told("1:modify", "a write");
    (void)!pwrite(before, "y", 1, 0), (void)!pread(before, byte, 1, 0);
    told("1:modify 1:access", "at a place");
    (void)!lseek(before, 0, SEEK_END);
    told("", "moving the offset is nothing");
    equal(read(before, byte, 1), 0, "nothing was read");
    told("", "so nothing is told");
    for (int i = 0; i < 3; i++)
        (void)!write(before, "z", 1);
    told("1:modify", "what is the same is told once");
    close(before);
    told("1:written", "closed after writing");
    int file = open("f", O_RDONLY);
    told("1:open", "opened");
    int second = dup(file);
    close(file);
    told("", "not the last descriptor");
    close(second);
    told("1:closed", "the last");
    for (int i = 0; i < 3; i++)
        close(open("f", O_RDONLY));
    told("1:open 1:closed 1:open 1:closed 1:open 1:closed", "opened again and again");
    file = open("f", O_PATH);
    close(file);
    told("", "O_PATH opens nothing");
    file = open("f", O_RDWR);
    told_by(fd);
    equal(ftruncate(file, 1) == 0 && ftruncate(file, 1) == 0, 1, "made shorter");
    told("1:modify", "is a change");
    (void)!fallocate(file, 0, 0, 10);
    told("1:modify", "so is fallocate");
    int other = open("g", O_CREAT | O_RDWR, 0600);
    off_t start = 0;
    equal(sendfile(other, file, &start, 5), 5, "sendfile");
    told("1:access", "reads");
    start = 0;
    equal(copy_file_range(other, &start, file, NULL, 3, 0), 3, "copy_file_range");
    told("1:modify", "writes");
    close(other), unlink("g");
    char *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    map[0] = 1;
    munmap(map, 4096);
    told("", "mappings tell nothing");
    close(file);
    told_by(fd);
    truncate("f", 3);
    told("1:modify", "truncate");
    chmod("f", 0600);
    told("1:attrib", "chmod");
    (void)!chown("f", -1, getgid());
    told("1:attrib", "chown");
    utimensat(AT_FDCWD, "f", NULL, 0);
    told("1:attrib", "times");
    utimensat(AT_FDCWD, "f", times, 0);
    told("1:access", "the time of access");
    link("f", "g");
    told("1:attrib", "a further name");
    rename("g", "h");
    told("1:moved", "which is renamed");
    unlink("h");
    told("1:attrib", "and goes");
    file = open("f", O_RDONLY);
    told_by(fd);
    unlink("f");
    told("1:attrib", "its last name goes");
    (void)!read(file, byte, 1);
    told("1:access", "it is there still");
    close(file);
    told("1:closed 1:gone 1:ignored", "until it is closed");
    fails(inotify_rm_watch(fd, 1), EINVAL, "then the watch is gone, too");
    end();
}

static void of_a_directory(void)
{
    char buffer[4096];
    mkdir("d", 0755), mkdir("e", 0755);
    make("d/old", "1");
    int early = open("d/old", O_RDWR);
    begin();
    equal(inotify_add_watch(fd, "d", IN_ALL_EVENTS) == 1 && inotify_add_watch(fd, "e", IN_ALL_EVENTS) == 2, 1,
          "two directories");
    (void)!write(early, "2", 1);
    told("1:modify=old", "a file that was open tells its directory");
    close(early);
    told("1:written=old", "to its end");
    int file = open("d/a", O_CREAT | O_RDWR, 0600);
    told("1:create=a 1:open=a", "made and opened");
    (void)!write(file, "x", 1);
    told("1:modify=a", "written");
    fchmod(file, 0640);
    told("1:attrib=a", "an attribute");
    rename("d/a", "d/b");
    told("1:from=a 1:to=b", "renamed");
    equal(cookie_count == 2 && cookies[0] == cookies[1], 1, "one cookie for both");
    unsigned last = cookies[0];
    (void)!write(file, "x", 1);
    told("1:modify=b", "it goes by its new name");
    rename("d/b", "e/c");
    told("1:from=b 2:to=c", "elsewhere");
    equal(cookie_count == 2 && cookies[0] == cookies[1] && cookies[0] != last, 1, "another cookie");
    (void)!write(file, "x", 1);
    told("2:modify=c", "its new directory hears");
    rename("e/c", "c");
    told("2:from=c", "out of sight");
    (void)!write(file, "x", 1);
    told("", "nobody hears");
    rename("c", "d/c");
    told("1:to=c", "and back");
    (void)!write(file, "x", 1);
    told("1:modify=c", "heard again");
    close(file);
    told("1:written=c", "closed");
    link("d/c", "d/k"), symlink("c", "d/l"), mkfifo("d/p", 0600), mkdir("d/s", 0755);
    told("1:create=k 1:create=l 1:create=p 1:create:/=s", "links, pipes, directories");
    unlink("d/k"), unlink("d/l"), unlink("d/p"), rmdir("d/s");
    told("1:delete=k 1:delete=l 1:delete=p 1:delete:/=s", "and their ends");
    int dir = open("d", O_RDONLY | O_DIRECTORY);
    told("1:open:/", "opened itself");
    (void)!syscall(SYS_getdents64, dir, buffer, sizeof buffer);
    told("1:access:/", "listed");
    close(dir);
    told("1:closed:/", "closed");
    chmod("d", 0700);
    told("1:attrib:/", "its own attribute");
    equal(inotify_add_watch(fd, ".", IN_ALL_EVENTS), 3, "the one above");
    rename("d", "dd");
    told("3:from:/=d 3:to:/=dd 1:moved", "it is renamed");
    make("dd/x", "");
    told("1:create=x 1:open=x 1:written=x", "and watched as before");
    rename("dd/x", "dd/c");
    told("1:from=x 1:to=c", "over another");
    unlink("dd/old"), unlink("dd/c");
    told_by(fd);
    rmdir("dd");
    told("1:gone 1:ignored 3:delete:/=dd", "removed");
    make("x", ""), make("y", "");
    told_by(fd);
    syscall(SYS_renameat2, AT_FDCWD, "x", AT_FDCWD, "y", 2);
    told("3:from=x 3:to=y 3:from=y 3:to=x", "exchanged");
    equal(cookie_count == 4 && cookies[0] == cookies[1] && cookies[2] == cookies[3] &&
              cookies[0] != cookies[2],
          1, "two moves");
    int waste = inotify_add_watch(fd, "y", IN_ALL_EVENTS);
    told_by(fd);
    rename("x", "y");
    char expected[128];
    snprintf(expected, sizeof expected, "3:from=x 3:to=y %d:attrib %d:gone %d:ignored", waste, waste, waste);
    told(expected, "one that is replaced is gone");
    unlink("y"), rmdir("e");
    end();
}

/* Opens and closes it until a description of it, with its code, waits for the next open. */
static void often(const char *path)
{
    char byte;
    for (int i = 0; i < 4; i++) {
        int file = open(path, O_RDONLY);
        (void)!read(file, &byte, 1), (void)!read(file, &byte, 1);
        close(file);
    }
}

/* Files that were opened often before somebody watches them, their directory, or the directory that they
 * come to. */
static void opened_before(void)
{
    char byte, expected[128];
    mkdir("d", 0755), mkdir("e", 0755);
    make("d/in", "abc"), make("e/out", "abc"), make("e/linked", "abc"), make("e/moved", "abc");
    often("d/in"), often("e/out"), often("e/linked"), often("e/moved"), often("d");
    int held = open("d/in", O_RDONLY), other = open("e/out", O_RDONLY);
    (void)!read(held, &byte, 1), (void)!read(other, &byte, 1);
    begin();
    for (int round = 0; round < 2; round++) {
        int wd = inotify_add_watch(fd, "d", IN_OPEN | IN_ACCESS | IN_CLOSE);
        lseek(held, 0, SEEK_SET), lseek(other, 0, SEEK_SET);
        (void)!read(held, &byte, 1), (void)!read(other, &byte, 1);
        snprintf(expected, sizeof expected, "%d:access=in", wd);
        told(expected, "one that is open reads");
        often("e/out");
        close(open("d/in", O_RDONLY));
        snprintf(expected, sizeof expected, "%d:open=in %d:closed=in", wd, wd);
        told(expected, "one is opened");
        if (round == 0) {
            link("e/linked", "d/linked");
            close(open("d/linked", O_RDONLY));
            snprintf(expected, sizeof expected, "%d:open=linked %d:closed=linked", wd, wd);
            told(expected, "one that got a name there");
            rename("e/moved", "d/moved");
            close(open("d/moved", O_RDONLY));
            snprintf(expected, sizeof expected, "%d:open=moved %d:closed=moved", wd, wd);
            told(expected, "one that came there");
        }
        inotify_rm_watch(fd, wd);
        told_by(fd);
        lseek(held, 0, SEEK_SET);
        equal(read(held, &byte, 1) == 1 && byte == 'a' && read(held, &byte, 1) == 1 && byte == 'b', 1,
              "it reads when nobody watches any more");
        often("d/in");
        told("", "which is not told");
    }
    int wd = inotify_add_watch(fd, "d/in", IN_OPEN | IN_ACCESS);
    lseek(held, 0, SEEK_SET);
    (void)!read(held, &byte, 1);
    close(open("d/in", O_RDONLY));
    snprintf(expected, sizeof expected, "%d:access %d:open", wd, wd);
    told(expected, "and the file itself");
    end();
    close(held), close(other);
    unlink("d/in"), unlink("e/out"), unlink("e/linked"), unlink("d/linked"), unlink("d/moved"), rmdir("d"),
        rmdir("e");
}

static void masks(void)
{
    make("f", "1");
    mkdir("d", 0755);
    symlink("f", "l");
    begin();
    int wd = inotify_add_watch(fd, "f", IN_OPEN);
    close(open("f", O_RDONLY));
    told("1:open", "only what was asked for");
    equal(inotify_add_watch(fd, "f", IN_MODIFY | IN_MASK_ADD), wd, "the same watch");
    int file = open("f", O_RDWR);
    (void)!write(file, "2", 1);
    told("1:open 1:modify", "that and more");
    equal(inotify_add_watch(fd, "f", IN_ATTRIB), wd, "another mask");
    (void)!write(file, "2", 1);
    fchmod(file, 0600);
    told("1:attrib", "in place of the first");
    close(file);
    fails(inotify_add_watch(fd, "f", IN_OPEN | IN_MASK_CREATE), EEXIST, "IN_MASK_CREATE finds one");
    fails(inotify_add_watch(fd, "f", IN_OPEN | IN_MASK_CREATE | IN_MASK_ADD), EINVAL, "both");
    fails(inotify_add_watch(fd, "f", 0), EINVAL, "nothing");
    fails(inotify_add_watch(fd, "f", IN_OPEN | IN_ONLYDIR), ENOTDIR, "IN_ONLYDIR");
    fails(inotify_add_watch(fd, "none", IN_OPEN), ENOENT, "no such file");
    fails(inotify_add_watch(fd, (char *)8, IN_OPEN), EFAULT, "no path");
    fails(inotify_add_watch(0, "f", IN_OPEN), EINVAL, "another kind of file");
    fails(inotify_add_watch(-1, "f", IN_OPEN), EBADF, "no descriptor");
    fails(inotify_rm_watch(0, 1), EINVAL, "of another kind");
    fails(inotify_rm_watch(fd, 7), EINVAL, "no such watch");
    fails(inotify_rm_watch(-1, 1), EBADF, "nowhere");
    fails(inotify_init1(1), EINVAL, "an unknown flag");
    equal(inotify_rm_watch(fd, wd), 0, "taken away");
    close(open("f", O_RDONLY));
    told("1:ignored", "which is said, and nothing after");
    wd = inotify_add_watch(fd, "f", IN_OPEN | IN_MASK_CREATE);
    equal(wd, 2, "numbers go on");
    equal(inotify_add_watch(fd, "l", IN_OPEN), wd, "by a link");
    int link_wd = inotify_add_watch(fd, "l", IN_ALL_EVENTS | IN_DONT_FOLLOW);
    equal(link_wd, 3, "the link itself");
    unlink("l");
    told("3:attrib 3:gone 3:ignored", "its end");
    inotify_rm_watch(fd, wd);
    told_by(fd);
    wd = inotify_add_watch(fd, "f", IN_OPEN | IN_MODIFY | IN_ONESHOT);
    close(open("f", O_RDONLY));
    char expected[128];
    snprintf(expected, sizeof expected, "%d:open %d:ignored", wd, wd);
    told(expected, "IN_ONESHOT tells one thing");
    close(open("f", O_RDONLY));
    told("", "only");
    wd = inotify_add_watch(fd, "d", IN_ALL_EVENTS | IN_EXCL_UNLINK);
    make("d/x", "");
    file = open("d/x", O_RDWR);
    unlink("d/x");
    told_by(fd);
    (void)!write(file, "1", 1);
    close(file);
    told("", "IN_EXCL_UNLINK leaves out what has no name");
    wd = inotify_add_watch(fd, "d", IN_ALL_EVENTS);
    file = open("d/x", O_RDWR | O_CREAT, 0600);
    unlink("d/x");
    told_by(fd);
    (void)!write(file, "1", 1);
    close(file);
    snprintf(expected, sizeof expected, "%d:modify=x %d:written=x", wd, wd);
    told(expected, "which is told without it");
    if (getuid() == 0) {
        make("secret", "");
        chmod("secret", 0200);
        pid_t child = fork();
        if (child == 0) {
            (void)!setuid(1000);
            _exit(inotify_add_watch(fd, "secret", IN_OPEN) == -1 && errno == EACCES ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        equal(status, 0, "who may not read it may not watch it");
        unlink("secret");
    }
    unlink("f"), rmdir("d");
    end();
}

static void reading(void)
{
    char buffer[256];
    int waiting = -1;
    mkdir("d", 0755);
    begin();
    inotify_add_watch(fd, "d", IN_CREATE);
    equal(ioctl(fd, FIONREAD, &waiting) == 0 && waiting == 0, 1, "nothing to read");
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    equal(poll(&p, 1, 0), 0, "nor to write");
    int epoll = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
    equal(epoll_wait(epoll, &e, 1, 0), 0, "an instance is told nothing");
    make("d/fifteen_letters", "");
    make("d/sixteen__letters", "");
    equal(epoll_wait(epoll, &e, 1, 20000), 1, "then something");
    equal(poll(&p, 1, 0) == 1 && p.revents == POLLIN, 1, "to read");
    equal(ioctl(fd, FIONREAD, &waiting) == 0 && waiting == 32 + 48, 1, "so many bytes");
    fails(read(fd, buffer, 31), EINVAL, "less than one event");
    equal(read(fd, buffer, 79), 32, "one that fits");
    struct inotify_event *event = (void *)buffer;
    equal(event->len, 16, "a name with its end");
    equal(read(fd, buffer, sizeof buffer), 48, "the other");
    equal(event->len == 32 && buffer[47] == 0, 1, "filled up");
    fails(write(fd, buffer, 16), EBADF, "nobody writes it");
    equal(lseek(fd, 5, SEEK_SET), 0, "it has no offset");
    unlink("d/fifteen_letters"), unlink("d/sixteen__letters");
    make("d/x", "");
    fails(syscall(SYS_read, fd, 8, 64), EFAULT, "to nowhere");
    unlink("d/x");
    /* One who waits is woken. */
    fcntl(fd, F_SETFL, 0);
    pid_t child = fork();
    if (child == 0) {
        make("d/late", "");
        _exit(0);
    }
    int got = read(fd, buffer, sizeof buffer);
    equal(got == 32 && strcmp(event->name, "late") == 0, 1, "a reader waits");
    waitpid(child, NULL, 0);
    unlink("d/late"), rmdir("d");
    close(epoll);
    end();
}

/* A number in /proc/sys/fs/inotify. */
static int setting(const char *name, int value)
{
    char path[128];
    snprintf(path, sizeof path, "/proc/sys/fs/inotify/%s", name);
    FILE *file = fopen(path, value < 0 ? "r" : "w");
    int old = -1;
    if (!file)
        return -1;
    if (value < 0)
        (void)!fscanf(file, "%d", &old);
    else
        fprintf(file, "%d\n", value);
    fclose(file);
    return old;
}

static void bounds(void)
{
    int queued = setting("max_queued_events", -1), instances = setting("max_user_instances", -1),
        watches = setting("max_user_watches", -1);
    check(queued > 0 && instances > 0 && watches > 0, "the limits can be read");
    if (getuid() != 0)
        return;
    setting("max_queued_events", 4);
    begin();
    setting("max_queued_events", queued);
    mkdir("d", 0755);
    inotify_add_watch(fd, "d", IN_CREATE);
    setting("max_queued_events", 4);
    const char *made[] = {"d/1", "d/2", "d/3", "d/4", "d/5", "d/6"};
    for (int i = 0; i < 6; i++)
        make(made[i], "");
    told("1:create=1 1:create=2 1:create=3 1:create=4 -1:overflow",
         "what is too much is lost, and that is said");
    unlink("d/1");
    make("d/1", "");
    told("1:create=1", "then it goes on");
    setting("max_queued_events", queued);
    setting("max_user_watches", 2);
    equal(inotify_add_watch(fd, "d/1", IN_OPEN) > 0, 1, "as many watches as may be");
    fails(inotify_add_watch(fd, "d/2", IN_OPEN), ENOSPC, "no more");
    equal(inotify_add_watch(fd, "d/1", IN_MODIFY) > 0, 1, "an old one can be changed");
    setting("max_user_watches", watches);
    end();
    for (int i = 0; i < 6; i++)
        unlink(made[i]);
    rmdir("d");
    int all[256], count = 0;
    setting("max_user_instances", 5);
    while (count < 200 && (all[count] = inotify_init()) >= 0)
        count++;
    equal(count < 6 && errno == EMFILE, 1, "no more instances");
    while (count > 0)
        close(all[--count]);
    setting("max_user_instances", instances);
    fd = inotify_init();
    check(fd >= 0, "a closed one is given back");
    end();
}

#define ROUNDS 300
static _Atomic int stop;

static void *churn(void *unused)
{
    char byte;
    while (!stop) {
        int file = open("race/a", O_CREAT | O_RDWR, 0600);
        (void)!write(file, "x", 1), (void)!pread(file, &byte, 1, 0);
        rename("race/a", "race/b");
        close(file);
        unlink("race/b");
    }
    return unused;
}

static void races(void)
{
    pthread_t threads[2];
    mkdir("race", 0755);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, churn, NULL);
    int good = 1;
    for (int i = 0; i < ROUNDS; i++) {
        begin();
        int dir = inotify_add_watch(fd, "race", IN_ALL_EVENTS);
        int file = inotify_add_watch(fd, "race/a", IN_ALL_EVENTS);
        good &= dir > 0 && (file > 0 || errno == ENOENT);
        if (i % 2)
            inotify_rm_watch(fd, dir);
        told_by(fd);
        end();
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    check(good, "watches come and go while files do");
    unlink("race/a"), unlink("race/b");
    equal(rmdir("race"), 0, "and nothing is left");
}

/* -- a watch that comes while a file is opened ----------------------------------------------------------- */

#define LARGE (2 << 20)
#define MEETINGS 250

/* The last round in which each of these was done. */
static volatile struct meeting {
    int ready, begun, opened, watched, written, over;
} *meeting;

static void reach(volatile int *step, int round)
{
    while (*step < round)
        sched_yield();
}

/* Opens a file whose description waits for that, and which is long to be made empty; then writes. */
static void meets(void)
{
    static char bytes[LARGE];
    for (int round = 1; round <= MEETINGS; round++) {
        for (int i = 0; i < 3; i++) {
            int file = open("slow", O_WRONLY);
            if (i == 2)
                (void)!write(file, bytes, sizeof bytes);
            close(file);
        }
        meeting->ready = round;
        reach(&meeting->begun, round);
        int file = open("slow", O_WRONLY | O_TRUNC);
        meeting->opened = round;
        reach(&meeting->watched, round);
        (void)!write(file, "x", 1);
        meeting->written = round;
        reach(&meeting->over, round);
        close(file);
    }
    _exit(0);
}

static void meetings(void)
{
    meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make("slow", "");
    begin();
    pid_t child = fork();
    if (child == 0)
        meets();
    int missed = 0, between = 0;
    for (int round = 1; round <= MEETINGS; round++) {
        reach(&meeting->ready, round);
        meeting->begun = round;
        struct timespec now, from;
        clock_gettime(CLOCK_MONOTONIC, &from);
        do
            clock_gettime(CLOCK_MONOTONIC, &now);
        while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec <
               round * 7919L % 150 * 1000);
        int before = meeting->opened;
        int watch = inotify_add_watch(fd, "slow", IN_MODIFY);
        between += before < round && meeting->opened < round;
        reach(&meeting->opened, round);
        told_by(fd);
        meeting->watched = round;
        reach(&meeting->written, round);
        missed += !strstr(told_by(fd), "modify");
        inotify_rm_watch(fd, watch);
        told_by(fd);
        meeting->over = round;
    }
    waitpid(child, NULL, 0);
    printf("# %d watches came before the open was over\n", between);
    equal(missed, 0, "a file that was being opened tells");
    end();
    unlink("slow");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"file", of_a_file}, {"directory", of_a_directory}, {"before", opened_before},
        {"masks", masks},    {"reading", reading},          {"bounds", bounds},
        {"races", races},    {"meetings", meetings},
    };
    char place[] = "/tmp/inotifies-XXXXXX";
    umask(022);
    if (!mkdtemp(place) || chmod(place, 0755) || chdir(place))
        return 99;
    run_groups(groups, sizeof groups / sizeof *groups, NULL, argc, argv);
    (void)!chdir("/");
    rmdir(place);
    return done();
}

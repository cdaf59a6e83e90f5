/* Checks that threads which open, duplicate and close the same descriptors read what is there; passes on
 * Linux and must pass here.
 *
 * Interface: fdtables [GROUP...] runs all groups or those named; TAP on standard output. (`tables read` only
 * reads, for the test of exec.) A file has one letter, again and again. Descriptors below COMMON are their
 * opener's alone; those from there on are everybody's.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define LETTERS 8
#define ROUNDS repeats(400)
#define COMMON 900
#define COMMONS 3

static char path[LETTERS][32];

static void make_files(void)
{
    for (int i = 0; i < LETTERS; i++) {
        char text[64];
        memset(text, 'a' + i, sizeof text);
        int fd = open(path[i], O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (fd < 0 || write(fd, text, sizeof text) != sizeof text)
            check(0, path[i]);
        close(fd);
    }
}

/* The letter at `fd`, or 0 if it is closed. */
static char letter(int fd)
{
    char byte = 0;
    lseek(fd, 0, SEEK_SET);
    return read(fd, &byte, 1) == 1 ? byte : 0;
}

/* Whether all of a few calls on `fd` find file `i` there: the first may make the code that the others run. */
static int is_file(int fd, int i)
{
    int good = 1;
    for (int again = 0; again < 3; again++)
        good &= letter(fd) == 'a' + i;
    return good && write(fd, "x", 1) == -1 && errno == EBADF;
}

static int is_closed(int fd)
{
    char byte;
    return read(fd, &byte, 1) == -1 && errno == EBADF && write(fd, &byte, 1) == -1 && errno == EBADF &&
           lseek(fd, 0, SEEK_SET) == -1 && errno == EBADF && fcntl(fd, F_GETFD) == -1;
}

static volatile int stop;

/* One thread's turn: its own descriptor is its own, the common ones are anybody's. Returns how often
 * something was wrong. */
static long churn(unsigned me, unsigned round)
{
    long wrong = 0;
    int i = (me + round) % LETTERS, common = COMMON + round % COMMONS;
    int fd = open(path[i], O_RDONLY);
    wrong += fd < 0 || fd >= COMMON;
    wrong += !is_file(fd, i);
    wrong += dup2(fd, common) != common;
    char found = letter(common);
    wrong += found != 0 && (found < 'a' || found >= 'a' + LETTERS);
    int other = fcntl(common, F_DUPFD, 20);
    if (other >= 0) {
        found = letter(other);
        wrong += found < 'a' || found >= 'a' + LETTERS;
        for (int again = 0; again < 3; again++)
            wrong += letter(other) != found;
        wrong += close(other) != 0;
    }
    fcntl(common, F_SETFD, round & 1);
    if (round % 3 == 0)
        close(common);
    wrong += !is_file(fd, i);
    wrong += close(fd) != 0;
    return wrong;
}

static void *churner(void *me)
{
    long wrong = 0;
    for (unsigned round = 0; round < ROUNDS && !stop; round++)
        wrong += churn((uintptr_t)me, round);
    return (void *)wrong;
}

static pthread_t thread[THREADS];

static void begin(void *(*run)(void *))
{
    stop = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], 0, run, (void *)i);
}

static long end(void)
{
    long wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        wrong += (long)result;
    }
    return wrong;
}

/* Nothing is left behind: every number is what the last call made of it, and the lowest is free again. */
static void settled(int lowest, const char *name)
{
    int good = 1;
    for (int k = 0; k < COMMONS; k++) {
        int i = k % LETTERS, fd = open(path[i], O_RDONLY);
        good &= fd == lowest && dup2(fd, COMMON + k) == COMMON + k && is_file(COMMON + k, i);
        close(fd);
        good &= is_closed(fd) && is_file(COMMON + k, i);
        close(COMMON + k);
        good &= is_closed(COMMON + k);
    }
    check(good, name);
}

static int lowest(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static void numbers(void)
{
    int free = lowest();
    begin(churner);
    equal(end(), 0, "threads read their own files, and some file at common numbers");
    settled(free, "afterwards every number leads where it should");
}

/* A thread that opens more than there was room for. */
static void *hoarder(void *me)
{
    int fd[60];
    long wrong = 0;
    for (int i = 0; i < 60; i++) {
        fd[i] = open(path[i % LETTERS], O_RDONLY);
        wrong += !is_file(fd[i], i % LETTERS);
    }
    for (int i = 0; i < 60; i++)
        wrong += !is_file(fd[i], i % LETTERS);
    for (int i = 0; i < 60; i++)
        wrong += close(fd[i]) != 0;
    return (void *)(wrong + (long)churner(me));
}

/* In a child, whose table has its first size. */
static void growth(void)
{
    int failed = 0;
    for (int round = 0; round < 8 && !failed; round++) {
        pid_t child = fork();
        if (child == 0) {
            begin(hoarder);
            _exit(end() != 0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        failed = status;
    }
    equal(failed, 0, "a table that grows under its threads");
}

/* A child of a process whose threads are busy has its own file, and only files. */
static long inspect(int fd, int i)
{
    long wrong = !is_file(fd, i);
    for (int k = 0; k < COMMONS; k++) {
        char found = letter(COMMON + k);
        wrong += found != 0 && (found < 'a' || found >= 'a' + LETTERS);
    }
    for (unsigned round = 0; round < 10; round++)
        wrong += churn(7, round);
    wrong += !is_file(fd, i);
    return wrong;
}

static void forks(void)
{
    int fd = open(path[5], O_RDONLY);
    long bad = 0;
    begin(churner);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(inspect(fd, 5) != 0);
        int status = -1;
        waitpid(child, &status, 0);
        bad += status != 0 || !is_file(fd, 5);
    }
    stop = 1;
    equal(end(), 0, "threads of a process that forks");
    equal(bad, 0, "children of a process whose threads are busy");
    close(fd);
}

/* Looks at every descriptor of `pid`, until the process is gone or `rounds` are over; opens what has no
 * name anew. */
static void look(pid_t pid, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        char name[64];
        snprintf(name, sizeof name, "/proc/%d/fd", pid);
        DIR *list = opendir(name);
        struct dirent *entry;
        while (list && (entry = readdir(list))) {
            char link[400], to[100] = "";
            snprintf(link, sizeof link, "%s/%s", name, entry->d_name);
            if (readlink(link, to, sizeof to - 1) > 0 && strncmp(to, "pipe:", 5) == 0) {
                int fd = open(link, O_RDONLY | O_NONBLOCK);
                if (fd >= 0)
                    close(fd);
            }
        }
        if (list)
            closedir(list);
    }
}

/* One thread alone, whose table others look at: it goes there and back between plain stores and exchanges. */
static void visitors(void)
{
    pid_t self = getpid(), child[2];
    int free = lowest(), pipes[2];
    long wrong = 0;
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            look(self, 60);
            _exit(0);
        }
    }
    for (unsigned round = 0; round < 4 * ROUNDS; round++) {
        char byte = 0;
        wrong += churn(round, round);
        if (pipe(pipes) != 0) {
            wrong++;
            continue;
        }
        for (int again = 0; again < 3; again++) {
            byte = 0;
            wrong += write(pipes[1], "p", 1) != 1 || read(pipes[0], &byte, 1) != 1 || byte != 'p';
        }
        close(pipes[0]);
        close(pipes[1]);
        wrong += !is_closed(pipes[0]);
    }
    for (int i = 0; i < 2; i++)
        waitpid(child[i], 0, 0);
    equal(wrong, 0, "a process whose descriptors others look at");
    settled(free, "and when they are gone");
}

/* A flag changes what the code of a description is, wherever it is. */
static void flags(void)
{
    int fd = open("/tmp/tables-flags", O_CREAT | O_TRUNC | O_RDWR, 0600);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 300; i++)
            fcntl(fd, F_SETFL, i & 1 ? O_APPEND : 0);
        _exit(0);
    }
    long wrong = 0;
    for (int i = 0; i < 2 * ROUNDS; i++) {
        int other = dup(fd);
        lseek(other, 0, SEEK_SET);
        wrong += write(other, "12", 2) != 2;
        wrong += close(other) != 0 || !is_closed(other);
    }
    waitpid(child, 0, 0);
    equal(wrong, 0, "writing while another changes O_APPEND");
    struct stat before, after;
    int other = dup(fd);
    fstat(fd, &before);
    lseek(fd, 0, SEEK_SET);
    write(fd, "34", 2);
    lseek(fd, 0, SEEK_SET);
    write(other, "56", 2);
    fstat(fd, &after);
    equal(after.st_size - before.st_size, 4, "O_APPEND holds at every number that has the file");
    close(other);
    close(fd);
}

static int twice[2];

/* Reads to the end, a number at a time; their sum. */
static void *adder(void *at)
{
    uintptr_t sum = 0;
    uint32_t number;
    while (read(*(int *)at, &number, sizeof number) == sizeof number)
        sum += number;
    return (void *)sum;
}

/* One description with two descriptors, used by one thread and then by two. */
static void twins(void)
{
    enum { SIZE = 200000 };
    static uint32_t numbers[SIZE];
    uintptr_t sum = 0;
    pthread_t other;
    void *its = 0;
    for (uint32_t i = 0; i < SIZE; i++)
        sum += numbers[i] = i * i;
    twice[0] = open("/tmp/tables-twins", O_CREAT | O_TRUNC | O_RDWR, 0600);
    equal(write(twice[0], numbers, sizeof numbers), sizeof numbers, "a file of numbers");
    twice[1] = dup(twice[0]);
    for (int i = 0; i < 6; i++) {
        lseek(twice[i % 2], 0, SEEK_SET);
        read(twice[i % 2], numbers, 1);
    }
    lseek(twice[0], 0, SEEK_SET);
    pthread_create(&other, 0, adder, &twice[1]);
    uintptr_t mine = (uintptr_t)adder(&twice[0]);
    pthread_join(other, &its);
    equal(mine + (uintptr_t)its, sum,
          "two threads with two descriptors of one description read each number once");
    close(twice[0]);
    close(twice[1]);
}

/* Descriptors of these files are there from the beginning, and nobody closes them. */
#define STEADY 20

/* A call that is on its way while another thread exchanges the table may find its number closed: the next
 * one does not. */
static long steady(unsigned round)
{
    int i = round % LETTERS, good = 0;
    for (int tries = 0; tries < 5 && !good; tries++)
        good = is_file(STEADY + i, i);
    return !good;
}

/* In a child, whose table has its first size. */
static pid_t begin_child(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        for (int i = 0; i < LETTERS; i++)
            dup2(open(path[i], O_RDONLY), STEADY + i);
    return child;
}

/* A thread that begins while the table is exchanged. */
static void *beginner(void *me)
{
    long wrong = 0;
    for (unsigned round = 0; round < 4; round++)
        wrong += steady((uintptr_t)me + round);
    return (void *)wrong;
}

/* Files that are opened here may be in a table that another thread is about to exchange; the steady ones
 * are in all of them. */
static void *leaver(void *me)
{
    long wrong = 0;
    for (unsigned round = (uintptr_t)me; round < 40; round++) {
        pthread_t other;
        int begun = pthread_create(&other, 0, beginner, me) == 0;
        wrong += !begun;
        if (round % 3 != 0)
            wrong += unshare(CLONE_FILES) != 0;
        wrong += steady(round);
        dup2(STEADY, 70 << round % 4);
        wrong += steady(round + 1);
        close(70 << round % 4);
        wrong += steady(round + 2);
        if (begun) {
            void *result = 0;
            pthread_join(other, &result);
            wrong += (long)result;
        }
    }
    return (void *)wrong;
}

static void exchanges(void)
{
    int bad = 0;
    for (int round = 0; round < 3; round++) {
        int status = -1;
        pid_t child = begin_child();
        if (child == 0) {
            begin(leaver);
            _exit(end() != 0 || steady(0) != 0);
        }
        waitpid(child, &status, 0);
        bad += status != 0;
    }
    equal(bad, 0, "threads that take a table of their own while others begin, read, and need a larger one");
}

/* Where a table begins that takes long to copy. */
#define MANY 100

/* Takes tables of its own while another thread copies what it had. */
static void *parter(void)
{
    long wrong = 0;
    while (!stop)
        wrong += unshare(CLONE_FILES) != 0;
    return (void *)wrong;
}

static void *copier(void *me)
{
    if (me != 0)
        return parter();
    long wrong = 0;
    for (int round = 0; round < repeats(400); round++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            for (int fd = MANY; fd < COMMON; fd++)
                wrong += fcntl(fd, F_GETFD) == -1;
            _exit(wrong != 0);
        }
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    stop = 1;
    return (void *)wrong;
}

static void copies(void)
{
    int status = -1;
    pid_t child = begin_child();
    if (child == 0) {
        for (int fd = MANY; fd < COMMON; fd++)
            dup2(STEADY, fd);
        begin(copier);
        _exit(end() != 0);
    }
    waitpid(child, &status, 0);
    equal(status, 0, "a child has all descriptors, whoever takes another table while it is made");
}

/* Shares its table with another process, which makes it larger, and executes a program. */
static void sharer(void)
{
    pid_t other = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (other == 0) {
        long wrong = 0;
        for (unsigned round = 0; round < 40; round++) {
            dup2(STEADY, 70 << round / 10);
            wrong += steady(round);
        }
        _exit(wrong != 0);
    }
    execl("/proc/self/exe", "tables", "read", (char *)0);
    _exit(2);
}

static void sharers(void)
{
    int bad = 0;
    for (int round = 0; round < 10; round++) {
        int status = -1;
        pid_t child = begin_child();
        if (child == 0)
            sharer();
        waitpid(child, &status, 0);
        bad += status != 0;
    }
    equal(bad, 0, "programs whose table another process makes larger when they begin");
}

/* The program that a sharer executes. */
static int reads(void)
{
    long wrong = 0;
    int status = -1;
    for (unsigned round = 0; round < 100; round++)
        wrong += steady(round);
    wrong += wait(&status) < 0 || status != 0;
    return wrong != 0;
}

static const struct group groups[] = {{"numbers", numbers},     {"growth", growth}, {"forks", forks},
                                      {"visitors", visitors},   {"flags", flags},   {"twins", twins},
                                      {"exchanges", exchanges}, {"copies", copies}, {"sharers", sharers}};

int main(int argc, char **argv)
{
    struct rlimit limit = {1024, 1024};
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < LETTERS; i++)
        snprintf(path[i], sizeof path[i], "/tmp/tables-%c", 'a' + i);
    if (argc == 2 && strcmp(argv[1], "read") == 0)
        return reads();
    make_files();
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

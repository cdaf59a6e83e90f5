/* Checks System V IPC as Linux has it: shared memory, semaphores, message queues; passes on Linux and must
 * pass here.
 *
 * Interface: sysv [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MSG_COPY
#define MSG_COPY 040000
#endif
#define PAGE 4096

static int key_now;

/* Whether a line of the text has this number in column two. */
static int listed(const char *path, int id)
{
    char line[512];
    int found = 0, key, number;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        found |= sscanf(line, "%d %d", &key, &number) == 2 && number == id;
    if (file)
        fclose(file);
    return found;
}

static void on_signal(int signal) { (void)signal; }

/* From now on a signal comes every 20 ms, or no more. */
static void ring(int on)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, on ? 20000 : 0}, {0, on ? 20000 : 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

/* --- shared memory --- */

static void memory(void)
{
    struct shmid_ds about;
    int key = key_now + 1;
    int id = shmget(key, 5000, IPC_CREAT | IPC_EXCL | 0640);
    check(id >= 0, "a segment");
    fails(shmget(key, 5000, IPC_CREAT | IPC_EXCL | 0600), EEXIST, "one with this key is there");
    equal(shmget(key, 5000, 0), id, "it is found");
    equal(shmget(key, 0, IPC_CREAT | 0600), id, "also with less");
    fails(shmget(key, 5001, 0), EINVAL, "not with more");
    fails(shmget(key_now + 999, 10, 0), ENOENT, "no such key");
    fails(shmget(IPC_PRIVATE, 0, 0600), EINVAL, "of no bytes");
    equal(listed("/proc/sysvipc/shm", id), 1, "it is listed");
    int *one = shmat(id, NULL, 0);
    check(one != (void *)-1, "mapped");
    equal(one[0] == 0 && one[1249] == 0 && one[2047] == 0, 1, "it is zero, to the end of its last page");
    one[0] = 7;
    int *two = shmat(id, NULL, SHM_RDONLY);
    equal(two[0], 7, "mapped again");
    equal(shmctl(id, IPC_STAT, &about) == 0 && about.shm_nattch == 2 && about.shm_segsz == 5000, 1,
          "two mappings");
    equal(about.shm_cpid == getpid() && about.shm_lpid == getpid() && about.shm_atime != 0 &&
              about.shm_dtime == 0,
          1, "by whom, and when");
    equal(about.shm_perm.mode == 0640 && about.shm_perm.__key == key && about.shm_perm.cuid == geteuid(), 1,
          "whose it is");
    pid_t child = fork();
    if (child == 0) {
        int good = shmctl(id, IPC_STAT, &about) == 0 && about.shm_nattch == 4;
        one[1] = 8;
        good &= shmdt(two) == 0;
        good &= shmctl(id, IPC_STAT, &about) == 0 && about.shm_nattch == 3;
        _exit(good ? 0 : 1);
    }
    equal(status_of(child), 0, "a child has both");
    equal(two[1], 8, "what it wrote is there");
    equal(shmctl(id, IPC_STAT, &about) == 0 && about.shm_nattch == 2, 1, "its end took its own");
    child = fork();
    if (child == 0) {
        two[0] = 1;
        _exit(0);
    }
    equal(WTERMSIG(status_of(child)), SIGSEGV, "one for reading cannot be written");
    fails(mprotect(two, PAGE, PROT_READ | PROT_WRITE), EACCES, "nor become so");
    equal(shmdt(two), 0, "unmapped");
    fails(shmdt(two), EINVAL, "once");
    fails(shmdt(one + 1), EINVAL, "not from the middle");
    fails(shmdt((char *)one + PAGE), EINVAL, "nor from its second page");
    char *place = mmap(0, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fails((long)shmat(id, place, 0), EINVAL, "where something is");
    fails((long)shmat(id, place + 1, 0), EINVAL, "not at a page");
    equal(shmat(id, place + 1, SHM_RND | SHM_REMAP) == place && *(int *)place == 7, 1,
          "in place of what is there");
    munmap(place, PAGE);
    equal(shmctl(id, IPC_STAT, &about) == 0 && about.shm_nattch == 2, 1, "part of it is a mapping, too");
    equal(shmdt(place), 0, "and is unmapped by where it would begin");
    munmap(place, 8 * PAGE);
    fails((long)shmat(-1, NULL, 0), EINVAL, "no number");
    struct shmid_ds change = about;
    change.shm_perm.mode = 0600;
    equal(shmctl(id, IPC_SET, &change), 0, "another mode");
    if (geteuid() == 0) {
        child = fork();
        if (child == 0) {
            (void)!setgid(1000), (void)!setuid(1000);
            int good = shmget(key, 0, 0) == id && shmget(key, 0, 0400) == -1 && errno == EACCES;
            good &= shmat(id, NULL, SHM_RDONLY) == (void *)-1 && errno == EACCES;
            good &= shmctl(id, IPC_STAT, &about) == -1 && errno == EACCES;
            good &= shmctl(id, IPC_RMID, NULL) == -1 && errno == EPERM;
            good &= shmctl(id, IPC_SET, &about) == -1 && errno == EPERM;
            good &= listed("/proc/sysvipc/shm", id);
            _exit(good ? 0 : 1);
        }
        equal(status_of(child), 0, "others may not");
        change.shm_perm.mode = 0604;
        shmctl(id, IPC_SET, &change);
        child = fork();
        if (child == 0) {
            (void)!setgid(1000), (void)!setuid(1000);
            int good = shmat(id, NULL, 0) == (void *)-1 && errno == EACCES;
            good &= shmat(id, NULL, SHM_RDONLY | SHM_EXEC) == (void *)-1 && errno == EACCES;
            good &= shmat(id, NULL, SHM_RDONLY) != (void *)-1;
            _exit(good ? 0 : 1);
        }
        equal(status_of(child), 0, "nor write where they may read");
    }
    equal(shmctl(id, IPC_RMID, NULL), 0, "doomed");
    equal(one[0], 7, "but there while it is mapped");
    equal(shmctl(id, IPC_STAT, &about) == 0 && (about.shm_perm.mode & SHM_DEST) && about.shm_perm.__key == 0,
          1, "as one hears");
    fails(shmget(key, 0, 0), ENOENT, "its key is nobody's");
    child = fork();
    if (child == 0)
        _exit(shmat(id, NULL, 0) == (void *)-1);
    equal(status_of(child), 0, "its number is its own still");
    equal(shmdt(one), 0, "the last mapping");
    fails(shmctl(id, IPC_STAT, &about), EINVAL, "and it is gone");
    int after = shmget(IPC_PRIVATE, 4096, 0600);
    check(after != id && (after & 32767) == (id & 32767), "its place is another's, whose number is new");
    equal(shmctl(after, SHM_STAT, &about), after, "a number stands for its place");
    equal(shmctl(id, SHM_STAT, &about), after, "so does one that was in this place before");
    fails(shmctl(id, IPC_STAT, &about), EINVAL, "but it names nothing");
    equal(shmctl(after, IPC_RMID, NULL), 0, "the new one goes, too");
    fails((long)shmat(id, NULL, 0), EINVAL, "so is its number");
    int next = shmget(IPC_PRIVATE, PAGE, 0600);
    check(next != id, "which is not given again at once");
    shmctl(next, IPC_RMID, NULL);
    fails(shmctl(next, IPC_RMID, NULL), EINVAL, "removed at once when nobody has it");
    struct shminfo limits;
    check(shmctl(0, IPC_INFO, (void *)&limits) >= 0 && limits.shmmin == 1 && limits.shmmni > 0, "the limits");
    struct shm_info all;
    check(shmctl(0, SHM_INFO, (void *)&all) >= 0, "the sum");
    fails(shmctl(0, 77, NULL), EINVAL, "an unknown command");
    id = shmget(IPC_PRIVATE, PAGE, 0600);
    int highest = shmctl(0, SHM_INFO, (void *)&all), found = 0;
    for (int i = 0; i <= highest; i++)
        found |= shmctl(i, SHM_STAT, &about) == id;
    equal(found, 1, "found by its place");
    shmctl(id, IPC_RMID, NULL);
}

/* --- semaphores --- */

union semun {
    int val;
    struct semid_ds *buf;
    unsigned short *array;
    struct seminfo *info;
};

static int get(int id, int number, int command) { return semctl(id, number, command); }
static int set(int id, int number, int value)
{
    return semctl(id, number, SETVAL, (union semun){.val = value});
}

static int operate(int id, int number, int op, int flags)
{
    struct sembuf one = {number, op, flags};
    return semop(id, &one, 1);
}

static void semaphores(void)
{
    struct semid_ds about;
    unsigned short values[3] = {1, 2, 3}, got[3];
    int key = key_now + 2;
    fails(semget(IPC_PRIVATE, 0, 0600), EINVAL, "none");
    int id = semget(key, 3, IPC_CREAT | 0600);
    check(id >= 0, "three semaphores");
    fails(semget(key, 4, 0), EINVAL, "not four");
    equal(semget(key, 2, 0), id, "two are among them");
    equal(listed("/proc/sysvipc/sem", id), 1, "listed");
    equal(semctl(id, 0, GETALL, (union semun){.array = got}) == 0 && got[0] + got[1] + got[2] == 0, 1,
          "zero at first");
    equal(semctl(id, 0, SETALL, (union semun){.array = values}), 0, "values");
    equal(get(id, 0, GETVAL) + 10 * get(id, 1, GETVAL) + 100 * get(id, 2, GETVAL), 321, "are there");
    equal(get(id, 1, GETPID), getpid(), "by whom");
    fails(set(id, 0, 32768), ERANGE, "too large");
    fails(set(id, 0, -1), ERANGE, "negative");
    fails(set(id, 3, 1), EINVAL, "no such semaphore");
    fails(get(id, 3, GETVAL), EINVAL, "there either");
    equal(operate(id, 0, -1, 0), 0, "down");
    fails(operate(id, 0, -1, IPC_NOWAIT), EAGAIN, "it is zero");
    equal(operate(id, 0, 0, 0), 0, "as can be waited for");
    fails(operate(id, 1, 0, IPC_NOWAIT), EAGAIN, "another is not");
    fails(operate(id, 3, 1, 0), EFBIG, "beyond the last");
    fails(operate(id, 0, 32767, 0) == 0 && operate(id, 0, 1, 0) == 0 ? 0 : -1, ERANGE, "more than fits");
    set(id, 0, 0);
    struct sembuf several[2] = {{1, -1, 0}, {0, -1, IPC_NOWAIT}};
    fails(semop(id, several, 2), EAGAIN, "all or nothing");
    equal(get(id, 1, GETVAL), 2, "so nothing");
    several[1] = (struct sembuf){1, -1, 0};
    equal(semop(id, several, 2) == 0 && get(id, 1, GETVAL) == 0, 1, "one twice");
    fails(semop(id, several, 0), EINVAL, "no operation");
    fails(semop(id, several, 501), E2BIG, "too many");
    fails(syscall(SYS_semop, id, 8, 1), EFAULT, "nowhere");
    fails(semop(-1, several, 1), EINVAL, "no number");
    equal(semctl(id, 0, IPC_STAT, (union semun){.buf = &about}) == 0 && about.sem_nsems == 3 &&
              about.sem_otime != 0,
          1, "what is told of it");

    /* A waiter is counted, and woken. */
    pid_t child = fork();
    if (child == 0)
        _exit(operate(id, 0, -2, 0) == 0 ? 0 : 1);
    while (get(id, 0, GETNCNT) != 1)
        usleep(1000);
    equal(operate(id, 0, 1, 0), 0, "one is not enough");
    equal(get(id, 0, GETNCNT), 1, "for who waits for two");
    equal(operate(id, 0, 1, 0), 0, "two are");
    equal(status_of(child), 0, "woken");
    equal(get(id, 0, GETVAL) + get(id, 0, GETNCNT), 0, "nothing is left");
    set(id, 0, 1);
    child = fork();
    if (child == 0)
        _exit(operate(id, 0, 0, 0) == 0 ? 0 : 1);
    while (get(id, 0, GETZCNT) != 1)
        usleep(1000);
    equal(operate(id, 0, -1, 0), 0, "to zero");
    equal(status_of(child), 0, "which was waited for");
    ring(1);
    fails(operate(id, 0, -1, 0), EINTR, "a signal ends the wait, whatever its handler");
    ring(0);
    equal(get(id, 0, GETNCNT), 0, "nobody waits");

    /* Back and forth, and several who wait at once. */
    set(id, 0, 0);
    set(id, 1, 0);
    child = fork();
    if (child == 0) {
        struct sembuf turn[2] = {{0, -1, 0}, {1, 1, 0}};
        int turns = 0;
        while (turns < 1000 && semop(id, turn, 2) == 0)
            turns++;
        _exit(turns == 1000 ? 0 : 1);
    }
    struct sembuf turn[2] = {{1, -1, 0}, {0, 1, 0}};
    int turns = 0;
    equal(operate(id, 0, 1, 0), 0, "the first turn");
    while (turns < 999 && semop(id, turn, 2) == 0)
        turns++;
    equal(operate(id, 1, -1, 0), 0, "the last");
    equal(turns == 999 && status_of(child) == 0, 1, "a thousand turns");
    equal(get(id, 0, GETVAL) + get(id, 1, GETVAL), 0, "come out even");
    pid_t waiters[3];
    for (int i = 0; i < 3; i++) {
        waiters[i] = fork();
        if (waiters[i] == 0)
            _exit(operate(id, 0, -1, 0) == 0 ? 0 : 1);
    }
    while (get(id, 0, GETNCNT) != 3)
        usleep(1000);
    kill(waiters[1], SIGKILL);
    waitpid(waiters[1], 0, 0);
    equal(get(id, 0, GETNCNT), 2, "one of three has been killed");
    equal(operate(id, 0, 2, 0), 0, "enough for the others");
    equal(status_of(waiters[0]) + status_of(waiters[2]), 0, "who go on");
    equal(get(id, 0, GETVAL) + get(id, 0, GETNCNT), 0, "and nothing stays");
    struct timespec soon = {0, 10000000}, wrong = {0, 1000000000};
    struct sembuf one = {0, -1, 0};
    fails(semtimedop(id, &one, 1, &soon), EAGAIN, "a wait with an end");
    fails(semtimedop(id, &one, 1, &wrong), EINVAL, "which is none");

    /* Undone at the end. */
    set(id, 0, 5);
    child = fork();
    if (child == 0)
        _exit(operate(id, 0, -3, SEM_UNDO) == 0 && operate(id, 0, 1, SEM_UNDO) == 0 && get(id, 0, GETVAL) == 3
                  ? 0
                  : 1);
    equal(status_of(child), 0, "SEM_UNDO");
    equal(get(id, 0, GETVAL), 5, "gives back");
    int gate[2];
    (void)!pipe(gate);
    child = fork();
    if (child == 0) {
        char byte;
        close(gate[1]);
        operate(id, 0, -3, SEM_UNDO);
        set(id, 0, 1);
        (void)!read(gate[0], &byte, 1);
        _exit(0);
    }
    close(gate[0]);
    while (get(id, 0, GETVAL) != 1)
        usleep(1000);
    close(gate[1]);
    status_of(child);
    equal(get(id, 0, GETVAL), 1, "a value that is set forgets what was to be undone");
    child = fork();
    if (child == 0) {
        operate(id, 0, -1, SEM_UNDO);
        raise(SIGKILL);
    }
    status_of(child);
    equal(get(id, 0, GETVAL), 1, "also of who is killed");
    if (geteuid() == 0) {
        child = fork();
        if (child == 0) {
            (void)!setgid(1000), (void)!setuid(1000);
            int good = get(id, 0, GETVAL) == -1 && errno == EACCES;
            good &= operate(id, 0, 1, 0) == -1 && errno == EACCES;
            good &= semctl(id, 0, IPC_RMID) == -1 && errno == EPERM;
            _exit(good ? 0 : 1);
        }
        equal(status_of(child), 0, "others may not");
        semctl(id, 0, IPC_STAT, (union semun){.buf = &about});
        about.sem_perm.mode = 0604;
        semctl(id, 0, IPC_SET, (union semun){.buf = &about});
        child = fork();
        if (child == 0) {
            (void)!setgid(1000), (void)!setuid(1000);
            int good = get(id, 0, GETVAL) == 1;
            good &= operate(id, 0, 1, 0) == -1 && errno == EACCES;
            good &= operate(id, 0, -1, 0) == -1 && errno == EACCES;
            good &= operate(id, 0, 0, IPC_NOWAIT) == -1 && errno == EAGAIN;
            good &= set(id, 0, 2) == -1 && errno == EACCES;
            _exit(good ? 0 : 1);
        }
        equal(status_of(child), 0, "nor change what they may read");
    }
    set(id, 0, 0);
    child = fork();
    if (child == 0)
        _exit(operate(id, 0, -1, 0) == 0 ? 0 : 1);
    until_asleep(child);
    set(id, 0, 1);
    equal(status_of(child), 0, "SETVAL wakes who waits");
    child = fork();
    if (child == 0)
        _exit(operate(id, 0, -1, 0) == 0 ? 0 : 1);
    until_asleep(child);
    semctl(id, 0, SETALL, (union semun){.array = values});
    equal(status_of(child), 0, "and so does SETALL");
    child = fork();
    if (child == 0)
        _exit(operate(id, 2, -30, 0) == -1 && errno == EIDRM ? 0 : 1);
    while (get(id, 2, GETNCNT) != 1)
        usleep(1000);
    equal(semctl(id, 0, IPC_RMID), 0, "removed");
    equal(status_of(child), 0, "which who waits is told");
    fails(get(id, 0, GETVAL), EINVAL, "its number is nobody's");
    struct seminfo limits;
    check(semctl(0, 0, IPC_INFO, (union semun){.info = &limits}) >= 0 && limits.semvmx == 32767,
          "the limits");
}

/* Several operations at once are done together or not at all: also if they are to be undone, or many. */
static void together(void)
{
    unsigned short values[3] = {2, 0, 0};
    int id = semget(IPC_PRIVATE, 3, 0600);
    semctl(id, 0, SETALL, (union semun){.array = values});
    struct sembuf undone[2] = {{0, -1, SEM_UNDO}, {1, -1, IPC_NOWAIT}};
    fails(semop(id, undone, 2), EAGAIN, "two, of which one is to be undone and the other cannot be done");
    equal(get(id, 0, GETVAL), 2, "so nothing is done");
    struct sembuf few[3] = {{2, 1, 0}, {2, 2, 0}, {1, -5, IPC_NOWAIT}};
    fails(semop(id, few, 3), EAGAIN, "three");
    equal(get(id, 2, GETVAL), 0, "so nothing");
    struct sembuf six[6] = {{0, -1, 0}, {0, -1, 0}, {2, 1, 0}, {2, 1, 0}, {2, 1, 0}, {1, -1, IPC_NOWAIT}};
    fails(semop(id, six, 6), EAGAIN, "six");
    equal(get(id, 0, GETVAL) + 10 * get(id, 2, GETVAL), 2, "so nothing");
    six[5].sem_op = 1;
    equal(semop(id, six, 6), 0, "six that can be done");
    equal(get(id, 0, GETVAL) + 10 * get(id, 1, GETVAL) + 100 * get(id, 2, GETVAL), 310, "are");
    fails(operate(id, 1, 0, SEM_UNDO | IPC_NOWAIT), EAGAIN, "a wait for zero that would be undone");
    set(id, 0, 32766);
    equal(operate(id, 0, 1, 0), 0, "the highest value");
    equal(get(id, 0, GETVAL), 32767, "is reached");

    /* Undoing has bounds of its own. */
    set(id, 0, 0);
    equal(operate(id, 0, 32767, SEM_UNDO), 0, "as much to undo as there can be");
    equal(operate(id, 0, -32767, 0), 0, "taken away for good");
    equal(operate(id, 0, 1, SEM_UNDO), 0, "one more");
    fails(operate(id, 0, 1, SEM_UNDO | IPC_NOWAIT), ERANGE, "and no other");
    set(id, 0, 0);

    /* An undoing of more than is left leaves zero. */
    set(id, 1, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(operate(id, 0, 3, SEM_UNDO) == 0 && operate(id, 1, -1, 0) == 0 ? 0 : 1);
    equal(operate(id, 0, -2, 0), 0, "two of three that another has put there");
    equal(operate(id, 1, 1, 0), 0, "which may end");
    equal(status_of(child), 0, "and does");
    equal(get(id, 0, GETVAL), 0, "three cannot be taken back from one: none is left");
    equal(operate(id, 0, 0, IPC_NOWAIT), 0, "so it is zero");

    /* The last process is told. */
    child = fork();
    if (child == 0)
        _exit(operate(id, 1, 1, 0) == 0 ? 0 : 1);
    equal(status_of(child), 0, "another operates");
    equal(get(id, 1, GETPID), child, "and is named");
    child = fork();
    if (child == 0)
        _exit(set(id, 2, 4) == 0 ? 0 : 1);
    equal(status_of(child), 0, "another sets");
    equal(get(id, 2, GETPID), child, "and is named");
    child = fork();
    if (child == 0)
        _exit(operate(id, 1, 1, SEM_UNDO) == 0 ? 0 : 1);
    equal(status_of(child), 0, "another ends");
    equal(get(id, 1, GETPID), child, "and undoes what it did");

    /* Operations that are to be undone wake who waits, and so does their undoing. */
    set(id, 0, 0);
    child = fork();
    if (child == 0)
        _exit(operate(id, 0, -1, 0) == 0 && operate(id, 0, -1, 0) == 0 ? 0 : 1);
    until_asleep(child);
    equal(operate(id, 0, 1, SEM_UNDO), 0, "one comes");
    while (get(id, 0, GETVAL) != 0 || get(id, 0, GETNCNT) != 1)
        usleep(1000);
    set(id, 2, 1);
    pid_t other = fork();
    if (other == 0)
        _exit(operate(id, 2, -1, SEM_UNDO) == 0 && get(id, 2, GETVAL) == 0 &&
                      operate(id, 0, 1, 0) == 0
                  ? 0
                  : 1);
    equal(status_of(other) + status_of(child), 0, "both go on");
    equal(get(id, 2, GETVAL), 1, "and the end gives back");
    struct timespec soon = {0, 10000000};
    struct sembuf one = {0, -1, SEM_UNDO};
    fails(semtimedop(id, &one, 1, &soon), EAGAIN, "a wait with an end");
    equal(get(id, 0, GETNCNT), 0, "nobody waits");
    struct semid_ds about;
    semctl(id, 0, IPC_STAT, (union semun){.buf = &about});
    long before = about.sem_otime;
    usleep(1100000);
    equal(operate(id, 2, -1, 0), 0, "a second later");
    semctl(id, 0, IPC_STAT, (union semun){.buf = &about});
    check(about.sem_otime > before, "its time is told");
    semctl(id, 0, IPC_RMID);
}

/* --- messages --- */

struct message {
    long kind;
    char text[9000];
};

static struct message sent, received;

static int put(int id, long kind, const char *text, int flags)
{
    sent.kind = kind;
    strcpy(sent.text, text);
    return msgsnd(id, &sent, strlen(text), flags);
}

/* The first letter of what is received, or -1. */
static int take(int id, long kind, int flags)
{
    memset(received.text, 0, 16);
    return msgrcv(id, &received, sizeof received.text, kind, flags) < 0 ? -1 : received.text[0];
}

static void messages(void)
{
    struct msqid_ds about;
    int key = key_now + 3;
    int id = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
    check(id >= 0, "a queue");
    fails(msgget(key, IPC_CREAT | IPC_EXCL | 0600), EEXIST, "it is there");
    equal(msgget(key, 0), id, "found");
    equal(listed("/proc/sysvipc/msg", id), 1, "listed");
    fails(take(id, 0, IPC_NOWAIT), ENOMSG, "nothing waits");
    equal(put(id, 3, "c", 0) || put(id, 1, "a", 0) || put(id, 2, "b", 0) || put(id, 1, "A", 0), 0,
          "four messages");
    equal(msgctl(id, IPC_STAT, &about) == 0 && about.msg_qnum == 4 && about.__msg_cbytes == 4 &&
              about.msg_lspid == getpid(),
          1, "as one hears");
    equal(take(id, 1, 0), 'a', "the first of a type");
    equal(take(id, -2, 0), 'A', "the lowest type");
    equal(take(id, 3, MSG_EXCEPT), 'b', "another type");
    fails(take(id, 9, IPC_NOWAIT), ENOMSG, "none of this type");
    equal(take(id, 0, 0) == 'c' && received.kind == 3, 1, "whatever there is");
    put(id, 1, "long text", 0);
    fails(msgrcv(id, &received, 4, 0, 0), E2BIG, "no room");
    equal(msgrcv(id, &received, 4, 0, MSG_NOERROR) == 4 && memcmp(received.text, "long", 4) == 0, 1,
          "cut short on demand");
    fails(take(id, 0, IPC_NOWAIT), ENOMSG, "the rest is lost");
    put(id, 5, "x", 0), put(id, 6, "y", 0);
    int copied = take(id, 1, MSG_COPY | IPC_NOWAIT);
    equal(copied == 'y' || errno == ENOSYS, 1, "a copy of the second");
    fails(take(id, 1, MSG_COPY), EINVAL, "copies do not wait");
    equal(take(id, 0, 0) == 'x' && take(id, 0, 0) == 'y', 1, "which both are there still");
    equal(msgsnd(id, &sent, 0, 0), 0, "an empty one");
    equal(msgrcv(id, &received, 0, 0, 0), 0, "is one");
    fails(put(id, 0, "a", 0), EINVAL, "a type of zero");
    fails(put(id, -1, "a", 0), EINVAL, "below");
    sent.kind = 1;
    fails(msgsnd(id, &sent, 8193, 0), EINVAL, "too long");
    fails(msgsnd(id, &sent, -1, 0), EINVAL, "no length");
    fails(syscall(SYS_msgsnd, id, 8, 1, 0), EFAULT, "from nowhere");
    fails(msgrcv(id, &received, -1, 0, 0), EINVAL, "no room at all");
    fails(put(-1, 1, "a", 0), EINVAL, "no number");
    equal(msgsnd(id, &sent, 8192, 0) == 0 && msgsnd(id, &sent, 8192, 0) == 0, 1, "as many bytes as may wait");
    fails(msgsnd(id, &sent, 1, IPC_NOWAIT), EAGAIN, "no more");
    ring(1);
    fails(msgsnd(id, &sent, 1, 0), EINTR, "a signal ends the wait");
    ring(0);
    pid_t child = fork();
    if (child == 0)
        _exit(put(id, 2, "late", 0) == 0 ? 0 : 1);
    until_asleep(child);
    equal(take(id, 0, 0) != -1, 1, "one goes");
    equal(status_of(child), 0, "so another can come");
    take(id, 0, 0), take(id, 0, 0);
    child = fork();
    if (child == 0)
        _exit(take(id, 7, 0) == 'z' ? 0 : 1);
    until_asleep(child);
    put(id, 6, "w", 0);
    put(id, 7, "z", 0);
    equal(status_of(child), 0, "who waits for a type gets it");
    equal(take(id, 0, IPC_NOWAIT), 'w', "and no other");
    ring(1);
    fails(take(id, 0, 0), EINTR, "a signal ends that wait");
    ring(0);
    msgctl(id, IPC_STAT, &about);
    about.msg_qbytes = 2;
    equal(msgctl(id, IPC_SET, &about), 0, "fewer bytes");
    fails(put(id, 1, "abc", IPC_NOWAIT), EAGAIN, "bind");
    if (geteuid() == 0) {
        child = fork();
        if (child == 0) {
            (void)!setgid(1000), (void)!setuid(1000);
            int good = put(id, 1, "a", IPC_NOWAIT) == -1 && errno == EACCES;
            good &= take(id, 0, IPC_NOWAIT) == -1 && errno == EACCES;
            good &= msgctl(id, IPC_RMID, NULL) == -1 && errno == EPERM;
            int own = msgget(IPC_PRIVATE, 0600);
            msgctl(own, IPC_STAT, &about);
            about.msg_qbytes = 1 << 20;
            good &= msgctl(own, IPC_SET, &about) == -1 && errno == EPERM;
            msgctl(own, IPC_RMID, NULL);
            _exit(good ? 0 : 1);
        }
        equal(status_of(child), 0, "others may not");
        about.msg_perm.mode = 0604, about.msg_qbytes = 16384;
        msgctl(id, IPC_SET, &about);
        put(id, 1, "r", 0);
        child = fork();
        if (child == 0) {
            (void)!setgid(1000), (void)!setuid(1000);
            int good = put(id, 1, "a", IPC_NOWAIT) == -1 && errno == EACCES;
            good &= take(id, 0, IPC_NOWAIT) == 'r';
            _exit(good ? 0 : 1);
        }
        equal(status_of(child), 0, "nor send where they may receive");
    }
    child = fork();
    if (child == 0)
        _exit(take(id, 0, 0) == -1 && errno == EIDRM ? 0 : 1);
    until_asleep(child);
    equal(msgctl(id, IPC_RMID, NULL), 0, "removed");
    equal(status_of(child), 0, "who waits is told");
    fails(put(id, 1, "a", 0), EINVAL, "its number is nobody's");
    struct msginfo limits;
    check(msgctl(0, IPC_INFO, (void *)&limits) >= 0 && limits.msgmax > 0, "the limits");
}

/* Writes a number into a setting; 0 or the error. */
static int ask(const char *path, int number)
{
    int fd = open(path, O_WRONLY), error = 0;
    if (fd < 0 || dprintf(fd, "%d", number) < 0)
        error = errno;
    close(fd);
    return error;
}

static int setting(const char *path)
{
    int number = -2;
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%d", &number) != 1)
        number = -3;
    if (file != NULL)
        fclose(file);
    return number;
}

/* Numbers on demand, for each kind. */
static void numbers(void)
{
    static const char *const paths[] = {"/proc/sys/kernel/msg_next_id", "/proc/sys/kernel/sem_next_id",
                                        "/proc/sys/kernel/shm_next_id"};
    if (geteuid() != 0) {
        printf("# numbers on demand are root's to set\n");
        return;
    }
    for (int kind = 0; kind < 3; kind++) {
        int wanted = 7 << 15 | (70 + kind), ids[3];
        equal(setting(paths[kind]), -1, "any number");
        equal(ask(paths[kind], -1), EINVAL, "which is no number to ask for");
        equal(ask(paths[kind], wanted), 0, "one on demand");
        equal(setting(paths[kind]), wanted, "asked for");
        for (int count = 0; count < 3; count++) {
            if (count == 1)
                ask(paths[kind], wanted);
            ids[count] = kind == 0   ? msgget(IPC_PRIVATE, 0600)
                         : kind == 1 ? semget(IPC_PRIVATE, 1, 0600)
                                     : shmget(IPC_PRIVATE, PAGE, 0600);
        }
        equal(ids[0], wanted, "is given");
        equal(setting(paths[kind]), -1, "once");
        equal(ids[1], wanted + 1, "a place that is taken: the next one");
        check(ids[2] >= 0 && ids[2] != wanted && ids[2] != wanted + 1, "then any again");
        for (int count = 0; count < 3; count++)
            equal(kind == 0   ? msgctl(ids[count], IPC_RMID, NULL)
                  : kind == 1 ? semctl(ids[count], 0, IPC_RMID)
                              : shmctl(ids[count], IPC_RMID, NULL),
                  0, "removed");
    }
}

/* How many rows of a table have one of `count` numbers in column two, when it is read `size` bytes at a
 * time. Counts each row that is in it twice as wrong. */
static int rows_of(const char *path, size_t size, const int *ids, int count, int *twice)
{
    static char text[1 << 20];
    int fd = open(path, O_RDONLY), found = 0;
    size_t length = 0;
    ssize_t got;
    while (length + size < sizeof text && (got = read(fd, text + length, size)) > 0)
        length += got;
    close(fd);
    text[length] = 0;
    for (int i = 0; i < count; i++) {
        int rows = 0;
        for (char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            int key, number;
            rows += sscanf(line, "%d %d", &key, &number) == 2 && number == ids[i];
        }
        found += rows > 0;
        *twice += rows > 1;
    }
    return found;
}

/* A table of many rows, which is read in small pieces, has each row once. */
static void tables(void)
{
    enum { ROWS = 100 };
    static const char *const paths[] = {"/proc/sysvipc/msg", "/proc/sysvipc/sem", "/proc/sysvipc/shm"};
    static const size_t sizes[] = {60, 333, 4096, 65536};
    int ids[ROWS];
    for (int kind = 0; kind < 3; kind++) {
        int made = 0, twice = 0, gone = 0;
        for (; made < ROWS; made++) {
            ids[made] = kind == 0   ? msgget(IPC_PRIVATE, 0600)
                        : kind == 1 ? semget(IPC_PRIVATE, 1, 0600)
                                    : shmget(IPC_PRIVATE, PAGE, 0600);
            if (ids[made] < 0)
                break;
        }
        equal(made, ROWS, "a hundred of a kind");
        for (int i = 0; i < 4; i++)
            equal(rows_of(paths[kind], sizes[i], ids, made, &twice), made,
                  "each has a row, however few bytes are read at a time");
        equal(twice, 0, "and no other");
        for (int i = 0; i < made; i++)
            gone += (kind == 0   ? msgctl(ids[i], IPC_RMID, NULL)
                     : kind == 1 ? semctl(ids[i], 0, IPC_RMID)
                                 : shmctl(ids[i], IPC_RMID, NULL)) == 0;
        equal(gone, made, "all are removed");
    }
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"memory", memory},     {"semaphores", semaphores}, {"together", together},
        {"messages", messages}, {"numbers", numbers},       {"tables", tables},
    };
    key_now = 0x5e000000 + getpid() * 16;
    run_groups(groups, sizeof groups / sizeof *groups, NULL, argc, argv);
    return done();
}

/* Checks procedures that programs cache: operations of descriptors and callentries of quajects that they
 * call by numbers of their own, directly or by stubs; beside changes of the descriptors, of the program and
 * of its threads.
 *
 * Interface: cached-operations; TAP on standard output. With the argument `after-exec` it is the program
 * that another has become.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "synthesis.h"
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { AGAIN = 40 };

/* A program whose threads have begun makes calls by its dispatchers. */
static void begin(void)
{
    for (int i = 0; i < AGAIN; i++)
        syscall(SYS_getuid);
}

static void files(void)
{
    int ends[2], file = open("/tmp/cached", O_CREAT | O_RDWR | O_TRUNC, 0600);
    check(pipe(ends) == 0 && file >= 0, "a pipe and a file");
    long in = syn_cache(ends[1], SYS_write), out = syn_cache(ends[0], SYS_read);
    check(in >= SYN_CACHED && out >= SYN_CACHED && in != out, "their operations get numbers");
    equal(syn_cache(ends[1], SYS_write), in, "an operation keeps its number");
    char got[16] = "";
    int good = 1;
    for (int i = 0; i < AGAIN; i++) {
        char byte = (char)('a' + i % 26);
        good &= syn_cached_file(in, (long)&byte, 1, 0) == 1 && syn_cached_file(out, (long)got, 16, 0) == 1 &&
                got[0] == byte;
    }
    check(good, "bytes go through the pipe");
    long at = syn_cache(file, SYS_pwrite64), from = syn_cache(file, SYS_pread64),
         seek = syn_cache(file, SYS_lseek);
    long several = syn_cache(file, SYS_writev), size = syn_cache(file, SYS_ftruncate),
         state = syn_cache(file, SYS_fcntl);
    for (int i = 0; i < AGAIN; i++) {
        good &= syn_cached_file(at, (long)&i, sizeof i, i * 8) == sizeof i;
        int back = -1;
        good &= syn_cached_file(from, (long)&back, sizeof back, i * 8) == sizeof back && back == i;
        good &= syn_cached_file(seek, i, SEEK_SET, 0) == i;
    }
    check(good, "and to places of the file");
    struct iovec segment = {"seg", 3};
    for (int i = 0; i < AGAIN; i++)
        good &= syn_cached_file(several, (long)&segment, 1, 0) == 3;
    check(good, "and in segments");
    equal(syn_cached_file(size, 100, 0, 0), 0, "operations without a routine are called too");
    equal(lseek(file, 0, SEEK_END), 100, "and done");
    equal(syn_cached_file(state, F_GETFL, 0, 0) & O_ACCMODE, O_RDWR, "another");
    equal(syn_cached_file(from, 8, 1, 0), -EFAULT, "no memory there");
    equal(syn_cached_file(from, (long)0xffff800000000000, 1, 0), -EFAULT, "nor in the kernel");
    struct rlimit limit = {50, RLIM_INFINITY}, former;
    getrlimit(RLIMIT_FSIZE, &former);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    equal(syn_cached_file(at, (long)got, 1, 60), -EFBIG, "a file's length has its limit");
    setrlimit(RLIMIT_FSIZE, &former);

    dup2(file, ends[1]);
    equal(syn_cached_file(in, (long)"dup", 3, 0), 3, "another file in place of the pipe");
    equal(syn_cached_file(from, (long)got, 3, 100), 3, "is the one that is written to");
    check(memcmp(got, "dup", 3) == 0, "as it was");
    close(ends[0]);
    equal(syn_cached_file(out, (long)got, 1, 0), -EBADF, "a closed descriptor");
    long numbers[] = {in, out, at, from, seek, several, size, state};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        good &= syn_uncache(numbers[i]) == 0;
    check(good, "the numbers are given back");
    equal(syn_cached_file(in, (long)got, 1, 0), -ENOSYS, "and no calls any more");
    equal(syn_uncache(in), -EINVAL, "nor to be given back again");
    close(ends[1]);
    close(file);
    unlink("/tmp/cached");
}

static void refused(void)
{
    int null = open("/dev/null", O_RDWR), gauge = syn_make("Gauge", 0);
    equal(syn_cache(99, SYS_read), -EBADF, "no such descriptor");
    equal(syn_cache(-1, SYS_read), -EBADF, "nor this");
    equal(syn_cache(null, SYS_fork), -EINVAL, "no operation of a file");
    equal(syn_cache(null, -1), -EINVAL, "nor this");
    equal(syn_cache(null, SYN_STUB_ENTRY), -EINVAL, "a file has no callentries");
    equal(syn_cache(gauge, SYN_STUB_ENTRY + 99), -ENOENT, "a gauge not this one");
    equal(syn_uncache(SYN_CACHED - 1), -EINVAL, "no number of the program's");
    equal(syn_uncache(SYN_CACHED + SYN_CACHED_MOST), -EINVAL, "nor this");
    equal(syn_uncache(-1), -EINVAL, "nor this");
    equal(syn_cached(SYN_CACHED, 0), -ENOSYS, "no call without a procedure");
    char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    equal(syn_stub(gauge, SYN_STUB_ENTRY + SYN_STUB_CACHED, (void *)8, 64), -EFAULT,
          "no memory for the stub");
    equal(syn_stub(gauge, SYN_STUB_ENTRY + SYN_STUB_CACHED, memory, 5), -ERANGE, "not enough");
    equal(syn_stub(null, SYS_fork + SYN_STUB_CACHED, memory, 64), -EINVAL, "no operation for it");
    equal(syn_uncache(SYN_CACHED), -EINVAL, "and no number was taken");
    int others[SYN_CACHED_MOST + 1];
    for (int i = 0; i <= SYN_CACHED_MOST; i++)
        others[i] = dup(null);
    int good = 1;
    for (int i = 0; i < SYN_CACHED_MOST; i++)
        good &= syn_cache(others[i], SYS_write) == SYN_CACHED + i;
    check(good, "each descriptor gets a number");
    equal(syn_cache(others[SYN_CACHED_MOST], SYS_write), -ENOSPC, "until they have run out");
    equal(syn_stub(null, SYS_read + SYN_STUB_CACHED, memory, 64), -ENOSPC, "for stubs too");
    for (int i = 0; i < AGAIN; i++)
        for (int number = 0; number < SYN_CACHED_MOST; number++)
            good &= syn_cached_file(SYN_CACHED + number, (long)"x", 1, 0) == 1;
    check(good, "all of them are calls");
    equal(syn_cached_file(SYN_CACHED + SYN_CACHED_MOST, 0, 0, 0), -ENOSYS, "the next number is none");
    check(getppid() == syscall(SYS_getppid) && getpid() == syscall(SYS_getpid),
          "and Linux's calls are what they were");
    equal(syscall(SYS_read, null, memory, 1), 0, "all of them");
    for (int i = 0; i <= SYN_CACHED_MOST; i++) {
        syn_uncache(SYN_CACHED + i);
        close(others[i]);
    }
    munmap(memory, 4096);
    close(gauge);
    close(null);
}

static void quajects(void)
{
    char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int gauge = syn_make("Gauge", 0), queue = syn_make("Queue", 4), upper = syn_make("Upper", 0),
        pump = syn_make("Pump", 0);
    long count = syn_entry(gauge, "count"), value = syn_entry(gauge, "read"), take = syn_entry(gauge, "take");
    int good = 1;
    for (int i = 0; i < AGAIN; i++)
        good &= syn_invoke(gauge, count, 0) == 0 && syn_invoke(gauge, value, 0) == i + 1;
    check(good, "a gauge counts, called by its handle");
    equal(syn_invoke(gauge, 3, 0), -ENOENT, "it has three callentries");
    equal(syn_invoke(gauge, 0x100000000 + value, 0), -ENOENT, "and no more");
    equal(syn_invoke(99, value, 0), -EBADF, "no gauge there");
    long numbers[3] = {syn_cache(gauge, SYN_STUB_ENTRY + count), syn_cache(gauge, SYN_STUB_ENTRY + value),
                       syn_cache(gauge, SYN_STUB_ENTRY + take)};
    for (int i = 0; i < AGAIN; i++)
        good &= syn_cached(numbers[0], 0) == 0 && syn_cached(numbers[1], 0) == AGAIN + i + 1;
    check(good, "and by numbers");
    equal(syn_cached(numbers[2], 0), 2 * AGAIN, "all is taken");
    equal(syn_cached(numbers[2], 0), 0, "once");
    for (int i = 0; i < 3; i++)
        syn_uncache(numbers[i]);

    long put = SYN_STUB_CACHED + SYN_STUB_ENTRY + syn_entry(queue, "Q_put"),
         get = SYN_STUB_CACHED + SYN_STUB_ENTRY + syn_entry(queue, "Q_get");
    check(syn_stub(queue, put, memory, 64) > 0 && syn_stub(queue, get, memory + 64, 64) > 0,
          "stubs of cached procedures");
    check(syn_stub(upper, SYN_STUB_CACHED + SYN_STUB_ENTRY + syn_entry(upper, "put"), memory + 128, 64) > 0,
          "and of a filter's");
    check(syn_stub(pump, SYN_STUB_CACHED + SYN_STUB_ENTRY + syn_entry(pump, "run"), memory + 192, 64) > 0,
          "and of a pump's");
    long (*put_it)(long) = (void *)memory, (*get_it)(long) = (void *)(memory + 64);
    long (*raise_it)(long) = (void *)(memory + 128), (*run_it)(long) = (void *)(memory + 192);
    for (int turn = 0; turn < AGAIN; turn++) {
        for (int i = 0; i < 4; i++)
            good &= put_it('a' + i) == 1;
        good &= put_it('x') == -EAGAIN;
        for (int i = 0; i < 4; i++)
            good &= get_it(0) == 'a' + i;
        good &= get_it(0) == -EAGAIN;
    }
    check(good, "a queue is filled and emptied");
    struct pollfd ready = {queue, POLLIN, 0};
    equal(poll(&ready, 1, 0), 0, "nothing is in it");
    pid_t child = fork();
    if (child == 0) {
        pause_for(0.05);
        _exit(put_it('p') == 1 ? 0 : 1);
    }
    equal(poll(&ready, 1, 5000), 1, "a call by a child's number wakes a poller");
    equal(status_of(child), 0, "which it had from its parent");
    equal(get_it(0), 'p', "what it put");
    equal(syn_link(upper, "to", queue, "Q_put"), 0, "a filter leads to the queue");
    for (int i = 0; i < AGAIN; i++)
        good &= raise_it('q') == 1 && get_it(0) == 'Q';
    check(good, "its procedure finds the link");
    int source = syn_make("Queue", 4);
    syn_link(pump, "input", source, "Q_get");
    syn_link(pump, "output", upper, "put");
    syn_invoke(source, syn_entry(source, "Q_put"), 'z');
    equal(run_it(10), 1, "a pump runs");
    equal(get_it(0), 'Z', "and moves a byte");
    int copy = dup(queue);
    for (int i = 0; i < AGAIN; i++)
        good &= put_it('d') == 1 && get_it(0) == 'd';
    check(good, "a queue with two descriptors");
    close(queue);
    equal(put_it('e'), -EBADF, "one is closed");
    equal(dup2(copy, queue), queue, "and opened again");
    equal(put_it('e'), 1, "and is the queue again");
    dup2(gauge, queue);
    equal(get_it(0), 0, "a gauge in its place does what it has of this number");
    dup2(0, queue);
    equal(put_it('e'), -EINVAL, "a file in its place has no callentries");
    for (int i = 0; i < SYN_CACHED_MOST; i++)
        syn_uncache(SYN_CACHED + i);
    int closed[] = {queue, copy, source, pump, upper, gauge};
    for (unsigned i = 0; i < sizeof closed / sizeof *closed; i++)
        close(closed[i]);
    munmap(memory, 4096);
}

/* Descriptors that are high, and tables that grow and are copied. */
static void tables(void)
{
    int null = open("/dev/null", O_RDWR), high = fcntl(null, F_DUPFD, 100), good = 1;
    int gauge = syn_make("Gauge", 0), far = fcntl(gauge, F_DUPFD, 150);
    long low_number = syn_cache(null, SYS_write), high_number = syn_cache(high, SYS_write);
    long far_number = syn_cache(far, SYN_STUB_ENTRY + syn_entry(gauge, "count")),
         at = syn_cache(high, SYS_pwrite64);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < AGAIN; i++) {
            good &= syn_cached_file(low_number, (long)"x", 1, 0) == 1 &&
                    syn_cached_file(high_number, (long)"xy", 2, 0) == 2;
            good &= syn_cached(far_number, 0) == 0 && syn_cached_file(at, (long)"xyz", 3, 0) == 3;
        }
        int more = fcntl(null, F_DUPFD, 200 << turn);
        good &= more >= 0;
        close(more);
    }
    check(good, "descriptors at all places of a table that grows");
    equal(syn_invoke(gauge, syn_entry(gauge, "read"), 0), 3 * AGAIN, "all was counted");
    pid_t child = fork();
    if (child == 0) {
        begin();
        close(gauge);
        int bad = syn_cached_file(high_number, (long)"x", 1, 0) != 1 || syn_cached(far_number, 0) != 0;
        close(high);
        bad |= syn_cached_file(high_number, (long)"x", 1, 0) != -EBADF;
        bad |= syn_cache(null, SYS_read) < SYN_CACHED;
        bad |= syn_uncache(low_number) != 0 || syn_cached_file(low_number, (long)"x", 1, 0) != -ENOSYS;
        _exit(bad);
    }
    equal(status_of(child), 0, "a child has its parent's numbers and its own descriptors");
    equal(syn_cached_file(low_number, (long)"x", 1, 0), 1, "and takes none of them from its parent");
    child = fork();
    if (child == 0) {
        begin();
        execl("/proc/self/exe", "cached", "after-exec", (char *)0);
        _exit(9);
    }
    equal(status_of(child), 0, "another program has none");
    for (int i = 0; i < SYN_CACHED_MOST; i++)
        syn_uncache(SYN_CACHED + i);
    close(null);
    close(high);
    close(gauge);
    close(far);
}

static int after_exec(void)
{
    for (int turn = 0; turn < AGAIN; turn++)
        for (int i = 0; i < SYN_CACHED_MOST; i++)
            if (syn_cached(SYN_CACHED + i, 0) != -ENOSYS)
                return 1;
    return 0;
}

/* Sleeps in cached procedures, and signals. */
static volatile int handled;
static void handle(int number) { handled += number != 0; }

struct reader {
    long number, result;
    int again;
};

static void *reading(void *argument)
{
    struct reader *reader = argument;
    if (reader->again)
        begin();
    char byte;
    reader->result = syn_cached_file(reader->number, (long)&byte, 1, 0);
    return 0;
}

static void sleeping(void)
{
    int ends[2];
    check(pipe(ends) == 0, "a pipe");
    struct reader reader = {.number = syn_cache(ends[0], SYS_read)};
    for (reader.again = 0; reader.again < 2; reader.again++) {
        pthread_t thread;
        pthread_create(&thread, 0, reading, &reader);
        pause_for(0.05);
        equal(write(ends[1], "w", 1), 1, "a byte");
        pthread_join(thread, 0);
        equal(reader.result, 1,
              reader.again ? "wakes a thread that reads" : "wakes a thread that has just begun");
        for (int restart = 0; restart < 2; restart++) {
            struct sigaction action = {.sa_handler = handle, .sa_flags = restart ? SA_RESTART : 0};
            sigaction(SIGUSR1, &action, 0);
            handled = 0;
            pthread_create(&thread, 0, reading, &reader);
            pause_for(0.05);
            pthread_kill(thread, SIGUSR1);
            pause_for(0.05);
            equal(handled, 1, "a signal is handled");
            if (restart)
                equal(write(ends[1], "w", 1), 1, "and the call starts again");
            pthread_join(thread, 0);
            equal(reader.result, restart ? 1 : -EINTR, restart ? "and reads" : "and ends the call");
        }
    }
    syn_uncache(reader.number);
    close(ends[0]);
    close(ends[1]);
}

/* Calls by several threads while their numbers, and the descriptors, change. */
enum { CALLERS = 4, TURNS = 300 };
static volatile int over;
static long counted;

static void *calling(void *argument)
{
    long bad = 0, made = 0;
    for (long i = 0; !over; i++) {
        long result = syn_cached(SYN_CACHED, 0);
        made += result == 0;
        bad += result != 0 && result != -ENOSYS && result != -EBADF;
        result = syn_cached_file(SYN_CACHED + 1, (long)"x", 1, 0);
        bad += result != 1 && result != -ENOSYS && result != -EBADF;
    }
    __atomic_fetch_add(&counted, made, __ATOMIC_SEQ_CST);
    return (void *)(bad + (argument != 0));
}

static void threads(void)
{
    int gauge = syn_make("Gauge", 0), null = open("/dev/null", O_RDWR), good = 1;
    long count = SYN_STUB_ENTRY + syn_entry(gauge, "count");
    equal(syn_cache(gauge, count), SYN_CACHED, "the first number");
    int moving = dup(null);
    equal(syn_cache(moving, SYS_write), SYN_CACHED + 1, "and the second");
    pthread_t callers[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        pthread_create(&callers[i], 0, calling, 0);
    for (int i = 0; i < TURNS; i++) {
        good &= syn_uncache(SYN_CACHED) == 0;
        good &= syn_cache(gauge, count) == SYN_CACHED;
        close(moving);
        good &= dup2(null, moving) == moving;
        if (i % 64 == 0) {
            int more = fcntl(null, F_DUPFD, 64 + i);
            good &= more >= 0;
            close(more);
        }
        sched_yield();
    }
    check(good, "numbers and descriptors come and go");
    over = 1;
    for (int i = 0; i < CALLERS; i++) {
        void *bad;
        pthread_join(callers[i], &bad);
        equal((long)bad, 0, "and a caller sees nothing else");
    }
    equal(syn_invoke(gauge, count - SYN_STUB_ENTRY + 1, 0), counted, "each call was counted");
    syn_uncache(SYN_CACHED);
    syn_uncache(SYN_CACHED + 1);
    close(moving);
    close(null);
    close(gauge);
}

/* A thread whose tracer wants to see every call. */
static void traced(void)
{
    int null = open("/dev/null", O_RDWR);
    long number = syn_cache(null, SYS_write);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        int bad = 0;
        for (int i = 0; i < AGAIN; i++)
            bad |= syn_cached_file(number, (long)"xyz", 3, 0) != 3;
        _exit(bad);
    }
    int status = status_of(child), stops = 0;
    while (WIFSTOPPED(status)) {
        stops++;
        ptrace(PTRACE_SYSCALL, child, 0, 0);
        status = status_of(child);
    }
    equal(status, 0, "a traced program's numbers are calls too");
    check(stops > 2 * AGAIN, "and its tracer sees them");
    syn_uncache(number);
    close(null);
}

int main(int count, char **words)
{
    if (count > 1 && strcmp(words[1], "after-exec") == 0)
        return after_exec();
    begin();
    files();
    refused();
    quajects();
    tables();
    sleeping();
    threads();
    traced();
    return done();
}

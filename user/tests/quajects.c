/* Checks what programs do with quajects: make, link and call them by name, pass and poll their descriptors,
 * be told by them, have stubs made, read and write asynchronously; clocks that ring, and threads as quajects.
 *
 * Interface: quajects; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "synthesis.h"
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static long put_number, get_number;

static int contains(int fd, const char *text)
{
    static char found[16384];
    ssize_t count = pread(fd, found, sizeof found - 1, 0);
    found[count > 0 ? count : 0] = 0;
    return strstr(found, text) != 0;
}

static void made_and_called(void)
{
    int queue = syn_make("Queue", 4);
    check(queue >= 0, "a queue is made");
    check(fcntl(queue, F_GETFD) == FD_CLOEXEC, "its descriptor closes at exec");
    put_number = syn_entry(queue, "Q_put");
    get_number = syn_entry(queue, "Q_get");
    check(put_number >= 0 && get_number >= 0 && put_number != get_number, "its callentries have numbers");
    equal(syn_invoke(queue, get_number, 0), -EAGAIN, "nothing is in it");
    for (int i = 0; i < 4; i++)
        equal(syn_invoke(queue, put_number, 'a' + i), 1, "a byte goes in");
    equal(syn_invoke(queue, put_number, 'x'), -EAGAIN, "a fifth does not");
    equal(syn_invoke(queue, get_number, 0), 'a', "the first comes out");
    equal(syn_entry(queue, "Q_full"), -ENOENT, "a callback is no callentry");
    equal(syn_invoke(queue, 77, 0), -ENOENT, "no such number");
    equal(syn_invoke(queue, -1, 0), -ENOENT, "nor this");
    check(contains(queue, "Queue: Implements FIFO queues"), "its text shows the class");
    check(contains(queue, "Callentry Q_put"), "its callentries");
    check(contains(queue, "ret"), "and its code");
    equal(close(queue), 0, "it is destroyed");
    equal(syn_invoke(queue, put_number, 'a'), -EBADF, "and gone");
}

static void linked(void)
{
    int from = syn_make("Queue", 64), to = syn_make("Queue", 64), pump = syn_make("Pump", 0),
        upper = syn_make("Upper", 0);
    int tap = syn_make("Tap", 0), gauge = syn_make("Gauge", 0);
    equal(syn_link(pump, "input", from, "Q_get"), 0, "a pump gets from a queue");
    equal(syn_link(pump, "output", upper, "put"), 0, "and puts into a filter");
    equal(syn_link(upper, "to", tap, "put"), 0, "that into another");
    equal(syn_link(tap, "to", to, "Q_put"), 0, "which puts into a queue");
    equal(syn_link(tap, "each", gauge, "count"), 0, "and counts");
    const char *text = "collapsed";
    for (const char *at = text; *at; at++)
        syn_invoke(from, put_number, *at);
    equal(syn_invoke(pump, syn_entry(pump, "run"), 100), 9, "the pump runs");
    char got[16] = "";
    for (int i = 0; i < 9; i++)
        got[i] = syn_invoke(to, get_number, 0);
    check(strcmp(got, "COLLAPSED") == 0, "the bytes came by the chain");
    equal(syn_invoke(gauge, syn_entry(gauge, "read"), 0), 9, "they were counted");
    equal(syn_invoke(tap, syn_entry(tap, "value"), 0), 9, "the tap says so");
    check(contains(pump, "output -> put") && contains(pump, "in line"),
          "the pump's text shows the link, in line");

    equal(syn_link(pump, "output", to, "Q_get"), -EPROTOTYPE, "a wrong signature");
    equal(syn_link(pump, "outlet", to, "Q_put"), -ENOENT, "no such port");
    equal(syn_link(pump, "output", to, "Q_push"), -ENOENT, "no such callentry");
    equal(syn_link(pump, "run", to, "Q_put"), -ENOENT, "a callentry is no port");
    equal(syn_link(pump, "a name that is longer than any name may be", to, "Q_put"), -ENOENT, "a long name");
    equal(syn_link(pump, (char *)8, to, "Q_put"), -EFAULT, "a name that is not there");
    equal(syn_link(tap, "to", upper, "put"), -ELOOP, "a circle");
    equal(syn_link(upper, "to", upper, "put"), -ELOOP, "the smallest circle");
    equal(syn_link(0, "to", to, "Q_put"), -EINVAL, "a descriptor of something else");
    equal(syn_link(99, "to", to, "Q_put"), -EBADF, "no descriptor");
    equal(syn_make("Thread", 0), -ENOENT, "a thread is not made by a class's name");
    equal(syn_make("Queue", 3), -EINVAL, "no such queue");
    equal(syn_make("Upper", 1), -EINVAL, "no such filter");
    equal(syn_make((char *)8, 1), -EFAULT, "a class that is not there");
    equal(syn_unlink(pump, "output"), 0, "a link is taken away");
    equal(syn_unlink(pump, "outlet"), -ENOENT, "one that is none is not");

    int last = upper, all[20], count = 0;
    syn_unlink(upper, "to");
    long result = 0;
    while (count < 20 && result == 0) {
        all[count] = syn_make("Upper", 0);
        result = syn_link(last, "to", all[count], "put");
        last = all[count++];
    }
    equal(result, -EMLINK, "too long a chain");
    check(count == 16 || count == 17, "of more than sixteen");
    while (count)
        close(all[--count]);

    equal(syn_link(pump, "output", upper, "put"), -EMLINK, "nor may a longest one have one more in front");
    equal(syn_link(upper, "to", to, "Q_put"), 0, "the chain goes");
    equal(syn_link(pump, "output", upper, "put"), 0, "then it may");

    /* A linked quaject lives as long as the link. */
    close(upper);
    syn_invoke(from, put_number, 'q');
    equal(syn_invoke(pump, syn_entry(pump, "run"), 1), 1, "a filter without a descriptor is still linked");
    equal(syn_invoke(to, get_number, 0), 'Q', "and works");
    close(pump);
    close(from);
    close(to);
    close(tap);
    close(gauge);
}

/* Whether a byte can be put into the queue. */
static int puts_p(int queue) { return syn_invoke(queue, put_number, 'p') == 1; }

/* A descriptor that another process gets with a message, and uses. */
static int passed(int fd, int (*use)(int))
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    char byte = 0, room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct iovec one = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(int));
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        int got = -1;
        if (recvmsg(ends[1], &message, 0) == 1)
            memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
        _exit(use(got) ? 0 : 1);
    }
    sendmsg(ends[0], &message, 0);
    close(ends[0]);
    close(ends[1]);
    return status_of(child);
}

static void descriptors(void)
{
    int queue = syn_make("Queue", 2);
    struct pollfd asked = {queue, POLLIN | POLLOUT, 0};
    equal(poll(&asked, 1, 0), 1, "a queue is polled");
    equal(asked.revents, POLLOUT, "an empty one has room");
    equal(passed(queue, puts_p), 0, "another process puts, by a descriptor that it was sent");
    poll(&asked, 1, 0);
    equal(asked.revents, POLLIN | POLLOUT, "there is something in it");
    pid_t child = fork();
    if (child == 0)
        _exit(syn_invoke(queue, put_number, 'f') == 1 ? 0 : 1);
    equal(status_of(child), 0, "a child puts, by a descriptor that it inherits");
    poll(&asked, 1, 0);
    equal(asked.revents, POLLIN, "the queue is full");
    equal(syn_invoke(queue, get_number, 0), 'p', "the first byte");
    equal(syn_invoke(queue, get_number, 0), 'f', "the second");
    asked.events = POLLIN;
    child = fork();
    if (child == 0) {
        until_asleep(getppid());
        _exit(syn_invoke(queue, put_number, 'w') == 1 ? 0 : 1);
    }
    equal(poll(&asked, 1, 60000), 1, "a waiting poller is woken");
    equal(status_of(child), 0, "by a child's put");
    int same = dup(queue);
    close(queue);
    equal(syn_invoke(same, get_number, 0), 'w', "a duplicate is the same queue");
    char text[64], path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", same);
    ssize_t length = readlink(path, text, sizeof text - 1);
    text[length > 0 ? length : 0] = 0;
    check(strncmp(text, "anon_inode:[Queue:", 18) == 0, "its name says what it is");
    check(write(same, "x", 1) == -1 && errno == EINVAL, "it cannot be written");
    close(same);
}

/* A child that gets a hundred bytes of the queue, and looks at their order. */
static pid_t reader_of(int queue)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    for (int i = 0; i < 100;) {
        long byte = syn_invoke(queue, get_number, 0);
        if (byte == -EAGAIN)
            sched_yield();
        else if (byte != i++)
            _exit(1);
    }
    _exit(0);
}

/* Figure 4.3: a write that does not wait, and goes on when it is told that it may. */
static void callbacks(void)
{
    enum { FULL = 5, ROOM = 6 };
    int queue = syn_make("Queue", 8), full = syn_notice(0, FULL), room = syn_notice(0, ROOM);
    check(full >= 0 && room >= 0, "notices are made");
    equal(syn_link(queue, "Q_full", full, "give_up"), 0, "a full queue returns to the caller, and tells");
    equal(syn_link(queue, "Q_full-1", room, "tell"), 0, "so does one that has room again");
    equal(syn_link(queue, "Q_full", room, "tell"), -EPROTOTYPE,
          "an event does not answer whether to try again");
    pid_t child = 0;
    int waits = 0;
    for (int i = 0; i < 100;) {
        if (syn_invoke(queue, put_number, i) == 1) {
            i++;
            continue;
        }
        equal(syn_wait(FULL), 0, "it was full");
        /* Nobody reads before. */
        if (waits++ == 0)
            child = reader_of(queue);
        syn_wait(ROOM);
    }
    equal(status_of(child), 0, "all bytes came over, in order");
    check(waits > 0, "with waits in between");
    equal(syn_notice(0, 64), -EINVAL, "no such event");
    equal(syn_notice(0x7fffffffffff, 1), -ESRCH, "no such thread");
    close(queue);
    close(full);
    close(room);
}

static void stubs(void)
{
    char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    check(pipe(ends) == 0, "a pipe");
    long length = syn_stub(ends[1], SYS_write, memory, 64);
    check(length > 0, "a stub that writes to it");
    long next = syn_stub(ends[0], SYS_read, memory + 64, 64);
    check(next > 0, "and one that reads");
    long (*write_it)(const void *, unsigned long) = (void *)memory;
    long (*read_it)(void *, unsigned long) = (void *)(memory + 64);
    char got[8] = "";
    equal(write_it("stubs", 5), 5, "a procedure writes");
    equal(read_it(got, sizeof got), 5, "a procedure reads");
    check(strcmp(got, "stubs") == 0, "what was written");
    int queue = syn_make("Queue", 16);
    check(syn_stub(queue, SYN_STUB_ENTRY + put_number, memory + 128, 64) > 0, "one for a callentry");
    check(syn_stub(queue, SYN_STUB_ENTRY + get_number, memory + 192, 64) > 0, "and another");
    long (*put_it)(long) = (void *)(memory + 128), (*get_it)(long) = (void *)(memory + 192);
    equal(put_it('s'), 1, "a procedure puts");
    equal(get_it(0), 's', "a procedure gets");
    int file = open("/tmp/stub", O_CREAT | O_RDWR | O_TRUNC, 0600);
    syn_stub(file, SYS_pwrite64, memory + 256, 64);
    syn_stub(file, SYS_pread64, memory + 320, 64);
    long (*place)(const void *, unsigned long, long) = (void *)(memory + 256),
                                               (*fetch)(void *, unsigned long, long) = (void *)(memory + 320);
    equal(place("at seven", 8, 7), 8, "a procedure of three arguments");
    equal(fetch(got, 5, 10), 5, "another");
    check(memcmp(got, "seven", 5) == 0, "the place is right");
    equal(syn_stub(file, SYS_fork, memory, 64), -EINVAL, "no operation of a file");
    equal(syn_stub(99, SYS_read, memory, 64), -EBADF, "no such file");
    equal(syn_stub(file, SYS_read, memory, 3), -ERANGE, "no room for it");
    equal(syn_stub(file, SYS_read, (void *)8, 64), -EFAULT, "no memory there");
    equal(syn_stub(file, SYN_STUB_ENTRY, memory, 64), -EINVAL, "a file has no callentries");
    equal(syn_stub(queue, SYN_STUB_ENTRY + 99, memory, 64), -ENOENT, "a queue not this one");
    close(queue);
    close(file);
    unlink("/tmp/stub");
    close(ends[0]);
    equal(read_it(got, 1), -EBADF, "a stub of a closed file");
    close(ends[1]);
    munmap(memory, 4096);
}

static void asynchronous(void)
{
    static struct syn_transfer in, out;
    static char bytes[200000], got[200000];
    int ends[2];
    check(pipe(ends) == 0, "a pipe");
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = i * 7 + i / 256;
    in = (struct syn_transfer){.file = ends[0], .operation = SYS_read, .bytes = got, .count = 5, .event = 1};
    equal(syn_begin(&in), 0, "a read is begun");
    equal(write(ends[1], "hello", 5), 5, "and the program goes on");
    equal(syn_finish(&in), 5, "it has read");
    check(memcmp(got, "hello", 5) == 0, "what was written");
    out = (struct syn_transfer){
        .file = ends[1], .operation = SYS_write, .bytes = bytes, .count = sizeof bytes, .event = 2};
    equal(syn_begin(&out), 0, "a long write is begun");
    size_t done = 0;
    while (done < sizeof got) {
        ssize_t count = read(ends[0], got + done, sizeof got - done);
        if (count <= 0)
            break;
        done += count;
    }
    equal(syn_finish(&out), sizeof bytes, "it has written all");
    check(done == sizeof got && memcmp(bytes, got, sizeof got) == 0, "and right");
    in.file = 99;
    syn_begin(&in);
    equal(syn_finish(&in), -EBADF, "an error is a result");
    close(ends[0]);
    close(ends[1]);
}

/* Calls a callentry by its name. */
static long call(int quaject, const char *entry, long argument)
{
    return syn_invoke(quaject, syn_entry(quaject, entry), argument);
}

/* Waits until the gauge has counted so many. */
static int counted(int gauge, long expected)
{
    for (int64_t begun = nanoseconds();
         call(gauge, "read", 0) != expected && nanoseconds() - begun < 20000000000ll;)
        sched_yield();
    return call(gauge, "read", 0) == expected;
}

enum { MICROSECOND = 1000, MILLISECOND = 1000000, FAR = 2000000000 };

static int sets_it(int clock) { return call(clock, "after", MILLISECOND) == 0; }

static void clocks(void)
{
    enum { RANG = 9 };
    int clock = syn_make("Clock", 'c'), gauge = syn_make("Gauge", 0), queue = syn_make("Queue", 64),
        told = syn_notice(0, RANG);
    check(clock >= 0, "a clock is made");
    equal(syn_make("Clock", 256), -EINVAL, "one whose byte is none is not");
    int64_t before = nanoseconds();
    long now = call(clock, "gettime", 0);
    check(before <= now && now <= nanoseconds(), "it tells the time");
    equal(call(clock, "cancel", 0), 0, "it is not to ring");
    equal(call(clock, "after", 0), 0, "without links");
    pause_for(0.001);
    equal(syn_link(clock, "rang", gauge, "count"), 0, "a gauge counts when it rings");
    equal(syn_link(clock, "to", queue, "Q_put"), 0, "a queue gets its byte");
    check(contains(clock, "rang -> count") && contains(clock, "to -> Q_put"), "its text says so");
    equal(syn_link(clock, "rang", queue, "Q_put"), -EPROTOTYPE, "a put is no event");
    equal(syn_link(clock, "to", gauge, "count"), -EPROTOTYPE, "an event takes no byte");
    equal(syn_link(clock, "gong", gauge, "count"), -ENOENT, "no such port");
    equal(syn_link(clock, "alarm", gauge, "count"), -ENOENT, "a callentry is no port");
    int tap = syn_make("Tap", 0), monitor = syn_make("Monitor", 0), upper = syn_make("Upper", 0);
    equal(syn_link(tap, "each", clock, "alarm"), -ENOENT, "nothing is linked to what wants a time");

    call(gauge, "take", 0);
    struct pollfd asked = {queue, POLLIN, 0};
    while (syn_invoke(queue, get_number, 0) >= 0)
        ;
    before = nanoseconds();
    equal(call(clock, "after", 20 * MILLISECOND), 0, "it is to ring after a time");
    equal(poll(&asked, 1, 60000), 1, "a waiting poller is woken");
    check(nanoseconds() - before >= 20 * MILLISECOND, "not too early");
    equal(syn_invoke(queue, get_number, 0), 'c', "by its byte");
    check(counted(gauge, 1), "it has rung once");
    equal(call(clock, "cancel", 0), 0, "and is not to ring any more");

    equal(syn_link(clock, "rang", told, "tell"), 0, "a thread is told instead");
    equal(call(clock, "alarm", call(clock, "gettime", 0) + MILLISECOND), 0, "at a time");
    equal(syn_wait(RANG), 0, "it is told");
    equal(call(clock, "alarm", 1), 0, "a time that has passed");
    equal(syn_wait(RANG), 0, "comes at once");
    equal(syn_link(clock, "rang", gauge, "count"), 0, "the gauge again");
    call(gauge, "take", 0);
    equal(call(clock, "after", FAR), 0, "a time far off");
    equal(call(clock, "after", MILLISECOND), 1, "is replaced");
    check(counted(gauge, 1), "it rings");
    /* Unless this thread loses the CPU for so long that the clock rings before. */
    int replaced = 0;
    for (int tries = 0; tries < 100 && !replaced; tries++) {
        equal(call(clock, "after", MILLISECOND), 0, "a time soon");
        replaced = call(clock, "after", FAR);
    }
    equal(replaced, 1, "is replaced too");
    call(gauge, "take", 0);
    equal(call(clock, "cancel", 0), 1, "and cancelled");
    pause_for(0.005);
    check(counted(gauge, 0), "neither rings");
    equal(call(clock, "after", -1), 0, "a time that never comes");
    equal(syn_link(tap, "each", clock, "cancel"), 0, "a byte that passes cancels");
    equal(call(tap, "pass", 'x'), 'x', "it passes");
    equal(call(clock, "cancel", 0), 0, "it was cancelled");

    /* A clock rings in an interrupt, which cannot wait. */
    equal(syn_link(clock, "to", monitor, "enter"), -EDEADLK, "a monitor is not entered by an interrupt");
    equal(syn_link(upper, "to", monitor, "enter"), 0, "by a filter it is");
    equal(syn_link(clock, "to", upper, "put"), -EDEADLK, "but not behind a clock");
    equal(syn_unlink(upper, "to"), 0, "without the monitor");
    equal(syn_link(clock, "to", upper, "put"), 0, "a filter is behind a clock");
    equal(syn_link(upper, "to", monitor, "enter"), -EDEADLK, "and then the monitor is not");
    equal(syn_link(upper, "to", queue, "Q_put"), 0, "a queue is");
    while (syn_invoke(queue, get_number, 0) >= 0)
        ;
    equal(call(clock, "after", MICROSECOND), 0, "it rings");
    poll(&asked, 1, 60000);
    equal(syn_invoke(queue, get_number, 0), 'C', "its byte comes by the filter");
    equal(syn_unlink(clock, "to"), 0, "apart again");
    equal(syn_link(upper, "to", monitor, "enter"), 0, "the filter may lead to the monitor");

    int other = syn_make("Clock", 0);
    equal(syn_link(clock, "rang", other, "cancel"), 0, "a clock cancels another");
    equal(syn_link(other, "rang", clock, "cancel"), -ELOOP, "not both of them each other");
    equal(syn_link(clock, "rang", clock, "cancel"), -ELOOP, "nor one itself");
    equal(call(other, "after", FAR), 0, "the other is to ring");
    equal(call(clock, "after", MICROSECOND), 0, "the one rings first");
    for (before = nanoseconds(); call(clock, "cancel", 0) && nanoseconds() - before < FAR;)
        call(clock, "after", MICROSECOND);
    pause_for(0.002);
    equal(call(other, "cancel", 0), 0, "the other was cancelled");
    syn_link(clock, "rang", gauge, "count");
    close(other);

    char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(syn_stub(clock, SYN_STUB_ENTRY + syn_entry(clock, "gettime"), memory, 64) > 0, "a stub of a clock");
    long (*time_it)(long) = (void *)memory;
    before = nanoseconds();
    check(time_it(0) >= before, "tells the time");
    munmap(memory, 4096);

    call(gauge, "take", 0);
    equal(passed(clock, sets_it), 0, "another process sets it, by a descriptor that it was sent");
    check(counted(gauge, 1), "it rings, though that has ended");
    pid_t child = fork();
    if (child == 0)
        _exit(!sets_it(clock));
    equal(status_of(child), 0, "a child sets it, by one that it inherits");
    check(counted(gauge, 2), "it rings");
    int files[] = {tap, monitor, upper, told, queue, gauge, clock};
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++)
        close(files[i]);
    equal(syn_invoke(clock, 0, 0), -EBADF, "a closed one is gone");
}

/* Alarms that come while they are cancelled, replaced, or their clocks closed. */
static void races(void)
{
    enum { TIMES = 2000 };
    int clock = syn_make("Clock", 0), gauge = syn_make("Gauge", 0);
    syn_link(clock, "rang", gauge, "count");
    long after = syn_entry(clock, "after"), cancel = syn_entry(clock, "cancel"), rung = 0, wrong = 0,
         cancelled = 0;
    for (int i = 0; i < TIMES; i++) {
        wrong += syn_invoke(clock, after, 2000 + i % 50 * 200) != 0;
        int64_t end = nanoseconds() + i % 61 * 200;
        while (nanoseconds() < end)
            ;
        if (syn_invoke(clock, cancel, 0) == 1)
            cancelled++;
        else
            wrong += !counted(gauge, ++rung);
    }
    equal(wrong, 0, "an alarm is cancelled or rings, never both");
    printf("# %ld rang, %ld were cancelled\n", rung, cancelled);
    equal(call(gauge, "take", 0), rung, "no more than that");

    /* Several processes at one clock: each time that is set rings, is replaced or is cancelled. */
    static volatile struct counts {
        long set, gone;
    } *shared;
    enum { PARTIES = 4 };
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[PARTIES];
    for (int party = 0; party < PARTIES; party++) {
        children[party] = fork();
        if (children[party] == 0) {
            for (int i = 0; i < TIMES; i++) {
                if (i % 3 == party % 3) {
                    shared[party].gone += syn_invoke(clock, cancel, 0);
                } else {
                    shared[party].set++;
                    shared[party].gone += syn_invoke(clock, after, 1000 + (i * 7 + party * 13) % 40 * 500);
                }
                if (i % 16 == 0)
                    sched_yield();
            }
            _exit(0);
        }
    }
    long set = 0, gone = 0, ended = 0;
    for (int party = 0; party < PARTIES; party++) {
        ended += status_of(children[party]) == 0;
        set += shared[party].set;
        gone += shared[party].gone;
    }
    equal(ended, PARTIES, "several processes use one clock");
    check(counted(gauge, set - gone), "each time rings, is replaced or is cancelled");
    printf("# %ld set, %ld replaced or cancelled\n", set, gone);
    equal(call(clock, "cancel", 0), 0, "and the last has rung");
    munmap((void *)shared, 4096);
    close(clock);

    call(gauge, "take", 0);
    for (int i = 0; i < TIMES / 4; i++) {
        clock = syn_make("Clock", 0);
        wrong += syn_link(clock, "rang", gauge, "count") != 0 || syn_invoke(clock, after, i % 100 * 500) != 0;
        close(clock);
    }
    equal(wrong, 0, "clocks are closed while their alarms are pending");
    long rang = call(gauge, "read", 0);
    pause_for(0.002);
    check(rang <= TIMES / 4 && counted(gauge, rang), "they do not ring afterwards");
    close(gauge);
}

static volatile long calls, spins;

static void called(void) { calls++; }

static void spin(long unused)
{
    (void)unused;
    for (;;)
        spins++;
}

static void leave(long unused) { (void)unused; }

/* Whether a call of the thread's own process may be made here. */
static int may_notify(int thread) { return call(thread, "notify", 0) == 0; }

/* Waits for something that must come. */
#define UNTIL(condition)                                                                            \
    ({                                                                                              \
        for (int64_t begun = nanoseconds(); !(condition) && nanoseconds() - begun < 20000000000ll;) \
            sched_yield();                                                                          \
        (condition) != 0;                                                                           \
    })

static void threads(void)
{
    static char stacks[2][65536] __attribute__((aligned(16)));
    enum { EVENT = 7 };
    int own = syn_thread_quaject(0, EVENT);
    check(own >= 0, "the running thread as a quaject");
    equal(syn_thread_quaject(0, 64), -EINVAL, "with no such number");
    equal(syn_thread_quaject(0x7fffffffffff, 1), -ESRCH, "no such thread");
    equal(call(own, "signal", 0), -EINVAL, "its signal table is empty");
    equal(call(own, "setsignal", -1), -EFAULT, "no procedure of a user's");
    equal(call(own, "setsignal", (long)called), 0, "a procedure for it");
    equal(call(own, "signal", 0), 0, "it is called");
    check(UNTIL(calls == 1), "at once");
    equal(call(own, "interrupt", (long)called), 0, "another way");
    check(UNTIL(calls == 2), "it is called");
    equal(call(own, "notify", 0), 0, "an event occurs");
    equal(call(own, "wait", 0), 0, "it is waited for");
    equal(syn_invoke(own, 11, 0), -ENOENT, "no such callentry");

    syn_thread handle = syn_create(spin, stacks[0] + sizeof stacks[0], 0, 0, SYN_CREATE_SUSPENDED);
    int other = syn_thread_quaject(handle, EVENT);
    equal(call(other, "state", 0) & SYN_SUSPENDED, SYN_SUSPENDED, "another thread, which is suspended");
    equal(call(other, "wait", 0), -EINVAL, "only the caller waits");
    equal(call(other, "step", 0), -EBUSY, "one that has not stopped makes no step");
    equal(call(other, "resume", 0), 0, "it goes on");
    check(UNTIL(spins > 0), "and runs");
    equal(call(other, "stop", 0), 0, "it is stopped");
    check(UNTIL(call(other, "state", 0) & SYN_HALTED), "and stands");
    long stood = spins;
    pause_for(0.002);
    equal(spins, stood, "still");
    equal(call(other, "step", 0), 0, "it makes a step");
    check(UNTIL(call(other, "state", 0) & SYN_HALTED), "and stands again");
    equal(call(other, "setsignal", (long)called), 0, "a procedure for the other");
    equal(call(other, "resume", 0), 0, "it goes on again");

    /* The clock's own callback procedure: an entry of a thread's table. */
    int clock = syn_make("Clock", 0), pump = syn_make("Pump", 0);
    equal(syn_link(clock, "rang", other, "signal"), 0, "a thread is signalled when a clock rings");
    equal(syn_link(clock, "rang", other, "stop"), -ENOENT, "it is not stopped by a link");
    equal(syn_link(pump, "output", other, "signal"), -EPROTOTYPE, "nor signalled by a byte");
    equal(call(clock, "after", MICROSECOND), 0, "the clock rings");
    check(UNTIL(calls == 3), "the procedure is called");
    equal(syn_link(clock, "rang", own, "notify"), 0, "an event occurs when it rings");
    equal(call(clock, "after", MILLISECOND), 0, "a time");
    equal(call(own, "wait", 0), 0, "that is waited for");
    check(contains(clock, "rang -> notify"), "its text shows the link");

    /* Others' rights are those that they have, not those of who made the quaject. */
    equal(passed(own, may_notify), 0, "another process of the same user notifies");
    equal(call(own, "wait", 0), 0, "it was");
    pid_t child = fork();
    if (child == 0)
        _exit(!may_notify(own));
    equal(status_of(child), 0, "a child does, by a descriptor that it inherits");
    equal(call(own, "wait", 0), 0, "it did");
    child = fork();
    if (child == 0) {
        if (setuid(1000) != 0)
            _exit(9);
        int good = call(own, "notify", 0) == -EPERM && call(other, "stop", 0) == -EPERM &&
                   call(own, "setsignal", 0) == -EPERM;
        good &= syn_link(clock, "rang", own, "signal") == -EPERM && call(own, "destroy", 0) == -EPERM;
        _exit(!good);
    }
    equal(status_of(child), 0, "another user's process may not");
    calls = 0;
    equal(syn_link(clock, "rang", other, "signal"), 0, "the other thread again");
    equal(call(other, "destroy", 0), 0, "it is ended");
    check(UNTIL(call(other, "state", 0) == -ESRCH), "and gone");
    equal(call(other, "resume", 0), -ESRCH, "nothing is done to it");
    equal(call(clock, "after", MICROSECOND), 0, "the clock rings");
    pause_for(0.002);
    equal(calls, 0, "nobody is signalled");
    equal(syn_link(clock, "rang", other, "signal"), -ESRCH, "and nothing linked");

    handle = syn_create(leave, stacks[1] + sizeof stacks[1], 0, 0, SYN_CREATE_SUSPENDED);
    int third = syn_thread_quaject(handle, 40);
    equal(call(third, "setsignal", (long)called), -EINVAL,
          "an event's number is not always one of the table");
    equal(call(third, "signal", 0), -EINVAL, "nor is there a procedure");
    equal(call(third, "resume", 0), 0, "a thread that ends by itself");
    check(UNTIL(call(third, "state", 0) == -ESRCH), "is gone too");
    call(own, "setsignal", 0);
    int files[] = {own, other, third, clock, pump};
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++)
        close(files[i]);
    equal(syn_invoke(own, 0, 0), -EBADF, "a closed handle");
}

int main(void)
{
    made_and_called();
    linked();
    descriptors();
    callbacks();
    stubs();
    asynchronous();
    clocks();
    races();
    threads();
    return done();
}

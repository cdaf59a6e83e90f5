/* Checks what programs do with quajects: make, link and call them by name, pass and poll their descriptors, be told by them, have stubs
 * made, read and write asynchronously.
 *
 * Interface: quajects; TAP on standard output.
 */
#define _GNU_SOURCE
#include "kit.h"
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
    int from = syn_make("Queue", 64), to = syn_make("Queue", 64), pump = syn_make("Pump", 0), upper = syn_make("Upper", 0);
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
    check(contains(pump, "output -> put") && contains(pump, "in line"), "the pump's text shows the link, in line");

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
    equal(syn_make("Thread", 0), -ENOENT, "no such class to be made");
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

/* A descriptor that another process gets with a message. */
static int passed(int fd)
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    char byte = 0, room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
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
        _exit(syn_invoke(got, put_number, 'p') == 1 ? 0 : 1);
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
    equal(passed(queue), 0, "another process puts, by a descriptor that it was sent");
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

/* Figure 4.3: a write that does not wait, and goes on when it is told that it may. */
static void callbacks(void)
{
    enum { FULL = 5, ROOM = 6 };
    int queue = syn_make("Queue", 8), full = syn_notice(0, FULL), room = syn_notice(0, ROOM);
    check(full >= 0 && room >= 0, "notices are made");
    equal(syn_link(queue, "Q_full", full, "give_up"), 0, "a full queue returns to the caller, and tells");
    equal(syn_link(queue, "Q_full-1", room, "tell"), 0, "so does one that has room again");
    equal(syn_link(queue, "Q_full", room, "tell"), -EPROTOTYPE, "an event does not answer whether to try again");
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100;) {
            long byte = syn_invoke(queue, get_number, 0);
            if (byte == -EAGAIN)
                sched_yield();
            else if (byte != i++)
                _exit(1);
        }
        _exit(0);
    }
    int waits = 0;
    for (int i = 0; i < 100;) {
        if (syn_invoke(queue, put_number, i) == 1) {
            i++;
            continue;
        }
        equal(syn_wait(FULL), 0, "it was full");
        syn_wait(ROOM);
        waits++;
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
    long (*place)(const void *, unsigned long, long) = (void *)(memory + 256), (*fetch)(void *, unsigned long, long) = (void *)(memory + 320);
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
    out = (struct syn_transfer){.file = ends[1], .operation = SYS_write, .bytes = bytes, .count = sizeof bytes, .event = 2};
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

int main(void)
{
    made_and_called();
    linked();
    descriptors();
    callbacks();
    stubs();
    asynchronous();
    return done();
}

/* Checks UDP sockets that know each other, whose messages may take a shorter way than others': whatever
 * changes, each message goes where it must. Passes on Linux (in a network of its own, with `lo` up) and must
 * pass here.
 *
 * Interface: udp-pairs [GROUP...] runs all groups, or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "inet.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static const char *host = "127.0.0.1";
static void *volatile nowhere = (void *)8;

static int bound(int port, int shares)
{
    int fd = socket(family(host), SOCK_DGRAM, 0);
    if (shares)
        set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    return bind_to(fd, host, port) ? -1 : fd;
}

/* The bytes that can be read, as a text; `-` for nothing. */
static const char *got(int fd)
{
    static char text[4][64];
    static int next;
    char *at = text[next++ & 3];
    ssize_t n = recv(fd, at, 63, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN ? "-" : strerror(errno);
    at[n] = 0;
    return at;
}

static int put(int fd, const char *text) { return write(fd, text, strlen(text)); }

/* Two that know each other, and have used all ways to do so. */
static void two(int *a, int *b, int shares)
{
    char byte;
    *a = bound(0, 0), *b = bound(0, shares);
    check(connect_to(*a, host, port_of(*b)) == 0 && connect_to(*b, host, port_of(*a)) == 0,
          "two know each other");
    int good = 1;
    for (int i = 0; i < 4; i++) {
        good &= put(*a, "x") == 1 && read(*b, &byte, 1) == 1;
        good &= put(*b, "y") == 1 && read(*a, &byte, 1) == 1 && byte == 'y';
    }
    check(good, "and talk");
}

static void messages(void)
{
    int a, b, good = 1, left;
    static unsigned char out[4000], in[4000];
    two(&a, &b, 0);
    for (int round = 0; round < 40 && good; round++) {
        int first = round * 97 % 2100 + 1, second = round * 53 % 3000;
        for (int i = 0; i < 4000; i++)
            out[i] = i * 7 + round;
        good &= write(a, out, first) == first && send(a, out, second, 0) == second && write(a, out, 9) == 9;
        good &= ioctl(b, FIONREAD, &left) == 0 && left == first;
        good &=
            recv(b, in, 4000, MSG_PEEK) == first && read(b, in, 4000) == first && memcmp(in, out, first) == 0;
        good &= read(b, in, 4000) == second && memcmp(in, out, second) == 0;
        good &= recv(b, in, 2, MSG_TRUNC) == 9 && memcmp(in, out, 2) == 0;
        good &= recv(b, in, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN;
    }
    check(good, "messages stay whole, apart and in order, whatever way they take");
    equal(write(a, "", 0), 0, "one of nothing");
    put(a, "after");
    equal(read(b, in, 10), 0, "comes as nothing");
    equal(read(b, in, 3) == 3 && memcmp(in, "aft", 3) == 0, 1, "one is cut");
    same(got(b), "-", "and its rest gone");
    put(a, "named");
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    equal(recvfrom(b, in, 10, 0, (void *)&from, &length), 5, "another");
    same(text_of(&from), own_name(a), "says who sent it");
    equal(write(a, nowhere, 4) == -1 && errno == EFAULT, 1, "none from nowhere");
    put(a, "lost");
    equal(read(b, nowhere, 4) == -1 && errno == EFAULT, 1, "and none to nowhere");
    put(a, "next"), got(b);
    fcntl(b, F_SETFL, O_NONBLOCK);
    while (read(b, in, 1) > 0)
        ;
    equal(read(b, in, 4) == -1 && errno == EAGAIN, 1, "who does not wait is told so");
    put(a, "more");
    equal(polled(b), POLLIN | POLLOUT, "poll sees one");
    equal(read(b, in, 9), 4, "which is read");
    for (int i = 0; i < 20000; i++)
        good &= put(a, "flood") == 5;
    check(good, "who sends never waits");
    int count = 0;
    while (read(b, in, 9) == 5)
        count++;
    check(count >= 100 && count < 20000, "of too many some are lost");
    put(a, "again");
    same(got(b), "again", "later ones are not");
    close(a), close(b);
}

static void changes(void)
{
    int a, b, c, port;
    /* Another who is nearer. */
    two(&a, &b, 1);
    c = bound(port_of(b), 1);
    connect_to(c, host, port_of(a));
    put(a, "to the last");
    same(got(c), "to the last", "another with the same names");
    same(got(b), "-", "is heard by instead");
    close(c);
    put(a, "back");
    same(got(b), "back", "until it goes");
    close(a), close(b);

    /* A receiver that changes its peer. */
    two(&a, &b, 0);
    c = bound(0, 0);
    put(a, "before");
    equal(connect_to(b, host, port_of(c)), 0, "another peer");
    equal(put(a, "not heard"), 9, "is one to the former's word");
    equal(put(a, "x") == -1 && errno == ECONNREFUSED, 1, "who is told");
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    char bytes[16];
    equal(recvfrom(b, bytes, 16, MSG_DONTWAIT, (void *)&from, &length), 6, "what came before is there");
    same(text_of(&from), own_name(a), "from its sender");
    same(got(b), "-", "and nothing else");
    close(a), close(b), close(c);

    /* A sender that changes its peer, in another process too. */
    two(&a, &b, 0);
    c = bound(0, 0);
    int go[2];
    check(pipe(go) == 0, "a pipe");
    pid_t child = fork();
    if (child == 0) {
        int good = put(a, "child") == 5 && read(go[0], bytes, 1) == 1 && put(a, "moved") == 5;
        _exit(!good);
    }
    awaited(b, POLLIN);
    same(got(b), "child", "a copy speaks to the same");
    equal(connect_to(a, host, port_of(c)), 0, "and moves");
    check(write(go[1], "x", 1) == 1, "both");
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "it says so");
    same(got(c), "moved", "to the new one");
    same(got(b), "-", "and not to the former");
    put(a, "mine");
    same(got(c), "mine", "nor here");
    close(a), close(b), close(c), close(go[0]), close(go[1]);

    /* A peer that has gone, and come again. */
    two(&a, &b, 0);
    port = port_of(b);
    close(b);
    equal(put(a, "x"), 1, "to one who has gone");
    equal(put(a, "x") == -1 && errno == ECONNREFUSED, 1, "is told once");
    b = bound(port, 0);
    connect_to(b, host, port_of(a));
    put(a, "welcome");
    same(got(b), "welcome", "another comes");
    close(b);
    put(a, "x");
    equal(read(a, bytes, 1) == -1 && errno == ECONNREFUSED, 1, "a reader is told too");
    close(a);

    /* Nothing more. */
    two(&a, &b, 0);
    put(a, "last");
    equal(shutdown(a, SHUT_WR), 0, "an end");
    equal(put(a, "x") == -1 && errno == EPIPE, 1, "of sending");
    same(got(b), "last", "what came is there");
    put(b, "back");
    same(got(a), "back", "and back it goes");
    equal(shutdown(b, SHUT_RD), 0, "an end");
    equal(read(b, bytes, 4), 0, "of reading");
    close(a), close(b);
}

/* The news for `fd` of how the next message came: the time to live, or -1. */
static int told(int fd)
{
    char bytes[16], control[128];
    struct iovec piece = {bytes, 16};
    struct msghdr h = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(fd, &h, MSG_DONTWAIT) < 0)
        return -2;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL)
            return *(int *)CMSG_DATA(c);
    return -1;
}

static void options(void)
{
    int a, b;
    two(&a, &b, 0);
    put(a, "x");
    equal(told(b), -1, "nothing is said");
    put(a, "x");
    equal(set(b, IPPROTO_IP, IP_RECVTTL, 1), 0, "until it is asked for");
    equal(told(b), 64, "of one that came before too");
    put(a, "x");
    equal(told(b), 64, "and after");
    equal(set(a, IPPROTO_IP, IP_TTL, 7), 0, "another time to live");
    put(a, "x");
    equal(told(b), 7, "is seen");
    close(a), close(b);
    two(&a, &b, 0);
    equal(set(b, SOL_SOCKET, SO_RCVBUF, 1), 0, "little room");
    int count = 0;
    for (int i = 0; i < 100; i++)
        put(a, "x");
    while (recv(b, &count, 0, MSG_DONTWAIT) == 0)
        count++;
    check(count > 0 && count < 10, "is soon full");
    close(a), close(b);
}

static int shared;
static volatile int begun;

static void *reads(void *count)
{
    static char bytes[64];
    long good = 0;
    begun = 1;
    for (long i = 0; i < (long)count; i++)
        good += read(shared, bytes, 64) == i % 10 + 1;
    return (void *)good;
}

static void *reads_an_end(void *unused)
{
    char byte;
    (void)unused;
    begun = 1;
    return (void *)read(shared, &byte, 1);
}

static void *sends(void *length)
{
    static char bytes[64];
    for (int i = 0; i < 50; i++)
        while (write(shared, bytes, (long)length) != (long)length)
            ;
    return 0;
}

/* A thread of `run`, which is about to wait or does. */
static pthread_t waiting(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    begun = 0;
    pthread_create(&thread, 0, run, argument);
    while (!begun)
        sched_yield();
    return thread;
}

static void waits(void)
{
    int a, b, good = 1;
    void *result;
    char bytes[64] = {0};
    /* Begun before they know each other. */
    a = bound(0, 0), b = shared = bound(0, 0);
    connect_to(a, host, port_of(b));
    pthread_t thread = waiting(reads, (void *)1000);
    for (int i = 0; i < 1000; i++) {
        if (i == 5)
            good &= connect_to(b, host, port_of(a)) == 0;
        good &= write(a, bytes, i % 10 + 1) == i % 10 + 1;
        for (int left = 1; i % 50 == 49 && left; sched_yield())
            ioctl(b, FIONREAD, &left);
    }
    pthread_join(thread, &result);
    equal(good ? (long)result : -1, 1000, "who waits gets each message, in order");
    thread = waiting(reads_an_end, 0);
    shutdown(b, SHUT_RD);
    pthread_join(thread, &result);
    equal((long)result, 0, "and an end");
    close(a), close(b);

    two(&a, &b, 0);
    int watch = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    epoll_ctl(watch, EPOLL_CTL_ADD, b, &event);
    for (int i = 0; i < 3; i++) {
        put(a, "x");
        equal(epoll_wait(watch, &event, 1, 2000), 1, "an event for each");
        equal(epoll_wait(watch, &event, 1, 0), 0, "and no more");
    }
    close(watch), close(a), close(b);

    two(&a, &b, 0);
    struct timeval soon = {0, 20000};
    setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    equal(read(b, bytes, 1) == -1 && errno == EAGAIN, 1, "not longer than was said");
    close(a), close(b);

    two(&a, &b, 0);
    shared = a;
    pthread_t threads[3];
    int counts[3] = {0};
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, sends, (void *)(i * 20 + 1));
    for (int i = 0; i < 150; i++) {
        ssize_t n = read(b, bytes, 64);
        if (n % 20 == 1 && n < 60)
            counts[n / 20]++;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    equal(counts[0] == 50 && counts[1] == 50 && counts[2] == 50, 1, "of several who send, each one's");
    close(a), close(b);
}

/* The bytes that a server without a peer gets, as a text with the sender's port behind it; `-` for
 * nothing. */
static const char *heard(int fd, int flags)
{
    static char text[4][64];
    static int next;
    char *at = text[next++ & 3];
    struct sockaddr_in6 from;
    socklen_t length = sizeof from;
    ssize_t n = recvfrom(fd, at, 40, flags | MSG_DONTWAIT, (struct sockaddr *)&from, &length);
    if (n < 0)
        return errno == EAGAIN ? "-" : strerror(errno);
    sprintf(at + n, " %d", ntohs(from.sin6_port));
    return at;
}

static int is(const char *found, const char *text, int port)
{
    char wanted[64];
    sprintf(wanted, "%s %d", text, port);
    if (strcmp(found, wanted))
        printf("# got %s, expected %s\n", found, wanted);
    return strcmp(found, wanted) == 0;
}

/* A server that knows nobody, and clients who know it: each message with its sender, in order, and the
 * answers. */
static void servers(void)
{
    int s = bound(0, 0), a = bound(0, 0), b = bound(0, 0), many = epoll_create1(0), good = 1, left;
    int at = port_of(s), port_a = port_of(a), port_b = port_of(b);
    /* A port that was asked for by number is kept. */
    close(s);
    s = bound(at, 0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(many, EPOLL_CTL_ADD, s, &event);
    check(connect_to(a, host, at) == 0 && connect_to(b, host, at) == 0, "two clients of one server");
    for (int i = 0; i < 20; i++) {
        struct sockaddr_in6 from;
        socklen_t length = sizeof from;
        char text[16], answer[16];
        int count = sprintf(text, "question %d", i), client = i % 5 == 4 ? b : a;
        good &= send(client, text, count, 0) == count && epoll_wait(many, &event, 1, 1000) == 1;
        good &= recvfrom(s, answer, 16, 0, (struct sockaddr *)&from, &length) == count &&
                memcmp(text, answer, count) == 0;
        good &= ntohs(from.sin6_port) == (client == a ? port_a : port_b);
        good &= sendto(s, text, count, 0, (struct sockaddr *)&from, length) == count;
        good &= recv(client, answer, 16, 0) == count && memcmp(text, answer, count) == 0;
    }
    check(good, "questions and answers");
    put(a, "1"), put(a, "22"), put(b, "3"), put(a, "4"), put(b, "5");
    check(ioctl(s, FIONREAD, &left) == 0 && left == 1, "the length of the first");
    check(is(heard(s, MSG_PEEK), "1", port_a) && is(heard(s, 0), "1", port_a) &&
              is(heard(s, 0), "22", port_a),
          "the first in order");
    check(is(heard(s, 0), "3", port_b) && is(heard(s, 0), "4", port_a) && is(heard(s, 0), "5", port_b),
          "and the others");
    equal(strcmp(heard(s, 0), "-"), 0, "and no more");
    static char large[3000];
    put(a, "before");
    write(a, large, sizeof large);
    put(a, "behind");
    check(is(heard(s, 0), "before", port_a) && recv(s, large, 1, MSG_TRUNC) == sizeof large &&
              is(heard(s, 0), "behind", port_a),
          "a long one between short ones");
    put(a, "early");
    check(connect_to(s, host, port_b) == 0, "the server turns to one of them");
    put(b, "kept");
    equal(strcmp(got(s), "early") + strcmp(got(s), "kept"), 0, "what was there before stays");
    put(a, "lost");
    put(b, "heard");
    equal(strcmp(got(s), "heard") + strcmp(got(s), "-"), 0, "the other is not heard any more");
    equal(send(a, "x", 1, 0) == -1 && errno == ECONNREFUSED, 1, "and is told");
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    connect(s, &none, sizeof none);
    put(a, "again");
    put(b, "also");
    check(is(heard(s, 0), "again", port_a) && is(heard(s, 0), "also", port_b),
          "until the server knows nobody again");
    close(a);
    a = bound(port_a, 0);
    check(a >= 0 && connect_to(a, host, at) == 0 && put(a, "new") == 3 && is(heard(s, 0), "new", port_a),
          "another in the place of the first");
    close(s);
    put(a, "x");
    equal(send(a, "x", 1, 0) == -1 && errno == ECONNREFUSED, 1, "no server");
    s = bound(at, 0);
    int good_again = 1;
    for (int i = 0; i < 8; i++)
        good_again &= put(a, "y") == 1 && is(heard(s, 0), "y", port_a);
    check(good_again, "a new server");
    put(a, "queued");
    set(s, SOL_SOCKET, SO_TIMESTAMP, 1);
    put(a, "stamped");
    check(is(heard(s, 0), "queued", port_a) && is(heard(s, 0), "stamped", port_a), "an option between two");
    close(a), close(b), close(s), close(many);
}

/* Answers `count` questions of clients with what they say. */
static void answers(int fd, int count)
{
    while (count--) {
        char text[64];
        struct sockaddr_in6 from;
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &length);
        if (n <= 0 || sendto(fd, text, n, 0, (struct sockaddr *)&from, length) != n)
            _exit(1);
    }
    _exit(0);
}

/* A server that names its client in each call, and the answer goes by the way that the client has made. */
static void names(void)
{
    int s = bound(0, 0), a = bound(0, 0), b = bound(0, 0), good = 1, status;
    int port_a = port_of(a), port_b = port_of(b);
    char bytes[64], name[64];
    struct sockaddr_storage from;
    socklen_t length;
    check(connect_to(a, host, port_of(s)) == 0 && connect_to(b, host, port_of(s)) == 0, "two clients");
    for (int i = 0; i < 12; i++) {
        length = sizeof from;
        memset(&from, 0x55, sizeof from);
        good &= put(a, "ask") == 3 && recvfrom(s, bytes, 9, 0, (void *)&from, &length) == 3 &&
                strcmp(text_of(&from), own_name(a)) == 0;
        good &= length == sizeof(struct sockaddr_in) && ((char *)&from)[sizeof(struct sockaddr_in)] == 0x55;
        good &= sendto(s, "answer", 6, 0, (void *)&from, length) == 6;
        strcpy(name, got(a));
        good &= strcmp(name, "answer") == 0;
    }
    check(good, "each question has its sender, and each answer comes");
    struct sockaddr_storage to_a = from;
    put(a, "short");
    memset(&from, 0x55, sizeof from), length = 6;
    equal(recvfrom(s, bytes, 9, 0, (void *)&from, &length), 5, "with little room for its name");
    equal(length == sizeof(struct sockaddr_in) && memcmp(&from, &to_a, 6) == 0 && ((char *)&from)[6] == 0x55,
          1, "the beginning of that is told");
    put(a, "wrong"), length = -1;
    equal(recvfrom(s, bytes, 9, 0, (void *)&from, &length) == -1 && errno == EINVAL, 1,
          "with room of a negative length");
    put(a, "nowhere"), length = sizeof from;
    equal(recvfrom(s, bytes, 9, 0, nowhere, &length) == -1 && errno == EFAULT, 1, "or nowhere");
    put(a, "nowhere");
    equal(recvfrom(s, bytes, 9, 0, (void *)&from, nowhere) == -1 && errno == EFAULT, 1,
          "or whose length is nowhere");
    equal(strcmp(heard(s, 0), "-"), 0, "it is lost");
    memset(&from, 0x55, sizeof from), length = sizeof from;
    equal(recvfrom(s, bytes, 9, MSG_DONTWAIT, (void *)&from, &length) == -1 && errno == EAGAIN &&
              length == sizeof from && *(char *)&from == 0x55,
          1, "where nothing is, no name is told");
    put(a, "kept");
    check(is(heard(s, MSG_PEEK), "kept", port_a) && is(heard(s, 0), "kept", port_a),
          "one that is looked at stays");
    put(b, "other"), put(a, "own"), put(b, "more");
    check(is(heard(s, 0), "other", port_b) && is(heard(s, 0), "own", port_a) &&
              is(heard(s, 0), "more", port_b),
          "another sender's name is its own");
    struct sockaddr_storage to_b = to_a;
    ((struct sockaddr_in *)&to_b)->sin_port = htons(port_b);
    equal(sendto(s, "for b", 5, 0, (void *)&to_b, length = sizeof(struct sockaddr_in)), 5,
          "an answer to another");
    same(got(b), "for b", "goes there");
    same(got(a), "-", "and to nobody else");
    equal(sendto(s, "x", 1, 0, (void *)&to_a, length - 1) == -1 && errno == EINVAL, 1,
          "a name that is too short");
    equal(sendto(s, "x", 1, 0, (void *)&to_a, sizeof to_a), 1, "one with more behind it");
    same(got(a), "x", "is the same");
    to_b = to_a, to_b.ss_family = AF_INET6;
    equal(sendto(s, "x", 1, 0, (void *)&to_b, length) == -1 && errno == EAFNOSUPPORT, 1,
          "one of another family");
    equal(sendto(s, "x", 1, 0, nowhere, length) == -1 && errno == EFAULT, 1, "and one that is nowhere");
    equal(sendto(s, nowhere, 4, 0, (void *)&to_a, length) == -1 && errno == EFAULT, 1,
          "or of what is nowhere");
    equal(sendto(s, "", 0, 0, (void *)&to_a, length), 0, "one of nothing");
    equal(recv(a, bytes, 9, MSG_DONTWAIT), 0, "comes");
    set(s, IPPROTO_IP, IP_TTL, 9), set(a, IPPROTO_IP, IP_RECVTTL, 1);
    equal(sendto(s, "x", 1, 0, (void *)&to_a, length), 1, "with another time to live");
    equal(told(a), 9, "it is seen");
    close(a), close(b), close(s);

    /* Waiting, between processes. */
    s = bound(0, 0), a = bound(0, 0);
    connect_to(a, host, port_of(s));
    pid_t child = fork();
    if (child == 0)
        answers(s, 500);
    good = 1;
    for (int i = 0; i < 500; i++) {
        int n = sprintf(name, "question %d", i);
        good &=
            send(a, name, n, 0) == n && recv(a, bytes, sizeof bytes, 0) == n && memcmp(bytes, name, n) == 0;
    }
    waitpid(child, &status, 0);
    check(good && status == 0, "who waits for a question gets each with its sender");
    pid_t other = fork();
    if (other == 0)
        answers(s, 1000);
    while (put(a, "x") == 1 && recv(a, bytes, 1, 0) == 1 && good < 20)
        good++;
    kill(other, SIGTERM);
    waitpid(other, &status, 0);
    check(WIFSIGNALED(status), "a signal ends one who waits so");
    put(a, "left");
    check(is(heard(s, 0), "left", port_of(a)), "the next is there for another");
    length = sizeof from;
    put(a, "x");
    equal(recvfrom(s, bytes, 9, 0, (void *)&from, &length), 1, "a client");
    connect_to(s, host, port_of(a));
    equal(sendto(s, "still", 5, 0, (void *)&from, length), 5, "that is the server's peer now");
    same(got(a), "still", "hears it");
    close(a);
    equal(sendto(s, "gone", 4, 0, (void *)&from, length), 4, "and one that has gone does not");
    close(s);
}

static void all_of_six(void)
{
    host = "::1";
    messages();
    servers();
    host = "127.0.0.1";
}

static const struct group groups[] = {
    {"messages", messages}, {"changes", changes}, {"options", options}, {"waits", waits},
    {"servers", servers},   {"names", names},     {"six", all_of_six},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

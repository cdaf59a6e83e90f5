/* Names of unix-domain sockets, and listeners: a part of `sockets`.
 *
 * Interface: the groups names, backlogs, listeners_end, rushes and calls. It uses the steps of `sockets.c`.
 */
#ifndef SOCKETS_NAMES_H
#define SOCKETS_NAMES_H

/* --- names and listeners --- */

static void names(void)
{
    struct sockaddr_un address;
    socklen_t length = sizeof address;
    int fd = bound(SOCK_STREAM, "first");
    check(fd >= 0, "a name in the file system");
    struct stat st;
    char path[128];
    snprintf(path, sizeof path, "%s/first", folder);
    equal(stat(path, &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0755, 1,
          "is a socket's, less the umask");
    getsockname(fd, (void *)&address, &length);
    equal(length == 2 + strlen(path) + 1 && strcmp(address.sun_path, path) == 0, 1, "its name");
    fails(bound(SOCK_STREAM, "first"), EADDRINUSE, "is taken");
    socklen_t other = named(&address, "second");
    fails(bind(fd, (void *)&address, other), EINVAL, "it has one already");
    fails(open(path, O_RDWR), ENXIO, "it cannot be opened");
    fails(reached(SOCK_STREAM, "first"), ECONNREFUSED, "nobody listens");
    fails(reached(SOCK_STREAM, "nobody"), ENOENT, "no such name");
    fails(reached(SOCK_STREAM, "first/more"), ENOTDIR, "nor below it");
    equal(listen(fd, 5), 0, "somebody listens");
    fails(reached(SOCK_DGRAM, "first"), EPROTOTYPE, "of another kind");
    int end = reached(SOCK_STREAM, "first");
    check(end >= 0, "reached");
    fails(reach(end, "first"), EISCONN, "it is");
    fails(listen(end, 1), EINVAL, "it cannot listen now");
    length = sizeof address;
    equal(getsockname(end, (void *)&address, &length) == 0 && length == 2 && address.sun_family == AF_UNIX, 1,
          "its own name is none");
    length = sizeof address;
    equal(getpeername(end, (void *)&address, &length) == 0 && strcmp(address.sun_path, path) == 0, 1,
          "that of the other end");
    length = sizeof address;
    memset(&address, 7, sizeof address);
    int got = accept4(fd, (void *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    equal(got >= 0 && length == 2 && address.sun_family == AF_UNIX, 1, "who came has no name");
    equal(fcntl(got, F_GETFD) == FD_CLOEXEC && fcntl(got, F_GETFL) == (O_RDWR | O_NONBLOCK), 1,
          "flags of accept4");
    length = sizeof address;
    equal(getsockname(got, (void *)&address, &length) == 0 && strcmp(address.sun_path, path) == 0, 1,
          "it has the listener's name");
    char bytes[16];
    equal(write(end, "hello", 5) == 5 && read(got, bytes, 16) == 5 && write(got, "you", 3) == 3 &&
              read(end, bytes, 16) == 3,
          1, "both talk");
    close(got), close(end);
    fails(accept4(fd, 0, 0, 1), EINVAL, "an unknown flag");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fails(accept(fd, 0, 0), EAGAIN, "nobody else came");
    fails(reach(fd, "first"), EINVAL, "a listener reaches nobody");
    fails(read(fd, bytes, 1), EINVAL, "nor reads");
    fails(write(fd, bytes, 1), ENOTCONN, "nor writes");
    end = reached(SOCK_STREAM, "first");
    close(fd);
    equal(read(end, bytes, 1) == -1 && errno == ECONNRESET, 1, "a listener that goes resets who waits");
    close(end);
    fails(reached(SOCK_STREAM, "first"), ECONNREFUSED, "what is left is a name");
    fails(bound(SOCK_STREAM, "first"), EADDRINUSE, "that is taken");
    unlink(path);
    fails(reached(SOCK_STREAM, "first"), ENOENT, "until it is removed");
    fd = listener(SOCK_STREAM, "first", 1);
    check(fd >= 0, "then it can be had again");
    char moved[140];
    snprintf(moved, sizeof moved, "%s.moved", path);
    rename(path, moved);
    end = reached(SOCK_STREAM, "first.moved");
    check(end >= 0, "a name that was moved leads there");
    close(end);
    unlink(moved);
    close(fd);
    /* Abstract ones. */
    fd = listener(SOCK_STREAM, "@a", 5);
    check(fd >= 0, "a name of its own");
    length = sizeof address;
    getsockname(fd, (void *)&address, &length);
    struct sockaddr_un same;
    equal(length == named(&same, "@a") && memcmp(&address, &same, length) == 0, 1, "is what it was bound to");
    fails(bound(SOCK_STREAM, "@a"), EADDRINUSE, "and taken");
    int datagrams = bound(SOCK_DGRAM, "@a");
    check(datagrams >= 0, "for its kind");
    close(datagrams);
    end = reached(SOCK_STREAM, "@a");
    check(end >= 0, "reached");
    close(end);
    fails(reached(SOCK_STREAM, "@ab"), ECONNREFUSED, "a longer one is another");
    close(fd);
    fails(reached(SOCK_STREAM, "@a"), ECONNREFUSED, "it goes with its socket");
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    address.sun_family = AF_UNIX;
    equal(bind(fd, (void *)&address, 2), 0, "a name that the system chooses");
    length = sizeof address;
    getsockname(fd, (void *)&address, &length);
    equal(length == 8 && address.sun_path[0] == 0 && strspn(address.sun_path + 1, "0123456789abcdef") >= 5, 1,
          "of five digits");
    equal(bind(fd, (void *)&address, 2), 0, "once");
    close(fd);
    /* Wrong ones. */
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    named(&address, "x");
    fails(bind(fd, (void *)&address, 1), EINVAL, "too short for a family");
    fails(bind(fd, (void *)&address, 111), EINVAL, "too long");
    fails(bind(fd, (void *)&address, 1000), EINVAL, "much too long");
    fails(bind(fd, (void *)&address, -1), EINVAL, "less than nothing");
    fails(bind(fd, (void *)8, 20), EFAULT, "at nowhere");
    address.sun_family = AF_INET;
    fails(bind(fd, (void *)&address, 30), EINVAL, "of another family");
    fails(connect(fd, (void *)&address, 30), EINVAL, "nor reached");
    address.sun_family = AF_UNSPEC;
    fails(connect(fd, (void *)&address, 30), EINVAL, "a stream is not let go");
    named(&address, "nowhere/x");
    fails(bind(fd, (void *)&address, sizeof address), ENOENT, "in no folder");
    fails(getpeername(fd, (void *)&address, &length), ENOTCONN, "no other end");
    length = -1;
    fails(getsockname(fd, (void *)&address, &length), EINVAL, "less than no room");
    length = 1;
    memset(&address, 9, sizeof address);
    equal(getsockname(fd, (void *)&address, &length) == 0 && length == 2 && ((char *)&address)[1] == 9, 1,
          "what there is room for");
    close(fd);
    /* All 108 bytes, without an end. */
    fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    int used = snprintf(address.sun_path, sizeof address.sun_path, "%s/", folder);
    memset(address.sun_path + used, 'n', sizeof address.sun_path - used);
    equal(bind(fd, (void *)&address, sizeof address), 0, "a name of 108 bytes");
    char whole[200];
    struct sockaddr_un *long_one = (void *)whole;
    length = sizeof whole;
    equal(getsockname(fd, (void *)long_one, &length) == 0 && length == 111, 1, "is told with its end");
    memcpy(whole + 110, "", 1);
    unlink(whole + 2);
    close(fd);
    /* Relative to where one stands. */
    char back[256];
    getcwd(back, sizeof back);
    chdir(folder);
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, "here");
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    equal(bind(fd, (void *)&address, 7), 0, "a short path, without an end");
    listen(fd, 1);
    chdir(back);
    end = reached(SOCK_STREAM, "here");
    check(end >= 0, "reached from elsewhere");
    length = sizeof address;
    getpeername(end, (void *)&address, &length);
    equal(length == 7 && strcmp(address.sun_path, "here") == 0, 1, "by the name that it was given");
    close(end), close(fd);
    named(&address, "here");
    unlink(address.sun_path);
}

static void *connect_later(void *name) { return (void *)(long)reached(SOCK_STREAM, name); }

static void backlogs(void)
{
    char bytes[4];
    int fd = listener(SOCK_STREAM, "@b", 1), waiting[3];
    equal(option(fd, SO_ACCEPTCONN), 1, "it listens");
    equal(polled(fd), 0, "nobody comes");
    for (int i = 0; i < 2; i++) {
        waiting[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        equal(reach(waiting[i], "@b"), 0, "one may wait, and another");
    }
    equal(polled(fd), POLLIN, "somebody does");
    waiting[2] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    fails(reach(waiting[2], "@b"), EAGAIN, "no third");
    write(waiting[0], "first", 5);
    pthread_t thread;
    pthread_create(&thread, 0, connect_later, "@b");
    int got = accept(fd, 0, 0);
    equal(got >= 0 && recv(got, bytes, 1, 0) == 1 && bytes[0] == 'f', 1,
          "the first one comes first, with what it sent");
    close(got);
    void *end;
    pthread_join(thread, &end);
    check((long)end >= 0, "who waited for room is in");
    equal(listen(fd, 3), 0, "more may wait");
    equal(reach(waiting[2], "@b"), 0, "and do");
    for (int i = 0; i < 3; i++)
        close(accept(fd, 0, 0));
    equal(polled(fd), 0, "all were let in");
    struct timeval soon = {0, 20000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    fails(accept(fd, 0, 0), EAGAIN, "nobody comes in time");
    equal(shutdown(fd, SHUT_RD), 0, "no more are let in");
    fails(reach(waiting[0], "@b") == -1 && (errno == ECONNREFUSED || errno == EISCONN)
              ? (errno = ECONNREFUSED, -1)
              : 0,
          ECONNREFUSED, "nor reach it");
    fails(reached(SOCK_STREAM, "@b"), ECONNREFUSED, "nobody does");
    fails(accept(fd, 0, 0), EINVAL, "nobody is let in");
    close(fd), close((long)end);
    for (int i = 0; i < 3; i++)
        close(waiting[i]);
}

static atomic_int waiter;

static void *connect_in_vain(void *name)
{
    waiter = gettid();
    int fd = reached(SOCK_STREAM, name), error = errno;
    close(fd);
    return (void *)(long)(fd >= 0 ? 0 : error);
}

static void *accept_in_vain(void *fd)
{
    waiter = gettid();
    int got = accept((long)fd, 0, 0), error = errno;
    close(got);
    return (void *)(long)(got >= 0 ? 0 : error);
}

/* Runs `body` in a thread, which sleeps when this returns. */
static pthread_t asleep_in(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    waiter = 0;
    pthread_create(&thread, 0, body, argument);
    while (!waiter)
        sched_yield();
    until_thread_sleeps(waiter);
    return thread;
}

/* A thread that waits at a listener is told that it has gone. */
static void listeners_end(void)
{
    void *told;
    int fd = listener(SOCK_STREAM, "@e", 0), first_in = reached(SOCK_STREAM, "@e");
    pthread_t thread = asleep_in(connect_in_vain, "@e");
    close(fd);
    pthread_join(thread, &told);
    equal((long)told, ECONNREFUSED, "who waits for room hears that the listener is closed");
    close(first_in);
    fd = listener(SOCK_STREAM, "@e", 0);
    thread = asleep_in(accept_in_vain, (void *)(long)fd);
    shutdown(fd, SHUT_RD);
    pthread_join(thread, &told);
    equal((long)told, EINVAL, "who waits to accept hears that it is shut");
    close(fd);
}

enum { RUSHES = 1000, RUSHING = 4 };
static pthread_barrier_t rush;
static atomic_int rushed, rush_here;

static void *rush_in(void *unused)
{
    (void)unused;
    for (int i = 0; i < RUSHES; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        /* Closer together than a barrier lets them go. */
        rush_here++;
        for (int looks = 0; rush_here < (i + 1) * RUSHING; looks++)
            if (looks > 2000)
                sched_yield();
        rushed += reach(fd, "@rush") == 0;
        pthread_barrier_wait(&rush);
        pthread_barrier_wait(&rush);
        close(fd);
    }
    return 0;
}

/* Several at once for one place. */
static void rushes(void)
{
    int fd = listener(SOCK_STREAM, "@rush", 0), wrong = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    rushed = rush_here = 0;
    pthread_t threads[RUSHING];
    pthread_barrier_init(&rush, 0, RUSHING + 1);
    for (int i = 0; i < RUSHING; i++)
        pthread_create(&threads[i], 0, rush_in, 0);
    for (int i = 0; i < RUSHES; i++) {
        pthread_barrier_wait(&rush);
        wrong += rushed != 1;
        rushed = 0;
        for (int got; (got = accept(fd, 0, 0)) >= 0;)
            close(got);
        pthread_barrier_wait(&rush);
    }
    for (int i = 0; i < RUSHING; i++)
        pthread_join(threads[i], 0);
    equal(wrong, 0, "of four at once one gets the only place");
    pthread_barrier_destroy(&rush);
    close(fd);
}

static void *serve(void *listening)
{
    for (int i = 0; i < 200; i++) {
        int fd = accept((long)listening, 0, 0);
        char byte;
        if (fd < 0 || read(fd, &byte, 1) != 1 || write(fd, &byte, 1) != 1)
            return (void *)1;
        close(fd);
    }
    return 0;
}

static void *call(void *wrong)
{
    for (int i = 0; i < 100; i++) {
        int fd = reached(SOCK_STREAM, "@serve");
        char byte = i, back = 0;
        if (fd < 0 || write(fd, &byte, 1) != 1 || read(fd, &back, 1) != 1 || back != byte ||
            read(fd, &back, 1) != 0)
            ++*(int *)wrong;
        close(fd);
    }
    return 0;
}

static void calls(void)
{
    int fd = listener(SOCK_STREAM, "@serve", 2), wrong[4] = {0};
    pthread_t servers[2], callers[4];
    for (int i = 0; i < 2; i++)
        pthread_create(&servers[i], 0, serve, (void *)(long)fd);
    for (int i = 0; i < 4; i++)
        pthread_create(&callers[i], 0, call, &wrong[i]);
    void *bad, *any = 0;
    for (int i = 0; i < 4; i++)
        pthread_join(callers[i], 0);
    for (int i = 0; i < 2; i++)
        pthread_join(servers[i], &bad), any = any ? any : bad;
    equal(!any && wrong[0] + wrong[1] + wrong[2] + wrong[3] == 0, 1,
          "400 connections of four callers to two servers");
    close(fd);
}
#endif

/* POSIX message queues, as Linux has them.
 *
 * Interface: mqueues [GROUP...]: TAP on standard output. As root; `text` and `sysctl` want /proc and, to be
 * mounted, the file system `mqueue`.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME "/mqueues-test"
static char buffer[8192];

static struct mq_attr sized(long most, long size)
{
    return (struct mq_attr){.mq_maxmsg = most, .mq_msgsize = size};
}

static mqd_t make(int flags, long most, long size)
{
    struct mq_attr attr = sized(most, size);
    mq_unlink(NAME);
    return mq_open(NAME, O_CREAT | O_EXCL | O_RDWR | flags, 0600, &attr);
}

static struct timespec in_ms(int ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += ms * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static long count_of(mqd_t q)
{
    struct mq_attr attr;
    return mq_getattr(q, &attr) ? -1 : attr.mq_curmsgs;
}

static void names(void)
{
    char long_name[NAME_MAX + 3];
    struct mq_attr attr, wrong;
    mq_unlink(NAME);
    fails(mq_open(NAME, O_RDWR), ENOENT, "there is none");
    mqd_t q = mq_open(NAME, O_CREAT | O_RDWR, 0640, 0);
    check(q >= 0, "made");
    equal(fcntl(q, F_GETFD), FD_CLOEXEC, "closed by exec whatever is said");
    equal(mq_getattr(q, &attr), 0, "its attributes");
    equal(attr.mq_maxmsg, 10, "ten messages");
    equal(attr.mq_msgsize, 8192, "of 8192 bytes");
    equal(attr.mq_curmsgs, 0, "none");
    equal(attr.mq_flags, 0, "waits");
    fails(mq_open(NAME, O_CREAT | O_EXCL | O_RDWR, 0600, 0), EEXIST, "there is one");
    fails(syscall(SYS_mq_open, NAME + 1, 3, 0, 0), EINVAL, "no such access");
    mqd_t other = mq_open(NAME, O_CREAT | O_RDONLY, 0600, 0);
    check(other >= 0, "found again");
    fails(mq_send(other, "a", 1, 0), EBADF, "not for writing");
    close(other);
    other = mq_open(NAME, O_WRONLY);
    fails(mq_receive(other, buffer, sizeof buffer, 0), EBADF, "not for reading");
    equal(mq_send(other, "abc", 3, 7), 0, "sent by one");
    unsigned priority = 0;
    equal(mq_receive(q, buffer, sizeof buffer, &priority), 3, "got by the other");
    equal(priority, 7, "with its priority");
    close(other);
    equal(mq_unlink(NAME), 0, "its name goes");
    fails(mq_unlink(NAME), ENOENT, "once");
    fails(mq_open(NAME, O_RDWR), ENOENT, "nobody finds it");
    equal(mq_send(q, "x", 1, 0), 0, "it still is a queue");
    equal(count_of(q), 1, "with a message");
    mqd_t anew = mq_open(NAME, O_CREAT | O_RDWR, 0600, 0);
    equal(count_of(anew), 0, "another of that name is another");
    close(anew);
    close(q);
    mq_unlink(NAME);
    fails(syscall(SYS_mq_open, "a/b", O_CREAT | O_RDWR, 0600, 0), EACCES, "a path is no name");
    fails(syscall(SYS_mq_open, "/a", O_CREAT | O_RDWR, 0600, 0), EACCES, "nor is a slash part of one");
    fails(syscall(SYS_mq_open, "..", O_CREAT | O_RDWR, 0600, 0), EACCES, "nor dots");
    fails(syscall(SYS_mq_open, "", O_CREAT | O_RDWR, 0600, 0), ENOENT, "nor nothing");
    fails(syscall(SYS_mq_unlink, ""), ENOENT, "nothing to remove");
    fails(syscall(SYS_mq_open, (char *)1, O_RDWR, 0, 0), EFAULT, "no name at all");
    memset(long_name, 'n', sizeof long_name);
    long_name[0] = '/', long_name[NAME_MAX + 2] = 0;
    fails(mq_open(long_name, O_CREAT | O_RDWR, 0600, 0), ENAMETOOLONG, "too long");
    long_name[NAME_MAX + 1] = 0;
    q = mq_open(long_name, O_CREAT | O_RDWR, 0600, 0);
    check(q >= 0, "the longest");
    close(q);
    equal(mq_unlink(long_name), 0, "removed");
    wrong = sized(0, 10);
    fails(mq_open(NAME, O_CREAT | O_RDWR, 0600, &wrong), EINVAL, "no message");
    wrong = sized(10, 0);
    fails(mq_open(NAME, O_CREAT | O_RDWR, 0600, &wrong), EINVAL, "no byte");
    wrong = sized(-1, 10);
    fails(mq_open(NAME, O_CREAT | O_RDWR, 0600, &wrong), EINVAL, "less than none");
    wrong = sized(65537, 10);
    fails(mq_open(NAME, O_CREAT | O_RDWR, 0600, &wrong), EINVAL, "more than there ever may be");
    wrong = sized(10, (16 << 20) + 1);
    fails(mq_open(NAME, O_CREAT | O_RDWR, 0600, &wrong), EINVAL, "longer than any may be");
    fails(syscall(SYS_mq_open, NAME + 1, O_CREAT | O_RDWR, 0600, (void *)1), EFAULT, "no attributes there");
    mode_t old = umask(027);
    q = mq_open(NAME, O_CREAT | O_RDWR, 0666, 0);
    umask(old);
    struct stat st;
    fstat(q, &st);
    equal(st.st_mode, S_IFREG | 0640, "a file whose mode the umask has changed");
    equal(st.st_size, 80, "of 80 bytes");
    equal(st.st_nlink, 1, "with a name");
    mq_unlink(NAME);
    fstat(q, &st);
    equal(st.st_nlink, 0, "and without");
    close(q);
}

static void order(void)
{
    unsigned priority;
    mqd_t q = make(O_NONBLOCK, 8, 16);
    const int given[] = {3, 0, 32767, 3, 0, 5, 3, 32767}, sorted[] = {32767, 32767, 5, 3, 3, 3, 0, 0};
    for (int i = 0; i < 8; i++) {
        char c = 'a' + i;
        mq_send(q, &c, 1, given[i]);
    }
    fails(mq_send(q, "z", 1, 32767), EAGAIN, "full");
    char got[9] = "";
    int rising = 1;
    for (int i = 0; i < 8; i++) {
        rising &= mq_receive(q, buffer, 16, &priority) == 1 && (int)priority == sorted[i];
        got[i] = buffer[0];
    }
    check(rising, "by priority");
    check(strcmp(got, "chfadgbe") == 0, "of one priority the oldest first");
    fails(mq_receive(q, buffer, 16, 0), EAGAIN, "empty");
    fails(mq_send(q, "a", 1, 32768), EINVAL, "no such priority");
    fails(mq_send(q, buffer, 17, 0), EMSGSIZE, "too long");
    fails(mq_receive(q, buffer, 15, 0), EMSGSIZE, "room for less than the longest");
    equal(mq_send(q, "", 0, 1), 0, "nothing is a message");
    equal(mq_receive(q, buffer, 16, &priority), 0, "and comes");
    fails(mq_send(q, (char *)1, 1, 0), EFAULT, "bytes that are not there");
    fails(mq_send(-1, "a", 1, 0), EBADF, "no queue");
    fails(mq_send(1, "a", 1, 0), EBADF, "a file is none");
    fails(mq_receive(1, buffer, sizeof buffer, 0), EBADF, "nor to receive");
    struct mq_attr attr;
    fails(syscall(SYS_mq_getsetattr, 1, 0, &attr), EBADF, "nor to ask");
    fails(syscall(SYS_mq_notify, 1, 0), EBADF, "nor to be told");
    mq_send(q, "gone", 4, 1);
    fails(mq_receive(q, (char *)1, 16, 0), EFAULT, "nowhere to put it");
    equal(count_of(q), 0, "it is lost");
    attr.mq_flags = 0;
    struct mq_attr before;
    equal(mq_setattr(q, &attr, &before), 0, "let it wait");
    equal(before.mq_flags, O_NONBLOCK, "it did not");
    mq_getattr(q, &attr);
    equal(attr.mq_flags, 0, "it does");
    equal(fcntl(q, F_GETFL) & O_NONBLOCK, 0, "says the descriptor too");
    attr.mq_flags = O_APPEND;
    fails(mq_setattr(q, &attr, 0), EINVAL, "nothing else can be set");
    fcntl(q, F_SETFL, O_NONBLOCK);
    mq_getattr(q, &attr);
    equal(attr.mq_flags, O_NONBLOCK, "set by the descriptor");
    fails(syscall(SYS_mq_getsetattr, q, (void *)1, 0), EFAULT, "attributes that are not there");
    fails(syscall(SYS_mq_getsetattr, q, 0, (void *)1), EFAULT, "or nowhere to put them");
    close(q);
    mq_unlink(NAME);
}

static volatile sig_atomic_t caught, caught_code, caught_pid, caught_value;

static void note(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    caught++;
    caught_code = info->si_code, caught_pid = info->si_pid, caught_value = info->si_value.sival_int;
}

static void on(int signo, int flags)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | flags};
    sigaction(signo, &action, 0);
}

static void waits(void)
{
    unsigned priority;
    struct timespec past = {1, 0}, wrong = {1, 1000000000}, soon;
    int status;
    mqd_t q = make(0, 2, 16);
    soon = in_ms(20);
    fails(mq_timedreceive(q, buffer, 16, 0, &soon), ETIMEDOUT, "none came in time");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    check(now.tv_sec > soon.tv_sec || (now.tv_sec == soon.tv_sec && now.tv_nsec >= soon.tv_nsec),
          "and not before");
    fails(mq_timedreceive(q, buffer, 16, 0, &past), ETIMEDOUT, "too late already");
    fails(mq_timedreceive(q, buffer, 16, 0, &wrong), EINVAL, "no time");
    equal(mq_timedsend(q, "1", 1, 1, &past), 0, "who need not wait is not late");
    fails(mq_timedsend(q, "1", 1, 1, &wrong), EINVAL, "but has to say a time");
    mq_send(q, "2", 1, 1);
    soon = in_ms(20);
    fails(mq_timedsend(q, "3", 1, 1, &soon), ETIMEDOUT, "no room in time");
    equal(count_of(q), 2, "nothing was left there");
    /* A sender that waits. */
    pid_t child = fork();
    if (child == 0)
        _exit(mq_send(q, "3", 1, 9) != 0);
    until_asleep(child);
    equal(count_of(q), 2, "full, and one waits");
    equal(mq_receive(q, buffer, 16, 0), 1, "room for it");
    equal(count_of(q), 2, "which it has at once");
    waitpid(child, &status, 0);
    equal(status, 0, "it has sent");
    equal(mq_receive(q, buffer, 16, &priority), 1, "its message");
    equal(priority, 9, "is first");
    mq_receive(q, buffer, 16, 0);
    /* A receiver that waits. */
    child = fork();
    if (child == 0)
        _exit(mq_receive(q, buffer, 16, 0) == 1 && buffer[0] == 'r' ? 0 : 1);
    until_asleep(child);
    equal(mq_send(q, "r", 1, 0), 0, "sent to one who waits");
    equal(count_of(q), 0, "it is not in the queue");
    waitpid(child, &status, 0);
    equal(status, 0, "it was received");
    /* Interrupted. */
    for (int restart = 0; restart < 2; restart++) {
        child = fork();
        if (child == 0) {
            on(SIGUSR1, restart ? SA_RESTART : 0);
            ssize_t count = mq_receive(q, buffer, 16, 0);
            _exit(caught != 1 ? 3 : count == 1 ? 0 : errno == EINTR ? 1 : 2);
        }
        until_asleep(child);
        /* The handler is there before it sleeps for the first time. */
        kill(child, SIGUSR1);
        if (restart) {
            struct pollfd look = {q, POLLIN, 0};
            poll(&look, 1, 20);
            until_asleep(child);
            mq_send(q, "s", 1, 0);
        }
        waitpid(child, &status, 0);
        equal(WEXITSTATUS(status), !restart, restart ? "begins again after the handler" : "EINTR");
    }
    /* Killed ones leave nothing. */
    mq_send(q, "1", 1, 0), mq_send(q, "2", 1, 0);
    child = fork();
    if (child == 0)
        _exit(mq_send(q, "3", 1, 9) != 0);
    until_asleep(child);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    mq_receive(q, buffer, 16, 0), mq_receive(q, buffer, 16, 0);
    equal(count_of(q), 0, "what a killed sender had is gone");
    child = fork();
    if (child == 0)
        _exit(mq_receive(q, buffer, 16, 0) != 1);
    until_asleep(child);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    mq_send(q, "1", 1, 0);
    equal(count_of(q), 1, "a killed receiver gets nothing");
    close(q);
    mq_unlink(NAME);
}

static void looks(void)
{
    mqd_t q = make(O_NONBLOCK, 1, 16), set = epoll_create1(0);
    struct pollfd look = {q, POLLIN | POLLOUT, 0};
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}, got;
    equal(poll(&look, 1, 0), 1, "empty");
    equal(look.revents, POLLOUT, "has room");
    equal(epoll_ctl(set, EPOLL_CTL_ADD, q, &event), 0, "watched");
    equal(epoll_wait(set, &got, 1, 0), 0, "nothing yet");
    mq_send(q, "a", 1, 0);
    equal(epoll_wait(set, &got, 1, -1), 1, "a message");
    equal(epoll_wait(set, &got, 1, 0), 0, "is told once");
    poll(&look, 1, 0);
    equal(look.revents, POLLIN, "full");
    pid_t child = fork();
    if (child == 0) {
        look.events = POLLOUT;
        _exit(poll(&look, 1, -1) != 1);
    }
    until_asleep(child);
    mq_receive(q, buffer, 16, 0);
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "who waits for room is woken");
    child = fork();
    if (child == 0) {
        look.events = POLLIN;
        _exit(poll(&look, 1, -1) != 1);
    }
    until_asleep(child);
    mq_send(q, "b", 1, 0);
    waitpid(child, &status, 0);
    equal(status, 0, "and who waits for a message");
    close(q), close(set);
    mq_unlink(NAME);
}

static volatile int told;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;

static void in_thread(union sigval value)
{
    pthread_mutex_lock(&mutex);
    told = value.sival_int;
    pthread_cond_signal(&came);
    pthread_mutex_unlock(&mutex);
}

static void notices(void)
{
    mqd_t q = make(O_NONBLOCK, 4, 16), other;
    int status;
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 77};
    on(SIGUSR1, 0);
    caught = 0;
    equal(mq_notify(q, &event), 0, "to be told");
    fails(mq_notify(q, &event), EBUSY, "once is enough");
    mq_send(q, "a", 1, 0);
    equal(caught, 1, "told");
    equal(caught_code, SI_MESGQ, "by a queue");
    equal(caught_pid, getpid(), "by whom");
    equal(caught_value, 77, "and what was asked for");
    mq_send(q, "b", 1, 0);
    equal(caught, 1, "only once");
    equal(mq_notify(q, &event), 0, "again");
    mq_send(q, "c", 1, 0);
    equal(caught, 1, "not while there are some");
    while (mq_receive(q, buffer, 16, 0) >= 0)
        ;
    mq_send(q, "d", 1, 0);
    equal(caught, 2, "but when there were none");
    mq_receive(q, buffer, 16, 0);
    equal(mq_notify(q, &event), 0, "again");
    equal(mq_notify(q, 0), 0, "no more");
    mq_send(q, "e", 1, 0), mq_receive(q, buffer, 16, 0);
    equal(caught, 2, "not told");
    equal(mq_notify(q, 0), 0, "nothing to take back");
    event.sigev_signo = 65;
    fails(mq_notify(q, &event), EINVAL, "no such signal");
    event.sigev_signo = SIGUSR1, event.sigev_notify = 3;
    fails(mq_notify(q, &event), EINVAL, "no such way");
    fails(syscall(SYS_mq_notify, q, (void *)1), EFAULT, "no way at all");
    /* Another process. */
    event.sigev_notify = SIGEV_SIGNAL;
    int ready[2], go[2];
    char c;
    (void)!pipe(ready), (void)!pipe(go);
    pid_t child = fork();
    if (child == 0) {
        mq_notify(q, &event);
        (void)!write(ready[1], "x", 1);
        (void)!read(go[0], &c, 1);
        _exit(0);
    }
    (void)!read(ready[0], &c, 1);
    fails(mq_notify(q, &event), EBUSY, "another is told");
    equal(mq_notify(q, 0), 0, "which one cannot take back");
    fails(mq_notify(q, &event), EBUSY, "it still is");
    (void)!write(go[1], "x", 1);
    waitpid(child, &status, 0);
    equal(mq_notify(q, &event), 0, "until it ends");
    other = dup(q);
    close(other);
    mq_send(q, "f", 1, 0), mq_receive(q, buffer, 16, 0);
    equal(caught, 2, "a close of any descriptor ends it");
    mq_notify(q, &event);
    child = fork();
    if (child == 0) {
        close(q);
        _exit(0);
    }
    waitpid(child, &status, 0);
    child = fork();
    if (child == 0)
        _exit(mq_send(q, "g", 1, 0));
    while (caught < 3)
        sched_yield();
    equal(caught_pid, child, "not that of another process, which tells who it is");
    waitpid(child, &status, 0);
    mq_receive(q, buffer, 16, 0);
    /* The waiter gets the message, and nobody is told. */
    mq_notify(q, &event);
    fcntl(q, F_SETFL, 0);
    child = fork();
    if (child == 0)
        _exit(mq_receive(q, buffer, 16, 0) != 1);
    until_asleep(child);
    mq_send(q, "h", 1, 0);
    equal(caught, 3, "not told what another waits for");
    mq_send(q, "i", 1, 0);
    equal(caught, 4, "but of the next");
    waitpid(child, &status, 0);
    equal(status, 0, "the first was received");
    mq_receive(q, buffer, 16, 0);
    event.sigev_notify = SIGEV_NONE;
    equal(mq_notify(q, &event), 0, "silently");
    event.sigev_notify = SIGEV_SIGNAL;
    fails(mq_notify(q, &event), EBUSY, "is a notice, too");
    mq_notify(q, 0);
    /* By a thread. */
    struct sigevent thread = {
        .sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_thread, .sigev_value.sival_int = 5};
    equal(mq_notify(q, &thread), 0, "by a thread");
    mq_send(q, "j", 1, 0);
    pthread_mutex_lock(&mutex);
    while (!told)
        pthread_cond_wait(&came, &mutex);
    pthread_mutex_unlock(&mutex);
    equal(told, 5, "it was");
    mq_receive(q, buffer, 16, 0);
    /* The same without the library. */
    char cookie[32] = "cookie", back[64];
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
    struct sigevent raw = {
        .sigev_notify = SIGEV_THREAD, .sigev_signo = netlink, .sigev_value.sival_ptr = cookie};
    equal(syscall(SYS_mq_notify, q, &raw), 0, "by a socket");
    mq_send(q, "k", 1, 0);
    equal(recv(netlink, back, sizeof back, 0), 32, "told 32 bytes");
    check(memcmp(cookie, back, 31) == 0 && back[31] == 1, "those that were given, and that a message came");
    mq_receive(q, buffer, 16, 0);
    equal(syscall(SYS_mq_notify, q, &raw), 0, "again");
    mq_notify(q, 0);
    equal(recv(netlink, back, sizeof back, 0), 32, "taken back, it is told");
    equal(back[31], 2, "that");
    raw.sigev_signo = 1;
    fails(syscall(SYS_mq_notify, q, &raw), ENOTSOCK, "a file is no socket");
    raw.sigev_signo = -1;
    fails(syscall(SYS_mq_notify, q, &raw), EBADF, "nor is nothing");
    int sockets[2];
    (void)!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    raw.sigev_signo = sockets[0];
    fails(syscall(SYS_mq_notify, q, &raw), EINVAL, "another kind of socket");
    raw.sigev_signo = netlink, raw.sigev_value.sival_ptr = (void *)1;
    fails(syscall(SYS_mq_notify, q, &raw), EFAULT, "no bytes to tell");
    close(netlink), close(sockets[0]), close(sockets[1]);
    close(q);
    mq_unlink(NAME);
    signal(SIGUSR1, SIG_DFL);
}

static int as_user(int (*run)(void))
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(1000) || setuid(1000))
            _exit(99);
        _exit(run());
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static int open_both(void) { return mq_open(NAME, O_RDWR) < 0 ? errno : 0; }
static int open_to_read(void) { return mq_open(NAME, O_RDONLY) < 0 ? errno : 0; }
static int open_to_write(void) { return mq_open(NAME, O_WRONLY) < 0 ? errno : 0; }
static int remove_it(void) { return mq_unlink(NAME) ? errno : 0; }

static int many(void)
{
    struct mq_attr attr = sized(11, 10);
    if (mq_open("/mqueues-many", O_CREAT | O_RDWR, 0600, &attr) >= 0 || errno != EINVAL)
        return 1;
    attr = sized(10, 8193);
    if (mq_open("/mqueues-many", O_CREAT | O_RDWR, 0600, &attr) >= 0 || errno != EINVAL)
        return 2;
    struct rlimit limit = {10 * 8192 + 20 * 48, 819200};
    setrlimit(RLIMIT_MSGQUEUE, &limit);
    mqd_t q = mq_open("/mqueues-many", O_CREAT | O_RDWR, 0600, 0);
    if (q < 0)
        return 3;
    attr = sized(1, 1);
    if (mq_open("/mqueues-many2", O_CREAT | O_RDWR, 0600, &attr) >= 0 || errno != EMFILE)
        return 4;
    mq_unlink("/mqueues-many");
    if (mq_open("/mqueues-many2", O_CREAT | O_RDWR, 0600, &attr) >= 0 || errno != EMFILE)
        return 5;
    close(q);
    q = mq_open("/mqueues-many2", O_CREAT | O_RDWR, 0600, &attr);
    mq_unlink("/mqueues-many2");
    if (q < 0)
        return 6;
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_MSGQUEUE, &limit);
    return mq_open("/mqueues-many", O_CREAT | O_RDWR, 0600, 0) < 0 && errno == EMFILE ? 0 : 7;
}

/* At the limit of descriptors. */
static int full(void)
{
    struct rlimit limit = {0, 4096};
    setrlimit(RLIMIT_NOFILE, &limit);
    if (mq_open("/mqueues-full", O_CREAT | O_RDWR, 0600, 0) >= 0 || errno != EMFILE)
        return 1;
    return mq_unlink("/mqueues-full") == 0 || errno != ENOENT ? 2 : 0;
}

static void rights(void)
{
    int ended;
    pid_t child = fork();
    if (child == 0)
        _exit(full());
    waitpid(child, &ended, 0);
    equal(ended, 0, "who may have no more descriptors makes no queue");
    mqd_t q = make(0, 2, 16);
    equal(as_user(open_both), EACCES, "another's, private");
    fchmod(q, 0604);
    equal(as_user(open_to_read), 0, "to read");
    equal(as_user(open_to_write), EACCES, "not to write");
    fchmod(q, 0602);
    equal(as_user(open_to_write), 0, "to write");
    equal(as_user(open_both), EACCES, "not to do both");
    equal(as_user(remove_it), EACCES, "a name that is another's stays");
    fchown(q, 1000, 1000);
    fchmod(q, 0400);
    equal(as_user(open_to_read), 0, "its owner");
    equal(as_user(remove_it), 0, "removes it");
    fails(mq_unlink(NAME), ENOENT, "it is gone");
    close(q);
    equal(as_user(many), 0, "what a user may have");
}

static void text(void)
{
    char line[200], path[] = "/tmp/mqueues.XXXXXX", name[300];
    struct statfs fs;
    struct stat st;
    check(mkdtemp(path) != 0, "a place");
    equal(mount("none", path, "mqueue", 0, 0), 0, "mounted");
    statfs(path, &fs);
    equal(fs.f_type, 0x19800202, "of its kind");
    stat(path, &st);
    equal(st.st_mode, S_IFDIR | 01777, "where everybody makes queues");
    mqd_t q = make(0, 4, 100);
    mq_send(q, "abc", 3, 0), mq_send(q, "defgh", 5, 0);
    snprintf(name, sizeof name, "%s%s", path, NAME);
    int fd = open(name, O_RDONLY);
    check(fd >= 0, "a file");
    ssize_t count = read(fd, line, sizeof line - 1);
    line[count > 0 ? count : 0] = 0;
    check(strcmp(line, "QSIZE:8          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n") == 0,
          "that says how many bytes wait");
    equal(read(fd, line, sizeof line), 0, "and nothing else");
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    mq_notify(q, &event);
    count = pread(fd, line, sizeof line - 1, 0);
    line[count > 0 ? count : 0] = 0;
    char expected[200];
    snprintf(expected, sizeof expected, "QSIZE:8          NOTIFY:0     SIGNO:12    NOTIFY_PID:%-6d\n",
             getpid());
    check(strcmp(line, expected) == 0, "who is told, and how");
    mq_notify(q, 0);
    equal(mq_receive(fd, line, 200, 0), 3, "opened by its name it is a queue");
    fails(write(fd, "x", 1), EBADF, "nothing is written to one that is read");
    int both = open(name, O_RDWR);
    fails(write(both, "x", 1), EINVAL, "nor to any");
    close(both), close(fd);
    int found = 0, others = 0;
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (strcmp(entry->d_name, NAME + 1) == 0)
            found++;
        else if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            others++;
    closedir(dir);
    equal(found, 1, "the directory has it");
    snprintf(name, sizeof name, "%s/by-name", path);
    fd = open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    check(fd >= 0, "made by its name");
    mqd_t same = mq_open("/by-name", O_RDWR);
    check(same >= 0, "found by the call");
    equal(mq_send(same, "x", 1, 0), 0, "a queue");
    equal(count_of(fd), 1, "the same");
    fails(mkdir(name, 0700), EEXIST, "taken");
    equal(unlink(name), 0, "removed by its name");
    fails(mq_open("/by-name", O_RDWR), ENOENT, "gone");
    fails(mkdir(name, 0700), EPERM, "no directories");
    fails(mkfifo(name, 0700), EPERM, "no pipes");
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", q);
    count = readlink(link, line, sizeof line - 1);
    line[count > 0 ? count : 0] = 0;
    check(strcmp(line, NAME) == 0, "what /proc calls it");
    close(same), close(fd), close(q);
    mq_unlink(NAME);
    equal(umount(path), 0, "unmounted");
    rmdir(path);
}

static int setting(const char *name, const char *value, char *back)
{
    char path[100];
    snprintf(path, sizeof path, "/proc/sys/fs/mqueue/%s", name);
    int fd = open(path, value ? O_RDWR : O_RDONLY), error = 0;
    if (fd < 0)
        return errno;
    if (value && write(fd, value, strlen(value)) < 0)
        error = errno;
    if (back) {
        ssize_t count = pread(fd, back, 20, 0);
        back[count > 0 ? count : 0] = 0;
    }
    close(fd);
    return error;
}

static int eleven(void)
{
    struct mq_attr attr = sized(11, 10);
    mqd_t q = mq_open("/mqueues-eleven", O_CREAT | O_RDWR, 0600, &attr);
    int error = q < 0 ? errno : 0;
    mq_unlink("/mqueues-eleven");
    close(q);
    return error;
}

static int one_more(void)
{
    struct mq_attr attr = sized(1, 10);
    mqd_t q = mq_open("/mqueues-eleven", O_CREAT | O_RDWR, 0600, &attr);
    int error = q < 0 ? errno : 0;
    mq_unlink("/mqueues-eleven");
    close(q);
    return error;
}

/* Whether this may have more than there is for others (CAP_SYS_RESOURCE). */
static int has_more(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    return syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> CAP_SYS_RESOURCE & 1);
}

static void settings(void)
{
    char value[21];
    equal(setting("msg_max", 0, value), 0, "as many messages as a user may have");
    check(strcmp(value, "10\n") == 0, "ten");
    setting("msgsize_max", 0, value);
    check(strcmp(value, "8192\n") == 0, "of 8192 bytes");
    setting("queues_max", 0, value);
    check(strcmp(value, "256\n") == 0, "in 256 queues");
    equal(as_user(eleven), EINVAL, "eleven are too many");
    equal(setting("msg_max", "11", value), 0, "set");
    equal(as_user(eleven), 0, "eleven are all right");
    equal(setting("msg_max", "10", 0), 0, "set back");
    equal(setting("msg_max", "0", 0), EINVAL, "none is none");
    equal(setting("msg_max", "65537", 0), EINVAL, "more than there may be");
    equal(setting("msgsize_max", "127", 0), EINVAL, "too short");
    equal(setting("msg_default", "3", 0), 0, "another default");
    mqd_t q = mq_open("/mqueues-default", O_CREAT | O_RDWR, 0600, 0);
    struct mq_attr attr;
    mq_getattr(q, &attr);
    equal(attr.mq_maxmsg, 3, "taken");
    setting("msg_default", "10", 0);
    equal(setting("queues_max", "1", 0), 0, "one queue");
    equal(as_user(one_more), ENOSPC, "there is one");
    equal(one_more(), has_more() ? 0 : ENOSPC, "but root has more");
    setting("queues_max", "256", 0);
    close(q);
    mq_unlink("/mqueues-default");
}

/* Threads that send and receive: nothing is lost, nothing comes twice. */
#define EACH 2000
static mqd_t shared;
static char seen[4][EACH];

static void *sender(void *argument)
{
    long who = (long)argument;
    for (long i = 0; i < EACH; i++) {
        long message = who * EACH + i;
        if (mq_send(shared, (char *)&message, sizeof message, who))
            return (void *)1;
    }
    return 0;
}

static void *receiver(void *argument)
{
    (void)argument;
    long message, twice = 0;
    for (int i = 0; i < EACH; i++)
        if (mq_receive(shared, (char *)&message, sizeof message, 0) != sizeof message ||
            __atomic_fetch_add(&seen[message / EACH][message % EACH], 1, __ATOMIC_RELAXED))
            twice++;
    return (void *)twice;
}

static void crowd(void)
{
    pthread_t threads[8];
    void *result;
    long wrong = 0;
    shared = make(0, 3, sizeof(long));
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], 0, i < 4 ? sender : receiver, (void *)(i % 4));
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    equal(wrong, 0, "all sent, none twice");
    for (int i = 0; i < 4 * EACH; i++)
        wrong += seen[i / EACH][i % EACH] != 1;
    equal(wrong, 0, "all received");
    equal(count_of(shared), 0, "none left");
    close(shared);
    mq_unlink(NAME);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"names", names},   {"order", order}, {"waits", waits},       {"looks", looks}, {"notices", notices},
        {"rights", rights}, {"text", text},   {"settings", settings}, {"crowd", crowd},
    };
    alarm(120);
    run_groups(groups, sizeof groups / sizeof *groups, 0, argc, argv);
    return done();
}

/* Groups of corners.c: calls on descriptors of files without a name (pipes, sockets, counters and their
 * like), flags of one call, access mode 3, speeds of terminals. */
#include <linux/fs.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/xattr.h>

#define ANON_INODE_MAGIC 0x09041934
#ifndef RWF_HIPRI
#define RWF_HIPRI 1
#define RWF_DSYNC 2
#define RWF_SYNC 4
#define RWF_NOWAIT 8
#define RWF_APPEND 16
#endif

enum { PIPE_OUT, PIPE_IN, SOCKET, COUNTER, TIMER, SIGNALS, WATCHES, EPOLL, KINDS };
static const char *const kind_names[] = {"a pipe's end",   "a pipe's start",        "a socket", "an eventfd",
                                         "a timerfd",      "a signalfd", "an inotify", "an epoll"};
static int kinds[KINDS];

static void make_kinds(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    check(pipe2(kinds, O_NONBLOCK) == 0, "a pipe");
    kinds[SOCKET] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    kinds[COUNTER] = eventfd(0, EFD_NONBLOCK);
    kinds[TIMER] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    kinds[SIGNALS] = signalfd(-1, &set, SFD_NONBLOCK);
    kinds[WATCHES] = inotify_init1(IN_NONBLOCK);
    kinds[EPOLL] = epoll_create1(0);
}

static void close_kinds(void)
{
    for (int i = 0; i < KINDS; i++)
        close(kinds[i]);
}

/* A line that names the kind and what is said of it. */
static const char *of_kind(int kind, const char *what)
{
    static char text[120];
    snprintf(text, sizeof text, "%s %s", kind_names[kind], what);
    return text;
}

/* An address where nothing is. */
static void *nowhere(void)
{
    void *volatile address = (void *)1;
    return address;
}

static int is_pipe(int kind) { return kind == PIPE_OUT || kind == PIPE_IN; }

static void unnamed_attributes(void)
{
    struct stat st;
    struct statfs fs;
    const struct timespec times[2] = {{1000, 0}, {2000, 0}};
    make_kinds();
    for (int i = 0; i < KINDS; i++) {
        long magic = is_pipe(i) ? 0x50495045 : i == SOCKET ? 0x534f434b : ANON_INODE_MAGIC;
        fstatfs(kinds[i], &fs);
        equal(fs.f_type, magic, of_kind(i, "is in its own file system"));
    }
    for (int i = PIPE_OUT; i <= SOCKET; i++) {
        equal(fchmod(kinds[i], 0640), 0, of_kind(i, "gets a mode"));
        equal(fchown(kinds[i], 7, 8), 0, of_kind(i, "gets an owner"));
        equal(futimens(kinds[i], times), 0, of_kind(i, "gets times"));
        fstat(kinds[i], &st);
        equal(st.st_mode & 07777, 0640, of_kind(i, "has the mode"));
        check(st.st_uid == 7 && st.st_gid == 8, of_kind(i, "has the owner"));
        check(st.st_atime == 1000 && st.st_mtime == 2000, of_kind(i, "has the times"));
    }
    fchownat(kinds[PIPE_OUT], "", 9, 9, AT_EMPTY_PATH);
    fstat(kinds[PIPE_IN], &st);
    equal(st.st_uid, 9, "both ends of a pipe have the same owner");
    struct sockaddr_un name = {AF_UNIX, "unnamed.sock"};
    unlink(name.sun_path);
    mode_t mask = umask(0);
    bind(kinds[SOCKET], (void *)&name, sizeof name);
    umask(mask);
    stat(name.sun_path, &st);
    equal(st.st_mode & 07777, 0640, "a socket's name has its mode");
    unlink(name.sun_path);
    close_kinds();
    /* The next pipe may be made of this one. */
    make_kinds();
    fstat(kinds[PIPE_OUT], &st);
    check((st.st_mode & 07777) == 0600 && st.st_uid == 0, "a new pipe has its own mode and owner");
    close_kinds();
}

/* As an ordinary user: whose a new pipe is, and what may not be changed. */
static int as_user(void)
{
    struct stat st;
    if (setresgid(1234, 1234, 1234) || setresuid(1000, 1000, 1000))
        return 1;
    make_kinds();
    for (int i = PIPE_OUT; i <= SOCKET; i++) {
        fstat(kinds[i], &st);
        check(st.st_uid == 1000 && st.st_gid == 1234, of_kind(i, "belongs to its maker"));
        equal(fchmod(kinds[i], 0600), 0, of_kind(i, "takes a mode of its owner"));
        fails(fchown(kinds[i], 0, 0), EPERM, of_kind(i, "cannot be given away"));
    }
    check(fchmod(kinds[COUNTER], 0600) == -1 && (errno == EPERM || errno == EOPNOTSUPP),
          "the counters' mode is not a user's");
    close_kinds();
    return 0;
}

static void unnamed_owners(void)
{
    int counted = tap_count;
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        as_user();
        _exit(tap_failed ? 255 : tap_count - counted);
    }
    waitpid(child, &status, 0);
    tap_count += WIFEXITED(status) && WEXITSTATUS(status) != 255 ? WEXITSTATUS(status) : 0;
    check(WIFEXITED(status) && WEXITSTATUS(status) != 255, "an ordinary user's files without a name");
}

static void unnamed_locks(void)
{
    make_kinds();
    for (int i = 0; i < KINDS; i++) {
        struct flock lock = {.l_type = i == PIPE_IN ? F_WRLCK : F_RDLCK};
        equal(flock(kinds[i], LOCK_EX | LOCK_NB), 0, of_kind(i, "is locked as a whole"));
        equal(flock(kinds[i], LOCK_UN), 0, of_kind(i, "is unlocked"));
        fails(flock(kinds[i], 0), EINVAL, of_kind(i, "has no lock of no kind"));
        equal(fcntl(kinds[i], F_SETLK, &lock), 0, of_kind(i, "takes a record lock"));
        lock.l_type = i == PIPE_IN ? F_RDLCK : F_WRLCK;
        if (is_pipe(i))
            fails(fcntl(kinds[i], F_SETLK, &lock), EBADF, of_kind(i, "takes locks that it may use"));
        lock.l_type = F_UNLCK;
        equal(fcntl(kinds[i], F_SETLK, &lock), 0, of_kind(i, "gives it up"));
        fails(fcntl(kinds[i], F_SETLEASE, F_WRLCK), EINVAL, of_kind(i, "has no lease"));
    }
    flock(kinds[PIPE_OUT], LOCK_EX);
    fails(flock(kinds[PIPE_IN], LOCK_EX | LOCK_NB), EWOULDBLOCK, "a pipe is one file at both ends");
    flock(kinds[COUNTER], LOCK_EX);
    fails(flock(kinds[TIMER], LOCK_EX | LOCK_NB), EWOULDBLOCK, "counters and timers are one file");
    int other = eventfd(0, 0);
    close(kinds[COUNTER]);
    equal(flock(other, LOCK_EX | LOCK_NB), 0, "its lock goes with the description");
    close(other);
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK};
        _exit(fcntl(kinds[SOCKET], F_SETLK, &lock) != 0);
    }
    int status;
    waitpid(child, &status, 0);
    struct flock lock = {.l_type = F_WRLCK};
    equal(fcntl(kinds[SOCKET], F_SETLK, &lock), 0, "a socket's record lock goes with its process");
    fails(flock(-1, 0), EINVAL, "flock looks at the command first");
    equal(flock(-1, 32), 0, "a mandatory lock is none");
    close_kinds();
}

static void unnamed_sizes(void)
{
    char byte;
    int size;
    make_kinds();
    for (int i = 0; i < KINDS; i++) {
        int fd = kinds[i];
        if (i != WATCHES && i != PIPE_OUT)
            fails(fallocate(fd, 0, 0, 10), is_pipe(i) ? ESPIPE : ENODEV, of_kind(i, "has no room made"));
        fails(fallocate(fd, 0x1000, 0, 10), EOPNOTSUPP, of_kind(i, "knows not each way to make it"));
        fails(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10), EOPNOTSUPP, of_kind(i, "has no such hole"));
        fails(ftruncate(fd, 0), EINVAL, of_kind(i, "has no length"));
        fails(fsync(fd), EINVAL, of_kind(i, "is not stored"));
        equal(syncfs(fd), 0, of_kind(i, "has a file system to store"));
        equal(posix_fadvise(fd, 0, 0, 0), is_pipe(i) ? ESPIPE : 0, of_kind(i, "takes advice"));
        if (!is_pipe(i)) {
            equal(posix_fadvise(fd, 0, 0, 99), EINVAL, of_kind(i, "takes known advice"));
            equal(posix_fadvise(fd, 0, -1, 0), EINVAL, of_kind(i, "has no negative part"));
        }
        check(readahead(fd, 0, 10) == -1, of_kind(i, "is not read ahead"));
        fails(sync_file_range(fd, 0, 10, 0), ESPIPE, of_kind(i, "has no parts"));
        fails(syscall(SYS_getdents64, fd, &byte, 1), ENOTDIR, of_kind(i, "is no directory"));
        equal(ioctl(fd, FIGETBSZ, &size), 0, of_kind(i, "has a block size"));
        fails(fgetxattr(fd, "user.a", &byte, 1), ENODATA, of_kind(i, "has no attribute of a user's"));
        fails(fsetxattr(fd, "user.a", &byte, 1, 0), EPERM, of_kind(i, "gets none"));
    }
    fails(copy_file_range(kinds[PIPE_IN], NULL, kinds[PIPE_OUT], NULL, 1, 0), EINVAL,
          "a copy of a range looks at the kinds first");
    fails(fcntl(kinds[PIPE_OUT], 1033, 0), EPERM, "seals are for who may write");
    close_kinds();
}

static void unnamed_places(void)
{
    long number = 1;
    struct iovec piece = {&number, 8}, nothing = {&number, 0};
    make_kinds();
    for (int i = 0; i < KINDS; i++) {
        int fd = kinds[i], seeks = i == PIPE_OUT || i == PIPE_IN || i == SOCKET;
        if (seeks)
            fails(lseek(fd, 0, SEEK_CUR), ESPIPE, of_kind(i, "has no offset"));
        else
            equal(lseek(fd, 5, SEEK_SET), 0, of_kind(i, "has an offset that stays 0"));
        fails(pread(fd, &number, 8, 0), ESPIPE, of_kind(i, "is not read at a place"));
        fails(pwrite(fd, &number, 8, 0), ESPIPE, of_kind(i, "is not written at a place"));
        fails(pread(fd, &number, 0, 0), ESPIPE, of_kind(i, "is not read at a place, not even nothing"));
        fails(preadv(fd, &nothing, 1, 0), ESPIPE, of_kind(i, "has no place for no bytes"));
        fails(preadv(fd, nowhere(), 1, 0), ESPIPE, of_kind(i, "says so before it looks at the pieces"));
        fails(preadv2(fd, &piece, 1, 0, 1 << 20), ESPIPE, of_kind(i, "says so before it looks at the flags"));
        fails(pread(fd, &number, 8, -1), EINVAL, of_kind(i, "has no negative place"));
    }
    fails(writev(kinds[TIMER], &nothing, 1), EINVAL, "a timerfd is not written, not even nothing");
    fails(writev(kinds[SIGNALS], &nothing, 1), EINVAL, "nor a signalfd");
    fails(readv(kinds[EPOLL], &nothing, 1), EINVAL, "an epoll is not read, not even nothing");
    off_t start = 0;
    int file = open("unnamed.file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    fails(sendfile(file, kinds[COUNTER], &start, 8), ESPIPE, "a counter is not sent from a place");
    equal(sendfile(kinds[COUNTER], file, NULL, 0), 0, "nothing is sent to what takes nothing");
    close(file);
    unlink("unnamed.file");
    close_kinds();
}

static void flags_of_calls(void)
{
    char bytes[8] = "";
    struct iovec two = {"xy", 2}, all = {bytes, sizeof bytes};
    int file = open("flags.file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    (void)!write(file, "abcdef", 6);
    equal(preadv2(file, &all, 1, 0, RWF_HIPRI), 6, "a read of high priority");
    equal(pwritev2(file, &two, 1, 0, RWF_DSYNC), 2, "a write that is stored at once");
    equal(pwritev2(file, &two, 1, 1, RWF_SYNC | RWF_HIPRI), 2, "and its attributes");
    equal(pwritev2(file, &two, 1, 0, RWF_APPEND), 2, "a write to the end");
    equal(lseek(file, 0, SEEK_CUR), 6, "leaves the offset if it has a place");
    lseek(file, 0, SEEK_SET);
    equal(pwritev2(file, &two, 1, -1, RWF_APPEND), 2, "another");
    equal(lseek(file, 0, SEEK_CUR), 10, "moves it to the end if it has none");
    equal(pread(file, bytes, 8, 2), 8, "the file");
    check(memcmp(bytes, "ydefxyxy", 8) == 0, "has all of them where they belong");
    fails(preadv2(file, &all, 1, 0, 1 << 20), EOPNOTSUPP, "there is no such flag");
    all.iov_len = 0;
    equal(preadv2(file, &all, 1, 0, 1 << 20), 0, "nothing is read with any flag");
    all.iov_len = 8;
    fails(preadv2(file, nowhere(), 1, 0, 1 << 20), EFAULT, "pieces come before flags");
    close(file);
    unlink("flags.file");
    make_kinds();
    fails(preadv2(kinds[PIPE_OUT], &all, 1, -1, RWF_HIPRI), EAGAIN, "a pipe is read with high priority");
    fails(preadv2(kinds[PIPE_OUT], &all, 1, -1, RWF_APPEND), EAGAIN, "or any flag");
    equal(pwritev2(kinds[PIPE_IN], &two, 1, -1, RWF_SYNC), 2, "and written");
    fails(pwritev2(kinds[COUNTER], &all, 1, -1, RWF_SYNC), EOPNOTSUPP, "a counter is not stored");
    fails(preadv2(kinds[WATCHES], &all, 1, -1, RWF_SYNC), EOPNOTSUPP, "watches are read without flags");
    fails(preadv2(kinds[WATCHES], &all, 1, -1, RWF_HIPRI), EAGAIN, "but that of high priority");
    close_kinds();
    file = open("/dev/zero", O_RDWR);
    equal(preadv2(file, &all, 1, -1, RWF_NOWAIT), 8, "what never waits is read without waiting");
    close(file);
}

static void mode_three(void)
{
    char byte = 0;
    struct stat st;
    struct flock lock = {.l_type = F_RDLCK};
    int fd = open("mode.file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    (void)!write(fd, "abc", 3);
    close(fd);
    fd = open("mode.file", 3);
    check(fd >= 0, "a file is opened for neither");
    for (int i = 0; i < 3; i++)
        fails(read(fd, &byte, 1), EBADF, "it is not read");
    fails(pread(fd, &byte, 1, 0), EBADF, "not at a place");
    fails(write(fd, &byte, 1), EBADF, "and not written");
    fails(ftruncate(fd, 0), EINVAL, "not cut");
    fails(flock(fd, LOCK_SH), EBADF, "not locked");
    equal(flock(fd, LOCK_UN), 0, "but unlocked");
    fails(fcntl(fd, F_SETLK, &lock), EBADF, "not in parts");
    check(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EACCES, "nor mapped");
    check(fstat(fd, &st) == 0 && st.st_size == 3, "it is looked at");
    equal(fcntl(fd, F_GETFL) & O_ACCMODE, 3, "and says so");
    close(fd);
    fd = open("/dev/null", 3);
    fails(read(fd, &byte, 1), EBADF, "a device neither is read");
    fails(write(fd, &byte, 1), EBADF, "nor written");
    close(fd);
    fails(open(".", 3), EISDIR, "a directory is not opened so");
    unlink("mode.fifo");
    mkfifo("mode.fifo", 0600);
    fails(open("mode.fifo", 3 | O_NONBLOCK), EINVAL, "nor a fifo");
    unlink("mode.fifo");
    unlink("mode.file");
}

/* `struct termios2`, which the C library of old does not have. */
struct speeds {
    unsigned iflag, oflag, cflag, lflag;
    unsigned char line, cc[19];
    unsigned input, output;
};
#define GET_SPEEDS _IOR('T', 0x2a, struct speeds)
#define SET_SPEEDS _IOW('T', 0x2b, struct speeds)
#define SET_SPEEDS_DRAINED _IOW('T', 0x2c, struct speeds)
#define SET_SPEEDS_FLUSHED _IOW('T', 0x2d, struct speeds)
#define CODES 010017
#define OTHER 010000

static void terminal_speeds(void)
{
    struct speeds now = {0};
    struct termios old;
    int master = posix_openpt(O_RDWR | O_NOCTTY), number = 0, no = 0;
    char path[32];
    ioctl(master, TIOCSPTLCK, &no);
    ioctl(master, TIOCGPTN, &number);
    snprintf(path, sizeof path, "/dev/pts/%d", number);
    int fd = open(path, O_RDWR | O_NOCTTY);
    equal(ioctl(fd, GET_SPEEDS, &now), 0, "a terminal tells its speeds");
    equal(now.output, 38400, "which begin with the usual one");
    now.cflag = (now.cflag & ~CODES) | OTHER;
    now.output = now.input = 31250;
    equal(ioctl(fd, SET_SPEEDS, &now), 0, "they are set to any");
    memset(&now, 0, sizeof now);
    ioctl(master, GET_SPEEDS, &now);
    check(now.output == 31250 && (now.cflag & CODES) == OTHER, "and told, to the master too");
    ioctl(fd, TCGETS, &old);
    old.c_lflag &= ~ECHO;
    ioctl(fd, TCSETS, &old);
    ioctl(fd, GET_SPEEDS, &now);
    equal(now.output, 31250, "a change of other settings leaves them");
    now.cflag = (now.cflag & ~CODES) | B9600;
    equal(ioctl(fd, SET_SPEEDS_FLUSHED, &now), 0, "a code sets them");
    ioctl(fd, GET_SPEEDS, &now);
    check(now.output == 9600 && now.input == 9600, "to its speed");
    now.lflag |= ECHO;
    equal(ioctl(fd, SET_SPEEDS_DRAINED, &now), 0, "and what else there is");
    ioctl(fd, TCGETS, &old);
    check(old.c_lflag & ECHO, "is set with them");
    close(fd);
    close(master);
    fails(ioctl(eventfd(0, 0), GET_SPEEDS, &now), ENOTTY, "what is no terminal has none");
}

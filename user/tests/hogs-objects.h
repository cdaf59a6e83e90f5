/* Counters, timers, objects of IPC, attributes and marks until there are no more: a part of `hogs`.
 *
 * Interface: the kinds instances, counters, bells, segments, semaphores, attributes, letters, mailboxes,
 * notices and marks.
 */
#ifndef HOGS_OBJECTS_H
#define HOGS_OBJECTS_H

static int take_instance(void) { return epoll_create1(0) < 0 ? -1 : 0; }

static struct told instances(void) { return hog_descriptors(take_instance, 5000); }

static int take_counter(void) { return eventfd(1, 0) < 0 ? -1 : 0; }

static struct told counters(void) { return hog_descriptors(take_counter, 5000); }

/* A timer that will ring in an hour. */
static int take_bell(void)
{
    struct itimerspec hour = {{0, 0}, {3600, 0}};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    return fd < 0 ? -1 : timerfd_settime(fd, 0, &hour, 0);
}

static struct told bells(void) { return hog_descriptors(take_bell, 5000); }

/* Objects without a descriptor are taken away again by who made them. */
static struct told hog_objects(int (*take)(int *id), int (*give)(int id), int most)
{
    struct told told = {0, 0};
    int *ids = malloc(most * sizeof *ids);
    while (ids && told.made < most && take(&ids[told.made]) == 0)
        told.made++;
    told.error = errno;
    for (int i = 0; i < told.made; i++)
        give(ids[i]);
    free(ids);
    return told;
}

static int take_segment(int *id)
{
    *id = shmget(IPC_PRIVATE, 4096, 0600);
    return *id < 0 ? -1 : 0;
}

static int give_segment(int id) { return shmctl(id, IPC_RMID, 0); }

static struct told segments(void) { return hog_objects(take_segment, give_segment, 40000); }

static int take_semaphores(int *id)
{
    *id = semget(IPC_PRIVATE, 100, 0600);
    return *id < 0 ? -1 : 0;
}

static int give_semaphores(int id) { return semctl(id, 0, IPC_RMID); }

static struct told semaphores(void) { return hog_objects(take_semaphores, give_semaphores, 40000); }

/* Values and lists of one file and of many, small ones and large ones. */
static struct told attributes(void)
{
    static char value[65536];
    struct told told = {0, 0};
    char name[64], path[64];
    mkdir("/tmp/hogx", 0700);
    for (; told.made < 200000; told.made++) {
        snprintf(path, sizeof path, "/tmp/hogx/%d", told.made % 50);
        snprintf(name, sizeof name, "user.%d", told.made);
        int file = open(path, O_CREAT | O_WRONLY, 0600);
        int error = fsetxattr(file, name, value, told.made % 3 ? 10 : 60000, 0) ? errno : 0;
        close(file);
        if (error) {
            told.error = error;
            break;
        }
    }
    return told;
}

/* A queue that is full. */
static int take_letters(int *id)
{
    static struct {
        long kind;
        char text[8192];
    } message = {1, ""};
    *id = msgget(IPC_PRIVATE, 0600);
    if (*id < 0)
        return -1;
    while (msgsnd(*id, &message, sizeof message.text, IPC_NOWAIT) == 0)
        ;
    if (errno == EAGAIN)
        return 0;
    int error = errno;
    msgctl(*id, IPC_RMID, 0);
    errno = error;
    return -1;
}

static int give_letters(int id) { return msgctl(id, IPC_RMID, 0); }

static struct told letters(void) { return hog_objects(take_letters, give_letters, 40000); }

/* Queues of POSIX that are full, each with one who is to be told: without names, and then with them. */
static int take_mailbox(void)
{
    static int number;
    struct sigevent silent = {.sigev_notify = SIGEV_NONE};
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 64};
    char name[40];
    snprintf(name, sizeof name, "/hog.%d.%d", getpid(), number++);
    mqd_t q = mq_open(name, O_CREAT | O_EXCL | O_RDWR | O_NONBLOCK, 0600, &attr);
    if (q < 0)
        return -1;
    mq_unlink(name);
    mq_notify(q, &silent);
    while (mq_send(q, name, sizeof name, 0) == 0)
        ;
    return 0;
}

static struct told mailboxes(void) { return hog_descriptors(take_mailbox, 5000); }

static int take_notice(void) { return inotify_init() < 0 ? -1 : 0; }

static struct told notices(void) { return hog_descriptors(take_notice, 5000); }

/* Marks on one directory by many instances, and on many files by one, until there are no more; each has
 * events that nobody reads. */
static struct told marks(void)
{
    struct told told = {0, 0};
    char path[32];
    int fd = inotify_init();
    mkdir("/tmp/hogm", 0700);
    inotify_add_watch(fd, "/tmp/hogm", IN_ALL_EVENTS);
    for (; told.made < 200000; told.made++) {
        snprintf(path, sizeof path, "/tmp/hogm/%d", told.made);
        int file = open(path, O_CREAT | O_RDWR, 0600);
        if (file < 0 || inotify_add_watch(fd, path, IN_ALL_EVENTS) < 0)
            break;
        close(file);
    }
    told.error = errno;
    for (int i = 0; i <= told.made; i++) {
        snprintf(path, sizeof path, "/tmp/hogm/%d", i);
        unlink(path);
    }
    rmdir("/tmp/hogm");
    return told;
}
#endif

/* Rights to steer other processes and to look at them: a part of `rights`.
 *
 * Interface: the groups' steps: procedure, native, limits, robust_list, niceness, looking and own.
 */
#ifndef RIGHTS_LOOKING_H
#define RIGHTS_LOOKING_H

/* -- steering and looking -------------------------------------------------------------------------------- */

static void procedure(void) {}

static void native(void)
{
    if (!here)
        return;
    const char *paths[] = {SUID, SGID, UNREADABLE};
    for (int i = 0; i < 3; i++) {
        pid_t child = waiting(paths[i]);
        syn_thread thread = syn_handle(child);
        equal(syn_interrupt(thread, procedure), -EPERM, "no interrupt for a program with more rights");
        equal(syn_setsignal(thread, 0, procedure), -EPERM, "no procedure");
        equal(syn_signal(thread, 0), -EPERM, "no signal");
        equal(syn_suspend(thread), -EPERM, "no suspension");
        equal(syn_resume(thread), -EPERM, "no resumption");
        equal(syn_stop(thread), -EPERM, "no stop");
        equal(syn_step(thread), -EPERM, "no step");
        equal(syn_notify(thread, 0), -EPERM, "no event");
        equal(syn_destroy(thread), -EPERM, "no end");
        equal(kill(child, 0), 0, "it lives");
        finish(child);
    }
    pid_t child = waiting(COPY);
    equal(syn_destroy(syn_handle(child)), 0, "all that for an ordinary program");
    check(WIFSIGNALED(status_of(child)), "which ends");
}

static void limits(void)
{
    struct rlimit new = {1, 1}, old;
    pid_t child = waiting(SUID);
    fails(prlimit(child, RLIMIT_NOFILE, &new, NULL), EPERM, "no limits for a set-uid program");
    fails(prlimit(child, RLIMIT_NOFILE, NULL, &old), EPERM, "nor a look at them");
    finish(child);
    child = waiting(SGID);
    fails(prlimit(child, RLIMIT_NOFILE, &new, NULL), EPERM, "no limits for a set-gid program");
    finish(child);
    child = waiting(COPY);
    equal(prlimit(child, RLIMIT_NOFILE, &new, &old), 0, "an ordinary program has them");
    finish(child);
}

static void robust_list(void)
{
    void *head;
    size_t length;
    pid_t child = waiting(SUID);
    fails(syscall(SYS_get_robust_list, child, &head, &length), EPERM, "the robust list of a set-uid program");
    finish(child);
    child = waiting(SGID);
    fails(syscall(SYS_get_robust_list, child, &head, &length), EPERM, "of a set-gid program");
    finish(child);
    child = waiting(COPY);
    equal(syscall(SYS_get_robust_list, child, &head, &length), 0, "of an ordinary one");
    finish(child);
}

static void niceness(void)
{
    pid_t child = waiting(SGID);
    equal(setpriority(PRIO_PROCESS, child, 5), 0, "the real user's programs may become nicer");
    finish(child);
    child = waiting(SUID);
    fails(setpriority(PRIO_PROCESS, child, 5), EPERM, "those with more capabilities not");
    finish(child);
    fails(setpriority(PRIO_PROCESS, getppid(), 5), EPERM, "others not");
    fails(setpriority(PRIO_PROCESS, 0, -5), EACCES, "nobody less nice");
    struct sched_param none = {0};
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    fails(sched_setscheduler(getppid(), SCHED_BATCH, &none), EPERM, "no policy for others");
    fails(sched_setaffinity(getppid(), sizeof all, &all), EPERM, "nor processors");
    equal(sched_setaffinity(0, sizeof all, &all), 0, "for oneself");
}

static const char *LINKS[] = {"exe", "cwd", "root", "fd/0"};
static const char *TEXTS[] = {"maps", "environ", "fdinfo/0"};

static void looking(void)
{
    const char *paths[] = {SUID, SGID, UNREADABLE};
    char text[256];
    for (int i = 0; i < 3; i++) {
        pid_t child = waiting(paths[i]);
        for (size_t j = 0; j < sizeof LINKS / sizeof *LINKS; j++) {
            fails(readlink(of(child, LINKS[j]), text, sizeof text), EACCES, LINKS[j]);
            fails(open(of(child, LINKS[j]), O_RDONLY), EACCES, LINKS[j]);
        }
        for (size_t j = 0; j < sizeof TEXTS / sizeof *TEXTS; j++)
            fails(open(of(child, TEXTS[j]), O_RDONLY), EACCES, TEXTS[j]);
        fails(open(of(child, "fd"), O_RDONLY | O_DIRECTORY), EACCES, "fd");
        int status = open(of(child, "status"), O_RDONLY);
        check(status >= 0 && read(status, text, sizeof text) > 0, "its status is everybody's");
        close(status);
        finish(child);
    }
    pid_t child = waiting(COPY);
    for (size_t j = 0; j < sizeof LINKS / sizeof *LINKS; j++)
        check(readlink(of(child, LINKS[j]), text, sizeof text) > 0, LINKS[j]);
    for (size_t j = 0; j < sizeof TEXTS / sizeof *TEXTS; j++) {
        int fd = open(of(child, TEXTS[j]), O_RDONLY);
        check(fd >= 0, TEXTS[j]);
        close(fd);
    }
    finish(child);
}

static int stays(void *nothing)
{
    (void)nothing;
    for (;;)
        pause();
}

/* A file opened before a program gets rights shows nothing of it thereafter, also where another process
 * keeps the memory of before. */
static void looked_before(int kept)
{
    int go[2], ready[2];
    char text[4096], c;
    static char stack[16384];
    if (pipe(go) || pipe(ready)) {
        check(0, "a pipe");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        pid_t companion = kept ? clone(stays, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL) : 0;
        write(ready[1], &companion, sizeof companion);
        if (read(go[0], &c, 1) != 1)
            _exit(1);
        dup2(ready[1], 3);
        setenv("FROM_NOW_ON", "secret", 1);
        run(SUID, "waits");
    }
    pid_t companion = -1;
    read(ready[0], &companion, sizeof companion);
    check(kept ? companion > 0 : companion == 0, kept ? "who shares its memory" : "a child alone");
    int maps = open(of(child, "maps"), O_RDONLY), environ = open(of(child, "environ"), O_RDONLY);
    int info = open(of(child, "fdinfo/3"), O_RDONLY);
    check(maps >= 0 && environ >= 0, "one's own child is seen");
    write(go[1], "g", 1);
    read(ready[0], &c, 1);
    memset(text, 0, sizeof text);
    read(maps, text, sizeof text - 1);
    check(strstr(text, SUID) == NULL && (kept || strstr(text, "[stack]") == NULL), "not what it has become");
    memset(text, 0, sizeof text);
    equal(pread(maps, text, sizeof text - 1, 0) > 0 && strstr(text, SUID) != NULL, 0, "nor from the start");
    memset(text, 0, sizeof text);
    ssize_t length = read(environ, text, sizeof text - 1);
    check((kept || length <= 0) && !memmem(text, sizeof text, "FROM_NOW_ON", 11), "nor its environment");
    if (companion > 0)
        kill(companion, SIGKILL);
    finish(child);
    close(maps);
    close(environ);
    close(info);
    close(go[0]);
    close(go[1]);
    close(ready[0]);
    close(ready[1]);
}

static void looked_before_alone(void) { looked_before(0); }
static void looked_before_kept(void) { looked_before(1); }

static void own(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    char text[64];
    check(open("/proc/self/maps", O_RDONLY) >= 0, "one's own maps, even if not dumpable");
    check(readlink("/proc/self/exe", text, sizeof text) > 0, "one's own program");
    DIR *list = opendir("/proc/self/fd");
    check(list != NULL, "one's own descriptors");
    int count = 0;
    while (list && readdir(list))
        count++;
    check(count > 4, "are listed");
    check(readlink("/proc/self/fd/1", text, sizeof text) > 0, "and lead somewhere");
    prctl(PR_SET_DUMPABLE, 1);
}
#endif

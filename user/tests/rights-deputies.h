/* Texts of the kernel that are written: whose rights a request has. A part of `rights`.
 *
 * Interface: deputies_group. A request has the rights of the identity that opened the text; the process that
 * writes may be a program with more rights, which prints what a user told it. On Linux this holds of control
 * groups and of some texts only, so most of it is tried here only.
 */
#ifndef RIGHTS_DEPUTIES_H
#define RIGHTS_DEPUTIES_H

/* A descriptor of this process for `path`, opened to write by user 1000; -1 with errno. */
static int opened_by_user(const char *path)
{
    int failed[2], error = 0;
    if (pipe2(failed, O_CLOEXEC))
        return -1;
    fflush(stdout);
    /* The child has the same descriptors, and an identity of its own. */
    pid_t child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        int fd = -1;
        if (!setgroups(0, NULL) && !setresgid(USER, USER, USER) && !setresuid(USER, USER, USER))
            fd = open(path, O_WRONLY);
        int told[2] = {fd, errno};
        _exit(write(failed[1], told, sizeof told) != sizeof told);
    }
    int told[2] = {-1, EIO};
    if (read(failed[0], told, sizeof told) == sizeof told)
        error = told[1];
    status_of(child);
    close(failed[0]);
    close(failed[1]);
    errno = error;
    return told[0];
}

/* The error of a request that is written to `fd`, 0 for none. */
static int refused(int fd, const char *text)
{
    return write(fd, text, strlen(text)) < 0 ? errno : 0;
}

static int filters_show(pid_t pid)
{
    static char text[65536];
    char line[16];
    int fd = open("/syn/filters", O_RDONLY | O_CLOEXEC);
    size_t count = 0;
    for (ssize_t got; (got = read(fd, text + count, sizeof text - 1 - count)) > 0;)
        count += got;
    close(fd);
    text[count] = 0;
    snprintf(line, sizeof line, "\n%6d ", pid);
    return strstr(text, line) != 0;
}

/* A user's set-uid program prints a request for a process of root's. */
static void printed_by_suid(pid_t victim, int fd)
{
    char what[64];
    snprintf(what, sizeof what, "says %d %d out Upper", victim, fd);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        become_user();
        int to = open("/syn/filters", O_WRONLY);
        if (to < 0 || dup2(to, 2) != 2)
            _exit(97);
        run(SUID, what);
    }
    equal(code_of(child), EPERM, "a set-uid program that prints into a user's /syn/filters gets no filter");
    check(!filters_show(victim), "root's descriptor has none");
}

static void of_filters(void)
{
    int ends[2], users = opened_by_user("/syn/filters"), roots = open("/syn/filters", O_WRONLY);
    char text[128];
    check(pipe(ends) == 0 && users >= 0 && roots >= 0, "/syn/filters is opened by a user and by root");
    printed_by_suid(getpid(), ends[1]);
    snprintf(text, sizeof text, "%d %d out Upper", getpid(), ends[1]);
    equal(refused(users, text), EPERM, "root writes to what a user opened: a filter for itself");
    equal(refused(users, "quaject 1 out off 1"), EPERM, "or for a quaject by its number");
    equal(refused(roots, text), 0, "to what it opened itself");
    snprintf(text, sizeof text, "%d %d out off", getpid(), ends[1]);
    equal(refused(users, text), EPERM, "a user's is not heard to take it away");
    equal(refused(roots, text), 0, "root's is");
    static const char *const more[] = {
        "%d %d out Upper 0 0", "%d %d out Upper 0 and more words", "%d %d out off 1 1", "%d %d out",
        "%d %d out Upper none", "quaject %d out Upper 0 %d", "quaject %d out off 0 0 %d"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        snprintf(text, sizeof text, more[i], getpid(), ends[1]);
        equal(refused(roots, text), EINVAL, more[i]);
    }
    check(!filters_show(getpid()), "none is there");
    int probes = open("/syn/probes", O_WRONLY);
    snprintf(text, sizeof text, "%d %d off off", getpid(), ends[1]);
    equal(refused(probes, text), EINVAL, "a word too many for /syn/probes");
    close(probes);
    int fail = open("/syn/fail", O_WRONLY);
    equal(refused(fail, "0 0 1 1"), EINVAL, "and for /syn/fail");
    close(fail);
    close(ends[0]);
    close(ends[1]);
    close(users);
    close(roots);
}

/* A child of user 1000 that waits, becomes root's when it is told to by `go[1]`, and reports it there. */
static pid_t user_process(int *go)
{
    int ready[2];
    char c;
    if (pipe(ready) || pipe(go))
        return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (setresuid(USER, USER, 0) || prctl(PR_SET_DUMPABLE, 1) || write(ready[1], "r", 1) != 1 ||
            read(go[0], &c, 1) != 1 || setresuid(0, 0, 0) || write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    check(read(ready[0], &c, 1) == 1, "a user's process");
    go[0] = dup2(ready[0], go[0]);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void of_processes(void)
{
    int go[2];
    char c;
    pid_t child = user_process(go);
    int users = opened_by_user(of(child, "oom_score_adj"));
    int slack = opened_by_user(of(child, "timerslack_ns"));
    int marks = opened_by_user(of(child, "clear_refs"));
    int filter = opened_by_user(of(child, "coredump_filter"));
    check(users >= 0 && slack >= 0 && marks >= 0 && filter >= 0, "whose texts a user opens");
    equal(refused(users, "10"), 0, "an adjustment by root through what a user opened");
    equal(refused(users, "-500"), EACCES, "but not what the user may not");
    equal(refused(slack, "60000"), EPERM, "nor another's slack");
    equal(refused(marks, "1"), 0, "its referenced marks");
    check(write(go[1], "g", 1) == 1 && read(go[0], &c, 1) == 1, "it becomes root's");
    equal(refused(users, "10"), EACCES, "then the user's descriptor says nothing more: adjustment");
    equal(refused(filter, "0"), EACCES, "what cores have");
    equal(refused(marks, "1"), EACCES, "marks");
    int roots = open(of(child, "oom_score_adj"), O_WRONLY);
    equal(refused(roots, "10"), 0, "root's does");
    for (int fd = 0; fd < 5; fd++)
        close((int[]){users, slack, marks, filter, roots}[fd]);
    close(go[0]);
    close(go[1]);
    finish(child);
}

static void deputies_group(void)
{
    if (!here)
        return;
    of_filters();
    of_processes();
}
#endif

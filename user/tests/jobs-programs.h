/* Programs that are started, and the signals of their ends: a part of `jobs`.
 *
 * Interface: the group programs, which starts `jobs await CHILD`.
 */
#ifndef JOBS_PROGRAMS_H
#define JOBS_PROGRAMS_H

static void programs(void)
{
    pid_t child;
    char *words[] = {"sh", "-c", "exit 12", 0};
    equal(posix_spawn(&child, "/bin/sh", 0, 0, words, environ), 0, "posix_spawn");
    check(exited(status_of(child), 12), "runs the program");
    equal(posix_spawn(&child, "/nowhere", 0, 0, words, environ), ENOENT, "and tells when there is none");
    check(exited(system("exit 5"), 5), "system");
    FILE *stream = popen("echo hello", "r");
    char line[16] = "";
    fgets(line, sizeof line, stream);
    check(strcmp(line, "hello\n") == 0, "popen");
    equal(pclose(stream), 0, "pclose");

    uint64_t arguments[11] = {[4] = SIGCHLD};
    long made = syscall(SYS_clone3, arguments, sizeof arguments);
    if (made == 0)
        _exit(8);
    check(made > 0 && exited(status_of(made), 8), "clone3 forks");
    fails(syscall(SYS_clone3, arguments, 8), EINVAL, "clone3 with too little");
    fails(syscall(SYS_clone3, 8, sizeof arguments), EFAULT, "clone3 with a bad pointer");
    /* Nobody chooses a signal for a parent that did not ask for the child: not a brother, */
    handle(SIGUSR1, 0);
    seen = 0;
    pid_t brother = fork();
    if (brother == 0) {
        long second = syscall(SYS_clone, CLONE_PARENT | SIGUSR1, 0, 0, 0, 0);
        if (second == 0)
            _exit(9);
        _exit(second > 0 ? 0 : 1);
    }
    int others = 0, status = -1;
    for (int i = 0; i < 2; i++)
        if (wait(&status) != brother)
            others += exited(status, 9);
    check(others == 1 && seen == 0, "CLONE_PARENT leaves the exit signal as it was");
    /* and not an earlier program. */
    child = fork();
    if (child == 0) {
        int until_exec[2];
        char name[16], byte;
        (void)!pipe2(until_exec, O_CLOEXEC);
        long second = syscall(SYS_clone, SIGUSR1, 0, 0, 0, 0);
        if (second == 0) {
            close(until_exec[1]);
            _exit(read(until_exec[0], &byte, 1));
        }
        sprintf(name, "%ld", second);
        execl("/proc/self/exe", "jobs", "await", name, (char *)0);
        _exit(1);
    }
    check(exited(status_of(child), 6), "a program gets no signal that an earlier one asked for");
    fails(syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0), EINVAL, "a thread that shares nothing");
    fails(syscall(SYS_clone, CLONE_SETTLS | SIGCHLD, 0, 0, 0, 1UL << 63), EPERM,
          "a kernel address for its data");
}
#endif

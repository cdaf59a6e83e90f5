/* Programs that run: what they are called, and that they are not written: a part of `opens`.
 *
 * Interface: the groups executed and busy, which start `opens --run`.
 */
#ifndef OPENS_PROGRAMS_H
#define OPENS_PROGRAMS_H

static int copy(const char *to)
{
    char buffer[65536];
    unlink(to);
    int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    ssize_t count;
    while ((count = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, count) != count)
            return -1;
    close(in);
    return close(out);
}

/* A process that runs `path`, when it does. */
static pid_t run(const char *path, int *error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        exit(9);
    pid_t child = fork();
    if (child == 0) {
        execl(path, path, "--run", (char *)0);
        *error = errno;
        if (write(ends[1], error, sizeof *error) != sizeof *error)
            _exit(1);
        _exit(0);
    }
    close(ends[1]);
    *error = 0;
    if (read(ends[0], error, sizeof *error) != sizeof *error)
        *error = 0;
    close(ends[0]);
    return child;
}

static void *opener(void *path)
{
    int file = open(path, O_WRONLY);
    close(file);
    return 0;
}

static void linked(pid_t child, const char *wanted, const char *name)
{
    char path[40], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/exe", child);
    if (readlink(path, text, sizeof text - 1) < 0)
        snprintf(text, sizeof text, "errno %d", errno);
    if (!check(strcmp(text, wanted) == 0, name))
        printf("# got %s, expected %s\n", text, wanted);
}

/* The file of a program that runs, as it is called at present. */
static void executed(void)
{
    const char *const program = BASE "/in/program";
    int error;
    start();
    check(copy(program) == 0 && symlink("in/program", BASE "/alias") == 0, "a program and a link to it");
    pid_t child = run(BASE "/alias", &error);
    equal(error, 0, "runs by its link");
    linked(child, program, "its file is where the link leads");
    check(rename(program, BASE "/renamed") == 0, "it is renamed");
    linked(child, BASE "/renamed", "the new name");
    check(rename(BASE "/in", BASE "/out") == 0 && rename(BASE "/renamed", BASE "/out/there") == 0,
          "moved, by a directory's new name");
    linked(child, BASE "/out/there", "its new place");
    check(unlink(BASE "/out/there") == 0, "removed");
    linked(child, BASE "/out/there (deleted)", "which is said");
    kill_child(child);
}

static void busy(void)
{
    const char *const program = BASE "/program", *const script = BASE "/script";
    int error;
    start();
    check(copy(program) == 0, "a program");
    /* So often that the path is known. */
    for (int i = 0; i < 4; i++)
        close(open(program, O_WRONLY));
    pid_t child = run(program, &error);
    equal(error, 0, "runs, though it was written just now");
    fails(open(program, O_WRONLY), ETXTBSY, "it is not to be written");
    fails(open(program, O_RDWR), ETXTBSY, "read and written");
    fails(open(program, O_RDONLY | O_TRUNC), ETXTBSY, "made empty");
    fails(truncate(program, 0), ETXTBSY, "or cut off");
    int reader = open(program, O_RDONLY);
    check(reader >= 0, "it may be read");
    close(reader);
    check(rename(program, BASE "/other") == 0 && rename(BASE "/other", program) == 0 &&
              chmod(program, 0700) == 0,
          "renamed, and its mode changed");
    int second;
    pid_t also = run(program, &second);
    equal(second, 0, "run once more");
    kill_child(child);
    fails(open(program, O_WRONLY), ETXTBSY, "one is left");
    kill_child(also);
    int writer = open(program, O_WRONLY);
    check(writer >= 0, "nobody runs it any more: it may be written");
    child = run(program, &error);
    equal(error, ETXTBSY, "and is not run meanwhile");
    kill_child(child);
    int copied = dup(writer);
    close(writer);
    child = run(program, &error);
    equal(error, ETXTBSY, "nor while there is a copy of the descriptor");
    kill_child(child);
    close(copied);
    for (int shared = 0; shared < 2; shared++) {
        writer = open(program, O_RDWR);
        char *mapped = mmap(0, 4096, shared ? PROT_READ | PROT_WRITE : PROT_READ,
                            shared ? MAP_SHARED : MAP_PRIVATE, writer, 0);
        check(writer >= 0 && mapped != MAP_FAILED, "mapped from a descriptor that may write");
        close(writer);
        child = run(program, &error);
        equal(error, ETXTBSY, "nor while it is mapped by one that is closed");
        kill_child(child);
        munmap(mapped, 4096);
    }
    int reader_too = open(program, O_RDONLY);
    char *mapped = mmap(0, 4096, PROT_READ, MAP_SHARED, reader_too, 0);
    child = run(program, &error);
    equal(error, 0, "what is mapped to be read runs");
    kill_child(child);
    munmap(mapped, 4096);
    close(reader_too);
    pthread_t thread;
    pthread_create(&thread, 0, opener, (void *)program);
    pthread_join(thread, 0);
    child = run(program, &error);
    equal(error, 0, "nor is it held up by what a thread had open");
    /* The program that it executed keeps it, its child too. */
    pid_t child_of_it = child;
    unlink(program);
    kill_child(child_of_it);
    writer = open(script, O_WRONLY | O_CREAT, 0755);
    check(write(writer, "#!/bin/sh\nexec sleep 100\n", 25) == 25, "a script");
    child = run(script, &error);
    equal(error, ETXTBSY, "is not run while it is written");
    kill_child(child);
    close(writer);
    int memory = memfd_create("program", 0);
    char buffer[65536];
    ssize_t count;
    int in = open("/proc/self/exe", O_RDONLY);
    while ((count = read(in, buffer, sizeof buffer)) > 0)
        if (write(memory, buffer, count) != count)
            check(0, "copied");
    close(in);
    snprintf(buffer, sizeof buffer, "/proc/self/fd/%d", memory);
    child = run(buffer, &error);
    equal(error, 0, "a file without a name that was never opened runs");
    kill_child(child);
    writer = open(buffer, O_RDWR);
    child = run(buffer, &error);
    equal(error, ETXTBSY, "not if it is opened for writing");
    kill_child(child);
    close(writer);
    close(memory);
}
#endif

/* Set-id bits, and credentials that two threads change: a part of `rights`.
 *
 * Interface: trace_group, steer_group, look_group, bits_group and credentials_group.
 */
#ifndef RIGHTS_SET_ID_H
#define RIGHTS_SET_ID_H

/* -- set-id bits ----------------------------------------------------------------------------------------- */

#define FILE_NAME DIRECTORY "/file"

static int served(int *ends, int command)
{
    char c = command;
    return write(ends[1], &c, 1) == 1 && read(ends[0], &c, 1) == 1;
}

static int server[2];

/* Gives the file its bits back, by root. */
static int again(void) { return served(server, 's'); }

static void gone(int result, const char *how)
{
    check(result >= 0, how);
    equal(mode_of(FILE_NAME), 0777, "takes the bits away");
    again();
}

static void rewriting(void)
{
    char page[64] = "x";
    struct iovec part = {page, 2};
    int fd = open(FILE_NAME, O_RDWR), end = open(FILE_NAME, O_WRONLY | O_APPEND), copy = dup(fd);
    equal(mode_of(FILE_NAME), 06777, "a file with both bits");
    for (int i = 0; i < 8; i++)
        gone(pwrite(fd, page, 1, 0) == 1 ? 0 : -1, "pwrite");
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 8; i++)
        gone(write(fd, page, 1), "write of a byte");
    for (int i = 0; i < 8; i++)
        gone(write(fd, page, sizeof page), "write");
    /* Without the bits whatever is fastest is in place; with them it must not serve. */
    for (int i = 0; i < 64; i++) {
        write(fd, page, 1);
        write(end, page, 3);
    }
    again();
    gone(write(fd, page, 1), "write after many");
    gone(write(end, page, 1), "write at the end after many");
    gone(write(copy, page, 5), "write by a copy of the descriptor");
    pid_t child = fork();
    if (child == 0)
        _exit(write(fd, page, 1) != 1);
    gone(code_of(child) ? -1 : 0, "write by a child");
    for (int i = 0; i < 6; i++) {
        int once = open(FILE_NAME, O_WRONLY);
        gone(write(once, page, 1), "write of who has just opened it");
        close(once);
    }
    gone(writev(fd, &part, 1), "writev");
    gone(truncate(FILE_NAME, 5000), "truncate to more");
    gone(truncate(FILE_NAME, 4), "truncate to less");
    gone(ftruncate(fd, 60), "ftruncate");
    gone(fallocate(fd, 0, 0, 9000), "fallocate");
    int emptied = open(FILE_NAME, O_WRONLY | O_TRUNC);
    gone(emptied, "open with O_TRUNC");
    int zero = open(COPY, O_RDONLY);
    off_t start = 0;
    gone(sendfile(fd, zero, &start, 10), "sendfile");
    start = 0;
    gone(copy_file_range(zero, &start, fd, NULL, 10, 0), "copy_file_range");
    equal(read(fd, page, 0), 0, "reading");
    equal(mode_of(FILE_NAME), 06777, "leaves them");
    fails(pwrite(zero, page, 1, 0), EBADF, "a write that may not be");
    equal(mode_of(FILE_NAME), 06777, "leaves them, too");
    close(fd);
    close(end);
    close(copy);
    close(emptied);
    close(zero);
    if (here) {
        /* Linux lets a mapping write what it likes. */
        fd = open(FILE_NAME, O_RDWR);
        char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        gone(map == MAP_FAILED ? -1 : 0, "a shared mapping that can be written");
        close(fd);
    }
}

static void serve(int *ends)
{
    char c;
    while (read(ends[0], &c, 1) == 1) {
        if (c == 's')
            chmod(FILE_NAME, 06777);
        if (write(ends[1], &c, 1) != 1)
            break;
    }
}

static void bits(void)
{
    int there[2], back[2];
    int fd = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);
    chmod(FILE_NAME, 06777);
    for (int i = 0; i < 3; i++) {
        equal(write(fd, "x", 1), 1, "root writes");
        equal(mode_of(FILE_NAME), 06777, "and the bits stay");
    }
    equal(ftruncate(fd, 4096), 0, "root makes it longer");
    equal(mode_of(FILE_NAME), 06777, "and the bits stay");
    if (pipe(there) || pipe(back)) {
        check(0, "a pipe");
        return;
    }
    fflush(stdout);
    pid_t root = fork();
    if (root == 0) {
        int ends[2] = {there[0], back[1]};
        close(there[1]);
        close(back[0]);
        serve(ends);
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    server[0] = back[0];
    server[1] = there[1];
    as_user(rewriting);
    close(there[1]);
    close(back[0]);
    status_of(root);

    chmod(FILE_NAME, 06777);
    equal(chown(FILE_NAME, 0, OTHER_GROUP), 0, "root gives it to another group");
    equal(mode_of(FILE_NAME), 0777, "the bits go even so");
    chmod(FILE_NAME, 02767);
    equal(chown(FILE_NAME, USER, OTHER_GROUP), 0, "one that the group may not execute");
    equal(mode_of(FILE_NAME), 02767, "keeps the group's bit");
    close(fd);
}

static void foreign_group(void)
{
    int fd = open(DIRECTORY "/foreign/a", O_CREAT | O_WRONLY, 02775);
    equal(mode_of(DIRECTORY "/foreign/a"), 0775,
          "a new file in a foreign group's directory has no set-gid bit");
    close(fd);
    fd = open(DIRECTORY "/foreign/b", O_CREAT | O_WRONLY, 02745);
    equal(mode_of(DIRECTORY "/foreign/b"), 02745, "but one that the group may not execute has");
    close(fd);
    mknod(DIRECTORY "/foreign/c", S_IFREG | 02775, 0);
    equal(mode_of(DIRECTORY "/foreign/c"), 0775, "nor by mknod");
    mkdir(DIRECTORY "/foreign/d", 0775);
    equal(mode_of(DIRECTORY "/foreign/d"), 02775, "a directory inherits it");
    fd = open(DIRECTORY "/foreign", O_TMPFILE | O_WRONLY, 02775);
    struct stat s;
    if (fd >= 0) {
        fstat(fd, &s);
        equal(s.st_mode & 07777, 0775, "nor has a file without a name");
        close(fd);
    }
    fd = open(DIRECTORY "/foreign/e", O_CREAT | O_WRONLY, 0775);
    equal(fchmod(fd, 02775), 0, "chmod");
    equal(mode_of(DIRECTORY "/foreign/e"), 0775, "does not give it either");
    close(fd);
}

static void new_files(void)
{
    umask(0);
    mkdir(DIRECTORY "/foreign", 0777);
    chown(DIRECTORY "/foreign", 0, OTHER_GROUP);
    chmod(DIRECTORY "/foreign", 02777);
    as_user(foreign_group);
    umask(022);
}

static void no_suid_mount(void)
{
    if (!here)
        return;
    mkdir(DIRECTORY "/mount", 0755);
    equal(syscall(SYS_mount, "tmpfs", DIRECTORY "/mount", "tmpfs", 2, "mode=755"), 0,
          "a mount without set-uid programs");
    install(DIRECTORY "/mount/suid", 04755, 0, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        become_user();
        run(DIRECTORY "/mount/suid", "who");
    }
    equal(code_of(child), PLAIN, "has none");
    equal(syscall(SYS_umount2, DIRECTORY "/mount", 2), 0, "umount");
}

/* -- credentials changed by two threads ------------------------------------------------------------------ */

static volatile int changing;

static void *change_users(void *_)
{
    (void)_;
    while (changing)
        syscall(SYS_setresuid, -1, -1, -1);
    return NULL;
}

static void two_changers(void)
{
    pthread_t other;
    changing = 1;
    pthread_create(&other, NULL, change_users, NULL);
    int lost = 0;
    for (int i = 0; i < 20000; i++) {
        gid_t group = 100 + i % 1000, seen[4] = {0};
        syscall(SYS_setgroups, 1, &group);
        if (syscall(SYS_getgroups, 4, seen) != 1 || seen[0] != group)
            lost++;
    }
    changing = 0;
    pthread_join(other, NULL);
    equal(lost, 0, "two threads that change credentials lose nothing");
    syscall(SYS_setgroups, 0, NULL);
}

static void wrong_numbers(void)
{
    fails(setuid(-1), EINVAL, "no user -1");
    fails(setgid(-1), EINVAL, "no group -1");
    equal(setfsuid(-1), 0, "setfsuid(-1) only asks");
    equal(setfsuid(-1), 0, "again");
    gid_t none = -1;
    fails(setgroups(1, &none), EINVAL, "no supplementary group -1");
}

static void exec_group(void)
{
    as_user(exec_traced);
    as_user(exec_traced_unreadable);
    exec_traced_by_root();
    as_user(no_new_rights);
    as_user(shared_directories);
    as_user(secure_stack);
    install(LENT, 06777, 0, 0);
    as_user(rewritten);
    as_user(death_signal);
    death_signal_of_root();
    no_suid_mount();
}

static void trace_group(void)
{
    as_user(tracing);
    as_user(attach_against_exec);
    was_root();
    as_user(dumpable);
}

static void steer_group(void)
{
    as_user(native);
    as_user(procedure_against_exec);
    as_user(limits);
    as_user(robust_list);
    as_user(niceness);
}

static void look_group(void)
{
    as_user(looking);
    as_user(looked_before_alone);
    as_user(looked_before_kept);
    as_user(own);
}

static void bits_group(void)
{
    bits();
    new_files();
}

static void credentials_group(void)
{
    wrong_numbers();
    two_changers();
}
#endif

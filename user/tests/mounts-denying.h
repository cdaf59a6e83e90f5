/* Mounts on which nothing is executed, set-id bits count for nothing, or no device opens: a part of `mounts`.
 *
 * Interface: denying(); role() is what a program of this file does that was started by one of these tests.
 */
#ifndef MOUNTS_DENYING_H
#define MOUNTS_DENYING_H
#include <elf.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

enum { RAN = 42, RAN_AS_ROOT, USER_ID = 1000 };

static int role(void) { return geteuid() == 0 && getuid() != 0 ? RAN_AS_ROOT : RAN; }

static int copy_to(int to)
{
    int from = open("/proc/self/exe", O_RDONLY);
    off_t left = lseek(from, 0, SEEK_END);
    lseek(from, 0, SEEK_SET);
    for (ssize_t count; left > 0 && (count = sendfile(to, from, 0, left)) > 0;)
        left -= count;
    close(from);
    return left == 0;
}

static int install(const char *path, int mode)
{
    int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    int good = copy_to(to) && fchmod(to, mode) == 0;
    close(to);
    return good;
}

/* A file with `first` and no more, which can be executed. */
static int script(const char *path, const char *first) { return make(path, first) && chmod(path, 0755) == 0; }

/* A program whose interpreter is `interpreter`. */
static int interpreted(const char *path, const char *interpreter)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr parts[2];
        char path[64];
    } image = {{.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                .e_type = ET_EXEC,
                .e_machine = EM_X86_64,
                .e_version = EV_CURRENT,
                .e_entry = 0x400000,
                .e_phoff = sizeof image.head,
                .e_ehsize = sizeof image.head,
                .e_phentsize = sizeof *image.parts,
                .e_phnum = 2}};
    strcpy(image.path, interpreter);
    image.parts[0] = (Elf64_Phdr){.p_type = PT_INTERP,
                                  .p_offset = (char *)image.path - (char *)&image,
                                  .p_filesz = strlen(interpreter) + 1,
                                  .p_memsz = strlen(interpreter) + 1};
    image.parts[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                  .p_flags = PF_R | PF_X,
                                  .p_vaddr = 0x400000,
                                  .p_filesz = sizeof image,
                                  .p_memsz = sizeof image,
                                  .p_align = 4096};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    int good = write(fd, &image, sizeof image) == sizeof image;
    close(fd);
    return good;
}

/* Executes `path`, or the file of descriptor `fd` if that is null, in a child of `user`: its exit status, or
 * minus the error. */
static int executes(const char *path, int fd, int user)
{
    char *arguments[] = {"mounts", "role", 0}, *none[] = {0};
    int told[2], error = 0;
    fflush(stdout);
    if (pipe2(told, O_CLOEXEC))
        return -EIO;
    pid_t child = fork();
    if (child == 0) {
        if (user && (setresgid(user, user, user) || setresuid(user, user, user)))
            _exit(1);
        if (path)
            execve(path, arguments, none);
        else
            syscall(SYS_execveat, fd, "", arguments, none, AT_EMPTY_PATH);
        error = errno;
        _exit(write(told[1], &error, sizeof error) != sizeof error);
    }
    close(told[1]);
    int failed = read(told[0], &error, sizeof error) == sizeof error;
    close(told[0]);
    int status = status_of(child);
    return failed ? -error : WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

static const char *by_number(int fd)
{
    static char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

#define MAPS_AS(kind, prot, fd) mmap(0, 8192, prot, kind, fd, 0)

static void mapped(int fd, int kind, const char *name)
{
    printf("# %s\n", name);
    check(MAPS_AS(kind, PROT_READ | PROT_EXEC, fd) == MAP_FAILED && errno == EPERM, "no mapping to execute");
    check(MAPS_AS(kind, PROT_EXEC, fd) == MAP_FAILED && errno == EPERM, "nor only for that");
    char *at = MAPS_AS(kind, PROT_READ, fd);
    check(at != MAP_FAILED, "one to read");
    fails(mprotect(at, 8192, PROT_READ | PROT_EXEC), EACCES, "becomes none");
    fails(mprotect(at + 4096, 4096, PROT_EXEC), EACCES, "nor a part of it");
    char *to = mremap(at, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, at + (1 << 20));
    check(to != MAP_FAILED, "it moves");
    fails(mprotect(to, 8192, PROT_READ | PROT_EXEC), EACCES, "and is the same there");
    equal(mprotect(to, 4096, PROT_NONE), 0, "its first page loses all rights");
    fails(mprotect(to, 4096, PROT_EXEC), EACCES, "which does not help");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(mprotect(to, 8192, PROT_READ | PROT_EXEC) == 0 || errno != EACCES);
    equal(status_of(child), 0, "a child's is the same");
    if (kind == MAP_PRIVATE) {
        check(mprotect(to, 8192, PROT_READ | PROT_WRITE) == 0 && (to[0] = 1), "a page of its own");
        fails(mprotect(to, 8192, PROT_READ | PROT_EXEC), EACCES, "is not executed");
    }
    munmap(to, 8192);
}

static void not_executed(void)
{
    int early = open(TOP "/b/program", O_RDONLY);
    char *before = MAPS_AS(MAP_PRIVATE, PROT_READ, early);
    equal(mount(0, TOP "/b", 0, MS_REMOUNT | MS_BIND | MS_NOEXEC, 0), 0, "a mount without execution");
    equal(mprotect(before, 4096, PROT_READ | PROT_EXEC), 0, "what was mapped before keeps its rights");
    check(MAPS_AS(MAP_PRIVATE, PROT_EXEC, early) == MAP_FAILED && errno == EPERM, "what was opened does not");
    int fd = open(TOP "/b/program", O_RDWR), path = open(TOP "/b/program", O_PATH);
    mapped(fd, MAP_PRIVATE, "private");
    mapped(fd, MAP_SHARED, "shared");
    int again = open(by_number(fd), O_RDONLY);
    check(MAPS_AS(MAP_PRIVATE, PROT_EXEC, again) == MAP_FAILED && errno == EPERM, "opened by its number");
    check(access(TOP "/b/program", X_OK) != 0 && errno == EACCES, "access says so");
    close(fd);
    close(again);
    fd = open(TOP "/b/program", O_RDONLY);
    equal(executes(TOP "/b/program", 0, 0), -EACCES, "execve");
    equal(executes(by_number(fd), 0, 0), -EACCES, "by /proc/self/fd");
    equal(executes(0, fd, 0), -EACCES, "execveat");
    equal(executes(0, path, 0), -EACCES, "of a path");
    equal(executes(TOP "/b/plain", 0, 0), -EACCES, "a script there");
    equal(executes(TOP "/a/script", 0, 0), -EACCES, "a script whose interpreter is there");
    equal(executes(TOP "/a/interpreted", 0, 0), -EACCES, "a program whose interpreter is");
    equal(executes(TOP "/a/program", 0, 0), RAN, "by another mount it runs");
    int other = open(TOP "/a/program", O_RDONLY);
    void *at = MAPS_AS(MAP_PRIVATE, PROT_READ | PROT_EXEC, other);
    check(at != MAP_FAILED, "and is mapped to execute");
    munmap(at, 8192);
    char *still = MAPS_AS(MAP_PRIVATE, PROT_READ, fd);
    equal(mount(0, TOP "/b", 0, MS_REMOUNT | MS_BIND, 0), 0, "with execution again");
    fails(mprotect(still, 4096, PROT_READ | PROT_EXEC), EACCES, "what was mapped without keeps that");
    at = MAPS_AS(MAP_PRIVATE, PROT_READ | PROT_EXEC, fd);
    check(at != MAP_FAILED, "a new one");
    munmap(at, 8192);
    munmap(still, 8192);
    munmap(before, 8192);
    close(early);
    close(path);
    close(other);
    close(fd);
    int memory = syscall(SYS_memfd_create, "program", 0);
    check(copy_to(memory), "a program in memory");
    int reading = open(by_number(memory), O_RDONLY | O_CLOEXEC);
    close(memory);
    equal(executes(0, reading, 0), RAN, "which is on no such mount, runs");
    close(reading);
}

static void without_set_id(void)
{
    equal(executes(TOP "/b/suid", 0, USER_ID), RAN_AS_ROOT, "a set-uid program");
    equal(mount(0, TOP "/b", 0, MS_REMOUNT | MS_BIND | MS_NOSUID, 0), 0, "a mount without set-id bits");
    int fd = open(TOP "/b/suid", O_RDONLY);
    equal(executes(TOP "/b/suid", 0, USER_ID), RAN, "has none");
    equal(executes(by_number(fd), 0, USER_ID), RAN, "nor by /proc/self/fd");
    equal(executes(0, fd, USER_ID), RAN, "nor by execveat");
    equal(executes(TOP "/a/suid", 0, USER_ID), RAN_AS_ROOT, "by another mount it has");
    close(fd);
}

static void without_devices(void)
{
    if (mknod(TOP "/a/null", S_IFCHR | 0666, makedev(1, 3)))
        return; /* where Linux lets nobody make one */
    int fd = open(TOP "/b/null", O_WRONLY);
    check(fd >= 0, "a device");
    close(fd);
    equal(mount(0, TOP "/b", 0, MS_REMOUNT | MS_BIND | MS_NODEV, 0), 0, "a mount without devices");
    for (int i = 0; i < 20; i++)
        if (open(TOP "/b/null", O_WRONLY) >= 0 || errno != EACCES)
            check(0, "is opened");
    int path = open(TOP "/b/null", O_PATH);
    fails(open(TOP "/b/null", O_RDWR), EACCES, "does not open it");
    fails(open(by_number(path), O_RDWR), EACCES, "nor by its path's number");
    struct {
        struct file_handle head;
        char bytes[MAX_HANDLE_SZ];
    } handle = {{.handle_bytes = MAX_HANDLE_SZ}};
    int id, top = open(TOP "/b", O_RDONLY);
    if (name_to_handle_at(AT_FDCWD, TOP "/b/null", &handle.head, &id, 0) == 0)
        fails(open_by_handle_at(top, &handle.head, O_RDWR), EACCES, "nor by its handle");
    fd = open(TOP "/a/null", O_WRONLY);
    check(fd >= 0, "by another mount it opens");
    close(fd);
    close(top);
    close(path);
}

static void denying(void)
{
    check(tmpfs(TOP) == 0 && mount(0, TOP, 0, MS_PRIVATE, 0) == 0 && mkdir(TOP "/a", 0755) == 0 &&
              mkdir(TOP "/b", 0755) == 0 && install(TOP "/a/program", 0755) &&
              install(TOP "/a/suid", 04755) &&
              script(TOP "/a/script", "#!" TOP "/b/program\n") &&
              script(TOP "/a/plain", "#!" TOP "/a/program\n") &&
              interpreted(TOP "/a/interpreted", TOP "/b/program"),
          "programs");
    equal(mount(TOP "/a", TOP "/b", 0, MS_BIND, 0), 0, "in a second place");
    not_executed();
    without_set_id();
    without_devices();
    check(umount(TOP "/b") == 0 && umount(TOP) == 0, "all go");
}
#endif

/* The ways of openat2: how far it may go, and by what: a part of `opens`.
 *
 * Interface: the groups ways and swapped.
 */
#ifndef OPENS_WAYS_H
#define OPENS_WAYS_H

static int open2(int dir, const char *path, unsigned long flags, unsigned long mode, unsigned long resolve)
{
    struct open_how how = {flags, mode, resolve};
    int opened = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    if (opened >= 0)
        close(opened);
    return opened >= 0 ? 0 : -1;
}

static void ways(void)
{
    start();
    int in = open(BASE "/in", O_RDONLY | O_DIRECTORY);
    equal(open2(in, "file", O_RDONLY, 0, 0), 0, "without a restriction");
    equal(open2(in, "file", O_RDONLY, 0, RESOLVE_BENEATH), 0, "beneath");
    equal(open2(in, "deep/../file", O_RDONLY, 0, RESOLVE_BENEATH), 0, "down and up");
    equal(open2(in, "link", O_RDONLY, 0, RESOLVE_BENEATH), 0, "by a link");
    fails(open2(in, "../in/file", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "above");
    fails(open2(in, "out", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "above by a link");
    fails(open2(in, "absolute", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "by an absolute link");
    fails(open2(in, BASE "/in/file", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "by an absolute path");
    fails(open2(in, "none", O_RDONLY, 0, RESOLVE_BENEATH), ENOENT, "nothing there");
    equal(open2(in, "/file", O_RDONLY, 0, RESOLVE_IN_ROOT), 0, "an absolute path in another root");
    equal(open2(in, "../../file", O_RDONLY, 0, RESOLVE_IN_ROOT), 0, "no higher than that root");
    equal(open2(in, "top", O_RDONLY, 0, RESOLVE_IN_ROOT), 0, "an absolute link there");
    fails(open2(in, "absolute", O_RDONLY, 0, RESOLVE_IN_ROOT), ENOENT, "one that leads nowhere there");
    equal(open2(in, "/new", O_WRONLY | O_CREAT, 0600, RESOLVE_IN_ROOT), 0, "a new file");
    equal(access(BASE "/in/new", F_OK), 0, "is there");
    fails(open2(in, "link", O_RDONLY, 0, RESOLVE_NO_SYMLINKS), ELOOP, "no links");
    equal(open2(in, "file", O_RDONLY, 0, RESOLVE_NO_SYMLINKS), 0, "and there are none");
    equal(open2(in, "link", O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS), 0, "the link itself");
    fails(open2(AT_FDCWD, "/proc/self/fd/0", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS), ELOOP, "no link of /proc");
    fails(open2(AT_FDCWD, "/proc/self/root", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS), ELOOP, "of another kind");
    equal(open2(AT_FDCWD, "/proc/self/status", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS), 0,
          "ordinary ones of it are");
    int proc = open("/proc/self", O_RDONLY | O_DIRECTORY);
    fails(open2(proc, "root", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "none beneath either");
    if (check(mount("none", BASE "/mount", "tmpfs", 0, 0) == 0, "a mount")) {
        int base = open(BASE, O_RDONLY | O_DIRECTORY), inside = open(BASE "/mount", O_RDONLY | O_DIRECTORY);
        fails(open2(base, "mount", O_RDONLY, 0, RESOLVE_NO_XDEV), EXDEV, "not into another mount");
        fails(open2(inside, "../in", O_RDONLY, 0, RESOLVE_NO_XDEV), EXDEV, "nor out of it");
        equal(open2(inside, ".", O_RDONLY, 0, RESOLVE_NO_XDEV), 0, "in it");
        equal(open2(base, "mount", O_RDONLY, 0, RESOLVE_BENEATH), 0, "it lies beneath");
        close(base);
        close(inside);
        umount(BASE "/mount");
    }
    equal(open2(in, "file", O_RDONLY, 0, RESOLVE_CACHED) == 0 || errno == EAGAIN, 1,
          "at once, or not at all");
    fails(open2(in, "file", O_RDWR | O_TRUNC, 0, RESOLVE_CACHED), EAGAIN, "what cannot be at once");
    fails(open2(in, "file", O_RDONLY, 0, RESOLVE_BENEATH | RESOLVE_IN_ROOT), EINVAL, "two roots");
    fails(open2(in, "file", O_RDONLY, 0, 64), EINVAL, "a way that there is not");
    fails(open2(in, "file", O_RDONLY, 0600, 0), EINVAL, "a mode for nothing new");
    fails(open2(in, "file", O_RDONLY | O_CREAT, 010000, 0), EINVAL, "a mode that there is not");
    fails(open2(in, "file", 1UL << 31, 0, 0), EINVAL, "a flag that there is not");
    fails(open2(in, "file", 1UL << 40, 0, 0), EINVAL, "a high one");
    fails(open2(in, "file", O_PATH | O_RDWR, 0, 0), EINVAL, "a place to be written");
    char large[5000] = "";
    fails(syscall(SYS_openat2, in, "file", large, 23), EINVAL, "too small");
    fails(syscall(SYS_openat2, in, "file", large, sizeof large), E2BIG, "too large");
    int opened = (int)syscall(SYS_openat2, in, "file", large, 4096);
    check(opened >= 0, "larger, with zeros");
    equal(fcntl(opened, F_GETFL), LARGEFILE, "has the flag of large files, as all have");
    close(opened);
    large[24] = 1;
    fails(syscall(SYS_openat2, in, "file", large, 32), E2BIG, "with more that is wanted");
    close(in);
    close(proc);
}

/* While another swaps directories, the way up never leads out. */
static void swapped(void)
{
    static const char way[] = "deep/../../deep/../../deep/../../deep/../../deep/../../deep/../../deep/../..";
    static const unsigned long how_far[] = {RESOLVE_BENEATH, RESOLVE_IN_ROOT};
    start();
    int base = open(BASE, O_PATH | O_DIRECTORY), in = open(BASE "/in", O_PATH | O_DIRECTORY);
    struct stat home, found;
    fstat(in, &home);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            syscall(SYS_renameat2, base, "in/deep", base, "mount", 2 /* RENAME_EXCHANGE */);
    }
    for (int i = 0; i < 2; i++) {
        int outside = 0, odd = 0;
        for (int round = 0; round < 10000; round++) {
            struct open_how how = {O_PATH, 0, how_far[i]};
            int fd = (int)syscall(SYS_openat2, in, way, &how, sizeof how);
            if (fd < 0) {
                outside += errno == ENOENT;
                odd += errno != EAGAIN && errno != EXDEV && errno != ENOENT;
                continue;
            }
            outside += fstat(fd, &found) != 0 || found.st_ino != home.st_ino;
            close(fd);
        }
        equal(outside, 0,
              i ? "nor out of another root" : "the way up does not lead out while directories are swapped");
        equal(odd, 0, "and says why");
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    close(base);
    close(in);
}
#endif

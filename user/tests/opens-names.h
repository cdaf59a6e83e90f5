/* Names of files: made, opened for the first time, found and removed: a part of `opens`.
 *
 * Interface: the groups first, cut and names.
 */
#ifndef OPENS_NAMES_H
#define OPENS_NAMES_H

/* A path that ends with its page, behind which there is nothing. */
static char *at_the_edge(const char *path)
{
    static char *page;
    if (!page)
        page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    return strcpy(page + 4096 - strlen(path) - 1, path);
}

/* Makes `path`; 0 or -1. */
static int create(const char *path, int flags)
{
    int made = open(path, O_CREAT | flags, 0644);
    if (made >= 0)
        close(made);
    return made >= 0 ? 0 : -1;
}

/* The outcome of another user's making `make` and removing `away`: two bits for those that went well. */
static int by_another(const char *make, const char *away)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (setgid(1234) || setuid(1234))
            _exit(9);
        _exit((make && create(make, O_WRONLY) == 0) | (unlink(away) == 0) << 1);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

/* Files that nobody has opened before, opened for the first time and again, more of them than a kernel may
 * remember. */
static void first(void)
{
    enum { COUNT = 700 };
    char name[64];
    struct stat st;
    struct statfs before, after;
    int wrong = 0;
    mkdir(BASE, 0755);
    statfs(BASE, &before);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, BASE "/first-%03d", i);
        wrong += mknod(name, S_IFREG | 0644, 0) != 0;
    }
    equal(wrong, 0, "files without a descriptor");
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, BASE "/first-%03d", i);
        int kind = i % 3, flags[] = {O_RDONLY, O_WRONLY, O_RDWR | O_CLOEXEC};
        int fd = open(name, flags[kind]);
        char c = i, got = 0;
        wrong += fcntl(fd, F_GETFL) != ((flags[kind] & O_ACCMODE) | LARGEFILE) ||
                 fcntl(fd, F_GETFD) != (kind == 2);
        wrong += kind == 0 ? write(fd, &c, 1) != -1 || errno != EBADF : write(fd, &c, 1) != 1;
        wrong += kind == 1 ? read(fd, &got, 1) != -1 || errno != EBADF : read(fd, &got, 1) != 0;
        wrong += fstat(fd, &st) != 0 || st.st_size != (kind != 0) || st.st_nlink != 1;
        wrong += close(fd) != 0;
    }
    equal(wrong, 0, "are read and written as they were opened");
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < COUNT; i++) {
            snprintf(name, sizeof name, BASE "/first-%03d", i);
            int one = open(name, O_RDONLY), other = open(name, O_RDWR);
            char c = 0;
            wrong += one < 0 || other < 0 || lseek(other, 1, SEEK_SET) != 1 || lseek(one, 0, SEEK_CUR) != 0;
            wrong += read(one, &c, 1) != (i % 3 != 0) || (i % 3 != 0 && c != (char)i);
            wrong += close(one) != 0 || close(other) != 0;
        }
    equal(wrong, 0, "each description has an offset of its own, each file its bytes");
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, BASE "/first-%03d", i);
        int held = i % 2 ? open(name, O_RDWR) : -1;
        wrong += unlink(name) != 0 || open(name, O_RDONLY) != -1 || errno != ENOENT;
        if (held >= 0) {
            wrong += fstat(held, &st) != 0 || st.st_nlink != 0 || write(held, name, 8) != 8;
            wrong += close(held) != 0;
        }
    }
    equal(wrong, 0, "and goes with its name or its last description");
    statfs(BASE, &after);
    equal(after.f_ffree, before.f_ffree, "as the file system says");
}

/* Paths that begin shortly before the end of a page, where they are alike: each leads to its own file. */
static void cut(void)
{
    enum { FILES = 3, LONGEST = 80 };
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[LONGEST];
    struct stat there, opened;
    int wrong = 0;
    start();
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, BASE "/in/a-name-that-makes-a-path-long-enough-%d", i);
        wrong += create(name, O_WRONLY) != 0;
    }
    equal(wrong, 0, "files whose paths begin alike");
    for (size_t before = 1; before <= strlen(name); before++)
        for (int i = 0; i < 3 * FILES; i++) {
            snprintf(name, sizeof name, BASE "/in/a-name-that-makes-a-path-long-enough-%d", i % FILES);
            wrong += stat(name, &there) != 0;
            char *path = strcpy(pages + 4096 - before, name);
            int fd = i % 2 ? open(path, O_RDONLY) : openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
            wrong += fd < 0 || fstat(fd, &opened) != 0 || opened.st_ino != there.st_ino;
            close(fd);
        }
    equal(wrong, 0, "each is opened, wherever a page ends in its path");
    munmap(pages, 8192);
}

/* Names that are made and removed, by paths that are short or not, and in directories with rules. */
static void names(void)
{
    static char name[256] = BASE "/in/";
    char what[8];
    struct stat st;
    start();
    equal(create(BASE "/in/new", O_WRONLY), 0, "a new file");
    equal(stat(BASE "/in/new", &st) == 0 && st.st_mode == (S_IFREG | 0644) && st.st_size == 0, 1,
          "is what it should be");
    fails(create(BASE "/in/new", O_WRONLY | O_EXCL), EEXIST, "not twice");
    equal(create(BASE "/in/new", O_WRONLY | O_TRUNC), 0, "but it is opened");
    equal(unlink(BASE "/in/new"), 0, "and removed");
    fails(unlink(BASE "/in/new"), ENOENT, "once");
    equal(create(BASE "/in/new", O_WRONLY | O_EXCL), 0, "made again");
    equal(chdir(BASE "/in") == 0 && unlink("new") == 0, 1, "removed from where one is");
    equal(create(at_the_edge("edge"), O_RDONLY), 0, "a path at the end of memory");
    equal(unlink(at_the_edge("edge")), 0, "removed by it");
    fails(create((char *)4096, O_WRONLY), EFAULT, "no path");
    memset(name + strlen(BASE "/in/"), 'n', 100);
    equal(create(name, O_WRONLY), 0, "a long path");
    equal(unlink(name), 0, "removed by it");
    fails(create(BASE "/in/", O_WRONLY), EISDIR, "no name");
    fails(create(BASE "/in/none/", O_WRONLY), EISDIR, "a directory's");
    fails(unlink(BASE "/in/file/"), ENOTDIR, "no directory");
    fails(unlink(BASE "/in/deep"), EISDIR, "a directory is no file");
    fails(create(BASE "/in/file/new", O_WRONLY), ENOTDIR, "in a file");
    fails(create(BASE "/none/new", O_WRONLY), ENOENT, "nowhere");
    equal(symlink("behind", BASE "/in/ahead") == 0 && create(BASE "/in/ahead", O_WRONLY) == 0 &&
              access(BASE "/in/behind", F_OK) == 0,
          1, "by a link that led nowhere");
    equal(unlink(BASE "/in/ahead") == 0 && access(BASE "/in/behind", F_OK) == 0, 1, "the link is removed");
    equal(unlink(BASE "/in/behind"), 0, "and what it led to");

    int held = open(BASE "/in/held", O_RDWR | O_CREAT, 0600);
    equal(write(held, "kept", 4) == 4 && unlink(BASE "/in/held") == 0, 1, "an open file loses its name");
    equal(create(BASE "/in/held", O_WRONLY | O_EXCL), 0, "which another gets");
    equal(lseek(held, 0, SEEK_SET) == 0 && read(held, what, sizeof what) == 4 && memcmp(what, "kept", 4) == 0,
          1, "it is read as before");
    equal(fstat(held, &st) == 0 && st.st_nlink == 0, 1, "it has no name");
    equal(stat(BASE "/in/held", &st) == 0 && st.st_size == 0, 1, "and the other is another");
    equal(link(BASE "/in/held", BASE "/in/second") == 0 && unlink(BASE "/in/held") == 0, 1,
          "one name of two is removed");
    equal(stat(BASE "/in/second", &st) == 0 && st.st_nlink == 1, 1, "the other stays");
    equal(unlink(BASE "/in/second"), 0, "until it goes, too");
    close(held);

    /* Each byte of a short file, and of one that has become longer. */
    int file = open(BASE "/in/pages", O_RDWR | O_CREAT, 0600), right = 1;
    static char page[4096], back[4096];
    for (int i = 0; i < 12; i++) {
        memset(page, 'a' + i, sizeof page);
        right &= pwrite(file, page, 2000, i * 4096 + 1000) == 2000;
    }
    for (int i = 0; i < 12; i++) {
        memset(page, 0, sizeof page);
        memset(page + 1000, 'a' + i, 2000);
        right &= pread(file, back, sizeof back, i * 4096) == (i < 11 ? 4096 : 3000) &&
                 memcmp(page, back, i < 11 ? 4096 : 3000) == 0;
    }
    equal(right, 1, "what was not written is zeros");
    close(file);

    equal(mkdir(BASE "/all", 0777) == 0 && chmod(BASE "/all", 0777) == 0 &&
              create(BASE "/all/a", O_WRONLY) == 0,
          1, "a directory for all");
    equal(by_another(BASE "/all/b", BASE "/all/a"), 3, "where all make and remove");
    equal(chmod(BASE "/all", 01777) == 0 && create(BASE "/all/a", O_WRONLY) == 0, 1, "with the sticky bit");
    equal(by_another(BASE "/all/c", BASE "/all/a"), 1, "only one's own is removed");
    equal(by_another(0, BASE "/all/c"), 2, "as here");
    equal(unlink(BASE "/all/b"), 0, "and everything by who owns the directory");
    equal(by_another(BASE "/in/x", BASE "/in/file"), 0, "and nothing where one has no right");
    if (check(mount("none", BASE "/mount", "tmpfs", 0, 0) == 0, "a mount")) {
        equal(create(BASE "/mount/a", O_WRONLY), 0, "a file there");
        equal(mount("none", BASE "/mount", 0, MS_REMOUNT | MS_RDONLY, 0), 0, "read-only");
        fails(create(BASE "/mount/b", O_WRONLY), EROFS, "none is made");
        fails(unlink(BASE "/mount/a"), EROFS, "none is removed");
        equal(mount("none", BASE "/mount", 0, MS_REMOUNT, 0), 0, "no longer");
        equal(unlink(BASE "/mount/a"), 0, "it is");
        umount(BASE "/mount");
    }
    equal(chdir("/"), 0, "back");
}
#endif

/* Files, their bytes, directories and names until there are no more: a part of `hogs`.
 *
 * Interface: the kinds file, files, directories and names. They are made below /tmp; `hogs.c` removes them.
 */
#ifndef HOGS_FILES_H
#define HOGS_FILES_H

static struct told file(void)
{
    static char block[65536];
    struct told told = {0, 0};
    int fd = open("/tmp/hog", O_CREAT | O_WRONLY, 0600);
    while (told.made < 1 << 20 && write(fd, block, sizeof block) > 0)
        told.made += 16;
    told.error = errno;
    unlink("/tmp/hog");
    return told;
}

static struct told files(void)
{
    struct told told = {0, 0};
    char name[64];
    mkdir("/tmp/hogs", 0700);
    for (; told.made < 1 << 20; told.made++) {
        sprintf(name, "/tmp/hogs/%d", told.made);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    told.error = errno;
    return told;
}

static struct told directories(void)
{
    struct told told = {0, 0};
    mkdir("/tmp/hogd", 0700);
    for (; told.made < 1 << 20 && chdir("/tmp/hogd") == 0; told.made++) {
        char name[32];
        sprintf(name, "%d", told.made);
        if (mkdir(name, 0700))
            break;
    }
    told.error = errno;
    return told;
}

static struct told names(void)
{
    struct told told = {0, 0};
    mkdir("/tmp/hogn", 0700);
    close(open("/tmp/hogn/first", O_CREAT | O_WRONLY, 0600));
    for (; told.made < 1 << 20; told.made++) {
        char name[64];
        sprintf(name, "/tmp/hogn/%d", told.made);
        if (told.made % 2 ? symlink("/tmp/hogn/first/and/more", name) : link("/tmp/hogn/first", name))
            break;
    }
    told.error = errno;
    return told;
}
#endif

/* Names that users choose, in the lines of texts: a part of `sysfs`.
 *
 * Interface: names. No name ends the line that it stands in, or makes another one.
 */
#ifndef SYSFS_NAMES_H
#define SYSFS_NAMES_H
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define FORGED "x\nUid:\t0\\"

/* Whether a line of the text begins with `start`. */
static int begins(const char *path, const char *start)
{
    if (whole(path) < 0)
        return -1;
    for (char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : 0)
        if (strncmp(line, start, strlen(start)) == 0)
            return 1;
    return 0;
}

static void of_threads(void)
{
    char old[16] = "";
    prctl(PR_GET_NAME, old);
    equal(prctl(PR_SET_NAME, FORGED), 0, "names: one of two lines");
    check(begins("/proc/self/status", "Name:\tx\\nUid:\\t0\\\\\n") == 1 ||
              begins("/proc/self/status", "Name:\tx\\nUid:\t0\\\\\n") == 1,
          "names: status shows newline and backslash as in C");
    equal(begins("/proc/self/status", "Uid:\t0\\"), 0, "names: and no line of it is the name's");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", getpid());
    equal(begins(path, "Uid:\t0\\"), 0, "names: nor of a thread's");
    check(whole("/proc/self/comm") > 0 && strcmp(text, FORGED "\n") == 0, "names: comm has it as it is");
    static const char *const ours[] = {"/syn/threads", "/syn/sched", "/syn/flows"};
    for (int i = 0; i < 3; i++)
        if (access(ours[i], F_OK) == 0)
            equal(begins(ours[i], "Uid:"), 0, ours[i]);
    prctl(PR_SET_NAME, old);
}

static void of_files(void)
{
#define ODD "/tmp/odd\nname \\"
    int fd = open(ODD, O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0 && write(fd, "x", 1) == 1, "names: a file's with a newline, a blank and a backslash");
    void *at = mmap(0, 1, PROT_READ, MAP_SHARED, fd, 0);
    check(whole("/proc/self/maps") > 0 && strstr(text, " /tmp/odd\\012name \\\n"),
          "names: maps shows the newline in octal, and nothing else");
    equal(begins("/proc/self/maps", "name"), 0, "names: no line begins with its rest");
    equal(begins("/proc/self/smaps", "name"), 0, "names: nor one of smaps");
    munmap(at, 1);
    int memory = syscall(SYS_memfd_create, "m\nname", 0);
    at = ftruncate(memory, 1) == 0 ? mmap(0, 1, PROT_READ, MAP_SHARED, memory, 0) : MAP_FAILED;
    check(at != MAP_FAILED, "names: memory that is a file");
    equal(begins("/proc/self/maps", "name"), 0, "names: its name");
    munmap(at, 1);
    int probes = open("/syn/probes", O_WRONLY);
    if (probes >= 0) {
        char line[32];
        int length = snprintf(line, sizeof line, "%d %d", getpid(), fd);
        check(write(probes, line, length) == length, "names: probes around it");
        equal(begins("/syn/probes", "name"), 0, "names: /syn/probes");
        length = snprintf(line, sizeof line, "%d %d off", getpid(), fd);
        check(write(probes, line, length) == length, "names: and away");
        char path[64];
        snprintf(path, sizeof path, "/syn/code/self/%d/file", fd);
        equal(begins(path, "name"), 0, "names: /syn/code");
        snprintf(path, sizeof path, "/syn/code/self/%d/read", fd);
        equal(begins(path, "name"), 0, "names: a routine's owner");
        close(probes);
    }
    close(memory);
    close(fd);
    unlink(ODD);
}

static void of_sockets(void)
{
    struct sockaddr_un name = {AF_UNIX, "/tmp/odd\nsocket"}, abstract = {AF_UNIX, "\0odd\nsocket"};
    int one = socket(AF_UNIX, SOCK_STREAM, 0), two = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(name.sun_path);
    check(bind(one, (void *)&name, sizeof name) == 0 &&
              bind(two, (void *)&abstract, offsetof(struct sockaddr_un, sun_path) + 11) == 0,
          "names: two sockets'");
    /* Linux prints them as they are. */
    if (access("/syn", F_OK) == 0)
        equal(begins("/proc/net/unix", "socket"), 0, "names: /proc/net/unix");
    close(one);
    close(two);
    unlink(name.sun_path);
}

static void names(void)
{
    of_threads();
    of_files();
    of_sockets();
}
#endif

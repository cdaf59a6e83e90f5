/* The things that must stay as they are while the fuzzer runs: root's files, limits and shell, the set of
 * processes, the level of memory.
 *
 * Interface: lay_canaries() makes the files and notes what is there; guard_fault() says what has changed, or
 * null; what privileged actors may change it puts right. end_strangers() kills who has left his sequence,
 * remove_objects() removes what outlives processes. clear_directory() and refresh_program() make a worker's
 * directory new. memory_level() in KiB.
 */
#ifndef FUZZ_GUARD_H
#define FUZZ_GUARD_H
#include "fuzz-world.h"
#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

/* Caches and what waits for its grace period move the level. */
#define MEMORY_SLACK 3072

/* Everybody's files of root: none may change. */
static const char *const canaries[] = {"/canary", "/canary/secret", "/canary/public", "/canary/append",
                                       "/canary/locked", "/canary/locked/in", "/canary/sticky/root",
                                       "/canary/setuid", "/canary/setgid", "/canary/link", "/etc/passwd",
                                       "/bin/busybox", "/tests", "/run/fuzz", "/",
                                       /* Privileged actors have descriptors of these. */
                                       "/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/console"};
enum { CANARIES = sizeof canaries / sizeof *canaries };
static struct stat canary_stat[CANARIES];
/* Where what is to be told goes. */
static int kmsg = -1;
static uint64_t canary_hash[CANARIES];
static struct rlimit own_limits[16];

static int own_machine(void)
{
    struct utsname name;
    return uname(&name) == 0 && strstr(name.release, "synthesis") != 0;
}

static void copy_file(const char *from, const char *to, int mode, int user)
{
    char block[4096];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t got;
    while ((got = read(in, block, sizeof block)) > 0)
        (void)!write(out, block, got);
    (void)!fchown(out, user, user);
    fchmod(out, mode);
    close(in);
    close(out);
}

static void write_text(const char *path, const char *text, int mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void)!write(fd, text, strlen(text));
    fchmod(fd, mode);
    close(fd);
}

/* Of what a file has; of a directory its names. */
static uint64_t content(const char *path, const struct stat *stat)
{
    uint64_t hash = 1;
    if (S_ISREG(stat->st_mode) && stat->st_size < 1 << 18) {
        char block[4096];
        int fd = open(path, O_RDONLY);
        ssize_t got;
        while ((got = read(fd, block, sizeof block)) > 0)
            for (int i = 0; i < got; i++)
                hash = hash * 1099511628211ULL + (unsigned char)block[i];
        close(fd);
    } else if (S_ISDIR(stat->st_mode)) {
        DIR *all = opendir(path);
        struct dirent *one;
        while (all && (one = readdir(all)))
            for (const char *c = one->d_name; *c; c++)
                hash += (unsigned char)*c * 31;
        if (all)
            closedir(all);
    }
    return hash;
}

static void look(int i, struct stat *stat, uint64_t *hash)
{
    memset(stat, 0, sizeof *stat);
    *hash = lstat(canaries[i], stat) ? 0 : content(canaries[i], stat);
}

static int first_mounts;

/* How many file systems are mounted; where the last one is. */
static int mounts(char where[600])
{
    FILE *all = fopen("/proc/mounts", "r");
    char line[1300];
    int count = 0;
    while (all && fgets(line, sizeof line, all))
        count += sscanf(line, "%*s %599s", where) == 1;
    if (all)
        fclose(all);
    return count;
}

/* Takes away what privileged actors have mounted, wherever: who shares their directory leads them
 * anywhere. */
static void uncover(void)
{
    char where[600];
    for (int looks = 0; looks < 100 && mounts(where) > first_mounts && umount2(where, MNT_DETACH) == 0;
         looks++)
        ;
}

static void lay_canaries(void)
{
    char last[600];
    first_mounts = mounts(last);
    umask(022);
    mkdir("/tmp/fuzz", 0755);
    mkdir("/run", 0755);
    mkdir("/run/fuzz", 0770);
    chmod("/run/fuzz", 0770);
    mkdir("/canary", 0755);
    mkdir("/canary/locked", 0700);
    mkdir("/canary/sticky", 0777);
    chmod("/canary/sticky", 01777);
    write_text("/canary/secret", "secret", 0600);
    write_text("/canary/public", "public", 0644);
    write_text("/canary/append", "append", 0444);
    write_text("/canary/locked/in", "in", 0666);
    write_text("/canary/sticky/root", "root", 0644);
    (void)!symlink("/canary/secret", "/canary/link");
    copy_file("/proc/self/exe", "/canary/setuid", 04755, 0);
    copy_file("/proc/self/exe", "/canary/setgid", 02755, 0);
    for (int i = 0; i < CANARIES; i++)
        look(i, &canary_stat[i], &canary_hash[i]);
    for (int i = 0; i < 16; i++)
        getrlimit(i, &own_limits[i]);
}

/* Into the log, which stays when the terminal is somebody's. */
static void show_file(const char *path)
{
    char line[240];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        (void)!write(kmsg, line, strlen(line));
    if (file)
        fclose(file);
}

/* A user who shares descriptors or directories with one of root's actors may let that change modes and
 * owners, and make names, where he likes. */
static int restored(int i, const struct stat *now)
{
    const struct stat *was = &canary_stat[i];
    if (now->st_ino != was->st_ino || (now->st_mode & S_IFMT) != (was->st_mode & S_IFMT) ||
        S_ISLNK(was->st_mode))
        return 0;
    (void)!chown(canaries[i], was->st_uid, was->st_gid);
    chmod(canaries[i], was->st_mode & 07777);
    return 1;
}

static const char *guard_fault(int with_root)
{
    static char text[120];
    if (access("/run/fuzz/report", F_OK) == 0) {
        show_file("/run/fuzz/report");
        unlink("/run/fuzz/report");
        return "somebody had root's rights";
    }
    unlink("/canary/sticky/new");
    uncover();
    for (int i = 0; i < CANARIES; i++) {
        struct stat now, *was = &canary_stat[i];
        uint64_t hash;
        look(i, &now, &hash);
        if (with_root && restored(i, &now)) {
            look(i, &now, &hash);
            if (S_ISDIR(now.st_mode))
                canary_hash[i] = hash;
        }
        if (now.st_mode != was->st_mode || now.st_uid != was->st_uid || now.st_gid != was->st_gid ||
            now.st_ino != was->st_ino || now.st_rdev != was->st_rdev ||
            (!S_ISDIR(now.st_mode) && now.st_size != was->st_size) || hash != canary_hash[i]) {
            snprintf(text, sizeof text, "%s has changed: mode %o, owner %d:%d, %ld bytes", canaries[i],
                     now.st_mode, now.st_uid, now.st_gid, (long)now.st_size);
            return text;
        }
    }
    for (int i = 0; i < 16; i++) {
        struct rlimit now;
        getrlimit(i, &now);
        if (now.rlim_cur != own_limits[i].rlim_cur || now.rlim_max != own_limits[i].rlim_max)
            return "root's limits have changed";
    }
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "exit 42", (char *)0);
        _exit(1);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 42)
        return "root's shell does not answer";
    return 0;
}

static int known(const struct common *common, int pid)
{
    for (int i = 0; i < WORKERS; i++)
        if (pid == common->workers[i])
            return 1;
    return pid <= 1 || pid == common->supervisor;
}

/* Kills whoever belongs to nobody, until there is none. */
static void end_strangers(const struct common *common, void (*bad)(const char *, const char *))
{
    for (int looks = 0, left = 1; left; looks++) {
        DIR *all = opendir("/proc");
        struct dirent *one;
        left = 0;
        while (all && (one = readdir(all))) {
            int pid = atoi(one->d_name);
            if (pid > 0 && !known(common, pid) && kill(pid, SIGKILL) == 0)
                left++;
        }
        if (all)
            closedir(all);
        while (waitpid(-1, 0, WNOHANG) > 0)
            ;
        struct timespec time = {0, 1000000};
        if (left)
            nanosleep(&time, 0);
        if (looks == 20000) {
            bad("a stranger is killed, but has not ended after 20000 looks", "");
            show_file("/syn/threads");
            return;
        }
    }
}

/* Objects of System V IPC stay when all who know them have ended. */
static void remove_objects(void)
{
    static const char *const lists[] = {"/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem"};
    for (int kind = 0; kind < 3; kind++) {
        FILE *list = fopen(lists[kind], "r");
        char line[400];
        int id;
        while (list && fgets(line, sizeof line, list)) {
            if (sscanf(line, "%*d %d", &id) != 1)
                continue;
            if (kind == 0)
                shmctl(id, IPC_RMID, 0);
            else if (kind == 1)
                msgctl(id, IPC_RMID, 0);
            else
                semctl(id, 0, IPC_RMID);
        }
        if (list)
            fclose(list);
    }
}

/* Never follows a link, nor leaves the file system `device`: a privileged actor may have mounted anything
 * here. */
static void remove_tree(const char *path, int depth, dev_t device)
{
    DIR *all = opendir(path);
    struct dirent *one;
    while (all && (one = readdir(all))) {
        char name[1024];
        struct stat now;
        if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0 ||
            (depth == 0 && strcmp(one->d_name, "x") == 0))
            continue;
        if (snprintf(name, sizeof name, "%s/%s", path, one->d_name) >= (int)sizeof name || unlink(name) == 0)
            continue;
        if (depth < 20 && lstat(name, &now) == 0 && S_ISDIR(now.st_mode) && now.st_dev == device)
            remove_tree(name, depth + 1, device);
        rmdir(name);
    }
    if (all)
        closedir(all);
}

static void remove_below(const char *path, int depth)
{
    struct stat now;
    if (lstat(path, &now) == 0 && S_ISDIR(now.st_mode))
        remove_tree(path, depth, now.st_dev);
}

/* All that a sequence left, but for the program. */
static void clear_directory(const char *path, int covered_by_root)
{
    static const char *const covered[] = {"d", "a", "b", "n2", "new", "."};
    if (covered_by_root)
        uncover();
    for (unsigned i = 0; covered_by_root && i < sizeof covered / sizeof *covered; i++)
        for (int looks = 0; looks < 100 && umount2(covered[i], MNT_DETACH) == 0; looks++)
            ;
    remove_below(path, 0);
}

static void refresh_program(const char *path, int user)
{
    struct stat now, whole;
    if (lstat(path, &now) || stat("/canary/setgid", &whole) || !S_ISREG(now.st_mode) ||
        (now.st_mode & 07777) != 0755 || now.st_uid != (unsigned)user || now.st_size != whole.st_size) {
        unlink(path);
        remove_below(path, 1);
        rmdir(path);
        copy_file("/canary/setgid", path, 0755, user);
    }
}

static long memory_level(void)
{
    FILE *file = fopen("/syn/memory", "r");
    char line[120];
    long all = 0, available = 0, kib;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "all frames %ld", &kib) == 1)
            all = kib;
        if (sscanf(line, "free frames %ld", &kib) == 1)
            available = kib;
    }
    if (file)
        fclose(file);
    return all - available;
}
#endif

/* Checks what /proc and /sys tell about processors, memory, devices and processes: that it is there, and
 * agrees with itself; passes on Linux and must pass here.
 *
 * Interface: sysfs [GROUP...] runs all groups or those named, as root; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char text[1 << 16];

/* The whole text of a file, in `text`; its length, or -1. */
static long whole(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    long length = 0, count;
    while ((count = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += count;
    text[length] = 0;
    close(fd);
    return count < 0 ? -1 : length;
}

/* The number behind `name` in the lines of a text; -1. */
static long behind(const char *path, const char *name)
{
    if (whole(path) < 0)
        return -1;
    for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n")) {
        char *found = strstr(line, name);
        char *digits = found ? found + strlen(name) : 0;
        if (digits && (*digits == ' ' || *digits == ':') && (found == line || found[-1] == ' '))
            return atol(digits + strspn(digits, ": "));
    }
    return -1;
}

/* The first number in a text; -1. */
static long number(const char *path) { return whole(path) > 0 ? strtol(text, 0, 0) : -1; }

static long cpus(void) { return sysconf(_SC_NPROCESSORS_ONLN); }

/* Words in a line. */
static int words(const char *line)
{
    int count = 0;
    while (*(line += strspn(line, " \t"))) {
        count++;
        line += strcspn(line, " \t");
    }
    return count;
}

/* Whether a text that is a list of ranges has `wanted` in it. */
static int has(const char *path, long wanted)
{
    if (whole(path) <= 0)
        return 0;
    for (char *at = text; *at && *at != '\n'; at += *at == ',') {
        long first = strtol(at, &at, 10), last = first;
        if (*at == '-')
            last = strtol(at + 1, &at, 10);
        if (first <= wanted && wanted <= last)
            return 1;
    }
    return 0;
}

static void counts(void)
{
    int bad = 0, rows = 0;
    check(whole("/proc/vmstat") > 0, "vmstat: is there");
    for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n"), rows++)
        bad += words(line) != 2;
    check(rows >= 8 && bad == 0, "vmstat: a name and a number in each line");
    long pages = behind("/proc/vmstat", "nr_free_pages"), free_kib = behind("/proc/meminfo", "MemFree");
    check(labs(pages * 4 - free_kib) < free_kib / 4, "vmstat: as many free pages as meminfo says");
    check(behind("/proc/vmstat", "pswpin") >= 0 && behind("/proc/vmstat", "pgpgout") >= 0,
          "vmstat: what vmstat(8) reads");
    check(whole("/proc/interrupts") > 0, "interrupts: is there");
    char *line = strtok(text, "\n");
    equal(words(line), cpus(), "interrupts: a column for each processor");
    bad = rows = 0;
    while ((line = strtok(0, "\n")))
        if (isdigit((unsigned char)line[strspn(line, " ")])) {
            rows++;
            bad += words(line) < cpus() + 2;
        }
    check(rows > 0 && bad == 0, "interrupts: and a name in each row");
    check(whole("/proc/softirqs") > 0, "softirqs: is there");
    equal(words(strtok(text, "\n")), cpus(), "softirqs: a column for each processor");
    bad = rows = 0;
    while ((line = strtok(0, "\n"))) {
        rows++;
        bad += words(line) != cpus() + 1;
    }
    check(rows == 10 && bad == 0, "softirqs: ten rows");
    check(whole("/proc/zoneinfo") > 0 && strncmp(text, "Node 0, zone ", 13) == 0, "zoneinfo: a zone");
    check(behind("/proc/zoneinfo", "managed") > 0, "zoneinfo: pages of it");
}

static void devices(void)
{
    check(whole("/proc/devices") > 0 && strncmp(text, "Character devices:\n", 19) == 0,
          "devices: characters first");
    check(strstr(text, "\n  5 /dev/ptmx\n") && strstr(text, "\n136 pts\n"), "devices: pseudo-terminals");
    check(strstr(text, "\nBlock devices:\n") != 0, "devices: blocks");
    check(whole("/proc/misc") >= 0, "misc: is there");
    check(whole("/proc/diskstats") >= 0, "diskstats: is there");
    int bad = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n"))
        bad += words(line) < 14;
    equal(bad, 0, "diskstats: 14 words in each line");
    check(whole("/proc/partitions") >= 0, "partitions: is there");
    struct stat about;
    check(stat("/sys/block", &about) == 0 && S_ISDIR(about.st_mode), "/sys/block is a folder");
    check(stat("/sys/dev/block", &about) == 0 && S_ISDIR(about.st_mode), "/sys/dev/block too");
    check(stat("/sys/class/block", &about) == 0 && S_ISDIR(about.st_mode), "/sys/class/block too");
}

static void processors(void)
{
    char path[128];
    int bad = 0, caches = 0;
    for (long cpu = 0; cpu < cpus(); cpu++) {
#define OF(name) (snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/topology/" name, cpu), path)
        bad += !has(OF("core_siblings_list"), cpu) || !has(OF("thread_siblings_list"), cpu);
        long core = number(OF("core_id")), package = number(OF("physical_package_id"));
        bad += core < 0 || package < 0;
        whole(OF("thread_siblings"));
        bad += !(strtoul(text, 0, 16) >> cpu & 1);
#undef OF
        for (int index = 0;; index++) {
#define OF(name) \
    (snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/cache/index%d/" name, cpu, index), path)
            long size = number(OF("size"));
            if (size < 0)
                break;
            caches++;
            long bytes = number(OF("coherency_line_size")) * number(OF("number_of_sets"));
            bytes *= number(OF("ways_of_associativity")) * number(OF("physical_line_partition"));
            bad += bytes != size * 1024 || !has(OF("shared_cpu_list"), cpu) || number(OF("level")) < 1;
        }
    }
    equal(bad, 0, "each processor has its place and its caches");
    printf("# %d caches of all processors\n", caches);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld", sysconf(_SC_NPROCESSORS_CONF));
    fails(access(path, F_OK), ENOENT, "and none is there that is not");
    fails(access("/sys/devices/system/cpu/cpu00", F_OK), ENOENT, "numbers have no zeros in front");
    check(whole("/sys/devices/system/cpu/offline") >= 1, "cpu/offline is there");
    check(whole("/proc/cpuinfo") > 0 && strstr(text, " bits physical, "), "cpuinfo: bits of addresses");
    long cores = behind("/proc/cpuinfo", "cpu cores\t");
    check(cores >= 1 && cores <= cpus(), "cpuinfo: cores");
    check(behind("/proc/cpuinfo", "cpuid level\t") >= 1,
          "cpuinfo: how many pages of facts a processor tells");
    check(behind("/proc/cpuinfo", "clflush size\t") >= 16, "cpuinfo: bytes of a line of a cache");
    long size = behind("/proc/cpuinfo", "cache size\t"), same = caches == 0;
    for (int index = 0; index < caches; index++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        same |= number(path) == size;
    }
    check(same, "cpuinfo: the size is that of a cache");
}

static void network(void)
{
    char to[64] = "";
    check(readlink("/sys/class/net/lo", to, sizeof to - 1) > 0 &&
              strcmp(to, "../../devices/virtual/net/lo") == 0,
          "lo is a link");
    equal(number("/sys/class/net/lo/flags"), 9, "lo: flags");
    equal(number("/sys/class/net/lo/mtu"), 65536, "lo: MTU");
    equal(number("/sys/class/net/lo/type"), 772, "lo: type");
    equal(number("/sys/class/net/lo/ifindex"), 1, "lo: index");
    check(whole("/sys/class/net/lo/address") > 0 && strcmp(text, "00:00:00:00:00:00\n") == 0, "lo: address");
    check(whole("/sys/class/net/lo/operstate") > 0 && strcmp(text, "unknown\n") == 0, "lo: state");
    check(number("/sys/class/net/lo/statistics/rx_bytes") >= 0, "lo: statistics");
}

/* Field number `wanted` of /proc/PID/stat, counted from 1. */
static unsigned long field(int pid, int wanted)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (whole(path) < 0)
        return -1;
    char *at = strrchr(text, ')') + 1;
    for (int i = 3; i < wanted; i++) {
        at += strspn(at, " ");
        at += strcspn(at, " ");
    }
    return strtoul(at, 0, 10);
}

static int link_mode(int fd)
{
    char path[64];
    struct stat about;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return lstat(path, &about) ? -1 : (int)(about.st_mode & 07777);
}

static void descriptors(void)
{
    equal(link_mode(open("/dev/null", O_RDONLY)), 0500, "the link of what is open for reading");
    equal(link_mode(open("/dev/null", O_WRONLY)), 0300, "for writing");
    equal(link_mode(open("/dev/null", O_RDWR)), 0700, "for both");
    equal(link_mode(open("/dev/null", O_PATH)), 0, "for neither");
}

static void processes(char **argv, char **environment)
{
    char path[96], wanted[16];
    unsigned long stack = field(getpid(), 28);
    check(stack && stack % 16 == 0 && *(long *)stack == 1,
          "stat: where the stack began, at the number of arguments");
    check(field(getpid(), 48) == (unsigned long)argv[0], "stat: where the arguments are");
    check(field(getpid(), 49) == (unsigned long)argv[0] + strlen(argv[0]) + 1, "stat: where they end");
    check(!*environment || field(getpid(), 50) == (unsigned long)*environment,
          "stat: where the environment is");
    int ready[2], end[2];
    if (pipe(ready) || pipe(end))
        exit(1);
    int child = fork();
    if (child == 0) {
        if (setgid(1000) || setuid(1000))
            _exit(1);
        check(field(getppid(), 28) <= 1 && field(getppid(), 48) == 0, "stat: not told to everybody");
        write(ready[1], "", 1);
        close(end[1]);
        read(end[0], path, 1);
        _exit(0);
    }
    read(ready[0], path, 1);
    tap_count++;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", getpid(), getpid());
    snprintf(wanted, sizeof wanted, "%d ", child);
    check(whole(path) > 0 && strcmp(text, wanted) == 0, "children: the one there is");
    snprintf(path, sizeof path, "/proc/%d/wchan", child);
    check(whole(path) > 0 && !strchr(text, '\n'), "wchan: no line");
    close(end[1]);
    waitpid(child, 0, 0);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", getpid(), getpid());
    equal(whole(path), 0, "children: none");
    snprintf(path, sizeof path, "/proc/%d/children", getpid());
    fails(access(path, F_OK), ENOENT, "children: of threads only");
}

static char **arguments, **variables;

static void process_group(void) { processes(arguments, variables); }

/* Timers, by a text that a process has of itself. */
static void timers(void)
{
    equal(whole("/proc/self/timers"), 0, "timers: none at first");
    timer_t first, second;
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2, .sigev_value.sival_ptr = (void *)0x1234567890};
    check(timer_create(CLOCK_REALTIME, &event, &first) == 0, "timers: one is made");
    event.sigev_notify = SIGEV_NONE;
    check(timer_create(CLOCK_MONOTONIC, &event, &second) == 0, "timers: and one that tells nobody");
    check(whole("/proc/self/timers") > 0, "timers: both are told");
    int tells = 0, silent = 0, others = 0;
    for (char *at = text; (at = strstr(at, "ID: ")); at = strstr(at, "ClockID") + 7) {
        int number = -1, signo = -1, pid = -1, clock = -1;
        long value = -1;
        char how[16] = "";
        int fields = sscanf(at, "ID: %d\nsignal: %d/%lx\nnotify: %15[a-z]/pid.%d\nClockID: %d\n", &number,
                            &signo, &value, how, &pid, &clock);
        int whose = fields == 6 && pid == getpid();
        if (whose && strcmp(how, "signal") == 0)
            tells += signo == SIGUSR2 && value == 0x1234567890 && clock == CLOCK_REALTIME;
        else if (whose && strcmp(how, "none") == 0)
            silent += clock == CLOCK_MONOTONIC;
        else
            others++;
        if (fields != 6)
            break;
    }
    equal(tells, 1, "timers: the first");
    equal(silent, 1, "timers: the second");
    equal(others, 0, "timers: no others");
    timer_delete(first), timer_delete(second);
    equal(whole("/proc/self/timers"), 0, "timers: none when they are deleted");
}

static void blocks(void)
{
    check(whole("/proc/buddyinfo") > 0, "buddyinfo: is there");
    int bad = 0;
    double pages = 0;
    for (char *at = strtok(text, "\n"); at; at = strtok(0, "\n")) {
        bad += words(at) != 15 || strncmp(at, "Node ", 5) != 0;
        at = strstr(at, "zone");
        at += 4 + strspn(at + 4, " ");
        at += strcspn(at, " ");
        for (int order = 0; order < 11; order++)
            pages += (double)(strtol(at, &at, 10) << order);
    }
    equal(bad, 0, "buddyinfo: eleven counts in each row");
    long free_pages = behind("/proc/meminfo", "MemFree") / 4;
    check(pages > free_pages * 0.75 && pages < free_pages * 1.25,
          "buddyinfo: as many free pages as meminfo says");
}

/* The namespace of mounts, which all processes are in. */
static void namespaces(void)
{
    char mine[64] = "", first[64] = "";
    check(readlink("/proc/self/ns/mnt", mine, sizeof mine - 1) > 0 && strncmp(mine, "mnt:[", 5) == 0,
          "ns: a number of mounts");
    check(readlink("/proc/thread-self/ns/mnt", first, sizeof first - 1) > 0 && strcmp(first, mine) == 0,
          "ns: a thread's is the same");
    struct stat about;
    check(stat("/proc/self/ns/mnt", &about) == 0 && about.st_ino == strtoul(mine + 5, 0, 10),
          "ns: the file has that number");
    int fd = open("/proc/self/ns/mnt", O_RDONLY);
    check(fd >= 0, "ns: it can be opened");
    equal(ioctl(fd, 0xb703), 0x20000, "ns: and says of what kind it is");
    fails(read(fd, text, 1), EINVAL, "ns: it has no bytes");
    close(fd);
}

#include "sysfs-names.h"

/* The faults of the program that it did not wait for: stat has what getrusage says. */
static void faults(void)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    whole("/proc/self/stat");
    getrusage(RUSAGE_SELF, &after);
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 10; field++)
        at = strchr(at + 1, ' ');
    long told = at ? atol(at + 1) : -1;
    check(told > 0 && told >= before.ru_minflt && told <= after.ru_minflt, "stat: the faults so far");
}

/* Writes a text to a file; how much, or -1. */
static int put(const char *path, const char *said)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int count = fd < 0 ? -1 : (int)write(fd, said, strlen(said));
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return count;
}

/* A process says once who has logged in, as sshd and cron do; its children know it, and keep it. */
static void logins(void)
{
    static const char own[] = "/proc/self/loginuid";
    char others[64];
    equal(number(own), 4294967295, "nobody has logged in");
    equal(whole(own), 10, "a number, and no line");
    fails(put(own, "no"), EINVAL, "a word is no user");
    snprintf(others, sizeof others, "/proc/%d/loginuid", getppid());
    fails(put(others, "1000"), EPERM, "each says it of itself alone");
    equal(put(own, "1000"), 4, "a user has logged in");
    equal(number(own), 1000, "who is known");
    long session = number("/proc/self/sessionid");
    check(session != 4294967295, "with a session");
    pid_t child = fork();
    if (child == 0) {
        int bad = number(own) != 1000 || number("/proc/self/sessionid") != session;
        if (setresuid(1000, 1000, 1000) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
            _exit(4);
        if (put(own, "1001") != -1 || errno != EPERM || number(own) != 1000)
            bad |= 2;
        _exit(bad);
    }
    int status = -1;
    waitpid(child, &status, 0);
    equal(status, 0, "a child knows it, and cannot become another");
}

static const struct group groups[] = {
    {"timers", timers},   {"blocks", blocks},           {"namespaces", namespaces},
    {"counts", counts},   {"devices", devices},         {"processors", processors},
    {"network", network}, {"processes", process_group}, {"descriptors", descriptors},
    {"names", names},     {"faults", faults},           {"logins", logins},
};

int main(int argc, char **argv, char **environment)
{
    arguments = argv;
    variables = environment;
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

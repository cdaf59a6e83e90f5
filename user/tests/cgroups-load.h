/* Control groups under load: hostile users, races, and shares of the CPU: a part of `cgroups`.
 *
 * Interface: the groups hostile, races, times, shares and spread.
 */
#ifndef CGROUPS_LOAD_H
#define CGROUPS_LOAD_H

/* Any text may be written. */
static void hostile(void)
{
    static const char *files[] = {"cgroup.procs", "cgroup.threads",   "cgroup.subtree_control",
                                  "cgroup.type",  "cgroup.max.depth", "cgroup.max.descendants",
                                  "cpu.weight",   "cpu.weight.nice",  "pids.max"};
    static char large[70000];
    put(at("cgroup.subtree_control"), "+cpu +pids");
    make("t");
    int right = 1;
    memset(large, '7', sizeof large);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        int fd = open(at("t/%s", files[i]), O_RDWR);
        right &= fd >= 0;
        for (size_t length = 1; length < sizeof large; length = length * 3 + 1)
            right &= length < 8 || write(fd, large, length) < 0;
        right &= syscall(SYS_write, fd, 1, 100) < 0;
        for (int round = 0; round < 300; round++) {
            char bytes[64];
            size_t length = roll(sizeof bytes);
            for (size_t j = 0; j < length; j++)
                bytes[j] = roll(3) ? " +-0123456789maxcpuids\n"[roll(23)] : (char)roll(256);
            /* No process is to be moved by chance. */
            if (i < 2 && length > 0)
                bytes[0] = 'x';
            if (pwrite(fd, bytes, length, roll(2) ? 0 : roll(1 << 20)) < 0 && errno == EFAULT)
                right = 0;
            lseek(fd, roll(100), SEEK_SET);
            char back[100];
            right &= read(fd, back, sizeof back) >= 0;
        }
        close(fd);
    }
    check(right, "long and random texts");
    put(at("t/cgroup.max.depth"), "max");
    put(at("t/cgroup.max.descendants"), "max");
    put(at("t/cgroup.subtree_control"), "-cpu -pids");
    /* As deep as it goes, by relative paths. */
    int depth = 0, up = open(".", O_RDONLY | O_DIRECTORY);
    chdir(at("t"));
    while (depth < 5000 && mkdir("d", 0755) == 0 && chdir("d") == 0)
        depth++;
    int error = errno;
    check(depth >= 16 && (depth == 5000 || error == EAGAIN || error == ENOMEM),
          "a deep hierarchy ends somewhere");
    printf("# %d levels\n", depth);
    pid_t child = fork();
    if (child == 0)
        _exit(put("cgroup.procs", "0") != 0 || field("cgroup.events", "populated") != 1);
    equal(status_of(child), 0, "a process is at its end");
    for (int i = 0; i < depth; i++)
        if (chdir("..") != 0 || (rmdir("d") != 0 && (pause_for(0.1), rmdir("d") != 0)))
            right = 0;
    check(right, "it is removed");
    fchdir(up);
    close(up);
    /* As many as a user may have. */
    chmod(at("t"), 0777);
    child = fork();
    if (child == 0) {
        if (setuid(1000) != 0)
            _exit(1);
        int count = 0, most = 20000;
        while (count < most && mkdir(at("t/%d", count), 0755) == 0)
            count++;
        int error = errno;
        printf("# %d groups of a user, errno %d\n", count, error);
        fflush(stdout);
        int bad = count < 100 || (count < most && error != ENOMEM && error != EAGAIN);
        while (count-- > 0)
            bad |= rmdir(at("t/%d", count)) != 0;
        _exit(bad);
    }
    equal(status_of(child), 0, "many groups end somewhere too");
    equal(removed_soon("t"), 0, "all is removed");
    put(at("cgroup.subtree_control"), "-cpu -pids");
}

static volatile int *stop;

/* Processes that fork, move each other and themselves, and make and remove groups, all at once. */
static void races(void)
{
    stop = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    put(at("cgroup.subtree_control"), "+cpu +pids");
    make("t");
    pid_t children[8];
    for (int i = 0; i < 8; i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        dice = i + 1;
        while (!*stop) {
            char name[32];
            snprintf(name, sizeof name, "t/%d", (int)roll(4));
            switch (roll(7)) {
            case 0:
                make(name);
                break;
            case 1:
                removed(name);
                break;
            case 2:
                goes(0, name);
                break;
            case 3:
                goes(children[roll(i + 1)], name);
                break;
            case 4: {
                pid_t child = fork();
                if (child == 0) {
                    goes(0, name);
                    _exit(0);
                }
                if (child > 0)
                    waitpid(child, 0, 0);
                break;
            }
            case 5: {
                pthread_t thread;
                pthread_barrier_t gate;
                pthread_barrier_init(&gate, 0, 2);
                if (pthread_create(&thread, 0, waits, &gate) == 0) {
                    pthread_barrier_wait(&gate);
                    goes(0, name);
                    pthread_barrier_wait(&gate);
                    pthread_join(thread, 0);
                }
                break;
            }
            default:
                put(at("%s/cpu.weight", name), roll(2) ? "10" : "1000");
                text_of(at("%s/cgroup.threads", name));
                text_of(at("%s/cpu.stat", name));
            }
        }
        _exit(0);
    }
    pause_for(3);
    *stop = 1;
    int ended = 1;
    for (int i = 0; i < 8; i++)
        ended &= status_of(children[i]) == 0;
    check(ended, "all of them end");
    int gone = 1;
    for (int i = 0; i < 4; i++)
        if (removed_soon(i == 0 ? "t/0" : i == 1 ? "t/1" : i == 2 ? "t/2" : "t/3") != 0)
            gone &= errno == ENOENT;
    check(gone, "no group has a process any more");
    equal(removed_soon("t"), 0, "nor that around them");
    put(at("cgroup.subtree_control"), "-cpu -pids");
}

static pid_t busy(const char *group, int niceness)
{
    pid_t child = fork();
    if (child == 0) {
        if (group[0] && goes(0, group) != 0)
            _exit(1);
        if (niceness && nice(niceness) == -1)
            _exit(1);
        for (;;)
            ;
    }
    return child;
}

static double used_in(const char *group) { return field(at("%s/cpu.stat", group), "usage_usec") / 1e6; }

/* The part of the time of some groups that each of them uses in so many seconds. */
static void measure(const char *const *groups, int count, double time, double *parts)
{
    double before[8], sum = 0;
    for (int i = 0; i < count; i++)
        before[i] = used_in(groups[i]);
    pause_for(time);
    for (int i = 0; i < count; i++)
        sum += parts[i] = used_in(groups[i]) - before[i];
    for (int i = 0; i < count; i++) {
        parts[i] /= sum > 0 ? sum : 1;
        printf("# %s: %.1f %%\n", groups[i], parts[i] * 100);
    }
    fflush(stdout);
}

/* So many seconds show the parts. */
static double window(void) { return getenv("LONG") ? 1 : 0.4; }

static int near(double part, double wanted) { return part > wanted * 0.9 && part < wanted * 1.1; }

static pid_t working[32];
static int workers;

static void work(const char *group, int niceness) { working[workers++] = busy(group, niceness); }

static void rest(void)
{
    while (workers > 0)
        kill_child(working[--workers]);
}

/* The root's time grows, whatever niceness uses the processor. */
static void times(void)
{
    static const int niceness[] = {0, 10, 19};
    for (int i = 0; i < 3; i++) {
        long user = field(at("cpu.stat"), "user_usec"), all = field(at("cpu.stat"), "usage_usec");
        pid_t child = fork();
        if (child == 0) {
            struct timespec used = {0};
            if (niceness[i] && nice(niceness[i]) == -1)
                _exit(1);
            while (used.tv_sec == 0 && used.tv_nsec < 500000000) {
                for (volatile int count = 0; count < 1000000; count++)
                    ;
                clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
            }
            _exit(0);
        }
        equal(status_of(child), 0, "a process that computes for half a second");
        user = field(at("cpu.stat"), "user_usec") - user;
        all = field(at("cpu.stat"), "usage_usec") - all;
        printf("# niceness %d: %ld of %ld us\n", niceness[i], user, all);
        check(user > 250000 && all >= user - 1, "is in the root's time, whatever its niceness");
    }
}

static void shares(void)
{
    static const char *two[] = {"a", "b"}, *nested[] = {"a/x", "a/y", "b"};
    double part[8];
    put(at("cgroup.subtree_control"), "+cpu");
    make("a");
    make("b");
    work("a", 0);
    for (int i = 0; i < 5; i++)
        work("b", 0);
    pause_for(0.3);
    measure(two, 2, window(), part);
    check(near(part[0], 0.5) && near(part[1], 0.5),
          "one thread has as much as five in a group of the same weight");
    double used = 0;
    for (int i = 1; i < 6; i++)
        used += used_by(working[i]);
    check(near(used_in("b"), used), "a group's time is that of its processes");
    put(at("a/cpu.weight"), "300");
    pause_for(0.3);
    measure(two, 2, window(), part);
    check(near(part[0], 0.75) && near(part[1], 0.25), "three times the weight, three times the time");
    put(at("a/cpu.weight"), "10");
    pause_for(0.3);
    measure(two, 2, window(), part);
    check(near(part[0], 1 / 11.), "a tenth of it");
    put(at("a/cpu.weight"), "10000");
    put(at("b/cpu.weight"), "100");
    pause_for(0.3);
    measure(two, 2, window(), part);
    check(near(part[0], 100 / 101.), "a hundred times as much");
    rest();
    put(at("a/cpu.weight"), "100");
    work("a", 0);
    work("a", 5);
    work("b", 0);
    pause_for(0.3);
    measure(two, 2, window(), part);
    check(near(part[0], 0.5), "niceness is a matter within the group");
    double first = used_by(working[0]), second = used_by(working[1]);
    printf("# within: %.3f and %.3f s\n", first, second);
    check(near(first / (first + second), 1024 / (1024 + 335.)), "where it has its meaning");
    rest();
    put(at("a/cgroup.subtree_control"), "+cpu");
    make("a/x");
    make("a/y");
    put(at("a/cpu.weight"), "200");
    put(at("a/y/cpu.weight"), "300");
    work("a/x", 0);
    work("a/x", 0);
    work("a/y", 0);
    work("b", 0);
    work("b", 0);
    work("b", 0);
    pause_for(0.3);
    measure(nested, 3, window(), part);
    check(near(part[0], 2 / 12.) && near(part[1], 6 / 12.) && near(part[2], 4 / 12.),
          "weights count at each level");
    rest();
    /* Beside groups, each thread of the root counts as one. */
    work("", 0);
    pid_t outside = working[0];
    work("b", 0);
    work("b", 0);
    work("b", 0);
    pause_for(0.3);
    double before = used_by(outside), of_b = used_in("b");
    pause_for(window());
    before = used_by(outside) - before;
    of_b = used_in("b") - of_b;
    printf("# outside %.3f s, b %.3f s\n", before, of_b);
    check(near(before / (before + of_b), 0.5),
          "a thread of no group has as much as a group of the usual weight");
    rest();
    /* A group that sleeps leaves its time to others. */
    work("a/x", 0);
    pause_for(0.3);
    measure(nested, 3, 0.5, part);
    check(near(part[0], 1), "time that no other wants is not kept from a group");
    rest();
    equal(removed_soon("a/x") | removed_soon("a/y") | removed_soon("a") | removed_soon("b"), 0,
          "all is removed");
    put(at("cgroup.subtree_control"), "-cpu");
}

/* On several processors, what comes out is printed; no group is left without. */
static void spread(void)
{
    static const char *two[] = {"a", "b"};
    double part[8];
    put(at("cgroup.subtree_control"), "+cpu");
    make("a");
    make("b");
    for (int i = 0; i < 4; i++)
        work("a", 0);
    for (int i = 0; i < 12; i++)
        work("b", 0);
    pause_for(1);
    measure(two, 2, 3, part);
    check(part[0] > 0.2 && part[1] > 0.2, "two groups of the same weight share the machine");
    put(at("b/cpu.weight"), "300");
    pause_for(1);
    measure(two, 2, 3, part);
    check(part[0] > 0.05 && part[1] > 0.4, "and by their weights");
    rest();
    equal(removed_soon("a") | removed_soon("b"), 0, "all is removed");
    put(at("cgroup.subtree_control"), "-cpu");
}
#endif

/* Streams whose bytes are checked while filters come and go: a part of `filters`.
 *
 * Interface: the last groups of `filters`.
 */
#ifndef FILTERS_STREAMS_H
#define FILTERS_STREAMS_H

/* --- Streams whose bytes are checked while filters come and go --- */

static volatile int over;

struct flow {
    int to, from;
    int step; /* Bytes at a time, at most. */
    long wrong, moved;
};

/* The byte at this place: letters that a filter changes, and others. */
static char byte_at(long place) { return place % 7 ? 'a' + place % 26 : '0' + place / 7 % 10; }

static void *writes(void *argument)
{
    struct flow *flow = argument;
    static __thread char bytes[8192];
    unsigned seed = flow->step;
    for (long place = 0; !over;) {
        int count = 1 + rand_r(&seed) % flow->step;
        for (int i = 0; i < count; i++)
            bytes[i] = byte_at(place + i);
        ssize_t done = write(flow->to, bytes, count);
        if (done < 0)
            break;
        place += done;
    }
    shutdown(flow->to, SHUT_WR);
    close(flow->to);
    return 0;
}

static void *reads(void *argument)
{
    struct flow *flow = argument;
    static __thread char bytes[8192];
    unsigned seed = flow->step + 1;
    for (long place = 0;;) {
        ssize_t count = read(flow->from, bytes, 1 + rand_r(&seed) % flow->step);
        if (count <= 0)
            break;
        for (ssize_t i = 0; i < count; i++, place++) {
            char lower = byte_at(place), upper = lower >= 'a' ? lower - 32 : lower;
            flow->wrong += bytes[i] != lower && bytes[i] != upper;
        }
        flow->moved = place;
    }
    return 0;
}

static void storm(void)
{
    enum { FLOWS = 4, ROUNDS = 150 };
    struct flow flows[FLOWS];
    pthread_t threads[FLOWS][2];
    over = 0;
    for (int i = 0; i < FLOWS; i++) {
        int ends[2];
        if (i % 2)
            socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        else if (pipe(ends))
            return;
        flows[i] = (struct flow){.to = ends[1], .from = ends[0], .step = i < 2 ? 300 : 8192};
        pthread_create(&threads[i][0], 0, writes, &flows[i]);
        pthread_create(&threads[i][1], 0, reads, &flows[i]);
    }
    unsigned seed = 11;
    int filters[FLOWS][2], there[FLOWS][2] = {0}, failed = 0;
    for (int i = 0; i < FLOWS; i++)
        for (int way = 0; way < 2; way++)
            filters[i][way] = syn_make("Upper", 0);
    for (int round = 0; round < ROUNDS; round++) {
        int i = rand_r(&seed) % FLOWS, way = rand_r(&seed) % 2,
            fd = way == SYN_IN ? flows[i].from : flows[i].to;
        long result =
            there[i][way] ? syn_remove(fd, way, filters[i][way]) : syn_insert(fd, way, filters[i][way]);
        if (result)
            failed++;
        else
            there[i][way] = !there[i][way];
        if (rand_r(&seed) % 4 == 0)
            usleep(rand_r(&seed) % 2000);
    }
    over = 1;
    for (int i = 0; i < FLOWS; i++) {
        pthread_join(threads[i][0], 0);
        pthread_join(threads[i][1], 0);
        check(flows[i].wrong == 0, "every byte is right, or as the filter has it");
        check(flows[i].moved > 0, "and there were some");
        printf("# %ld bytes, %ld wrong\n", flows[i].moved, flows[i].wrong);
        close(flows[i].from);
        close(filters[i][0]);
        close(filters[i][1]);
    }
    equal(failed, 0, "filters came and went");
}

/* Several threads at each end of one pipe, by routines and, what is longer, plainly. Each byte passes the
 * filters of both ends once, in the order of the pipe: so both checksums are that of the bytes in this
 * order. */
static struct flow crowded;

static void *crowds(void *argument)
{
    static __thread char bytes[400];
    unsigned seed = (long)argument;
    for (int i = 0; i < 4000; i++) {
        int count = 1 + rand_r(&seed) % (i % 8 ? 250 : 400);
        for (int j = 0; j < count; j++)
            bytes[j] = rand_r(&seed);
        if (write(crowded.to, bytes, count) != count)
            __atomic_fetch_add(&crowded.wrong, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&crowded.moved, count, __ATOMIC_RELAXED);
    }
    return 0;
}

static void *drains(void *argument)
{
    static __thread char bytes[400];
    unsigned seed = (long)argument;
    for (int i = 0;; i++) {
        ssize_t count = read(crowded.from, bytes, 1 + rand_r(&seed) % (i % 8 ? 250 : 400));
        if (count <= 0)
            return 0;
        __atomic_fetch_sub(&crowded.moved, count, __ATOMIC_RELAXED);
    }
}

static void crowd(void)
{
    int ends[2], in = syn_make("Checksum", 0), out = syn_make("Checksum", 0), tap = syn_make("Tap", 0),
                 gauge = syn_make("Gauge", 0);
    check(pipe(ends) == 0, "a pipe");
    syn_link(tap, "each", gauge, "count");
    syn_insert(ends[1], SYN_OUT, out);
    syn_insert(ends[0], SYN_IN, tap);
    syn_insert(ends[0], SYN_IN, in);
    crowded = (struct flow){.to = ends[1], .from = ends[0]};
    check(probes(ends[0], "") && probes(ends[1], ""), "probes");
    pthread_t writers[3], readers[3];
    for (long i = 0; i < 3; i++) {
        pthread_create(&writers[i], 0, crowds, (void *)(i + 1));
        pthread_create(&readers[i], 0, drains, (void *)(i + 4));
    }
    for (int i = 0; i < 3; i++)
        pthread_join(writers[i], 0);
    long served[2][2];
    probed(ends[1], "write", served[1]);
    close(ends[1]);
    for (int i = 0; i < 3; i++)
        pthread_join(readers[i], 0);
    equal(crowded.wrong, 0, "all is written");
    equal(crowded.moved, 0, "and read");
    probed(ends[0], "read", served[0]);
    printf("# of %ld reads %ld by the routine, of %ld writes %ld\n", served[0][0], served[0][1], served[1][0],
           served[1][1]);
    check(served[0][1] > 0 && served[1][1] > 0, "by the routines, too");
    long sums[2] = {syn_invoke(in, syn_entry(in, "value"), 0), syn_invoke(out, syn_entry(out, "value"), 0)};
    check(sums[0] == sums[1], "each byte has passed both ends once, in one order");
    printf("# %lx, %lx, %ld bytes\n", sums[0], sums[1], syn_invoke(gauge, syn_entry(gauge, "read"), 0));
    close(ends[0]);
    close(in);
    close(out);
    close(tap);
    close(gauge);
}

/* Insertions while another thread forks: a child that comes behind one has the filter, in whatever order
 * the two were done. */
static int fork_ends[2];
static volatile int fork_go;
static int fork_filter;

static void *inserts(void *unused __attribute__((unused)))
{
    while (!fork_go)
        ;
    syn_insert(fork_ends[1], SYN_OUT, fork_filter);
    return 0;
}

static void forks(void)
{
    int wrong = 0;
    for (int round = 0; round < 60; round++) {
        int go[2];
        if (pipe(fork_ends) || pipe(go))
            return;
        for (int i = 0; i < 3; i++)
            if (write(fork_ends[1], "warm", 4) != 4 || !same(fork_ends[0], "warm"))
                wrong++;
        fork_filter = syn_make("Upper", 0);
        fork_go = 0;
        pthread_t thread;
        pthread_create(&thread, 0, inserts, 0);
        fork_go = 1;
        for (volatile int i = 0; i < round * 200; i++)
            ;
        pid_t child = fork();
        if (child == 0) {
            char byte;
            if (read(go[0], &byte, 1) != 1)
                _exit(1);
            for (int i = 0; i < 3; i++)
                if (write(fork_ends[1], "born", 4) != 4)
                    _exit(1);
            _exit(0);
        }
        pthread_join(thread, 0);
        if (write(go[1], "", 1) != 1)
            wrong++;
        wrong += status_of(child) != 0;
        wrong += !same(fork_ends[0], "BORNBORNBORN");
        close(fork_ends[0]);
        close(fork_ends[1]);
        close(go[0]);
        close(go[1]);
        close(fork_filter);
    }
    equal(wrong, 0, "children that are born meanwhile have the filter");
}

/* Kibibytes of generated code. */
static long code(void)
{
    shows("/syn/memory", "generated code");
    char *line = strstr(shown, "generated code, memory");
    line = line ? strstr(line, "in use") : 0;
    return line ? atol(line + 6) : -1;
}

static void nothing_left(void)
{
    int ends[2], upper = syn_make("Upper", 0);
    if (pipe(ends))
        return;
    long before = code();
    for (int i = 0; i < 300; i++) {
        syn_insert(ends[1], SYN_OUT, upper);
        syn_remove(ends[1], SYN_OUT, upper);
    }
    long after = code();
    printf("# %ld and %ld KiB of code\n", before, after);
    check(before >= 0 && after <= before + 64, "insertions leave no code behind");
    close(upper);
    close(ends[0]);
    close(ends[1]);
    check(!shows("/syn/filters", "Upper"), "no filter is left");
}
#endif

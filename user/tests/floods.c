/* Programs beside a device that interrupts without a pause.
 *
 * `floods bytes COUNT PERCENT NAME`: standard input has so many bytes, byte i is pattern(i), by the interrupt
 * NAME. A program that computes must keep PERCENT of what it computes alone in the same time, and each byte
 * must arrive. `floods beside SECONDS PERCENT NAME`: a device floods from time to time, and this program
 * computes, which must keep PERCENT; while the device floods it is polled, and no longer.
 */
#include "processes.h"
#include <sys/mman.h>
#include <sys/resource.h>

static unsigned char pattern(long i) { return (unsigned char)(i * 167 + (i >> 8) * 13 + (i >> 16)); }

/* The number of the interrupts of `name` in /proc/interrupts. */
static long interrupts(const char *name)
{
    static char text[16384];
    int fd = open("/proc/interrupts", O_RDONLY);
    long len = fd < 0 ? 0 : read(fd, text, sizeof text - 1), sum = 0;
    close(fd);
    text[len > 0 ? len : 0] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n")) {
        char *colon = strchr(line, ':');
        if (colon && strstr(line, name))
            sum += strtol(colon + 1, 0, 10);
    }
    return sum;
}

static double own_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* The line of /syn/interrupts with `name`. */
static const char *line_of(const char *name)
{
    static char text[16384];
    int fd = open("/syn/interrupts", O_RDONLY);
    long len = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    close(fd);
    text[len > 0 ? len : 0] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n"))
        if (strstr(line, name))
            return line;
    return "";
}

/* The number before `word` in `line`. */
static long before(const char *line, const char *word)
{
    const char *end = strstr(line, word);
    if (!end)
        return 0;
    while (end > line && end[-1] >= '0' && end[-1] <= '9')
        end--;
    return atol(end);
}

/* As long in instructions each time. */
static void piece(void)
{
    for (volatile int i = 0; i < 400; i++)
        ;
}

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

static void compute_beside(double length, double least, const char *name)
{
    double begun = seconds(), end = begun + length, from = begun, look = from;
    double shortest = 1, longest = 0, shortest_look = 1, longest_look = 0;
    long pieces = 0, looks[2] = {0};
    while (from < end) {
        piece();
        pieces++;
        double now = seconds();
        shortest = smaller(shortest, now - from);
        longest = larger(longest, now - from);
        from = now;
        if (now < look + 0.1)
            continue;
        looks[strstr(line_of(name), "polled every") != 0]++;
        from = seconds();
        shortest_look = smaller(shortest_look, from - now);
        longest_look = larger(longest_look, from - now);
        look = from;
    }
    double work = pieces * shortest + (looks[0] + looks[1]) * shortest_look, share = work / (from - begun);
    double stopped = larger(longest - shortest, longest_look - shortest_look);
    const char *line = line_of(name);
    printf("# it had %.1f %% of the CPU, and for at most %.1f ms none; polled at %ld looks of %ld: %s\n",
           100 * share, stopped * 1e3, looks[1], looks[0] + looks[1], line);
    check(looks[1] > 0 && before(line, " polls") > 100, "the device is polled while it floods");
    check(looks[0] > 0 && before(line, " floods") > 1,
          "and interrupts by itself again when the flood has ended");
    check(share >= least / 100, "a program keeps its share beside a device that floods half of the time");
    check(stopped < 0.05, "and is never stopped for long");
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        check(0, "there are three words behind what to do");
        return done();
    }
    double least = atof(argv[3]);
    const char *name = argv[4];
    if (strcmp(argv[1], "beside") == 0) {
        compute_beside(atof(argv[2]), least, name);
        return done();
    }
    long bytes = atol(argv[2]);
    volatile long *counter = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t hog = fork();
    if (hog == 0)
        for (;;)
            ++*counter;
    pause_for(0.1);
    double begun = seconds();
    long first = *counter;
    pause_for(0.5);
    double alone = (*counter - first) / (seconds() - begun);
    long taken = interrupts(name), got = 0, reads = 0;
    int wrong = 0;
    double own = own_seconds();
    begun = seconds();
    first = *counter;
    static unsigned char buffer[4096];
    while (got < bytes) {
        long n = read(0, buffer, sizeof buffer);
        if (n <= 0)
            break;
        reads++;
        for (long i = 0; i < n; i++)
            wrong |= buffer[i] != pattern(got + i);
        got += n;
    }
    double took = seconds() - begun;
    double beside = (*counter - first) / took;
    own = own_seconds() - own;
    taken = interrupts(name) - taken;
    printf("# %ld bytes in %.3f s, %ld interrupts (%.0f in a second), %ld reads; computed %.1f %% of what it "
           "does alone, the reader had %.1f %%\n",
           got, took, taken, taken / took, reads, 100 * beside / alone, 100 * own / took);
    printf("# %s\n", line_of(name));
    equal(got, bytes, "all bytes come");
    check(!wrong, "and in their order");
    check(beside >= alone * least / 100, "the program that computes keeps its share");
    kill_child(hog);
    return done();
}

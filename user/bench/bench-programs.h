/* The dissertation's seven programs, each as a whole.
 *
 * Interface: program_1 to program_7, for the table of bench.c. They use open_close of bench-descriptors.h.
 *
 * Source: the dissertation's appendix A; this is our text of them.
 */

/* --- appendix A: whole programs --- */

#define CHAOS 500000
static int chaos[CHAOS];

static void program_1(long n)
{
    while (n--)
        for (int pass = 0; pass < 5; pass++) {
            chaos[0] = chaos[1] = 1;
            for (int i = 2; i < CHAOS; i++)
                chaos[i] = chaos[i - chaos[i - 1]] + chaos[i - chaos[i - 2]];
            __asm__ volatile("" : : "r"(chaos) : "memory");
        }
}

static void pipe_program(long size)
{
    int fd[2];
    must(pipe(fd) == 0, "pipe");
    for (int i = 10000; i--;) {
        call(SYS_write, fd[1], (long)page, size);
        call(SYS_read, fd[0], (long)page, size);
    }
    close(fd[0]);
    close(fd[1]);
}

static void program_2(long n)
{
    while (n--)
        pipe_program(1);
}
static void program_3(long n)
{
    while (n--)
        pipe_program(KIB);
}
static void program_4(long n)
{
    while (n--)
        pipe_program(PAGE);
}

static void program_5(long n)
{
    while (n--) {
        int fd = open("/tmp/bench-program", O_RDWR | O_CREAT | O_TRUNC, 0666);
        must(fd >= 0, "create");
        for (int pass = 1000; pass--;) {
            call(SYS_lseek, fd, 0, SEEK_SET);
            for (int i = 10; i--;)
                call(SYS_write, fd, (long)page, KIB);
            call(SYS_lseek, fd, 0, SEEK_SET);
            for (int i = 10; i--;)
                call(SYS_read, fd, (long)page, KIB);
        }
        close(fd);
    }
}

static void program_6(long n)
{
    while (n--)
        open_close("/dev/null", 10000);
}
static void program_7(long n)
{
    while (n--)
        open_close("/dev/console", 10000);
}

/* Executes broken copies of a program: each may fail or die, none may hurt the machine.
 *
 * Interface: corrupt PROGRAM COUNT SEED. Truncates, flips bytes in the headers, and puts wild values into
 * program headers. Prints `ok COUNT copies`.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t state;

static uint64_t random64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dULL;
}

int main(int argc, char **argv)
{
    static const uint64_t wild[] = {0,
                                    1,
                                    0xfff,
                                    0x1000,
                                    0x7ffffffff000,
                                    0x800000000000,
                                    0xffff800000000000,
                                    0xffffffff80100000,
                                    0xffffffffffffffff,
                                    0x7fffffffffffffff,
                                    0xffffffff};
    if (argc < 4)
        return 2;
    int fd = open(argv[1], O_RDONLY), count = atoi(argv[2]);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return 2;
    char *whole = malloc(st.st_size), *copy = malloc(st.st_size);
    if (read(fd, whole, st.st_size) != st.st_size)
        return 2;
    close(fd);
    state = strtoull(argv[3], 0, 0) | 1;
    for (int i = 0; i < count; i++) {
        long size = st.st_size, headers = 64 + 56 * 10;
        memcpy(copy, whole, size);
        switch (i % 4) {
        case 0:
            size = random64() % (i % 8 ? size : headers);
            break;
        case 1:
            for (int j = 0; j < 1 + (int)(random64() % 8); j++)
                copy[random64() % headers] = random64();
            break;
        case 2:
            for (int j = 0; j < 1 + (int)(random64() % 3); j++)
                memcpy(copy + 64 + random64() % 560 / 8 * 8, &wild[random64() % 11], 8);
            break;
        default:
            memcpy(copy + 24 + random64() % 40 / 8 * 8, &wild[random64() % 11], 8);
        }
        unlink("/tmp/corrupt");
        fd = open("/tmp/corrupt", O_WRONLY | O_CREAT | O_TRUNC, 0755);
        if (fd < 0 || write(fd, copy, size) != size)
            return 3;
        close(fd);
        pid_t child = fork();
        if (child == 0) {
            int null = open("/dev/null", O_RDWR);
            dup2(null, 0), dup2(null, 1), dup2(null, 2);
            alarm(2);
            execl("/tmp/corrupt", "corrupt", (char *)0);
            _exit(77);
        }
        if (child < 0 || waitpid(child, 0, 0) != child)
            return 4;
    }
    unlink("/tmp/corrupt");
    printf("ok %d copies\n", count);
    return 0;
}

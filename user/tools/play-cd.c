/* Plays a CD: the program of figure 6.7 of the dissertation, which here ends with the CD. */
#include <fcntl.h>
#include <unistd.h>

int main(void)
{
    char buf[100];
    int n, fd1, fd2;

    fd1 = open("/dev/cd", O_RDONLY);
    fd2 = open("/dev/speaker", O_WRONLY);
    if (fd1 < 0 || fd2 < 0)
        return 1;
    for (;;) {
        n = read(fd1, buf, 100);
        if (n <= 0)
            return n < 0;
        if (write(fd2, buf, n) != n)
            return 1;
    }
}

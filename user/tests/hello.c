/* Shows what a program got: arguments, one environment variable, standard input; exits with their count.
 *
 * Interface: hello [ARG...]; prints `arg N: ARG` lines, `GREETING=...`, then standard input in upper case.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const char *greeting = getenv("GREETING");
    int c;
    for (int i = 0; i < argc; i++)
        printf("arg %d: %s\n", i, i ? argv[i] : "-");
    printf("GREETING=%s\n", greeting ? greeting : "(none)");
    printf("%.3f\n", argc * 1.5);
    while ((c = getchar()) != EOF)
        putchar(toupper(c));
    return argc;
}

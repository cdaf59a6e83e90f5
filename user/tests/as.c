/* Runs a program as another user, with all its ids and no other groups.
 *
 * Interface: as USER PROGRAM [ARG...]; USER is a number. It becomes the program, which finds
 * the number in the variable TEST_USER.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    uid_t user = argc > 2 ? atoi(argv[1]) : 0;
    if (user == 0) {
        fprintf(stderr, "usage: as USER PROGRAM [ARG...]\n");
        return 2;
    }
    if (setgroups(0, 0) || setresgid(user, user, user) || setresuid(user, user, user)) {
        perror("as");
        return 2;
    }
    setenv("TEST_USER", argv[1], 1);
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}

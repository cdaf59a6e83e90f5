/* How test programs report: one line for each check, in the Test Anything Protocol.
 *
 * Interface: check(condition, name), equal(actual, expected, name) and fails(call, errno, name) print `ok N
 * name` or `not ok N name`. run_groups() runs the groups of checks that the arguments name. done() prints
 * the plan and gives the exit status. repeats(n) says how often to try what goes wrong by chance: n times
 * with the variable LONG, which a long run of the suites sets, else a quarter of that.
 */
#ifndef TAP_H
#define TAP_H
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_count, tap_failed;

static inline int tap_report(int good, const char *name)
{
    tap_count++;
    if (!good)
        tap_failed++;
    printf("%sok %d %s\n", good ? "" : "not ", tap_count, name);
    fflush(stdout);
    return good;
}

static inline int check(int good, const char *name)
{
    int error = errno;
    if (!tap_report(good, name))
        printf("# errno %d (%s)\n", error, strerror(error));
    fflush(stdout);
    return good;
}

static inline int equal(long actual, long expected, const char *name)
{
    int error = errno;
    if (!tap_report(actual == expected, name))
        printf("# got %ld, expected %ld, errno %d (%s)\n", actual, expected, error, strerror(error));
    fflush(stdout);
    return actual == expected;
}

/* The call must fail with this errno. */
#define fails(call, error, name)                                                          \
    do {                                                                                  \
        errno = 0;                                                                        \
        long tap_result = (long)(call);                                                   \
        int tap_errno = errno;                                                            \
        if (!tap_report(tap_result == -1 && tap_errno == (error), name))                  \
            printf("# got %ld, errno %d (%s), expected %d (%s)\n", tap_result, tap_errno, \
                   strerror(tap_errno), (error), #error);                                 \
        fflush(stdout);                                                                   \
    } while (0)

static inline int done(void)
{
    printf("1..%d\n", tap_count);
    fflush(stdout);
    return tap_failed != 0;
}

static inline int repeats(int n) { return getenv("LONG") ? n : (n + 3) / 4; }

struct group {
    const char *name;
    void (*run)(void);
};

/* Runs those of `count` groups that are named (a name of none is a failed check), or without names all but
 * `asked` (which may be null). */
static inline void run_groups(const struct group *groups, size_t count, const char *asked, int argc,
                              char **argv)
{
    for (size_t i = 0; i < count; i++) {
        int wanted = argc < 2 && !(asked && strcmp(groups[i].name, asked) == 0);
        for (int j = 1; j < argc; j++)
            wanted |= strcmp(argv[j], groups[i].name) == 0;
        if (wanted) {
            printf("# %s\n", groups[i].name);
            fflush(stdout);
            groups[i].run();
        }
    }
    for (int j = 1; j < argc; j++) {
        int known = 0;
        for (size_t i = 0; i < count; i++)
            known |= strcmp(argv[j], groups[i].name) == 0;
        if (!known)
            tap_report(0, argv[j]);
    }
}

#define GROUPS(groups) groups, sizeof groups / sizeof *groups
#endif

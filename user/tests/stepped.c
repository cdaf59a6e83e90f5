/* The subject of a debugger: a program with threads, linked with libraries that it shares, at an address of
 * the system's choice.
 *
 * Interface: stepped counts in two threads, adds up, and prints the sum. The suite `tools` names its
 * functions, variables and their values.
 */
#include <pthread.h>
#include <stdio.h>

struct part {
    const char *name;
    int first, last, sum;
};

static struct part parts[] = {{"lower", 1, 10, 0}, {"upper", 11, 20, 0}};
int total;

static void *work(void *argument)
{
    struct part *part = argument;
    for (int i = part->first; i <= part->last; i++)
        part->sum += i;
    return part;
}

static int add(int left, int right)
{
    int sum = left + right;
    return sum;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, work, &parts[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    total = add(parts[0].sum, parts[1].sum);
    printf("%d\n", total);
    return 0;
}

/* The peers of the generated code, compiled with gcc -O2. */
#include <stdio.h>

/* Buffer put after figure 3.1: store, advance, compare with the end. */
struct buffer {
    char *at, *end, *start;
    long flushed;
};

__attribute__((noinline)) static void flush(struct buffer *b)
{
    b->at = b->start;
    b->flushed++;
}

void peer_put(struct buffer *b, char c)
{
    *b->at++ = c;
    if (b->at == b->end)
        flush(b);
}

/* putchar as a program has it: the in-line form of the C library. */
void peer_putchars(FILE *f, long n)
{
    for (long i = 0; i < n; i++)
        putc_unlocked('x', f);
}

/* Dispatch through a table of function pointers with a bound check. */
typedef long (*handler)(long);
struct table {
    unsigned long n;
    handler handler[];
};

long peer_dispatch(const struct table *t, unsigned long number, long argument)
{
    if (number >= t->n)
        return -38;
    return t->handler[number](argument);
}

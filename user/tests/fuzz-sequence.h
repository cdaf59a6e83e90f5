/* A sequence of calls: made from a seed, changed by further seeds, and as text.
 *
 * Interface: make(sequence, id) makes the sequence that `id` names, always the same: a seed, and for each
 * further one a change to what was there. print_sequence() and parse_sequence() are inverse to each other;
 * the text is what tests/fuzz keeps. A value in it is
 *   123, -1, 0x12   a number
 *   fd:NAME         a descriptor of that kind (user/tests/fuzz-world.h)
 *   MAPPING+N       an address in a mapping of that kind
 *   r:N             what step N returned
 *   path:N  pid:NAME  id:NAME  code:NAME
 *   KIND:SEED       a pointer to a structure of that kind, filled from the seed; KIND/edge: the last that
 *   fits before a page that is not there;
 *                   KIND/over: it reaches into that page
 */
#ifndef FUZZ_SEQUENCE_H
#define FUZZ_SEQUENCE_H
#include "fuzz-calls.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 48
#define CHANGES 6
#define ACTORS 3

/* The actors that take part. In the last two all keep user 0, in BESIDE one of them. */
enum { THREADS, FAMILY, MEMORY, BESIDE, ALL_ROOT, ROOT_FAMILY, ARRANGEMENTS };
static const char *const arrangement_names[] = {"threads", "family",   "memory",
                                                "beside",  "all-root", "root-family"};
/* How the world differs. */
enum { DUMPABLE = 1, UNLIMITED_FILES = 2, UNLIMITED_MEMORY = 4, NO_HANDLERS = 8, OWN_SESSION = 16 };

enum form { NUMBER, DESCRIPTOR, PLACE, RESULT, NAME, PROCESS, IDENTITY, CODE, STRUCTURE };

struct value {
    /* of DESCRIPTOR, PLACE, PROCESS, IDENTITY, CODE: an index; of STRUCTURE: its kind */
    unsigned char form, which;
    unsigned char spot; /* of STRUCTURE: 0, or 1 at the edge, or 2 over it */
    uint64_t number;
};

struct step {
    unsigned char actor;
    unsigned short call;
    struct value value[6];
};

struct sequence {
    int arrangement, world, count;
    struct step step[STEPS];
};

/* A seed and changes; a seed of 0 ends it. With a base: changes to that kept sequence, counted from 1. */
struct id {
    uint32_t base, seed[CHANGES];
};

/* The kept sequences, for ids with a base. */
#define KEPT 1024
static struct sequence *kept;
static unsigned kept_count;

static const char *const descriptor_names[] = {
    "file", "read-only", "append", "directory", "pipe-read", "pipe-write", "quiet-read", "quiet-write",
    "terminal", "null", "zero", "full", "random", "proc", "syn", "epoll", "memfd", "fifo", "path",
    "path-directory", "canary", "canaries", "proc-directory", "program", "large", "counter", "bell",
    "epoll-edges", "signals", "process", "notices", "stream", "stream-end", "datagrams", "datagrams-end",
    "packets", "packets-end", "listener", "socket", "inet-listener", "inet", "inet-messages", "master",
    "slave", "routes", "diagnosis", "packet-read", "packet-write", "lite",
    /* No descriptors. */
    "closed", "huge", "negative", "cwd", "last", "high", 0};
enum { OPEN_KINDS = 49, FD_CLOSED = OPEN_KINDS, FD_HUGE, FD_NEGATIVE, FD_CWD, FD_LAST, FD_HIGH, DESCRIPTORS };
enum {
    FD_FILE,
    FD_READ_ONLY,
    FD_APPEND,
    FD_DIRECTORY,
    FD_PIPE_READ,
    FD_PIPE_WRITE,
    FD_QUIET_READ,
    FD_QUIET_WRITE,
    FD_TERMINAL,
    FD_NULL,
    FD_ZERO,
    FD_FULL,
    FD_RANDOM,
    FD_PROC,
    FD_SYN,
    FD_EPOLL,
    FD_MEMFD,
    FD_FIFO,
    FD_PATH,
    FD_PATH_DIRECTORY,
    FD_CANARY,
    FD_CANARIES,
    FD_PROC_DIRECTORY,
    FD_PROGRAM,
    FD_LARGE,
    FD_COUNTER,
    FD_BELL,
    FD_EPOLL_EDGES,
    FD_SIGNALS,
    FD_PROCESS,
    FD_NOTICES,
    FD_STREAM,
    FD_STREAM_END,
    FD_DATAGRAMS,
    FD_DATAGRAMS_END,
    FD_PACKETS,
    FD_PACKETS_END,
    FD_LISTENER,
    FD_SOCKET,
    FD_INET_LISTENER,
    FD_INET,
    FD_INET_MESSAGES,
    FD_MASTER,
    FD_SLAVE,
    FD_ROUTES,
    FD_DIAGNOSIS,
    FD_PACKET_READ,
    FD_PACKET_WRITE,
    FD_LITE
};

static const char *const place_names[] = {"private", "shared", "file-shared", "file-private", "constant",
                                          "none",    "code",   "grown",       "edge",         "hole",
                                          "stack",   "text",   "kernel",      "physical",     "generated",
                                          "beyond",  "null",   "top",         "all",          0};
enum {
    PRIVATE,
    SHARED_,
    FILE_SHARED,
    FILE_PRIVATE,
    CONSTANT,
    NO_ACCESS,
    EXECUTABLE,
    GROWN,
    EDGE,
    HOLE,
    STACK,
    TEXT,
    KERNEL,
    PHYSICAL,
    GENERATED,
    BEYOND,
    NULL_,
    TOP,
    ALL,
    PLACES
};

static const char *const process_names[] = {"self", "other", "third", "root", "worker", "supervisor",
                                            "all",  "group", "one",   "none", 0};
enum {
    SELF,
    OTHER,
    THIRD,
    ROOT_ACTOR,
    WORKER,
    SUPERVISOR,
    EVERYBODY,
    OWN_GROUP,
    FIRST_PROCESS,
    NOBODY,
    PROCESSES
};
static const char *const identity_names[] = {"own", "root", "keep", "other", "nobody", 0};
enum { OWN_ID, ROOT_ID, KEEP_ID, OTHER_ID, NOBODY_ID, IDENTITIES };
static const char *const code_names[] = {"handler", "landing", "default", "ignore", "nowhere",
                                         "kernel",  "beyond",  "high",    "data",   0};
enum {
    HANDLER,
    LANDING,
    DEFAULT_,
    IGNORE_,
    NOWHERE,
    IN_KERNEL,
    NOT_CANONICAL,
    NOT_CANONICAL_HIGH,
    IN_DATA,
    CODES
};
static const char *const structure_names[] = {
    "action",   "sigset", "timespec",  "timevals", "itimerval", "itimerspec", "iovec",
    "event",    "rlimit", "clone",     "siginfo",  "capheader", "capdata",    "termios",
    "pollfds",  "fdset",  "stack",     "flock",    "argv",      "openhow",    "sigevent",
    "word",     "offset", "ids",       "robust",   "maskarg",   "registers",  "int",
    "sockaddr", "msghdr", "attribute", "value",    "string",    "bytes",      0};
enum { S_STRING = SET - P_ACTION, S_BYTES, STRUCTURES };

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}
static unsigned below(uint64_t *state, unsigned end) { return (unsigned)((draw(state) >> 8) % end); }

/* Numbers that a careless kernel might get wrong, and their neighbours. */
static uint64_t edge_number(uint64_t *s)
{
    static const uint64_t edges[] = {0,         1,         2,         8,         100,       4096,
                                     8192,      65536,     1 << 20,   1UL << 31, 1UL << 32, 1UL << 40,
                                     1UL << 47, 1UL << 52, 1UL << 62, 1UL << 63, 0};
    return edges[below(s, sizeof edges / sizeof *edges)] + below(s, 5) - 2;
}

static struct value number(uint64_t n) { return (struct value){NUMBER, 0, 0, n}; }
static struct value form(int form, int which) { return (struct value){form, which, 0, 0}; }

static struct value result_value(uint64_t *s, int step)
{
    return step ? (struct value){RESULT, 0, 0, below(s, step)} : number(3);
}

static struct value place(uint64_t *s)
{
    struct value v = {PLACE, below(s, PLACES), 0, 0};
    if (below(s, 3) == 0)
        v.which = below(s, GROWN + 1);
    v.number = below(s, 2)   ? 4096 * below(s, 8)
               : below(s, 4) ? below(s, 32768)
                             : 4096 * below(s, 8) - below(s, 9);
    return v;
}

static struct value structure(uint64_t *s, int which)
{
    unsigned spot = below(s, 16);
    return (struct value){STRUCTURE, which, spot == 0 ? 2 : spot < 3, draw(s) >> 32};
}

/* A value for an argument of this kind, for step number `step`. */
static struct value value_of(uint64_t *s, int kind, int step)
{
    if (kind == NONE)
        return number(0);
    unsigned odd = below(s, 24);
    if (odd == 0)
        return number(edge_number(s));
    if (odd == 1)
        return place(s);
    if (odd == 2 && kind != PID)
        return result_value(s, step);
    switch (kind) {
    case FD:
        return below(s, 5) == 0
                   ? result_value(s, step)
                   : form(DESCRIPTOR, below(s, 12) ? below(s, OPEN_KINDS) : below(s, DESCRIPTORS));
    case DIRFD:
        return below(s, 2)
                   ? form(DESCRIPTOR, FD_CWD)
                   : form(DESCRIPTOR, (const int[]){FD_DIRECTORY, FD_CANARIES, FD_PATH_DIRECTORY, FD_FILE,
                                                    FD_PROC_DIRECTORY, FD_CLOSED}[below(s, 6)]);
    case BUF:
        return below(s, 3) == 0 ? place(s) : structure(s, S_BYTES);
    case SIZE:
        return below(s, 3) == 0
                   ? number(edge_number(s))
                   : number((const int[]){0, 1, 8, 16, 24, 64, 88, 512, 4096, 8192, 16384}[below(s, 11)]);
    case LENGTH:
        return below(s, 4) == 0 ? number(edge_number(s)) : number(4096 * below(s, 9));
    case ADDRESS: {
        struct value v = place(s);
        if (below(s, 8))
            v.number &= ~4095UL;
        return v;
    }
    case OFFSET:
        return below(s, 3) == 0 ? number(edge_number(s))
               : below(s, 2)    ? number(4096 * below(s, 6))
                                : number(below(s, 10000));
    case MODE:
        return number(below(s, 2) ? below(s, 010000)
                                  : (const unsigned[]){0, 0644, 0755, 0777, 01777, 02777, 04755, 06777,
                                                       0600}[below(s, 9)]);
    case PATH:
        return (struct value){NAME, 0, 0, below(s, 2) ? below(s, 12) : below(s, 64)};
    case ID:
        return form(IDENTITY, below(s, IDENTITIES));
    case PID:
        return below(s, 4) == 0 ? result_value(s, step)
                                : form(PROCESS, below(s, 2) ? below(s, ROOT_ACTOR + 1) : below(s, PROCESSES));
    case SIGNAL:
        return number(below(s, 8) == 0 ? edge_number(s)
                                       : (const uint64_t[]){10, 10, 12, 14, 17, 18, 34, 40, 64, 0, 11, 5, 1,
                                                            15, 2, 19, 9}[below(s, 17)]);
    case RAW:
        return below(s, 2) ? number(draw(s)) : number(edge_number(s));
    case PROCEDURE:
        return form(CODE, below(s, CODES));
    case HANDLE:
        return below(s, 4) == 0 ? number(below(s, 3)) : result_value(s, step);
    case STRING:
        return structure(s, S_STRING);
    case COUNT:
        return number(below(s, 8) == 0 ? edge_number(s) : below(s, 10));
    case SECONDS:
        return number(below(s, 4) == 0 ? edge_number(s) : below(s, 3));
    default:
        if (kind < SET)
            return structure(s, kind - P_ACTION);
    }
    const struct set *set = &sets[kind - SET];
    long flags = set->list[below(s, set->count)];
    if (!set->alone)
        while (below(s, 2))
            flags |= set->list[below(s, set->count)];
    return number(flags);
}

static int chosen_call(uint64_t *s)
{
    int all = 0;
    for (int i = 0; i < CALLS; i++)
        all += calls[i].weight;
    int at = below(s, all);
    for (int i = 0; i < CALLS; i++)
        if ((at -= calls[i].weight) < 0)
            return i;
    return 0;
}

static struct step step_of(uint64_t *s, int at)
{
    struct step step = {.actor = below(s, ACTORS), .call = chosen_call(s)};
    for (int i = 0; i < 6; i++)
        step.value[i] = value_of(s, calls[step.call].kind[i], at);
    return step;
}

static void change(struct sequence *q, uint64_t *s)
{
    for (int n = 1 + below(s, 4); n; n--) {
        int at = below(s, q->count), to = below(s, q->count), argument = below(s, 6);
        struct step *step = &q->step[at];
        switch (below(s, 8)) {
        case 0:
        case 1:
        case 2:
            step->value[argument] = value_of(s, calls[step->call].kind[argument], at);
            break;
        case 3:
            q->step[to] = *step;
            break;
        case 4:
            step->actor = below(s, ACTORS);
            break;
        case 5:
            *step = step_of(s, at);
            break;
        case 6:
            if (q->count < STEPS)
                q->step[q->count] = step_of(s, q->count), q->count++;
            break;
        default:
            q->world ^= 1 << below(s, 5);
        }
    }
}

static void change_all(struct sequence *q, const struct id *id, int from)
{
    for (int i = from; i < CHANGES && id->seed[i]; i++) {
        uint64_t s = id->seed[i];
        change(q, &s);
    }
}

/* `arrangements`: a bit for each that is wanted. */
static void make(struct sequence *q, const struct id *id, unsigned arrangements)
{
    uint64_t s = id->seed[0];
    if (id->base && id->base <= kept_count) {
        *q = kept[id->base - 1];
        change_all(q, id, 0);
        return;
    }
    memset(q, 0, sizeof *q);
    do
        q->arrangement = below(&s, ARRANGEMENTS);
    while (!(arrangements >> q->arrangement & 1));
    q->world = (below(&s, 2) ? DUMPABLE : 0) | (below(&s, 8) == 0 ? UNLIMITED_FILES : 0) |
               (below(&s, 32) == 0 ? UNLIMITED_MEMORY : 0) | (below(&s, 8) == 0 ? NO_HANDLERS : 0) |
               (below(&s, 2) ? OWN_SESSION : 0);
    q->count = 12 + below(&s, STEPS - 12);
    /* Some sequences stay with a few calls: more comes of what follows. */
    int few[4], some = below(&s, 3) == 0;
    for (int i = 0; i < 4; i++)
        few[i] = chosen_call(&s);
    for (int i = 0; i < q->count; i++) {
        q->step[i] = step_of(&s, i);
        if (some && below(&s, 3)) {
            q->step[i].call = few[below(&s, 4)];
            for (int j = 0; j < 6; j++)
                q->step[i].value[j] = value_of(&s, calls[q->step[i].call].kind[j], i);
        }
    }
    change_all(q, id, 1);
}

static void print_value(FILE *to, const struct value *v)
{
    switch (v->form) {
    case NUMBER:
        fprintf(to, v->number < 100000 || -v->number < 1000 ? " %ld" : " 0x%lx", (long)v->number);
        break;
    case DESCRIPTOR:
        fprintf(to, " fd:%s", descriptor_names[v->which]);
        break;
    case PLACE:
        fprintf(to, " %s+%ld", place_names[v->which], (long)v->number);
        break;
    case RESULT:
        fprintf(to, " r:%lu", v->number);
        break;
    case NAME:
        fprintf(to, " path:%lu", v->number);
        break;
    case PROCESS:
        fprintf(to, " pid:%s", process_names[v->which]);
        break;
    case IDENTITY:
        fprintf(to, " id:%s", identity_names[v->which]);
        break;
    case CODE:
        fprintf(to, " code:%s", code_names[v->which]);
        break;
    default:
        fprintf(to, " %s%s:%lu", structure_names[v->which], (const char *[]){"", "/edge", "/over"}[v->spot],
                v->number);
    }
}

static void print_sequence(FILE *to, const struct sequence *q)
{
    fprintf(to, "%s %d\n", arrangement_names[q->arrangement], q->world);
    for (int i = 0; i < q->count; i++) {
        const struct step *step = &q->step[i];
        int last = 6;
        while (last && step->value[last - 1].form == NUMBER && step->value[last - 1].number == 0)
            last--;
        fprintf(to, "%c %s", 'A' + step->actor, calls[step->call].name);
        for (int j = 0; j < last; j++)
            print_value(to, &step->value[j]);
        fputc('\n', to);
    }
}

static int index_of(const char *const *names, const char *word)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
}

/* 0, or -1: no such value. */
static int parse_value(struct value *v, char *word)
{
    char *colon = strchr(word, ':'), *plus = strchr(word, '+'), *end;
    *v = number(0);
    if (colon) {
        *colon++ = 0;
        int which = 0;
        if (strcmp(word, "fd") == 0)
            v->form = DESCRIPTOR, which = index_of(descriptor_names, colon);
        else if (strcmp(word, "r") == 0)
            v->form = RESULT, v->number = strtoul(colon, 0, 0);
        else if (strcmp(word, "path") == 0)
            v->form = NAME, v->number = strtoul(colon, 0, 0);
        else if (strcmp(word, "pid") == 0)
            v->form = PROCESS, which = index_of(process_names, colon);
        else if (strcmp(word, "id") == 0)
            v->form = IDENTITY, which = index_of(identity_names, colon);
        else if (strcmp(word, "code") == 0)
            v->form = CODE, which = index_of(code_names, colon);
        else {
            char *spot = strchr(word, '/');
            if (spot)
                *spot++ = 0;
            v->form = STRUCTURE, which = index_of(structure_names, word);
            v->spot = !spot ? 0 : strcmp(spot, "edge") == 0 ? 1 : 2;
            v->number = strtoul(colon, 0, 0);
        }
        v->which = which;
        return which < 0 ? -1 : 0;
    }
    if (plus && plus != word) {
        *plus++ = 0;
        int which = index_of(place_names, word);
        *v = (struct value){PLACE, which, 0, strtol(plus, 0, 0)};
        return which < 0 ? -1 : 0;
    }
    v->number = *word == '-' ? (uint64_t)strtol(word, &end, 0) : strtoul(word, &end, 0);
    return *end || end == word ? -1 : 0;
}

/* Reads the next sequence of a file; 1, 0 at its end, -1 when it is none. Lines with # are comments, an
 * empty one ends a sequence. */
static int parse_sequence(FILE *from, struct sequence *q)
{
    char line[512], *rest;
    int begun = 0;
    memset(q, 0, sizeof *q);
    while (fgets(line, sizeof line, from)) {
        char *word = strtok_r(line, " \n", &rest);
        if (word && *word == '#')
            continue;
        if (!word && begun)
            return 1;
        if (!word)
            continue;
        char *second = strtok_r(0, " \n", &rest);
        if (!second)
            return -1;
        if (!begun) {
            begun = 1;
            q->arrangement = -1;
            for (int i = 0; i < ARRANGEMENTS; i++)
                if (strcmp(word, arrangement_names[i]) == 0)
                    q->arrangement = i;
            q->world = atoi(second);
            if (q->arrangement < 0)
                return -1;
            continue;
        }
        struct step *step = &q->step[q->count];
        step->actor = *word - 'A';
        step->call = CALLS;
        for (int i = CALLS - 1; i >= 0; i--)
            if (strcmp(calls[i].name, second) == 0)
                step->call = i;
        if (step->actor >= ACTORS || step->call == CALLS || q->count == STEPS)
            return -1;
        for (int i = 0; i < 6; i++) {
            char *value = strtok_r(0, " \n", &rest);
            step->value[i] = number(0);
            if (value && parse_value(&step->value[i], value))
                return -1;
        }
        q->count++;
    }
    return begun;
}

/* Takes up the sequences of a file whose arrangement is wanted. */
static void keep_file(const char *path, unsigned arrangements)
{
    FILE *file = fopen(path, "r");
    if (!kept)
        kept = calloc(KEPT, sizeof *kept);
    while (file && kept_count < KEPT && parse_sequence(file, &kept[kept_count]) > 0)
        kept_count += arrangements >> kept[kept_count].arrangement & 1;
    if (file)
        fclose(file);
}
#endif

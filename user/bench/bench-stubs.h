/* Procedures of the kernel by stubs and by cached procedures: what those cost, and the making of them.
 *
 * Interface: `do_*`, for the table of bench.c. bench-threads.h tells whether there are such procedures.
 *
 * Source: the dissertation's table 3.5.
 */

/* --- table 3.5: a kernel procedure that does next to nothing, a Gauge's `read`: by its user-level stub
 * and in the caller's own code, and by both as a cached procedure. A system without quajects does what the
 * table sets beside it: getpid. Then one byte written to /dev/null in the same ways; there Linux's column
 * is its own call. --- */

/* A procedure of the kernel's by `operation` of `file`, in memory that goes with release(). */
static void *procedure(long file, long operation)
{
    void *code = mmap(0, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(code != MAP_FAILED && syn_stub(file, operation, code, PAGE) > 0, "a stub");
    return code;
}

static void release(void *code, long operation, long file)
{
    if (operation & SYN_STUB_CACHED)
        must(syn_uncache(syn_cache(file, operation & ~SYN_STUB_CACHED)) == 0, "a number");
    munmap(code, PAGE);
    close(file);
}

static long gauge(long *entry)
{
    long gauge = syn_make("Gauge", 0);
    *entry = syn_entry(gauge, "read");
    must(gauge >= 0 && *entry >= 0, "a gauge");
    return gauge;
}

static void call_stub(long n, long how)
{
    long entry;
    if (!native()) {
        do_getpid(n);
        return;
    }
    long file = gauge(&entry), operation = SYN_STUB_ENTRY + entry + how;
    void *code = procedure(file, operation);
    long (*stub)(long) = (long (*)(long))code;
    while (n--)
        stub(0);
    release(code, operation, file);
}

static void do_kernel_call(long n) { call_stub(n, 0); }
static void do_kernel_call_cached(long n) { call_stub(n, SYN_STUB_CACHED); }

static void do_kernel_call_inline(long n)
{
    long entry;
    if (!native()) {
        do_getpid(n);
        return;
    }
    long file = gauge(&entry);
    while (n--)
        syn_invoke(file, entry, 0);
    close(file);
}

static void do_kernel_call_cached_inline(long n)
{
    long entry;
    if (!native()) {
        do_getpid(n);
        return;
    }
    long file = gauge(&entry), number = syn_cache(file, SYN_STUB_ENTRY + entry);
    must(number > 0, "a number");
    while (n--)
        syn_cached(number, 0);
    must(syn_uncache(number) == 0, "it is given back");
    close(file);
}

static void write_stub(long n, long how)
{
    if (!native()) {
        do_null_write_1(n);
        return;
    }
    long file = open("/dev/null", O_WRONLY), operation = SYS_write + how;
    void *code = procedure(file, operation);
    long (*stub)(const void *, long) = (long (*)(const void *, long))code;
    while (n--)
        stub(page, 1);
    release(code, operation, file);
}

static void do_write_stub(long n) { write_stub(n, 0); }
static void do_write_cached(long n) { write_stub(n, SYN_STUB_CACHED); }

static void do_write_cached_inline(long n)
{
    if (!native()) {
        do_null_write_1(n);
        return;
    }
    long file = open("/dev/null", O_WRONLY), number = syn_cache(file, SYS_write);
    must(number > 0, "a number");
    while (n--)
        syn_cached_file(number, (long)page, 1, 0);
    must(syn_uncache(number) == 0, "it is given back");
    close(file);
}

/* Making a stub, and one with its cached procedure, which is given up again. A system without them:
 * getpid. */
static void do_stub_make(long n)
{
    long entry;
    if (!native()) {
        do_getpid(n);
        return;
    }
    long file = gauge(&entry), operation = SYN_STUB_ENTRY + entry;
    void *code = procedure(file, operation);
    while (n--)
        syn_stub(file, operation, code, PAGE);
    release(code, operation, file);
}

static void do_stub_make_cached(long n)
{
    long entry;
    if (!native()) {
        do_getpid(n);
        return;
    }
    long file = gauge(&entry), operation = SYN_STUB_ENTRY + entry;
    void *code = procedure(file, operation);
    while (n--) {
        syn_stub(file, operation + SYN_STUB_CACHED, code, PAGE);
        syn_uncache(SYN_CACHED);
    }
    release(code, operation, file);
}

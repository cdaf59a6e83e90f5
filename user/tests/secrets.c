/* No address of the kernel is seen by user 1000: not in /proc and /syn, not in registers, signal frames and
 * structures. Started as user 0; passes on Linux and must pass here.
 *
 * Interface: secrets; TAP on standard output. Files that only the superuser may read are asked for, too.
 */
#define _GNU_SOURCE
#include "tap.h"
#include "synthesis.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

int setgroups(size_t count, const gid_t *groups);

enum { USER = 1000 };

static int here;
static long files, texts_of_code;

/* In the kernel's half, and no small negative number. */
static int secret(uint64_t word) { return word >= 0xffff800000000000 && word < 0xfffffffffffff000; }

/* -- texts ----------------------------------------------------------------------------------------------- */

/* Whether a line shows what may be an address: a number of the kernel's half; in a listing the lower half
 * of one, too. */
static int line_shows(const char *line, int listing)
{
    if (strncmp(line, "Sig", 3) == 0 || strncmp(line, "Shd", 3) == 0 || strncmp(line, "Cap", 3) == 0)
        return 0; /* masks */
    for (const char *at = line; *at;) {
        size_t length = strspn(at, "0123456789abcdefABCDEF");
        int marked = at > line + 1 && at[-1] == 'x' && at[-2] == '0';
        if (length >= 8 && length <= 16) {
            uint64_t word = strtoull(at, NULL, 16);
            if ((length == 16 && secret(word)) || (listing && marked && word >= 0x10000000))
                return 1;
        }
        if (length >= 17 && strspn(at, "0123456789") == length) {
            uint64_t word = strtoull(at, NULL, 10);
            if (secret(word))
                return 1;
        }
        at += length ? length : 1;
        if (length == 0)
            continue;
        if (listing && length >= 18 && !marked)
            return 1; /* the bytes of an instruction that names an address */
    }
    return 0;
}

static void look_at_text(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return;
    FILE *text = fdopen(fd, "r");
    char line[4096];
    int listing = strncmp(path, "/syn/code", 9) == 0, lines = 0;
    while (lines++ < 20000 && fgets(line, sizeof line, text))
        if (line_shows(line, listing)) {
            check(0, path);
            printf("# %s", line);
            break;
        }
    files++;
    texts_of_code += listing && lines > 2;
    fclose(text);
}

static void look_through(const char *directory, int depth)
{
    DIR *list = opendir(directory);
    if (!list || depth > 7) {
        if (list)
            closedir(list);
        return;
    }
    for (struct dirent *entry; (entry = readdir(list));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        if (strlen(directory) + strlen(entry->d_name) + 2 > sizeof path)
            continue;
        strcpy(path, directory);
        strcat(strcat(path, "/"), entry->d_name);
        if (strcmp(path, "/proc/kmsg") == 0 || strcmp(path, "/proc/kcore") == 0 ||
            strcmp(entry->d_name, "pagemap") == 0 || strcmp(entry->d_name, "kallsyms") == 0 ||
            strcmp(path, "/proc/irq") == 0 ||
            /* Limits that are as large as a number can be, but for 2^24. */
            strcmp(entry->d_name, "shmmax") == 0 || strcmp(entry->d_name, "shmall") == 0)
            continue;
        if (entry->d_type == DT_DIR)
            look_through(path, depth + 1);
        else if (entry->d_type == DT_REG)
            look_at_text(path);
    }
    closedir(list);
}

static void texts(void)
{
    if (!here)
        /* Linux shows the address of its page for old programs, and limits that look like addresses. */
        return;
    look_through("/proc", 0);
    check(files > 20, "texts of /proc were read");
    files = 0;
    /* A file whose routines have something to show. */
    int fd = open("/tmp/secrets", O_RDWR | O_CREAT, 0600);
    check(write(fd, "abc", 3) == 3 && lseek(fd, 0, SEEK_SET) == 0, "a file of one's own");
    if (here) {
        look_through("/syn", 0);
        check(files > 10, "texts of /syn were read");
        check(texts_of_code > 2, "listings of one's own code among them");
    }
    close(fd);
}

/* -- what only the superuser may read -------------------------------------------------------------------- */

static pid_t roots;

static void refused(void)
{
    char text[64];
    if (!here)
        return;
    fails(open("/syn/log", O_RDONLY), EACCES, "/syn/log");
    fails(open("/proc/kmsg", O_RDONLY), EACCES, "/proc/kmsg");
    fails(open("/dev/kmsg", O_RDONLY), EPERM, "/dev/kmsg");
    fails(open("/syn/code/at", O_RDONLY | O_DIRECTORY), EACCES, "/syn/code/at");
    fails(syscall(SYS_syslog, 3, text, sizeof text), EPERM, "syslog");
    fails(syscall(SYS_syslog, 10, 0, 0), EPERM, "its size");
    snprintf(text, sizeof text, "/syn/code/%d", roots);
    fails(open(text, O_RDONLY | O_DIRECTORY), EACCES, "descriptors of another user");
    snprintf(text, sizeof text, "/syn/code/%d/1/file", roots);
    fails(open(text, O_RDONLY), EACCES, "and their paths");
    int fd = open("/syn/probes", O_WRONLY);
    check(fd < 0 && errno == EACCES, "no probes");
    fd = open("/proc/sys/kernel/yama/ptrace_scope", O_WRONLY);
    check(fd < 0 && errno == EACCES, "no scope");
}

static void granted(void)
{
    char text[256] = "";
    if (!here)
        return;
    const char *paths[] = {"/syn/log", "/proc/kmsg", "/dev/kmsg"};
    for (int i = 0; i < 3; i++) {
        int fd = open(paths[i], O_RDONLY);
        check(fd >= 0 && read(fd, text, sizeof text) > 0, paths[i]);
        close(fd);
    }
    FILE *index = fopen("/syn/code/index", "r");
    int shown = 0;
    while (index && fgets(text, sizeof text, index))
        shown += strncmp(text, "ffffffff", 8) == 0;
    check(shown > 10, "root sees addresses");
    if (index)
        fclose(index);
    check(syscall(SYS_syslog, 10, 0, 0) > 0, "the size of the log");
}

/* -- registers ------------------------------------------------------------------------------------------- */

/* One call: the registers before it, and after it. */
static void call(uint64_t *r)
{
    register uint64_t *frame __asm__("rbx") = r;
    __asm__ volatile(
        "movq (%%rbx), %%rax\n movq 8(%%rbx), %%rdi\n movq 16(%%rbx), %%rsi\n movq 24(%%rbx), %%rdx\n"
        "movq 32(%%rbx), %%r10\n movq 40(%%rbx), %%r8\n movq 48(%%rbx), %%r9\n"
        "xorl %%r12d, %%r12d\n xorl %%r13d, %%r13d\n xorl %%r14d, %%r14d\n xorl %%r15d, %%r15d\n"
        "syscall\n"
        "movq %%rax, (%%rbx)\n movq %%rdi, 8(%%rbx)\n movq %%rsi, 16(%%rbx)\n movq %%rdx, 24(%%rbx)\n"
        "movq %%r10, 32(%%rbx)\n movq %%r8, 40(%%rbx)\n movq %%r9, 48(%%rbx)\n movq %%rcx, 56(%%rbx)\n"
        "movq %%r11, 64(%%rbx)\n movq %%r12, 72(%%rbx)\n movq %%r13, 80(%%rbx)\n movq %%r14, 88(%%rbx)\n"
        "movq %%r15, 96(%%rbx)\n"
        :
        : "r"(frame)
        : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
}

/* Calls that end or change what tries them, or wait. */
static int unsuitable(int number)
{
    static const int some[] = {
        SYS_exit,     SYS_exit_group,  SYS_fork,           SYS_vfork,         SYS_clone,
        SYS_clone3,   SYS_pause,       SYS_rt_sigreturn,   SYS_rt_sigsuspend, SYS_select,
        SYS_pselect6, SYS_ppoll,       SYS_poll,           SYS_seccomp,       SYS_sync,
        SYS_kill,     SYS_read,        SYS_rt_sigprocmask, SYS_shutdown,      SYS_wait4,
        SYS_waitid,   SYS_sigaltstack, SYS_arch_prctl,     SYS_ptrace,        335 /* uretprobe */,
        336 /* uprobe */};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (some[i] == number)
            return 1;
    return 0;
}

static void registers(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int number = 0; number < 450; number++) {
            uint64_t r[13] = {number};
            if (unsuitable(number))
                continue;
            call(r);
            for (int i = 0; i < 13; i++)
                if (secret(r[i]))
                    _exit(1);
        }
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "no call leaves one in a register");
}

static void of_a_child(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(0);
    }
    int status, bad = 0;
    waitpid(child, &status, 0);
    union {
        struct user_regs_struct regs;
        uint64_t words[sizeof(struct user_regs_struct) / 8];
    } seen;
    for (int step = 0; step < 100; step++) {
        ptrace(PTRACE_GETREGS, child, 0, &seen);
        for (size_t i = 0; i < sizeof seen.words / 8; i++)
            bad += secret(seen.words[i]);
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
            break;
    }
    equal(bad, 0, "nor has a traced child one");
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

/* -- signal frames --------------------------------------------------------------------------------------- */

static volatile int handled, bad_words;
static char stack[1 << 16] __attribute__((aligned(64)));

static void scan(const void *from, size_t bytes)
{
    for (const char *at = from; at + 8 <= (const char *)from + bytes; at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        if (secret(word)) {
            bad_words++;
            printf("# %lx at %zd of %zu\n", (unsigned long)word, at - (const char *)from, bytes);
        }
    }
}

static void handler(int number, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    (void)number;
    handled++;
    scan(info, sizeof *info);
    scan(&c->uc_mcontext.gregs, sizeof c->uc_mcontext.gregs);
    /* All that the kernel has put there. */
    scan(__builtin_frame_address(0), stack + sizeof stack - (char *)__builtin_frame_address(0));
    if (info->si_signo == SIGSEGV)
        c->uc_mcontext.gregs[REG_RIP] += 2;
}

static void frames(void)
{
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    for (int round = 0; round < 20; round++) {
        memset(stack, 0, sizeof stack);
        /* Vectors hold what programs left there. */
        __asm__ volatile(
            "pxor %%xmm0,%%xmm0\n pxor %%xmm1,%%xmm1\n pxor %%xmm2,%%xmm2\n pxor %%xmm3,%%xmm3\n pxor "
            "%%xmm4,%%xmm4\n"
            "pxor %%xmm5,%%xmm5\n pxor %%xmm6,%%xmm6\n pxor %%xmm7,%%xmm7\n pxor %%xmm8,%%xmm8\n pxor "
            "%%xmm9,%%xmm9\n"
            "pxor %%xmm10,%%xmm10\n pxor %%xmm11,%%xmm11\n pxor %%xmm12,%%xmm12\n pxor %%xmm13,%%xmm13\n"
            "pxor %%xmm14,%%xmm14\n pxor %%xmm15,%%xmm15\n syscall"
            :
            : "a"(SYS_tgkill), "D"(getpid()), "S"(getpid()), "d"(SIGUSR1)
            : "rcx", "r11", "memory");
        memset(stack, 0, sizeof stack);
        /* mov (%rax), %ecx: two bytes. */
        __asm__ volatile("movl (%%rax), %%ecx" : : "a"(8) : "rcx", "memory");
    }
    equal(handled, 40, "signals");
    equal(bad_words, 0, "their frames hold none");
}

/* -- structures ------------------------------------------------------------------------------------------ */

static void structures(void)
{
    uint64_t out[512];
    bad_words = 0;
#define FILLED(what, call_)                    \
    do {                                       \
        memset(out, 0, sizeof out);            \
        int before = bad_words;                \
        long result = (call_);                 \
        scan(out, sizeof out);                 \
        if (result < 0 || bad_words != before) \
            check(0, what);                    \
    } while (0)
    for (int round = 0; round < 3; round++) {
        FILLED("stat", syscall(SYS_stat, "/tmp", out));
        FILLED("statx", syscall(SYS_statx, AT_FDCWD, "/tmp", 0, 0xfff, out));
        FILLED("statfs", syscall(SYS_statfs, "/tmp", out));
        FILLED("sysinfo", syscall(SYS_sysinfo, out));
        FILLED("uname", syscall(SYS_uname, out));
        FILLED("getrusage", syscall(SYS_getrusage, RUSAGE_SELF, out));
        FILLED("times", syscall(SYS_times, out));
        FILLED("sigaction", syscall(SYS_rt_sigaction, SIGCHLD, 0, out, 8));
        FILLED("sigaltstack", syscall(SYS_sigaltstack, 0, out));
        FILLED("getitimer", syscall(SYS_getitimer, ITIMER_REAL, out));
        FILLED("prlimit", syscall(SYS_prlimit64, 0, RLIMIT_CORE, 0, out));
        FILLED("getdents64", syscall(SYS_getdents64, open("/tmp", O_RDONLY | O_DIRECTORY), out, sizeof out));
        FILLED("getcwd", syscall(SYS_getcwd, out, sizeof out));
        FILLED("getrandom", syscall(SYS_getrandom, out, 0, 0));
    }
    equal(bad_words, 0, "structures hold none");
}

static void as_user(void)
{
    texts();
    refused();
    registers();
    of_a_child();
    frames();
    structures();
}

int main(void)
{
    here = syn_handle(0) > 0;
    roots = getpid();
    granted();
    chmod("/tmp", 01777);
    unlink("/tmp/secrets");
    fflush(stdout);
    int ends[2], counts[2];
    if (pipe(ends))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, NULL) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
            _exit(1);
        /* As if it had been this user from the start. */
        prctl(PR_SET_DUMPABLE, 1);
        as_user();
        counts[0] = tap_count;
        counts[1] = tap_failed;
        fflush(stdout);
        _exit(write(ends[1], counts, sizeof counts) != sizeof counts);
    }
    close(ends[1]);
    if (read(ends[0], counts, sizeof counts) == sizeof counts) {
        tap_count = counts[0];
        tap_failed = counts[1];
    } else {
        check(0, "the user's part ran to its end");
    }
    return done();
}

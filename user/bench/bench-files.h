/* Many files: what finding, making and removing names costs, in a directory with little and in one with ten
 * thousand entries.
 *
 * Interface: `time_*`, which leave out what only prepares, for the table of bench-threads.h. Each leaves the
 * tree as it was.
 */
#define TURNS 300
#define CROWD 10000
#define LISTED 1000
#define DEEP "/tmp/one/two/three/four/five"

static char many_path[64];

static const char *in_many(const char *kind, int i)
{
    snprintf(many_path, sizeof many_path, "/tmp/many/%s%05d", kind, i);
    return many_path;
}

static void make_file(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    must(fd >= 0 && write(fd, page, 1) == 1, path);
    close(fd);
}

/* Makes, or removes, the directory with `count` files of one byte. */
static void have_many(int count)
{
    must(mkdir("/tmp/many", 0755) == 0, "mkdir");
    for (int i = 0; i < count; i++)
        make_file(in_many("file", i));
}

static void forget_many(int count)
{
    for (int i = 0; i < count; i++)
        must(unlink(in_many("file", i)) == 0, "unlink");
    must(rmdir("/tmp/many") == 0, "rmdir");
}

/* Opens, reads and closes `TURNS` files in turn, `n` in all. */
static uint64_t in_turn(long n, int count)
{
    static char names[TURNS][24];
    have_many(count);
    for (int i = 0; i < TURNS; i++)
        strcpy(names[i], in_many("file", i * (count / TURNS)));
    uint64_t before = instructions();
    for (long done = 0; done < n; done++) {
        long fd = call(SYS_open, (long)names[done % TURNS], O_RDONLY, 0);
        call(SYS_read, fd, (long)page, 1);
        call(SYS_close, fd, 0, 0);
    }
    uint64_t spent = instructions() - before;
    forget_many(count);
    return spent;
}

static uint64_t time_open_read_close_many(long n) { return in_turn(n, TURNS); }
static uint64_t time_open_read_close_many_10k(long n) { return in_turn(n, CROWD); }

/* Opens and closes files that nobody has opened before, each once; or, with `held`, files that are open.
 * At most `TURNS`. */
static uint64_t each_once(long n, int held)
{
    static char names[TURNS][24];
    static long first[TURNS];
    static int run;
    must(n <= TURNS && mkdir("/tmp/many", 0755) == 0, "mkdir");
    for (long i = 0; i < n; i++) {
        /* Nobody has asked for these names, either. */
        strcpy(names[i], in_many("file", run + i));
        must(mknod(names[i], S_IFREG | 0644, 0) == 0, "mknod");
        if (held)
            must((first[i] = open(names[i], O_RDONLY)) >= 0, "open");
    }
    uint64_t before = instructions();
    for (long i = 0; i < n; i++)
        call(SYS_close, call(SYS_open, (long)names[i], O_RDONLY, 0), 0, 0);
    uint64_t spent = instructions() - before;
    for (long i = 0; held && i < n; i++)
        close(first[i]);
    for (long i = 0; i < n; i++)
        must(unlink(names[i]) == 0, "unlink");
    forget_many(0);
    run += n;
    return spent;
}

static uint64_t time_open_close_made(long n) { return each_once(n, 0); }
static uint64_t time_open_close_second(long n) { return each_once(n, 1); }

static uint64_t stats(long n, const char *path)
{
    struct stat st;
    uint64_t before = instructions();
    for (long done = 0; done < n; done++)
        must(call(SYS_stat, (long)path, (long)&st, 0) == 0, "stat");
    return instructions() - before;
}

static uint64_t time_stat(long n) { return stats(n, "/tmp/bench-file"); }

static uint64_t time_stat_deep(long n)
{
    char path[] = DEEP;
    for (char *c = strchr(path + 5, '/');; c = strchr(c + 1, '/')) {
        if (c)
            *c = 0;
        must(mkdir(path, 0755) == 0, "mkdir");
        if (!c)
            break;
        *c = '/';
    }
    make_file(DEEP "/file");
    uint64_t spent = stats(n, DEEP "/file");
    unlink(DEEP "/file");
    for (char *c; (c = strrchr(path, '/')) > path; *c = 0)
        must(rmdir(path) == 0, "rmdir");
    return spent;
}

/* 300 names in turn, of ten thousand in their directory. */
static uint64_t time_stat_10k(long n)
{
    static char names[TURNS][24];
    struct stat st;
    have_many(CROWD);
    for (int i = 0; i < TURNS; i++)
        strcpy(names[i], in_many("file", i * (CROWD / TURNS)));
    uint64_t before = instructions();
    for (long done = 0; done < n; done++)
        call(SYS_stat, (long)names[done % TURNS], (long)&st, 0);
    uint64_t spent = instructions() - before;
    forget_many(CROWD);
    return spent;
}

static uint64_t time_fstat(long n)
{
    struct stat st;
    uint64_t before = instructions();
    for (long done = 0; done < n; done++)
        call(SYS_fstat, file, (long)&st, 0);
    return instructions() - before;
}

/* Opens and closes a file, and removes another name of its directory each time. */
static uint64_t beside_removal(long n, int count)
{
    uint64_t spent = 0;
    have_many(count);
    for (long done = 0; done < n; done++) {
        make_file("/tmp/many/other");
        uint64_t before = instructions();
        call(SYS_close, call(SYS_open, (long)"/tmp/many/file00000", O_RDONLY, 0), 0, 0);
        call(SYS_unlink, (long)"/tmp/many/other", 0, 0);
        spent += instructions() - before;
    }
    forget_many(count);
    return spent;
}

static uint64_t time_open_close_unlink(long n) { return beside_removal(n, 1); }
static uint64_t time_open_close_unlink_10k(long n) { return beside_removal(n, CROWD); }

/* A file of a kibibyte that lives for one write. */
static uint64_t short_life(long n, int count)
{
    have_many(count);
    uint64_t before = instructions();
    for (long done = 0; done < n; done++) {
        long fd = call(SYS_open, (long)"/tmp/many/other", O_CREAT | O_TRUNC | O_WRONLY, 0644);
        call(SYS_write, fd, (long)page, KIB);
        call(SYS_close, fd, 0, 0);
        call(SYS_unlink, (long)"/tmp/many/other", 0, 0);
    }
    uint64_t spent = instructions() - before;
    forget_many(count);
    return spent;
}

static uint64_t time_create_write_close_unlink(long n) { return short_life(n, 1); }
static uint64_t time_create_write_close_unlink_10k(long n) { return short_life(n, CROWD); }

/* As lmbench's lat_fs: empty files, first all made, then all removed. */
static uint64_t made_or_removed(long n, int removal)
{
    uint64_t spent[2] = {0};
    have_many(0);
    for (long done = 0; done < n; done++) {
        const char *name = in_many("file", done);
        uint64_t before = instructions();
        call(SYS_close, call(SYS_open, (long)name, O_CREAT | O_TRUNC | O_RDWR, 0666), 0, 0);
        spent[0] += instructions() - before;
    }
    for (long done = 0; done < n; done++) {
        const char *name = in_many("file", done);
        uint64_t before = instructions();
        must(call(SYS_unlink, (long)name, 0, 0) == 0, "unlink");
        spent[1] += instructions() - before;
    }
    forget_many(0);
    return spent[removal];
}

static uint64_t time_file_create(long n) { return made_or_removed(n, 0); }
static uint64_t time_file_delete(long n) { return made_or_removed(n, 1); }

/* Lists `LISTED` entries from the middle on, `n` times. */
static uint64_t lists(long n, int count)
{
    static char entries[1 << 15];
    have_many(count);
    int fd = open("/tmp/many", O_RDONLY | O_DIRECTORY);
    long skipped = 0, place = 0, listed = 0;
    /* Where the middle begins. */
    while (skipped + LISTED < count / 2) {
        long length = call(SYS_getdents64, fd, (long)entries, sizeof entries);
        if (length <= 0)
            break;
        for (long at = 0; at < length; at += *(unsigned short *)(entries + at + 16))
            skipped++;
        place = call(SYS_lseek, fd, 0, SEEK_CUR);
    }
    uint64_t before = instructions();
    for (long done = 0; done < n; done++) {
        call(SYS_lseek, fd, place, SEEK_SET);
        for (listed = 0; listed < LISTED;) {
            long length = call(SYS_getdents64, fd, (long)entries, sizeof entries / 8);
            if (length <= 0)
                break;
            for (long at = 0; at < length; at += *(unsigned short *)(entries + at + 16))
                listed++;
        }
    }
    uint64_t spent = instructions() - before;
    must(listed >= LISTED, "getdents64");
    close(fd);
    forget_many(count);
    return spent;
}

/* Watches a file, or a directory, and no more. The end of each watch is an event, which is read
 * afterwards. */
static uint64_t watches(long n, const char *path)
{
    int fd = inotify_init1(IN_NONBLOCK);
    uint64_t before = instructions();
    for (long done = 0; done < n; done++) {
        long watch = call(SYS_inotify_add_watch, fd, (long)path, IN_ALL_EVENTS);
        must(call(SYS_inotify_rm_watch, fd, watch, 0) == 0, "inotify_rm_watch");
    }
    uint64_t spent = instructions() - before;
    close(fd);
    return spent;
}

static uint64_t time_inotify_add_rm(long n)
{
    make_file("/tmp/watched");
    uint64_t spent = watches(n, "/tmp/watched");
    unlink("/tmp/watched");
    return spent;
}

static uint64_t time_inotify_add_rm_open(long n) { return watches(n, "/tmp/bench-file"); }
static uint64_t time_inotify_add_rm_dir(long n) { return watches(n, "/tmp"); }

static uint64_t time_readdir_1000(long n) { return lists(n, LISTED); }
static uint64_t time_readdir_1000_10k(long n) { return lists(n, CROWD); }

/* Addresses and lengths of areas: a part of `extremes`.
 *
 * Interface: the group memory.
 */
#ifndef EXTREMES_MEMORY_H
#define EXTREMES_MEMORY_H

static int limited(long unused)
{
    (void)unused;
    struct rlimit limit = {1ul << 40, 1ul << 40};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 1;
    long done = call(mmap, 0, SIZE_MAX - PAGE + 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (done != -1 || errno != ENOMEM)
        return 2;
    done = call(mmap, 0, SIZE_MAX - 64 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return done != -1 || errno != ENOMEM ? 3 : 0;
}

static void memory(void)
{
    /* With a hole behind it, where calls that begin at once stop. */
    char *p = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p + 4 * PAGE, 4 * PAGE);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    fails(call(mmap, 0, 0ul, PROT_READ, flags, -1, 0), EINVAL, "a mapping of nothing");
    fails(call(mmap, 0, SIZE_MAX, PROT_READ, flags, -1, 0), ENOMEM, "a mapping of everything");
    fails(call(mmap, 0, SIZE_MAX - PAGE + 1, PROT_READ, flags, -1, 0), ENOMEM, "but a page");
    fails(call(mmap, 0, TOP, PROT_READ, flags, -1, 0), ENOMEM, "of all that a program may have");
    fails(call(mmap, 0, 1ul << 63, PROT_READ, flags, -1, 0), ENOMEM, "of half of everything");
    fails(call(mmap, TOP - PAGE, 2 * PAGE, PROT_READ, flags | MAP_FIXED, -1, 0), ENOMEM,
          "across the last address");
    fails(call(mmap, -PAGE, PAGE, PROT_READ, flags | MAP_FIXED, -1, 0), ENOMEM,
          "at the end of all addresses");
    fails(call(mmap, -PAGE, 2 * PAGE, PROT_READ, flags | MAP_FIXED, -1, 0), ENOMEM,
          "across the end of all addresses");
    int fd = file_of(1);
    fails(call(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, fd, 1ul), EINVAL, "of a file from its second byte");
    fails(call(mmap, 0, 2 * PAGE, PROT_READ, MAP_SHARED, fd, -PAGE), EOVERFLOW,
          "of a file from before its beginning");
    check(exited(status_of(limited, 0), 0), "a limit of addresses holds for lengths that overflow");

    fails(call(munmap, p, 0ul), EINVAL, "munmap of nothing");
    fails(call(munmap, p, SIZE_MAX), EINVAL, "munmap of everything");
    fails(call(munmap, p, TOP), EINVAL, "munmap past the last address");
    fails(call(munmap, p + 1, PAGE), EINVAL, "munmap from a page's second byte");
    fails(call(munmap, -PAGE, PAGE), EINVAL, "munmap at the end of all addresses");
    fails(call(munmap, -PAGE, 2 * PAGE), EINVAL, "munmap across it");
    fails(call(mprotect, p, SIZE_MAX, PROT_READ), ENOMEM, "mprotect of everything");
    fails(call(mprotect, p, TOP, PROT_READ), ENOMEM, "mprotect past the last address");
    fails(call(mprotect, -PAGE, PAGE, PROT_READ), ENOMEM, "mprotect at the end of all addresses");
    fails(call(mprotect, p + 1, PAGE, PROT_READ), EINVAL, "mprotect from a page's second byte");
    equal(call(mprotect, p, 0ul, PROT_READ), 0, "mprotect of nothing");
    fails(call(madvise, p, SIZE_MAX, MADV_DONTNEED), EINVAL, "advice on everything");
    fails(call(madvise, p, SIZE_MAX - 2 * PAGE, MADV_DONTNEED), EINVAL, "advice on nearly everything");
    fails(call(madvise, p + 1, PAGE, MADV_DONTNEED), EINVAL, "advice from a page's second byte");
    fails(call(madvise, p, PAGE, INT_MIN), EINVAL, "no such advice");
    unsigned char pages[8];
    fails(call(mincore, p, SIZE_MAX, pages), ENOMEM, "mincore of everything");
    fails(call(mincore, p, TOP, pages), ENOMEM, "mincore past the last address");
    fails(call(mincore, p + 1, PAGE, pages), EINVAL, "mincore from a page's second byte");
    fails(call(mincore, p, PAGE, (void *)-1l), EFAULT, "mincore told at the end of all addresses");
    fails(call(mincore, p, PAGE, (void *)TOP), EFAULT, "or just past the last");
    equal(call(mincore, p, 4 * PAGE - 1, pages), 0, "mincore of a part of a page counts it");
    fails(call(msync, p + 1, PAGE, MS_SYNC), EINVAL, "msync from a page's second byte");
    fails(call(msync, p, SIZE_MAX - 2 * PAGE, MS_SYNC), ENOMEM, "msync of nearly everything");

    fails(call(mremap, p, PAGE, 0ul, 0), EINVAL, "mremap to nothing");
    fails(call(mremap, p, PAGE, SIZE_MAX, MREMAP_MAYMOVE), EINVAL, "mremap to everything");
    fails(call(mremap, p, PAGE, TOP, MREMAP_MAYMOVE), ENOMEM, "mremap to all that a program may have");
    fails(call(mremap, p, SIZE_MAX - 2 * PAGE, PAGE, 0), EINVAL, "mremap of nearly everything");
    fails(call(mremap, p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, -PAGE), EINVAL,
          "mremap to the end of all addresses");
    fails(call(mremap, p, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, TOP - PAGE), EINVAL,
          "mremap across the last address");
    fails(call(mremap, -PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT,
          "mremap from the end of all addresses");
    check(p[0] == 0 && p[4 * PAGE - 1] == 0, "what was mapped is still there");

    long end = call(brk, 0);
    equal(call(brk, -1l), end, "the heap does not reach the end of all addresses");
    equal(call(brk, TOP), end, "nor the last address");
    equal(call(brk, TOP + PAGE), end, "nor past it");
    equal(call(brk, LEAST), end, "nor the middle");
    equal(call(brk, 1), end, "nor before its start");
    close(fd);
    munmap(p, 4 * PAGE);
}
#endif

/* Offsets and lengths in files, and pieces of memory that are read and written: a part of `extremes`.
 *
 * Interface: the groups offsets and vectors.
 */
#ifndef EXTREMES_FILES_H
#define EXTREMES_FILES_H

static void offsets(void)
{
    char bytes[64];
    int fd = file_of(16);
    check(fd >= 0, "a file");
    fails(call(pread64, fd, bytes, 1, -1l), EINVAL, "pread before the beginning");
    fails(call(pread64, fd, bytes, 1, LEAST), EINVAL, "pread far before the beginning");
    fails(call(pread64, fd, bytes, 1, MOST), EINVAL, "pread that would end past the last offset");
    equal(call(pread64, fd, bytes, 0, MOST), 0, "pread of nothing at the last offset");
    equal(call(pread64, fd, bytes, 1, MOST - 1), 0, "pread of the last byte that can be");
    fails(call(pwrite64, fd, bytes, 1, -1l), EINVAL, "pwrite before the beginning");
    fails(call(pwrite64, fd, bytes, 2, MOST - 1), EINVAL, "pwrite that would end past the last offset");
    struct iovec piece = {bytes, 8};
    fails(call(preadv, fd, &piece, 1, -1l, -1l), EINVAL, "preadv before the beginning");
    fails(call(preadv, fd, &piece, 1, MOST, 0), EINVAL, "preadv that would end past the last offset");
    fails(call(pwritev, fd, &piece, 1, MOST, 0), EINVAL, "pwritev likewise");
    fails(call(preadv2, fd, &piece, 1, -2l, -1l, 0), EINVAL, "preadv2 before the beginning");

    equal(call(lseek, fd, MOST, SEEK_SET), MOST, "a file's offset may be the last");
    equal(read(fd, bytes, 0), 0, "nothing is read there");
    fails(lseek(fd, 1, SEEK_CUR), EINVAL, "and it goes no further");
    fails(lseek(fd, MOST, SEEK_CUR), EINVAL, "nor twice as far");
    fails(lseek(fd, LEAST, SEEK_CUR), EINVAL, "nor before the beginning");
    equal(lseek(fd, 0, SEEK_CUR), MOST, "and stays where it was");
    fails(lseek(fd, MOST, SEEK_END), EINVAL, "not past the end by the most");
    fails(lseek(fd, LEAST, SEEK_END), EINVAL, "not before the end by the most");
    fails(lseek(fd, MOST, SEEK_DATA), ENXIO, "no data at the last offset");
    fails(lseek(fd, MOST, SEEK_HOLE), ENXIO, "no hole at the last offset");
    fails(lseek(fd, -1, SEEK_DATA), ENXIO, "no data before the beginning");
    fails(lseek(fd, 0, INT_MAX), EINVAL, "no such direction");
    int left = 7;
    equal(ioctl(fd, FIONREAD, &left), 0, "what is left to read is asked there");

    int text = open("/proc/self/status", O_RDONLY);
    equal(lseek(text, MOST, SEEK_SET), MOST, "a text's offset may be the last");
    fails(lseek(text, 1, SEEK_CUR), EINVAL, "and goes no further");
    fails(lseek(text, MOST, SEEK_CUR), EINVAL, "nor twice as far");
    /* Its answer is not the same everywhere. */
    ioctl(text, FIONREAD, &left);
    fails(lseek(text, -1, SEEK_SET), EINVAL, "nor before the beginning");
    equal(lseek(text, 0, SEEK_SET), 0, "back");
    check(read(text, bytes, sizeof bytes) > 0, "a text is read again from its start");
    close(text);

    int dir = open("/proc/self", O_RDONLY | O_DIRECTORY);
    fails(lseek(dir, -1, SEEK_SET), EINVAL, "no offset of a directory before its beginning");
    if (lseek(dir, MOST, SEEK_SET) == MOST) {
        check(lseek(dir, 1, SEEK_CUR) == -1, "a directory's offset does not go past the last");
        check(lseek(dir, MOST, SEEK_CUR) == -1, "nor twice as far");
        check(call(getdents64, dir, bytes, sizeof bytes) <= 0, "no entries at the last offset");
    }
    close(dir);

    fails(call(fallocate, fd, 0, -1l, 1l), EINVAL, "fallocate before the beginning");
    fails(call(fallocate, fd, 0, 0l, 0l), EINVAL, "fallocate of nothing");
    fails(call(fallocate, fd, 0, 0l, -1l), EINVAL, "fallocate of less than nothing");
    fails(call(fallocate, fd, 0, MOST, 1l), EFBIG, "fallocate past the last offset");
    fails(call(fallocate, fd, 0, MOST, MOST), EFBIG, "fallocate by the most from there");
    int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    equal(call(fallocate, fd, punch, 100l, 10l), 0, "a hole behind the end");
    equal(call(fallocate, fd, punch, PAGE * 3, PAGE), 0, "a page's hole behind the end");
    equal(call(fallocate, fd, punch, MOST - PAGE, PAGE), 0, "a hole at the last offset");
    equal(call(fallocate, fd, punch, 8l, MOST - 8), 0, "a hole from the middle to the last offset");
    fails(call(fallocate, fd, punch, 8l, MOST), EFBIG, "a hole past the last offset");
    check(pread(fd, bytes, 64, 0) == 16 && memcmp(bytes, "xxxxxxxx\0\0\0\0\0\0\0\0", 16) == 0,
          "the file is as long as before, and holes only where they were asked for");
    fails(call(ftruncate, fd, -1l), EINVAL, "a negative length");
    fails(call(ftruncate, fd, LEAST), EINVAL, "the most negative length");
    fails(call(truncate, "/proc/self/exe", -1l), EINVAL, "a negative length by path");

    int64_t from = -2, to = 0;
    int other = file_of(0);
    fails(call(copy_file_range, fd, &from, other, &to, 1ul, 0), EINVAL,
          "copy_file_range from before the beginning");
    from = -1;
    fails(call(copy_file_range, fd, &from, other, &to, 1ul, 0), EOVERFLOW,
          "copy_file_range from there to the beginning");
    from = MOST;
    equal(call(copy_file_range, fd, &from, other, &to, 1ul, 0), 0,
          "copy_file_range past the last offset finds nothing");
    from = 0, to = MOST;
    fails(call(copy_file_range, fd, &from, other, &to, 16ul, 0), EFBIG,
          "copy_file_range to past the last offset");
    from = 0, to = -1;
    fails(call(copy_file_range, fd, &from, other, &to, 16ul, 0), EOVERFLOW,
          "copy_file_range to before the beginning");
    from = 0, to = 4;
    fails(call(copy_file_range, fd, &from, fd, &to, 8ul, 0), EINVAL, "copy_file_range onto itself");
    from = 0, to = 0;
    equal(call(copy_file_range, fd, &from, other, &to, SIZE_MAX, 0), 16,
          "copy_file_range of the most copies what there is");
    check(from == 16 && to == 16, "and says where it stopped");
    from = -1;
    fails(call(sendfile, other, fd, &from, 1ul), EINVAL, "sendfile from before the beginning");
    from = 0;
    fails(call(sendfile, other, fd, &from, SIZE_MAX), EINVAL, "sendfile of a negative count");
    from = MOST;
    fails(call(sendfile, other, fd, &from, 8ul), EINVAL, "sendfile past the last offset");
    from = 8;
    equal(call(sendfile, other, fd, &from, (size_t)MOST - 16), 8, "sendfile of the most sends what there is");
    fails(call(fadvise64, fd, 0l, -1l, 0), EINVAL, "advice on a negative length");
    equal(call(fadvise64, fd, MOST, MOST, 0), 0, "advice past the last offset");

    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = MOST, .l_len = MOST};
    fails(fcntl(fd, F_SETLK, &lock), EOVERFLOW, "a lock past the last offset");
    lock.l_start = 0, lock.l_len = LEAST;
    fails(fcntl(fd, F_SETLK, &lock), EINVAL, "a lock that begins before the beginning");
    lock.l_start = LEAST, lock.l_len = LEAST;
    fails(fcntl(fd, F_SETLK, &lock), EINVAL, "a lock far before the beginning");
    close(fd);
    close(other);
}

static void vectors(void)
{
    char bytes[16] = "0123456789abcde";
    int fd = file_of(16);
    struct iovec pieces[3] = {{bytes, 1}, {bytes, SIZE_MAX}, {bytes, 1}};
    fails(call(readv, fd, pieces, 3), EINVAL, "a piece of negative length");
    fails(call(readv, fd, pieces, -1l), EINVAL, "a negative number of pieces");
    fails(call(readv, fd, pieces, IOV_MAX + 1l), EINVAL, "one piece too many");
    equal(call(readv, fd, pieces, 1l << 60), 0, "the number of pieces has 32 bits");
    pieces[1] = (struct iovec){(void *)-1, SIZE_MAX};
    fails(call(writev, fd, pieces, 3), EINVAL, "the same to write, at a bad address");
    pieces[0] = (struct iovec){(void *)-1, 1};
    fails(call(writev, fd, pieces, 3), EINVAL, "a negative length comes before a bad address");
    pieces[0] = (struct iovec){bytes, 1};
    pieces[1] = (struct iovec){(void *)TOP, 2};
    fails(call(writev, fd, pieces, 3), EFAULT, "a piece beyond the last address");
    fails(call(readv, fd, (void *)-16l, 2), EFAULT, "pieces described at the end of all addresses");
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        pieces[i] = (struct iovec){(void *)PAGE, TOP - 2 * PAGE};
    equal(call(writev, null, pieces, 3), 0x7ffff000,
          "three times the address space is cut to the most that a call moves");
    lseek(fd, 0, SEEK_SET);
    fails(call(read, fd, bytes, SIZE_MAX), EFAULT, "a read of a negative count");
    fails(call(write, null, bytes, SIZE_MAX), EFAULT, "a write of a negative count");
    fails(call(pread64, fd, bytes, SIZE_MAX, 0l), EFAULT, "a pread of a negative count");
    fails(call(read, fd, (void *)TOP, 1ul), EFAULT, "a read to the first address that is none");
    fails(call(read, fd, (void *)-1l, 1ul), EFAULT, "a read to the last address of all");
    close(null);
    close(fd);
}
#endif

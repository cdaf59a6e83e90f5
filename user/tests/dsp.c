/* Checks /dev/dsp, /dev/audio and /dev/mixer: settings, fragments, waiting, and calls with numbers that
 * nobody expects.
 *
 * Interface: dsp [GROUP...] runs all groups or those named; TAP on standard output. Needs a machine with a
 * sound card.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <linux/soundcard.h>
#include <poll.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int set(int fd, unsigned long number, int value) { return ioctl(fd, number, &value) ? -1 : value; }

static long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void settings(void)
{
    int fd = open("/dev/dsp", O_WRONLY);
    check(fd >= 0, "it opens");
    equal(set(fd, SNDCTL_DSP_SETFMT, AFMT_QUERY), AFMT_U8, "8 bits at first");
    equal(set(fd, SOUND_PCM_READ_RATE, 0), 8000, "8000 frames at first");
    equal(set(fd, SOUND_PCM_READ_CHANNELS, 0), 1, "one channel at first");
    equal(set(fd, SNDCTL_DSP_SETFMT, AFMT_S16_LE), AFMT_S16_LE, "16 bits");
    equal(set(fd, SNDCTL_DSP_SETFMT, AFMT_MPEG), AFMT_U8, "an unknown format becomes 8 bits");
    equal(set(fd, SNDCTL_DSP_STEREO, 1), 1, "two channels");
    equal(set(fd, SNDCTL_DSP_CHANNELS, 6), 6, "six channels");
    fails(set(fd, SNDCTL_DSP_CHANNELS, 1000), EINVAL, "a thousand channels are refused");
    equal(set(fd, SNDCTL_DSP_SPEED, 44100), 44100, "a rate");
    equal(set(fd, SNDCTL_DSP_SPEED, -1), 1000, "the lowest rate");
    equal(set(fd, SNDCTL_DSP_SPEED, 0x7fffffff), 192000, "the highest rate");
    check(set(fd, SNDCTL_DSP_GETFMTS, 0) & AFMT_S16_LE, "formats");
    check(set(fd, SNDCTL_DSP_GETCAPS, 0) & DSP_CAP_TRIGGER, "abilities");
    equal(set(fd, OSS_GETVERSION, 0), 0x030810, "the version");
    fails(ioctl(fd, SNDCTL_DSP_SPEED, 8), EFAULT, "a bad address");
    fails(ioctl(fd, SNDCTL_DSP_GETISPACE, 8), EINVAL, "nothing is recorded");
    fails(read(fd, &fd, 1), EBADF, "it is not for reading");
    fails(lseek(fd, 0, SEEK_SET), ESPIPE, "it has no position");
    check(mmap(0, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED, "it is not mapped");
    close(fd);
    fd = open("/dev/audio", O_WRONLY);
    equal(set(fd, SNDCTL_DSP_SETFMT, AFMT_QUERY), AFMT_MU_LAW, "another format at first");
    close(fd);
}

/* A /dev/dsp for 16 bits, two channels, 44,100 frames, with four fragments of 4096 bytes. */
static int opened(int flags)
{
    int fd = open("/dev/dsp", flags);
    set(fd, SNDCTL_DSP_SETFRAGMENT, 4 << 16 | 12);
    set(fd, SNDCTL_DSP_SETFMT, AFMT_S16_LE);
    set(fd, SNDCTL_DSP_STEREO, 1);
    set(fd, SNDCTL_DSP_SPEED, 44100);
    return fd;
}

static void fragments(void)
{
    static char bytes[1 << 16];
    audio_buf_info space;
    count_info at;
    int fd = opened(O_WRONLY | O_NONBLOCK);
    fails(set(fd, SNDCTL_DSP_SETFRAGMENT, 2 << 16 | 10), EINVAL, "fragments are set once");
    equal(set(fd, SNDCTL_DSP_GETBLKSIZE, 0), 4096, "their size");
    equal(ioctl(fd, SNDCTL_DSP_GETOSPACE, &space), 0, "the room is known");
    equal(space.fragstotal, 4, "four fragments");
    equal(space.bytes, 16384, "all room is free");
    /* Held, it plays nothing meanwhile, however long a busy machine takes. A filter may have taken some
     * frames more. */
    set(fd, SNDCTL_DSP_SETTRIGGER, 0);
    long written = write(fd, bytes, sizeof bytes);
    check(written >= 16384 && written <= 16384 + 512, "as much is written as has room");
    fails(write(fd, bytes, sizeof bytes), EAGAIN, "and no more");
    struct pollfd full = {fd, POLLOUT, 0};
    equal(poll(&full, 1, 0), 0, "a full one is not ready");
    set(fd, SNDCTL_DSP_SETTRIGGER, PCM_ENABLE_OUTPUT);
    equal(poll(&full, 1, 2000), 1, "it gets ready when a fragment has been played");
    check(write(fd, bytes, 4096) > 0, "then there is room");
    check(set(fd, SNDCTL_DSP_GETODELAY, 0) > 0, "some is to be heard yet");
    equal(ioctl(fd, SNDCTL_DSP_SYNC, 0), 0, "all is heard");
    equal(set(fd, SNDCTL_DSP_GETODELAY, 0), 0, "nothing is to be heard");
    equal(ioctl(fd, SNDCTL_DSP_GETOPTR, &at), 0, "the pointer");
    check(at.bytes >= 16384, "it has passed what was written");
    equal(at.blocks, at.bytes / 4096, "in so many blocks");
    count_info later;
    equal(ioctl(fd, SNDCTL_DSP_GETOPTR, &later), 0, "the pointer again");
    equal(later.blocks, later.bytes / 4096 - at.bytes / 4096, "those since the last question");
    equal(write(fd, bytes, 8192), 8192, "more");
    equal(ioctl(fd, SNDCTL_DSP_RESET, 0), 0, "it is thrown away");
    ioctl(fd, SNDCTL_DSP_GETOSPACE, &space);
    equal(space.bytes, 16384, "all room is free again");
    fails(write(fd, (void *)8, 4096), EFAULT, "bytes of a bad address");
    equal(write(fd, bytes, 0), 0, "no bytes");
    equal(write(fd, bytes, 3), 3, "a part of a frame");
    close(fd);
}

static void waiting(void)
{
    static char bytes[44100 * 4 / 2];
    int fd = opened(O_WRONLY);
    long begin = milliseconds();
    equal(write(fd, bytes, sizeof bytes), sizeof bytes, "half a second is written whole");
    check(milliseconds() - begin >= 300, "which takes as long as what has no room");
    close(fd);
    long took = milliseconds() - begin;
    check(took >= 480 && took < 5000, "and is heard before the close returns");
    fd = opened(O_WRONLY);
    equal(set(fd, SNDCTL_DSP_SETTRIGGER, 0), 0, "held");
    equal(set(fd, SNDCTL_DSP_GETTRIGGER, 0), 0, "the trigger says so");
    equal(write(fd, bytes, 8192), 8192, "a held one takes bytes");
    usleep(200000);
    count_info at;
    ioctl(fd, SNDCTL_DSP_GETOPTR, &at);
    equal(at.bytes, 0, "but does not play them");
    equal(set(fd, SNDCTL_DSP_SETTRIGGER, PCM_ENABLE_OUTPUT), PCM_ENABLE_OUTPUT, "let go");
    equal(ioctl(fd, SNDCTL_DSP_SYNC, 0), 0, "now they are heard");
    close(fd);
}

static void recording(void)
{
    static char bytes[16384];
    audio_buf_info space;
    /* A machine whose sound goes into a file hears nothing: there may be no frames. */
    int fd = opened(O_RDWR | O_NONBLOCK);
    long got = read(fd, bytes, sizeof bytes);
    check(got > 0 || (got < 0 && errno == EAGAIN), "frames that have come, or none");
    equal(ioctl(fd, SNDCTL_DSP_GETISPACE, &space), 0, "those that wait");
    check(space.bytes >= 0 && space.bytes <= 16384, "no more than have room");
    equal(set(fd, SNDCTL_DSP_GETTRIGGER, 0), PCM_ENABLE_INPUT | PCM_ENABLE_OUTPUT, "both directions run");
    equal(write(fd, bytes, 4096), 4096, "both directions at once");
    close(fd);
}

/* A machine that hears, if only silence. A read of a few bytes has many frames converted; these count among
 * those that wait. */
static void microphone(void)
{
    char bytes[4];
    audio_buf_info space = {0};
    count_info before, after;
    int fd = opened(O_RDONLY | O_NONBLOCK);
    for (long until = milliseconds() + 500; space.bytes < 8192 && milliseconds() < until; usleep(5000))
        ioctl(fd, SNDCTL_DSP_GETISPACE, &space);
    if (space.bytes < 8192) {
        check(1, "nothing is heard");
        close(fd);
        return;
    }
    equal(ioctl(fd, SNDCTL_DSP_GETIPTR, &before), 0, "how far it has come");
    equal(before.blocks, before.bytes / 4096, "in so many blocks");
    equal(read(fd, bytes, sizeof bytes), sizeof bytes, "a frame is read");
    equal(ioctl(fd, SNDCTL_DSP_GETIPTR, &after), 0, "how far since");
    /* The filter keeps some frames. */
    check(after.bytes > before.bytes - 1024, "frames that are converted and not read have come as well");
    long blocks = after.bytes / 4096 - before.bytes / 4096;
    equal(after.blocks, blocks < 0 ? 0 : blocks, "blocks since the last question");
    close(fd);
}

static void mixer(void)
{
    int fd = open("/dev/mixer", O_RDWR);
    mixer_info info;
    check(set(fd, SOUND_MIXER_READ_DEVMASK, 0) & SOUND_MASK_PCM, "there is a volume");
    equal(set(fd, SOUND_MIXER_READ_PCM, 0), 100 << 8 | 100, "which is full");
    equal(set(fd, SOUND_MIXER_WRITE_PCM, 50 << 8 | 50), 50 << 8 | 50, "it is set");
    equal(set(fd, SOUND_MIXER_READ_PCM, 0), 50 << 8 | 50, "and stays");
    equal(set(fd, SOUND_MIXER_WRITE_PCM, 0x7fffffff), 100 << 8 | 100, "no further than full");
    equal(ioctl(fd, SOUND_MIXER_INFO, &info), 0, "its name");
    fails(ioctl(fd, SNDCTL_DSP_SPEED, &info), ENXIO, "a mixer has no rate");
    fails(read(fd, &info, 1), EINVAL, "and is not read");
    close(fd);
}

/* Operations with any number and any argument: each is answered, and the device plays afterwards. */
static void random_ones(void)
{
    static char page[8192 + 4096], bytes[4096];
    uint64_t seed = 88172645463325252u;
    int fds[3] = {open("/dev/dsp", O_RDWR | O_NONBLOCK), open("/dev/audio", O_WRONLY | O_NONBLOCK),
                  open("/dev/mixer", O_RDWR)};
    for (int n = 0; n < 20000; n++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        unsigned letter = seed >> 8 & 1 ? 'P' : seed >> 9 & 1 ? 'M' : seed >> 16 & 0xff;
        static const unsigned sizes[] = {0,          0xc0040000, 0x80040000, 0x40040000,
                                         0x80100000, 0x800c0000, 0xffff0000};
        unsigned number = sizes[(seed >> 24) % 7] | letter << 8 | (seed >> 32 & 31);
        if (number == SNDCTL_DSP_SYNC)
            continue;
        for (int word = 0; word < 4; word++)
            ((int *)page)[word] = (int)(seed >> (word * 9)) >> (seed >> 50 & 31);
        unsigned long args[] = {(unsigned long)page, 0, seed, (unsigned long)page + 8190};
        ioctl(fds[seed >> 40 & 1 ? 0 : seed >> 41 & 1 ? 1 : 2], number, args[seed >> 43 & 3]);
        if (n % 64 == 0) {
            write(fds[seed >> 44 & 1], bytes, seed >> 45 & 4095);
            read(fds[0], bytes, seed >> 46 & 4095);
        }
    }
    check(1, "each was answered");
    for (int n = 0; n < 3; n++) {
        if (n < 2)
            ioctl(fds[n], SNDCTL_DSP_RESET, 0);
        close(fds[n]);
    }
    int fd = opened(O_WRONLY);
    equal(write(fd, bytes, sizeof bytes), sizeof bytes, "it plays afterwards");
    equal(ioctl(fd, SNDCTL_DSP_SYNC, 0), 0, "to the end");
    close(fd);
}

static const struct group groups[] = {
    {"settings", settings}, {"fragments", fragments}, {"waiting", waiting},       {"recording", recording},
    {"mixer", mixer},       {"random", random_ones},  {"microphone", microphone},
};

int main(int argc, char **argv)
{
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}

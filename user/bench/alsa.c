/* Plays standard input on Linux's first sound card, as `play` does on /dev/speaker, for measurements.
 *
 * Interface: alsa FRAMES AHEAD_MS. Frames of 16 bits, two channels, 44,100 in a second, read FRAMES at a
 * time; so many milliseconds are read before it begins to sound. The device is ALSA's pcmC0D0p itself,
 * without a library: a buffer of 5120 frames, which is what Synthesis has between a program and the card (the
 * ring of /dev/speaker of 4096, and the 1024 that the card is filled ahead), in 16 periods, since the card
 * has 32 places for periods and Linux fills them in a circle. When the buffer runs dry the card is not
 * stopped but plays silence, as Synthesis's does, and the stream goes on when half of the buffer has been
 * written again. Prints how often that was.
 *
 * Source: Linux's include/uapi/sound/asound.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <sound/asound.h>

#define RATE 44100
#define PERIOD 320
#define BUFFER 5120

static int card;

static void made(int result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
}

static void interval(struct snd_pcm_hw_params *params, int which, unsigned value)
{
    struct snd_interval *at = &params->intervals[which - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL];
    at->min = at->max = value;
    at->integer = 1;
}

static void only(struct snd_pcm_hw_params *params, int which, unsigned bit)
{
    struct snd_mask *mask = &params->masks[which - SNDRV_PCM_HW_PARAM_FIRST_MASK];
    memset(mask, 0, sizeof *mask);
    mask->bits[bit / 32] = 1u << bit % 32;
}

static void set_up(void)
{
    struct snd_pcm_hw_params hard;
    memset(&hard, 0, sizeof hard);
    memset(hard.masks, 0xff, sizeof hard.masks);
    for (size_t i = 0; i < sizeof hard.intervals / sizeof *hard.intervals; i++)
        hard.intervals[i].max = ~0u;
    only(&hard, SNDRV_PCM_HW_PARAM_ACCESS, SNDRV_PCM_ACCESS_RW_INTERLEAVED);
    only(&hard, SNDRV_PCM_HW_PARAM_FORMAT, SNDRV_PCM_FORMAT_S16_LE);
    only(&hard, SNDRV_PCM_HW_PARAM_SUBFORMAT, SNDRV_PCM_SUBFORMAT_STD);
    interval(&hard, SNDRV_PCM_HW_PARAM_CHANNELS, 2);
    interval(&hard, SNDRV_PCM_HW_PARAM_RATE, RATE);
    interval(&hard, SNDRV_PCM_HW_PARAM_PERIOD_SIZE, PERIOD);
    interval(&hard, SNDRV_PCM_HW_PARAM_BUFFER_SIZE, BUFFER);
    hard.rmask = ~0u;
    hard.info = ~0u;
    made(ioctl(card, SNDRV_PCM_IOCTL_HW_PARAMS, &hard), "HW_PARAMS");
    struct snd_pcm_sw_params soft = {.avail_min = PERIOD, .period_step = 1, .start_threshold = BUFFER / 2};
    soft.boundary = BUFFER;
    while (soft.boundary * 2 <= 0x7fffffffffffffff - BUFFER)
        soft.boundary *= 2;
    soft.stop_threshold = soft.silence_size = soft.boundary;
    made(ioctl(card, SNDRV_PCM_IOCTL_SW_PARAMS, &soft), "SW_PARAMS");
    made(ioctl(card, SNDRV_PCM_IOCTL_PREPARE), "PREPARE");
}

static long in_buffer(void)
{
    snd_pcm_sframes_t frames = 0;
    made(ioctl(card, SNDRV_PCM_IOCTL_DELAY, &frames), "DELAY");
    return frames;
}

/* Counts how often the card was beyond the last frame: what comes then is to be heard half of a buffer
 * later. */
static size_t play(const char *bytes, size_t frames)
{
    size_t dry = 0;
    while (frames > 0) {
        long ahead = in_buffer();
        if (ahead < 0) {
            snd_pcm_uframes_t further = BUFFER / 2 - ahead;
            made(ioctl(card, SNDRV_PCM_IOCTL_FORWARD, &further), "FORWARD");
            dry++;
        }
        struct snd_xferi some = {.buf = (void *)bytes, .frames = frames < PERIOD ? frames : PERIOD};
        if (ioctl(card, SNDRV_PCM_IOCTL_WRITEI_FRAMES, &some) < 0) {
            /* The look at the card comes again after the wait, which may be long. */
            struct pollfd room = {.fd = card, .events = POLLOUT};
            made(errno == EAGAIN ? poll(&room, 1, -1) : -1, "WRITEI_FRAMES");
            continue;
        }
        bytes += 4 * some.result;
        frames -= some.result;
    }
    return dry;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t block = 4 * strtoul(argv[1], 0, 10), ahead = 4 * (strtoul(argv[2], 0, 10) * RATE / 1000);
    if (block == 0)
        return 2;
    card = open("/dev/snd/pcmC0D0p", O_WRONLY | O_NONBLOCK);
    made(card, "/dev/snd/pcmC0D0p");
    set_up();
    /* A stream without a whole frame at its end is none of ours. */
    size_t room = ahead + block, have = 0, dry = 0, total = 0;
    char *bytes = malloc(room);
    int sounds = 0;
    if (!bytes)
        return 1;
    for (;;) {
        ssize_t count = read(0, bytes + have, sounds ? block - have % block : block);
        if (count < 0 && errno == EINTR)
            continue;
        made(count, "standard input");
        have += count;
        if (count > 0 && ((!sounds && have < ahead) || have < 4))
            continue;
        size_t whole = have / 4;
        dry += play(bytes, whole);
        total += whole;
        memmove(bytes, bytes + 4 * whole, have -= 4 * whole);
        sounds = 1;
        if (count == 0)
            break;
    }
    if (total < BUFFER / 2)
        ioctl(card, SNDRV_PCM_IOCTL_START);
    /* The card plays on, so no call waits for the end of what is written. */
    struct timespec moment = {0, 10000000};
    while (in_buffer() > 0)
        nanosleep(&moment, 0);
    fprintf(stderr, "alsa: %zu frames, %zu xruns\n", total, dry);
    return 0;
}

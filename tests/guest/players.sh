# Programs from Debian's packages, as they are, play a tone each by the Open Sound System. The host listens.
# Called with their names; each finds its tone in /tones.
PATIENCE=100
. /tests/debian.sh

# Debian's scripts would have made links to these.
export LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/blas:/usr/lib/x86_64-linux-gnu/lapack
echo 'pcm.oss { type oss; device /dev/dsp }' >/root/.asoundrc

# The card stands still without a client, and the pauses between two tones would not be recorded.
exec 9>/dev/speaker

by() {
    tone=/tones/$1.wav
    case $1 in
    sox) sox -q "$tone" -t oss /dev/dsp ;;
    play) AUDIODRIVER=oss AUDIODEV=/dev/dsp play -q "$tone" ;;
    cat) sox -q "$tone" -t ul - | cat >/dev/audio ;;
    mpg123) sox -q "$tone" a.mp3 && mpg123.bin -q -o oss -a /dev/dsp a.mp3 ;;
    aplay) aplay -q -D oss "$tone" ;;
    ffmpeg) ffmpeg -loglevel error -nostdin -i "$tone" -f oss /dev/dsp ;;
    ffplay) SDL_AUDIODRIVER=dsp SDL_VIDEODRIVER=dummy ffplay -loglevel error -nodisp -autoexit "$tone" ;;
    mplayer) mplayer -really-quiet -nolirc -noconsolecontrols -ao oss "$tone" ;;
    esac
}

for player in "$@"; do
    is "$player plays and ends" "0" "$(by "$player" </dev/null >said 2>&1; echo $?)"
    head -c 500 said | sed 's/^/# /'
    sleep 1
done
plan

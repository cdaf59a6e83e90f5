# A stream from a file or a device to the loudspeaker through five filters, while other programs work: dropouts.sh HOGS STREAM [PRIORITY [SECONDS]]. With a
# priority (other than 0) the stream's programs have SCHED_FIFO; after so many seconds the stream is given up. The last lines are the player's report and the numbers of other
# works that were done meanwhile.
cd /tmp || exit 1
work() {
    count=0
    trap 'echo "$name $count" >>/tmp/worked; exit' TERM
    while :; do
        "$@" >/dev/null 2>&1
        count=$((count + 1))
    done
}
begin() {
    name=$1
    shift
    work "$@" &
    others="$others $!"
}
spin() {
    turn=0
    while [ $turn -lt 1000 ]; do turn=$((turn + 1)); done
}
hogs=$1
while [ "$hogs" -gt 0 ]; do
    begin spun spin
    hogs=$((hogs - 1))
done
begin forked /bin/true
begin sorted sort -r /tests/numbers
begin packed gzip -c /tests/numbers
# Where there is a compiler, and something to compile.
[ -e /tests/source.c ] && begin compiled tcc -nostdinc -nostdlib -c /tests/source.c -o /tmp/object
urgent=
[ "${3:-0}" -gt 0 ] && urgent="urgent $3"
player="play --frames 64 --ahead 500 --report"
# Linux's sound card.
[ -d /modules ] && player="alsa 64 500"
[ "${4:-0}" -gt 0 ] && player="timeout $4 $player"
rest() {
    $urgent highpass 50 | $urgent echoes 180 --gain 30 | $urgent reverb | $urgent delay 20 | $urgent $player 2>/tmp/report
}
if [ -c "$2" ]; then
    # A disc begins to turn when it is opened, and waits for no program to be loaded.
    $urgent cat "$2" | $urgent lowpass 9000 | rest
else
    $urgent lowpass 9000 <"$2" | rest
fi
kill $others
wait 2>/dev/null
cat /tmp/report
sort /tmp/worked | uniq -c | sort -rn | head -n 40

# Debian's hackbench; the same on every kernel.
#
# Interface: hackbench.sh GROUPS LOOPS runs it over sockets and pipes, with processes and threads; prints `run NAME` before what the program prints, and
# `failed NAME STATUS` behind what has failed.
cd /tmp || exit 1
for kind in process thread; do
    for way in socket pipe; do
        words=--$kind
        [ $way = pipe ] && words="$words --pipe"
        echo "run ${kind}_$way"
        hackbench $words --groups "$1" --fds 20 --datasize 100 --loops "$2" 2>&1 || echo "failed ${kind}_$way $?"
    done
done
echo end

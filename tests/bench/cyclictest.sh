# Debian's cyclictest beside programs that compute and fork; the same on every kernel.
#
# Interface: cyclictest.sh SECONDS [NAME...] runs it for so long with each interval and policy, all or those named (`fifo-250`); prints `run NAME` before what the
# program prints, and `failed NAME STATUS` behind what has failed.
. /bench/load.sh
cd /tmp || exit 1
# Empty cells are not printed: a serial line takes long for them.
set -o pipefail
seconds=$1
shift
names=" $* "
begin_load
for policy in fifo other; do
    for interval in 1000 250; do
        case "$names" in "  " | *" $policy-$interval "*) ;; *) continue ;; esac
        case $policy in fifo) words="--priority=90" ;; *) words="--policy=other" ;; esac
        echo "run $policy-$interval"
        cyclictest --mlockall --quiet --threads=1 $words --interval=$interval --duration="$seconds" --histogram=20000 2>&1 | grep -v ' 000000$' ||
            echo "failed $policy-$interval $?"
    done
done
end_load
echo end

# The texts of the system about itself: /proc, ps, top, mount, date, and /syn.
. /tests/lib.sh

is "uname" "Linux x86_64" "$(uname -s -m)"
like "uname -r" "*.*" "$(uname -r)"
is "whoami" root "$(whoami)"
is "hostname" synthesis "$(hostname)"
like "date" "20[2-9][0-9]" "$(date +%Y)"
before=$(date +%s); sleep 1; after=$(date +%s)
is "sleep 1 takes a second or two" 1 "$([ $((after - before)) -ge 1 ] && [ $((after - before)) -le 2 ] && echo 1)"
like "ps shows itself" "*ps*" "$(ps)"
like "ps shows the shell" "*sh*" "$(ps | grep -v grep)"
sleep 50 & p=$!
# The job is a shell until it has executed its program.
until [ "$(cat /proc/$p/comm)" = sleep ]; do :; done
like "ps shows a background job" "*$p*sleep 50*" "$(ps | tr '\n' ' ')"
is "/proc/PID/comm" sleep "$(cat /proc/$p/comm)"
is "/proc/PID/cmdline" "sleep 50 " "$(tr '\0' ' ' </proc/$p/cmdline)"
like "/proc/PID/stat" "$p (sleep) S *" "$(cat /proc/$p/stat)"
like "/proc/PID/status" "*Name:*sleep*State:*S*" "$(cat /proc/$p/status)"
is "kill -0" 0 "$(kill -0 $p; echo $?)"
kill $p; wait $p 2>/dev/null
exits "a dead process has no /proc entry" 1 test -e /proc/$p
like "/proc/self" "/proc/[0-9]*" "$(cd /proc/self && pwd -P)"
like "/proc/self/maps" "*stack*" "$(cat /proc/self/maps)"
like "top" "*Mem:*PID*" "$(top -b -n 1 | tr '\n' ' ')"
like "free" "*Mem:*" "$(free)"
like "uptime" "*load average*" "$(uptime)"
like "mount" "*proc*" "$(mount)"
like "/proc/mounts" "*syn*" "$(cat /proc/mounts)"
like "/proc/cpuinfo" "*processor*" "$(cat /proc/cpuinfo)"
like "/proc/meminfo" "MemTotal:*MemFree:*" "$(cat /proc/meminfo | tr '\n' ' ')"
like "/proc/version" "Linux version $(uname -r)*" "$(cat /proc/version)"
like "/proc/filesystems" "*nodev*proc*tmpfs*" "$(sort /proc/filesystems | tr '\n' ' ')"
is "id" "uid=0(root) gid=0(root)" "$(id | cut -d' ' -f1,2)"
like "/dev has its nodes" "*null*random*tty*zero*" "$(ls /dev | tr '\n' ' ')"
like "ls /syn" "*code*" "$(ls /syn | tr '\n' ' ')"
# A routine may go while its file is opened, and another come to its place: then the next attempt succeeds.
read_all() { # AT LEAST so many files that FIND finds
    least=$1
    shift
    "$@" | {
        count=0
        while read -r f; do
            cat "$f" >/dev/null 2>/tmp/why || [ ! -e "$f" ] || cat "$f" >/dev/null 2>/tmp/why || { cat /tmp/why; exit 1; }
            count=$((count + 1))
        done
        echo "$count files"
        [ $count -ge $least ]
    }
}
runs "every file in /syn can be read" read_all 30 find /syn -type f
runs "every readable file in /proc can be read" read_all 10 find /proc -maxdepth 1 -type f ! -name kmsg
exec 5</etc/passwd
echo "$$ 5" >/syn/probes
read -r _ <&5
like "a probed descriptor's reads are counted" "*$$ * 5 read * [1-9]* /etc/passwd*" "$(cat /syn/probes)"
echo "$$ 5 off" >/syn/probes
is "a probe that is taken away is gone" 1 "$(wc -l </syn/probes)"
exits "a probe of nothing" 1 sh -c 'echo 99999 1 >/syn/probes'
exec 5<&-
is "no process is left over" 0 "$(ps | grep -c '[s]leep')"
runs "hwclock: the battery clock is set" hwclock -w -u
like "hwclock: and read" "*$(date -u +%Y)*" "$(hwclock -r -u)"
plan

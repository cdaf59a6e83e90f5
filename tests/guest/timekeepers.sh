# chronyd or ntpd from Debian's package, which is the argument: the clock of the day follows a reference clock that the daemon finds in
# shared memory.
PATIENCE=60
. /tests/debian.sh

# follows SECONDS NANOSECONDS DAEMON...: until the judge has seen enough.
follows() {
    refclock "$1" "$2" >/tmp/followed 2>&1 &
    judge=$!
    shift 2
    "$@" >/tmp/told 2>&1 &
    daemon=$!
    wait $judge
    is "$1: the clock follows" 0 $?
    sed "s/^/# /" /tmp/followed
}

ends() {
    kill $daemon
    wait $daemon
    is "$1: it ends when asked" 0 $?
    sed "s/^/# /" /tmp/told
}

case $1 in
chrony)
    mkdir -p -m 750 /run/chrony
    cat >/tmp/chrony.conf <<'C'
refclock SHM 0 poll 2 precision 1e-6 refid REF
user root
pidfile /run/chrony/chronyd.pid
bindcmdaddress /run/chrony/chronyd.sock
rtcsync
C
    follows 600 100000 chronyd -n -f /tmp/chrony.conf
    asked() { of chronyc -h /run/chrony/chronyd.sock "$@"; }
    like "chronyd: whom it follows" "*(REF)*Leap status     : Normal*" "$(asked tracking)"
    like "chronyd: the source is chosen" "*#\*\ REF*" "$(asked sources)"
    ends chronyd
    ;;
ntpsec)
    cat >/tmp/ntp.conf <<'C'
refclock shm unit 0 minpoll 4 maxpoll 4 refid REF
restrict 127.0.0.1
C
    follows 7200 1000000 ntpd -n -g -c /tmp/ntp.conf
    like "ntpd: the source is chosen" "*\**REF*" "$(of ntpq -np 127.0.0.1)"
    ends ntpd
    ;;
esac
plan

# The common part of the scripts about programs from Debian's packages. Sourced with PATIENCE, the seconds that anything may take.
#
# Interface: all of lib.sh; comes COMMAND... runs the command again and again until it succeeds; of COMMAND... is all that it says.
. /tests/lib.sh
export LANG=C.UTF-8 TERM=xterm HOME=/root
cd /tmp || exit 1

comes() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt $((PATIENCE * 10)) ] || return 1
        sleep 0.1
    done
}

of() { timeout "$PATIENCE" "$@" 2>&1; }

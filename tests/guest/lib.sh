# How the guest's scripts report: one TAP line a check. Sourced by every script.
#
# Interface: is NAME EXPECTED ACTUAL; like NAME PATTERN ACTUAL (a shell pattern); runs NAME COMMAND...
# (it exits with 0); exits NAME STATUS COMMAND...; and at the end: plan.

tap_count=0

tap() { # GOOD NAME DETAIL
    tap_count=$((tap_count + 1))
    if [ "$1" = 1 ]; then
        echo "ok $tap_count $2"
    else
        echo "not ok $tap_count $2"
        echo "# $3"
    fi
}

is() {
    if [ "$2" = "$3" ]; then tap 1 "$1"; else tap 0 "$1" "expected [$2], got [$3]"; fi
}

like() {
    case "$3" in
    $2) tap 1 "$1" ;;
    *) tap 0 "$1" "[$3] is not like [$2]" ;;
    esac
}

runs() {
    tap_name=$1
    shift
    if "$@" >/tmp/tap-out 2>&1; then tap 1 "$tap_name"; else tap 0 "$tap_name" "exit $?: $(tail -n 3 /tmp/tap-out | tr '\n' ' ')"; fi
}

exits() {
    tap_name=$1
    tap_status=$2
    shift 2
    "$@" >/tmp/tap-out 2>&1
    is "$tap_name" "$tap_status" $?
}

plan() { echo "1..$tap_count"; }

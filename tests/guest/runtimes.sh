# The needs of run-times, by their own tests: of Go's library and of python's. `runtimes.sh long` runs those that take minutes too.
. /tests/lib.sh
export LANG=C.UTF-8 TERM=xterm HOME=/root GOROOT=/go
# There is no Go here that could build.
export GO_GCFLAGS=none
ulimit -S -n 1024
ulimit -H -n 20000

# Each test of a package but those whose names are PATTERN, or those that it is asked for: go PACKAGE PATTERN [TESTS].
go() {
    cd "/go/src/$1" || exit 1
    program=/go/bin/$(echo "$1" | tr / _).test
    tests=${3:-"^($("$program" -test.list . | grep -vxE "$2" | paste -sd '|'))\$"}
    timeout 1500 "$program" -test.short -test.run "$tests" >/tmp/out 2>&1 </dev/null
    is "go: $1${3:+, $3}" "0 PASS" "$? $(tail -n 1 /tmp/out)"
    grep -aE -A 3 -e '--- FAIL|^panic|^fatal' /tmp/out | head -n 20 | sed 's/^/# /'
}

# Those that compare with what a compiler finds, want a name space, or measure the processor's time for minutes.
slow='TestStackGrowth|TestDeferPtrs|TestMemmoveOverflow|TestGoroutineParallelism2?|TestDebugCall.*|TestNoShrinkStackWhileParking|TestScavenge.*|TestArenaCollision|Test.*GC.*|Test.*Hash.*|TestSmhasher.*|TestMemclr|TestMemmove.*|Test.*Growth.*|TestPalloc.*|TestPageAlloc.*'
never='TestAtomicAlignment'
[ "$1" = long ] && slow=$never
go os TestNone
go os/exec TestNone
go os/signal TestNone
go syscall TestUnshareMountNameSpace
# Debian has no archive of zones of time.
go time TestLoadLocationFromTZData
go net TestSplice
go net '' 'TestSplice/.*/(simple|multipleWrite|honors|updates|limited|reader|issue)'
[ "$1" = long ] && go net '' 'TestSplice/.*/big'
go runtime "$never|$slow"

# A number goes on behind those of this script.
python() {
    timeout 3000 python3 /tests/runtimes.py $((tap_count + 1)) "$@" 2>/tmp/err </dev/null | tee /tmp/out
    tap_count=$((tap_count + $(grep -cE '^(not )?ok ' /tmp/out)))
    cat /tmp/err >&2
}

python -test_fcntl_64_bit test_fcntl test_resource test_openpty test_pty test_select test_epoll -above_fd_setsize test_selectors \
    test_threadsignals test_mmap test_time test_wait4 test_fork1 test_signal.PosixTests test_signal.WakeupFDTests test_signal.PendingSignalsTests
[ "$1" = long ] && python test_wait3 test_poll test_eintr test_posix test_os test_signal test_threading test_thread test_subprocess test_mailbox test_socket \
    test_asyncio test_concurrent_futures test_multiprocessing_fork test_multiprocessing_forkserver test_multiprocessing_spawn
plan

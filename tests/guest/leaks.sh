# After a load of every kind, frames, heap and code bytes are back where they were.
. /tests/lib.sh

# What must not grow: `/syn/memory` has lines `NAME NUMBER UNIT`; the names that count.
used() { awk '$1 ~ /^(frames_used|heap_used|code_bytes)$/ { print $1, $2 }' /syn/memory; }

load() {
    /tests/load-glibc 2 3 >/dev/null
    echo a | cat | cat | tr a b >/dev/null
    cat /syn/threads /proc/meminfo >/dev/null
    (cd /tmp && mkdir leak && echo x >leak/x && tar cf leak.tar leak && rm -r leak leak.tar)
    sh -c 'kill -9 $$' 2>/dev/null
    sleep 0.01 & wait
}

runs "/syn/memory has the figures" sh -c '[ $(grep -cE "^(frames_used|heap_used|code_bytes) " /syn/memory) = 3 ]'
# The first rounds fill caches that are kept.
for i in 1 2 3; do load; done
sleep 0.3
before=$(used)
for i in 1 2 3 4 5 6; do load; done
# Grace periods end when every CPU has been idle.
for wait in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.3
    after=$(used)
    [ "$before" = "$after" ] && break
done
is "frames, heap and code are where they were" "$before" "$after"
plan

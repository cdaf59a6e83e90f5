# After a load of every kind, frames, heap and code bytes are back where they were.
. /tests/lib.sh

# What must not grow.
used() {
    awk '/^all frames/ { all = $3 } /^free frames/ { printf "frames %d KiB, ", all - $3 }
         /^heap/ { kind = "heap" } /^generated code/ { kind = "code" }
         /^  in use/ { printf "%s %d KiB, ", kind, $3 }
         /routines exist/ { printf "%d routines", $1 }' /syn/memory
}

load() {
    /tests/load-glibc 2 3 >/dev/null
    echo a | cat | cat | tr a b >/dev/null
    cat /syn/threads /proc/meminfo >/dev/null
    (cd /tmp && mkdir leak && echo x >leak/x && tar cf leak.tar leak && rm -r leak leak.tar)
    sh -c 'kill -9 $$' 2>/dev/null
    sleep 0.01 & wait
}

like "/syn/memory has the figures" "frames * KiB, heap * KiB, code * KiB, * routines" "$(used)"
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

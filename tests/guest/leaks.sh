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
rounds() {
    for i in 1 2 3 4 5 6 7 8 9 10; do load; done
    # Grace periods end when every CPU has been idle.
    sleep 0.5
}

# The first rounds fill caches that are kept, on every CPU; then nothing may grow any more. A cache that
# fills late gets a second chance, a leak does not come to rest. Less than before is no leak.
more() { echo "$1 $2" | tr -dc '0-9 ' | awk '{ for (i = 1; i <= NF / 2; i++) if ($(i + NF / 2) > $i) exit 0; exit 1 }'; }
rounds
after=$(used)
for try in 1 2 3 4 5; do
    before=$after
    rounds
    after=$(used)
    more "$before" "$after" || break
done
exits "frames, heap and code are where they were" 1 more "$before" "$after"
echo "# before: $before; after: $after"
plan

# After a load of every kind, frames, heap and code bytes are back where they were.
. /tests/lib.sh

# The counts that must not grow. Memory that the heap, the code space and the stacks keep ready for the next who asks counts by what of it is in use.
# Tables grow with the highest number that a process ever had, up to a bound, and do not count.
used() {
    awk '/^all frames/ { frames = $3 } /^free frames/ { frames -= $3 }
         /^heap/ { kind = "heap"; frames -= $2 } /^generated code/ { kind = "code"; frames -= $4 }
         /^tables, memory/ { frames -= $3 }
         /^kernel stacks/ { stacks = $3; frames -= $3 } /waiting for a thread/ { stacks -= $5 }
         /^  in use/ { use[kind] = $3 } /routines exist/ { routines = $1 }
         END { printf "frames %d KiB, heap %d KiB, code %d KiB, stacks %d KiB, %d routines",
               frames, use["heap"], use["code"], stacks, routines }' /syn/memory
}

load() {
    /tests/load-glibc 2 3 >/dev/null
    echo a | cat | cat | tr a b >/dev/null
    cat /syn/threads /proc/meminfo >/dev/null
    (cd /tmp && mkdir leak && echo x >leak/x && tar cf leak.tar leak && rm -r leak leak.tar)
    sh -c 'kill -9 $$' 2>/dev/null
    sleep 0.01 & wait
}

like "/syn/memory has the figures" "frames * KiB, heap * KiB, code * KiB, stacks * KiB, * routines" "$(used)"
# Grace periods end when every CPU has been idle, which it is while this sleeps.
settled() {
    for try in $(seq 1000); do
        grep -q '^0 frees wait' /syn/memory && return
        sleep 0.01
    done
    echo "not settled: $(grep 'frees wait' /syn/memory)"
    return 1
}

# In a long run ten.
loads=${LONG:+10}
loads=${loads:-6}
rounds() { # COMMAND after each load
    for i in $(seq "$loads"); do load; "$@"; done
    settled
}

# The first rounds fill caches that are kept, on every CPU, and threads that have ended are buried by the next one: single figures
# move up and down by a page or two. A leak does not: it grows with the loads, of which a round has six with some thirty processes each. After as
# many rounds again, even the least of three figures would be above the most of three before by more than that. Each of four CPUs may have a
# thread that has not been buried, with its stack of 16 KiB.
slack=8
stacks=64
figures() { for try in 1 2 3; do rounds "$@"; used; echo; done; }
grown() {
    { echo "$1"; echo; echo "$2"; } | tr -dc '0-9 \n' | awk -v slack=$slack -v stacks=$stacks '
        NF == 0 { late = 1; next }
        !late { for (i = 1; i <= NF; i++) if ($i > most[i]) most[i] = $i }
        late { for (i = 1; i <= NF; i++) if (!(i in least) || $i < least[i]) least[i] = $i }
        END { for (i in least) if (least[i] > most[i] + (i == 4 ? stacks : slack)) exit 0; exit 1 }'
}
# Places for threads and processes are kept, and the highest numbers of them come late.
for warm in 1 2 3 4; do rounds true; done
runs "all frees come to pass" settled
early=$(figures true)
late=$(figures true)
exits "frames, heap and code are where they were" 1 grown "$early" "$late"
echo "$early" | sed 's/^/# early: /'
echo "$late" | sed 's/^/# late: /'

# Stacks that ended threads have left with their entries for the next ones go when memory is short.
in_stacks() { used | sed 's/.* stacks \([0-9]*\) KiB.*/\1/'; }
waiting=$(in_stacks)
echo shrink >/syn/memory
settled
without=$(in_stacks)
exits "stacks of ended threads are given back" 0 test $((waiting - without)) -ge 128
echo "# in stacks: $waiting KiB, $without KiB after"

# The control: a load that keeps one page of a file is found.
keep() { kept=$((kept + 1)); echo kept >/tmp/kept-$kept; }
leaky=$(figures keep)
exits "one page kept by each load is found" 0 grown "$late" "$leaky"
echo "$leaky" | sed 's/^/# leaky: /'
rm -f /tmp/kept-*
plan

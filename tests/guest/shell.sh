# The shell as its users expect it: pipelines, redirection, here-documents, scripts, globbing, jobs.
. /tests/lib.sh
cd /tmp || exit 1

is "echo" "hi" "$(echo hi)"
is "exit status" 7 "$(sh -c 'exit 7'; echo $?)"
is "a pipeline of three" "C" "$(echo a | tr a b | tr b C)"
is "its status is the last one's" 3 "$(true | sh -c 'exit 3'; echo $?)"
is "yes | head | sort | uniq -c" " 100000 y" "$(yes | head -100000 | sort | uniq -c | sed 's/^ */ /')"
is "seq through wc" "10000" "$(seq 10000 | wc -l | tr -d ' ')"
is "a sum by awk" "5000050000" "$(seq 100000 | awk '{ s += $1 } END { printf "%.0f", s }')"
echo one >redirected; echo two >>redirected
is "redirection and appending" "one two" "$(tr '\n' ' ' <redirected | sed 's/ $//')"
is "2>&1" "err" "$(sh -c 'echo err >&2' 2>&1)"
is "2>/dev/null" "" "$(sh -c 'echo err >&2' 2>/dev/null)"
is "here-document" "a 3 b" "$(cat <<END
a $((1 + 2)) b
END
)"
is "quoted here-document" 'a $x b' "$(cat <<'END'
a $x b
END
)"
is "a descriptor of one's own" "third" "$( (echo third >&3) 3>&1)"
is "command substitution, nested" "x y" "$(echo $(echo x $(echo y)))"
mkdir -p glob; touch glob/a1 glob/a2 glob/b1 glob/.hidden
is "globbing" "a1 a2" "$(cd glob && echo a*)"
is "globbing with a class" "a1 b1" "$(cd glob && echo [ab]1)"
is "nothing matches" "z*" "$(cd glob && echo z*)"
is "for" "1-2-3-" "$(for i in 1 2 3; do printf '%s-' $i; done)"
is "while read" "<a><b c>" "$(printf 'a\nb c\n' | while read -r line; do printf '<%s>' "$line"; done)"
is "case" "yes" "$(case abc in a*) echo yes ;; *) echo no ;; esac)"
f() { echo "$# $1"; return 4; }
is "a function" "2 x" "$(f x y)"
is "its status" 4 "$(f >/dev/null; echo $?)"
is "a subshell's variables are its own" "1" "$(v=1; (v=2); echo $v)"
is "exported variables" "seen" "$(X=seen sh -c 'echo $X')"
is "arithmetic" "14" "$((2 + 3 * 4))"
is "parameter expansion" "file" "$(n=/a/b/file.txt; n=${n##*/}; echo ${n%.*})"
is "command not found" 127 "$(sh -c 'no-such-command' 2>/dev/null; echo $?)"
is "not executable" 126 "$(echo x >plain; chmod 644 plain; sh -c ./plain 2>/dev/null; echo $?)"
cat >script <<'END'
#!/bin/sh
echo "$0 $# $2"
END
chmod +x script
is "a script" "./script 2 b" "$(./script a b)"
is "an awk script by #!" "6" "$(printf '#!/usr/bin/awk -f\nBEGIN { print 2 * 3 }\n' >awks; chmod +x awks; ./awks)"
sleep 0.05 & wait $!
is "a background job and wait" 0 $?
sh -c 'exit 5' & wait $!
is "its status" 5 $?
sleep 100 & p=$!; kill $p; wait $p
is "killed by SIGTERM" 143 $?
sleep 100 & p=$!; kill -9 $p; wait $p
is "killed by SIGKILL" 137 $?
is "trap" "caught" "$(sh -c 'trap "echo caught; exit" TERM; kill $$; sleep 5')"
is "trap at exit" "bye" "$(sh -c 'trap "echo bye" EXIT')"
is "yes ends when nobody reads" "y" "$(yes | head -n 1)"
is "set -e" 1 "$(sh -c 'set -e; false; echo on'; echo $?)"
is "ten children at once" "10" "$(for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.02; echo $i) & done | wc -l | tr -d ' ')"
is "xargs" "3" "$(echo a b c | xargs -n 1 echo | wc -l | tr -d ' ')"
is "tee" "t t" "$(echo t | tee teed | cat - teed | tr '\n' ' ' | sed 's/ $//')"
is "timeout" 143 "$(timeout 0.1 sleep 10; echo $?)"
mkfifo fifo && { echo through >fifo & }
is "a named pipe" "through" "$(cat fifo)"
wait
is "test -t" 1 "$(test -t 0 </dev/null; echo $?)"
is "ulimit" 0 "$(ulimit -n >/dev/null; echo $?)"
is "umask" "0022" "$(umask)"
is "a deep pipeline" "x" "$(echo x | cat | cat | cat | cat | cat | cat | cat | cat | cat | cat | cat | cat)"
i=0; while [ $i -lt 100 ]; do /bin/true || break; i=$((i + 1)); done
is "a hundred programs, one after the other" 100 $i
rm -rf glob redirected plain script awks teed fifo
plan

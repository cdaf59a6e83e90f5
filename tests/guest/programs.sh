# Static C programs of three kinds get their arguments, environment and standard input.
. /tests/lib.sh

for kind in glibc glibc-pie musl; do
    is "$kind: arguments, environment, input, floating point" \
        "arg 0: -|arg 1: one two|arg 2: |GREETING=good day|4.500|TEXT|" \
        "$(echo text | GREETING='good day' /tests/hello-$kind 'one two' '' | tr '\n' '|')"
    is "$kind: exit status" 4 "$(/tests/hello-$kind a b c </dev/null >/dev/null; echo $?)"
    is "$kind: no environment" "GREETING=(none)" "$(env -i /tests/hello-$kind </dev/null | grep GREETING)"
done
big=$(printf 'x%.0s' $(seq 1 2000))
is "many arguments" 1002 "$(/tests/hello-glibc $(seq 1 1000) "$big" </dev/null | grep -c '^arg')"
plan

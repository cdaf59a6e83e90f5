# The load of a measurement, for scripts: `begin_load` starts a program that computes and one that forks, `end_load` ends them.
begin_load() {
    while :; do :; done &
    others=$!
    while :; do /bin/true; done &
    others="$others $!"
}
end_load() {
    kill $others
    wait 2>/dev/null
}

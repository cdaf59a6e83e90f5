# Too much of everything on a small machine: it says no, lives on, and gives everything back.
. /tests/lib.sh

# A process that multiplies is refused, or ended as one of the largest; on a slow machine its family is still there when it is.
answered() {
    "$@"
    case $? in 0 | 137) true ;; *) false ;; esac
}

runs "a thousand pipes" /tests/hungry-glibc pipes
runs "a memory hog" /tests/hungry-glibc memory
runs "the shell lives" true
runs "a fork bomb" answered /tests/hungry-glibc processes
runs "the shell lives" true
runs "orphans that grow" answered /tests/hungry-glibc orphans
runs "the shell lives" true
runs "a file that fills the memory" /tests/hungry-glibc files
runs "the shell lives" sh -c 'echo x >/tmp/x && rm /tmp/x'
plan

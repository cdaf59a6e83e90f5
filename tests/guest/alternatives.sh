# A root of Debian packages as users get it: names of programs that packages leave to update-alternatives, and the tools of each Debian.
. /tests/lib.sh

is "a name that is no package's" /usr/bin/less "$(readlink /usr/bin/pager)"
is "a name of busybox's that a package has a program for" /bin/nc.openbsd "$(readlink /bin/nc)"
runs "the program runs by that name" nc -h
like "as the program that it is" "OpenBSD netcat*" "$(nc -h 2>&1 | head -n 1)"
is "names of busybox's alone stay" busybox "$(basename "$(readlink /usr/bin/vi)")"
is "a tool that each Debian has is Debian's" 5 "$(bash -c 'echo ${BASH_VERSINFO[0]}')"
like "so are those that busybox has too" "sed (GNU sed)*" "$(sed --version | head -n 1)"
plan

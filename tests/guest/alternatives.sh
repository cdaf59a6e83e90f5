# Names of programs that Debian's packages leave to update-alternatives: links in the root, as the packages ask for them.
. /tests/lib.sh

is "a name that is no package's" /usr/bin/less "$(readlink /usr/bin/pager)"
is "a name of busybox's that a package has a program for" /bin/nc.openbsd "$(readlink /bin/nc)"
runs "the program runs by that name" nc -h
like "as the program that it is" "OpenBSD netcat*" "$(nc -h 2>&1 | head -n 1)"
is "names of busybox's alone stay" busybox "$(basename "$(readlink /usr/bin/vi)")"
plan

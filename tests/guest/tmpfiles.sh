# systemd-tmpfiles from Debian's package: what a text asks for is made, and cleared.
. /tests/lib.sh
cat >/tmp/made.conf <<'C'
d /run/made 0750 root user -
f /run/made/file 0640 root user - text
L /run/made/link - - - - file
p /run/made/pipe 0600 - - -
t /run/made/file - - - - user.by=tmpfiles
R /run/made/gone - - - -
C
runs "tmpfiles: no complaint" systemd-tmpfiles --create /tmp/made.conf
is "tmpfiles: no word" "" "$(systemd-tmpfiles --create /tmp/made.conf 2>&1)"
is "tmpfiles: kinds, rights, owners" "drwxr-x--- 0 1000 made
-rw-r----- 0 1000 file
lrwxrwxrwx 0 0 link
prw------- 0 0 pipe" "$(cd /run && stat -c '%A %u %g %n' made && cd made && stat -c '%A %u %g %n' file link pipe)"
is "tmpfiles: what a link leads to" text "$(cat /run/made/link)"
mkdir -p /run/made/gone/deep && echo >/run/made/gone/deep/file
runs "tmpfiles: a tree is removed" systemd-tmpfiles --remove /tmp/made.conf
exits "tmpfiles: it is gone" 1 test -e /run/made/gone
exits "tmpfiles: a wrong line" 65 sh -c 'echo "? /run/x" >/tmp/wrong.conf; systemd-tmpfiles --create /tmp/wrong.conf'
plan

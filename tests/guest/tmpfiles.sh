# systemd-tmpfiles and systemd-journald from Debian's package: what a text asks for is made, and cleared; what programs tell is kept, and found.
PATIENCE=60
. /tests/debian.sh
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

mkdir -p /run/systemd/journal && echo 0123456789abcdef0123456789abcdef >/etc/machine-id
/usr/lib/systemd/systemd-journald &
journal=$!
kept() { journalctl --no-pager -o cat -t "$1" | grep -qx "$2"; }
runs "journald: it listens" comes test -S /run/systemd/journal/stdout
runs "journald: a stream begins" sh -c 'echo told by a stream | systemd-cat -t streamer'
runs "journald: what the stream told is kept" comes kept streamer "told by a stream"
runs "journald: a message is sent" logger -u /run/systemd/journal/dev-log -t sender told by a message
runs "journald: the message is kept" comes kept sender "told by a message"
is "journald: whose it was" "$(id -u)" "$(journalctl --no-pager -o verbose -t sender | sed -n 's/^ *_UID=//p')"
like "journald: its control group" "*systemd-journald*" "$(of systemd-cgls --no-pager)"
kill $journal
wait $journal
is "journald: it ends when asked" 0 $?
plan

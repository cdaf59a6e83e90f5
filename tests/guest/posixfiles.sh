# Each case of pjdfstest is a check; skipped is only the count of links that no file system in memory limits.
. /tests/lib.sh
cat >/etc/passwd <<'C'
root:x:0:0:root:/:/bin/sh
nobody:x:65534:65534::/:/bin/sh
daemon:x:1:1::/:/bin/sh
C
cat >/etc/group <<'C'
root:x:0:
nogroup:x:65534:
daemon:x:1:
C
cat >/tmp/cases.toml <<'C'
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.001
allow_remount = true
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
C
mkdir /tmp/one /tmp/other
mount -t tmpfs none /tmp/one
mount -t tmpfs none /tmp/other
cd /
chmod 777 /tmp/one /tmp/other
pjdfstest -c /tmp/cases.toml -p /tmp/one -s /tmp/other >/tmp/said 2>&1
is "pjdfstest exits" 0 $?
is "pjdfstest skips" link::link_count_max "$(awk '$2 == "skipped" { print $1 }' /tmp/said)"
like "pjdfstest sums up" "*, 398 total" "$(grep Summary: /tmp/said)"
awk '$2 == "ok" || $2 == "FAILED" { print $1, $2 }' /tmp/said >/tmp/cases
while read -r name result; do
    is "$name" ok "$result"
done </tmp/cases
plan

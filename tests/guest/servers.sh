# Servers from Debian's packages with their clients, as users of their own, and what a program of Go and one of node.js do.
PATIENCE=300
. /tests/debian.sh
export PGBIN=/usr/lib/postgresql/15/bin
export PATH=$PATH:$PGBIN

# postgres, which refuses to be root's.
pg() { of su postgres -c "PATH=$PATH; $1"; }
mkdir -p /var/lib/postgresql /var/run/postgresql
chown postgres:postgres /var/lib/postgresql /var/run/postgresql
like "postgres: not as root" "*cannot be run as root*" "$(of initdb -D /tmp/data)"
like "postgres: initdb" "*Success. You can now start the database server*" "$(pg 'initdb -D /var/lib/postgresql/data -A trust --no-locale -E UTF8 --no-sync')"
like "postgres: it starts" "*server started*" "$(pg 'pg_ctl -D /var/lib/postgresql/data -l /tmp/pg.log -w -t 250 -o "-c max_connections=20" start')"
is "postgres: by a path, by a port" "6 6" "$(echo $(of psql -U postgres -Atc 'select 1+2+3') $(of psql -U postgres -h 127.0.0.1 -Atc 'select 1+2+3'))"
like "pgbench: its tables" "*done in*" "$(of pgbench -U postgres -i -q postgres)"
like "pgbench: reads by a path" "*number of failed transactions: 0 (0.000%)*" "$(of pgbench -U postgres -n -S -c 4 -j 2 -t 50 postgres)"
like "pgbench: reads by a port" "*number of failed transactions: 0 (0.000%)*" "$(of pgbench -U postgres -h 127.0.0.1 -n -S -c 4 -j 2 -t 50 postgres)"
like "pgbench: writes" "*actually processed: 60/60*" "$(of pgbench -U postgres -n -c 3 -j 1 -t 20 postgres)"
is "postgres: what was written" "60" "$(of psql -U postgres -Atc 'select count(*) from pgbench_history')"
like "postgres: several work on one query" "*Workers Launched: [1-9]*" "$(of psql -U postgres -Atq -c 'set parallel_setup_cost=0; set parallel_tuple_cost=0; set min_parallel_table_scan_size=0;' -c 'explain analyze select count(*) from pgbench_accounts')"
like "postgres: it ends" "*server stopped*" "$(pg 'pg_ctl -D /var/lib/postgresql/data -m fast -w -t 250 stop')"
like "postgres: and starts again with what it had" "*server started*" "$(pg 'pg_ctl -D /var/lib/postgresql/data -l /tmp/pg.log -w -t 250 start')"
# A server that is killed recovers.
kill -9 "$(head -n 1 /var/lib/postgresql/data/postmaster.pid)"
comes sh -c '! pgrep -x postgres'
like "postgres: it starts after it was killed" "*server started*" "$(pg 'pg_ctl -D /var/lib/postgresql/data -l /tmp/pg.log -w -t 250 start')"
is "postgres: it has all that was written" "60" "$(of psql -U postgres -Atc 'select count(*) from pgbench_history')"
pg 'pg_ctl -D /var/lib/postgresql/data -m immediate -w -t 250 stop' >/dev/null

# ssh.
mkdir -p -m 700 /root/.ssh /run/sshd /etc/ssh
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519 && ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
echo "[127.0.0.1]:2222 $(cat /etc/ssh/ssh_host_ed25519_key.pub)" >/root/.ssh/known_hosts
cat >sshd.conf <<'C'
Port 2222
ListenAddress 127.0.0.1
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /tmp/sshd.pid
UsePAM no
PermitRootLogin prohibit-password
Subsystem sftp /usr/lib/openssh/sftp-server
C
/usr/sbin/sshd -f /tmp/sshd.conf -E /tmp/sshd.log
comes test -s /tmp/sshd.pid
there() { of ssh -q -o BatchMode=yes -p 2222 "$@"; }
is "ssh: a command and its status" "hello 3" "$(echo $(there 127.0.0.1 "echo hello; exit 3" </dev/null; echo $?))"
is "ssh: what is written is read" "HELLO" "$(echo hello | there 127.0.0.1 tr a-z A-Z)"
like "ssh: a terminal" "/dev/pts/[0-9]*" "$(there -tt 127.0.0.1 tty </dev/null | tr -d '\r')"
is "ssh: keys that are typed" "4" "$(printf 'stty -echo; PS1=; clear\necho $((2+2)) >typed\nexit\n' | there -tt 127.0.0.1 >/dev/null; cat /root/typed)"
head -c 300000 /dev/urandom >random
runs "scp: there" timeout 300 scp -q -P 2222 random 127.0.0.1:/tmp/there
runs "scp: and back" timeout 300 scp -q -P 2222 127.0.0.1:/tmp/there back
runs "scp: unchanged" cmp random back
is "sftp: a list" "/tmp/random" "$(echo 'ls /tmp/random' | of sftp -q -b - -P 2222 127.0.0.1 | tail -n 1 | tr -d ' ')"
there -N -L 2223:127.0.0.1:2222 127.0.0.1 &
forward=$!
comes sh -c 'echo | timeout 5 nc 127.0.0.1 2223 | grep -q SSH'
is "ssh: through a port of another" "through" "$(there -p 2223 -o HostKeyAlias='[127.0.0.1]:2222' 127.0.0.1 echo through </dev/null)"
kill $forward
mv /root/.ssh/id_ed25519 /root/.ssh/moved
is "ssh: not without the key" 255 "$(there 127.0.0.1 true </dev/null >/dev/null; echo $?)"
kill "$(cat sshd.pid)"

# Go.
is "go: goroutines, timers, programs, a path, signals, pages" "goroutines: 10045
timers: 200 true true
programs: 20 7 signal: killed true
path: 40 true true
signals: user defined signal 1, window changed
pages: 20480 <nil>" "$(of serve each)"
serve http 127.0.0.1:8090 &
server=$!
comes curl -s http://127.0.0.1:8090/
is "go and curl: a page" 1024 "$(of curl -s http://127.0.0.1:8090/ | wc -c)"
ab -q -n 500 -c 10 http://127.0.0.1:8090/ >ab.out 2>&1
is "go and ab: five hundred pages" "500 0" "$(sed -n 's/^\(Complete\|Failed\) requests: *//p' ab.out | xargs)"
ab -q -k -n 500 -c 10 http://127.0.0.1:8090/ >ab.out 2>&1
is "go and ab: over connections that stay" "500 0 500" "$(sed -n 's/^\(Complete\|Failed\|Keep-Alive\) requests: *//p' ab.out | xargs)"
kill $server
wait $server
is "go: it ends in order" 0 $?

# node.js.
is "node: programs, threads, promises, pages, files" "children: WRITTEN 45 7 SIGTERM
workers: 1998000
promises: 49995000 0
pages: 21 page of /path false
files: 1225 change SIGUSR2" "$(of node /tests/node.js)"
plan

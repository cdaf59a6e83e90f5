# Whole programs from Debian's packages, timed by themselves or by the clock here; the same on every kernel.
#
# Interface: programs.sh ROUNDS [NAME...] runs each program once a round, all or those named; prints `sample NAME MICROSECONDS` for each, of one request or of
# the whole, or `failed NAME` with what it said last.
export LANG=C.UTF-8 TERM=xterm HOME=/root
export PATH=$PATH:/usr/lib/postgresql/15/bin
cd /tmp || exit 1
rounds=$1
shift
names=" $* "

# Whether the program of this row runs.
asked() {
    case "$names" in "  " | *" $1 "*) true ;; *) false ;; esac
}

# Runs the command again and again, for minutes at most, until it succeeds.
comes() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 3000 ] || return 1
        sleep 0.1
    done
}

# sample NAME MICROSECONDS: nothing or no number has failed.
sample() {
    case "$2" in
    *[0-9]*) echo "sample $1 $2" ;;
    *) echo "failed $1: $(tail -n 2 /tmp/said | tr '\n' ' ')" ;;
    esac
}

# rated NAME PATTERN COMMAND...: the command says how many it did a second, behind PATTERN.
rated() {
    name=$1 pattern=$2
    shift 2
    asked "$name" || return
    timeout 300 "$@" >/tmp/said 2>&1 </dev/null || echo 0 >/tmp/said
    sample "$name" "$(sed -n "s/$pattern *\"*\([0-9.]*\).*/\1/p" /tmp/said | awk '$1 > 0 { printf "%.1f", 1000000 / $1; exit }')"
}

# timed NAME COUNT COMMAND...: so long takes one of so many that the command does.
timed() {
    name=$1 count=$2
    shift 2
    asked "$name" || return
    begin=$(date +%s%N)
    if timeout 300 "$@" >/tmp/said 2>&1 <&9; then
        end=$(date +%s%N)
        sample "$name" $(((end - begin) / 1000 / count))
    else
        sample "$name" ""
    fi
}

redis() { rated "redis_$1" '^"GET",' redis-benchmark --csv -c "$2" -n "$3" "$4" "$5" -t get; }
pages() { rated "nginx_$1" '^Requests per second:' ab -q $2 -n "$3" -c 10 http://127.0.0.1:8080/page; }
queries() { rated "pgbench_$1" '^tps =' pgbench -U postgres -h "$2" -n -S -c "$3" -t "$4" postgres; }

redis-server --port 6379 --bind 127.0.0.1 --unixsocket /tmp/redis --save '' --daemonize yes >/dev/null
comes redis-cli -s /tmp/redis ping
redis-cli set key:__rand_int__ xxx >/dev/null

mkdir -p /tmp/www /var/log/nginx /var/lib/nginx
head -c 1024 /dev/urandom >/tmp/www/page
cat >nginx.conf <<'C'
user root; pid /tmp/nginx.pid; error_log /tmp/nginx.log; worker_processes 1;
events { worker_connections 64; }
http { access_log off; keepalive_requests 1000000; server { listen 127.0.0.1:8080; root /tmp/www; } }
C
nginx -c /tmp/nginx.conf 2>/dev/null
comes test -s /tmp/nginx.pid

case "$names" in
"  " | *pgbench*)
    mkdir -p /var/lib/postgresql /var/run/postgresql
    chown postgres:postgres /var/lib/postgresql /var/run/postgresql
    su postgres -c "PATH=$PATH; initdb -D /var/lib/postgresql/data -A trust --no-locale -E UTF8 --no-sync &&
        pg_ctl -D /var/lib/postgresql/data -l /tmp/pg.log -w -t 250 -o '-c autovacuum=off' start && pgbench -i -q postgres" >/tmp/pg.said 2>&1 ||
        echo "failed postgres: $(tail -n 2 /tmp/pg.said | tr '\n' ' ')"
    ;;
esac

# A terminal's keys, of which none is pressed.
mkfifo keys && exec 9<>keys
seq -f '%010.0f The quick brown fox jumps over the lazy dog; the lazy dog looks up, once.' 125000 | head -c 10000000 >/tmp/text

round=0
while [ $round -lt "$rounds" ]; do
    round=$((round + 1))
    redis unix_1 1 3000 -s /tmp/redis
    redis unix_50 50 10000 -s /tmp/redis
    redis tcp_1 1 3000 -h 127.0.0.1
    redis tcp_50 50 10000 -h 127.0.0.1
    queries unix_1 /var/run/postgresql 1 1000
    queries unix_10 /var/run/postgresql 10 150
    queries tcp_1 127.0.0.1 1 1000
    pages close "" 1500
    pages keep -k 3000
    timed node_start 2 sh -c 'node -e 0 && node -e 0'
    timed node_promises 1 node /bench/promises.js
    timed tmux_10MB 1 script -qec "stty rows 24 cols 80; exec tmux -f /dev/null new-session 'cat /tmp/text'" /dev/null
done
exit 0

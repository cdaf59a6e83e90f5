# Programs from Debian's packages, as they are: servers and their clients, terminals, interpreters.
PATIENCE=60
. /tests/debian.sh

# redis, by a path and by a port.
redis-server --port 6379 --bind 127.0.0.1 --unixsocket /tmp/redis --save '' --daemonize yes >/dev/null
comes redis-cli -s /tmp/redis ping
is "redis: a value by a path" "OK b" "$(echo $(of redis-cli -s /tmp/redis set a b) $(of redis-cli -s /tmp/redis get a))"
is "redis: a value by a port" "b 1 2" "$(echo $(of redis-cli get a) $(of redis-cli incr n) $(of redis-cli incr n))"
runs "redis: a pipe of a thousand commands" sh -c 'seq 1000 | sed "s/.*/SET k& &/" | timeout 60 redis-cli --pipe | grep -q "errors: 0, replies: 1000"'
like "redis: its own benchmark" "*requests per second*" "$(of redis-benchmark -s /tmp/redis -n 500 -c 10 -q -t get)"
like "ss: who listens" "*127.0.0.1:6379*" "$(of ss -tln)"
like "ss: the path" "*/tmp/redis*" "$(of ss -xl)"
like "ip: lo and its address" "*inet 127.0.0.1/8 *" "$(of ip addr)"
redis-cli shutdown nosave
comes sh -c '! redis-cli -s /tmp/redis ping'
is "redis: it ends" 1 "$(of redis-cli -s /tmp/redis ping >/dev/null; echo $?)"

# Terminals in terminals.
is "script: a terminal of its own" "0" "$(of script -qec 'test -t 0 && test -t 1; echo $?' /dev/null </dev/null | tr -d '\r')"
is "expect: a dialogue" "a2b" "$(of expect -c 'log_user 0; spawn sh; send "echo a\$((1+1))b\r"; expect -re "(a2b)"; puts $expect_out(1,string); send "exit\r"; expect eof')"
of screen -dmS house sh
comes sh -c 'screen -ls | grep -q house'
of screen -S house -X stuff 'echo in-the-house > /tmp/seen
'
comes test -s /tmp/seen
is "screen: what is typed is run" "in-the-house" "$(cat /tmp/seen)"
of screen -S house -X quit
comes sh -c '! screen -ls | grep -q house'
like "screen: it ends" "*No Sockets*" "$(of screen -ls)"
of tmux new-session -d -s s -x 80 -y 30 sh
of tmux split-window -t s sh
of tmux split-window -t s sh
is "tmux: three panes" 3 "$(of tmux list-panes -t s | wc -l)"
of tmux send-keys -t s.1 'echo pane-$((40+2))' Enter
comes sh -c 'tmux capture-pane -p -t s.1 | grep -q ^pane-42'
like "tmux: what one shows" "*pane-42*" "$(of tmux capture-pane -p -t s.1 | tr '\n' ' ')"
runs "tmux: it ends" timeout 60 tmux kill-server

# Copies.
mkdir -p from/a && echo text >from/a/b && chmod 640 from/a/b && ln -s b from/a/l
runs "rsync: a tree" timeout 60 rsync -aX from/ to
is "rsync: rights and links" "640 b" "$(stat -c %a to/a/b) $(readlink to/a/l)"
is "ls: no complaint" "" "$(ls -l from 2>&1 >/dev/null)"
runs "cp: all there is of a tree" cp -a from copied
echo 1 >log
timeout 20 tail -f log >tail.out 2>tail.err &
comes grep -q 1 tail.out
echo 2 >>log
comes grep -q 2 tail.out
is "tail: what is added, without complaint" "1 2 |" "$(tr '\n' ' ' <tail.out)|$(cat tail.err)"
kill $!

# Streams between programs.
socat UNIX-LISTEN:/tmp/cat,fork EXEC:cat >/dev/null 2>&1 &
comes test -S /tmp/cat
is "socat: there and back by a path" hello "$(echo hello | of socat - UNIX-CONNECT:/tmp/cat)"
kill $!
socat TCP-LISTEN:7777,fork,reuseaddr EXEC:'tr a-z A-Z' >/dev/null 2>&1 &
comes socat -u /dev/null TCP:localhost:7777
is "socat: there and back by a port" HELLO "$(echo hello | of socat -t 5 - TCP:localhost:7777)"
kill $!
is "socat: a program in a terminal" pty "$(of socat -u EXEC:'echo pty',pty,ctty - | tr -d '\r')"

# A web server.
mkdir -p www && echo page >www/index.html && head -c 300000 /dev/urandom >www/large
cat >nginx.conf <<'C'
user root; pid /tmp/nginx.pid; error_log /tmp/nginx.log; worker_processes 2;
events { worker_connections 64; }
http { access_log off; server { listen 127.0.0.1:8080; listen [::1]:8080; root /tmp/www; } }
C
nginx -c /tmp/nginx.conf 2>/dev/null
comes curl -s http://localhost:8080/
is "nginx and curl: a page" "page page" "$(echo $(of curl -s http://127.0.0.1:8080/ 'http://[::1]:8080/'))"
of curl -s -o large http://localhost:8080/large
runs "nginx and curl: 300,000 bytes" cmp large www/large
is "nginx and ab: five hundred pages" "500 0" "$(of ab -q -n 500 -c 10 http://127.0.0.1:8080/ | sed -n 's/^\(Complete\|Failed\) requests: *//p' | xargs)"
is "curl: nobody there" 7 "$(of curl -s http://localhost:8081/ >/dev/null; echo $?)"
kill "$(cat nginx.pid)"

# Interpreters.
is "fish: lists and loops" "3 a b" "$(echo $(of fish -c 'count 1 2 3; for i in a b; echo $i; end'))"
is "python: a server and a client of asyncio" "echo: hi" "$(of python3 -c '
import asyncio
async def serve(r, w):
    w.write(b"echo: " + await r.readline()); await w.drain(); w.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
    w.write(b"hi\n"); print((await r.read()).decode().strip()); w.close(); server.close()
asyncio.run(main())')"
cat >manager.py <<'C'
import multiprocessing as m
def add(d, i): d[i] = i * i
if __name__ == "__main__":
    with m.Manager() as manager:
        d = manager.dict()
        ps = [m.Process(target=add, args=(d, i)) for i in range(4)]
        [p.start() for p in ps]; [p.join() for p in ps]
        print(sum(d.values()))
C
is "python: a dictionary of several processes" 14 "$(of python3 manager.py)"
is "python: a pool of processes" "[0, 1, 4, 9]" "$(of python3 -c '
from concurrent.futures import ProcessPoolExecutor as P
import operator
with P(2) as p: print(list(p.map(pow, range(4), [2]*4)))')"
is "perl: a child by two pipes, and how it ended" "HELLO 0" "$(of perl -MIPC::Open2 -e '$p = open2($o, $i, "tr a-z A-Z"); print $i "hello\n"; close $i; $_ = <$o>; chomp; waitpid $p, 0; print "$_ $?"')"
is "perl: threads with a lock" 400 "$(of perl -Mthreads -Mthreads::shared -e 'my $n : shared = 0; $_->join for map { threads->create(sub { for (1 .. 100) { lock $n; $n++ } }) } 1 .. 4; print $n')"
is "perl: an alarm and a socket pair" "alarm x" "$(of perl -MSocket -MTime::HiRes=ualarm -e '$SIG{ALRM} = sub { print "alarm " }; ualarm 20000; select undef, undef, undef, 5; socketpair $a, $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC; syswrite $a, "x"; sysread $b, $_, 1; print')"
is "ruby: threads, a child, a connection" "[0, 1, 4] 3 tcp" "$(of ruby -rsocket -e 't = 3.times.map { |i| Thread.new { sleep 0.01; i * i } }.map(&:value); Process.wait fork { exit! 3 }; e = $?.exitstatus; s = TCPServer.new("127.0.0.1", 0); Thread.new { c = s.accept; c.write "tcp"; c.close }; print t, " ", e, " ", TCPSocket.new("127.0.0.1", s.addr[1]).read')"
is "ruby: a terminal and a descriptor that is passed" "tty passed" "$(of ruby -rpty -rsocket -e 'PTY.spawn("test -t 0 && echo tty") { |r, w, p| print r.gets.chomp, " " }; $stdout.flush; a, b = UNIXSocket.pair; a.send_io $stdout; b.recv_io.print "passed"')"
is "python: copy2 keeps attributes, rights and times" "b'v' 0o100640 2.0" "$(of python3 -c 'import os, shutil
open("a", "w").write("x"); os.setxattr("a", "user.k", b"v"); os.chmod("a", 0o640); os.utime("a", (1, 2))
shutil.copy2("a", "b"); print(os.getxattr("b", "user.k"), oct(os.stat("b").st_mode), os.stat("b").st_mtime)')"
plan

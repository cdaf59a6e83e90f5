# Tools from Debian's packages that look at programs and at the machine: debuggers, lists of processes, of files, of processors. Their output is that on Linux.
PATIENCE=100
. /tests/debian.sh
export COLUMNS=120

# The debugger: a program with threads and shared libraries, at an address that it has to find out.
gdb() { of /usr/bin/gdb -nx -batch "$@" </dev/null; }
gdb -ex 'break add' -ex run -ex 'print right' -ex bt -ex next -ex 'print sum' -ex finish -ex 'print parts[1]' \
    -ex 'info registers rip' -ex 'watch total' -ex continue -ex 'print total' -ex continue ./stepped >out
like "gdb: a breakpoint in a program that is anywhere" "*hit Breakpoint 1, add (left=55, right=155) at *" "$(cat out)"
like "gdb: who called" "*#1  0x00005555555* in main () at *" "$(cat out)"
like "gdb: a variable, a step, the result" "*\$1 = 155*\$2 = 210*Value returned is \$3 = 210*" "$(cat out)"
like "gdb: a structure" "*\$4 = {name = 0x55555555* \"upper\", first = 11, last = 20, sum = 155}*" "$(cat out)"
like "gdb: a watchpoint of the processor" "*hit Hardware watchpoint 2: total*Old value = 0*New value = 210*\$5 = 210*" "$(cat out)"
like "gdb: the end" "*(process *) exited normally]" "$(cat out)"
gdb -ex 'break work' -ex run -ex 'info threads' -ex 'print part' -ex 'thread apply all bt 1' -ex delete -ex continue ./stepped >out
like "gdb: a thread at a breakpoint" "*hit Breakpoint 1, work (argument=0x55555555* <parts*>) at *" "$(cat out)"
is "gdb: all threads" 3 "$(grep -c '^[ *] [123] *Thread 0x' out)"
like "gdb: frames of each" "*Thread 3 (Thread *Thread 2 (Thread *Thread 1 (Thread *exited normally]" "$(cat out)"
gdb -ex 'break main' -ex run -ex 'hbreak add' -ex continue -ex stepi -ex stepi -ex delete -ex continue ./stepped >out
like "gdb: a breakpoint of the processor" "*Hardware assisted breakpoint 2 at *hit Breakpoint 2, add (left=55, right=155)*exited normally]" "$(cat out)"
sleep 100 & sleeper=$!
gdb -p $sleeper -ex 'info registers rip' -ex detach >out
like "gdb: one that runs already" "*rip *0x*Inferior 1 (process $sleeper) detached*" "$(cat out)"
runs "gdb: and that goes on" kill $sleeper

# The tracer of calls.
cat >script.sh <<'E'
for i in 1 2; do /bin/true; done
echo done | cat
E
of strace -ff -o trace sh script.sh >out
is "strace: a script does what it does" "done" "$(cat out)"
is "strace: programs that it runs" 2 "$(cat trace.* | grep -c 'execve("/bin/true".* = 0$')"
is "strace: ends of processes" 5 "$(cat trace.* | grep -c '+++ exited with 0 +++$')"
is "strace: nothing unknown" "" "$(cat trace.* | grep -E 'syscall_0x|\?\?\?')"
like "strace: a count of calls" "*calls*errors*syscall*execve*total*" "$(of strace -c true)"
like "strace: an error by its name" "*openat(AT_FDCWD, \"/none\", O_RDONLY) *= -1 ENOENT (No such file or directory)*" "$(of strace -e trace=openat cat /none)"

# The tracer of libraries' calls.
of ltrace -o calls namei script.sh >out
is "ltrace: a program does what it does" "f: script.sh - script.sh" "$(echo $(cat out))"
like "ltrace: its calls" "*setlocale(LC_ALL, \"\")*= \"*exited (status 0)*" "$(tr '\n' ' ' <calls)"

# Processes.
sleep 100 & sleeper=$!
like "ps: columns" "USER *PID %CPU %MEM *VSZ *RSS TTY *STAT START *TIME COMMAND" "$(ps aux | head -n 1)"
is "ps: one of them" "$sleeper sleep S sleep 100" "$(echo $(ps -o pid=,comm=,state=,args= -p $sleeper))"
is "ps: threads" 1 "$(ps -L -o lwp= -p $sleeper | wc -l)"
like "ps: a tree" "*\\_ sleep 100*" "$(ps -e --forest -o args=)"
is "pgrep: by name and parent" "$sleeper" "$(pgrep -x -P $$ sleep)"
like "pmap: the stack and the sum" "*\[ stack \]* total *K*" "$(pmap $sleeper | tr '\n' ' ')"
is "pmap -x: no complaint" "" "$(pmap -x $sleeper 2>&1 >/dev/null)"
like "top: a picture" "top - *load average: *Tasks: *%Cpu(s): *MiB Mem : *MiB Swap: *PID USER *COMMAND* sleep*" "$(top -b -n 1 -w 120 2>&1)"
is "w: no complaint" "" "$(w 2>&1 >/dev/null)"
like "uptime" " *up *load average: *.*, *.*, *.*" "$(uptime)"
like "free: three lines" "*total *used *free *shared *buff/cache *available Mem: *Swap: *0 *0 *0" "$(free | tr '\n' ' ' | sed 's/ *$//')"
like "vmstat: two lines of heads, one of figures" "3 *" "$(vmstat | wc -l) lines: $(vmstat 2>&1)"
is "vmstat: 17 figures" 17 "$(vmstat | tail -n 1 | wc -w)"
runs "vmstat: all there is" vmstat -s
is "vmstat -d: no complaint" "" "$(vmstat -d 2>&1 >/dev/null)"
is "slabtop, pwdx, tload: where a process is" "$sleeper: /tmp" "$(pwdx $sleeper)"
of script -qec 'stty rows 30 cols 100; (sleep 1; kill -INT $$) & exec htop -d 5' /dev/null </dev/null >out
like "htop: a picture on a terminal" "*Tasks:*Load average:*PID*USER*Command*" "$(tr -d '\0' <out)"
kill $sleeper

# Files.
exec 9>held
like "lsof: who has a file" "COMMAND *PID *USER *FD *TYPE *DEVICE *SIZE/OFF *NODE NAME sh *$$ *root *9w *REG *held" "$(lsof held 2>/dev/null | head -n 2 | tr '\n' ' ' | sed 's/ *$//')"
is "lsof: no complaint" "" "$(lsof -p $$ 2>&1 >/dev/null)"
exec 9>&-

# Processors.
lscpu >out 2>err
is "lscpu: no complaint" "" "$(cat err)"
is "lscpu: the product is the number of processors" "$(nproc)" "$(($(sed -n 's/^Thread(s) per core: *//p' out) * $(sed -n 's/^Core(s) per socket: *//p' out) * $(sed -n 's/^Socket(s): *//p' out)))"
like "lscpu: sizes of addresses" "*Address sizes: * bits physical, * bits virtual*" "$(cat out)"
like "lscpu -e: a row for each" "CPU *CORE *ONLINE*" "$(lscpu -e)"
is "lsblk: no complaint" "" "$(lsblk 2>&1)"
is "lsipc, lslocks: no complaint" "" "$( (lsipc; lslocks) 2>&1 >/dev/null)"

# Lisp: a compiler at run-time with memory of its own, threads, and a saved world.
lisp() { of sbcl --noinform --disable-debugger --no-sysinit --no-userinit "$@"; }
is "sbcl: a function that it compiles" 6765 "$(lisp --eval '(progn (defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (princ (fib 20)) (terpri) (exit))')"
is "sbcl: threads" 4950 "$(lisp --eval '(progn (princ (reduce (function +) (mapcar (function sb-thread:join-thread) (loop for i below 100 collect (let ((i i)) (sb-thread:make-thread (lambda () i))))))) (terpri) (exit))')"
is "sbcl: garbage is collected" ok "$(lisp --eval '(progn (dotimes (i 200) (make-array 200000)) (gc :full t) (princ "ok") (terpri) (exit))')"
lisp --eval '(defun main () (format t "saved ~a~%" (* 6 7)) (exit))' --eval '(save-lisp-and-die "world" :executable t :toplevel (function main))' >out
is "sbcl: a saved world" "saved 42" "$(of ./world)"
plan

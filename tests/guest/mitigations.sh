# The measures against speculation: /sys, /syn, and the code that was generated. The word is that of the command line, and whether the processor has Intel's defects.
. /tests/lib.sh
wish=$1 cpu=$2

vulnerabilities=/sys/devices/system/cpu/vulnerabilities
tell() { cat $vulnerabilities/$1; }
like "/syn says what is asked for" "mitigations=$wish:*" "$(head -n 1 /syn/mitigations)"
like "/sys is mounted" "*sysfs on /sys*" "$(mount | tr '\n' ' ')"
is "a file for each defect" 14 "$(ls $vulnerabilities | wc -l)"
for file in $vulnerabilities/*; do
    is "$(basename $file) says how it stands" 1 "$(grep -cE '^(Not affected|Mitigation: .*|Vulnerable.*|KVM: Mitigation: .*|Unknown: .*)$' $file)"
done
exits "no file of another name" 1 cat $vulnerabilities/nothing
exits "and none without" 1 test -e $vulnerabilities/LazyFp
is "processors" "0-$(($(grep -c ^processor /proc/cpuinfo) - 1))" "$(sed 's/^0$/0-0/' /sys/devices/system/cpu/online)"
is "possible ones" "$(cat /sys/devices/system/cpu/online)" "$(cat /sys/devices/system/cpu/possible)"
like "bugs are in cpuinfo" "*spectre_v1*spectre_v2*" "$(grep ^bugs /proc/cpuinfo | head -n 1)"

case $cpu in
intel)
    case $wish in
    off) is "meltdown" "Vulnerable" "$(tell meltdown)" ;;
    *) is "meltdown" "Mitigation: PTI" "$(tell meltdown)" ;;
    esac
    is "l1tf" "Mitigation: PTE Inversion" "$(tell l1tf)"
    like "bugs of an old Intel" "*l1tf*mds*cpu_meltdown*" "$(grep ^bugs /proc/cpuinfo | head -n 1)"
    ;;
*)
    is "meltdown" "Not affected" "$(tell meltdown)"
    is "l1tf" "Not affected" "$(tell l1tf)"
    ;;
esac
case $wish-$cpu in
off-*)
    is "nothing is done" "mitigations=off:" "$(head -n 1 /syn/mitigations)"
    like "spectre_v1" "Vulnerable*" "$(tell spectre_v1)"
    like "spectre_v2" "Vulnerable*" "$(tell spectre_v2)"
    ;;
*)
    like "spectre_v1" "Mitigation: usercopy*" "$(tell spectre_v1)"
    ;;
esac
case $wish-$cpu in
auto-intel)
    like "mds" "Vulnerable: Clear CPU buffers attempted, no microcode; SMT Host state unknown" "$(tell mds)"
    like "measures" "*retpolines*verw*mask_user*isolate_tables*eager_vectors*" "$(head -n 1 /syn/mitigations)"
    ;;
all-*)
    like "measures" "*ibrs_by_entry*retpolines*refill_returns*ibpb_always*stibp_always*ssbd_asked*verw*mask_user*isolate_tables*ibpb_by_entry*eager_vectors*" "$(head -n 1 /syn/mitigations)"
    ;;
esac

case $wish-$cpu in
all-* | auto-intel) gates=some ;;
*) gates=none ;;
esac
is "programs run on tables of their own" $gates "$(grep -o ', [0-9]* pages of gates' /syn/rights | sed 's/^, 0 .*/none/; s/^, [1-9].*/some/')"
is "and nothing else of the kernel" "0 faults" "$(tail -n 1 /syn/rights)"

# Every routine there is, as text. Some go while they are listed.
for entry in /syn/code/at/*; do cat $entry 2>/dev/null; done >/tmp/code
cat /syn/code/self/0/read /syn/code/self/1/write >>/tmp/code 2>/dev/null
count() { grep -c "$1" /tmp/code; }
some() { [ "$(count "$1")" -gt 0 ] && echo some || echo none; }
is "code was listed" some "$(some ' ret')"
# How often a WORD is in the routines of a CLASS.
words() { # CLASS WORD
    awk -v class="$1" -v word="$2" '/^;/ { next } /^[a-z]/ { here = $1 == class } here && $0 ~ word { n++ } END { print n + 0 }' /tmp/code
}
# With gates they have the way out.
case $gates in
some) rest=none ;;
none) rest=some ;;
esac
is "ways out in generated code" $rest "$(some 'sysret')"
case $wish in
off) expected=none ;;
*) expected=some ;;
esac
is "addresses are clamped" $expected "$(some ' btr r[a-z0-9]*, 0x3f')"
# Of switch code and dispatchers, whose calls and jumps go where data says.
indirect=$(grep -cE '(jmp|call) (qword|\[|r[a-z0-9]+$)' /tmp/code)
case $wish-$cpu in
off-*) is "there are indirect branches" yes "$([ $indirect -gt 0 ] && echo yes)" ;;
*) is "there are no indirect branches" 0 "$indirect" ;;
esac
case $wish-$cpu in
off-*) rest=none ;;
*) rest=some ;;
esac
is "retpolines" $rest "$(some ' f390 ')"
# A processor that needs it here has gates.
is "verw" none "$(some 'verw')"
case $wish in
all) rest=some ;;
*) rest=none ;;
esac
is "IBRS by entry and barriers" $rest "$(some 'wrmsr')"
case $rest in
some)
    is "calls clear IBRS when they go" yes "$([ "$(words thread.dispatcher 'ecx, 0x48')" -gt 0 ] && echo yes)"
    is "the two lines' interrupts set it and clear it" 4 "$(words serial.interrupt 'ecx, 0x48')"
    is "a barrier between spaces" 1 "$(words thread.space 'ecx, 0x49')"
    # One that asks has switch code of its own.
    /tests/speculation-glibc hold & p=$!
    until [ -e /tmp/asked ]; do :; done
    is "who does not ask has no barrier" 0 "$(words thread.switch 'ecx, 0x49')"
    for entry in /syn/code/at/*; do cat $entry 2>/dev/null; done >/tmp/code
    kill $p; wait $p 2>/dev/null
    is "who asks has one on both ways in and both ways out" 4 "$(words thread.switch 'ecx, 0x49')"
    ;;
esac
case $wish in
off) rest=none ;;
*) rest=some ;;
esac
is "return stack filled at a switch of spaces" $rest "$([ "$(words thread.space 'int 0x3')" = 2 ] && echo some || echo none)"
case $wish-$cpu in
all-* | auto-intel) rest=yes ;;
*) rest=no ;;
esac
# A program that uses none.
sleep 20 & p=$!
until [ "$(cat /proc/$p/comm)" = sleep ]; do :; done
tid_fp=$(grep ' sleep ' /syn/threads | grep -o ' yes \| no ' | head -n 1 | tr -d ' ')
kill $p; wait $p 2>/dev/null
case $rest in
yes) is "vector registers from the start" yes "$tid_fp" ;;
esac
plan

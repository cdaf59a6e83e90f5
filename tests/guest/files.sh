# Files and the tools that work on them.
. /tests/lib.sh
mkdir /tmp/files && cd /tmp/files || exit 1

echo hello >a
runs "cp" cp a b
is "a copy is the same" "$(cat a)" "$(cat b)"
runs "mv" mv b c
exits "the old name is gone" 1 test -e b
runs "rm" rm c
runs "mkdir -p" mkdir -p d/e/f
echo deep >d/e/f/g
runs "cp -r" cp -r d d2
is "copies the tree" deep "$(cat d2/e/f/g)"
is "find" "d/e/f/g" "$(find d -type f)"
is "find -name" "3" "$(find d d2 -name 'e' -o -name g -path 'd/*' | wc -l | tr -d ' ')"
runs "rm -r" rm -r d2
exits "rm -r removes all" 1 test -e d2
like "ls -l" "-rw-r--r-- * 1 $(id -u) * $(id -g) * 6 *a" "$(ls -ln a)"
chmod 751 a
like "chmod" "-rwxr-x--x*" "$(ls -l a)"
ln -s a link
is "a symbolic link" "hello" "$(cat link)"
is "readlink" "a" "$(readlink link)"
like "ls -l shows where it points" "*link -> a" "$(ls -l link)"
ln a hard
is "a hard link" "2" "$(stat -c %h a)"
is "stat" "6 751" "$(stat -c '%s %a' a)"
is "touch -d" "1000000000" "$(touch -d @1000000000 a; stat -c %Y a)"
seq 1 1000 >numbers
is "grep" "10" "$(grep -c '^.*00$' numbers)"
is "grep -v and -E" 810 "$(grep -Ecv '^[0-9]*5[0-9]?$' numbers)"
is "sed" "ten" "$(sed -n 's/^10$/ten/p' numbers)"
is "sed -i" "x" "$(printf 'y\n' >s; sed -i s/y/x/ s; cat s)"
is "awk fields" "3 c" "$(echo 'a b c' | awk '{ print NF, $3 }')"
is "sort -n" "1 2 10" "$(printf '10\n2\n1\n' | sort -n | tr '\n' ' ' | sed 's/ $//')"
is "sort -u" "2" "$(printf 'b\na\nb\n' | sort -u | wc -l | tr -d ' ')"
is "cut" "b" "$(echo a:b:c | cut -d: -f2)"
is "head and tail" "500" "$(head -n 500 numbers | tail -n 1)"
is "tail -c" "000" "$(tail -c 4 numbers | tr -d '\n')"
is "tr" "HELLO" "$(tr a-z A-Z <a)"
is "wc" "1000 1000 3893" "$(wc <numbers | awk '{ print $1, $2, $3 }')"
is "od" "68 65" "$(od -An -tx1 -N2 a | sed 's/^ *//')"
is "dd" "ell" "$(dd if=a bs=1 skip=1 count=3 2>/dev/null)"
dd if=/dev/zero of=zeros bs=1024 count=100 2>/dev/null
is "dd makes zeros" 102400 "$(stat -c %s zeros)"
is "md5sum of zeros" 4c6426ac7ef186464ecbb0d81cbfcb1e "$(md5sum <zeros | cut -d' ' -f1)"
is "sha256sum" "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" "$(sha256sum <a | cut -d' ' -f1)"
runs "tar" tar cf t.tar d numbers a
mkdir x
runs "tar x" tar xf t.tar -C x
runs "gives the same back" cmp numbers x/numbers
is "with directories" deep "$(cat x/d/e/f/g)"
runs "gzip" gzip -k numbers
runs "zcat gives the same back" sh -c 'zcat numbers.gz | cmp - numbers'
runs "tar through gzip" sh -c 'tar czf t.tgz d && tar tzf t.tgz | grep -q d/e/f/g'
is "diff" 1 "$(printf 'a\n' >p; printf 'b\n' >q; diff p q >/dev/null; echo $?)"
is "basename, dirname" "c /a/b" "$(basename /a/b/c) $(dirname /a/b/c)"
is "pwd" /tmp/files "$(pwd)"
is "realpath" /tmp/files/a "$(realpath link)"
is "du" 0 "$(du -s . >/dev/null; echo $?)"
is "df" 0 "$(df / >/dev/null; echo $?)"
exits "ls of a missing file" 1 ls none
exits "cat of a directory" 1 cat d
exits "rmdir of a full directory" 1 rmdir d
exits "mkdir of what is there" 1 mkdir d
head -c 10485760 /dev/urandom >random
is "ten megabytes" 10485760 "$(stat -c %s random)"
sum=$(sha256sum <random)
is "through cat" "$sum" "$(cat random | sha256sum)"
is "through three processes" "$sum" "$(cat random | cat | cat | sha256sum)"
is "through dd with odd blocks" "$sum" "$(dd if=random bs=7777 2>/dev/null | dd bs=333 iflag=fullblock 2>/dev/null | sha256sum)"
rm random
# Much more than waits for the line: who writes sleeps until there is room, again and again.
yes "# a long text for the machine's own output" | head -n 3000
exits "a long text is written" 0 true
cd / && rm -r /tmp/files
exits "nothing is left" 1 test -e /tmp/files
plan

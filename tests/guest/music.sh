#!/bin/sh
# Pipelines of the programs of sound (user/music). The host runs the same script, and both must print the same.
#
# Interface: in an empty working directory; a line `## NAME` comes before the output of each case.

case_of() { echo "## $1"; }

case_of 'generators'
rhythm 126 --later 90 --from 2 --seconds 4 --noise 2 >music
md5sum <music
rhythm 97 --seconds 1 --seed 7 --gain 30 >other
tone 440 --seconds 0.1 | md5sum
tone 997 --square --gain 90 --seconds 0.1 --rate 48000 | md5sum
noise --seconds 0.1 | md5sum
metronome 180 --seconds 1 | md5sum

case_of 'each filter'
for filter in 'delay 12.5' 'echoes 30 --gain 40' 'echoes 30 --beat 2' 'reverb --room 20 --wet 60' 'lowpass 800' \
    'highpass 2500' 'bandpass 1000 --q 8' 'oversample' 'drummer --low 80'; do
    $filter <other | md5sum
done

case_of 'pipelines'
tone 440 --seconds 0.3 | delay 5 | echoes 30 --gain 20 | lowpass 3000 | highpass 100 | md5sum
drummer --kick x... --snare ....x... --hat x.x. <music | bandpass 1500 --q 0.5 | md5sum
mix music other | echoes 20 --gain 10 | oversample | md5sum
tone 300 --seconds 0.5 | mix - /dev/fd/3 other --gain 50 3<music | md5sum

case_of 'lines of text'
tone 1000 --seconds 0.1 | fft
fft --size 256 --all --floor -30 <other | tail -20
tone 441 --seconds 0.2 | correlator --lags 200
correlator --with other --window 1024 --lags 64 <music | head -20
delay 3 <other >late
correlator --with late --window 2048 --lags 256 --peaks 1 <other
tracker <music

case_of 'blocks of any size'
for frames in 1 63 64 5000; do
    lowpass 900 --frames $frames <other | reverb --frames 17 | md5sum
done
for size in 1 3 4 7 9; do
    head -c $size other | delay 0 | wc -c
done

case_of 'files in place of devices'
: >speaker
play speaker --report <other 2>&1
md5sum <speaker
record other --seconds 0.25 | md5sum

case_of 'a reader that leaves, and wrong words'
tone 440 | head -c 1000 | md5sum
for words in 'delay' 'delay x' 'lowpass 30000' 'fft --size 1000' 'drummer --kick o' 'mix' 'music nothing' \
    'echoes 5 --gain 100' 'tone --rate 5' 'play --loud' 'record nowhere'; do
    $words </dev/null 2>&1
    echo "$words: $?"
done

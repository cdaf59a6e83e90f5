# Lets Linux have its sound card, and then runs the suite's script: dropouts.sh HOGS STREAM [PRIORITY [SECONDS]].
for module in /modules/*; do
    words=
    # Its rate is 48,000, which need not be measured, for the machine is no piece of hardware.
    case $module in *snd-intel8x0.ko) words="inside_vm=1 ac97_clock=48000" ;; esac
    [ -e "$module" ] && { insmod "$module" $words || echo "failed $module"; }
done
exec /bin/sh /tests/dropouts.sh "$@"

#!/bin/sh
# `tally top` of one process in a terminal of its own: the table while it lives, held, the hottest function's code, the
# end. What differs from run to run (numbers, rows but the hottest function's) is left out.
socket=tally-top-$$
walk() { tmux -L "$socket" "$@" 2>/dev/null; }
screen() { walk capture-pane -p -t top; }
"$TALLY_PROGRAMS/split" 600 >/dev/null 2>&1 &
busy=$!
trap 'walk kill-server; kill $busy' EXIT
# Waits for a screen that holds the text: up to a minute on busy machines, not at all once the program has ended and
# the terminal's state, the last line, is there.
await() {
    tries=0
    until screen | grep -q -e "$1" -e 'icanon$' || [ $tries -ge 300 ]; do
        tries=$((tries + 1))
        sleep 0.2
    done
}
shown() { screen | grep -e "$1" | sed -E 's/[0-9]+([.,][0-9]+)*/N/g; s/(█|▉|▊|▋|▌|▍|▎|▏)+/BAR/g; s/N ?m?s( |$)/N ms\1/g; s/ +/ /g; s/ $//' | head -"${2:-1}"; }

walk -f /dev/null new-session -d -s top -x 100 -y 24 \
    "env TERM=screen NO_COLOR=1 tally top -p $busy -e cpu-clock:u -d 1; echo EXIT \$?; stty -a | grep -o -- '-*icanon'; cat >/dev/null"
await '\[\.\] busy'
echo '== live'
shown '^\[live\]'
shown 'Symbol'
shown '\[\.\] busy'
walk send-keys -t top p
await '^\[held\]'
echo '== p'
shown '^\[held\]'
walk send-keys -t top Home a
await 'Left:back'
echo '== a'
shown '^\[held\].*busy'
# The loop that takes the time has a share of it.
screen | grep -cE '^ *[0-9]{2}\.[0-9]{2} ' | sed 's/[1-9][0-9]*/hot instructions/'
shown 'Left:back'
walk send-keys -t top Escape
await 'p:hold'
walk send-keys -t top p
await '^\[live\]'
echo '== Escape p'
shown '^\[live\]'
walk send-keys -t top q
await 'icanon$'
echo '== q'
screen | grep -v '^$'

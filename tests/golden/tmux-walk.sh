#!/bin/sh
# Walks through a full-screen program in tmux, a terminal of its own, and prints its screens.
#
#   tmux-walk.sh WIDTHxHEIGHT 'COMMAND' 'KEYS' …
#
# A case with two walks gives the second one STEPS_BEFORE, the steps of the first.
# After each group of keys (tmux's names, blanks between them) comes `== KEYS` and the screen that stands still by then.
# On busy machines that can be one too early: a screen that is not the one in the case's `stdout` gets more time.
size=$1 command=$2
shift 2
socket=tally-walk-$$
walk() { tmux -L "$socket" "$@" 2>/dev/null; }
trap 'walk kill-server' EXIT
walk -f /dev/null new-session -d -s walk -x "${size%x*}" -y "${size#*x}" \
    "env TERM=screen NO_COLOR=1 $command; echo EXIT \$?; stty -a | grep -o -- '-*icanon'; cat >/dev/null" || exit 1
walk set-option -g status off
screen() { walk capture-pane -p -t walk; }
expected() { awk -v step="$1" '/^== /{at++; next} at == step' stdout 2>/dev/null; }

settle() {
    before= same=0 tries=0
    while [ $same -lt 3 ] && [ $tries -lt 150 ]; do
        tries=$((tries + 1))
        sleep 0.1
        now=$(screen)
        case $now in *'[reading'*) now= ;; esac
        if [ -n "$now" ] && [ "$now" = "$before" ]; then same=$((same + 1)); else same=0; fi
        before=$now
    done
}

settle
step=${STEPS_BEFORE:-0} patience=200
for keys in "$@"; do
    step=$((step + 1))
    for key in $keys; do walk send-keys -t walk "$key"; done
    settle
    while [ -f stdout ] && [ $patience -gt 0 ] && [ "$(screen)" != "$(expected $step)" ]; do
        patience=$((patience - 1))
        sleep 0.1
    done
    echo "== $keys"
    screen
done

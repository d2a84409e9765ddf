# Runs in each emulated kernel, as its only program. A line "@ CHECK | RESULT" is a cell of docs/kernels.md; a result
# that begins with "FAIL" fails the chore. "# " lines are details.
export PATH=/bin HOME=/tmp COLUMNS=100
cd /tmp
echo 'nobody:x:65534:65534::/tmp:/bin/sh' > /etc/passwd
cell() { echo "@ $1 | $2"; }
details() { head -"$2" "$1" | sed 's/^/# /'; }
# The doctor's first line about $1.
doctor_on() { grep -m1 "^  $1" doctor.txt | sed "s/^  $1 *//"; }
# ns of a function with all that it calls, in folded stacks.
within() {
  awk -v f="$2" '{ n=$NF; s=";" substr($0, 1, length($0)-length(n)-1) ";"; if (index(s, ";" f ";")) sum+=n }
    END { printf "%d", sum }' "$1"
}
measured() { tr ' ' '\n' < "$1" | awk -v k="$2" 'p==k { print $1 } { p=$1 }'; }
# Largest error in percent of the program's time asleep and waiting for a lock, which an emulator doesn't change.
worst_error() {
  for pair in nap:nap_ns wait_for_lock:wait_ns; do
    echo "$(within folded.txt "${pair%%:*}") $(measured truth.txt "${pair##*:}")"
  done | awk '{ e=($1-$2)/$2*100; if (e<0) e=-e; if (e>w) w=e } END { printf "%.1f", w }'
}
wall_clock() {
  name=$1; limit=$2; shift 2
  folder=$(mktemp -d); chmod 777 "$folder"; cd "$folder"
  "$@" tally record -q --off-cpu -o s.data -- split 3 > truth.txt 2> err.txt; status=$?
  tally flame --folded --wall --idle -i s.data > folded.txt 2>> err.txt
  worst=$(worst_error)
  verdict=$(echo "$worst $limit $status" | awk '{ print ($1 == "" || $1+0 > $2+0 || $3 != 0) ? "FAIL: " : "" }')
  cell "$name" "${verdict}within $worst %"
  [ -z "$verdict" ] || details err.txt 6
  cd /tmp
}
# Status, and that the output has $2.
prints() {
  name=$1; want=$2; shift 2
  "$@" > out.txt 2> err.txt; status=$?
  if [ $status = 0 ] && cat out.txt err.txt | grep -q "$want"; then cell "$name" yes
  else cell "$name" "FAIL: exit $status"; details err.txt 6; fi
}

tally doctor > doctor.txt 2>&1
cell "off-CPU time" "$(doctor_on 'time off the CPU')"
cell "calls of any program" "$(doctor_on 'calls of any program' | sed 's/, [0-9.]* µs a call//')"
cell "calls in the kernel" "$(doctor_on 'calls in the kernel')"
grep -A2 'why:' doctor.txt | head -12 | sed 's/^/# /'
wall_clock "wall clock of root" 5
tally run -v -o r.data -- deep 30 400 2000 > /dev/null 2> screen.txt
cell "complete stacks" "$(grep '^stacks' screen.txt | awk '{ print $2 }') of $(grep '^stacks' screen.txt | awk '{ print $4 }')"
case $(uname -r) in
5.*) tally trace -s -- ls / > /dev/null 2> err.txt; cell "trace" "no: needs Linux 5.11" ;;
*) prints "trace" openat tally trace -s -- ls / ;;
esac
prints "calls record (uprobes)" nap sh -c 'tally calls record -q -P nap split 1 > /dev/null && tally calls report'
prints "record --span" 'span:nap' sh -c 'tally record -q --span nap -o sp.data -- split 1 > /dev/null && tally script -i sp.data'
prints "sched record, latency" split sh -c 'tally sched record -q -o sc.data -- split 0.5 > /dev/null && tally sched latency -i sc.data'
prints "locks" 'lock in split' sh -c 'tally record -q --off-cpu -o l.data -- split 1 > /dev/null && tally locks -i l.data'
wall_clock "wall clock of a plain user" 60 as_nobody
wall_clock "wall clock under docker's filter" 60 as_nobody as_in_docker
dmesg | grep -iE 'BUG:|oops|Call Trace|tally.*segfault' | head -3 | sed 's/^/# kernel: /'

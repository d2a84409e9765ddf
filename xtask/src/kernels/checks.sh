# Runs in each emulated kernel, as its only program. A line "@ CHECK | RESULT" is a cell of docs/kernels.md; a result
# that begins with "FAIL" fails the chore. "# " lines are details.
export PATH=/bin HOME=/tmp COLUMNS=100
cd /tmp
echo 'nobody:x:65534:65534::/tmp:/bin/sh' > /etc/passwd
cell() { echo "@ $1 | $2"; }
details() { head -"$2" "$1" | sed 's/^/# /'; }
# The doctor's first line about $1.
doctor_on() { grep -m1 "^  $1" doctor.txt | sed "s/^  $1 *//; s/  */ /g; s/[:(][^)]*$//"; }
# ns of a function with all that it calls, in folded stacks.
within() {
  awk -v f="$2" '{ n=$NF; s=";" substr($0, 1, length($0)-length(n)-1) ";"; if (index(s, ";" f ";")) sum+=n }
    END { printf "%d", sum }' "$1"
}
measured() { tr ' ' '\n' < "$1" | awk -v k="$2" 'p==k { print $1 } { p=$1 }'; }
# Error in percent of a function's time, $1, against what the program measured, $2.
error_of() {
  echo "$(within folded.txt "$1") $(measured truth.txt "$2")" | awk '{ e=($1-$2)/$2*100; printf "%.1f", e < 0 ? -e : e }'
}
# Records `split` with $2..., and compares: time asleep and waiting for a lock, exact for root.
wall_clock() {
  name=$1; shift
  record_split "$@"
  worst=$(printf '%s\n%s\n' "$(error_of nap nap_ns)" "$(error_of wait_for_lock wait_ns)" | sort -n | tail -1)
  judged "$name" "$worst" 5
}
# The same of the time on the CPU, which plain users get from samples.
cpu_time() {
  name=$1; shift
  case $(uname -m) in
  armv7*) has_samples "$name" "$@"; return ;;
  esac
  record_split "$@"
  judged "$name" "$(error_of busy cpu_ns)" 30
}
# Where threads are stopped to be sampled: a stop takes milliseconds in the emulator and may take 1 % of the time, so
# that samples are too few for shares.
has_samples() {
  name=$1; shift
  seconds=12 quiet= record_split "$@"
  if grep -q ';busy' folded.txt; then cell "$name" "yes: samples by short stops"
  elif grep -q 'ptrace_scope is [23]' err.txt; then cell "$name" "no: by its message"
  else cell "$name" "FAIL: no sample"; details err.txt 6; details folded.txt 12; fi
  cd /tmp
}
record_split() {
  folder=$(mktemp -d); chmod 777 "$folder"; cd "$folder"
  "$@" tally record ${quiet--q} --off-cpu -o s.data -- split ${seconds:-3} > truth.txt 2> err.txt
  tally flame --folded --wall --idle -i s.data > folded.txt 2>> err.txt
}
judged() {
  verdict=$(echo "$2 $3" | awk '{ print ($1 == "" || $1+0 > $2+0) ? "FAIL: " : "" }')
  cell "$1" "${verdict}within $2 %"
  [ -z "$verdict" ] || { details err.txt 6; details truth.txt 1; details folded.txt 12; }
  cd /tmp
}
# Status, and that the output has $2.
prints() {
  name=$1; want=$2; shift 2
  "$@" > out.txt 2> err.txt; status=$?
  if [ $status = 0 ] && cat out.txt err.txt | grep -q "$want"; then cell "$name" yes
  else cell "$name" "FAIL: exit $status"; details err.txt 6; details out.txt 6; fi
}

tally doctor > doctor.txt 2>&1
cell "off-CPU time" "$(doctor_on 'time off the CPU')"
cell "calls of any program" "$(doctor_on 'calls of any program' | sed 's/, [0-9.]* µs a call//')"
cell "calls in the kernel" "$(doctor_on 'calls in the kernel')"
wall_clock "wall clock of root"
tally run -v -o r.data -- deep 30 400 2000 > /dev/null 2> screen.txt
cell "complete stacks" "$(grep '^stacks' screen.txt | awk '{ print $2 }') of $(grep '^stacks' screen.txt | awk '{ print $4 }')"
# A refusal that has $3 is what the machine allows.
refuses() {
  name=$1; result=$2; want=$3; shift 3
  "$@" > out.txt 2> err.txt; status=$?
  if [ $status != 0 ] && grep -q "$want" err.txt; then cell "$name" "$result"
  else cell "$name" "FAIL: exit $status"; details err.txt 6; fi
}
case $(uname -r) in
5.*) refuses "trace" "no: needs Linux 5.11" "5[.]11" tally trace -s -- ls / ;;
*armmp) refuses "trace" "no: needs the kernel's BTF" "/sys/kernel/btf" tally trace -s -- ls / ;;
*) prints "trace" openat tally trace -s -- ls / ;;
esac
case $(uname -m) in
armv7*)
  refuses "calls record (uprobes)" "no: by its message" "needs an x86-64 or aarch64" tally calls record -q -P nap split 1
  refuses "record --span" "no: by its message" "on x86-64 and aarch64 only" tally record -q --span nap -o sp.data -- split 1 ;;
*)
  prints "calls record (uprobes)" nap sh -c 'tally calls record -q -P nap split 1 > /dev/null && tally calls report'
  prints "record --span" 'span:nap' sh -c 'tally record -q --span nap -o sp.data -- split 1 > /dev/null && tally script -i sp.data' ;;
esac
prints "sched record, latency" split sh -c 'tally sched record -q -o sc.data -- split 0.5 > /dev/null && tally sched latency -i sc.data'
prints "locks" 'released by  holder' sh -c 'tally record -q --off-cpu -o l.data -- split 1 > /dev/null && tally locks -i l.data'
cpu_time "CPU time, plain user" as_nobody
cpu_time "CPU time, plain user under docker's filter" as_nobody as_in_docker
# Yama's limits on who may stop and read whom, which a boot can only raise. tally's own child is no stranger to it.
yama=/proc/sys/kernel/yama/ptrace_scope
refuses_stranger() {
  as_nobody split 4 > /dev/null 2>&1 &
  sleep 1
  as_nobody as_in_docker tally record -q -o "$(mktemp -u)" -p "$(pidof split)" > out.txt 2> err.txt; status=$?
  wait
  if [ $status != 0 ] && grep -q "ptrace_scope is $2" err.txt; then cell "$1" "no: by its message"
  else cell "$1" "FAIL: exit $status"; details err.txt 6; fi
}
for scope in 1 2 3; do
  [ -e $yama ] || continue
  echo $scope > $yama
  cpu_time "the same under Yama's scope $scope" as_nobody as_in_docker
  refuses_stranger "-p under Yama's scope $scope" $scope
done
dmesg | grep -E 'BUG:|Oops|Call Trace|segfault' | head -3 | sed 's/^/# kernel: /'

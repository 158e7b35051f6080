# tests/system/bench.bash: what the tests of ps_throughput and lane_perf
# share; after lib.sh.
#
#   q NAME JQ         the results in NAME.json
#   fails STATUS TEXT OPTION...  the exit status of "bench", which the test
#                     defines, and what stands on stderr
#   long_run OPTION...  starts a run; in_the_middle and ended wait for it
#   interrupted ROLE OPTION...  a run that gets SIGINT once a process of this
#                     name is at work ends with 130
#   nothing_left      no folder of a run, and no process of one
P=$O/bench/ps_throughput
export TMPDIR=$T
# Folders of runs, and processes that outlived theirs: known by our TMPDIR.
leftovers() {
	local pid
	ls -d "$T"/ps_throughput.* 2>/dev/null
	for pid in $(pgrep -x 'ps_throughput|lane_perf|lp-.*|pod_serve|sv-.*|podlaned|podlane'); do
		grep -qzx "TMPDIR=$T" "/proc/$pid/environ" 2>/dev/null &&
			tr '\0' ' ' <"/proc/$pid/cmdline" && echo
	done
}
nothing_left() {
	local s
	# What was killed may take a moment to go.
	for s in 1 2 3 4 5 6 7 8 9 10; do
		[ -z "$(leftovers)" ] && return 0
		sleep 0.2
	done
	leftovers
	return 1
}
q() { jq -e "$2" "$T/$1.json"; }
fails() {
	local rc want=$1 text=$2
	shift 2
	bench "$@" >"$T/out" 2>"$T/err"
	rc=$?
	cat "$T/out" "$T/err"
	[ $rc = "$want" ] && grep -qF -- "$text" "$T/err"
}
# Starts a run of so many steps, for ever if not told; sets $RUN.
long_run() {
	"$P" compare --model googlenet --steps "${STEPS:-100000}" \
		--warmup 0 --repeat 1 "$@" >"$T/out" 2>"$T/err" </dev/null &
	RUN=$!
}
role() { pgrep -P "$RUN" -f "^ps_throughput $1 "; }
# Both roles are there and have had the time to be in the middle of a step.
in_the_middle() {
	wait_for 40 role worker && wait_for 10 role "${1:-server}" && sleep 1
}
ended() {
	local rc s=0 most=300
	sanitized && most=1200
	while kill -0 "$RUN" 2>/dev/null; do
		s=$((s + 1))
		[ $s -lt $most ] || { kill -KILL "$RUN"; wait "$RUN"; return 99; }
		sleep 0.1
	done
	wait "$RUN"
	rc=$?
	cat "$T/out" "$T/err"
	return $rc
}
interrupted() {
	local role=$1 pid rc
	shift
	"$P" "$@" >"$T/int.out" 2>&1 </dev/null &
	pid=$!
	wait_for 20 pgrep -P $pid -x podlaned && wait_for 20 pgrep -P $pid -x "$role"
	kill -INT $pid
	wait $pid
	rc=$?
	cat "$T/int.out"
	[ $rc = 130 ]
}

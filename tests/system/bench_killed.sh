#!/bin/bash
# tests/system/bench_killed.sh: ps_throughput compare ends within seconds, says
# why and leaves nothing behind, when a worker, a server or itself is killed.
. "$(dirname "$0")/lib.sh"
. tests/system/bench.bash
# kill_role ROLE TEXT OPTION...
kill_role() {
	local victim rc text=$2 what=$1
	shift 2
	long_run "$@"
	in_the_middle "$what" || { kill -KILL "$RUN"; cat "$T/err"; return 1; }
	victim=$(role "$what" | tail -1)
	kill -KILL "$victim"
	ended
	rc=$?
	[ $rc = 1 ] && grep -q "$text" "$T/err"
}
for t in overlay podlane; do
	for p in same-node cross-node; do
		check "a worker is killed, $p, $t" kill_role worker \
			"googlenet, $p, $t, p.*r: worker [01] was killed by signal 9" \
			--transport $t --placement $p
		check "a server is killed, $p, $t" kill_role server \
			"googlenet, $p, $t, p.*r: server 0 was killed by signal 9" \
			--transport $t --placement $p
	done
	check "a worker of a ring is killed, $t" kill_role worker \
		"googlenet, spread, $t, ring: worker 3 was killed by signal 9" \
		--transport $t --placement spread --variable-update ring \
		--workers 4
	check "one that a leader sums for is killed, $t" kill_role worker \
		"googlenet, spread, $t, hier.*: worker 3 was killed by signal 9" \
		--transport $t --placement spread --workers 4 \
		--variable-update hierarchical
done
check "nothing is left of killed roles" nothing_left
# An agent's death is reported at once, by its side of the data path or not.
kill_agent() {
	local rc n=$1
	shift
	long_run "$@"
	in_the_middle || { kill -KILL "$RUN"; cat "$T/err"; return 1; }
	kill -KILL "$(pgrep -P "$RUN" -f "podlaned.* node$n\b")"
	ended
	rc=$?
	[ $rc = 1 ] && grep -q "the agent of node$n was killed by signal 9" \
		"$T/err"
}
for n in 1 2; do
	check "the agent of node $n is killed, carried" kill_agent $n \
		--transport podlane --placement cross-node
	check "the agent of node $n is killed, overlay" kill_agent $n \
		--transport overlay --placement same-node
done
check "nothing is left of killed agents" nothing_left
interrupt() {
	local rc
	long_run --transport podlane --placement same-node
	in_the_middle || { kill -KILL "$RUN"; cat "$T/err"; return 1; }
	kill "-$1" "$RUN"
	[ "${2:-}" = twice ] && sleep 0.05 && kill "-$1" "$RUN"
	ended
	rc=$?
	[ $rc = 130 ] && grep -q "interrupted" "$T/err"
}
check "interrupted by SIGINT" interrupt INT
check "interrupted by SIGINT twice" interrupt INT twice
check "interrupted by SIGTERM" interrupt TERM
check "interrupted by SIGQUIT" interrupt QUIT
# A terminal sends it to the whole group; only the comparison says so.
interrupt_group() {
	local rc
	set -m
	long_run --transport podlane --placement same-node
	set +m
	in_the_middle || { kill -KILL "$RUN"; cat "$T/err"; return 1; }
	for _ in $(seq 40); do
		kill -INT -- "-$RUN" 2>/dev/null || break
		sleep 0.02
	done
	ended
	rc=$?
	[ $rc = 130 ] && [ "$(cat "$T/err")" = "ps_throughput: interrupted" ]
}
check "interrupted with its group, many times" interrupt_group
interrupt_early() {
	long_run --transport podlane
	sleep "$1"
	kill -INT "$RUN"
	ended
	[ $? = 130 ]
}
for s in 0.2 0.8 1.5; do
	check "interrupted after $s s" interrupt_early $s
done
check "nothing is left of interrupted runs" nothing_left
# Its folder can't go then, but nothing may go on running.
kill_all() {
	long_run --transport podlane --placement same-node
	in_the_middle || { kill -KILL "$RUN"; cat "$T/err"; return 1; }
	kill -KILL "$RUN"
	wait "$RUN" 2>/dev/null
	rm -rf "$T"/ps_throughput.*
	nothing_left
}
check "killed by SIGKILL, nothing goes on" kill_all
finish

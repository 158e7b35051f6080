#!/bin/bash
# tests/system/bench_wrong.sh: one wrong bit in the server's parameters, in the
# middle of a run, fails that run of ps_throughput, and it says so.
. "$(dirname "$0")/lib.sh"
. tests/system/bench.bash
# one_bit STEPS OPTION...
one_bit() {
	local rc STEPS=$1
	shift
	long_run "$@"
	in_the_middle || { kill -KILL "$RUN"; cat "$T/err"; return 1; }
	"$O/tests/system/flip_bit" "$(role server)" ||
		{ kill -KILL "$RUN"; return 1; }
	ended
	rc=$?
	[ $rc = 1 ] && grep -q "parameter" "$T/err" && [ ! -s "$T/out" ]
}
for how in sync async; do
	for p in same-node cross-node; do
		check "a wrong bit, overlay, $p, $how" one_bit 60 \
			--transport overlay --placement $p --$how
		check "a wrong bit, podlane, $p, $how" one_bit 400 \
			--transport podlane --placement $p --$how
	done
done
check "nothing is left of them" nothing_left
finish

#!/bin/bash
# tests/system/verbs_cost.sh: how many instructions the verbs carrier takes for a
# message of 64 bytes of a lane, at both ends together: put, counters, work
# requests, completions, polling. They are counted on a device that is not there.
LIB_ROOT=no
. "$(dirname "$0")/lib.sh"

MESSAGES=1000 MOST=4000
P=$O/tests/unit/test_verbs
[ -x "$P" ] || { skip cost "no libibverbs-dev when this was built"; finish; }
command -v valgrind >/dev/null || { skip cost "no valgrind"; finish; }
sanitized && { skip cost "valgrind does not run what sanitizers made"; finish; }
counted() {
	valgrind --tool=callgrind --callgrind-out-file="$T/out" "$P" \
		no_system_call &&
		callgrind_annotate --threshold=100 --auto=no "$T/out" \
			>"$T/functions"
}
check "counted" counted
# What functions take themselves, those of the fake and of the test aside.
each=$(sed -n 's|^ *\([0-9,]*\) .*[ /]rdma/verbs[a-z_]*\.c:.*|\1|p' \
	"$T/functions" | tr -d , | awk -v n=$MESSAGES '{ s += $1 }
		END { printf "%d", s / n }')
echo "instructions per message: $each"
check "it was the carrier that was counted" [ "$each" -gt 500 ]
check "at most $MOST for each message" [ "$each" -le $MOST ]
finish

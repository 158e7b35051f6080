#!/bin/bash
# tests/system/plugin_latency.sh: cni_latency measures, and says what is wrong.
. "$(dirname "$0")/lib.sh"

latency() { "$O/bench/cni_latency" "$@" >"$T/out" 2>"$T/err"; }
measures() {
	latency --rounds 3 --reservations 40 --parallel 5 --agent none \
		--json "$T/json" &&
		grep -q '5 ADDs at once' "$T/out" && jq -e '
		.rounds == 3 and .reservations == 40 and .parallel == 5 and
		([.figures[] | .times, .reference, .podlane] | all(. > 0)) and
		([.figures[].figure] == ["add_del_empty", "add_del_reserved",
		  "parallel_add", "peak_memory", "peak_memory_reserved"]) and
		(.details | length) == 6 and
		([.details[] | .add_ms.p50, .del_ms.p50, .add_del_ms.p99,
		  .del_settled_ms.p50] | all(. > 0))' "$T/json"
}
measures_less() {
	latency --rounds 1 --reservations 0 --parallel 0 --agent none \
		--json "$T/json" &&
		jq -e '([.figures[].figure] == ["add_del_empty", "peak_memory"])
		and (.details | length) == 2' "$T/json"
}
if [ -x /usr/lib/cni/bridge ]; then
	check measures measures
	check measures-less measures_less
else
	skip measures "the reference plugins are not installed"
fi
# says WORD ARG...: fails with a message that has the word.
refuses() {
	! latency "${@:2}" && grep -q -- "$1" "$T/err" || { cat "$T/err"; false; }
}
check bad-rounds refuses 'rounds must be' --rounds 0
check bad-reservations refuses 'reservations must be' --reservations -1
check bad-parallel refuses 'parallel must be' --parallel many
check bad-option refuses 'help' --colour
check stray-argument refuses 'no option' stray
check no-reference refuses containernetworking-plugins --agent none \
	--reference "$T"
check no-plugin refuses podlane --agent none --plugins "$T"
check no-agent refuses "$T/none" --agent "$T/none"
printf '#!/bin/sh\necho "{}"\n' >"$T/podlane"
chmod +x "$T/podlane"
check idle-plugin refuses 'no address' --agent none --plugins "$T" --rounds 1
nothing_left() { ! ls -d /tmp/cni_latency.* 2>/dev/null; }
check nothing-left nothing_left
finish

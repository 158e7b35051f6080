#!/bin/bash
# tests/system/deaths.sh: programs of pods are killed by the hundred, on both
# nodes, while they make and use lanes and regions: all memory is given back, by
# the agents and by the programs at the other ends.
. "$(dirname "$0")/lib.sh"

P=$O/tests/system/deaths_pods
DEATHS=${DEATHS:-100}	# a round, of each kind
two_agents || exit 1
four_pods

# run POD AS ARG...: deaths_pods in a pod, in the background
run() {
	local pod=$1 as=$2
	shift 2
	nsenter --net="/proc/${POD[$pod]}/ns/net" "$P" "$@" >"$T/$as.out" &
	CLIENT[$as]=$!
	PIDS+=("$!")
}
run a sink_a sink m
run c sink_c sink m
soon sink_a listening
soon sink_c listening

# One round: far both ways, within the node, and those who are connected to.
round() {
	local as
	run b far clients 10.88.2.10 "$DEATHS"
	run d back clients 10.88.1.10 "$DEATHS"
	run b near clients 10.88.1.10 "$DEATHS"
	run a sinks_a sinks "$DEATHS"
	run c sinks_c sinks "$DEATHS"
	for as in far back near sinks_a sinks_c; do
		wait "${CLIENT[$as]}" || return 1
		printed "$as" "killed $DEATHS" || return 1
	done
}
# What is left are the sinks' two regions.
is_quiet() {
	[ "$(ctl 1 -o json lanes | jq length)$(ctl 2 -o json lanes |
		jq length)" = 00 ] &&
		[ "$(ctl 1 -o json regions | jq length)$(ctl 2 -o json regions |
			jq length)" = 11 ]
}
# measure PID: descriptors, memory files among them and mapped, kB.
measure() {
	local p=/proc/$1
	echo "fds $(ls "$p/fd" | wc -l)"
	echo "memfds $(find "$p/fd" -lname '/memfd:*' | wc -l)"
	echo "maps $(grep -c /memfd: "$p/maps")"
	sed -n 's/^\(Pss\|Pss_Shmem\): *\([0-9]*\) kB/\1 \2/p' "$p/smaps_rollup"
}
# The four who live on; Pss may differ by what an allocator keeps.
measure_all() {
	local who
	for who in "${AGENT[1]}" "${AGENT[2]}" "${CLIENT[sink_a]}" \
		"${CLIENT[sink_c]}"; do
		measure "$who" >"$T/$1.$who"
	done
}
no_growth() {
	local more=1024
	# Their allocator keeps what is freed.
	sanitized && more=1000000
	paste -d' ' "$T/before.$1" "$T/after.$1" | awk -v own="$more" '
		{ more = 0; print }
		$1 == "Pss" { more = own }
		$1 == "Pss_Shmem" { more = 256 }
		$4 > $2 + more { bad = 1 }
		END { exit bad || NR != 5 }'
}
round || exit 1
check "the first round's memory is given back" wait_for 30 is_quiet
measure_all before
three() { round && round && round; }
three >"$T/three" 2>&1
RC=$?
# They had lanes and regions when they died.
had_some() {
	ctl "$1" -o json nodes | jq -e 'any(.[]; .receivedBytes > 10000000)' &&
		ctl "$1" -o json pods | jq -e 'map(.lanesEver // 0) | add > 100'
}
check "$((15 * DEATHS)) more deaths" [ $RC = 0 ]
check "their memory is given back" wait_for 30 is_quiet
measure_all after
check "lanes were many here" had_some 1
check "and there" had_some 2
for n in 1 2; do
	check "agent $n has not grown" no_growth "${AGENT[$n]}"
done
for n in a c; do
	check "nor has who lived on in $n" no_growth "${CLIENT[sink_$n]}"
done
not_charged() {
	ctl "$1" -o json pods | jq -e 'all(.[]; .lanes == 0) and
		(map(.connections) | add) == 1'
}
for n in 1 2; do
	check "nothing is charged on node $n" not_charged $n
	check "agent $n ends well" agent_stop $n
done
clean_logs() { ! grep -E ' error |broke the rules|not understood' "$T"/n?/agent.log; }
check "agents have nothing to complain about" clean_logs
finish

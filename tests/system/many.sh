#!/bin/bash
# tests/system/many.sh: 250 pods on one node that all talk, while its agent is
# stopped and killed ten times; lanes that come and go by the thousand.
. "$(dirname "$0")/lib.sh"
N=${PODS:-250}

# What is freed is kept for a while by the sanitizer of addresses, 256 MB of it
# unless told.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=1:thread_local_quarantine_size_kb=16

# A connection, a lane with its bells and a watch of the pod are descriptors.
ulimit -n "$(ulimit -Hn)"
node_add 1
agent_start 1 || exit 1
"$O/tests/system/many_pods" "$N" "$T/n1/run/agent.sock" "$T/n" >"$T/out" 2>&1 &
MANY=$!
PIDS+=("$MANY")
disown "$MANY"
number() { od -An -tu8 -j$((8 * $1)) -N8 "$T/n" 2>/dev/null | tr -d ' '; }
least() { [ "$(number "$1")" -ge "$2" ] && [ "$(number "$1")" -lt 1000000000 ]; }
lives() { kill -0 "$MANY" && ! grep failed "$T/out"; }
# All of them got their number back, some more times.
all_talk() {
	wait_for 60 least 0 $(($(number 0) + 3)) && lives || { cat "$T/out"; return 1; }
}
started() {
	wait_for 90 eval 'least 0 1 || grep failed "$T/out"' && lives ||
		{ cat "$T/out"; false; }
}
check all-are-there started || finish
check all-talk all_talk
known() { ctl 1 pods -o json | jq -e "length == $N and all(.listening)"; }
lanes() { ctl 1 lanes -o json | jq -e "length == $N and all(.state == \"open\")"; }
check known known
check a-lane-for-each wait_for 30 lanes
rss() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/${AGENT[1]}/status"; }

# Lanes that ended leave nothing: the third thousand takes no more than the
# second.
churned() {
	kill -USR2 "$MANY"
	wait_for 120 least 1 "$1" && wait_for 30 lanes && lives ||
		{ cat "$T/out"; tail "$T/n1/agent.log"; return 1; }
}
flat() {
	local at=() i
	for i in 1 2 3 4; do
		churned $i || return
		at+=("$(rss)")
	done
	echo "kB after each round: ${at[*]}"
	[ "${at[3]}" -le $((at[1] + at[1] / 20 + 256)) ]
}
check memory-is-flat flat
small() {
	echo "$(rss) kB"
	[ "$(rss)" -lt 30720 ]
}
if sanitized; then
	skip memory-is-small "this build has sanitizers"
else
	check memory-is-small small
fi

restarts() {
	local i first last
	for i in 1 2 3 4 5 6 7 8 9 10; do
		agent_stop 1 "$([ $((i % 2)) = 0 ] && echo KILL || echo TERM)" &&
			agent_start 1 || return
		wait_for 60 known && wait_for 60 lanes && all_talk ||
			{ echo "restart $i"; tail "$T/n1/agent.log"; ctl 1 lanes -o json | jq length; return 1; }
		[ $i = 1 ] && first=$(rss)
	done
	last=$(rss)
	echo "kB after the first and the last: $first $last"
	[ "$last" -le $((first + first / 20 + 256)) ]
}
step ten-agents restarts
step churn-with-the-last churned 5
kill -USR1 "$MANY"
ended() { wait_for 60 is_gone "$MANY" && grep -qx ok "$T/out" || { cat "$T/out"; return 1; }; }
check all-end-well ended
finish

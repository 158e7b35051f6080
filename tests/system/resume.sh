#!/bin/bash
# tests/system/resume.sh: agents are killed, either or both, at any moment; lanes
# and regions between their pods go on, and lose, repeat and reorder nothing.
. "$(dirname "$0")/lib.sh"
. tests/system/resume.bash

KILLS=${KILLS:-8}
two_agents || exit 1
four_pods

again() {
	agent_stop "$1" KILL && agent_start "$1"
}
both_again() {
	kill -KILL "${AGENT[1]}" "${AGENT[2]}"
	wait_for 10 is_gone "${AGENT[1]}" && wait_for 10 is_gone "${AGENT[2]}" &&
		agent_start 1 && agent_start 2
}
# Breaks the agents' connections, where the kernel can.
cut() { in_ns "${NODE[1]}" ss -K dst 10.99.0.2 >/dev/null 2>&1 || true; }
now_and_then() { sleep 0.$((RANDOM % 4))$((RANDOM % 10)); }

all_move

# --- one agent, the other, both -----------------------------------------------

one_is_away() {
	agent_stop "$1" KILL || return 1
	moves near own read_near || return 1
	agent_start "$1" && moves $ALL && nothing_failed
}
step "the agent of node 1 is killed" one_is_away 1
step "the agent of node 2 is killed" one_is_away 2
both_are_away() {
	kill -KILL "${AGENT[1]}" "${AGENT[2]}"
	wait_for 10 is_gone "${AGENT[1]}" && wait_for 10 is_gone "${AGENT[2]}" &&
		moves near own read_near && agent_start 1 && agent_start 2 &&
		moves $ALL && nothing_failed
}
step "both are killed" both_are_away
ended_well() { agent_stop 1 TERM && agent_start 1 && moves $ALL && nothing_failed; }
step "one ends in good order" ended_well
often() {
	local i
	for ((i = 0; i < KILLS; i++)); do
		now_and_then
		case $((RANDOM % 4)) in
		0) again 1;;
		1) again 2;;
		2) both_again;;
		3) cut;;
		esac || { show; return 1; }
	done
	moves $ALL && nothing_failed
}
step "again and again, at any moment" often
listed() {
	ctl 1 -o json lanes | jq -e '[.[] | select(.state == "open")] |
		(map(select(.path | startswith("'"$VIA"'"))) | length == 5) and
		(map(select(.path == "shm")) | length == 1)'
}
step "the lanes are listed again" wait_for 10 listed

# --- lanes that are being made -------------------------------------------------

storm() {
	run b storm_far storm 10.88.2.10 60
	run b storm_near storm 10.88.1.10 60
	for ((i = 0; i < KILLS; i++)); do
		now_and_then
		cut
		now_and_then
		again $((RANDOM % 2 + 1)) || { show; return 1; }
	done
	wait_for 100 is_gone "${CLIENT[storm_far]}" &&
		wait_for 100 is_gone "${CLIENT[storm_near]}" &&
		grep -q '^ok 60' "$T/storm_far.out" &&
		grep -q '^ok 60' "$T/storm_near.out" || { show; false; }
}
step "lanes that are set up meanwhile" storm

# --- the end --------------------------------------------------------------------

all_came
for n in 1 2; do
	step "agent $n ends well" agent_stop $n
done
clean_logs() {
	! grep -E 'error|broke the rules|not understood|contradict' \
		"$T"/n?/agent.log
}
step "agents have nothing to complain about" clean_logs
finish

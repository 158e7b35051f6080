#!/bin/bash
# tests/system/link.sh: two nodes lose each other: their link goes down, packets
# are dropped both ways or one way, for a second, for half a minute, for good.
# Lanes and regions go on with every byte once and in order, or end on both sides.
. "$(dirname "$0")/lib.sh"
. tests/system/resume.bash

CUT_S=${CUT_S:-30}
RESETS=${RESETS:-8}
node_add 1
node_add 2
# config RESUME PEER: seconds, of both nodes
config() {
	local n
	for n in 1 2; do
		agent_config $n
		jq ".resumeTimeout = $1 | .carrier.peerTimeout = $2" \
			"$T/n$n/agent.json" >"$T/new.json" &&
			mv "$T/new.json" "$T/n$n/agent.json"
	done
}
config 60 2
agent_start 1 || exit 1
agent_start 2 || exit 1
four_pods

# --- ways to cut it ----------------------------------------------------------

# The other end of the node's link: its own keeps address and route.
far_down() { in_ns "$SWITCH" ip link set n1 down; }
far_up() { in_ns "$SWITCH" ip link set n1 up; }
own_down() { in_ns "${NODE[1]}" ip link set u down; }
own_up() { in_ns "${NODE[1]}" ip link set u up; }
# drop in|out|both: of what node 1 gets and sends
drop() {
	local rules=
	[ "$1" = out ] || rules+='chain in {
		type filter hook input priority 0; iifname "u" drop; }; '
	[ "$1" = in ] || rules+='chain out {
		type filter hook output priority 0; oifname "u" drop; }; '
	in_ns "${NODE[1]}" nft "table inet cut { $rules };"
}
reset_all() {
	in_ns "${NODE[1]}" nft 'table ip cut { chain in {
		type filter hook input priority 0;
		meta l4proto tcp reject with tcp reset; }; };'
}
undrop() { in_ns "${NODE[1]}" nft flush ruleset; }
node_is() {
	[ "$(ctl "$1" -o json nodes | jq -r \
		".[] | select(.name == \"node$2\") | .state[:${#3}]")" = "$3" ]
}

all_move

# --- a moment -----------------------------------------------------------------

# cut_for SECONDS HOW... -- BACK...: within the node all goes on meanwhile.
cut_for() {
	local s=$1 how=()
	shift
	while [ "$1" != -- ]; do
		how+=("$1")
		shift
	done
	shift
	"${how[@]}" || return 1
	sleep "$s"
	moves near own read_near || return 1
	"$@" && moves $ALL && nothing_failed
}
step "the link is down for a second" cut_for 1 far_down -- far_up
step "the node's own end is" cut_for 1 own_down -- own_up
step "packets are dropped" cut_for 1 drop both -- undrop
step "those that arrive" cut_for 1 drop in -- undrop
step "those that leave" cut_for 1 drop out -- undrop
resets() {
	local i
	for ((i = 0; i < RESETS; i++)); do
		reset_all || return 1
		wait_for 10 node_is 1 2 down || return 1
		undrop && wait_for 30 node_is 1 2 up || return 1
		sleep 0.$((RANDOM % 5))
	done
	moves $ALL && nothing_failed
}
step "connections are reset, again and again" resets

# --- longer than a connection lives --------------------------------------------

# One side notices; the other may still think that all is well.
lost_one_way() {
	drop "$1" && wait_for 30 node_is 1 2 down && undrop &&
		wait_for 30 node_is 1 2 up && moves $ALL && nothing_failed
}
step "what arrives is dropped until that is noticed" lost_one_way in
step "what leaves is" lost_one_way out
half_a_minute() {
	drop both || return 1
	wait_for 30 node_is 1 2 down && wait_for 30 node_is 2 1 down ||
		return 1
	cut_for "$CUT_S" true -- undrop
}
step "packets are dropped for $CUT_S seconds" half_a_minute

# --- in the end nothing is missing ------------------------------------------------

all_came

# --- for good ---------------------------------------------------------------------

config 2 2
for n in 1 2; do
	agent_stop $n && agent_start $n || exit 1
done
run c own own 1048576
soon own created
run c keep_c keep
run a keep_a keep
soon keep_c listening
soon keep_a listening
run b hold hold 10.88.2.10
run d pour pour 10.88.1.10
soon hold holding
soon pour holding
soon keep_c taken
soon keep_a taken
run a watch watch 10.88.2.10
soon watch watching
step "lanes and regions of new agents" moves own pour
# In memory files, of the agent of a node.
memfds() {
	find "/proc/${AGENT[$1]}/fd" -lname '/memfd:*' 2>/dev/null | wc -l
}
step "agents have memory for them" [ "$(memfds 1)" -ge 3 ]
step "the link is cut" drop both
# told AS LINE: the program has ended, and said so.
told() {
	wait_for 60 printed "$1" "$2" || { show; return 1; }
}
step "an idle lane ends for who made it" told hold "receive ECONNRESET"
step "who sends is told" told hold "send EPIPE"
step "and for who took it" told keep_c "receive ECONNRESET"
step "a full one ends for its sender" told pour "send EPIPE"
step "and for its receiver" told keep_a "receive ECONNRESET"
step "a region ends for its reader" told watch "wait ECONNRESET"
step "lanes are gone from the lists" wait_for 10 no_lanes
# The owner's region is still there, and has readers on its own node.
given_back() {
	[ "$(memfds 1)" = 0 ] &&
		ctl 1 -o json pods | jq -e 'all(.[]; .bytes == 0 and
			.lanes == 0 and .regions == 0)' &&
		ctl 2 -o json pods | jq -e 'all(.[]; .lanes == 0)' &&
		ctl 2 -o json regions | jq -e 'length == 1'
}
step "memory is given back" wait_for 10 given_back

# --- who asks for something meanwhile ------------------------------------------------

# The second asks later and for a short time: it is answered first. (A lane is
# not waited for longer than resumeTimeout, which is short here.)
in_time() {
	run b "long_$1" try "$1" 10.88.2.10 60000
	run b "short_$1" try "$1" 10.88.2.10 300
	wait_for 30 is_gone "${CLIENT[short_$1]}" &&
		printed "short_$1" EHOSTUNREACH &&
		{ [ "$1" = lane ] || ! is_gone "${CLIENT[long_$1]}"; } ||
		{ show; return 1; }
}
step "pl_connect obeys its timeout" in_time lane
step "pl_region_open obeys its timeout" in_time region
again() {
	undrop && run b "far2" try region 10.88.2.10 30000 &&
		told far2 "0 "
}
step "when the link is back all is well" again
for n in 1 2; do
	step "agent $n ends well" agent_stop $n
done
clean_logs() {
	! grep -E 'error|broke the rules|not understood|contradict' \
		"$T"/n?/agent.log
}
step "agents have nothing to complain about" clean_logs
finish

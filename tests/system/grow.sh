#!/bin/bash
# tests/system/grow.sh: regions that grow: many readers, on the node and on
# another, one that waits meanwhile and one that comes late; agents that are
# killed in the middle of it; quotas; owners that lie about their size.
. "$(dirname "$0")/lib.sh"
. tests/system/resume.bash

G=$O/tests/system/grow_pods
MB=1048576
node_add 1
node_add 2
agent_config 1
agent_config 2
sed -i 's/^{/{"limits":{"bytes":40000000},/' "$T/n1/agent.json"
agent_start 1 && agent_start 2 || exit 1
four_pods
# grows POD AS ARG...: grow_pods in the background, output in AS.out
grows() {
	local pod=$1 as=$2
	shift 2
	prog "$pod" "$as" "$G" "$@"
}
# end_of AS...: they were right to the end.
end_of() {
	local as
	for as; do
		wait_for 60 grep -q '^end size' "$T/$as.out" || { show; return 1; }
		! grep -q failed "$T/$as.out" || { show; return 1; }
	done
}
# told AS...: told to stop, they end.
told() {
	local as
	for as; do
		kill -USR1 "${CLIENT[$as]}"
		wait_for 20 is_gone "${CLIENT[$as]}" || return 1
	done
}
nothing() { # of shared memory is charged
	ctl "$1" -o json pods | jq -e "[.[].bytes] | add == 0"
}
listed() { # NODE FILTER
	ctl "$1" -o json regions | jq -e "[.[] | select(.name == \"g\")] | $2"
}
said() { grep -q "$2" "$T/n$1/agent.log" || { cat "$T/n$1/agent.log"; false; }; }

# --- many readers, and a late one -----------------------------------------------

STEPS=12
SIZE=$((100000 + STEPS * 1000000))
grows c own own $STEPS 1000000 50
soon own created
for p in a b d; do grows $p "read_$p" read 10.88.2.10 $STEPS; done
check "readers on both nodes" end_of read_a read_b read_d
check "one by shared memory" grep -q "reading shm" "$T/read_d.out"
check "others by a replica" grep -q "reading tcp" "$T/read_a.out"
check "all sizes are said" grep -q "end size $SIZE max $SIZE" "$T/read_b.out"
grows a late_a read 10.88.2.10 $STEPS
grows d late_d read 10.88.2.10 $STEPS
check "late ones" end_of late_a late_d
one_replica() { ctl 1 -o json nodes | jq -e '.[] | select(.name == "node2") | .replicas == 1'; }
check "one replica for all of the node" one_replica
check "its size is shown" listed 2 "length == 1 and .[0].sizeBytes == $SIZE and
	.[0].maxBytes == $SIZE"
check "and that of openings" listed 1 "length == 3 and all(.sizeBytes >= $SIZE)"
told read_a read_b read_d late_a late_d own
check "nothing is left on node 1" wait_for 10 nothing 1
check "nor on node 2" wait_for 10 nothing 2

# --- agents are killed meanwhile ---------------------------------------------------

again() { agent_stop "$1" KILL && agent_start "$1"; }
# killed WHICH...: agents, one after the other, while a region grows
killed() {
	local n p
	grows c own own 30 500000 60
	soon own created || return 1
	for p in a b d; do grows $p "read_$p" read 10.88.2.10 30; done
	for n; do
		sleep 0.$((RANDOM % 4))$((RANDOM % 10))
		if [ "$n" = both ]; then
			kill -KILL "${AGENT[1]}" "${AGENT[2]}"
			wait_for 10 is_gone "${AGENT[1]}"
			wait_for 10 is_gone "${AGENT[2]}"
			agent_start 1 && agent_start 2
		else
			again "$n"
		fi || return 1
	done
	end_of read_a read_b read_d || return 1
	grows b late read 10.88.2.10 30
	end_of late && told read_a read_b read_d late own &&
		grep -q '^ok' "$T/own.out"
}
step "the owner's agent is killed" killed 2 2 2
step "the readers' agent is killed" killed 1 1 1
step "either, and both" killed both 1 2 both
check "nothing is left on node 1" wait_for 10 nothing 1
check "nor on node 2" wait_for 10 nothing 2

# --- quotas ------------------------------------------------------------------------

# Of 40 MB: an owner that may not have what it may grow to, and one that has
# something else already.
grows a big own 50 1000000 1
check "more than it could ever have" soon big "failed: create: EDQUOT"
check "is logged" said 1 "pod=default/a .*refused: a region that may grow"
client_bg a other region other 20000000 same
soon other published
grows a big own 30 1000000 1
check "more than there is left" soon big "failed: grow: EDQUOT"
check "is logged, too" said 1 "pod=default/a .*shares .* bytes, and"
soon big grown
grows b reader read 10.88.1.10 5
check "the region is as it was" end_of reader
told big reader
kill "${CLIENT[other]}"
# A reader that may not have what an owner elsewhere grows to.
grows c own own 25 2000000 20
soon own created
grows a poor read 10.88.2.10 25
check "a reader's quota" soon poor "failed: wait: EDQUOT"
check "is logged with its name" said 1 "pod=default/a .*the region has grown by"
check "what it had is there" soon poor "end size"
grows d rich read 10.88.2.10 25
check "others go on" end_of rich
told poor rich own

# --- lies ----------------------------------------------------------------------------

run b bystander_serve serve
soon bystander_serve listening
run a bystander talk 10.88.1.11 1
soon bystander "talking shm"
run d far_serve serve
soon far_serve listening
run b far_bystander talk 10.88.2.11 1
soon far_bystander "talking tcp"
grows c liar lie
soon liar created
grows d near read 10.88.2.10 1
grows a far read 10.88.2.10 1
check "a reader beside a liar" soon near "failed: wait: EPROTO"
check "is logged with the liar's name" said 2 "pod=default/c .*has not grown so far"
check "one on another node" soon far "failed: wait: ECONNRESET"
check "is logged" said 2 "pod=default/c .*broke the rules of region 'g'"
told near far liar
grows c part part
soon part tried
wrong_parts() {
	[ "$(grep -c '^EPROTO' "$T/part.out")" = 9 ] || { cat "$T/part.out"; false; }
}
check "segments that are not what they are said to be" wrong_parts
check "are logged" said 2 "pod=default/c .*REGION_GROW refused"
check "a right one is taken" grep -q '^good: 0' "$T/part.out"
check "and may be shown again" grep -q '^again: 0' "$T/part.out"
told part
check "nobody else notices" moves bystander far_bystander
step "to the end" ends bystander far_bystander
told bystander_serve far_serve
check "nothing is left on node 1" wait_for 10 nothing 1
check "nor on node 2" wait_for 10 nothing 2
agent_stop 1
agent_stop 2
finish

#!/bin/bash
# tests/vm/hostile.sh: hosts that no agent knows connect by rdma_cm; an agent
# writes with wrong keys and outside of its replicas: refused, logged, and
# nothing is damaged. Then, where tcp may not be used, the RDMA device goes and
# comes: lanes pause, and go on.
LIB_ROOT=no
. "$(dirname "$0")/../system/lib.sh"
. tests/vm/vm.bash

guest='evil() { printf "\\$1\0\0\0" | dd of=$EVIL conv=notrunc status=none; }
tried() { [ "$(od -An -tu4 -N4 $EVIL)" -eq 0 ]; }
logged() { wait_for 20 grep -qE -- "$2" $T/n$1/agent.log || { cat $T/n$1/agent.log; false; }; }
# What had arrived may still be read.
paused() {
	local n=$(count $1)
	sleep 2
	[ "$(count $1)" = "$n" ]
}
go_on() { moves $ALL && nothing_failed; }
by_now() {
	ctl 1 -o json lanes | jq -e "length > 0 and all(.path == \"verbs\")"
}
by_verbs() { wait_for 30 by_now || { ctl 1 lanes; tail -n 20 $T/n?/agent.log; false; }; }
objects() { for k in mr qp cq pd; do rdma resource show $k | grep -c "pid ${AGENT[1]} "; done | paste -sd" "; }
as_before() { [ "$(objects)" = "$BEFORE" ]; }
# breaks HOW SAYS: node 2 breaks a rule in that way; node 1 says so, and all go on.
breaks() {
	: >$T/n1/agent.log
	evil $1
	wait_for 20 tried || return
	logged 1 "$2" && by_verbs && go_on && wait_for 10 as_before ||
		{ echo "before $BEFORE, now $(objects)"; cat $T/n1/agent.log; return 1; }
}'

hostile() {
	VM_CPUS=2 vm_start 1 || return 1
	vm_check 1 agents 'VIA=verbs SLOWER=3 NODES_BASH=tests/vm/hosts.bash
		CARRIER="{\"security\":\"none\",\"type\":\"verbs\"}"
		. tests/system/lib.sh && . tests/system/resume.bash &&
		export EVIL=$T/evil && printf "\0\0\0\0" >$EVIL &&
		node_add 1 && node_add 2 && agent_start 1 &&
		AGENT_WITH="env LD_PRELOAD=$O/tests/vm/verbs_evil" agent_start 2 &&
		four_pods && node_add 3' || return 1
	vm_do 1 "$guest"
	vm_check 1 "lanes both ways" 'run a serve_a serve 30
		run c serve_c serve 30
		soon serve_a listening && soon serve_c listening &&
		run b far talk 10.88.2.10 1 50 &&
		run d back talk 10.88.1.10 1 50 &&
		soon far "talking verbs" && soon back "talking verbs" &&
		ALL="far back" && moves $ALL && BEFORE=$(objects) && echo $BEFORE' ||
		return 1
	vm_check 1 "a foreign host is refused" '
		port=$(sed -n "s/.*rdma_cm port //p" $T/n1/agent.log)
		timeout 60 $O/tests/vm/stranger 10.99.0.3 10.99.0.1 $port' &&
	vm_check 1 "that is logged, nobody notices" '
		logged 1 "refused an RDMA connection" && go_on &&
		by_now && as_before &&
		! grep -E "lost|error" $T/n1/agent.log'
	vm_check 1 "a wrong key" 'breaks 1 "lost node=node2"'
	vm_check 1 "a stale key" 'breaks 2 "lost node=node2"'
	vm_check 1 "a write behind its replica" 'breaks 3 "lost node=node2"'
	vm_check 1 "counters outside" 'breaks 4 "node2.*out of bounds"'
	vm_check 1 "who did it is told, too" \
		'logged 2 "lost node=node1: remote access error"'
	vm_check 1 "the device goes: lanes pause" 'rdma link delete rxe1 &&
		logged 1 "it was removed" && wait_for 20 paused far &&
		wait_for 20 paused back && nothing_failed &&
		ctl 1 -o json nodes | jq -e "any(.[]; .state // \"\" |
			startswith(\"down\"))"'
	vm_check 1 "and go on when it is back" 'rdma_add 1 && by_verbs && go_on'
	vm_check 1 "every byte came once and in order" 'ends far back'
	vm_stop 1
}
vm_possible || { skip hostile "$VM_WHY"; finish; }
vm_kernel stable || { skip hostile "$VM_WHY"; finish; }
[ -x "$O/tests/vm/stranger" ] ||
	{ skip hostile "no libibverbs-dev when this was built"; finish; }
hostile || FAILED=1
finish

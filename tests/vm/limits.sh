#!/bin/bash
# tests/vm/limits.sh: which RDMA device an agent takes, by itself and as it is
# told; an agent that runs out of locked memory or of queue pairs says what to
# set. Lanes and a region live through all of it, by tcp where RDMA is not to be
# had, and lose nothing.
LIB_ROOT=no
. "$(dirname "$0")/../system/lib.sh"
. tests/vm/vm.bash

# again WITH CARRIER: node 1's agent anew, with a command before it and this
# added to the carrier's configuration; its log begins anew.
# by PATH: all lanes between the nodes go that way.
guest='again() {
	is_gone "${AGENT[1]}" || agent_stop 1
	: >$T/n1/agent.log
	AGENT_CARRIER=$2
	CARRIER="{\"security\":\"none\"$2}" agent_config 1
	AGENT_WITH=$1 agent_start 1
}
said() { wait_for 20 grep -qF -- "$1" $T/n1/agent.log || { cat $T/n1/agent.log; ctl 1 lanes; false; }; }
by_now() {
	ctl 1 -o json lanes | jq -e --arg p "$1" \
		"map(select(.node != \"\")) | length > 0 and all(.path == \$p)"
}
by() { wait_for 30 by_now "$1" || { ctl 1 lanes; tail -n 20 $T/n?/agent.log; false; }; }
sent() { cat /sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts; }
# through DEVICE: what moves makes it send, and no other of the node.
through() {
	local d n=$(sent $1) others=0
	for d in rxe1 rxe3; do
		[ $d = $1 ] || others=$((others + $(sent $d)))
	done
	moves $ALL || return
	echo "$1: $n, then $(sent $1); others $others"
	[ $(sent $1) -gt $((n + 10)) ] || return
	for d in rxe1 rxe3; do
		[ $d = $1 ] || others=$((others - $(sent $d)))
	done
	[ $others = 0 ]
}
go_on() { moves $ALL && nothing_failed; }
moved_by() {
	ctl 1 -o json nodes | jq -r ".[] | select(.name == \"node2\") | .$1"
}
# Neither may lift a limit that is set, nor lock more than it says.
poor() { exec setpriv --bounding-set=-sys_resource,-ipc_lock "$@"; }
export -f poor
cgroup=/sys/fs/cgroup/few
count_of() { rdma resource show $1 | grep -c "pid ${AGENT[1]} "; }
# What it takes without queue pairs and memory regions
base() {
	local n=$(sed -n "s/^rxe1 .*hca_object=//p" $cgroup/rdma.current)
	echo $((n - $(count_of qp) - $(count_of mr)))
}
few() { echo $BASHPID >/sys/fs/cgroup/few/cgroup.procs; exec "$@"; }
export -f few
printf "#!/bin/bash\n\"\$@\"\n" >$T/with
chmod 755 $T/with'

limits() {
	VM_CPUS=2 vm_start 1 || return 1
	vm_check 1 agents 'VIA=verbs SLOWER=3 NODES_BASH=tests/vm/hosts.bash
		CARRIER="{\"security\":\"none\"}"
		. tests/system/lib.sh && . tests/system/resume.bash &&
		two_agents && four_pods && node_add 3' || return 1
	vm_do 1 "$guest"
	vm_check 1 "lanes of auto go by verbs" 'run a serve_a serve 30
		run c serve_c serve 30
		soon serve_a listening && soon serve_c listening &&
		run b far talk 10.88.2.10 1 50 &&
		run d back talk 10.88.1.10 1 50 &&
		soon far "talking verbs" && soon back "talking verbs" &&
		run c own own 300000 && soon own created &&
		run a read_far read 10.88.2.10 &&
		soon read_far "reading verbs" &&
		ALL="far back own read_far" && moves $ALL' || return 1
	vm_check 1 "of the node's own address" 'said "RDMA device rxe1, address 10.99.0.1," && through rxe1'

	devices
	locked
	queue_pairs
	vm_check 1 "every byte came once and in order" 'ends far back'
	vm_check 1 "every version came" 'kill -USR1 "${CLIENT[own]}"
		ends read_far &&
		[ "$(sed -n "s/ok version //p" $T/read_far.out)" = \
		"$(sed -n "s/published //p" $T/own.out)" ]'
	vm_stop 1
}
devices() {
	vm_check 1 "another device" 'again "" ",\"device\":\"rxe3\"" &&
		said "RDMA device rxe3, address 10.99.0.3," && by verbs &&
		through rxe3 && go_on'
	vm_check 1 "its port and GID" 'again "" ",\"device\":\"rxe1\",
		\"devicePort\":1,\"gidIndex\":1" &&
		said "RDMA device rxe1, address 10.99.0.1," && by verbs &&
		through rxe1 && go_on'
	vm_check 1 "no such device: the log names those that there are" \
		'again "" ",\"device\":\"rxe9\"" &&
		said "there is no RDMA device rxe9 with an address; there is rxe1 port 1 GID 1 (10.99.0.1), rxe" &&
		by tcp && go_on'
	vm_check 1 "no such GID" 'again "" ",\"device\":\"rxe1\",
		\"devicePort\":1,\"gidIndex\":77" &&
		said "no RDMA device rxe1 port 1 GID 77" && by tcp && go_on'
	vm_check 1 "with verbs only the agent does not start" '
		sed "s/\"carrier\":{/&\"type\":\"verbs\",/" $T/n1/agent.json \
			>$T/only.json
		agent_stop 1; timeout 60 $O/daemonset/podlaned --config $T/only.json \
			--run-dir $T/only.d --node node1 >$T/only 2>&1
		[ $? = 1 ] && grep "GID 77" $T/only || { cat $T/only; false; }'
}
locked() {
	vm_check 1 "too little locked memory is named, with what to set" '
		again "prlimit --memlock=16384:16384 $T/with poor" "" &&
		said "the limit of locked memory is 16384 bytes. Set LimitMEMLOCK=infinity"'
	vm_check 1 "tcp takes over" 'by tcp && go_on'
	vm_check 1 "verbs when the limit is lifted" '
		prlimit --memlock=unlimited --pid "${AGENT[1]}" &&
		by verbs && go_on'
	vm_check 1 "too little for one lane more is named, too" '
		prlimit --memlock=4096:4096 --pid "${AGENT[1]}" &&
		run b more talk 10.88.2.10 1 50 &&
		said "bytes can'\''t be registered with the RDMA device: the limit of locked memory is 4096 bytes"'
	vm_check 1 "it goes by tcp, and all go on" 'n=$(moved_by rdmaBytes)
		moves more && go_on && ends more'
}
# One memory region has its receive buffers; then it makes queue pairs.
queue_pairs() {
	vm_check 1 "what RDMA takes" 'mkdir $cgroup &&
		echo +rdma >/sys/fs/cgroup/cgroup.subtree_control &&
		again "$T/with few" "" && by verbs && cat $cgroup/rdma.current'
	vm_check 1 "too few queue pairs are named" '
		n=$(base) && agent_stop 1 &&
		echo "rxe1 hca_object=$((n + 1))" >$cgroup/rdma.max &&
		again "$T/with few" "" && said "no queue pair (the device has" &&
		grep "carrier.connections" $T/n1/agent.log'
	vm_check 1 "tcp takes over again" 'by tcp && go_on'
	vm_check 1 "verbs when there are more" '
		echo "rxe1 hca_object=max" >$cgroup/rdma.max
		by verbs && go_on'
}
vm_possible || { skip limits "$VM_WHY"; finish; }
vm_kernel stable || { skip limits "$VM_WHY"; finish; }
limits || FAILED=1
finish

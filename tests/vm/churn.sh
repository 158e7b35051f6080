#!/bin/bash
# tests/vm/churn.sh: 200 lanes share a few queue pairs, while others come and go
# under that load; memory regions, queue pairs, completion queues and protection
# domains are then as many as before.
LIB_ROOT=no
. "$(dirname "$0")/../system/lib.sh"
. tests/vm/vm.bash

LANES=${LANES:-200} ROUNDS=${ROUNDS:-2} EACH=${EACH:-6}
# What the two agents have, "mr=N qp=N cq=N pd=N"; those that end may take
# a moment.
guest='held() {
	local k
	for k in mr qp cq pd; do
		echo "$k=$(rdma resource show $k | grep -c "comm podlaned")"
	done | paste -sd" "
}
holds() { [ "$(held)" = "$1" ]; }
same() {
	wait_for 60 holds "$1" && return
	echo "before: $1"
	echo "now:    $(held), $(lanes) lanes"
	return 1
}
# Each lane of another direction has its own program.
storms() {
	local i
	for ((i = 0; i < '$ROUNDS'; i++)); do
		run a storm_far$i storm 10.88.2.10 '$EACH'
		run c storm_back$i storm 10.88.1.10 '$EACH'
	done
	for ((i = 0; i < '$ROUNDS'; i++)); do
		wait_for 30 is_gone "${CLIENT[storm_far$i]}" &&
			wait_for 30 is_gone "${CLIENT[storm_back$i]}" &&
			grep -qx "ok '$EACH' lanes" $T/storm_far$i.out &&
			grep -qx "ok '$EACH' lanes" $T/storm_back$i.out ||
			{ show; return 1; }
	done
}
regions() {
	local i
	for ((i = 0; i < '$ROUNDS'; i++)); do
		run a own$i own 300000
		soon own$i created && run c read$i read 10.88.1.10 &&
			soon read$i "reading verbs" && moves read$i || return
		kill -USR1 "${CLIENT[own$i]}"
		ends read$i && soon own$i published || return
	done
}
lanes() { ctl 1 -o json lanes | jq length; }
has_lanes() { [ "$(lanes)" = "$1" ]; }
by_verbs() { ctl 1 -o json lanes | jq -e "all(.path == \"verbs\")"; }
tcp_moved() {
	ctl 1 -o json nodes | jq ".[] | select(.name == \"node2\") |
		.sentBytes - .rdmaBytes"
}'

churn() {
	VM_CPUS=2 VM_MB=1536 vm_start 1 || return 1
	# Else each of many threads takes a page of 2 MB.
	vm_do 1 'echo never >/sys/kernel/mm/transparent_hugepage/enabled'
	vm_check 1 agents 'VIA=verbs SLOWER=3 NODES_BASH=tests/vm/hosts.bash
		CARRIER="{\"type\":\"verbs\",\"security\":\"none\"}"
		. tests/system/lib.sh && . tests/system/resume.bash &&
		export RING_BYTES=65536 RECORD_BYTES=2000
		two_agents && four_pods && run a serve_a serve 30 &&
		run c serve_c serve 30 && run b serve_b serve 8000 &&
		soon serve_a listening && soon serve_c listening &&
		soon serve_b listening'
	vm_do 1 "$guest"
	# The first ones make what all of them share.
	vm_check 1 "a lane" 'run b one talk 10.88.2.10 1 100
		soon one "talking verbs" && moves one && run d few talk 10.88.1.11 5 10000
		soon few "talking verbs" && moves few && ends few &&
		wait_for 30 has_lanes 1' || return 1
	vm_do 1 'sleep 3; ONE=$(held)'
	VM_TIMEOUT=240 vm_check 1 "$LANES lanes" "run d many talk 10.88.1.11 $LANES 10000
		wait_for 30 printed many 'talking verbs' &&
		has_lanes $((LANES + 1)) && by_verbs"' && moves many || { show; false; }' ||
		return 1
	vm_check 1 "share queue pairs" 'MANY=$(held); echo "$ONE, then $MANY"
		[ "${ONE#* }" = "${MANY#* }" ] && [ "$ONE" != "$MANY" ]'
	vm_check 1 "lanes come and go" storms
	vm_check 1 "and leave nothing" 'same "$MANY"'
	vm_check 1 "regions, too" regions
	vm_check 1 "and leave nothing, either" 'same "$MANY"'
	vm_check 1 "the others went on" 'moves many one && nothing_failed'
	VM_TIMEOUT=240 vm_check 1 "and end" 'ends many &&
		[ $(grep -c "^ok" $T/many.out) = '$LANES' ] &&
		wait_for 60 has_lanes 1 && same "$ONE"'
	vm_check 1 "agents have nothing to complain about" \
		'! grep -E "error|broke the rules" $T/n?/agent.log'
	vm_stop 1
}
vm_possible || { skip churn "$VM_WHY"; finish; }
for kernel in ${KERNELS:-stable}; do
	vm_kernel $kernel || { skip churn "$VM_WHY"; finish; }
	churn || FAILED=1
done
finish

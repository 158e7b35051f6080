#!/bin/bash
# tests/vm/bench.sh: ps_throughput between two hosts of one VM, server and workers
# in pods: over RDMA it has the same parameters as over TCP, to the bit. What
# agents and devices count says that all bytes went by RDMA.
LIB_ROOT=no
. "$(dirname "$0")/../system/lib.sh"
. tests/vm/vm.bash

# PAYLOAD: what goes over at least, in all steps: a gradient from each worker, the
# parameters to their node. A packet has 4096 bytes of it at most.
guest='printf "a/kernel 300x700\na/bias 700\nb/kernel 70x100\n" >$T/model
STEPS=3 PAYLOAD=$(((300 * 700 + 700 + 70 * 100) * 4 * 3 * STEPS))
job="--transport podlane --tensors $T/model --workers 2 --steps $STEPS
	--warmup 0 --timeout 100 --local-sum off --report 3"
PS=$O/bench/ps_throughput
ended() { wait_for 40 is_gone "${CLIENT[$1]}"; }
worker() {
	prog $1 worker$2 $PS worker $job --rank $2 --server 10.88.2.10 \
		3>$T/worker$2.json
}
train() {
	prog c server $PS server $job 3>$T/server.json
	worker a 0
	worker b 1
	ended server && ended worker0 && ended worker1
	tail -n 30 $T/server*.json $T/worker*.json
	jq -se "length == 3 and all(.ok) and
		(map(select(.role == \"worker\")) | all(.verified and
			.path == \"$VIA\")) and
		(map(.checksum) | unique | length) == 1" \
		$T/server.json $T/worker?.json
}
sums() { jq -r .checksum $T/server.json >/run/vm/sum && cat /run/vm/sum; }
total() { for n in 1 2; do ctl $n -o json nodes; done |
	jq -s "[.[][] | .$1 // 0] | add"; }
packets() { cat /sys/class/infiniband/rxe?/ports/1/hw_counters/sent_pkts |
	awk "{ n += \$1 } END { print n }"; }
segments() { awk "/^Tcp: [0-9]/ { print \$12 }" /proc/net/snmp; }
pods() { reg_add 1 a 10.88.1.10 && reg_add 1 b 10.88.1.11 &&
	reg_add 2 c 10.88.2.10; }'

bench() { # CARRIER
	vm_start 1 || return 1
	vm_check 1 "$1 agents" "VIA=$1 SLOWER=3 NODES_BASH=tests/vm/hosts.bash
		CARRIER='{\"security\":\"none\",\"type\":\"$1\"}'"'
		. tests/system/lib.sh && two_agents' || return 1
	vm_do 1 "$guest"
	vm_check 1 "$1 pods" 'pods; wait_for 20 eval "ctl 1 -o json nodes |
		jq -e \"any(.[]; .carrier == \\\"$VIA\\\")\""'
	vm_check 1 "$1 parameters are verified" \
		'PACKETS=$(packets) SEGMENTS=$(segments); train' || return 1
	vm_do 1 sums >/dev/null
	cp "$T/vm1/sum" "$T/sum.$1"
	[ "$1" = tcp ] && { vm_stop 1; return; }
	vm_check 1 "all bytes went by RDMA" 's=$(total sentBytes)
		r=$(total rdmaBytes)
		echo "$s bytes, $r by RDMA, $PAYLOAD at least"
		[ "$s" = "$r" ] && [ "$r" -ge "$PAYLOAD" ] &&
			[ "$(total fallbacks)" = 0 ]'
	vm_check 1 "the devices sent them" 'n=$(($(packets) - PACKETS))
		echo "$n packets for $PAYLOAD bytes"
		[ $n -ge $((PAYLOAD / 4096)) ]'
	vm_check 1 "and TCP did not" 'n=$(($(segments) - SEGMENTS))
		echo "$n segments"
		[ $n -lt $((PAYLOAD / 4096 / 4)) ]'
	vm_stop 1
}
vm_possible && vm_kernel stable || { skip bench "$VM_WHY"; finish; }
bench tcp && bench verbs || FAILED=1
check "the same parameters, to the bit" cmp "$T/sum.tcp" "$T/sum.verbs"
finish

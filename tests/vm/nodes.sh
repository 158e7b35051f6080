#!/bin/bash
# tests/vm/nodes.sh: two VMs, each a node with an agent and pods: lanes and regions
# between them when agents are killed, the link or the RDMA device goes and comes,
# a strange host connects, and one machine loses its power.
LIB_ROOT=no
. "$(dirname "$0")/../system/lib.sh"
. tests/vm/vm.bash

vm_possible && vm_kernel stable || { skip nodes "$VM_WHY"; finish; }

# cabled N: qemu's arguments for a link between the two VMs
cabled() {
	printf '%s ' -netdev "dgram,id=u,local.type=unix,local.path=$T/u$1,remote.type=unix,remote.path=$T/u$((3 - $1))" \
		-device "virtio-net-pci,netdev=u,host_mtu=4400,mac=52:54:00:00:00:0$1"
}
# both NAME TEXT: on both nodes; $HERE is the one, $THERE the other
both() {
	vm_check 1 "$TYPE $1 (node 1)" "$2"
	vm_check 2 "$TYPE $1 (node 2)" "$2"
}
# on N NAME TEXT: on that one
on() { vm_check "$1" "$TYPE $2" "$3"; }
# Until then nobody saw an error, and everybody counts on, on both nodes.
go_on() { both "$1: all goes on" 'moves $ALL && nothing_failed'; }

# One after the other: the second's socket is the first's other end.
nodes() {
	local n
	rm -f "$T"/u?
	for n in 1 2; do
		vm_start $n $(cabled $n) || return 1
		vm_do $n "VIA=$VIA SLOWER=3
			CARRIER='{\"type\":\"$TYPE\",\"security\":\"none\",
				\"peerTimeout\":5}'
			. tests/system/lib.sh && . tests/vm/node.bash" || return 1
	done
	both "an agent" 'node_here ${VM_NAME#vm}'
	on 1 "pods" 'reg_add 1 a 10.88.1.10 && reg_add 1 b 10.88.1.11'
	on 2 "pods" 'reg_add 2 c 10.88.2.10 && reg_add 2 d 10.88.2.11'
}
# begin: the lanes and the region of resume.bash's all_move, across VMs
begin() {
	on 1 "listens" 'run a serve_a serve; soon serve_a listening'
	on 2 "listens" 'run c serve_c serve; soon serve_c listening'
	on 2 "owns" 'run c own own 1048576; soon own created'
	on 1 "lanes" 'run b far talk 10.88.2.10 3; soon far "talking $VIA"'
	on 2 "lanes back" 'run d back talk 10.88.1.10 2 1
		soon back "talking $VIA"'
	on 1 "region" 'run a read_far read 10.88.2.10
		soon read_far "reading $VIA"; ALL="far read_far"'
	on 2 "region" 'run d read_near read 10.88.2.10
		soon read_near "reading shm"; ALL="back own read_near"'
	both "the carrier is told" 'wait_for 10 by $VIA'
}
# The device itself counts what it sends.
by_rdma() {
	both "the RDMA device sends" 'n=$(hw_sent $HERE)
		moves $ALL; echo $n $(hw_sent $HERE)
		[ $(hw_sent $HERE) -gt $((n + 10)) ]'
}
agents_die() {
	for n in 1 2 1; do
		on $n "agent $n is killed" "agent_stop $n KILL && agent_start $n"
		go_on "agent $n is killed"
	done
}
# Longer than peerTimeout, so that it is noticed.
link_goes() {
	on 1 "the link is down" 'ip link set eth0 down && sleep 8 &&
		ip link set eth0 up'
	go_on "the link is up again"
}
# With a carrier that may use tcp, too: it does, and goes back to verbs.
device_goes() {
	on 1 "the RDMA device is removed" 'rdma link delete rxe1'
	both "lanes go over to tcp" 'wait_for 30 lanes_by tcp || { show; false; }'
	go_on "the RDMA device is away"
	on 1 "the RDMA device is there again" 'rdma_add 1 eth0'
	both "lanes go back to verbs" 'wait_for 30 lanes_by verbs ||
		{ show; false; }'
	go_on "the RDMA device is there again"
}
# What came on one node is what was published on the other.
come() {
	on 2 "told to stop" 'kill -USR1 "${CLIENT[own]}"
		ends read_near back &&
		sed -n "s/.*published //p" $T/own.out >/run/vm/versions'
	on 1 "every byte came once and in order" 'ends far'
	vm_do 1 'wait_for 60 is_gone "${CLIENT[read_far]}"
		sed -n "s/ok version //p" $T/read_far.out >/run/vm/versions'
	check "$TYPE every version came" cmp "$T/vm1/versions" "$T/vm2/versions"
	both "nobody saw anything else" nothing_failed
	both "nothing is left" 'wait_for 10 eval \
		"[ \$(ctl \$HERE -o json lanes | jq length) = 0 ]"'
}
power_fails() {
	on 2 "a lane's end" 'run c keep keep; soon keep listening'
	on 1 "a lane to it" 'run b hold hold 10.88.2.10; soon hold holding'
	vm_kill 2
	on 1 "the other machine is lost: its lanes end" 'wait_for 30 printed \
		hold "receive ECONNRESET" || { show; false; }'
	on 1 "and are gone" 'wait_for 10 eval \
		"[ \$(ctl 1 -o json lanes | jq length) = 0 ]"'
	on 1 "the agent lives" 'ctl 1 status'
}
for TYPE in ${CARRIERS:-tcp verbs auto}; do
	VIA=${TYPE/auto/verbs}
	nodes || { FAILED=1; finish; }
	begin
	[ $VIA = tcp ] || by_rdma
	if [ $TYPE = auto ]; then
		device_goes
	else
		agents_die
		link_goes
	fi
	[ $VIA = tcp ] || by_rdma
	come
	[ $TYPE = auto ] && vm_stop 2 || power_fails
	vm_stop 1
done
finish

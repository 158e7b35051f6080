#!/bin/bash
# tests/vm/verbs.sh: the VM does what tests of the verbs carrier rest on: real
# RDMA between two hosts, segments as memory regions, on each kernel.
LIB_ROOT=no
. "$(dirname "$0")/../system/lib.sh"
. tests/vm/vm.bash

P=$O/tests/vm/mr_probe
vm_possible || { skip verbs "$VM_WHY"; finish; }
[ -x "$P" ] || { skip verbs "no libibverbs-dev when this was built"; finish; }

# pair SERVER -- CLIENT: both end well. A client that comes too early fails, so
# it is started again while the server waits.
pair='pair() {
	local s=() p i
	while [ "$1" != -- ]; do
		s+=("$1")
		shift
	done
	shift
	timeout 60 "${s[@]}" >/tmp/server 2>&1 &
	p=$!
	for ((i = 0; i < 40; i++)); do
		timeout 50 "$@" && wait $p && return
		kill -0 $p 2>/dev/null || break
		sleep 0.2
	done
	kill $p 2>/dev/null
	cat /tmp/server
	return 1
}'
probe='mkfifo /tmp/go
	timeout 60 '$P' rxe1 rxe2 >/tmp/probe </tmp/go &
	exec 8>/tmp/go
	wait_for 30 grep -q waiting /tmp/probe
	cat /tmp/probe
	grep -q waiting /tmp/probe'
# held KIND N: that many objects of mr_probe are there
held='held() {
	local n
	n=$(rdma resource show $1 | grep -c mr_probe)
	echo "$n"
	[ "$n" = "$2" ]
}'

# verbs READ-ONLY: what registering a read-only mapping comes to
verbs() {
	local ro=$1 mrs=2
	[ "$ro" = "read-only ok" ] && mrs=4
	vm_start 1 || return 1
	vm_check 1 hosts '. tests/system/lib.sh && . tests/vm/hosts.bash &&
		node_add 1 && node_add 2 && node_add 3'
	vm_check 1 devices 'ibv_devinfo >/tmp/dev; cat /tmp/dev
		[ "$(grep -c PORT_ACTIVE /tmp/dev)" = 3 ]'
	vm_do 1 "$pair"
	vm_check 1 pingpong pair ibv_rc_pingpong -e -d rxe1 -g 1 -n 200 -- \
		ibv_rc_pingpong -e -d rxe2 -g 1 -n 200 127.0.0.1
	vm_check 1 rdma-cm pair rping -s -a 10.99.0.1 -C 20 -- \
		rping -c -a 10.99.0.1 -I 10.99.0.3 -C 20
	vm_check 1 probe "$probe"
	for what in "writable ok" "sealed ok" "write ok" "$ro" \
		"wrong-key: remote access error"; do
		vm_check 1 "${what/:/}" grep -qx "'$what'" /tmp/probe
	done
	vm_do 1 "$held"
	vm_check 1 regions-are-listed held mr $mrs
	vm_check 1 queue-pairs-are-listed held qp 2
	vm_do 1 'echo >&8; exec 8>&-; wait $!'
	vm_check 1 nothing-leaks held mr 0
	vm_check 1 link-down-is-seen 'ip link set u3 down
		ibv_devinfo -d rxe3 | grep PORT_DOWN'
	vm_check 1 link-up-is-seen 'ip link set u3 up
		wait_for 10 eval "ibv_devinfo -d rxe3 | grep -q PORT_ACTIVE"'
	vm_stop 1
}
if vm_kernel stable; then
	case $VM_VERSION in
	6.1.*) verbs "read-only: Bad address";;
	*) verbs "read-only ok";;
	esac
else
	skip verbs-stable "$VM_WHY"
fi
if vm_kernel backports; then
	verbs "read-only ok"
else
	skip verbs-backports "$VM_WHY"
fi
finish

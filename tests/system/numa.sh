#!/bin/bash
# tests/system/numa.sh: on a machine with several NUMA nodes, memory of lanes lies
# where the pods run, whatever CPU the agents have. tests/vm/numa.sh runs it on two.
. "$(dirname "$0")/lib.sh"
. tests/system/resume.bash
LIST=/sys/devices/system/node/node
[ -d ${LIST}1 ] || { skip numa "this machine has one NUMA node"; finish; }

# on NODE: what this shell starts from now on runs there
on() { taskset -pc "$(<"$LIST$1/cpulist")" $$ >/dev/null; }
# maps NAME AS: the mappings of such memory files in a program that have pages
maps() { grep "memfd:$1.* N[0-9]*=" "/proc/${CLIENT[$2]}/numa_maps"; }
# lies NODE AS: all of its lanes' pages are on that node
lies() {
	maps podlane-lane "$2" >"$T/maps" || return 1
	[ "$(wc -l <"$T/maps")" -ge 2 ] &&
		! grep " N$((1 - $1))=" "$T/maps" || { cat "$T/maps"; false; }
}
lies_on_both() {
	maps podlane-region "$1" >"$T/maps"
	grep " N0=.* N1=" "$T/maps" || { cat "$T/maps"; false; }
}

on 0
two_agents || exit 1
step "the agent has found the nodes" grep "NUMA: 2 nodes" "$T/n1/agent.log"
four_pods
# lanes NODE POD OTHER: between that pod of node 1 and that of node 2
lanes() {
	local node=$1 pod=$2 other=$3
	on "$node"
	run "$other" serve_$node serve
	step "node $node: listens" soon serve_$node listening
	run "$pod" talk_$node talk "${IP[$other]}" 3
	step "node $node: talks" soon talk_$node "talking $VIA"
	step "node $node: lanes move" moves talk_$node
	step "node $node: opened lanes lie there" lies "$node" talk_$node
	step "node $node: accepted lanes lie there" lies "$node" serve_$node
}
lanes 1 b c
lanes 0 a d
run c own own 1048576
soon own created
run a read read 10.88.2.10
soon read "reading $VIA"
step "a region moves" moves own read
step "its replica lies on both nodes" lies_on_both read
finish

#!/bin/bash
# tests/system/agent_late.sh: a DEL while no agent runs takes the pod's network
# away at once; the next agent does not know the pod, though its namespace lives.
. "$(dirname "$0")/lib.sh"

node_add 1
agent_config 1
agent_start 1 || exit 1
pod_add 1 a >/dev/null
pod_add 1 b >/dev/null
pods() { ctl 1 -o json pods | jq -e "$1"; }
check "two pods" pods 'length == 2'
agent_stop 1 KILL
del() { conf 1 | cni 1 DEL "${POD[$1]}" "$1"; }
check "DEL without an agent succeeds" del a
no_link() { ! in_ns "${POD[a]}" ip link show eth0; }
check "the interface is gone" no_link
agent_start 1 || exit 1
one() { pods 'length == 1 and .[0].pod.name == "b"'; }
check "the next agent knows the other only" wait_for 20 one
records() { [ "$(find "$T/n1/state/pods" -name '*.json' | wc -l)" = 1 ]; }
check "... and has no record of it" wait_for 20 records
check "DEL once more" del a
check "the other goes on" in_ns "${POD[b]}" ping -c 1 -W 5 -q 10.88.1.1
check "its DEL" del b
check "the agent ends well" agent_stop 1
finish

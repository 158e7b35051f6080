#!/bin/bash
# tests/system/kube_moves.sh: a node that leaves the cluster and comes back with
# another address and other pods' addresses; lanes are made anew at once.
. "$(dirname "$0")/lib.sh"
. tests/system/kube.bash

api_two_agents || exit 1
reg_add 1 a 10.88.1.10 >/dev/null
reg_add 2 b 10.88.2.10 >/dev/null
client_bg b svc listen svc same 99
soon svc listening
pong() { says 0 "got pong" client a connect "$1" svc 10000; }
check "a lane" pong 10.88.2.10
client_bg a kept lanes 10.88.2.10 svc 1
soon kept all
lanes() { ctl "$1" -o json lanes | jq -e "length == $2"; }
check "... that stays" lanes 1 1

api '{"op":"delete","name":"node2"}' >/dev/null
gone() { ctl "$1" -o json nodes | jq -e 'all(.[]; .name != "node2")'; }
check "the Node is gone" wait_for 15 gone 1
check "its lanes end" wait_for 30 lanes 1 0
check "... there, too" wait_for 30 lanes 2 0
check "a new one says why" says 3 EHOSTUNREACH client a connect 10.88.2.10 svc 2000

# Another address on the same link, another range for its pods.
in_ns "${NODE[2]}" ip addr add 10.99.0.22/24 dev u
in_ns "${NODE[2]}" ip addr del 10.99.0.2/24 dev u
in_ns "${NODE[2]}" ip addr add 10.99.0.22/24 dev u 2>/dev/null
api '{"op":"node","name":"node2","address":"10.99.0.22","cidrs":["10.88.22.0/24"]}' \
	>/dev/null
back() { ctl 1 -o json nodes | jq -e 'any(.[]; .address == "10.99.0.22" and
	.podCIDRs == ["10.88.22.0/24"])'; }
check "it is back with another address" wait_for 15 back
# Its watch listens at the old address until TCP says that nobody is there (15 s).
check "and serves" wait_for 60 agent_ready 2
says_so() { api '{"op":"get","name":"node2"}' | jq -e \
	'.metadata.annotations."podlane.io/endpoint" == "10.99.0.22:7471"'; }
check "its agent says so" wait_for 15 says_so
reg_add 2 c 10.88.22.10 >/dev/null
client_bg c svc2 listen svc same 99
soon svc2 listening
check "a lane to it" wait_for 30 pong 10.88.22.10
routed() { in_ns "${NODE[1]}" ip route get 10.88.22.10 | grep 'dev podlane.1'; }
check "the overlay goes there" wait_for 15 routed
unrouted() { ! in_ns "${NODE[1]}" ip route show dev podlane.1 | grep 10.88.2.0; }
check "... and to the old range no longer" unrouted
for n in 1 2; do
	check "agent $n ends well" agent_stop $n
done
finish

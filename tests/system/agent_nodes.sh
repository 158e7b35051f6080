#!/bin/bash
# tests/system/agent_nodes.sh: lanes and regions between the pods of two nodes,
# as the agents' brokers see them; a registry that changes.
. "$(dirname "$0")/lib.sh"

two_agents || exit 1
has() {
	local n=$1
	shift
	ctl "$n" -o json "$1" | jq -e "$2"
}
reg_add 1 a 10.88.1.10 >/dev/null
reg_add 2 b 10.88.2.10 >/dev/null
reg_add 2 c 10.88.2.11 other >/dev/null

# --- lanes ------------------------------------------------------------------

client_bg b srv listen svc same 9
soon srv listening
check "connect" says 0 "got pong" client a connect 10.88.2.10 svc 10000
check "the listener knows who" soon srv "incoming 10.88.1.10 svc tcp"
check "it sees the end" soon srv hang-up
check "no such service" says 3 "error ECONNREFUSED: nobody in that pod" \
	client a connect 10.88.2.10 none 10000
check "no such pod" says 3 "error EHOSTUNREACH: no pod of node node2" \
	client a connect 10.88.2.99 svc 10000
client_bg a here listen here same 0
soon here listening
check "policy" says 3 "error EACCES" client c connect 10.88.1.10 here 10000
client_end here
client_bg a lanes1 lanes 10.88.2.10 svc 1
soon lanes1 all
check "listed where it came from" has 1 lanes 'length == 1 and
	.[0].path == "tcp" and .[0].node == "node2" and .[0].state == "open"
	and .[0].from == "10.88.1.10" and .[0].to == "10.88.2.10"'
check "and where it goes" has 2 lanes 'length == 1 and
	.[0].path == "tcp" and .[0].node == "node1"'
check "both are charged" has 1 pods '.[0].lanes == 1 and
	.[0].bytes == 262144'
check "nodes" has 1 nodes '.[1].name == "node2" and .[1].state == "up" and
	.[1].carrier == "tcp" and .[1].receivedBytes > 0 and .[1].lanes == 1'
kill -KILL "${CLIENT[lanes1]}"
ended() { has "$1" lanes 'length == 0'; }
check "a death ends it here" wait_for 10 ended 1
check "and there" wait_for 10 ended 2
hung_up() { [ "$(grep -c hang-up "$T/srv.out")" = "$1" ]; }
check "the peer sees it" wait_for 10 hung_up 2
check "nothing is charged any more" has 1 pods '.[0].lanes == 0 and
	.[0].bytes == 0'
client_bg b slow listen slow same 0
soon slow listening
check "timeout" says 3 "error ETIMEDOUT" client a connect 10.88.2.10 slow 300
check "which is withdrawn there" wait_for 10 ended 2
client_bg a wait1 connect 10.88.2.10 slow -1
connecting() { has 2 lanes '.[0].state == "connecting"'; }
check "an awaited lane" wait_for 10 connecting
kill -KILL "${CLIENT[wait1]}"
check "whose asker dies" wait_for 10 ended 2
client_bg a wait2 connect 10.88.2.10 slow -1
wait_for 10 connecting
client_end slow
check "whose listener goes" soon wait2 "error ECONNREFUSED"

# --- regions ----------------------------------------------------------------

client_bg a reg region w 100000 same
soon reg published
client_bg b rd open 10.88.1.10 w
check "open" soon rd "opened tcp version 1 data"
client_bg b rd2 open 10.88.1.10 w
check "open again" soon rd2 "opened tcp version 1 data"
check "one replica" has 2 nodes '.[0].replicas == 1'
check "listed" has 2 regions 'length == 2 and .[0].node == "node1" and
	.[0].path == "tcp" and .[0].sizeBytes == 100000'
check "no such region" says 3 "error ENOENT" client b open 10.88.1.10 none
check "policy of regions" says 3 "error EACCES" client c open 10.88.1.10 w
client_end reg
check "the end is seen" soon rd ended
check "by both" soon rd2 ended
check "nothing is left" has 2 regions 'length == 0'

# --- nodes that go, and come ------------------------------------------------

client_bg a lanes2 lanes 10.88.2.10 svc 1
soon lanes2 all
check "the other agent ends" agent_stop 2 KILL
not_up() { has 1 nodes '.[1].state != "up"'; }
check "that is noticed" wait_for 20 not_up
check "connecting fails" says 3 "error E" client a connect 10.88.2.10 svc 1000
agent_start 2 || exit 1
client_bg b srv2 listen svc same 9
soon srv2 listening
check "it comes back" says 0 "got pong" \
	client a connect 10.88.2.10 svc 10000

one_node() { jq '{nodes: [.nodes[] | select(.name == "node1")]}' \
	"$T/nodes.json" >"$T/new.json" && mv "$T/new.json" "$T/nodes.json"; }
cp "$T/nodes.json" "$T/two.json"
one_node
alone() { has 1 nodes 'length == 1'; }
check "a node leaves the registry" wait_for 10 alone
check "it has no pods then" says 3 "error EHOSTUNREACH: no node that node1" \
	client a connect 10.88.2.10 svc 1000
echo '{"nodes":' >"$T/nodes.json"
broken() { has 1 status '.registry | contains("nodes.json")'; }
check "a broken registry is shown" wait_for 10 broken
check "and changes nothing" alone
mv "$T/two.json" "$T/nodes.json"
two() { has 1 nodes 'length == 2'; }
check "the node comes back" wait_for 10 two
check "and serves" says 0 "got pong" client a connect 10.88.2.10 svc 10000
for n in 1 2; do
	check "agent $n ends well" agent_stop $n
	last_word() { tail -n 1 "$T/n$n/agent.log"; }
	check "nothing to complain about" says 0 "ending: got SIGTERM" last_word
done
finish

#!/bin/bash
# tests/system/kube_events.sh: what operators must know of a node is an Event of
# it, and not many of them.
. "$(dirname "$0")/lib.sh"
. tests/system/kube.bash

node_add 1
node_add 2
api_start || exit 1
api '{"op":"node","name":"node1","address":"10.99.0.1","cidrs":["10.88.1.0/29"]}' \
	>/dev/null
api_node 2
kube_config 1
kube_config 2
jq --arg T "$T" '.registry.eventSeconds = 2 | .cni = {mode: "standalone",
	confDir: ($T + "/net.d"), binDir: ($T + "/bin"),
	stateDir: ($T + "/cni"), dataDir: ($T + "/ipam")}' \
	"$T/n1/agent.json" >"$T/x" && mv "$T/x" "$T/n1/agent.json"
# noted REASON FILTER: of the Events of this reason, as a list
noted() {
	api '{"op":"noted"}' | jq -e "map(select(.reason == \"$1\")) | $2"
}
clear() { api '{"op":"noted","clear":true}' >/dev/null; }
mkdir "$T/net.d"
agent_start 1 || exit 1
agent_start 2 || exit 1

# A file that a runtime would take before ours.
echo '{"name":"y","plugins":[{"type":"bridge"}]}' >"$T/net.d/00-other.conflist"
check "another network is before ours" wait_for 20 noted Shadowed \
	'length == 1 and (.[0].message | contains("00-other.conflist"))'
check "... it is of the Node" noted Shadowed '.[0] |
	.involvedObject.kind == "Node" and .involvedObject.name == "node1" and
	.involvedObject.uid == "node1" and .type == "Warning" and
	.source.component == "podlaned"'
check "it lasts: the same Event counts" wait_for 20 noted Shadowed \
	'length == 1 and .[0].count >= 3'

# .1 is the gateway's; .2 to .6 are taken.
mkdir -p "$T/ipam/podlane"
for i in 2 3 4 5; do printf 'c%s\r\neth0' $i >"$T/ipam/podlane/10.88.1.$i"; done
# looked: all was looked at since.
looked() {
	local n
	n=$(noted Shadowed '.[0].count')
	wait_for 30 noted Shadowed ".[0].count >= $n + 2"
}
check "one address is left" looked
check "... that is no Event" noted AddressesExhausted 'length == 0'
printf 'c6\r\neth0' >"$T/ipam/podlane/10.88.1.6"
check "none is left" wait_for 20 noted AddressesExhausted \
	'length == 1 and (.[0].message | contains("all 5 pod addresses of 10.88.1.0/29"))'
rm -r "$T/ipam/podlane" "$T/net.d/00-other.conflist"

# A node that is wanted and away.
reg_add 1 a 10.88.1.2 >/dev/null
reg_add 2 b 10.88.2.10 >/dev/null
client_bg b srv listen svc same 9
soon srv listening
client_bg a lane lanes 10.88.2.10 svc 1
soon lane all
check "nobody is away" noted PeerUnreachable 'length == 0'
agent_stop 2 KILL
check "an agent is away" wait_for 60 noted PeerUnreachable \
	'length == 1 and (.[0].message | contains("node2"))'

# --- a server that does not take them ---------------------------------------

api '{"op":"fault","for":"event","times":2,"status":429,"retry":1}' >/dev/null
api '{"op":"fault","for":"event","times":1,"status":403,"message":"no rights"}' \
	>/dev/null
clear
check "Events that are gone are made again, when they can be" \
	wait_for 60 noted PeerUnreachable 'length == 1'
check "what was refused is in the log" grep -q 'events of node node1: .*no rights\|events of node node1: .*429' \
	"$T/n1/agent.log"
told() { [ "$(grep -c 'events of node' "$T/n1/agent.log")" -le 2 ]; }
check "... not each time" told
agent_stop 1
jq '.registry.eventSeconds = 0' "$T/n1/agent.json" >"$T/x" &&
	mv "$T/x" "$T/n1/agent.json"
echo '{"name":"y","plugins":[{"type":"bridge"}]}' >"$T/net.d/00-other.conflist"
clear
forget
agent_start 1 || exit 1
# It would have been sent at the start, beside this.
watched() { asked watch 'length > 0'; }
wait_for 20 watched
none() { asked event 'length == 0'; }
check "none, if none are wanted" none
check "agent 1 ends well" agent_stop 1
finish

#!/bin/bash
# tests/system/kube_locate.sh: pods whose addresses no node's range has: the API
# server is asked which node has one, and where it can't say, the other agents.
. "$(dirname "$0")/lib.sh"
. tests/system/kube.bash
. tests/system/resume.bash

for n in 1 2 3; do node_add $n; done
api_start || exit 1
for n in 1 2 3; do
	api_node $n
	kube_config $n '"overlay":{"type":"none"}'
	jq '.registry.podCIDRs = false' "$T/n$n/agent.json" >"$T/x" &&
		mv "$T/x" "$T/n$n/agent.json"
	agent_start $n || exit 1
done
POD_DOCS=()
# pod NAME IP NODE [PHASE] [HOSTNETWORK]: one more Pod for pods
pod() {
	POD_DOCS+=("{\"metadata\":{\"name\":\"$1\",\"namespace\":\"default\"},
	\"spec\":{\"nodeName\":\"$3\",\"hostNetwork\":${5:-false}},
	\"status\":{\"phase\":\"${4:-Running}\",\"podIP\":\"$2\",\"podIPs\":[{\"ip\":\"$2\"}]}}")
}
others() {
	local kind=$1
	shift
	(IFS=,; api "{\"op\":\"others\",\"kind\":\"$kind\",\"items\":[$*]}")
} >/dev/null
service() {
	printf '{"metadata":{"name":"%s","namespace":"default"},"spec":{"clusterIP":"%s"}}' "$1" "$2"
}
# slice SERVICE IP:NODE:READY...
slice() {
	local name=$1 e list=
	shift
	for e in "$@"; do
		IFS=: read -r ip node ready <<<"$e"
		list+=",{\"addresses\":[\"$ip\"],\"nodeName\":\"$node\",\"conditions\":{\"ready\":$ready}}"
	done
	printf '{"metadata":{"name":"%s-x1","namespace":"default","labels":{"kubernetes.io/service-name":"%s"}},"addressType":"IPv4","endpoints":[%s]}' \
		"$name" "$name" "${list#,}"
}
# questions ADDRESS N: the server was asked N times for it
questions() {
	asked pods "map(select(.path | contains(\"podIP%3D$1\"))) |
		if length == $2 then true else length | error(\"asked \\(.)\") end"
}
connect() { says "$1" "$2" client a connect "$3" svc "${4:-10000}"; }
reg_add 1 a 10.200.0.10 >/dev/null
reg_add 1 near 10.200.0.11 >/dev/null
reg_add 2 b 10.200.0.20 >/dev/null
reg_add 2 b2 10.200.0.21 >/dev/null
pod a 10.200.0.10 node1
pod near 10.200.0.11 node1
pod b 10.200.0.20 node2
pod old 10.200.0.20 node3 Succeeded
pod b2 10.200.0.21 node2
pod host1 10.99.0.2 node2 Running true
pod host2 10.99.0.2 node2 Running true
pod twin1 10.200.0.40 node2
pod twin2 10.200.0.40 node3
others pods "${POD_DOCS[@]}"
client_bg b srv listen svc same 99
soon srv listening
client_bg b2 srv2 listen svc same 99
soon srv2 listening
client_bg near srv3 listen svc same 99
soon srv3 listening

# --- pods -------------------------------------------------------------------

check "a pod of another node" connect 0 "got pong" 10.200.0.20
check "the listener knows who" soon srv "incoming 10.200.0.10 svc tcp"
check "again" connect 0 "got pong" 10.200.0.20
check "the server was asked once" questions 10.200.0.20 1
check "... out of its cache" asked pods \
	'all(.[]; .path | contains("resourceVersion=0"))'
check "pods of this node need no question" connect 0 "got pong" 10.200.0.11
check "... none was asked" questions 10.200.0.11 0
check "no pod" connect 3 "EHOSTUNREACH: no node that node1 knows has a pod with address 10.200.0.99" 10.200.0.99
check "still none" connect 3 "EHOSTUNREACH" 10.200.0.99
check "... the server was asked once" questions 10.200.0.99 1
check "a node's address" connect 3 "pods of the host's network have no lanes" \
	10.99.0.2
check "two pods of one address" connect 3 "2 pods have the address" 10.200.0.40
client_bg b reg region w 100000 same
soon reg published
client_bg a rd open 10.200.0.20 w
check "regions are found so" soon rd "opened tcp version 1 data"
reg_add 2 m 10.200.0.30 >/dev/null
pod m 10.200.0.30 node2
others pods "${POD_DOCS[@]}"
client_bg m srvm listen svc same 99
soon srvm listening
check "a pod" connect 0 "got pong" 10.200.0.30
ask 2 "$(reg_json 2 m del)" >/dev/null
reg_add 3 m 10.200.0.30 >/dev/null
unset 'POD_DOCS[-1]'
pod m 10.200.0.30 node3
others pods "${POD_DOCS[@]}"
client_bg m srvm3 listen svc same 99
soon srvm3 listening
check "whose address has moved" connect 3 "EHOSTUNREACH: no pod of node node2" \
	10.200.0.30
check "is looked for again" connect 0 "got pong" 10.200.0.30

# --- Services ---------------------------------------------------------------

others services "$(service one 10.96.0.1)" "$(service two 10.96.0.2)" \
	"$(service none 10.96.0.3)" "$(service here 10.96.0.4)"
others endpointslices "$(slice one 10.200.0.20:node2:true 10.200.0.98:node3:false)" \
	"$(slice one 10.200.0.20:node2:true)" \
	"$(slice two 10.200.0.20:node2:true 10.200.0.21:node2:true)" \
	"$(slice none 10.200.0.20:node2:false)" \
	"$(slice here 10.200.0.11:node1:true)"
check "a Service of one pod" connect 0 "got pong" 10.96.0.1
client_bg a lanes1 lanes 10.96.0.1 svc 1
soon lanes1 all
to_pod() { ctl 1 -o json lanes | jq -e 'any(.[]; .to == "10.200.0.20")'; }
check "... the lane is the pod's" to_pod
kill -KILL "${CLIENT[lanes1]}"
check "of a pod of this node" connect 0 "got pong" 10.96.0.4
check "of two" connect 3 "is the address of Service default/two, which has more than one ready pod: connect to a pod's own address, or make the Service headless" 10.96.0.2
check "of none" connect 3 "Service default/none, which has no ready pod yet" \
	10.96.0.3
check "no Service" connect 3 "EHOSTUNREACH: no node that" 10.96.0.77
api '{"op":"fault","for":"services","status":400,"message":"field label not supported"}' >/dev/null
check "a server that can't select Services" connect 3 "EHOSTUNREACH: no node that" \
	10.96.0.78

# --- a server that is slow, or does not say ------------------------------------

reg_add 2 s 10.200.0.50 >/dev/null
client_bg s srvs listen svc same 99
soon srvs listening
pod s 10.200.0.50 node2
others pods "${POD_DOCS[@]}"
api '{"op":"fault","for":"pods","sleep":3}' >/dev/null
check "the program's timeout holds" connect 3 "ETIMEDOUT" 10.200.0.50 500
check "the answer comes all the same" connect 0 "got pong" 10.200.0.50
check "... of one question" questions 10.200.0.50 1
api '{"op":"fault","for":"pods","sleep":3}' >/dev/null
client_bg a gone connect 10.200.0.51 svc 10000
asked51() { questions 10.200.0.51 1; }
wait_for 10 asked51
kill -KILL "${CLIENT[gone]}"
check "who asked may go" wait_for 10 is_gone "${CLIENT[gone]}"
reg_add 2 t 10.200.0.60 >/dev/null
client_bg t srvt listen svc same 99
soon srvt listening
api '{"op":"fault","for":"pods","status":403,"message":"may not list pods"}' \
	>/dev/null
check "who may not ask it asks the other agents" connect 0 "got pong" \
	10.200.0.60
check "... which is logged" grep -E "may not list pods; asking other agents" \
	"$T/n1/agent.log"
kill -KILL "$API" && wait_for 5 is_gone "$API"
reg_add 2 u 10.200.0.61 >/dev/null
client_bg u srvu listen svc same 99
soon srvu listening
check "without it too" connect 0 "got pong" 10.200.0.61
check "no pod, then" connect 3 "the API server: https://10.99.0.9:6443" \
	10.200.0.97

# --- another agent ----------------------------------------------------------

run u serves serve
soon serves listening
run a talks talk 10.200.0.61 2
soon talks "talking tcp"
check "lanes move" moves talks
agent_stop 1 KILL
agent_start 1
check "lanes go on with the next agent" moves talks
agent_stop 2 KILL
agent_start 2
check "... and with that of the other node" moves talks
check "nothing was lost" ends talks serves
for n in 1 2 3; do
	check "agent $n ends well" agent_stop $n
done

# --- a registry from a file ---------------------------------------------------

for n in 1 2; do
	rm "$T/n$n/agent.json"
	agent_start $n
done
ready_pod() { ctl 1 -o json pods | jq -e 'length == 2'; }
wait_for 10 ready_pod
client_bg u srvu2 listen svc2 same 99
soon srvu2 listening
check "agents are asked" says 0 "got pong" client a connect 10.200.0.61 svc2 10000
check "none has it" says 3 "EHOSTUNREACH: no node that node1" \
	client a connect 10.200.0.96 svc2 20000
for n in 1 2; do
	check "agent $n ends well" agent_stop $n
done
finish

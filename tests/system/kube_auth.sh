#!/bin/bash
# tests/system/kube_auth.sh: by which an agent is known to the API server, and
# it to the agent: client certificates, and a server that is not checked.
. "$(dirname "$0")/lib.sh"
. tests/system/kube.bash

# client DIR CN CA-DIR: a certificate for a client
client_cert() {
	mkdir -p "$1"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-subj "/O=podlane/CN=$2" -keyout "$1/key" -out "$1/csr" &&
	openssl x509 -req -in "$1/csr" -CA "$3/ca.crt" -CAkey "$3/ca.key" \
		-CAcreateserial -days 2 -out "$1/crt"
} >/dev/null 2>&1
node_add 1
tls_make "$T/clients" clients || exit 1
client_cert "$T/one" podlane:one "$T/clients" || exit 1
tls_make "$T/strangers" strangers
client_cert "$T/stranger" podlane:stranger "$T/strangers" || exit 1
CLIENT_CA=$T/clients/ca.crt
api_start || exit 1
api_node 1
api_node 2
kube_config 1
# kubeconfig CLUSTER USER: what stands there, in JSON
kubeconfig() {
	jq -n --argjson c "$1" --argjson u "$2" --arg s "https://$API_ADDR:$API_PORT" '{
		apiVersion: "v1", kind: "Config", "current-context": "x",
		contexts: [{name: "x", context: {cluster: "c", user: "u"}}],
		clusters: [{name: "c", cluster: ({server: $s} + $c)}],
		users: [{name: "u", user: $u}]}' >"$T/kubeconfig"
}
CHECKED='{"certificate-authority":"tls/ca.crt"}'
run() {
	rm -f "$T/n1/state/nodes.json"
	: >"$T/n1/agent.log"
	forget
	nsenter --net=/proc/"${NODE[1]}"/ns/net "$O/daemonset/podlaned" \
		--config "$T/n1/agent.json" --run-dir "$T/n1/run" --node node1 \
		2>>"$T/n1/agent.log" &
	AGENT[1]=$!
	PIDS+=("$!")
}
knows() { ctl 1 -o json nodes | jq -e 'length == 2'; }
# Without a list there is no Node of ours, so the agent is not ready.
problem() { says 1 "$1" ctl 1 status; }

kubeconfig "$CHECKED" '{"client-certificate":"one/crt","client-key":"one/key"}'
run
check "a client certificate" wait_for 20 knows
check "... which the server knows" asked watch \
	'all(.[]; .user == "podlane:one" and .auth == "")'
annotated() { asked patch 'any(.[]; .user == "podlane:one")'; }
check "... for patches, too" wait_for 20 annotated
agent_stop 1
kubeconfig "$CHECKED" "$(jq -n --arg c "$(base64 -w0 "$T/one/crt")" \
	--arg k "$(base64 -w0 "$T/one/key")" \
	'{"client-certificate-data": $c, "client-key-data": $k}')"
run
check "in the kubeconfig itself" wait_for 20 knows
check "... is the same" asked watch 'all(.[]; .user == "podlane:one")'
agent_stop 1
kubeconfig "$CHECKED" '{"client-certificate":"stranger/crt","client-key":"stranger/key"}'
run
check "one of another CA is not let in" wait_for 20 problem "10.99.0.9"
check "... and nothing is known" says 1 "" knows
agent_stop 1

kubeconfig '{"certificate-authority":"strangers/ca.crt"}' '{"tokenFile":"token"}'
run
check "a server of another CA is none" wait_for 20 problem certificate
check "... and got no token" asked nodes 'all(.[]; .auth == "")'
agent_stop 1
kubeconfig '{"insecure-skip-tls-verify":true}' '{"tokenFile":"token"}'
run
check "not checked, it is one" wait_for 20 knows
check "... which is warned about" grep -q "is not checked.*who is in between" \
	"$T/n1/agent.log"
agent_stop 1
finish

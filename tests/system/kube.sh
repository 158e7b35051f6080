#!/bin/bash
# tests/system/kube.sh: the Kubernetes API as the registry: what an agent makes
# of a server that answers, that answers late, wrongly, or not at all.
. "$(dirname "$0")/lib.sh"
. tests/system/kube.bash

api_two_agents || exit 1
has() {
	local n=$1
	shift
	ctl "$n" -o json "$1" | jq -e "$2"
}
nodes() { has 1 nodes "$1"; }
problem() { has 1 status ".registry | test(\"$1\")"; }
well() { has 1 status '.registry == "ok"'; }
logged() { grep -E -- "$2" "$T/n$1/agent.log"; }
note() { api "{\"op\":\"get\",\"name\":\"$1\"}" |
	jq -e ".metadata.annotations | $2"; }
wait_is() { wait_for 15 "$@"; }
# seen_again wN: what the server now says reaches the agent.
seen_again() {
	api "{\"op\":\"node\",\"name\":\"$1\",\"address\":\"10.99.1.${1#w}\"}"
	wait_for 60 nodes "any(.[]; .name == \"$1\")"
}
# pong NAME SVC: check a lane to node 2, by a listener of its own.
pong() {
	client_bg b "$2" listen "$2" same 1
	soon "$2" listening
	check "$1" says 0 "got pong" client a connect 10.88.2.10 "$2" 10000
}

# --- nodes ------------------------------------------------------------------

check "nodes are listed" nodes 'length == 2 and .[1].address == "10.99.0.2" and
	.[1].podCIDRs == ["10.88.2.0/24"]'
check "the overlay is made" has 1 status '.overlay == "up"'
check "all is well" wait_is well
check "the agent says that it is there" wait_is note node1 \
	'."podlane.io/endpoint" == "10.99.0.1:7471" and
	."podlane.io/carriers" == "tcp" and ."podlane.io/version" != ""'
check "... by server-side apply" asked patch \
	'.[0].type == "application/apply-patch+yaml" and
	(.[0].path | contains("fieldManager=podlane"))'
check "the first list may be cached" asked nodes \
	'.[0].path | contains("resourceVersion=0")'
check "watches ask for bookmarks" asked watch \
	'all(.[]; .path | contains("allowWatchBookmarks=true") and
	contains("timeoutSeconds="))'
check "requests say who asks" asked watch \
	'all(.[]; .agent | startswith("podlaned/"))'
reg_add 1 a 10.88.1.10 >/dev/null
reg_add 2 b 10.88.2.10 >/dev/null
pong "lanes go to other nodes" svc1
api_node 3 '"annotations":{"podlane.io/endpoint":"10.99.0.3:7999"}'
check "a node comes" wait_is nodes 'length == 3 and .[2].name == "node3"'
api '{"op":"node","name":"dual","address":"10.99.0.4,fd00::4",
	"cidrs":["10.88.4.0/24","fd00:4::/64"]}' >/dev/null
check "with both families" wait_is nodes 'any(.[]; .name == "dual" and
	.address == "10.99.0.4" and .podCIDRs == ["10.88.4.0/24","fd00:4::/64"])'
api '{"op":"node","name":"dual","address":"10.99.0.5","cidrs":["10.88.5.0/24"]}' \
	>/dev/null
check "with other addresses" wait_is nodes 'any(.[]; .name == "dual" and
	.address == "10.99.0.5" and .podCIDRs == ["10.88.5.0/24"])'
api '{"op":"node","name":"bare","address":""}' >/dev/null
api '{"op":"delete","name":"dual"}' >/dev/null
check "a node goes" wait_is nodes 'all(.[]; .name != "dual")'
check "one without an address is left out" nodes 'all(.[]; .name != "bare")'
check "... which is logged" logged 1 "node=bare: left out: it has no InternalIP"
api '{"op":"node","name":"new3","address":"10.99.0.3","cidrs":["10.88.33.0/24"],
	"created":"2026-06-01T00:00:00Z"}' >/dev/null
check "of two with one address the younger is right" wait_is nodes \
	'any(.[]; .name == "new3") and all(.[]; .name != "node3")'
check "... which is logged" logged 1 "node=node3: left out: .*node new3 too"
api '{"op":"delete","name":"new3"}' >/dev/null
check "the other is back when it goes" wait_is nodes 'any(.[]; .name == "node3")'

# --- watches ----------------------------------------------------------------

forget
api '{"op":"end_watches"}' >/dev/null
check "a watch that ends goes on" seen_again w1
check "... without a list" asked nodes 'length == 0'
forget
api '{"op":"set","cut":2}' >/dev/null
check "a watch that is cut in an object goes on" seen_again w2
check "... without a list" asked nodes 'length == 0'
# Both agents have seen a bookmark newer than any node.
marked() {
	api '{"op":"end_watches"}' >/dev/null
	sleep 0.5
	asked watch "map(select(.path | endswith(\"resourceVersion=$1\"))) |
		length >= 2"
}
api '{"op":"set","version":5000}' >/dev/null
check "a bookmark moves the watch on" wait_is marked 5000
api '{"op":"compact"}' >/dev/null
forget
api '{"op":"end_watches"}' >/dev/null
check "what is gone since is not missed" seen_again w3
check "... nor listed" asked nodes 'length == 0'
# Hung up while the history moves on: too old.
api '{"op":"set","down":true}' >/dev/null
check "a server that is gone is shown" wait_is problem "10.99.0.9:6443"
check "what was known holds" nodes 'any(.[]; .name == "node2")'
pong "lanes go on" svc2
api '{"op":"delete","name":"w1"}' >/dev/null
api_node 3
api '{"op":"compact"}' >/dev/null
forget
api '{"op":"set","down":false}' >/dev/null
gone() { nodes 'all(.[]; .name != "w1")'; }
check "after 410 all are listed again" wait_for 60 gone
check "... the newest, not a cache's" asked nodes \
	'all(.[]; .path | contains("resourceVersion=0") | not)'
check "all is well again" wait_is well
check "... which is logged" logged 1 "410.*listing them again"
api '{"op":"restore","version":200}' >/dev/null
api '{"op":"end_watches"}' >/dev/null
check "versions that go back" seen_again w4

# --- answers that are none --------------------------------------------------

api '{"op":"fault","for":"watch","times":4,"status":429,"retry":1,
	"message":"too many"}' >/dev/null
api '{"op":"end_watches"}' >/dev/null
check "429 is waited for" seen_again w5
check "... and shown" logged 1 "HTTP status 429: too many"
api '{"op":"fault","for":"watch","times":2,"status":503}' >/dev/null
api '{"op":"end_watches"}' >/dev/null
check "503 too" seen_again w6
api '{"op":"fault","for":"watch","times":2,"hang_up":true}' >/dev/null
api '{"op":"end_watches"}' >/dev/null
check "no answer at all" seen_again w7
api '{"op":"fault","for":"watch","times":2,"garbage":{"type":"ADDED"}}' \
	>/dev/null
api '{"op":"end_watches"}' >/dev/null
check "an answer that is none" seen_again w8
api '{"op":"set","page_max":3,"bookmark_s":100}' >/dev/null
api '{"op":"fault","for":"nodes","times":1,"status":500}' >/dev/null
api '{"op":"compact"}' >/dev/null
api '{"op":"restore","version":9000}' >/dev/null
api '{"op":"end_watches"}' >/dev/null
check "a list of pages" seen_again w9
api '{"op":"set","bookmark_s":0.3}' >/dev/null
paged() { asked nodes 'any(.[]; .path | contains("continue="))'; }
check "... is read to its end" wait_is paged
check "... all of it" nodes 'any(.[]; .name == "node1") and
	any(.[]; .name == "w8")'

forget
api '{"op":"fault","for":"watch","times":2,"status":410,"message":"too old"}' \
	>/dev/null
api '{"op":"fault","for":"continue","times":2,"status":410,"message":"page"}' \
	>/dev/null
api '{"op":"end_watches"}' >/dev/null
check "410 in place of a watch, and in the middle of a list" seen_again w11
began_again() { asked nodes \
	'map(select(.path | contains("continue=") | not)) | length >= 3'; }
check "... which then begins anew" began_again
check "... and has all of them" nodes 'any(.[]; .name == "node1") and
	any(.[]; .name == "w8")'

# --- who we are -------------------------------------------------------------

api '{"op":"set","tokens":["t2"]}' >/dev/null
api '{"op":"end_watches"}' >/dev/null
check "a token that is over is shown" wait_is problem "HTTP status 401"
echo t2 >"$T/new" && mv "$T/new" "$T/token"
check "another one is read" seen_again w10
check "all is well" wait_is well

# --- our own Node -----------------------------------------------------------

note_back() { note node1 '."podlane.io/endpoint" == "10.99.0.1:7471"'; }
api '{"op":"annotate","name":"node1","key":"podlane.io/endpoint","value":"x",
	"manager":"somebody"}' >/dev/null
check "what another manager owns is taken over" wait_is note_back
check "... and logged" logged 1 'conflict with "somebody".*taking the fields over'
api '{"op":"delete","name":"node1"}' >/dev/null
gone1() { nodes 'all(.[]; .name != "node1")'; }
check "our Node goes" wait_is gone1
check "ADD then says why" says 1 "has no node 'node1'" ctl 1 status
check "... and the Node is not made" says 1 null note node1 .
api_node 1
check "it comes back with what it says" wait_is note_back
check "and serves" wait_is agent_ready 1
# Node 2 refuses an agent until it knows its Node.
client_bg b svc5 listen svc5 same 1
soon svc5 listening
check "... also other nodes" wait_for 30 says 0 "got pong" \
	client a connect 10.88.2.10 svc5 10000

# --- no API -----------------------------------------------------------------

kill -KILL "$API" && wait_for 5 is_gone "$API"
check "the server dies" wait_is problem "10.99.0.9"
pong "lanes go on" svc3
check "the nodes are on disk" jq -e '.nodes | any(.[]; .name == "node2")' \
	"$T/n1/state/nodes.json"
check "an agent ends without it" agent_stop 1
agent_start 1
check "and starts" agent_ready 1
check "... with what was known" nodes 'any(.[]; .name == "node2")'
pong "... and serves" svc9
echo '{"nodes":[' >"$T/n1/state/nodes.json"
agent_stop 1
agent_up() { ctl 1 -o json nodes; }
nsenter --net=/proc/"${NODE[1]}"/ns/net "$O/daemonset/podlaned" \
	--config "$T/n1/agent.json" --run-dir "$T/n1/run" --node node1 \
	2>>"$T/n1/agent.log" &
AGENT[1]=$!
PIDS+=("$!")
check "one that knows nothing starts too" wait_is agent_up
check "... and says so" says 1 "has no node 'node1'" ctl 1 status
tls_make "$T/tls" ca-two
api_run || exit 1
api '{"op":"set","tokens":["t2"],"bookmark_s":0.3}' >/dev/null
for n in 1 2 3; do api_node $n; done
check "a new CA and a new server" wait_for 60 agent_ready 1
cp "$T/tls/ca.crt" "$T/good.crt"
tls_make "$T/other" ca-three
cp "$T/other/ca.crt" "$T/tls/ca.crt"
api '{"op":"end_watches"}' >/dev/null
api '{"op":"set","down":true}' >/dev/null
sleep 1
api '{"op":"set","down":false}' >/dev/null
check "a server of another CA is none" wait_for 30 problem "certificate"
cp "$T/good.crt" "$T/tls/ca.crt"
check "until the CA is right" wait_for 60 well

# --- as a pod, by name ------------------------------------------------------

agent_stop 1
rm "$T/n1/state/nodes.json"
mkdir "$T/sa"
cp "$T/tls/ca.crt" "$T/sa/ca.crt"
cp "$T/token" "$T/sa/token"
jq ".registry = {type: \"kubernetes\", serviceAccount: \"$T/sa\"}" \
	"$T/n1/agent.json" >"$T/x" && mv "$T/x" "$T/n1/agent.json"
not_a_pod() {
	says 1 "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set" \
		env -u KUBERNETES_SERVICE_HOST "$O/daemonset/podlaned" \
		--config "$T/n1/agent.json" --run-dir "$T/x1" --node node1
}
check "an agent that is no pod says so" not_a_pod
AGENT_WITH="env KUBERNETES_SERVICE_HOST=$API_ADDR KUBERNETES_SERVICE_PORT=$API_PORT"
agent_start 1
check "as a pod of the cluster" nodes 'any(.[]; .name == "node2")'
echo t3 >"$T/sa/token"
api '{"op":"set","tokens":["t3","t2"]}' >/dev/null
forget
api '{"op":"end_watches"}' >/dev/null
rotated() { asked watch 'any(.[]; .auth == "Bearer t3")'; }
check "its token is read again" wait_is rotated
agent_stop 1
rm "$T/n1/state/nodes.json"
kube_config 1
sed "s/$API_ADDR/kubernetes/" "$T/kubeconfig" >"$T/by_name"
jq ".registry.kubeconfig = \"$T/by_name\"" "$T/n1/agent.json" >"$T/x" &&
	mv "$T/x" "$T/n1/agent.json"
echo "$API_ADDR kubernetes" >"$T/hosts"
printf 'mount --bind "%s" /etc/hosts && exec "$@"\n' "$T/hosts" >"$T/with_hosts"
AGENT_WITH="unshare -m bash $T/with_hosts"
agent_start 1
check "a server by name" nodes 'any(.[]; .name == "node2")'
AGENT_WITH=
check "no token is in the log" says 1 "" grep -E 'Bearer|t[123]$' "$T/n1/agent.log"
for n in 1 2; do
	check "agent $n ends well" agent_stop $n
done
finish

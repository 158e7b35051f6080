# tests/system/kube.bash: a stand-in for the API server, for tests that source
# lib.sh before. It is at 10.99.0.9, in the namespace of node 9.
#
#   api_start         CA, certificate, server; tokens "t1" are let in
#   api JSON          one command to it (kube_server.py), prints the answer
#   api_node N [ARG]  makes Node nodeN of node N; ARG: more members of the command
#   kube_config N     agent.json of node N, by $T/kubeconfig
#   api_two_agents    the server, and nodes 1 and 2 with their agents
#   CLIENT_CA=FILE    before api_start: certificates of this CA are let in, too
#   asked WHAT FILTER a request of this kind was made; jq filter of the list
API_ADDR=10.99.0.9
API_PORT=6443
tls_make() {
	local d=$1 name=$2
	mkdir -p "$d"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-days 2 -subj "/CN=$name" -keyout "$d/ca.key" -out "$d/ca.crt" &&
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-subj /CN=apiserver -keyout "$d/key" -out "$d/csr" &&
	printf 'subjectAltName=IP:%s,DNS:kubernetes\n' "$API_ADDR" >"$d/ext" &&
	openssl x509 -req -in "$d/csr" -CA "$d/ca.crt" -CAkey "$d/ca.key" \
		-CAcreateserial -days 2 -extfile "$d/ext" -out "$d/crt"
} >/dev/null 2>&1
api() { python3 tests/system/kube_server.py ctl "$T/api.sock" "$1"; }
api_up() { [ "$(api '{"op":"set"}')" = '"ok"' ]; }
api_run() {
	rm -f "$T/api.sock"
	nsenter --net=/proc/"${NODE[9]}"/ns/net python3 \
		tests/system/kube_server.py serve "$API_ADDR" "$API_PORT" \
		"$T/api.sock" "$T/tls/crt" "$T/tls/key" ${CLIENT_CA:+"$CLIENT_CA"} \
		2>>"$T/api.log" &
	API=$!
	PIDS+=("$API")
	disown "$API"
	wait_for 10 api_up || { cat "$T/api.log"; return 1; }
}
api_start() {
	node_add 9
	tls_make "$T/tls" ca-one || { echo "openssl failed"; return 1; }
	api_run || return 1
	api '{"op":"set","tokens":["t1"],"bookmark_s":0.3}' >/dev/null
	echo t1 >"$T/token"
	cat >"$T/kubeconfig" <<-EOT
	apiVersion: v1
	kind: Config
	current-context: here
	contexts:
	- name: here
	  context: {cluster: stand-in, user: agent}
	clusters:
	- name: stand-in
	  cluster:
	    server: "https://$API_ADDR:$API_PORT"
	    certificate-authority: tls/ca.crt
	users:
	- name: agent
	  user:
	    tokenFile: token
	EOT
}
api_node() {
	api "{\"op\":\"node\",\"name\":\"node$1\",\"address\":\"10.99.0.$1\",
		\"cidrs\":[\"10.88.$1.0/24\"]${2:+,$2}}"
} >/dev/null
kube_config() {
	cat >"$T/n$1/agent.json" <<-EOF
	{"registry":{"type":"kubernetes","kubeconfig":"$T/kubeconfig"},
	 "stateDir":"$T/n$1/state","carrier":{"security":"none"}${2:+,$2}}
	EOF
}
api_two_agents() {
	node_add 1
	node_add 2
	api_start || return 1
	api_node 1
	api_node 2
	kube_config 1
	kube_config 2
	agent_start 1 && agent_start 2
}
asked() {
	api "{\"op\":\"requests\",\"what\":\"$1\"}" | jq -e "$2"
}
forget() { api '{"op":"requests","clear":true}' >/dev/null; }

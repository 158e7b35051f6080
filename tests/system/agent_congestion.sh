#!/bin/bash
# tests/system/agent_congestion.sh: which TCP congestion control the agents'
# connections to each other use, by themselves and when they are told.
. "$(dirname "$0")/lib.sh"

node_add 1
node_add 2
agent_config 1
agent_config 2
has() { ctl 1 -o json nodes | jq -e "$1"; }
name() { ctl 1 -o json nodes | jq -r '.[1].congestionControl'; }
# ss shows one line per socket with the name among its words.
sockets() {
	local list
	list=$(in_ns "${NODE[1]}" ss -Htin "( sport = 7471 or dport = 7471 )" |
		grep -v '^ESTAB')
	echo "$list"
	[ -n "$list" ] && ! grep -qvw "$1" <<<"$list"
}
node_has() { in_ns "${NODE[$1]}" sysctl -qw \
	net.ipv4.tcp_congestion_control="$2"; }
told() {
	jq --arg cc "$1" '.carrier.congestionControl = $cc' \
		"$T/n1/agent.json" >"$T/told.json"
}
pods() {
	local n
	for n in 1 2; do
		reg_add "$n" "pod$n" "10.88.$n.10" >/dev/null
	done
	client_bg pod2 srv listen svc same 9
	soon srv listening
}
connect() {
	says 0 "got pong" client pod1 connect 10.88.2.10 svc 10000
}

told pigeon
check "one that isn't there" says 1 \
	'"pigeon": there is none of that name; this node has: ' \
	in_ns "${NODE[1]}" timeout 10 "$O/daemonset/podlaned" --config "$T/told.json" \
	--run-dir "$T/n1/run" --node node1
told ""
check "no name" says 1 'carrier.congestionControl must be "auto" or a name' \
	in_ns "${NODE[1]}" timeout 10 "$O/daemonset/podlaned" --config "$T/told.json" \
	--run-dir "$T/n1/run" --node node1

if node_has 1 bbr 2>/dev/null && node_has 2 bbr 2>/dev/null; then
	agent_start 1 && agent_start 2 || exit 1
	pods
	check "lanes where the nodes have bbr" connect
	check "bbr is not used" has \
		'.[1].congestionControl | . == "cubic" or . == "reno"'
	check "as the sockets say" sockets "$(name)"
	check "logged" grep -q 'congestion control bbr paces' "$T/n1/agent.log"
	agent_stop 1 && agent_stop 2 || exit 1
	told bbr
	cp "$T/told.json" "$T/n1/agent.json"
	agent_start 1 || exit 1
	check "bbr when told so" has '.[1].congestionControl == "bbr"'
	agent_stop 1
	agent_config 1
else
	skip "nodes with bbr" "namespaces may not use bbr here (sysctl" \
		"net.ipv4.tcp_allowed_congestion_control)"
fi
if node_has 1 reno && node_has 2 reno; then
	agent_start 1 || exit 1
	check "the node's choice stands" has '.[1].congestionControl == "reno"'
fi

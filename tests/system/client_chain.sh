#!/bin/bash
# tests/system/client_chain.sh: podlane and podlane-ipam in lists with the
# reference plugins, executed as libcni executes a list: behind bridge and ptp,
# before portmap, bandwidth, tuning and firewall, our IPAM below theirs and
# theirs below ours.
. "$(dirname "$0")/lib.sh"
CNI=/usr/lib/cni
[ -x $CNI/bridge ] || { skip client_chain "containernetworking-plugins is missing"; exit 0; }
node_add 1
agent_start 1 || exit 1
host() { in_ns "${NODE[1]}" "$@"; }
# run CMD PID CID CONF: one plugin, found by its type
run() {
	local type
	type=$(printf '%s' "$4" | jq -r .type)
	case $type in
	podlane*) type=$O/plugin/$type;;
	*) type=$CNI/$type;;
	esac
	printf '%s' "$4" | CNI_PLUGIN=$type cni 1 "$1" "$2" "$3"
}
# chain CMD PID CID: all plugins of $LIST, with $RUNTIME for those that take it.
# ADD leaves the result in $T/CID.
chain() {
	local cmd=$1 pid=$2 cid=$3 n i conf out prev order
	n=$(printf '%s' "$LIST" | jq '.plugins | length')
	prev=null
	[ "$cmd" = ADD ] || prev=$(cat "$T/$cid")
	order=$(seq 0 $((n - 1)))
	[ "$cmd" != DEL ] || order=$(seq $((n - 1)) -1 0)
	for i in $order; do
		conf=$(printf '%s' "$LIST" | jq -c --argjson i "$i" \
			--argjson prev "$prev" --argjson run "${RUNTIME:-{\}}" '
			.plugins[$i] as $p | {name, cniVersion} + $p +
			(if $prev == null then {} else {prevResult: $prev} end) +
			{runtimeConfig: ($run | with_entries(
				select($p.capabilities[.key])))}')
		out=$(run "$cmd" "$pid" "$cid" "$conf") || {
			printf '%s\n%s\n' "$conf" "$out"
			return 1
		}
		[ "$cmd" = ADD ] && prev=$out
	done
	[ "$cmd" != ADD ] || printf '%s' "$prev" >"$T/$cid"
}
ip_of() { jq -r '.ips[0].address' "$T/$1" | cut -d/ -f1; }
# A port that nobody listens on answers, if the way there and back is right.
reaches() { # PID ADDRESS
	in_ns "$1" timeout 3 bash -c "echo >/dev/tcp/$2/9" 2>&1 |
		grep -q 'Connection refused'
}
ours='{"type":"podlane","bridge":"br0","isGateway":true,
 "agentSocket":"'$T'/n1/run/agent.sock","stateDir":"'$T'/state"'
chained="$ours}"
ipam='{"type":"podlane-ipam","dataDir":"'$T'/ipam",
 "ranges":[[{"subnet":"10.77.0.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}'
host_local=$(printf '%s' "$ipam" | jq -c '.type = "host-local"')
list() { # PLUGIN...
	printf '%s\n' "$@" | jq -sc --arg v "${VERSION:-1.0.0}" \
		'{cniVersion: $v, name: "net", plugins: .}'
}
left() { find "$T/ipam" -name '[0-9]*.*' 2>/dev/null; find "$T/state" -type f 2>/dev/null; }
clean() {
	! left | grep . && ! host ip -o link show type veth | grep -v ' \(u\|tc0\)@' | grep . &&
	ctl 1 pods -o json | jq -e 'length == 0'
}
ns_add; A=$PID
ns_add; B=$PID
pair() { # two pods reach each other; the agent knows them; all is undone
	local ip
	chain ADD "$A" a && chain ADD "$B" b || return
	ip=$(ip_of b)
	ctl 1 pods -o json | jq -e --arg b "$ip/${BITS:-24}" \
		'length == 2 and all(.listening) and any(.addresses == [$b])' &&
	reaches "$A" "$ip" && reaches "$B" "$(ip_of a)" &&
	chain CHECK "$A" a && chain CHECK "$B" b || return
	chain DEL "$A" a && chain DEL "$B" b && chain DEL '' b && clean
}
for v in 0.4.0 1.0.0; do
	VERSION=$v
	LIST=$(list '{"type":"bridge","bridge":"ref0","isGateway":true,"ipam":'"$host_local"'}' "$chained")
	check "behind bridge, $v" pair
	LIST=$(list '{"type":"ptp","ipMasq":false,"ipam":'"$host_local"'}' "$chained")
	check "behind ptp, $v" pair
done
LIST=$(list '{"type":"bridge","bridge":"ref0","isGateway":true,"ipam":'"$ipam"'}' "$chained")
check "behind bridge with podlane-ipam" pair
LIST=$(list '{"type":"ptp","ipam":'"$ipam"'}')
ptp_only() {
	chain ADD "$A" a && chain ADD "$B" b && reaches "$A" "$(ip_of b)" &&
	chain CHECK "$A" a && chain DEL "$A" a && chain DEL "$B" b && clean
}
check "podlane-ipam below ptp" ptp_only
LIST=$(printf '%s' "$LIST" |
	jq -c '.plugins[0].ipam |= (.ranges[0][0].gateway = "10.99.0.1" |
		del(.routes))')
check "podlane-ipam below ptp, gateway elsewhere" ptp_only
# Its network is that of the lists that follow.
host ip link del ref0
LIST=$(list "$ours,\"ipam\":$host_local}")
check "host-local below podlane" pair
LIST=$(list "$ours,\"ipam\":$ipam}" \
	'{"type":"tuning","sysctl":{"net.ipv4.conf.all.log_martians":"1"},"capabilities":{"mac":true}}')
tuned() {
	RUNTIME='{"mac":"02:00:00:00:00:09"}'
	chain ADD "$A" a && chain ADD "$B" b || return
	in_ns "$A" ip link show eth0 | grep -q 02:00:00:00:00:09 &&
	[ "$(in_ns "$A" cat /proc/sys/net/ipv4/conf/all/log_martians)" = 1 ] &&
	chain CHECK "$A" a && chain DEL "$A" a && chain DEL "$B" b && clean
}
check "before tuning, which changes the MAC" tuned
RUNTIME=
LIST=$(list "$ours,\"ipam\":$ipam}" '{"type":"bandwidth","capabilities":{"bandwidth":true}}')
shaped() {
	RUNTIME='{"bandwidth":{"ingressRate":8000000,"ingressBurst":8000000,
		"egressRate":8000000,"egressBurst":8000000}}'
	chain ADD "$A" a && chain ADD "$B" b || return
	[ "$(host tc qdisc show | grep -c 'qdisc tbf')" -ge 2 ] &&
	reaches "$A" "$(ip_of b)" && chain CHECK "$A" a &&
	chain DEL "$A" a && chain DEL "$B" b && clean &&
	! host ip -o link show type ifb | grep .
}
if host ip link add ifbx type ifb 2>/dev/null && host tc qdisc add dev ifbx root \
	tbf rate 1mbit burst 10k latency 10ms 2>/dev/null; then
	host ip link del ifbx
	check "before bandwidth" shaped
else
	skip "before bandwidth" "this kernel has no ifb or tbf"
fi
RUNTIME=
tables() { host iptables -w -t nat -S && host iptables -w -S; }
if tables >/dev/null 2>&1; then
	LIST=$(list "$ours,\"ipam\":$ipam}" '{"type":"firewall"}')
	check "before firewall" pair
	LIST=$(list "$ours,\"ipam\":$ipam}" '{"type":"portmap","capabilities":{"portMappings":true},"snat":true}')
	mapped() {
		RUNTIME='{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}'
		chain ADD "$A" a || return
		wait_for 5 in_ns "$C" iperf3 -c 192.0.2.1 -p 8080 -n 1M || {
			tables
			in_ns "$C" timeout 10 iperf3 -c 192.0.2.1 -p 8080 -n 1M
			return 1
		}
		# CHECK of portmap wants IPv6 rules for a pod without IPv6.
		LIST=$(printf '%s' "$LIST" | jq -c 'del(.plugins[1])') \
			chain CHECK "$A" a && chain DEL "$A" a &&
		! host iptables -w -t nat -S | grep 8080 && clean
	}
	ns_add
	C=$PID
	host ip link add tc0 type veth peer name eth0 netns "$C"
	host ip addr add 192.0.2.1/24 dev tc0
	host ip link set tc0 up
	in_ns "$C" ip addr add 192.0.2.2/24 dev eth0
	in_ns "$C" ip link set eth0 up
	nsenter --net=/proc/"$A"/ns/net iperf3 -s -p 80 >/dev/null 2>&1 &
	PIDS+=("$!")
	disown "$!"
	check "before portmap" mapped
	host ip link del tc0
else
	skip "before firewall and portmap" "iptables does not work here"
fi
finish

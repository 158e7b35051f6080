#!/bin/bash
# tests/system/plugin_dropin.sh: the same configuration, with the type replaced,
# gives the same result and the same network as the reference bridge plugin.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/plugin.bash"

if [ ! -x /usr/lib/cni/bridge ]; then
	skip dropin "the reference plugins are not installed"
	finish
fi
base='{"cniVersion":"1.0.0","name":"net","type":"bridge","bridge":"br0",
 "agentPolicy":"optional","agentSocket":"'$T'/none","stateDir":"'$T'/state",
 "ipam":{"type":"host-local","dataDir":"'$T'/ipam",
  "ranges":[[{"subnet":"10.77.0.0/24"}]]}}'
# What must be equal: not MACs nobody asked for, and not the name of the pair.
same_result='if .interfaces then .interfaces[].mac |=
	(if . == "02:00:00:00:00:44" then . else "M" end) |
	.interfaces[1].name = "V" |
	(.interfaces[] | select(.sandbox)).sandbox = "S" else . end'
addresses_of() { # PID LINK
	in_ns "$1" ip -j addr show dev "$2" | jq -c '[.[].addr_info[] |
		select(.scope == "global") |
		{family, local, prefixlen, broadcast}]'
}
link_of() { # PID LINK JQ
	in_ns "$1" ip -j -d link show dev "$2" | jq -c ".[0] | {mtu,
		up: (.flags | index([\"UP\"]) != null), link_type} + ($3)"
}
routes_of() {
	in_ns "$1" ip -j route | jq -c 'map(del(.protocol, .flags))'
	in_ns "$1" ip -6 -j route | jq -c 'map(select(.dst != "fe80::/64") |
		del(.protocol, .flags, .pref))'
}
sysctl_of() { in_ns "$1" cat "/proc/sys/net/$2"; }
network() { # NODE POD
	echo "pod: $(addresses_of "$2" eth0) $(link_of "$2" eth0 '{}')"
	in_ns "$2" ip link show eth0 | grep -o 02:00:00:00:00:44
	routes_of "$2"
	echo "bridge: $(addresses_of "$1" br0) $(link_of "$1" br0 \
		'{promisc: (.flags | index("PROMISC") != null)}')"
	echo "port: $(in_ns "$1" ip -j -d link show type veth | jq -c '.[0] |
		{mtu, master, state: .linkinfo.info_slave_data.state,
		 hairpin: .linkinfo.info_slave_data.hairpin,
		 isolated: .linkinfo.info_slave_data.isolated}')"
	sysctl_of "$1" ipv4/ip_forward
	sysctl_of "$1" ipv6/conf/all/forwarding
	sysctl_of "$1" ipv6/conf/br0/accept_ra
	sysctl_of "$2" ipv4/conf/eth0/arp_notify
	# Of no use to a pod without IPv6, where ours leaves it.
	! in_ns "$2" ip -6 addr show dev eth0 | grep -q global ||
		sysctl_of "$2" ipv6/conf/eth0/accept_dad
}
forwards() { in_ns "$1" ip -d link show type veth | grep -q 'state forwarding'; }
snapshot() { # PLUGIN CONF NODE POD
	local rc
	NODE[1]=$3
	rm -rf "$T/ipam" "$T/state"
	printf '%s' "$2" | CNI_PLUGIN=$1 cni 1 ADD "$4" c >"$T/o" 2>"$T/e"
	rc=$?
	echo "exit $rc"
	if [ $rc = 0 ]; then
		wait_for 5 forwards "$3"
		jq -S "$same_result" "$T/o"
		network "$3" "$4"
	fi
	printf '%s' "$2" | CNI_PLUGIN=$1 cni 1 DEL "$4" c >/dev/null 2>&1
	echo "left: $(in_ns "$4" ip -o link | wc -l) \
$(find "$T/ipam" -name '[0-9]*.*' 2>/dev/null | wc -l)"
}
# like NAME JQ [EXIT]: both end so, with the same network
like() {
	local conf nodes=() n
	conf=$(printf '%s' "$base" | jq -c "$2")
	for n in 1 2 3 4; do
		ns_add
		nodes+=("$PID")
	done
	snapshot /usr/lib/cni/bridge "$conf" "${nodes[0]}" "${nodes[1]}" \
		>"$T/ref" 2>&1
	snapshot "$O/plugin/podlane" "$conf" "${nodes[2]}" "${nodes[3]}" \
		>"$T/our" 2>&1
	check "$1" the_same "${3:-0}"
	kill -KILL "${nodes[@]}"
}
the_same() {
	grep -qx "exit $1" "$T/ref" && diff "$T/ref" "$T/our" &&
		[ "$(wc -l <"$T/ref")" -gt 1 ] || { cat "$T/e"; false; }
}
like plain .
like gateway '.isGateway = true'
like default-gateway '.isDefaultGateway = true'
like no-ipam 'del(.ipam)'
like empty-ipam '.ipam = {}'
six='.ipam.ranges += [[{"subnet":"fd77::/64"}]]'
like dual-stack "$six"
like dual-stack-gateway "$six | .isDefaultGateway = true"
like routes '.isGateway = true | .ipam.routes =
	[{"dst":"0.0.0.0/0"},{"dst":"10.9.0.0/16","gw":"10.77.0.200"}]'
like own-default '.isDefaultGateway = true |
	.ipam.routes = [{"dst":"0.0.0.0/0","gw":"10.77.0.200"}]'
far='.ipam.ranges[0][0].gateway = "10.99.0.1"'
like far-gateway "$far"
like far-gateway-of-bridge "$far | .isGateway = true"
like far-gateway-default "$far | .isDefaultGateway = true" 1
like empty-gateway '.isGateway = true | .ipam.routes =
	[{"dst":"0.0.0.0/0","gw":""}] | .ipam.ranges[0][0].gateway = ""'
like mtu '.mtu = 1400 | .isGateway = true'
like hairpin '.hairpinMode = true | .isGateway = true'
like promisc '.promiscMode = true | .isGateway = true'
like hairpin-and-promisc '.promiscMode = true | .hairpinMode = true' 1
like dns '.dns = {"nameservers":["192.0.2.1"],"search":["a"]}'
like mac '.args.cni.mac = "02:00:00:00:00:44"'
like runtime-mac '.runtimeConfig.mac = "02:00:00:00:00:44"'
like runtime-ips '.runtimeConfig.ips = ["10.77.0.99/24"]'
like static-ipam '.isGateway = true | .ipam = {"type":"static",
	"addresses":[{"address":"10.77.0.5/24","gateway":"10.77.0.1"},
	 {"address":"10.77.0.6/24","gateway":"10.77.0.1"}],
	"routes":[{"dst":"10.1.0.0/16"}]}'
like point-to-point '.isGateway = true | .ipam = {"type":"static",
	"addresses":[{"address":"10.77.0.5/31"}]}'
like host-address '.ipam = {"type":"static",
	"addresses":[{"address":"10.77.0.5/32"}]}'
like bad-ipam '.ipam.type = "none"' 1
like no-range 'del(.ipam.ranges)' 1
like bad-route '.ipam.routes = [{"dst":"10.9.0.0/16","gw":"192.0.2.1"}]' 1
for v in 0.1.0 0.2.0 0.3.0 0.3.1 0.4.0; do
	like "version-$v" ".cniVersion = \"$v\" | $six |
		.isDefaultGateway = true"
done
like no-version "del(.cniVersion)"
like unknown-version '.cniVersion = "9.9.9"' 1
finish

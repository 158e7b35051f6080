#!/bin/bash
# tests/system/plugin.sh: the commands of the plugin, standalone and chained.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/plugin.bash"

one_node --mtu 1400
pod() { ns_add && eval "$1=$PID"; }
pod A
pod B

plain() { env -i "$O/plugin/podlane" "$@"; }
about() {
	[ -z "$(plain 2>"$T/about")" ] && grep -q 1.1.0 "$T/about"
}
check about about
version() {
	local out
	out=$(echo '{"cniVersion":"0.4.0"}' |
		env -i CNI_COMMAND=VERSION "$O/plugin/podlane") || return
	one_doc "$out" && printf '%s' "$out" |
		jq -e '.cniVersion == "0.4.0" and
			(.supportedVersions | contains(["0.3.1","1.1.0"]))'
}
check version version
missing() {
	local out
	out=$(net | env -i CNI_COMMAND=ADD "$O/plugin/podlane")
	[ $? = 1 ] && printf '%s' "$out" | jq -e '.code == 4 and
		(.msg | contains("CNI_CONTAINERID") and contains("CNI_NETNS")
		 and contains("CNI_IFNAME"))'
}
check missing-environment missing
check own-namespace code 8 pl ADD "${NODE[1]}" x
check no-namespace code 8 pl ADD 1073741824 x
check unknown-version code 1 pl ADD "$A" x eth0 '.cniVersion = "2.0.0"'
check unbuilt-key code 2 pl ADD "$A" x eth0 \
	'.runtimeConfig.infinibandGUID = "c2:11:22:33:44:55:66:77"'
for key in conditionsV4 conditionsV6; do
	check "unbuilt-$key" code 2 pl ADD "$A" x eth0 ".$key = [\"-s\", \"::/0\"]"
	check "unbuilt-$key-says" eval "pl ADD $A x eth0 '.$key = [\"-s\"]' |
		grep '$key is not supported.*say hostIP'"
done
check nothing-done clean

RES=$(pl ADD "$A" a)
result() {
	one_doc "$RES" && printf '%s' "$RES" | jq -e '
		(.interfaces | length) == 3 and .interfaces[0].name == "br0" and
		.interfaces[2].name == "eth0" and
		.interfaces[2].sandbox == "/proc/'$A'/ns/net" and
		.ips[0].interface == 2 and .ips[0].gateway == "10.77.0.1" and
		(.ips[0] | has("version") | not) and
		.routes[0].dst == "0.0.0.0/0"'
}
check add-result result
ip_a=$(printf '%s' "$RES" | jq -r '.ips[0].address')
wired() {
	in_ns "$A" ip -o addr show dev eth0 | grep -q " $ip_a " &&
		in_ns "$A" ip route | grep -q '^default via 10.77.0.1 ' &&
		in_ns "$A" ip link show eth0 | grep -q 'mtu 1400' &&
		in_ns "$A" ip link show eth0 | grep -qi "$(printf '%s' "$RES" |
			jq -r '.interfaces[2].mac')" &&
		in_ns "$A" ip link show lo | grep -q 'LOOPBACK,UP' &&
		host ip link show br0 | grep -qi "$(printf '%s' "$RES" |
			jq -r '.interfaces[0].mac')" &&
		host ip -o link show master br0 | grep -q "$(printf '%s' "$RES" |
			jq -r '.interfaces[1].name')"
}
check add-wires wired
check gateway-answers reaches "$A" 10.77.0.1
registered() {
	grep '"op":"add"' "$T/log" | grep '"containerID":"a"' |
		grep "\"$ip_a\"" | grep -q ' fd$'
}
check add-registers registered
check add-twice code 103 pl ADD "$A" a
check first-still-works wired
prev() { net ".cniVersion = \"$1\" | .prevResult = $RES" | cni 1 CHECK "$A" a; }
check check prev 1.0.0
bad_check() { # COMMAND...: CHECK fails after it
	"$@" || return
	! prev 1.0.0
}
check check-address bad_check in_ns "$A" ip addr del "$ip_a" dev eth0
in_ns "$A" ip addr add "$ip_a" dev eth0
check check-route bad_check true
in_ns "$A" ip route add default via 10.77.0.1
check check-again prev 1.0.0
check check-down bad_check in_ns "$A" ip link set eth0 down
in_ns "$A" ip link set eth0 up
in_ns "$A" ip route add default via 10.77.0.1
port=$(printf '%s' "$RES" | jq -r '.interfaces[1].name')
check check-port bad_check host ip link set "$port" nomaster
host ip link set "$port" master br0
check check-restored prev 1.0.0
check check-no-bridge bad_check host ip link set br0 name br1
host ip link set br1 name br0 up
check check-no-interface bad_check in_ns "$A" ip link set eth0 down name eth9
in_ns "$A" ip link add eth0 type veth peer name eth8
in_ns "$A" ip link set eth0 up
in_ns "$A" ip addr add "$ip_a" dev eth0
in_ns "$A" ip route add default via 10.77.0.1
not_ours() { code 104 prev 1.0.0 && prev 1.0.0 | grep 'eth0 is not ours'; }
check check-other-interface not_ours
in_ns "$A" ip link del eth0
in_ns "$A" ip link set eth9 name eth0 up
in_ns "$A" ip route add default via 10.77.0.1
check check-restored-again prev 1.0.0
reservation() {
	code 104 pl CHECK "$A" a eth0 \
		".prevResult = $RES | .ipam.dataDir = \"$T/none\""
}
check check-reservation reservation
check del pl DEL "$A" a eth0 ".prevResult = $RES"
check del-again pl DEL "$A" a
check del-without-namespace pl DEL "" a
check del-is-clean clean
check del-empties-pod empty_pod "$A"

# The shapes of the versions, and what 1.1.0 adds.
shape() { # VERSION JQ
	local o rc
	o=$(pl ADD "$A" s eth0 ".cniVersion = \"$1\"")
	one_doc "$o" && printf '%s' "$o" |
		jq -e ".cniVersion == \"$1\" and ($2)"
	rc=$?
	pl DEL "$A" s && return $rc
}
check result-0.3.1 shape 0.3.1 '.ips[0].version == "4"'
check result-0.4.0 shape 0.4.0 '.ips[0].version == "4"'
check result-1.1.0 shape 1.1.0 '.interfaces[2].socketPath == "@podlane" and
	.interfaces[2].mtu == 1400'
options() {
	pl ADD "$A" o eth0 '.mtu = 1300 | .isDefaultGateway = true |
		.promiscMode = true | del(.ipam.routes) |
		.runtimeConfig.mac = "02:11:22:33:44:55" |
		.dns.nameservers = ["192.0.2.53"]' >"$T/o" &&
		jq -e '.dns.nameservers == ["192.0.2.53"]' "$T/o" &&
		in_ns "$A" ip link show eth0 | grep -q 'mtu 1300' &&
		in_ns "$A" ip link show eth0 | grep -q 02:11:22:33:44:55 &&
		in_ns "$A" ip route | grep -q '^default via 10.77.0.1 ' &&
		host ip link show br0 | grep -q PROMISC
}
check options options
check options-del pl DEL "$A" o
dual() {
	pl ADD "$A" d eth0 '.ipam.ranges += [[{"subnet":"fd77::/64"}]] |
		.ipam.routes += [{"dst":"::/0"}]' >"$T/o" &&
		in_ns "$A" ip -6 addr show dev eth0 | grep fd77:: |
			grep -qv tentative &&
		in_ns "$A" ip -6 route | grep -q '^default via fd77::1 ' &&
		reaches "$A" fd77::1
}
check dual-stack dual
check dual-stack-del pl DEL "" d
check clean-after-options clean

# Two pods that reach each other; a pod with two interfaces.
pl ADD "$A" a >"$T/a"
pl ADD "$B" b >"$T/b"
ip_b=$(jq -r '.ips[0].address' "$T/b")
check pod-to-pod reaches "$A" "${ip_b%/*}"
two() {
	pl ADD "$A" a eth1 'del(.ipam.routes)' >"$T/a1" &&
		pl DEL "$A" a eth1 && reaches "$A" "${ip_b%/*}"
}
check two-interfaces two
stale() { # an address comes back on another MAC
	pl DEL "$A" a && host ip neigh replace 10.77.0.200 nud reachable \
		lladdr 02:00:00:00:00:99 dev br0 &&
		pl ADD "$A" a eth0 '.args.cni.ips = ["10.77.0.200"]' >"$T/a" &&
		grep -q 10.77.0.200/24 "$T/a" &&
		! host ip neigh show 10.77.0.200 | grep 02:00:00:00:00:99
}
check no-stale-neighbour stale
gc() { pl GC "" "" "" ".cniVersion = \"1.1.0\" | $1"; }
check gc-without-key code 7 gc .
keep='{"containerID":"b","ifname":"eth0"}'
check gc gc ".\"cni.dev/valid-attachments\" = [$keep]"
gc_kept() {
	empty_pod "$A" && reaches "$B" 10.77.0.1 &&
		[ "$(records | wc -l) $(addresses | wc -l)" = "1 1" ]
}
check gc-keeps-valid gc_kept
check gc-null gc '."cni.dev/valid-attachments" = null'
check gc-is-clean clean
check gc-empties-pod empty_pod "$B"

# The agent.
status() { pl STATUS "" "" "" '.cniVersion = "1.1.0"'; }
check status status
fake_stop
check status-without-agent code 50 status
check status-without-agent-optional pl STATUS "" "" "" \
	'.cniVersion = "1.1.0" | .agentPolicy = "optional"'
check required code 11 pl ADD "$A" r
check required-is-clean clean
optional() {
	pl ADD "$A" r eth0 '.agentPolicy = "optional"' >"$T/o" &&
		reaches "$A" 10.77.0.1
}
check optional optional
check del-without-agent pl DEL "$A" r
check clean-without-agent clean
fake_start
used_up() {
	local one='.ipam.ranges = [[{"subnet":"10.77.0.0/24",
		"rangeStart":"10.77.0.9","rangeEnd":"10.77.0.9"}]]'
	pl ADD "$A" u eth0 "$one" >/dev/null || return
	code 50 pl STATUS "" "" "" ".cniVersion = \"1.1.0\" | $one"
	local rc=$?
	pl DEL "" u && pl STATUS "" "" "" ".cniVersion = \"1.1.0\" | $one" &&
		return $rc
}
check status-exhausted used_up

# Another IPAM plugin.
hl='.ipam.type = "host-local"'
delegated() {
	pl ADD "$A" h eth0 "$hl" >"$T/o" && reaches "$A" 10.77.0.1 &&
		[ "$(addresses | wc -l)" = 1 ]
}
check delegated delegated
check delegated-check eval 'net "$hl | .prevResult = $(cat "$T/o")" |
	cni 1 CHECK "$A" h'
check delegated-del pl DEL "" h eth0 'del(.ipam)'
check delegated-clean clean
check delegated-missing code 5 pl ADD "$A" h eth0 '.ipam.type = "no-such"'
check delegated-missing-clean clean
check delegated-missing-del pl DEL "$A" h eth0 '.ipam.type = "no-such"'
layer2() {
	pl ADD "$A" l eth0 'del(.ipam) | .isGateway = false' >"$T/o" &&
		in_ns "$A" ip link show eth0 | grep -q UP && pl DEL "" l
}
check no-addresses layer2

# Behind the reference bridge plugin.
ref='{"cniVersion":"1.0.0","name":"net","type":"bridge","bridge":"ref0",
 "isGateway":true,"ipam":{"type":"host-local","dataDir":"'$T'/ipam",
 "ranges":[[{"subnet":"10.78.0.0/24"}]]}}'
chained() {
	printf '%s' "$ref" | CNI_PLUGIN=/usr/lib/cni/bridge \
		cni 1 ADD "$A" c >"$T/ref" &&
		pl ADD "$A" c eth0 ".prevResult = $(cat "$T/ref")" >"$T/o" &&
		[ "$(jq -S . "$T/o")" = "$(jq -S . "$T/ref")" ] &&
		grep '"op":"add"' "$T/log" | grep '"containerID":"c"' |
			grep -q "\"$(jq -r '.ips[0].address' "$T/ref")\""
}
if [ -x /usr/lib/cni/bridge ]; then
	check chained chained
	check chained-check eval 'pl CHECK "$A" c eth0 \
		".prevResult = $(cat "$T/ref")"'
	check chained-twice code 103 \
		pl ADD "$A" c eth0 ".prevResult = $(cat "$T/ref")"
	check chained-del pl DEL "$A" c
	check chained-left-alone in_ns "$A" ip link show eth0
	printf '%s' "$ref" | CNI_PLUGIN=/usr/lib/cni/bridge cni 1 DEL "$A" c
	check chained-clean clean
else
	skip chained "the reference bridge plugin is not installed"
fi
host ip link del br0

# Many at once, on a bridge that is not there yet.
crowd=()
for i in $(seq 60); do
	ns_add
	crowd+=("$PID")
done
jobs=()
for i in $(seq 60); do
	pl ADD "${crowd[i - 1]}" "p$i" >"$T/p$i" 2>"$T/e$i" &
	jobs+=("$!")
done
parallel() {
	[ "$(jq -r '.ips[0].address' "$T"/p? "$T"/p?? | sort -u | wc -l)" = 60 ] ||
		{ cat "$T"/p? "$T"/p?? "$T"/e*; return 1; }
	for i in $(seq 60); do
		reaches "${crowd[i - 1]}" 10.77.0.1 || return
	done
}
wait "${jobs[@]}"
check parallel parallel
jobs=()
for i in $(seq 60); do
	pl DEL "" "p$i" &
	jobs+=("$!")
done
wait "${jobs[@]}"
check parallel-clean clean
finish

#!/bin/bash
# tests/system/overlay.sh: the VXLAN overlay between three nodes.
. "$(dirname "$0")/lib.sh"

D=podlane.1
# registry NODE[=ADDRESS] ...: writes $T/nodes.json
registry() {
	local n a s=''
	printf '{"nodes":[' >"$T/nodes.json.new"
	for n in "$@"; do
		a=${n#*=}
		[ "$a" = "$n" ] && a=10.99.0.$n
		n=${n%%=*}
		printf '%s{"name":"node%s","address":"%s","podCIDRs":["10.88.%s.0/24","fd00:%s::/64"]}' \
			"$s" "$n" "$a" "$n" "$n" >>"$T/nodes.json.new"
		s=,
	done
	printf ']}' >>"$T/nodes.json.new"
	mv "$T/nodes.json.new" "$T/nodes.json"
}
# overlay N [CONF]: one sync of node N
overlay() {
	in_ns "${NODE[$1]}" "$O/tests/system/overlay_test" sync "node$1" \
		"$T/nodes.json" ${2:+"$2"}
}
overlays() { local n; for n in "$@"; do overlay "$n" || return 1; done; }
# says TEXT CMD...: CMD's output has TEXT, whatever it exits with
exits() {
	local want=$1 out
	shift
	out=$("$@" 2>&1)
	printf '%s\n' "$out"
	grep -qF -- "$want" <<<"$out"
}
# fails TEXT CMD...: CMD fails and says TEXT
fails() {
	local want=$1 out
	shift
	out=$("$@" 2>&1) && { echo "did not fail: $out"; return 1; }
	printf '%s\n' "$out"
	grep -qF -- "$want" <<<"$out"
}
not() { ! "$@"; }
# pod N: a pod-like namespace ${POD[N]}, 10.88.N.2 and fd00:N::2, behind a
# bridge of node N
pod() {
	local n=$1 node=${NODE[$1]}
	ns_add
	POD[$n]=$PID
	in_ns "$node" ip link add br0 mtu 1450 type bridge
	in_ns "$node" ip link add p0 mtu 1450 type veth peer name eth0 mtu 1450 \
		netns "$PID"
	in_ns "$node" ip link set p0 master br0 up
	in_ns "$node" ip link set br0 up
	in_ns "$node" ip addr add "10.88.$n.1/24" dev br0
	in_ns "$node" ip addr add "fd00:$n::1/64" dev br0 nodad
	in_ns "$PID" ip link set eth0 up
	in_ns "$PID" ip addr add "10.88.$n.2/24" dev eth0
	in_ns "$PID" ip addr add "fd00:$n::2/64" dev eth0 nodad
	in_ns "$PID" ip route add default via "10.88.$n.1"
	in_ns "$PID" ip -6 route add default via "fd00:$n::1"
}
# pings FROM ADDRESS [OPTION...]
pings() {
	local from=$1 to=$2
	shift 2
	in_ns "${POD[$from]}" ping -q -c 1 -W 2 "$@" "$to"
}
reaches() { wait_for 10 pings "$@"; }
# What the device of node N has, in comparable form.
snapshot() {
	local p=${NODE[$1]}
	in_ns "$p" ip -o link show dev $D | sed 's/.*mtu/mtu/; s/link-netnsid.*//'
	in_ns "$p" ip -o addr show dev $D scope global | sed 's/^[0-9]*: //'
	in_ns "$p" ip -4 route show dev $D
	in_ns "$p" ip -6 route show dev $D | grep -v '^fe80'
	in_ns "$p" ip neigh show dev $D nud permanent | sort
	in_ns "$p" bridge fdb show dev $D | sort
	in_ns "$p" ip -d -o link show dev $D | grep -o 'vxlan id.*dstport [0-9]*'
}
has() { exits "$2" snapshot "$1"; }
# restored N: after a sync the device of node N is as in $T/good.N
restored() {
	overlay "$1" && snapshot "$1" | diff "$T/good.$1" -
}
# breaks N CMD...: CMD damages node N's overlay, a sync repairs it
breaks() {
	local n=$1
	shift
	in_ns "${NODE[$n]}" "$@" || return 1
	snapshot "$n" | cmp -s "$T/good.$n" - && { echo "no damage"; return 1; }
	restored "$n"
}
fdb_of() { in_ns "${NODE[$1]}" bridge fdb show dev $D; }
mac_of() {
	in_ns "${NODE[$1]}" ip -o link show dev $D | sed 's/.*ether //; s/ .*//'
}
# A sync of node N changes nothing, as the kernel announces nothing of the
# device; events of another device, before and after, show that it would.
no_events() {
	local mon p=${NODE[$1]}
	# Not in_ns: $! would be the shell around it.
	nsenter --net=/proc/"$p"/ns/net \
		ip -o monitor link address route neigh >"$T/events" 2>&1 &
	mon=$!
	PIDS+=("$mon")
	wait_for 10 canary "$p" || return 1
	overlay "$1" || return 1
	in_ns "$p" ip addr add 10.66.6.7/32 dev br0
	wait_for 10 grep -q 10.66.6.7 "$T/events" || return 1
	kill "$mon"
	wait "$mon" 2>/dev/null
	in_ns "$p" ip addr del 10.66.6.7/32 dev br0
	in_ns "$p" ip addr del 10.66.6.6/32 dev br0
	cat "$T/events"
	! grep -q "$D" "$T/events"
}
canary() {
	in_ns "$1" ip addr del 10.66.6.6/32 dev br0
	in_ns "$1" ip addr add 10.66.6.6/32 dev br0
	sleep 0.1
	grep -q 10.66.6.6 "$T/events"
}
tcp_udp() {
	nsenter --net=/proc/"${POD[2]}"/ns/net \
		iperf3 -s -1 -B 10.88.2.2 >/dev/null 2>&1 &
	PIDS+=("$!")
	wait_for 10 in_ns "${POD[1]}" iperf3 -c 10.88.2.2 -n 4M $1
}
# many N: a registry of N other nodes, on node 1
many() {
	local i
	{
		printf '{"nodes":[{"name":"node1","address":"10.99.0.1","podCIDRs":["10.88.1.0/24"]}'
		for ((i = 0; i < $1; i++)); do
			printf ',{"name":"m%d","address":"10.99.%d.%d","podCIDRs":["10.%d.%d.0/24"]}' \
				$i $((1 + i / 250)) $((1 + i % 250)) \
				$((100 + i / 250)) $((i % 250))
		done
		printf ']}'
	} >"$T/nodes.json"
	overlay 1 || return 1
	[ "$(in_ns "${NODE[1]}" ip route show dev $D | wc -l)" = "$1" ] &&
	[ "$(in_ns "${NODE[1]}" ip neigh show dev $D nud permanent | wc -l)" = "$1" ] &&
	[ "$(fdb_of 1 | wc -l)" = "$1" ]
}
gone() { not in_ns "${NODE[$1]}" ip link show dev $D; }
teardown() {
	in_ns "${NODE[$1]}" "$O/tests/system/overlay_test" teardown "node$1" -
}
nothing_left() {
	local p=${NODE[$1]}
	gone "$1" || return 1
	# What stays is the bridge's own: 10.88.1.0/24 and fd00:1::/64.
	in_ns "$p" sh -c "ip route; ip -6 route; ip neigh show nud permanent" \
		>"$T/left"
	cat "$T/left"
	! grep -E "$D|10\.(88\.[023]|1[0-9][0-9])\.|fd00:[023]:" "$T/left"
}

for n in 1 2 3; do
	node_add $n
	in_ns "${NODE[$n]}" ip addr add "fd99::$n/64" dev u nodad
	in_ns "${NODE[$n]}" sysctl -qw net.ipv4.ip_forward=0
	pod $n
done

# Two nodes.
registry 1 2
check overlay-up exits "up mtu 1450" overlays 1 2
check overlay-ping reaches 1 10.88.2.2
check overlay-ping-back reaches 2 10.88.1.2
check overlay-ping6 reaches 1 fd00:2::2
check overlay-from-node in_ns "${NODE[1]}" ping -q -c 1 -W 2 10.88.2.2
check overlay-tcp tcp_udp ''
check overlay-udp tcp_udp '-u -b 0'
check overlay-full-packet pings 1 10.88.2.2 -M do -s 1422
check overlay-too-big fails "100% packet loss" pings 1 10.88.2.2 -M do -s 1423
check overlay-mac-differs not [ "$(mac_of 1)" = "$(mac_of 2)" ]
check overlay-idempotent no_events 1

# A third node comes; the second moves, then goes.
registry 1 2 3
check overlay-third overlays 1 2 3
check overlay-third-ping reaches 1 10.88.3.2
check overlay-third-ping6 reaches 3 fd00:2::2
for n in 1 2 3; do snapshot $n >"$T/good.$n"; done
in_ns "${NODE[2]}" ip addr del 10.99.0.2/24 dev u
in_ns "${NODE[2]}" ip addr add 10.99.0.22/24 dev u
check overlay-address-lost fails "down: node node2: no interface has the address 10.99.0.2" overlay 2
registry 1 2=10.99.0.22 3
check overlay-moved overlays 1 2 3
check overlay-moved-fdb exits "dst 10.99.0.22 " fdb_of 1
check overlay-moved-fdb-old not exits "dst 10.99.0.2 " fdb_of 1
check overlay-moved-ping reaches 1 10.88.2.2
registry 1 3
check overlay-removed overlays 1 3
check overlay-removed-all not has 1 10.88.2.
check overlay-removed-six not has 1 fd00:2
check overlay-removed-fdb not has 1 10.99.0.22
check overlay-removed-rest reaches 1 10.88.3.2
in_ns "${NODE[2]}" ip addr del 10.99.0.22/24 dev u
in_ns "${NODE[2]}" ip addr add 10.99.0.2/24 dev u
registry 1 2 3
check overlay-back overlays 1 2 3
check overlay-back-same restored 1

# Damage is repaired, whatever it is.
m3=$(mac_of 3)
check repair-route breaks 1 ip route del 10.88.2.0/24
check repair-route-gone breaks 1 ip route add 10.77.0.0/16 dev $D
check repair-route-gw breaks 1 ip route replace 10.88.2.0/24 via 10.88.3.0 dev $D onlink
check repair-route-metric breaks 1 ip route add 10.88.2.0/24 via 10.88.3.0 dev $D onlink metric 7
check repair-route6 breaks 1 ip -6 route del fd00:2::/64
check repair-route6-more breaks 1 ip -6 route add fd00:7::/64 dev $D
check repair-neigh breaks 1 ip neigh del 10.88.2.0 dev $D
check repair-neigh-mac breaks 1 ip neigh replace 10.88.2.0 lladdr 02:00:00:00:00:01 dev $D nud permanent
check repair-neigh-more breaks 1 ip neigh add 10.88.9.9 lladdr 02:00:00:00:00:01 dev $D nud permanent
check repair-fdb breaks 1 bridge fdb del "$m3" dev $D dst 10.99.0.3
check repair-fdb-dst breaks 1 bridge fdb replace "$m3" dev $D dst 10.99.0.77 self permanent
check repair-fdb-more breaks 1 bridge fdb add 02:00:00:00:00:01 dev $D dst 10.99.0.77 self permanent
check repair-addr breaks 1 ip addr del 10.88.1.0/32 dev $D
check repair-addr-more breaks 1 ip addr add 10.88.1.9/32 dev $D
check repair-addr6 breaks 1 ip addr del fd00:1::/128 dev $D
check repair-down breaks 1 ip link set $D down
check repair-mtu breaks 1 ip link set $D mtu 1300
check repair-mac breaks 1 ip link set $D address 02:00:00:00:00:01
check repair-deleted in_ns "${NODE[1]}" ip link del $D
check repair-deleted-sync restored 1
check repair-ping reaches 1 10.88.3.2

# Another configuration.
check conf-vni exits "up mtu 1450" overlay 1 '{"vni":77,"port":4789}'
check conf-vni-is has 1 "vxlan id 77 local 10.99.0.1 dev u srcport 0 0 dstport 4789"
check conf-mtu exits "up mtu 1400" overlay 1 '{"mtu":1400}'
check conf-mtu-is has 1 "mtu 1400"
check conf-mtu-big fails "more than 1450, which u can carry" overlay 1 '{"mtu":1451}'
check conf-mtu-v6 fails "at least 1280 is needed" overlay 1 '{"mtu":1279}'
check conf-back restored 1
in_ns "${NODE[1]}" ip link set u mtu 9000
check underlay-mtu exits "up mtu 8950" overlay 1
in_ns "${NODE[1]}" ip link set u mtu 1500
check underlay-mtu-back restored 1
check conf-unknown fails "overlay.vnl is no known key" overlay 1 '{"vnl":1}'
check conf-type fails "overlay.type" overlay 1 '{"type":"geneve"}'
check conf-device fails "overlay.device" overlay 1 '{"device":"a-very-long-device-name"}'
check conf-vni-range fails "overlay.vni" overlay 1 '{"vni":16777216}'
check none exits "up mtu 1500" overlay 1 '{"type":"none"}'

# What belongs to others is left alone, and said.
in_ns "${NODE[1]}" ip link add other type bridge
check other-kind fails "no vxlan device" overlay 1 '{"device":"other"}'
check other-vni fails "set overlay.vni" overlay 1 '{"device":"podlane.2"}'
in_ns "${NODE[1]}" ip link set other up
in_ns "${NODE[1]}" ip route replace 10.88.2.0/24 dev other
check other-route fails "another interface is in the way" overlay 1
check other-route-up exits "up mtu" overlay 1
check other-route-rest reaches 1 10.88.3.2
in_ns "${NODE[1]}" ip link del other
check other-route-gone restored 1

# A registry that is no help.
registry 2 3
check no-self fails "down: node node1 is not in the registry" overlay 1
check no-self-keeps reaches 1 10.88.3.2
registry 1 2=10.88.3.77 3
check own-range fails "lies in a pod range of node node3" overlay 1
registry 1 2=fd99::2 3
check other-family fails "address of another family" overlay 1
check other-family-rest reaches 1 10.88.3.2
registry 1 2 3
in_ns "${NODE[1]}" ip link set u down
check underlay-down fails "down: u, which has this node's address, is down" overlay 1
in_ns "${NODE[1]}" ip link set u up
in_ns "${NODE[1]}" ip addr replace fd99::1/64 dev u nodad
check underlay-up-again restored 1

# IPv6 between the nodes.
registry 1=fd99::1 2=fd99::2 3=fd99::3
check six-up exits "up mtu 1430" overlays 1 2 3
check six-ping reaches 1 10.88.2.2
check six-ping6 reaches 1 fd00:3::2
check six-full-packet pings 1 10.88.2.2 -M do -s 1402

check many-nodes many 1000
registry 1
check alone overlay 1
check alone-nothing not has 1 10.99.0.2

check teardown teardown 1
check teardown-nothing nothing_left 1
check teardown-again teardown 1
for n in 2 3; do teardown $n; check "teardown-$n" gone $n; done
finish

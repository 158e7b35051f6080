#!/bin/bash
# tests/system/plugin_link.sh: the keys that concern the pod's links, and what
# neighbours see of them.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/plugin.bash"

one_node
ns_add && A=$PID
ns_add && B=$PID
ns_add && C=$PID
# has PID WORD LINK: ip -d link show says WORD of the link
has() { in_ns "$1" ip -d link show "$3" | grep -q -- "$2"; }
mac_of() { in_ns "$1" ip -j link show "$2" | jq -r '.[0].address'; }
port_of() { jq -r '.interfaces[1].name' "$T/o"; }
# again CID JQ: CHECK with the result in $T/o
again() { pl CHECK "$A" "$1" eth0 "${2:-.} | .prevResult = $(cat "$T/o")"; }
added() { pl ADD "$A" "$1" eth0 "${2:-.}" >"$T/o" || { cat "$T/o"; false; }; }

one_way() { added o "$1" && pl DEL "" o && clean; }

# Nobody takes a MAC for one that the kernel made up (NET_ADDR_SET is 3).
assigned() {
	added m && for l in "${NODE[1]} br0" "${NODE[1]} $(port_of)" "$A eth0"
	do
		in_ns "${l% *}" unshare -m bash -c "mount -t sysfs s /sys &&
			grep -qx 3 /sys/class/net/${l#* }/addr_assign_type" ||
			return
	done
}
check macs-are-set assigned
renamed() {
	host ip link set "$(port_of)" address 02:00:00:00:00:77 &&
		again m && reaches "$A" 10.77.0.1
}
check other-mac-of-port renamed
bridge_changed() {
	host ip link set br0 address 02:00:00:00:00:78 &&
		reaches "$A" 10.77.0.1 && again m
}
check other-mac-of-bridge bridge_changed
pinned() {
	local was
	was=$(mac_of "${NODE[1]}" br0)
	pl ADD "$B" m2 >/dev/null && pl DEL "$B" m2 && pl DEL "$A" m &&
		[ "$(mac_of "${NODE[1]}" br0)" = "$was" ]
}
check bridge-mac-stays pinned
no_ra() {
	in_ns "${NODE[1]}" cat /proc/sys/net/ipv6/conf/br0/accept_ra |
		grep -qx 0
}
check bridge-takes-no-routes no_ra

# Each key, what it sets, and that CHECK misses it.
hairpin() {
	added h '.hairpinMode = true' && has "${NODE[1]}" 'hairpin on' \
		"$(port_of)" && again h '.hairpinMode = true' &&
		host ip link set "$(port_of)" type bridge_slave hairpin off &&
		! again h '.hairpinMode = true'
}
check hairpin hairpin
pl DEL "$A" h
isolation() {
	added i '.portIsolation = true' && pl ADD "$B" i2 eth0 \
		'.portIsolation = true' >"$T/o2" && has "${NODE[1]}" \
		'isolated on' "$(port_of)" && again i '.portIsolation = true' &&
		! reaches "$A" "$(jq -r '.ips[0].address' "$T/o2" |
			cut -d/ -f1)" && reaches "$A" 10.77.0.1 &&
		host ip link set "$(port_of)" type bridge_slave isolated off &&
		! again i '.portIsolation = true'
}
check isolation isolation
pl DEL "$A" i
pl DEL "$B" i2
promisc() {
	added p '.promiscMode = true' && has "${NODE[1]}" PROMISC br0 &&
		again p '.promiscMode = true' &&
		host ip link set br0 promisc off &&
		! again p '.promiscMode = true'
}
check promisc promisc
pl DEL "$A" p
check hairpin-and-promisc code 7 pl ADD "$A" x eth0 \
	'.hairpinMode = true | .promiscMode = true'
bare='del(.ipam) | .isGateway = false | .disableContainerInterface = true'
down() {
	added d "$bare" && in_ns "$A" ip link show eth0 | grep -q 'state DOWN' &&
		jq -e '.interfaces[2].name == "eth0"' "$T/o" && again d "$bare"
}
check container-interface-down down
pl DEL "$A" d
check container-interface-ipam code 7 pl ADD "$A" x eth0 \
	'.disableContainerInterface = true'
check keys-are-clean clean

# VLANs. This is all that can be tested on a kernel that refuses them.
if host ip link add probe type bridge vlan_filtering 1 2>/dev/null; then
	host ip link del probe
	vlans() { host bridge -j vlan show dev "$1" | jq -c '[.[].vlans[] |
		[.vlan, .vlanEnd // .vlan, (.flags // [] | sort)]]'; }
	vlan() {
		added v '.vlan = 7 | .vlanTrunk = [{"minID":9,"maxID":11}] |
			.preserveDefaultVlan = false' &&
			[ "$(vlans "$(port_of)")" = \
			'[[7,7,["Egress Untagged","PVID"]],[9,11,[]]]' ] &&
			reaches "$A" 10.77.0.1 &&
			host ip addr show br0.7 | grep 10.77.0.1
	}
	check vlan vlan
	pl DEL "$A" v
	host ip link del br0.7
else
	skip vlan "this kernel has no VLANs of bridges"
	no_vlan() { # JQ
		code 100 pl ADD "$A" v eth0 "$1" && pl ADD "$A" v eth0 "$1" |
			jq -e '.msg | contains("VLAN_FILTERING")' && clean &&
			empty_pod "$A"
	}
	check vlan-refused no_vlan '.vlan = 7'
	check vlan-trunk-refused no_vlan '.vlanTrunk = [{"id":7}]'
fi
check vlan-zero one_way '.vlan = 0 | .vlanTrunk = []'

# An address that comes back on another MAC: B, C and the node reach it at
# once, although B and the node have just talked to the old one.
six='.ipam.ranges += [[{"subnet":"fd77::/64"}]]'
fixed="$six | .args.cni.ips = [\"10.77.0.50\", \"fd77::50\"]"
knows() { # IP MAC: that is what B has for it
	in_ns "$B" ip neigh show "$1" | grep -q "lladdr $2 "
}
moved() {
	local old new
	pl ADD "$B" b eth0 "$six" >/dev/null && added a "$fixed" || return
	old=$(mac_of "$A" eth0)
	reaches "$B" 10.77.0.50 && reaches "$B" fd77::50 &&
		knows 10.77.0.50 "$old" && knows fd77::50 "$old" &&
		host ping -qc1 -W2 10.77.0.50 && pl DEL "$A" a || return
	pl ADD "$C" c eth0 "$fixed" >/dev/null || return
	new=$(mac_of "$C" eth0)
	[ "$old" != "$new" ] && wait_for 2 knows 10.77.0.50 "$new" &&
		wait_for 2 knows fd77::50 "$new" && reaches "$B" 10.77.0.50 &&
		reaches "$B" fd77::50 && host ping -qc1 -W2 10.77.0.50
}
check moved-address moved
pl DEL "$C" c
pl DEL "$B" b

# Duplicate address detection, also where the bridge echoes the probe.
flags() { in_ns "$A" ip -6 addr show dev eth0; }
dad='.enabledad = true | .hairpinMode = true'
detected() {
	added a "$six | $dad" && ! flags | grep -E 'tentative|dadfailed|nodad' &&
		reaches "$A" fd77::1
}
check dad detected
pl DEL "$A" a
twice() {
	in_ns "$B" ip addr add fd77::50/64 dev eth0 nodad &&
		code 100 pl ADD "$A" a eth0 "$fixed | $dad"
}
pl ADD "$B" b eth0 "$six" >/dev/null
check dad-finds-duplicate twice
check dad-leaves-pod empty_pod "$A"
pl DEL "$B" b
# The link-local address is tentative until a thread of the kernel has seen it,
# also where nothing is to be detected.
undetected() {
	[ "$(in_ns "$A" cat /proc/sys/net/ipv6/conf/eth0/accept_dad)" = 0 ] &&
		! flags | grep -v 'scope link' | grep -E 'tentative|dadfailed'
}
immediate() { added a "$six" && undetected; }
check no-dad immediate
pl DEL "$A" a
echoed() {
	added a "$six | .hairpinMode = true" && undetected &&
		reaches "$A" fd77::1
}
check no-dad-hairpin echoed
pl DEL "$A" a
check addresses-are-clean clean

# Two networks on one container, deleted in either order.
net2='.name = "net2" | .bridge = "br2" | del(.ipam.routes) |
	.ipam.ranges = [[{"subnet":"10.79.0.0/24"}]]'
two() { # FIRST SECOND: as deleted
	added a && pl ADD "$A" a net1 "$net2" >"$T/o2" &&
		reaches "$A" 10.77.0.1 && reaches "$A" 10.79.0.1 || return
	if [ "$1" = 1 ]; then
		pl DEL "$A" a && reaches "$A" 10.79.0.1 &&
			pl DEL "$A" a net1 "$net2"
	else
		pl DEL "$A" a net1 "$net2" && reaches "$A" 10.77.0.1 &&
			pl DEL "$A" a
	fi && clean && empty_pod "$A"
}
check two-networks two 1 2
check two-networks-reverse two 2 1
same_if() { # the same name in the same container, on another network
	added a && code 100 pl ADD "$A" a eth0 "$net2" &&
		reaches "$A" 10.77.0.1 && again a &&
		pl DEL "$A" a eth0 "$net2" && again a
}
check same-interface-other-network same_if
pl DEL "$A" a
check networks-are-clean clean

# Another plugin changes the MAC, and says so in its result.
tune() {
	jq -c '.type = "tuning" | .mac = "02:00:00:00:00:88" |
		.prevResult = '"$(cat "$T/o")" | CNI_PLUGIN=/usr/lib/cni/tuning \
		cni 1 ADD "$A" a >"$T/t"
}
if [ -x /usr/lib/cni/tuning ]; then
	tuned() {
		added a && net | tune && again a
		[ $? = 1 ] && mv "$T/t" "$T/o" && again a
	}
	check mac-changed tuned
	pl DEL "$A" a eth0 ".prevResult = $(cat "$T/o")"
else
	skip mac-changed "the reference tuning plugin is not installed"
fi
check mac-is-clean clean
finish

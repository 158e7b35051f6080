#!/bin/bash
# tests/system/plugin_portmap.sh: ports of the node that lead into a pod, with
# real traffic; frames with a wrong MAC.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/plugin.bash"
. "$(dirname "$0")/nft.bash"

nodes_and_outside
fake_start
N=${NODE[1]}
ns_add && A=$PID
ns_add && B=$PID
serve "$A" 80
dual='.ipam.ranges += [[{"subnet":"fd77::/64"}]] |
	.ipam.routes += [{"dst":"::/0"}]'
# maps "HOST POD PROTO [IP]"...: a jq filter
maps() {
	local m
	for m in "$@"; do
		set -- $m
		printf '{"hostPort":%s,"containerPort":%s,"protocol":"%s"%s}\n' \
			"$1" "$2" "$3" "${4:+,\"hostIP\":\"$4\"}"
	done | jq -cs '"\(.)"' | jq -r '".runtimeConfig.portMappings = \(.)"'
}
ports=$(maps "8080 80 tcp" "8080 80 udp" "8081 80 TCP 192.0.2.1" \
	"8082 80 tcp fd02::1" "8083 80 tcp 127.0.0.1" "8084 80 tcp 0.0.0.0" \
	"8085 80 sctp")

# No mapping costs nothing.
for none in '.runtimeConfig.portMappings = []' '.runtimeConfig = null'; do
	check "none-${#none}" pl ADD "$A" a eth0 "$none"
	check "none-${#none}-no-rule" no_rules
	pl DEL "" a
done

check add pl ADD "$A" a eth0 "$dual | $ports"
RES=$(pl DEL "" a; pl ADD "$A" a eth0 "$dual | $ports")
pl ADD "$B" b eth0 "$dual" >"$T/b"
# Until the node's own address on a new bridge is good, it looks for nobody.
settled() { ! host ip -6 addr show dev br0 | grep -q tentative; }
wait_for 10 settled
for p in tcp udp; do
	check "outside-$p-4" seen_as 192.0.2.2 "$OUTSIDE" $p 192.0.2.1 8080
	check "outside-$p-6" seen_as fd02::2 "$OUTSIDE" $p fd02::1 8080
	check "node-$p-4" seen_as 192.0.2.1 "$N" $p 192.0.2.1 8080
	check "node-$p-6" seen_as fd02::1 "$N" $p fd02::1 8080
	check "localhost-$p" seen_as 10.77.0.1 "$N" $p 127.0.0.1 8080
	check "itself-$p-4" seen_as 10.77.0.1 "$A" $p 192.0.2.1 8080
	check "itself-$p-6" seen_as fd77::1 "$A" $p fd02::1 8080
	check "itself-by-gateway-$p" seen_as 10.77.0.1 "$A" $p 10.77.0.1 8080
	check "neighbour-$p-4" seen_as 10.77.0.1 "$B" $p 192.0.2.1 8080
	check "neighbour-$p-6" seen_as fd77::1 "$B" $p fd02::1 8080
done
check host-ip-4 seen_as 192.0.2.2 "$OUTSIDE" tcp 192.0.2.1 8081
check host-ip-6 seen_as fd02::2 "$OUTSIDE" tcp fd02::1 8082
check host-ip-localhost seen_as 10.77.0.1 "$N" tcp 127.0.0.1 8083
check host-ip-any seen_as 192.0.2.2 "$OUTSIDE" tcp 192.0.2.1 8084
refuses() { says 1 'Connection refused' ask_from "$@"; }
check host-ip-is-the-only-one refuses "$N" tcp 127.0.0.1 8081
check host-ip-localhost-is-not-outside refuses "$OUTSIDE" tcp 192.0.2.1 8083
check host-ip-family refuses "$OUTSIDE" tcp fd02::1 8084
check localhost-6-is-refused refuses "$N" tcp ::1 8080
check other-protocol refuses "$OUTSIDE" tcp 192.0.2.1 8085
a4=$(printf '%s' "$RES" | jq -r '.ips[0].address' | cut -d/ -f1)
sctp() { rules | grep -q "sctp . 8085 .*: $a4 . 80"; }
check sctp sctp
# Nobody but the node itself says 127.0.0.1; with route_localnet on, it is
# this rule and not the kernel that stands before what listens there.
martian() {
	in_ns "$B" ip route add 127.0.0.0/8 via 10.77.0.1 table 77 &&
		in_ns "$B" ip rule add to 127.0.0.1 table 77 pref 0 &&
		in_ns "$B" ip rule add table local pref 1 &&
		in_ns "$B" ip rule del pref 0 table local &&
		! ask_from "$B" udp 127.0.0.1 8000
}
check localnet-is-guarded martian
# Nor does anybody else seem to be the node.
host nft -f - <<'END'
table inet probe { chain input { type filter hook input priority 0;
	iifname "br0" ip saddr 127.0.0.2 counter; }; }
END
in_ns "$A" sh -c 'ip link set lo up
	echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet
	ip route add 10.77.0.1 dev eth0 src 127.0.0.2'
arrived() {
	in_ns "$A" bash -c 'for i in 1 2 3; do echo >/dev/udp/10.77.0.1/8000; done'
	rules | grep 'saddr 127.0.0.2 counter packets [1-9]'
}
check loopback-as-source-is-dropped eval '! arrived'
host nft flush chain inet podlane_ports martians
check loopback-as-source-else-arrives arrived
host nft delete table inet probe
in_ns "$A" ip route del 10.77.0.1

# CHECK.
pl DEL "" a
RES=$(pl ADD "$A" a eth0 "$dual | $ports")
prev() { pl CHECK "$A" a eth0 "$dual | $ports | .prevResult = $RES"; }
check check prev
bad_check() {
	host nft "$@" && code 104 prev
}
ports_table='inet podlane_ports'
check check-element bad_check delete element $ports_table port4 '{ tcp . 8080 }'
comment=$(rules | grep -o '"pl[^"]* net/a/eth0"' | head -1)
host nft add element $ports_table port4 \
	"{ tcp . 8080 comment $comment : $a4 . 81 }"
check check-other-port code 104 prev
again() {
	pl DEL "" a && RES=$(pl ADD "$A" a eth0 "$dual | $ports") && prev
}
again
check check-base-rule bad_check flush chain $ports_table hostports
again
localnet() { host sh -c "echo $1 >/proc/sys/net/ipv4/conf/br0/route_localnet"; }
localnet 0
check check-localnet code 104 prev
localnet 2
check check-again prev
tag=$(rules | grep -o 'pl[0-9a-v]* pl[0-9a-v]* net/a' | head -1 | cut -d' ' -f1)
check check-own-rules bad_check flush chain $ports_table "$tag"
again

# One port, two pods.
taken() {
	code 103 pl ADD "$B" c eth1 "$(maps "8080 80 tcp")" &&
		pl ADD "$B" c eth1 "$(maps "8080 80 tcp")" 2>&1 |
			grep 'hostPort 8080 (tcp) is taken by net/a/eth0'
}
check taken taken
# 10.0.0.17 is no protocol 17.
named() {
	local m
	m=$(maps "8099 80 tcp 10.0.0.17")
	pl ADD "$B" n1 eth1 "$m" >/dev/null && pl ADD "$B" n2 eth2 "$m" 2>&1 |
		grep 'hostPort 8099 (tcp) of 10.0.0.17 is taken by net/n1/eth1'
}
check taken-is-named named
pl DEL "" n1 eth1
check taken-leaves-pod eval '! in_ns "$B" ip link show eth1'
check taken-leaves-first seen_as 192.0.2.2 "$OUTSIDE" tcp 192.0.2.1 8080
check taken-other-protocol pl ADD "$B" c eth1 "$(maps "8080 80 sctp")"
check taken-del pl DEL "" c eth1
check other-stays seen_as 192.0.2.2 "$OUTSIDE" tcp 192.0.2.1 8080
check twice-in-one code 7 pl ADD "$B" c eth1 "$(maps "9 80 tcp" "9 81 tcp")"
check same-twice-is-one pl ADD "$B" c eth1 \
	"$(maps "9 80 tcp" "9 80 tcp 0.0.0.0")"
pl DEL "" c eth1

# Addresses as Go reads them; protocols without a name.
check mapped-and-unnamed pl ADD "$B" c eth1 \
	"$(maps "8099 80 tcp ::ffff:192.0.2.1") | .runtimeConfig.portMappings +=
	[{\"hostPort\":8098,\"containerPort\":80,\"protocol\":\"\"}]"
check mapped-and-unnamed-rules eval 'rules | grep "192.0.2.1 . tcp . 8099" &&
	rules | grep "tcp . 8098"'
pl DEL "" c eth1

# Every port that there is, by every protocol: three rules for each family.
# Sanitizers make a list of so many too slow.
last=65535
sanitized && last=2047
all_ports() {
	local p
	for p in tcp udp sctp; do
		jq -cn --arg p $p --argjson last $last '[range(1; $last + 1) | {hostPort: .,
			containerPort: ., protocol: $p, hostIP: "192.0.2.3"}]'
	done | jq -cs 'add' >"$T/all_ports"
	printf '%s' "$NET" | jq -c --slurpfile m "$T/all_ports" \
		'.runtimeConfig.portMappings = $m[0]' |
		cni 1 ADD "$B" c eth1 >"$T/o" || { cat "$T/o"; return 1; }
	printf '%s' "$NET" | jq -c --slurpfile m "$T/all_ports" --slurpfile r \
		"$T/o" '.runtimeConfig.portMappings = $m[0] |
		.prevResult = $r[0]' | cni 1 CHECK "$B" c eth1
}
check all-ports all_ports
check all-ports-few-rules eval \
	'[ "$(rules | grep -c "1-$last.*masq")" = 3 ]'
check all-ports-del pl DEL "" c eth1
check all-ports-others-stay seen_as 192.0.2.2 "$OUTSIDE" tcp 192.0.2.1 8080

# The end.
check del pl DEL "" a
check del-again pl DEL "" a
check no-table no_rules
is_closed() { grep -qx 0 <(host cat /proc/sys/net/ipv4/conf/br0/route_localnet); }
check localnet-is-closed is_closed
check closed refuses "$OUTSIDE" tcp 192.0.2.1 8080
# Rules that somebody else deleted guard it no more: the next ADD makes them
# again, and the last DEL closes it, whoever has deleted them before.
guard() { rules | grep -A3 'set localnet' | grep -q '"br0"'; }
pl ADD "$A" a eth0 "$ports" >/dev/null
host nft flush ruleset
pl ADD "$B" b1 eth1 "$(maps "9 80 tcp")" >/dev/null
check flushed-is-guarded-again guard
pl DEL "" b1 eth1
check flushed-closed-with-the-last is_closed
pl DEL "" a
pl ADD "$A" a eth0 "$ports" >/dev/null
host nft flush ruleset
pl DEL "" a
check flushed-closed-without-rules is_closed
pl ADD "$A" a eth0 "$ports" >/dev/null
host nft flush ruleset
rm -rf "$T/state"/net/a:eth0
pl GC "" "" "" '.cniVersion = "1.1.0" | ."cni.dev/valid-attachments" = [
	{"containerID":"b","ifname":"eth0"}]'
check flushed-closed-by-gc is_closed
pl DEL "" a
# The way to a pod by a router is none: it would open the node's uplink.
check no-uplink eval 'host ip route add default via 192.0.2.2 &&
	pl ADD "$A" a eth0 "$ports | del(.isGateway) | .bridge = \"br3\" |
		.ipam.ranges = [[{\"subnet\":\"10.80.0.0/24\"}]]" >/dev/null &&
	host cat /proc/sys/net/ipv4/conf/out/route_localnet | grep -qx 0'
pl DEL "" a
host ip route del default
host ip link del br3
# Somebody else's setting is left alone.
localnet 1
pl ADD "$A" a eth0 "$ports" >/dev/null
pl DEL "" a
check localnet-of-others-stays eval '! is_closed'
localnet 0

# snat, masqAll, promiscMode.
plain=$(maps "8080 80 tcp" "8080 80 udp" "8081 80 tcp 192.0.2.1")
RES=$(pl ADD "$A" a eth0 "$plain | .snat = false")
check no-snat-outside seen_as 192.0.2.2 "$OUTSIDE" tcp 192.0.2.1 8080
check no-snat-localnet is_closed
check no-snat-rules eval '! rules | grep masquerade'
# Nothing could come back from the pod, so nothing is sent there.
check no-snat-localhost refuses "$N" tcp 127.0.0.1 8080
check no-snat-node seen_as 192.0.2.1 "$N" tcp 192.0.2.1 8080
check no-snat-localhost-of-another eval 'pl ADD "$B" l eth1 \
	"$(maps "8080 8000 tcp 127.0.0.1")" >/dev/null && serve "$B" 8000 &&
	seen_as 10.77.0.1 "$N" tcp 127.0.0.1 8080; rc=$?
	kill "$SERVER"; pl DEL "" l eth1 && [ $rc = 0 ]'
no_snat_check() {
	pl CHECK "$A" a eth0 "$plain | .snat = false | .prevResult = $RES"
}
check no-snat-check no_snat_check
check no-snat-check-finds eval 'host nft delete element $ports_table nolocal \
	"{ tcp . 8080 }" && code 104 no_snat_check'
pl DEL "" a
check no-snat-no-table no_rules
check no-snat-hostip code 7 pl ADD "$A" a eth0 "$ports | .snat = false"
check no-snat-hostip-says eval 'pl ADD "$A" a eth0 "$ports | .snat = false" |
	grep -q "hostIP 127.0.0.1: without snat"'
check hostip-loopback-6 code 7 pl ADD "$A" a eth0 "$(maps "80 80 tcp ::1")"
check refused-clean no_rules
pl ADD "$A" a eth0 "$ports | .masqAll = true" >/dev/null
check masq-all seen_as 10.77.0.1 "$OUTSIDE" tcp 192.0.2.1 8080
pl DEL "" a
check snat-no-table no_rules

pl DEL "" b

# A sender of UDP that does not stop gets through to the next pod.
serve "$B" 80
stream() { # ADD of that pod while packets come from one port of a client
	local old=$1 new=$2 c
	pl ADD "$old" u1 eth0 "$(maps "8090 80 udp")" >/dev/null || return
	nsenter --net=/proc/"$OUTSIDE"/ns/net "$O/tests/system/whoami" \
		stream 192.0.2.1 8090 >"$T/stream" &
	c=$!
	PIDS+=("$c")
	wait_for 5 grep -q . "$T/stream" && pl DEL "" u1 &&
		pl ADD "$new" u2 eth0 "$(maps "8090 80 udp")" >/dev/null &&
		: >"$T/stream" && wait_for 5 grep -q . "$T/stream"
	local rc=$?
	kill -KILL "$c"
	wait "$c" 2>/dev/null
	pl DEL "" u2
	return $rc
}
check udp-stream stream "$A" "$B"
# What is known of it goes with the mapping, too: the address may soon be
# another pod's. What the node forwards to the same port of others stays.
known() { host grep -q "^[^ ]* *[0-9]* *udp .*$1" /proc/net/nf_conntrack; }
RES=$(pl ADD "$A" u1 eth0 "$(maps "8090 80 udp" "8091 80 udp 192.0.2.1")")
a4=$(printf '%s' "$RES" | jq -r '.ips[0].address' | cut -d/ -f1)
pl ADD "$B" u2 >/dev/null
for port in 8090 8091; do
	check "udp-$port" seen_as 192.0.2.2 "$OUTSIDE" udp 192.0.2.1 $port
	in_ns "$B" bash -c "echo >/dev/udp/192.0.2.2/$port"
	check "udp-$port-known" eval 'known "dport=$port.*src=$a4" &&
		known "dst=192.0.2.2 .*dport=$port"'
done
pl ADD "$B" u3 eth1 "$(maps "8099 80 udp")" >/dev/null
pl DEL "" u1
for port in 8090 8091; do
	check "udp-$port-forgotten" eval '! known "dport=$port.*src=$a4"'
	check "udp-$port-forwarded-stays" known "dst=192.0.2.2 .*dport=$port"
done
pl DEL "" u3 eth1
pl DEL "" u2

# Behind the reference bridge plugin.
ref='{"cniVersion":"1.0.0","name":"net","type":"bridge","bridge":"ref0",
 "isGateway":true,"hairpinMode":true,"ipam":{"type":"host-local",
 "dataDir":"'$T'/ipam","ranges":[[{"subnet":"10.78.0.0/24"}]],
 "routes":[{"dst":"0.0.0.0/0"}]}}'
if [ -x /usr/lib/cni/bridge ]; then
	prev=$(printf '%s' "$ref" | CNI_PLUGIN=/usr/lib/cni/bridge \
		cni 1 ADD "$A" c)
	behind="$(maps "8080 80 tcp") | .prevResult = $prev"
	check chained pl ADD "$A" c eth0 "$behind | .ipMasq = true"
	check chained-outside seen_as 192.0.2.2 "$OUTSIDE" tcp 192.0.2.1 8080
	check chained-itself seen_as 10.78.0.1 "$A" tcp 192.0.2.1 8080
	check chained-localhost seen_as 10.78.0.1 "$N" tcp 127.0.0.1 8080
	check chained-leaves-the-rest eval '! rules | grep podlane_masq'
	check chained-check pl CHECK "$A" c eth0 "$behind"
	check chained-taken code 103 pl ADD "$B" d eth0 "$(maps "8080 80 tcp")"
	check chained-taken-without-state code 103 pl ADD "$B" d eth0 \
		"$(maps "8080 80 tcp") | .stateDir = \"$T/state2\""
	check chained-is-not-robbed seen_as 192.0.2.2 "$OUTSIDE" tcp \
		192.0.2.1 8080
	check chained-del pl DEL "" c eth0 "$behind"
	printf '%s' "$ref" | CNI_PLUGIN=/usr/lib/cni/bridge cni 1 DEL "$A" c
	check chained-clean no_rules
else
	skip chained "the reference bridge plugin is not installed"
fi

# macspoofchk.
RES=$(pl ADD "$A" m eth0 '.macspoofchk = true')
check mac-right seen_as \
	"$(printf '%s' "$RES" | jq -r '.ips[0].address' | cut -d/ -f1)" \
	"$A" tcp 10.77.0.1 8000
spoof='.macspoofchk = true'
check mac-check pl CHECK "$A" m eth0 "$spoof | .prevResult = $RES"
in_ns "$A" ip link set eth0 address 02:00:00:00:00:77
in_ns "$A" ip route replace default via 10.77.0.1
check mac-wrong eval '! ask_from "$A" tcp 10.77.0.1 8000'
check mac-del pl DEL "" m
check mac-no-table no_rules
check clean clean
finish

#!/bin/bash
# tests/system/plugin_bandwidth.sh: limits of a pod's bandwidth, as the
# reference bandwidth plugin has them.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/plugin.bash"

one_node
ns_add && A=$PID
if ! host ip link add probe type ifb 2>/dev/null; then
	skip bandwidth "this kernel has no ifb devices"
	finish
fi
host ip link del probe
rates() { # INGRESS EGRESS: runtimeConfig for them, in bits
	echo ".runtimeConfig.bandwidth = {\"ingressRate\":$1,
		\"ingressBurst\":8000000,\"egressRate\":$2,
		\"egressBurst\":8000000}"
}
both=$(rates 80000000 40000000)
added() { pl ADD "$A" a eth0 "$1" >"$T/o" || { cat "$T/o"; false; }; }
again() { pl CHECK "$A" a eth0 "$1 | .prevResult = $(cat "$T/o")"; }
port() { jq -r '.interfaces[1].name' "$T/o"; }
ifb() { jq -r '.interfaces[3].name' "$T/o"; }
# bucket LINK JQ: the token bucket is so; rate and burst are in bytes
bucket() {
	host tc -s -j qdisc show dev "$1" | jq -e ".[] |
		select(.kind == \"tbf\" and .root) | $2" ||
		{ host tc -s qdisc show; false; }
}

limits() {
	added "$both" && bucket "$(port)" '.options.rate == 10000000' &&
		bucket "$(ifb)" '.options.rate == 5000000 and
			.options.lat <= 25000 and .options.lat > 24000' &&
		jq -e '(.interfaces | length) == 4 and .ips[0].interface == 2' \
			"$T/o"
}
check limits limits
passes() {
	in_ns "$A" ping -qc3 -i0.01 -s 1400 10.77.0.1 &&
		bucket "$(port)" '.bytes >= 4200' &&
		bucket "$(ifb)" '.bytes >= 4200'
}
check traffic-passes-both passes
check check again "$both"
check check-other-rate eval '! again "$(rates 80000000 48000000)"'
missing() { # COMMAND...: CHECK fails after it
	"$@" || return
	! again "$both"
}
check check-egress missing host tc qdisc del dev "$(ifb)" root
pl DEL "$A" a
added "$both"
check check-redirect missing host tc qdisc del dev "$(port)" ingress
pl DEL "$A" a
added "$both"
check check-ingress missing host tc qdisc del dev "$(port)" root
pl DEL "$A" a
added "$both"
check check-ifb missing host ip link del "$(ifb)"
check del-without-ifb pl DEL "$A" a
check clean clean

one_way() { # JQ LINKS: so many ifb devices; ADD and DEL
	added "$1" && [ "$(host ip -o link show type ifb | wc -l)" = "$2" ] &&
		reaches "$A" 10.77.0.1 && again "$1" && pl DEL "" a && clean
}
check ingress-only one_way '.runtimeConfig.bandwidth =
	{"ingressRate":8000000,"ingressBurst":800000}' 0
check egress-only one_way '.runtimeConfig.bandwidth =
	{"egressRate":8000000,"egressBurst":800000}' 1
check zeros one_way "$(rates 0 0 | sed 's/8000000/0/g')" 0
check in-configuration one_way '.egressRate = 8000000 |
	.egressBurst = 800000' 1
runtime_first() {
	added ".egressRate = 8000000 | .egressBurst = 8000 | $both" &&
		bucket "$(ifb)" '.options.rate == 5000000' && pl DEL "" a
}
check runtime-before-configuration runtime_first
# What containerd sets as burst; a kernel that took it as a time would overflow.
slow() {
	added '.runtimeConfig.bandwidth = {"egressRate":1000000,
		"egressBurst":4294967295}' &&
		bucket "$(ifb)" '.options.rate == 125000' &&
		reaches "$A" 10.77.0.1 && pl DEL "" a
}
check slow-rate-large-burst slow
fast() {
	added '.runtimeConfig.bandwidth = {"ingressRate":100000000000,
		"ingressBurst":4294967295}' &&
		bucket "$(port)" '.options.rate == 12500000000' &&
		again '.runtimeConfig.bandwidth = {"ingressRate":100000000000,
			"ingressBurst":4294967295}' && pl DEL "" a
}
check fast-rate fast
# A burst below one packet would let no full packet pass, ever.
small() {
	added '.runtimeConfig.bandwidth = {"egressRate":8000000,
		"egressBurst":8}' &&
		in_ns "$A" ping -qc1 -W3 -s 1472 -M do 10.77.0.1 && pl DEL "" a
}
check burst-below-a-packet small

refused() { # NAME BANDWIDTH
	check "refused-$1" code 7 pl ADD "$A" a eth0 \
		".runtimeConfig.bandwidth = $2"
}
refused rate-alone '{"ingressRate":8000}'
refused burst-alone '{"egressBurst":8000}'
refused negative '{"ingressRate":-1,"ingressBurst":8}'
refused huge-burst '{"ingressRate":8000,"ingressBurst":34359738368}'
check refused-chained code 2 pl ADD "$A" a eth0 \
	"$both | .prevResult = {\"ips\":[]}"
check refused-clean clean

# Nothing of it stays, whatever went wrong.
check add-fails code 100 pl ADD "$A" a eth0 \
	"$both | .ipam.routes = [{\"dst\":\"10.9.0.0/16\",\"gw\":\"192.0.2.1\"}]"
check add-fails-clean clean
check add-fails-pod empty_pod "$A"
added "$both"
rm -f "$(records)"
check del-without-record pl DEL "" a
check del-without-record-clean clean
added "$both"
check del-without-keys pl DEL "" a
check del-without-keys-clean clean
added "$both"
check gc pl GC "" "" "" '.cniVersion = "1.1.0" |
	."cni.dev/valid-attachments" = []'
check gc-clean clean
taken() {
	added "$both" && pl DEL "" a && host ip link add "$(ifb)" type ifb &&
		code 100 pl ADD "$A" a eth0 "$both"
}
check ifb-left-by-others taken
check ifb-left-clean clean
finish

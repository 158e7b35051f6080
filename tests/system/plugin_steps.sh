#!/bin/bash
# tests/system/plugin_steps.sh: ADD and DEL killed at each of their system
# calls; then DEL, GC or another ADD leaves nothing and finds nothing double.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/plugin.bash"

# A search for leaks is no use to a program that is traced, and fails it.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
one_node
ns_add && A=$PID
ns_add && B=$PID
# All that makes something: addresses, a bridge, a pair, rules, an ifb device.
net '.ipam.ranges += [[{"subnet":"fd77::/64"}]] | .ipMasq = true |
	.macspoofchk = true | .runtimeConfig.portMappings = [
	{"hostPort":8080,"containerPort":80},
	{"hostPort":8081,"containerPort":80,"hostIP":"127.0.0.1"},
	{"hostPort":8080,"containerPort":80,"protocol":"udp"}] |
	.runtimeConfig.bandwidth = {"ingressRate":8000000,
	"ingressBurst":800000,"egressRate":8000000,"egressBurst":800000}' \
	>"$T/conf"
net '.cniVersion = "1.1.0" | ."cni.dev/valid-attachments" = []' >"$T/gc"
if host ip link add probe type ifb 2>/dev/null; then
	host ip link del probe
else
	skip ifb "this kernel has no ifb devices"
	jq -c 'del(.runtimeConfig.bandwidth)' "$T/conf" >"$T/c" && mv "$T/c" "$T/conf"
fi
run() { # COMMAND PID CID [PROGRAM...]
	in_ns "${NODE[1]}" env CNI_COMMAND="$1" CNI_CONTAINERID="$3" \
		CNI_NETNS="${2:+/proc/$2/ns/net}" CNI_IFNAME=eth0 \
		CNI_PATH="$O/ipam" "${@:4}" "$O/plugin/podlane"
}
again() { run "$@" <"$T/conf" >"$T/o" 2>"$T/e" || { cat "$T/o" "$T/e"; false; }; }
gc() { run GC "" x <"$T/gc" || { cat "$T/e"; false; }; }
nothing() {
	clean && empty_pod "$A" && empty_pod "$B" &&
		[ -z "$(host nft list ruleset)" ] && ! host cat \
		/proc/sys/net/ipv4/conf/br0/route_localnet 2>&1 | grep -v 0
}
# What comes after the death of ADD: DEL, GC, or ADD of it and of another pod.
after_add() {
	case $1 in
	0) again DEL "" k;;
	1) gc;;
	2) sed 's/"hostPort":80/"hostPort":90/g' "$T/conf" |
		run ADD "$B" other >"$T/o" 2>"$T/e" && reaches "$B" 10.77.0.1 || return
	   run ADD "$A" k <"$T/conf" >"$T/o" 2>"$T/e" &&
		reaches "$A" 10.77.0.1 || grep -q '"code":	103' "$T/o" ||
		{ cat "$T/o"; return 1; }
	   again DEL "" k && again DEL "" other;;
	esac
}
# The death of DEL: DEL again, GC, or an ADD, which DEL had not got around to
# allow if the record is still there.
after_del() {
	case $1 in
	0) again DEL "" k;;
	1) gc;;
	2) run ADD "$A" k <"$T/conf" >"$T/o" 2>"$T/e" ||
		grep -q '"code":	103' "$T/o" || { cat "$T/o"; return 1; }
	   again DEL "" k;;
	esac
}
steps() { # COMMAND FIRST-OF-EACH
	local n rc
	for n in $(seq 2000); do
		[ "$1" = ADD ] || again ADD "$A" k || return
		run "$1" "$A" k "$O/tests/system/kill_at" "$n" <"$T/conf" \
			>"$T/o" 2>"$T/e"
		rc=$?
		[ $rc = 99 ] || break
		"$2" $((n % 3)) && nothing && continue
		echo "killed at system call $n of $1"
		return 1
	done
	echo "ended with $rc at $n"
	[ $rc = 0 ] && [ "$n" -gt 50 ] && again DEL "" k && nothing
}
check add-killed-at-each-call steps ADD after_add
check del-killed-at-each-call steps DEL after_del
finish

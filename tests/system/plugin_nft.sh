#!/bin/bash
# tests/system/plugin_nft.sh: ipMasq by nftables, with real traffic.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/plugin.bash"
. "$(dirname "$0")/nft.bash"

nodes_and_outside
fake_start
dual='.ipam.ranges += [[{"subnet":"fd77::/64"}]] |
	.ipam.routes += [{"dst":"::/0"}]'
masq="$dual | .ipMasq = true"
ns_add && A=$PID
ns_add && B=$PID
serve "$B" 8000

pl ADD "$A" plain eth0 "$dual" >/dev/null
check no-masq-no-rules no_rules
refused() { ! ask_from "$A" tcp 192.0.2.2 8000; }
check no-masq-no-answer refused
pl DEL "" plain eth0 "$dual"

for backend in '' nftables iptables; do
	pl ADD "$A" a eth0 "$masq | .ipMasqBackend = \"$backend\"" >"$T/a"
	check "masq-tcp4${backend:+-$backend}" \
		seen_as 192.0.2.1 "$A" tcp 192.0.2.2 8000
	pl DEL "" a
	check "masq-clean${backend:+-$backend}" no_rules
done
pl ADD "$A" a eth0 "$masq" >"$T/a"
pl ADD "$B" b eth0 "$masq" >"$T/b"
a4=$(address 0 "$T/a") a6=$(address 1 "$T/a")
b4=$(address 0 "$T/b") b6=$(address 1 "$T/b")
check masq-udp4 seen_as 192.0.2.1 "$A" udp 192.0.2.2 8000
check masq-tcp6 seen_as fd02::1 "$A" tcp fd02::2 8000
check masq-udp6 seen_as fd02::1 "$A" udp fd02::2 8000
check own-subnet-is-not-masqueraded seen_as "$a4" "$A" tcp "$b4" 8000
check own-subnet6-is-not-masqueraded seen_as "$a6" "$A" tcp "$b6" 8000
check gateway-sees-the-pod seen_as "$a4" "$A" tcp 10.77.0.1 8000

# Fault 1: no namespace, no prevResult, not even the configuration.
check masq-del-without-namespace pl DEL "" a eth0 'del(.ipMasq)'
gone() { ! rules | grep -qF -e "$a4" -e "$a6"; }
check masq-del-leaves-no-rule gone
check masq-other-stays seen_as 192.0.2.1 "$B" tcp 192.0.2.2 8000
check masq-last-del pl DEL "" b
check masq-no-table no_rules
check masq-clean clean
finish

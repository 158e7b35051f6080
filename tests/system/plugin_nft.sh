#!/bin/bash
# tests/system/plugin_nft.sh: ipMasq with real traffic; rules are found again,
# whatever was lost, and nobody else's are touched.
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
serve "$A" 8000
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

# From here on, somebody else has rules too.
host nft -f - <<'END'
table inet other {
	map m { type ipv4_addr : verdict; elements = { 10.77.0.2 : accept }; }
	chain pl0000000000000 { ip saddr 10.77.0.2 counter; }
}
END
OTHERS=$(rules)
only_others() { diff <(echo "$OTHERS") <(rules); }
all="$masq | .macspoofchk = true | .runtimeConfig.portMappings = [
	{\"hostPort\":8080,\"containerPort\":8000,\"protocol\":\"tcp\"},
	{\"hostPort\":8080,\"containerPort\":8000,\"protocol\":\"udp\"},
	{\"hostPort\":8081,\"containerPort\":8000,\"hostIP\":\"192.0.2.1\"}]"
RES=$(pl ADD "$A" a eth0 "$all")
prev() { # [RESULT [ID [JQ]]]
	pl CHECK "$A" "${2:-a}" eth0 "$all | ${3:-.} |
		.prevResult = ${1:-$RES}"
}
check all-check prev
check all-works seen_as 192.0.2.1 "$A" tcp 192.0.2.2 8000
check check-base eval 'host nft flush chain inet podlane_masq postrouting &&
	code 104 prev'
pl ADD "$B" b eth0 "$masq" >/dev/null
check next-add-repairs prev
# One rule in the place of another, one more, one that never matches.
pl DEL "" b
found() { host nft "$@" && code 104 prev; }
spoiled() { # NAME NFT...: a change that CHECK finds and the next ADD mends
	local name=$1
	shift
	check "check-$name" found "$@"
	pl ADD "$B" b eth0 "$all | .runtimeConfig.portMappings = [{
		\"hostPort\":7,\"containerPort\":7}]" >/dev/null
	check "check-$name-mended" prev
	pl DEL "" b
}
handle() { host nft -a list chain $1 | sed -n "s/.*$2.*# handle //p" | head -1; }
own=$(rules | grep -o 'pl[0-9a-v]* pl[0-9a-v]* net/a' | head -1 | cut -d' ' -f1)
spoiled replaced replace rule inet podlane_masq postrouting handle \
	"$(handle 'inet podlane_masq postrouting' @from4)" ip daddr vmap @from4
spoiled one-more insert rule inet podlane_ports hostports accept
dormant() { host nft add table inet "podlane_$1" '{ flags dormant; }'; }
spoiled dormant add table inet podlane_masq '{ flags dormant; }'
check check-dormant-says eval 'dormant masq &&
	prev | grep -q "podlane_masq is dormant.*nft add table inet"'
check dormant-nft-wakes eval 'host nft add table inet podlane_masq && prev'
# Nobody else's is touched by CHECK, and ADD, DEL and GC read all of them.
check dormant-clash eval 'dormant ports && dormant masq &&
	code 103 pl ADD "$B" b eth0 "$all" && prev'
check dormant-other-table eval 'pl ADD "$B" b eth0 "$masq" >"$T/b" &&
	dormant ports && pl CHECK "$B" b eth0 "$masq |
		.prevResult = $(cat "$T/b")" && dormant masq && pl DEL "" b'
check dormant-del eval 'dormant masq && dormant ports && pl DEL "" a &&
	only_others'
RES=$(pl ADD "$A" a eth0 "$all")
own=$(rules | grep -o 'pl[0-9a-v]* pl[0-9a-v]* net/a' | head -1 | cut -d' ' -f1)
spoiled guard flush chain inet podlane_ports martians
spoiled mac flush chain bridge podlane_mac prerouting
spoiled order replace rule bridge podlane_mac prerouting handle \
	"$(handle 'bridge podlane_mac prerouting' guarded)" iifname @guarded \
	iifname . ether saddr @macs drop
check check-own-rule-replaced eval 'host nft replace rule inet podlane_masq \
	$own handle "$(handle "inet podlane_masq $own" 10.77)" accept &&
	code 104 prev'
check check-set-gone eval 'host nft delete element bridge podlane_mac guarded \
	"{ $own }" && code 104 prev'
pl DEL "" a
RES=$(pl ADD "$A" a eth0 "$all")
check check-localnet-element eval 'host nft flush set inet podlane_ports \
	localnet && code 104 prev'
pl ADD "$B" b eth0 "$masq" >/dev/null
from() { host nft "$1" element inet podlane_masq from6 "{ $(address 1 \
	<(echo "$RES")) $2 }"; }
check check-no-element eval 'from delete "" && code 104 prev'
check del-with-a-hole pl DEL "" a
pl DEL "" b
check all-del only_others

# Lost state.
gc() { pl GC "" "" "" ".cniVersion = \"1.1.0\" | $1"; }
valid='."cni.dev/valid-attachments"'
lose() {
	pl ADD "$A" a eth0 "$all" >/dev/null && pl ADD "$B" b eth0 "$masq" \
		>/dev/null && rm -rf "$T/state"
}
one_left() { rules | grep -q 'net/b/eth0"' && ! rules | grep -q 'net/a/eth0"'; }
check lost lose
check lost-gc gc "$valid = [{\"containerID\":\"b\",\"ifname\":\"eth0\"}]"
check lost-gc-keeps-valid one_left
check lost-gc-other-network gc ".name = \"net2\" | $valid = []"
check lost-gc-other-network-keeps one_left
check lost-gc-null gc "$valid = null"
check lost-gc-all only_others
in_ns "$A" ip link del eth0
in_ns "$B" ip link del eth0
check lost-again lose
check lost-del pl DEL "" a eth0 'del(.ipMasq)'
check lost-del-deletes one_left
check lost-add pl ADD "$A" a eth0 "$all"
pl DEL "" a
pl DEL "" b
check lost-clean only_others
for size in 0 5 200; do
	pl ADD "$A" a eth0 "$all" >/dev/null
	truncate -s $size "$(records)"
	check "record-cut-to-$size" pl DEL "" a
	check "record-cut-to-$size-rules" only_others
done

# Others of nftables' users, who know nothing of us.
flushed() { # while there are more, and again when there are none
	pl ADD "$A" a eth0 "$all" >"$T/a" && pl ADD "$B" b eth0 "$masq" \
		>/dev/null && host nft "$1" && pl DEL "" a && pl DEL "" b &&
		only_others
}
for what in "delete table inet podlane_masq" "flush table inet podlane_ports" \
	"flush map inet podlane_masq from4" "flush set bridge podlane_mac macs" \
	"delete table inet podlane_ports"; do
	check "others-${what// /-}" flushed "$what"
done
# They delete while DEL is between reading and deleting.
nsenter --net=/proc/"${NODE[1]}"/ns/net timeout 120 bash -c 'while :; do
	nft delete table inet podlane_masq
	nft delete table inet podlane_ports
done' >/dev/null 2>&1 &
DELETER=$!
PIDS+=("$DELETER")
disown "$DELETER"
raced() {
	local i
	for i in $(seq 25); do
		pl ADD "$A" a eth0 "$all" >"$T/o" && pl DEL "" a && continue
		cat "$T/o"
		return 1
	done
}
check others-delete-at-any-moment raced
kill "$DELETER"
wait_for 5 is_gone "$DELETER"
pl DEL "" a
check others-clean eval 'only_others && clean'

# Two networks of one container, deleted in either order.
second="$masq | .name = \"net2\" | .bridge = \"br2\" |
	.ipam.ranges = [[{\"subnet\":\"10.79.0.0/24\"}]] | .ipam.routes = [] |
	.runtimeConfig.portMappings = [{\"hostPort\":8090,\"containerPort\":8000}]"
two() {
	pl ADD "$A" a eth0 "$all" >"$T/a" && pl ADD "$A" a eth1 "$second" \
		>"$T/a2"
}
first_works() { seen_as 192.0.2.2 "$OUTSIDE" tcp 192.0.2.1 8080; }
second_works() { seen_as 10.79.0.1 "${NODE[1]}" tcp 127.0.0.1 8090; }
check two two
check two-work eval 'first_works && second_works'
check two-del-first eval 'pl DEL "" a && second_works && ! first_works'
check two-del-second eval 'pl DEL "" a eth1 "$second" && only_others'
check two-again two
check two-del-the-other eval 'pl DEL "" a eth1 "$second" && first_works'
check two-last eval 'pl DEL "" a && only_others && clean'
host ip link del br2

# A pod that went away without DEL gives its port to the next, and a late DEL
# does not touch that one, even where it has the same address.
dies() {
	ns_add
	pl ADD "$PID" old eth0 "$all | .args.cni.ips = [\"10.77.0.200\"]" \
		>/dev/null || return
	kill -KILL "$PID"
	wait_for 10 pairs
}
heir() { pl ADD "$A" new eth0 "$all | $1" >"$T/new"; }
inherits() {
	seen_as 192.0.2.2 "$OUTSIDE" tcp 192.0.2.1 8080 &&
		seen_as 192.0.2.1 "$A" tcp 192.0.2.2 8000
}
same='.args.cni.ips = ["10.77.0.200"] | .ipam.dataDir = "'$T'/ipam2"'
for how in . "$same"; do
	name=dead
	[ "$how" = . ] || name=same-address
	dies
	check "$name-heir" heir "$how"
	check "$name-heir-works" inherits
	check "$name-late-del" pl DEL "" old
	check "$name-late-del-spares-heir" inherits
	check "$name-heir-check" prev "$(cat "$T/new")" new "$how"
	pl DEL "" new eth0 "$how"
	check "$name-clean" only_others
done
# Only what is in the way is taken over: one that lives keeps its port.
check alive eval 'pl ADD "$A" a eth0 "$all" >/dev/null && rm -rf "$T/state" &&
	code 103 pl ADD "$B" b eth0 "$all"'
pl DEL "" a

# Names that nft would take for something else.
odd='"x;}#*$(a)'
check odd-name eval 'pl ADD "$A" a "${odd:0:15}" "$all" >/dev/null'
check odd-name-del pl DEL "" a "${odd:0:15}"
long=$(printf 'c%.0s' {1..180})
check long-name eval 'pl ADD "$A" "$long" eth0 "$all" >/dev/null'
check long-name-gc gc "$valid = null"
check odd-clean only_others

# Many at once.
crowd=()
for i in $(seq 20); do
	ns_add
	crowd+=("$PID")
done
each() { # COMMAND: with $p, a pod, and $i, its number, for all at once
	local jobs=() p i rc=0
	for i in $(seq 20); do
		p=${crowd[i - 1]}
		eval "$1" >"$T/each.$i" 2>&1 &
		jobs+=("$!")
	done
	for i in $(seq 20); do
		wait "${jobs[i - 1]}" || { rc=1; cat "$T/each.$i"; }
	done
	return $rc
}
check many each 'pl ADD "$p" "p$i" eth0 "$masq | .runtimeConfig.portMappings =
	[{\"hostPort\":$((9000 + i)),\"containerPort\":80}]"'
many_there() { [ "$(rules | grep -c "tcp . 90[0-9][0-9] comment")" = 40 ]; }
check many-there many_there
check many-work seen_as 192.0.2.1 "${crowd[9]}" tcp 192.0.2.2 8000
check many-del each 'pl DEL "" "p$i"'
check many-clean only_others

# GC while an ADD is under way, which waits for the agent: it says so, and
# takes nothing of it away.
fake_stop
fake_start --stop add
pl ADD "$A" made eth0 "$all" >"$T/o" 2>&1 &
MADE=$!
stopped() { grep -q '^State:	T' "/proc/$FAKE/status"; }
wait_for 10 stopped
made_rules() { rules | grep -q 'net/made/eth0"'; }
wait_for 10 made_rules
check gc-while-made says 1 'another process works on this attachment' \
	gc ".agentSocket = \"$T/none\" | .agentPolicy = \"optional\" |
		$valid = []"
kill -CONT "$FAKE"
wait "$MADE"
check gc-spares-made eval 'reaches "$A" 10.77.0.1 &&
	prev "$(cat "$T/o")" made'
check gc-spares-address [ "$(addresses | wc -l)" = 1 ]
pl DEL "" made
check gc-made-clean only_others
fake_stop
fake_start

# Fault 7: killed at any moment, then DEL, GC or ADD again.
net "$all" >"$T/conf"
killed() {
	local i us
	for i in $(seq 75); do
		us=$((i * 120))
		killed_after $us ADD "$A" k <"$T/conf"
		case $((i % 3)) in
		0) pl DEL "" k ;;
		1) gc "$valid = []" ;;
		2) pl ADD "$A" k eth0 "$all" >"$T/o" 2>&1 ||
			grep -q 103 "$T/o" || { cat "$T/o"; return 1; }
		   pl DEL "" k eth0 ;;
		esac || return
		only_others && clean && empty_pod "$A" && localnet_closed &&
			continue
		echo "killed after $us us"
		return 1
	done
}
localnet_closed() {
	! host cat /proc/sys/net/ipv4/conf/br0/route_localnet | grep 1
}
check killed-at-any-moment killed
# DEL, too.
killed_del() {
	local i us
	for i in $(seq 40); do
		us=$((i * 120))
		pl ADD "$A" k eth0 "$all" >"$T/o" || { cat "$T/o"; return 1; }
		in_ns "${NODE[1]}" env CNI_COMMAND=DEL CNI_CONTAINERID=k \
			CNI_IFNAME=eth0 CNI_PATH="$O/ipam" \
			"$O/tests/system/kill_after" $us \
			"$O/plugin/podlane" <"$T/conf" >/dev/null 2>&1
		pl DEL "" k || return
		only_others && clean && empty_pod "$A" && localnet_closed &&
			continue
		echo "killed after $us us"
		return 1
	done
}
check killed-del killed_del

# Whoever is on the node can hold the lock, but not for ever.
nsenter --net=/proc/"${NODE[1]}"/ns/net setpriv --reuid 65534 --clear-groups \
	--inh-caps=-all flock -F /proc/self/ns/net sleep 300 &
HOLDER=$!
PIDS+=("$HOLDER")
disown "$HOLDER"
held() { ! host flock -n /proc/self/ns/net true; }
wait_for 5 held
check lock-held held
check lock-held-add eval 'pl ADD "$A" a eth0 "$masq" >/dev/null'
kill "$HOLDER"
wait_for 5 is_gone "$HOLDER"
check lock-held-works seen_as 192.0.2.1 "$A" tcp 192.0.2.2 8000
pl DEL "" a

# A machine without libnftables: an error for those who need it.
lib=$(ldconfig -p | sed -n 's/.*libnftables.so.1 .*=> //p' | head -1)
without_lib() {
	net "${2:-.}" | CNI_PLUGIN="$T/without" cni 1 "$1" "$A" w
}
cat >"$T/without" <<END
#!/bin/bash
exec unshare -m bash -c 'mount --bind /dev/null "$(readlink -f "$lib")" &&
	exec "$O/plugin/podlane"'
END
chmod +x "$T/without"
if [ -n "$lib" ]; then
	check no-library code 100 without_lib ADD "$all"
	check no-library-says eval 'without_lib ADD "$all" |
		grep -q "install.*libnftables1"'
	check no-library-is-undone clean
	check no-library-status code 50 without_lib STATUS \
		"$masq | .cniVersion = \"1.1.0\""
	check no-library-status-no-rules without_lib STATUS \
		'.cniVersion = "1.1.0"'
	check no-library-no-rules-add eval 'without_lib ADD >/dev/null'
	check no-library-no-rules-del without_lib DEL
	check no-library-clean clean
else
	skip no-library "ldconfig does not know where it is"
fi
check only-others-at-the-end only_others
finish

#!/bin/bash
# tests/system/plugin_faults.sh: what ADD leaves when it fails or is killed.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/plugin.bash"

one_node
ns_add && A=$PID
ns_add && B=$PID

# undone NAME CODE JQ: ADD with that configuration fails and leaves nothing.
undone() {
	check "$1" code "$2" pl ADD "$A" x eth0 "${4:-.} | $3"
	check "$1-is-undone" clean
	check "$1-leaves-pod" empty_pod "$A"
}
undone no-ranges 7 'del(.ipam.ranges)'
undone state-dir-is-a-file 5 ".stateDir = \"$T/log\""
undone bad-mac 7 '.runtimeConfig.mac = "01:00:00:00:00:00"'
undone bad-mtu 7 '.mtu = 1'

one='.ipam.ranges = [[{"subnet":"10.77.0.0/24","rangeStart":"10.77.0.9",
	"rangeEnd":"10.77.0.9"}]]'
pl ADD "$B" b eth0 "$one" >/dev/null
check exhausted code 101 pl ADD "$A" x eth0 "$one"
check exhausted-leaves-pod empty_pod "$A"
only_b() { [ "$(records | wc -l) $(addresses | wc -l)" = "1 1" ]; }
check exhausted-is-undone only_b
check exhausted-then-free pl DEL "$B" b
check exhausted-clean clean

in_ns "$A" ip link add eth0 type bridge
check name-taken-in-pod code 100 pl ADD "$A" x
check name-taken-is-undone clean
foreign() { in_ns "$A" ip -d link show eth0 | grep -q bridge; }
check name-taken-stays foreign
check name-taken-del pl DEL "$A" x
check name-taken-stays-after-del foreign
in_ns "$A" ip link del eth0

host ip link add taken type vxlan id 9 dstport 4789
undone bridge-is-none 100 '.bridge = "taken"'
host ip link del taken
host ip link add other type bridge
host ip addr add 10.77.0.254/24 dev other
undone other-gateway 100 '.bridge = "other"'
other_stays() { host ip addr show other | grep -q 10.77.0.254/24; }
check other-gateway-stays other_stays
forced() {
	pl ADD "$A" x eth0 '.bridge = "other" | .forceAddress = true' >"$T/o" &&
		host ip addr show other | grep -q ' 10.77.0.1/24 ' &&
		! other_stays
}
check force-address forced
pl DEL "$A" x
host ip link del other

undone bad-route 100 '.ipam.routes = [{"dst":"10.9.0.0/16","gw":"192.0.2.1"}]'

# Standard output that takes nothing.
full() { pl ADD "$A" x >/dev/full; [ $? = 1 ]; }
closed() { pl ADD "$A" x >&-; [ $? = 1 ]; }
broken() {
	pl ADD "$A" x | true
	[ "${PIPESTATUS[0]}" = 1 ] || pl DEL "$A" x
}
check output-full full
check output-full-is-undone clean
check output-closed closed
check output-closed-is-undone clean
check output-broken broken
check output-broken-is-undone clean
check output-leaves-pod empty_pod "$A"

# The agent says no, or dies, at each of its steps.
for op in node add; do
	for how in refuse die; do
		fake_stop
		fake_start "--$how" "$op"
		want=11
		[ "$op-$how" = add-refuse ] && want=100
		check "agent-$how-$op" code $want pl ADD "$A" x
		check "agent-$how-$op-is-undone" clean
		fake_stop
		fake_start "--$how" "$op"
		check "agent-$how-$op-optional" pl ADD "$A" x eth0 \
			'.agentPolicy = "optional"'
		pl DEL "$A" x
	done
done
fake_stop
fake_start
check agent-is-clean clean

# An IPAM plugin that reserves and then fails is told to give it back.
mkdir "$T/bin"
cat >"$T/bin/bad-ipam" <<'END'
#!/bin/bash
dir=$(jq -r .ipam.dataDir)
echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME" >>"$dir/../bad-ipam.log"
echo "a word on standard error" >&2
[ $CNI_COMMAND = DEL ] && exit 0
[ -e "$dir/../bad-says" ] && cat "$dir/../bad-says" && exit 0
echo '{"cniVersion":"1.0.0","code":117,"msg":"no luck","details":"today"}'
exit 1
END
chmod +x "$T/bin/bad-ipam"
bad() {
	net '.ipam.type = "bad-ipam"' | in_ns "${NODE[1]}" env CNI_COMMAND=ADD \
		CNI_CONTAINERID=x CNI_IFNAME=eth0 CNI_NETNS="/proc/$A/ns/net" \
		CNI_PATH="$T/bin" "$O/plugin/podlane"
}
check ipam-fails code 117 bad
ipam_told() {
	[ "$(cat "$T/bad-ipam.log")" = "ADD x eth0
DEL x eth0" ] && grep -q 'a word' "$T/stderr"
}
bad >/dev/null 2>"$T/stderr"
rm -f "$T/bad-ipam.log"
bad >/dev/null 2>"$T/stderr"
check ipam-del-is-called ipam_told
ipam_says() { # NAME CODE TEXT
	printf '%s' "$3" >"$T/bad-says"
	check "ipam-says-$1" code "$2" bad
	check "ipam-says-$1-is-undone" clean
}
ipam_says no-address 100 '{"ips":[]}'
ipam_says no-json 6 'no json'
ipam_says no-prefix 6 '{"ips":[{"address":"10.0.0.1"}]}'
ipam_says nothing 6 ''
rm -f "$T/bad-says"

# GC goes on past what fails and says all of it.
cat >"$T/bin/stuck-ipam" <<'END'
#!/bin/bash
cat >/dev/null
case $CNI_COMMAND in
ADD) echo '{"cniVersion":"1.1.0","ips":[{"address":"10.77.0.9/24"}]}'; exit 0;;
GC) why="gc is stuck";;
*) why="$CNI_CONTAINERID is stuck";;
esac
echo "{\"cniVersion\":\"1.1.0\",\"code\":100,\"msg\":\"$why\"}"
exit 1
END
chmod +x "$T/bin/stuck-ipam"
stuck() { # COMMAND PID CID JQ
	net ".cniVersion = \"1.1.0\" | .ipam.type = \"stuck-ipam\" | $4" |
		in_ns "${NODE[1]}" env CNI_COMMAND="$1" CNI_CONTAINERID="$3" \
		CNI_IFNAME=eth0 CNI_NETNS="/proc/$2/ns/net" CNI_PATH="$T/bin" \
		"$O/plugin/podlane"
}
ns_add
B=$PID
gc_says_all() {
	stuck ADD "$A" one . && stuck ADD "$B" two . || return
	! stuck GC 1 x '."cni.dev/valid-attachments" = []' >"$T/o" || return
	grep -q 'one is stuck' "$T/o" && grep -q 'two is stuck' "$T/o" &&
		grep -q 'gc is stuck' "$T/o" || { cat "$T/o"; return 1; }
	empty_pod "$A" && empty_pod "$B"
}
check gc-says-all gc_says_all
for c in one two; do
	pl DEL "" $c eth0 'del(.ipam)' >/dev/null
	rm -f "$T/state/net/$c:eth0"
done
check gc-says-all-clean clean

# An installer replaces the program while others execute it.
replaced() {
	local i pid n=0
	cp "$O/plugin/podlane" "$T/bin/podlane"
	for i in $(seq 40); do
		cp "$O/plugin/podlane" "$T/bin/new" &&
			mv "$T/bin/new" "$T/bin/podlane"
	done &
	pid=$!
	for i in $(seq 10); do
		CNI_PLUGIN=$T/bin/podlane pl ADD "$A" x >/dev/null &&
			CNI_PLUGIN=$T/bin/podlane pl DEL "" x && n=$((n + 1))
	done >"$T/o" 2>&1
	wait $pid
	[ "$n" = 10 ] && clean || { cat "$T/o"; false; }
}
check replaced-while-it-runs replaced

# Killed while a slow IPAM plugin reserves: DEL waits for the end of that one.
cat >"$T/bin/slow-ipam" <<'END'
#!/bin/bash
[ $CNI_COMMAND = ADD ] && sleep 0.3
exec /usr/lib/cni/host-local
END
chmod +x "$T/bin/slow-ipam"
slow() { # COMMAND PROGRAM...
	net '.ipam.type = "slow-ipam"' | in_ns "${NODE[1]}" env CNI_COMMAND="$1" \
		CNI_CONTAINERID=x CNI_IFNAME=eth0 CNI_NETNS="/proc/$A/ns/net" \
		CNI_PATH="$T/bin" "${@:2}" "$O/plugin/podlane"
}
if [ -x /usr/lib/cni/host-local ]; then
	slow ADD "$O/tests/system/kill_after" 100000 >/dev/null
	check killed-in-ipam slow DEL env
	sleep 0.5
	check killed-in-ipam-clean clean
else
	skip killed-in-ipam "the reference host-local plugin is not installed"
fi

# Records: cut off, gone, not ours to judge.
record() { records | head -1; }
for size in 0 5 60; do
	pl ADD "$A" x >/dev/null
	truncate -s $size "$(record)"
	check "record-cut-to-$size" pl DEL "" x
	check "record-cut-to-$size-clean" clean
done
pl ADD "$A" x >/dev/null
echo '{"done":1,"boot":"x","link":7}' >"$(record)"
check record-nonsense pl DEL "" x
check record-nonsense-clean clean
pl ADD "$A" x >/dev/null
rm -f "$(record)"
check record-gone pl DEL "" x eth0 '.prevResult = {"ips":[]}'
check record-gone-clean clean
# A folder in its place; what is in it is not ours to remove.
for in in . something; do
	pl ADD "$A" x >/dev/null
	R=$(record)
	rm -f "$R"
	mkdir -p "$R/$in"
	check "record-is-folder-$in" pl DEL "" x
	check "record-is-folder-$in-clean" clean
	rm -rf "$R/something"
	pl DEL "" x
done
check record-is-no-folder-any-more pl ADD "$A" x
pl DEL "" x
pl ADD "$A" x >/dev/null
check del-other-config pl DEL "" x eth0 '.ipam = {"type":"host-local"} |
	.bridge = "nowhere" | .agentSocket = "/nowhere"'
check del-other-config-clean clean
pl ADD "$A" x >/dev/null
check del-bad-config pl DEL "" x eth0 '.mtu = "much" | .agentPolicy = 3 |
	.ipam.ranges = 7'
check del-bad-config-clean clean
pl ADD "$A" x >/dev/null
check del-no-namespace-any-more eval 'net | in_ns "${NODE[1]}" env \
	CNI_COMMAND=DEL CNI_CONTAINERID=x CNI_IFNAME=eth0 CNI_NETNS="$T/log" \
	CNI_PATH=/none "$O/plugin/podlane"'
check del-no-namespace-clean clean

# A pod whose namespace and links went away without DEL: ADD by another works,
# and a late DEL of the first does not touch the second.
ns_add
GONE=$PID
pl ADD "$GONE" old >/dev/null
kill -KILL "$GONE"
links_gone() { host ip -o link show type veth | grep -c . | grep -qx 0; }
wait_for 10 links_gone
check after-reboot pl ADD "$A" new
check late-del pl DEL "/nonexistent" old
still() { reaches "$A" 10.77.0.1 && [ "$(addresses | wc -l)" = 1 ]; }
check late-del-spares-other still
pl DEL "$A" new
check late-clean clean

# The same name again, after its interface went without DEL.
pl ADD "$A" x >/dev/null
in_ns "$A" ip link del eth0
check gone-without-del pl ADD "$A" x
check gone-without-del-works reaches "$A" 10.77.0.1
check gone-without-del-once eval '[ "$(addresses | wc -l)" = 1 ]'
check there-is-still-103 code 103 pl ADD "$A" x
pl DEL "$A" x
check gone-without-del-clean clean

# An unfinished ADD is cleared up by the next one of the same attachment.
pl ADD "$A" x >/dev/null
printf '{"done":0' | dd of="$(record)" conv=notrunc 2>/dev/null
check unfinished pl ADD "$A" x
check unfinished-works reaches "$A" 10.77.0.1
pl DEL "$A" x
check unfinished-clean clean

# Killed at any moment; then DEL, or GC, or nothing and ADD again.
net >"$T/conf"
killed() {
	local i us bad=0
	for i in $(seq 60); do
		us=$((i * 60))
		killed_after $us ADD "$A" k <"$T/conf"
		case $((i % 3)) in
		0) pl DEL "" k ;;
		1) pl GC "" "" "" '.cniVersion = "1.1.0" |
			."cni.dev/valid-attachments" = []' ;;
		2) pl ADD "$A" k >"$T/o" 2>&1 || grep -q 103 "$T/o" ||
			{ cat "$T/o"; return 1; }
		   pl DEL "" k ;;
		esac || return
		clean || bad=1
		empty_pod "$A" || bad=1
		[ $bad = 0 ] || { echo "killed after $us us"; return 1; }
	done
}
check killed-at-any-moment killed
finish

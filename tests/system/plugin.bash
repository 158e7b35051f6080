# tests/system/plugin.bash: for the tests of the plugin. After lib.sh.
#
#   net [JQ]          the configuration, changed by a jq filter
#   pl CMD PID CID [IF] [JQ]  run the plugin; PID "" is an empty CNI_NETNS
#   one_node [ARG...]  node 1, with lo only, and fake_start
#   fake_start [ARG...]  an agent that only answers; $T/log has what it was asked
#   killed_after US CMD PID CID < config  the plugin killed after so long
#   clean             the node has no pod's interface, no record, no address
#   code N CMD...     CMD fails with one error document of this code
NET='{"cniVersion":"1.0.0","name":"net","type":"podlane","bridge":"br0",
 "isGateway":true,"agentSocket":"'$T'/agent.sock","stateDir":"'$T'/state",
 "ipam":{"type":"podlane-ipam","dataDir":"'$T'/ipam",
  "ranges":[[{"subnet":"10.77.0.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}'
net() { printf '%s' "$NET" | jq -c "${1:-.}"; }
pl() {
	local cmd=$1 pid=$2 cid=$3 ifname=${4:-eth0}
	net "${5:-.}" | cni 1 "$cmd" "$pid" "$cid" "$ifname"
}
killed_after() {
	in_ns "${NODE[1]}" env CNI_COMMAND="$2" CNI_CONTAINERID="$4" \
		CNI_NETNS="${3:+/proc/$3/ns/net}" CNI_IFNAME=eth0 \
		CNI_PATH="$O/ipam" "$O/tests/system/kill_after" "$1" \
		"$O/plugin/podlane" >/dev/null 2>&1
}
host() { in_ns "${NODE[1]}" "$@"; }
fake_start() {
	rm -f "$T/agent.sock"
	"$O/tests/system/fake_agent" "$T/agent.sock" "$T/log" "$@" &
	FAKE=$!
	PIDS+=("$FAKE")
	disown "$FAKE"
	wait_for 5 test -S "$T/agent.sock"
}
one_node() {
	ns_add && NODE[1]=$PID
	host ip link set lo up
	fake_start "$@"
}
fake_stop() {
	kill -KILL "$FAKE" 2>/dev/null
	wait_for 5 is_gone "$FAKE"
	rm -f "$T/agent.sock"
}
# In every mode of address management: one file per address.
addresses() { find "$T/ipam" -name '[0-9]*.*' 2>/dev/null; }
records() { find "$T/state" -type f 2>/dev/null; }
pairs() { host ip -o link show type veth | grep -c . | grep -qx 0; }
clean() {
	pairs || { host ip -o link show type veth; return 1; }
	! host ip -o link show type ifb | grep . || return
	[ -z "$(addresses)$(records)" ] || { addresses; records; return 1; }
}
empty_pod() { [ "$(in_ns "$1" ip -o link | wc -l)" = 1 ]; }
one_doc() { printf '%s' "$1" | jq -es 'length == 1' >/dev/null; }
code() {
	local want=$1 out
	shift
	if out=$("$@" 2>"$T/stderr"); then
		echo "succeeded: $*: $out"
		return 1
	fi
	one_doc "$out" && printf '%s' "$out" |
		jq -e ".code == $want and (.msg | length) > 0 and
			(.cniVersion | length) > 0" >/dev/null && return
	echo "$* gave: $out"
	cat "$T/stderr"
	return 1
}
# A port that nobody listens on answers, if the way there and back is right.
reaches() {
	in_ns "$1" timeout 3 bash -c "echo >/dev/tcp/$2/9" 2>&1 |
		grep -q 'Connection refused'
}

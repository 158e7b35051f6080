# tests/system/nft.bash: for the tests of rules in nftables. After plugin.bash.
#
#   nodes_and_outside  node 1 with 192.0.2.1 and fd02::1; OUTSIDE, a namespace
#                      with ...2, which has no route to any pod
#   serve PID PORT     whoami serves in that namespace
#   ask_from PID PROTO ADDR PORT   whoami asks from there
#   seen_as ADDR PID PROTO ADDR PORT   ... and is seen as ADDR
#   rules, no_rules    all of nftables on the node
#   address N FILE     the Nth address of a result
serve() {
	nsenter --net=/proc/"$1"/ns/net "$O/tests/system/whoami" serve "$2" \
		>"$T/serve.$1.$2" &
	SERVER=$!
	PIDS+=("$SERVER")
	disown "$SERVER"
	wait_for 5 grep -q ready "$T/serve.$1.$2"
}
nodes_and_outside() {
	ns_add && NODE[1]=$PID
	ns_add && OUTSIDE=$PID
	host ip link set lo up
	host ip link add out type veth peer name out netns "$OUTSIDE"
	host ip addr add 192.0.2.1/24 dev out
	host ip addr add fd02::1/64 dev out nodad
	host ip link set out up
	in_ns "$OUTSIDE" ip addr add 192.0.2.2/24 dev out
	in_ns "$OUTSIDE" ip addr add fd02::2/64 dev out nodad
	in_ns "$OUTSIDE" ip link set out up
	in_ns "$OUTSIDE" ip link set lo up
	serve "$OUTSIDE" 8000
	serve "${NODE[1]}" 8000
}
ask_from() { in_ns "$1" "$O/tests/system/whoami" ask "${@:2}"; }
seen_as() {
	local want=$1 got
	shift
	got=$(ask_from "$@")
	[ "$got" = "$want" ] || { echo "seen as $got, not $want"; rules; false; }
}
rules() { host nft list ruleset; }
no_rules() { [ -z "$(rules)" ] || { rules; false; }; }
address() { jq -r ".ips[$1].address" "$2" | cut -d/ -f1; }
# Not the way outside.
pairs() { ! host ip -o link show type veth | grep -v ' out@'; }

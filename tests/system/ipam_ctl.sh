#!/bin/bash
# tests/system/ipam_ctl.sh: podlanectl ipam, on directories that podlane-ipam
# and host-local filled; no agent runs.
. "$(dirname "$0")/lib.sh"
DIR=$T/data
# add ID NETWORK [IF] [PLUGIN]
add() {
	cat <<-EOF | env -i CNI_COMMAND=ADD CNI_CONTAINERID="$1" \
		CNI_NETNS=/proc/self/ns/net CNI_IFNAME="${3:-eth0}" \
		CNI_PATH=/usr/lib/cni "${4:-$O/ipam/podlane-ipam}" >/dev/null
	{"cniVersion":"1.0.0","name":"$2","ipam":{"type":"t","dataDir":"$DIR",
	 "ranges":[[{"subnet":"10.77.0.0/24"}],[{"subnet":"fd00:77::/64"}]]}}
	EOF
}
ipam() { "$O/daemonset/podlanectl" --data-dir "$DIR" ipam "$@"; }
has() { # FILTER ARG...: JSON output for which the filter holds
	local out
	out=$(ipam -o json "${@:2}")
	echo "$out"
	printf '%s' "$out" | jq -e "$1" >/dev/null
}

check "no directory" says 1 "cannot read $DIR" ipam list
mkdir "$DIR"
check "an empty directory" has '. == []' list
add a one && add b one && add a two && add a two eth1 &&
	add b2 one ||
	echo "FAIL the reservations for this test"
check "list" has 'length == 10 and .[0] != null and ([.[] |
	select(.network == "two" and .ifname == "eth1") | .address] | sort) ==
	["10.77.0.3","fd00:77::3"]' list
check "list of one network" has 'length == 6 and all(.network == "one")' \
	list --network one
check "as a table" says 0 "one      10.77.0.3   eth0    b" ipam list
check "no such network" says 1 "cannot read $DIR/three" ipam list --network three
check "no good network" says 2 "name" ipam list --network ../one

check "which command?" says 2 "ipam list" ipam
check "unknown command" says 2 "ipam list" ipam frob
check "a word too many" says 2 "unexpected word 'x'" ipam list x
check "release what?" says 2 "release what" ipam release
check "release of an address and a word" says 2 "unexpected word" \
	ipam release 10.77.0.2 eth0
check "release of a free address" says 1 "10.77.0.9 is not reserved in any" \
	ipam release 10.77.0.9
check "release of a free address of a network" \
	says 1 "10.77.0.9 is not reserved in network one" \
	ipam release 10.77.0.9 --network one
check "release of an address of two networks" says 1 "one and two" \
	ipam release 10.77.0.2
check "release of a stranger" says 1 "container z has no address" \
	ipam release z
check "release of a wrong interface" says 1 "eth7 of container a" \
	ipam release a eth7
check "nothing was released" has 'length == 10' list
check "errors as JSON" has '.ok == false and (.msg | test("not reserved"))' \
	release 10.77.0.9
check "release of an address" has '. == [{"network":"one",
	"address":"10.77.0.4","containerID":"b2","ifname":"eth0"}]' \
	release 10.77.0.4
check "is once" says 1 "not reserved" ipam release 10.77.0.4
check "release by network" has 'length == 1 and .[0].network == "one"' \
	release 10.77.0.2 --network one
check "release of an interface" has 'length == 2 and all(.ifname == "eth1")' \
	release a eth1
check "release of a container, in all networks" has 'length == 3' release a
check "is all of it" has '[.[].containerID] | sort == ["b","b","b2"]' list

in_order() { says 0 "problems: 0" ipam check; }
check "check" in_order
add c one && add d one
check "check after ADD" says 0 "networks: 2, reservations: 7, problems: 0" ipam check
if [ -x /usr/lib/cni/host-local ]; then
	check "check after host-local" eval \
		'add e one eth0 /usr/lib/cni/host-local && in_order'
	check "lists host-local's" has '[.[] | select(.containerID == "e")] |
		length == 2' list
else
	skip "check after host-local" "containernetworking-plugins is missing"
fi
add f one
before=$(stat -c '%y' "$DIR/one"; ls -A "$DIR/one")
problem() { # FILE TEXT
	has "[.[] | select(.file == \"$1\" and .network == \"one\" and
		(.problem | test(\"$2\")))] | length == 1" check
}
: >"$DIR/one/10.77.0.200"
printf 'x\r\neth0' >"$DIR/one/fd00:77:0::201"
echo >"$DIR/one/notes"
check "check: an empty file" problem 10.77.0.200 "is empty"
check "check: not the spelling of an address" problem fd00:77:0::201 "written"
check "check: a stray file" problem notes "no effect"
check "exit status of check" says 1 notes ipam check
rm "$DIR"/one/{10.77.0.200,fd00:77:0::201,notes}
check "in order again" in_order
check "an address with an empty file" eval ': >"$DIR/one/10.77.0.201" &&
	has ". == []" release 10.77.0.201 && in_order'
if setfattr -n user.podlane.boot -v other "$DIR/one/fd00:77::2" 2>/dev/null; then
	check "check: of another boot" problem fd00:77::2 "last boot"
	setfattr -x user.podlane.boot "$DIR/one/fd00:77::2"
fi
# The index counts while the directory's time is its own.
index() { # CHANGE: change a file, put the time of the directory back
	touch -r "$DIR/one" "$T/time"
	eval "$1"
	touch -r "$T/time" "$DIR/one"
}
add g one && add h one
check "in order with an index" in_order
file=$(ipam list -o json | jq -r 'map(select(.containerID == "g"))[0].address')
index 'printf "y\r\neth0" >"$DIR/one/$file"'
check "check: not in the index" problem "$file" "not in the index"
index 'rm "$DIR/one/$file"'
check "check: too much in the index" problem .podlane.index "not reserved"
check "release of what only the index has" says 1 "not reserved" \
	ipam release "$file"
index 'printf xxxx | dd of="$DIR/one/.podlane.index" bs=1 conv=notrunc seek=100 2>/dev/null'
check "check: a damaged index" problem .podlane.index "damaged"
check "a damaged index is made anew" eval 'add i one && in_order'
finish

# tests/system/client.bash: for the tests with real container engines. After
# lib.sh.
#
# An engine believes that the machine is its own: /run, /var/lib, /opt/cni/bin,
# /etc/cni. It gets a mount namespace where those are empty folders in memory,
# in the network namespace of node 1. Its cgroups are all below $CG, and go at
# the end. (ip netns exec would hide the cgroups, see ip-netns(8).)
#
#   box_start        makes it; plugins are in /opt/cni/bin
#   box CMD...       runs CMD in it; with "&" use box_bg
#   box_bg CMD...    the same in the background; its pid is in $PID
#   rootfs           a root file system with busybox, in $ROOT
#   conflist NAME [JQ]  {"plugins": [podlane]} for node 1 and subnet 10.77.N.0/24
#                    (N: $SUBNET), changed by the filter
#   calls            what /opt/cni/bin/podlane was asked, one line each:
#                    COMMAND container=ID ifname=IF netns=PATH
#   reserved [NET]   the addresses that are reserved
#   gc NET CID...    GC of a network with these as valid containers (eth0)
need() { # PROGRAM...: or the whole test is skipped
	local p
	for p in "$@"; do
		command -v "$p" >/dev/null || [ -x "$p" ] && continue
		skip "$(basename "$0" .sh)" "$p is not installed (make deps)"
		exit 0
	done
}
CG=/podlane-test-$$
cgroups() { find /sys/fs/cgroup -depth -type d -path "*$CG*" 2>/dev/null; }
box_end() {
	local d
	cleanup
	for d in $(cgroups); do rmdir "$d" 2>/dev/null; done
}
trap box_end EXIT
box_mounts() {
	cat <<-'EOF'
	set -e
	cd /
	for d in /run /opt /var/lib; do mount -t tmpfs none $d; done
	if [ -d /etc/cni ]; then
		mount -t tmpfs none /etc/cni
	else
		mount -t tmpfs none /mnt
		mkdir /mnt/up /mnt/work
		mount -t overlay -o lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work none /etc
	fi
	mkdir -p /opt/cni/bin /etc/cni/net.d
	ln -s /usr/lib/cni/* "$O"/ipam/podlane-ipam /opt/cni/bin
	exec sleep 100000
	EOF
}
box_ready() { nsenter --mount=/proc/"$BOX"/ns/mnt test -e /opt/cni/bin/podlane-ipam; }
box_start() {
	node_add 1
	O=$O nsenter --net=/proc/"${NODE[1]}"/ns/net unshare -m \
		--propagation private bash -c "$(box_mounts)" 2>"$T/box.err" &
	BOX=$!
	PIDS+=("$BOX")
	disown "$BOX"
	wait_for 10 box_ready || {
		skip "$(basename "$0" .sh)" "this machine allows no mounts: $(cat "$T/box.err")"
		exit 0
	}
	cat >"$T/podlane" <<-EOF
	#!/bin/sh
	[ -z "\$CNI_CONTAINERID" ] || echo "\$CNI_COMMAND container=\$CNI_CONTAINERID" \
		"ifname=\$CNI_IFNAME netns=\$CNI_NETNS" >>"$T/calls"
	exec "$O/plugin/podlane"
	EOF
	chmod 755 "$T/podlane"
	box ln -s "$T/podlane" /opt/cni/bin/podlane
	# The agent has to see the paths of namespaces as the engine gives them.
	AGENT_WITH="nsenter --mount=/proc/$BOX/ns/mnt"
}
box() { nsenter --mount=/proc/"$BOX"/ns/mnt --net=/proc/"$BOX"/ns/net "$@"; }
box_bg() {
	nsenter --mount=/proc/"$BOX"/ns/mnt --net=/proc/"$BOX"/ns/net "$@" &
	PID=$!
	PIDS+=("$PID")
	disown "$PID"
}
rootfs() {
	local a
	ROOT=$T/rootfs
	mkdir -p "$ROOT"/{bin,proc,sys,dev,etc,tmp}
	cp "$(command -v busybox)" "$ROOT/bin/"
	# Where it is not static, with its libraries.
	for a in $(ldd "$ROOT/bin/busybox" 2>/dev/null | grep -o '/[^ ]*'); do
		install -D "$a" "$ROOT$a"
	done
	for a in sh ping sleep ip cat cmp wget httpd nc; do
		ln -s busybox "$ROOT/bin/$a"
	done
}
conflist() {
	jq -n --arg name "$1" --arg T "$T" --arg subnet "10.77.${SUBNET:-1}.0/24" '
	{cniVersion: "1.0.0", name: $name, plugins: [{
		type: "podlane", bridge: ("pl-" + $name), isGateway: true,
		agentSocket: ($T + "/n1/run/agent.sock"),
		stateDir: ($T + "/state"),
		ipam: {type: "podlane-ipam", dataDir: ($T + "/ipam"),
			ranges: [[{subnet: $subnet}]],
			routes: [{dst: "0.0.0.0/0"}]}}]}' | jq "${2:-.}"
}
calls() { cat "$T/calls" 2>/dev/null; }
reserved() { find "$T/ipam${1:+/$1}" -name '[0-9]*.*' -printf '%f\n' 2>/dev/null; }
nothing_reserved() { ! reserved | grep . && ! find "$T/state" -type f | grep .; }
veths() { host ip -o link show type veth | grep -v ' u@'; }
host() { in_ns "${NODE[1]}" "$@"; }
gc() {
	local net=$1 ids
	shift
	ids=$(printf '%s\n' "$@" | jq -Rc 'select(. != "") | {containerID: ., ifname: "eth0"}' | jq -sc .)
	conflist "$net" | jq -c --argjson ids "$ids" '.plugins[0] +
		{name, cniVersion: "1.1.0", "cni.dev/valid-attachments": $ids}' |
		box env CNI_COMMAND=GC CNI_PATH=/opt/cni/bin "$O/plugin/podlane"
}

#!/bin/bash
# tests/system/ctl_check.sh: podlanectl check, bugreport, peers, top, completion.
. "$(dirname "$0")/lib.sh"

two_agents || exit 1
four_pods
mkdir -p "$T/net.d" "$T/bin"
cp "$O/plugin/podlane" "$O/ipam/podlane-ipam" "$T/bin/"
echo '{"name":"x","plugins":[{"type":"podlane"}]}' >"$T/net.d/05-podlane.conflist"
jq --arg T "$T" '. + {cni: {mode: "standalone", confDir: ($T + "/net.d"),
	binDir: ($T + "/bin"), stateDir: ($T + "/cni"), dataDir: ($T + "/ipam")}}' \
	"$T/n1/agent.json" >"$T/check.json"
mkdir -p "$T/cni/net" "$T/ipam/net"
doctor() {
	in_ns "${NODE[1]}" "$O/daemonset/podlanectl" --run-dir "$T/n1/run" \
		--config "$T/check.json" check "$@"
}
# found CHECK RESULT TEXT [ADVICE]: one of the findings is so.
found() {
	doctor --json >"$T/found.json"
	jq -e --arg c "$1" --arg r "$2" --arg t "$3" --arg d "${4:-}" \
		'any(.[]; .check == $c and .result == $r and (.finding | contains($t))
		and ((.todo // "") | contains($d)))' "$T/found.json" || {
		cat "$T/found.json"
		return 1
	}
}
good() { doctor >"$T/o" && ! grep FAIL "$T/o" || { cat "$T/o"; return 1; }; }
check good-node good
check agent found agent ok ready
check kernel found kernel ok Linux
check modules found modules ok bridges
check whole-packets-below found underlay ok 'packets of 1500 bytes to node2 (10.99.0.2): arrive'
check whole-packets-through-the-overlay found overlay ok 'packets of 1450 bytes to node2 (10.88.2.0): arrive'

# A switch that drops what is too long for one of its ports, without a word.
in_ns "$SWITCH" ip link set n2 mtu 1400
check swallowed-packets found underlay FAIL 'are lost, small ones arrive' overlay.mtu
check failure-is-the-exit-status says 1 FAIL doctor
in_ns "$SWITCH" ip link set n2 mtu 1500
# A firewall that does so with what is encapsulated.
in_ns "${NODE[2]}" nft 'add table ip x; add chain ip x in { type filter hook prerouting priority -300; };
	add rule ip x in udp dport 8472 ip length > 1400 drop'
check swallowed-in-the-overlay found overlay FAIL 'packets of 1450 bytes to node2 (10.88.2.0): are lost, small ones arrive'
in_ns "${NODE[2]}" nft delete table ip x
in_ns "$SWITCH" ip link set n2 down
check unreachable found underlay warn 'no answer' 'is the node up'
in_ns "$SWITCH" ip link set n2 up
# Somebody on the way says what he can carry.
in_ns "${NODE[1]}" ip route add 10.99.0.2/32 dev u mtu lock 1300
check too-big-is-said found underlay FAIL 'too big for the way' 'less 50'
in_ns "${NODE[1]}" ip route del 10.99.0.2/32 dev u
check arrives-again found underlay ok arrive

echo '{"name":"y","plugins":[{"type":"bridge"}]}' >"$T/net.d/00-other.conflist"
check shadowed found conflist FAIL '00-other.conflist, which has no podlane' 'remove it'
rm "$T/net.d/00-other.conflist"
mv "$T/bin/podlane" "$T/p"
check missing-plugin found plugins FAIL 'No such file' 'podlaned install'
mv "$T/p" "$T/bin/podlane"
echo '{"done":1,"link":"pl-gone"}' >"$T/cni/net/c:eth0"
check stale-attachment found attachments warn '1 pods are gone'
rm "$T/cni/net/c:eth0"
echo >"$T/ipam/net/10.88.1.9"
check broken-reservation found reservations warn '10.88.1.9' 'ipam'
rm "$T/ipam/net/10.88.1.9"
in_ns "${NODE[1]}" sysctl -qw net.ipv4.ip_forward=0
check no-forwarding found forwarding FAIL 'does not forward' sysctl
in_ns "${NODE[1]}" sysctl -qw net.ipv4.ip_forward=1
# An RDMA device whose link is down, as sysfs shows it; its memory is locked.
mkdir -p "$T/sys/infiniband/mlx5_9/ports/1"
echo '1: DOWN' >"$T/sys/infiniband/mlx5_9/ports/1/state"
echo '3: Disabled' >"$T/sys/infiniband/mlx5_9/ports/1/phys_state"
with_device() {
	in_ns "${NODE[1]}" unshare -m --propagation private sh -c \
		'mount --bind "$1" /sys/class && shift && exec "$@"' sh "$T/sys" \
		"$O/daemonset/podlanectl" --run-dir "$T/n1/run" \
		--config "$T/check.json" check --json >"$T/found.json"
	jq -e --arg c "$1" --arg r "$2" --arg t "$3" 'any(.[]; .check == $c and
		.result == $r and (.finding | contains($t)) and
		($r == "ok" or .todo != ""))' "$T/found.json" ||
		{ cat "$T/found.json"; return 1; }
}
if unshare -m --propagation private mount --bind "$T/sys" /sys/class 2>/dev/null; then
	check rdma-link-down with_device rdma warn 'mlx5_9 port 1: state 1: DOWN, physical 3: Disabled'
	prlimit --memlock=65536:65536 --pid "${AGENT[1]}"
	check memlock with_device memlock warn 'may lock 65536 bytes'
	echo '4: ACTIVE' >"$T/sys/infiniband/mlx5_9/ports/1/state"
	check rdma-link-up with_device rdma ok 'mlx5_9 port 1 is up'
else
	skip rdma-and-memlock "this machine allows no mounts"
fi
# In installed mode the addresses are where the configuration says.
mkdir -p "$T/ipam/net"
printf 'cid9\r\neth0' >"$T/ipam/net/10.88.1.77"
installed_ipam() {
	"$O/daemonset/podlanectl" --config "$T/check.json" -o json ipam list |
		jq -e '.[] | .address == "10.88.1.77" and .containerID == "cid9"'
}
check ipam-of-an-installed-node installed_ipam
rm "$T/ipam/net/10.88.1.77"
check wrong-config says 1 "must be a JSON object" ctl 1 check --config <(echo 1)

# --- bugreport ---

SECRET=topsecret-$RANDOM$RANDOM
KEY=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
cat >"$T/net.d/10-theirs.conflist" <<EOC
{"name": "theirs", "authToken": "$SECRET", "plugins": [{"type": "x",
 "etcd_key": "-----BEGIN KEY-----$SECRET-----END KEY-----", "password" : "a\\"$SECRET",
 "note": "$KEY", "keep": "this"}]}
EOC
echo "token: $SECRET" >"$T/net.d/calico-kubeconfig"
report() {
	in_ns "${NODE[1]}" "$O/daemonset/podlanectl" --run-dir "$T/n1/run" \
		--config "$T/check.json" bugreport "$@"
}
report "$T/report.tar" >"$T/o"
mkdir "$T/x"
unpacked() {
	local f
	tar -xf "$T/report.tar" -C "$T/x" --strip-components=1 || return
	for f in version.txt agent/status.json agent/pods.json agent/nodes.json \
		check.json podlaned.json net.d/10-theirs.conflist network.txt \
		proc/meminfo agent/limits.txt; do
		[ -s "$T/x/$f" ] || { echo "$f"; find "$T/x"; return 1; }
	done
	jq -e '.pods | length == 2' "$T/x/agent/pods.json" &&
		grep -q 'podlane.1 kind=vxlan' "$T/x/network.txt" &&
		jq -e '.plugins[0].keep == "this"' "$T/x/net.d/10-theirs.conflist"
}
check bugreport unpacked
no_secrets() { ! grep -ra "$SECRET\|$KEY" "$T/x" && ! find "$T/x" | grep kubeconfig; }
check without-secrets no_secrets
check bugreport-is-for-its-owner-only [ "$(stat -c %a "$T/report.tar")" = 600 ]
check bugreport-overwrites-nothing says 1 "File exists" report "$T/report.tar"
to_stdout() { report - | tar -t | grep check.json; }
check bugreport-to-standard-output to_stdout
full() { report - >/dev/full; }
check bugreport-on-a-full-disk says 1 "No space left" full

# --- the others ---

peers() {
	ctl 1 peers -o json | jq -e '[.[].name] == ["node2"]' &&
		ctl 1 nodes -o json | jq -e 'length == 2'
}
check peers peers
client_bg a serve accept echo 1
soon serve listening
client_bg b ask connect 10.88.1.10 echo
top() {
	timeout -s INT 5 "$O/daemonset/podlanectl" --run-dir "$T/n1/run" --json \
		top 0.2 | head -2 | jq -es 'length == 2 and
		([.[0].pods[].pod.name] | sort) == ["a", "b"] and
		all(.[0].pods[]; .sentBytesPerSecond >= 0)'
}
check top top
top_table() { timeout -s INT 1 "$O/daemonset/podlanectl" --run-dir "$T/n1/run" top 0.2 | grep -E '^NAMESPACE +POD.*SENT/s'; }
check top-as-a-table top_table
check top-seconds says 2 "0.1 to 3600" ctl 1 top x
completes() { # WORD...: what bash offers for the last one
	bash -c 'eval "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_podlanectl; echo "${COMPREPLY[*]}"' bash "$(ctl 1 completion bash)" "$@"
}
completion() {
	[ "$(completes podlanectl reg)" = regions ] &&
		[ "$(completes podlanectl ipam rel)" = release ] &&
		[ "$(completes podlanectl -o j)" = json ] &&
		[ "$(completes podlanectl --dat)" = --data-dir ]
}
check completion completion
check completion-of-others says 1 "bash, zsh or fish" ctl 1 completion csh
finish

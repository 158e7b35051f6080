#!/bin/bash
# tests/system/image.sh: the image of the agent is the same when it is made
# again, and works: containerd runs it with no more rights than the manifests
# give, plugins run on a node with no library, pods are served.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/client.bash"
need strip gzip jq
if grep -q fsanitize "$O/flags"; then
	skip image "this build has sanitizers"
	exit 0
fi
VERSION=$(sed -n 's/^VERSION := //p' Makefile)
export VERSION O
made() {
	daemonset/deploy/image.sh "$T/root" "$T/image.tar" || return
	SOURCE_DATE_EPOCH=1700000000 daemonset/deploy/image.sh "$T/root1" "$T/1.tar" &&
		SOURCE_DATE_EPOCH=1700000000 daemonset/deploy/image.sh "$T/root2" "$T/2.tar"
}
check made made || exit 1
same() { cmp "$T/1.tar" "$T/2.tar" && ! cmp "$T/1.tar" "$T/image.tar"; }
check same-bytes same
rm -rf "$T"/root[12] "$T"/[12].tar
licences() {
	local d
	for d in "$T"/root/usr/share/doc/*/copyright; do
		[ -s "$d" ] && [ -s "$T/root/var/lib/dpkg/status.d/$(basename "${d%/copyright}")" ] ||
			{ echo "$d"; return 1; }
	done
	[ -e "$T/root/usr/share/doc/libc6/copyright" ]
}
check licences licences
nothing_else() {
	# No shell, nobody's account, nothing that may be written or is set-id.
	! find "$T/root" -name sh -o -name bash -o -name dpkg -type f -o -perm /6000 -o \
		-perm /002 ! -type l ! -path "$T/root/tmp" | grep .
}
check nothing-else nothing_else

benchmark() {
	says 0 "ps_throughput $VERSION" unshare -m sh -c 'mount --rbind /dev "$1/dev" &&
		chroot "$1" /usr/bin/ps_throughput --version' sh "$T/root"
}
check benchmark-is-in-it benchmark

need containerd ctr runc
box_start
box rm -rf /opt/cni/bin/podlane /opt/cni/bin/podlane-ipam
cat >"$T/containerd.toml" <<-EOC
version = 2
root = "$T/ctd/root"
state = "$T/ctd/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "$T/ctd/sock"
[ttrpc]
  address = "$T/ctd/ttrpc"
EOC
box_bg containerd -c "$T/containerd.toml" >"$T/ctd.log" 2>&1
c() { box timeout 60 ctr -a "$T/ctd/sock" "$@"; }
wait_for 15 c version || { cat "$T/ctd.log"; exit 1; }
IMAGE=docker.io/library/podlane:$VERSION
import() {
	c images import --snapshotter native "$T/image.tar" && c images ls -q | grep -Fx "$IMAGE"
}
check import import || { cat "$T/ctd.log"; exit 1; }

mkdir "$T/etc"
echo '{"nodes":[{"name":"node1","address":"10.99.0.1","podCIDRs":["10.88.1.0/24"]}]}' \
	>"$T/etc/nodes.json"
echo '{"registry":{"file":"/etc/podlane/nodes.json"},"carrier":{"security":"none"},"cni":{"mode":"standalone"}}' \
	>"$T/etc/podlaned.json"
box mkdir -p /run/podlane /var/lib/podlane
# The node's namespaces are where each one's change is seen in the container.
box ip netns add none
# As base/daemonset.yaml has it: capabilities, a read-only root, mounts.
RIGHTS=(--net-host --read-only --seccomp --snapshotter native)
for cap in CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP \
	SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE; do
	RIGHTS+=(--cap-drop "CAP_$cap")
done
mount_of() { # PATH [FROM]
	echo "--mount=type=bind,src=${2:-$1},dst=$1,options=rbind:rslave:${3:-rw}"
}
MOUNTS=("$(mount_of /etc/podlane "$T/etc" ro)" "$(mount_of /opt/cni/bin)"
	"$(mount_of /etc/cni/net.d)" "$(mount_of /run/podlane)"
	"$(mount_of /var/lib/podlane)" "$(mount_of /run/netns)")
# in_ctr ID CAPABILITY... -- CMD...: in CTR, what box executes for that.
in_ctr() {
	local id=$1
	CTR=(ctr -a "$T/ctd/sock" run --rm --cgroup "$CG/$id" "${RIGHTS[@]}" "${MOUNTS[@]}")
	shift
	while [ "$1" != -- ]; do CTR+=(--cap-add "CAP_$1"); shift; done
	shift
	CTR+=("$IMAGE" "$id" "$@")
}
run() {
	in_ctr "$@"
	box "${CTR[@]}" </dev/null
}
init() {
	run init DAC_OVERRIDE -- /usr/sbin/podlaned install &&
		box test -x /opt/cni/bin/podlane && box ls /var/lib/podlane/lib
}
check install init
no_cdi() { says 0 "no CDI specification" run init0 DAC_OVERRIDE -- /usr/sbin/podlaned install; }
check without-a-place-for-cdi no_cdi
mkdir "$T/cdi"
MOUNTS+=("$(mount_of /etc/cdi "$T/cdi")")
cdi() { init && jq -e '.kind == "podlane.io/lib"' "$T/cdi/podlane.json"; }
check cdi cdi
agent_run() {
	in_ctr "$1" SYS_ADMIN SYS_PTRACE NET_ADMIN DAC_OVERRIDE -- \
		/usr/sbin/podlaned --node node1
	box_bg "${CTR[@]}" </dev/null >"$T/$1.log" 2>&1
	wait_for 20 box test -S /run/podlane/agent.sock &&
		wait_for 20 grep -q 'cni: wrote\|serving' "$T/$1.log" || cat "$T/$1.log"
}
# The node forwards, as Kubernetes asks of it; a container cannot change that.
agent_run agent0
check says-that-the-node-has-to-forward wait_for 10 grep -q \
	'ip_forward has to be 1.* on the node' "$T/agent0.log"
c t kill agent0
gone0() { ! c t ls -q | grep -qx agent0; }
wait_for 10 gone0
host sysctl -qw net.ipv4.ip_forward=1
agent_run agent1
LIST=/etc/cni/net.d/05-podlane.conflist
check list-is-written wait_for 10 box test -e $LIST
in_it() { c t exec --exec-id "x$RANDOM$RANDOM" agent1 "$@"; }
check probes eval 'host wget -qO- http://127.0.0.1:7472/healthz && host wget -qO- http://127.0.0.1:7472/readyz'
check podlanectl-in-it in_it /usr/bin/podlanectl status

# The node's own libraries are of no use: a root without any.
bare() {
	box mkdir -p "$T"/bare/{opt/cni/bin,var/lib/podlane,proc} &&
		box mount --bind /opt/cni/bin "$T/bare/opt/cni/bin" &&
		box mount --bind /var/lib/podlane "$T/bare/var/lib/podlane" || return
	for p in podlane podlane-ipam; do
		box env -i CNI_COMMAND=VERSION chroot "$T/bare" "/opt/cni/bin/$p" \
			</dev/null | jq -e '.supportedVersions | length > 1' || return
	done
	box umount "$T/bare/opt/cni/bin" "$T/bare/var/lib/podlane"
}
check plugins-need-nothing-of-the-node bare
wire() { # NAME COMMAND
	box jq -c '{name, cniVersion} + .plugins[0]' $LIST |
		box env CNI_COMMAND="$2" CNI_CONTAINERID="$1" CNI_IFNAME=eth0 \
			CNI_NETNS="/run/netns/$1" CNI_PATH=/opt/cni/bin \
			CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=$1" \
			/opt/cni/bin/podlane
}
ns() { # NAME CMD...
	local n=$1
	shift
	box nsenter --net="/run/netns/$n" "$@"
}
pods() {
	local p
	for p in a b; do
		box ip netns add $p && ns $p ip link set lo up && wire $p ADD || return
	done
	ns a ping -q -c 1 -W 5 10.88.1.3 && ns a ping -q -c 1 -W 5 10.99.0.1 &&
		host nft list table inet podlane_masq
}
check pods pods
serve_lane() {
	box_bg nsenter --net=/run/netns/a "$O/shm/examples/lane_echo" serve \
		echo >"$T/serve.out" 2>&1
}
serve_lane
lane() { ns b timeout 20 "$O/shm/examples/lane_echo" ask 10.88.1.2 echo; }
check lane wait_for 10 lane
# Another one, which finds them again by the folder that it shares with the node.
c t kill -s KILL agent1
gone() { ! c t ls -q | grep -qx agent1; }
wait_for 10 gone
agent_run agent2
again() {
	c t exec --exec-id "x$RANDOM" agent2 /usr/bin/podlanectl -o json pods |
		jq -e 'length == 2 and all(.listening)'
}
check next-agent-has-the-pods wait_for 10 again
serve_lane
check lane-by-the-next wait_for 10 lane
c t kill agent2
gone2() { ! c t ls -q | grep -qx agent2; }
wait_for 10 gone2
for p in a b; do wire $p DEL; box ip netns del $p; done
undone() {
	run undo NET_ADMIN DAC_OVERRIDE -- /usr/sbin/podlaned uninstall &&
		! box find /opt/cni/bin /etc/cni/net.d /var/lib/podlane /run/podlane | grep podlane. &&
		[ ! -e "$T/cdi/podlane.json" ] &&
		! host ip link show podlane0 && ! host ip link show podlane.1
}
check uninstall undone
finish

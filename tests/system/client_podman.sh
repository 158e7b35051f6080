#!/bin/bash
# tests/system/client_podman.sh: containers of a real podman with its CNI
# backend, behind our conflists: static address and MAC, two networks on one
# container, and nothing left when they are gone.
# Podman numbers the interfaces of several networks as chance has it.
. "$(dirname "$0")/lib.sh"
. tests/system/client.bash
need podman conmon runc busybox
box_start
rootfs
agent_start 1 || exit 1
P=$T/podman
mkdir -p "$P/net.d"
# crun refuses hybrid cgroups; where nobody may raise limits, podman's default
# ones are too high.
cat >"$P/containers.conf" <<-EOC
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
cgroupns = "host"
log_driver = "k8s-file"
[network]
network_backend = "cni"
cni_plugin_dirs = ["/opt/cni/bin"]
network_config_dir = "$P/net.d"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
static_dir = "$P/static"
tmp_dir = "$P/tmp"
volume_path = "$P/volumes"
EOC
cat >"$P/storage.conf" <<-EOC
[storage]
driver = "vfs"
runroot = "$P/run"
graphroot = "$P/root"
EOC
caps='.plugins[0].capabilities = {ips: true, mac: true, aliases: true, dns: true}'
SUBNET=1 conflist one "$caps" >"$P/net.d/10-one.conflist"
SUBNET=2 conflist two "$caps" >"$P/net.d/20-two.conflist"
p() {
	box env CONTAINERS_CONF="$P/containers.conf" \
		CONTAINERS_STORAGE_CONF="$P/storage.conf" timeout 60 podman "$@"
}
[ "$(p info --format '{{.Host.NetworkBackend}}' 2>&1)" = cni ] || {
	skip client_podman "this podman has no CNI backend: $(p --version)"
	exit 0
}
start() { # NAME OPTION...
	p run -d --name "$1" --cgroup-parent "$CG" --stop-signal KILL \
		"${@:2}" --rootfs "$ROOT" /bin/sleep 100000
}
inside() { p exec "$@"; }
address() { # NAME IF
	inside "$1" /bin/ip -o -4 addr show "$2" | sed 's/.*inet \([^/]*\).*/\1/'
}
end() { p rm -f -t 0 "$1"; }

networks() { p network ls --format '{{.Name}}={{.Driver}}' | grep -qx one=podlane; }
check "podman takes our conflists" networks || { p network ls; exit 1; }
check "two containers start" eval 'start a --network one && start b --network one'
A=$(address a eth0) B=$(address b eth0)
check "addresses" [ "$A $B" = "10.77.1.2 10.77.1.3" ]
check "one reaches another" inside a /bin/ping -c 1 -W 5 "$B"
check "the gateway" inside b /bin/ping -c 1 -W 5 10.77.1.1
inspected() {
	[ "$(p inspect a --format '{{.NetworkSettings.Networks.one.IPAddress}}')" = "$A" ]
}
check "podman knows the address" inspected
known() { ctl 1 pods -o json | jq -e "length == $1 and all(.listening)"; }
check "the agent knows them" known 2
fixed() {
	start c --network one:ip=10.77.1.77,mac=02:00:00:00:00:77 &&
	[ "$(address c eth0)" = 10.77.1.77 ] &&
	inside c /bin/ip link show eth0 | grep -q 02:00:00:00:00:77 &&
	reserved one | grep -qx 10.77.1.77
}
check "a static address and MAC" fixed
check "which others reach" inside a /bin/ping -c 1 -W 5 10.77.1.77
taken() { ! start d --network one:ip=10.77.1.77; p rm -f -t 0 d; }
check "the same address again is refused" taken
check "and stays with the first" inside a /bin/ping -c 1 -W 5 10.77.1.77
two() {
	start e --network one:interface_name=eth0 \
		--network two:interface_name=eth1 &&
	[ "$(reserved two)" = "$(address e eth1)" ] &&
	reserved one | grep -qx "$(address e eth0)" &&
	inside e /bin/ping -c 1 -W 5 "$B" &&
	inside e /bin/ping -c 1 -W 5 10.77.2.1
}
check "two networks on one container" two
check "are one pod for the agent" eval 'ctl 1 status -o json | jq -e ".pods == 4"'
joined() {
	p network connect two a && [ "$(address a eth1)" = 10.77.2.3 ] &&
	inside a /bin/ping -c 1 -W 5 "$(address e eth1)"
}
check "a network that is connected later" joined
left() {
	p network disconnect one e && ! inside e /bin/ip link show eth0 &&
	inside e /bin/ping -c 1 -W 5 10.77.2.3 && [ "$(reserved one | wc -l)" = 3 ]
}
check "the first of two networks is disconnected" left
check "stop and start" eval 'p stop -t 0 b && [ "$(reserved one | wc -l)" = 2 ] &&
	p start b && inside b /bin/ping -c 1 -W 5 "$A"'

# The CDI specification of podlaned install.
mkdir -p "$T/release/lib/pod"
cp "$O/plugin/podlane" "$O/ipam/podlane-ipam" "$T/release/"
cp "$O/shm/libpodlane.so.1" "$T/release/lib/pod/"
cat >"$T/install.json" <<EOC
{"stateDir": "$T/installed", "carrier": {"security": "none"},
 "cni": {"mode": "chained", "binDir": "$T/bin", "cdiDir": "/run/cdi"}}
EOC
with_lib() {
	box "$O/daemonset/podlaned" install --config "$T/install.json" \
		--from "$T/release" &&
		start f --network one --device podlane.io/lib=all &&
		inside f /bin/cat /usr/lib/libpodlane.so.1 | cmp - "$O/shm/libpodlane.so.1" &&
		inside f /bin/sh -c 'cmp /usr/lib64/libpodlane.so.1 /usr/lib/libpodlane.so.1 &&
			! echo x >>/usr/lib/libpodlane.so.1' &&
		inside f /bin/cat /proc/1/environ | tr '\0' '\n' |
			grep -x PODLANE_LIBRARY=/usr/lib/libpodlane.so.1
}
if [[ $(p --version) =~ \ [123]\.|\ 4\.0 ]]; then
	skip "a device of CDI" "this podman knows none: $(p --version)"
	start f --network one
else
	check "a container with the library" with_lib
	# The root is the same folder, and has what was mounted over.
	without_lib() { [ -z "$(inside a /bin/cat /usr/lib/libpodlane.so.1)" ]; }
	check "... only where it is asked for" without_lib
fi

for n in a b c e f; do end $n >/dev/null; done
check "all is back" eval 'nothing_reserved && ! veths'
check "the agent knows no pod" known 0
check "GC with an empty list" eval 'gc one && gc two'
finish

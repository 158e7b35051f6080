#!/bin/bash
# tests/system/client_containerd.sh: containers of a real containerd, by ctr,
# behind our conflist: they reach each other, the gateway and the agent; what
# is given back on the ways on which a container can end.
. "$(dirname "$0")/lib.sh"
. tests/system/client.bash
need containerd ctr runc busybox
box_start
rootfs
agent_start 1 || exit 1
cat >"$T/containerd.toml" <<-EOC
version = 2
root = "$T/ctd/root"
state = "$T/ctd/state"
disabled_plugins = ["io.containerd.grpc.v1.cri",
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "$T/ctd/sock"
[ttrpc]
  address = "$T/ctd/ttrpc"
EOC
conflist pods '.plugins[0] += {ipMasq: true}' |
	box tee /etc/cni/net.d/10-podlane.conflist >/dev/null
box_bg containerd -c "$T/containerd.toml" >"$T/ctd.log" 2>&1
CTD=$PID
c() { box timeout 30 ctr -a "$T/ctd/sock" "$@"; }
wait_for 15 c version || { cat "$T/ctd.log"; exit 1; }
start() { # ID: sleeps until it is killed
	c run -d --cni --rootfs --env PATH=/bin --cgroup "$CG/$1" \
		"$ROOT" "$1" /bin/sleep 100000
}
inside() { # ID CMD...
	local id=$1
	shift
	c t exec --exec-id "x$RANDOM$RANDOM" "$id" "$@"
}
address() { inside "$1" ip -o -4 addr show eth0 | sed 's/.*inet \([^/]*\).*/\1/'; }
task_gone() { ! c t ls -q | grep -qx "$1"; }
end() {
	c t kill -s KILL "$1" && wait_for 10 task_is "$1" STOPPED && c t rm "$1"
	c c rm "$1" && wait_for 10 task_gone "$1"
}
task_is() { c t ls | grep -q "^$1 .*$2"; }

check "three containers start" eval 'start a && start b && start c'
A=$(address a) B=$(address b)
wired() {
	reserved | sort | paste -sd' ' | grep -Fx "10.77.1.2 10.77.1.3 10.77.1.4" &&
	[ "$A $B" = "10.77.1.2 10.77.1.3" ]
}
check "addresses" wired
check "one reaches another" inside a ping -c 1 -W 5 "$B"
check "and back" inside b ping -c 1 -W 5 "$A"
check "the gateway" inside c ping -c 1 -W 5 10.77.1.1
tcp() {
	inside b sh -c 'mkdir -p /tmp/www; echo here >/tmp/www/page; httpd -p 80 -h /tmp/www' &&
	[ "$(inside a wget -q -O - "http://$B/page")" = here ]
}
check "TCP" tcp
known() {
	ctl 1 pods -o json | jq -e '[.[] | .containerID, (.addresses | length)]
		== ["default-a", 1, "default-b", 1, "default-c", 1] and
		all(.listening)'
}
check "the agent knows them" known
listening() { inside a cat /proc/net/unix | grep -q '@podlane$'; }
check "the agent listens in them" listening

# --- an end with DEL: run in the foreground ----------------------------------

rm -f "$T/calls"
foreground() {
	[ "$(c run --rm --cni --rootfs --cgroup "$CG/d" "$ROOT" d /bin/ping -c 1 \
		-W 5 "$A" | grep -c '1 packets received')" = 1 ] &&
	calls && grep -qx 'DEL container=default-d ifname=eth0 netns=' "$T/calls" &&
	[ "$(reserved | wc -l)" = 3 ] &&
	ctl 1 pods -o json | jq -e 'length == 3'
}
check "run --rm: DEL with an empty CNI_NETNS gives all back" foreground
check "the address of before is not given at once" eval \
	'start e && [ "$(address e)" = 10.77.1.6 ]'

# --- an end without DEL ------------------------------------------------------

rm -f "$T/calls"
start_two() { start b && start e; }
no_del() {
	end b && end e && ! grep DEL "$T/calls" && [ "$(reserved | wc -l)" = 4 ]
}
check "kill and rm send no DEL" no_del
collected() {
	gc pods default-a default-c &&
	[ "$(reserved | sort | paste -sd' ')" = "10.77.1.2 10.77.1.4" ] &&
	ctl 1 pods -o json | jq -e 'map(.containerID) == ["default-a", "default-c"]'
}
check "GC gives their addresses back" collected
check "the others go on" inside a ping -c 1 -W 5 10.77.1.4
check "two more" start_two
check "end without DEL" no_del
check "the agent gives their addresses back" wait_for 30 eval \
	'[ "$(reserved | wc -l)" = 2 ]'
check "by DEL" eval '[ "$(grep -c ^DEL "$T/calls")" = 0 ] &&
	grep -q "gave back reg=pods@default-b@eth0" "$T/n1/agent.log" &&
	! find "$T/state" -name "default-[be]:*" | grep .'
check "the others go on after it" inside a ping -c 1 -W 5 10.77.1.4

# Another plugin of the list fails: libcni sends no DEL to those before it.
failed_start() {
	printf '#!/bin/sh\necho "{\\"code\\":100,\\"msg\\":\\"on purpose\\"}"\nexit 1\n' |
		box tee /opt/cni/bin/fails >/dev/null
	box chmod 755 /opt/cni/bin/fails
	conflist pods '.plugins[0] += {ipMasq: true} | .plugins += [{type: "fails"}]' |
		box tee /etc/cni/net.d/05-fails.conflist >/dev/null
	start f && return 1
	c t rm -f f
	c c rm f
	box rm /etc/cni/net.d/05-fails.conflist
	! grep -q '^DEL container=default-f' "$T/calls" &&
	[ "$(reserved | wc -l)" = 3 ] && gc pods default-a default-c &&
	[ "$(reserved | wc -l)" = 2 ]
}
check "a start that fails after ADD leaves nothing after GC" failed_start

# --- the end -----------------------------------------------------------------

check "the same name again" eval 'end c && gc pods default-a && start c'
end a
end c
check "all is back after GC" eval 'gc pods && nothing_reserved && ! veths'
check "containerd ends" eval 'kill $CTD && wait_for 15 is_gone $CTD'
finish

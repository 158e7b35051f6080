#!/bin/bash
# tests/system/install.sh: podlaned install, what the agent keeps in the
# runtime's folder, and podlaned uninstall: a node is afterwards as it was.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/client.bash"
. "$(dirname "$0")/install.bash"
need nft jq

# A search for leaks is no use to a program that is traced, and fails it.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

host_start
host_config '{"mode":"standalone"}'
# Others' files: they are to be there afterwards, as they are.
box sh -c 'echo "{\"cniVersion\":\"1.0.0\",\"name\":\"other\",\"plugins\":[{\"type\":\"loopback\"}]}" \
	>/etc/cni/net.d/90-other.conflist; mkdir -p /var/lib/other; echo x >/var/lib/other/file;
	touch /etc/cni/net.d/README'
host nft add table inet other
host ip link add other0 type bridge
# Addresses change by themselves until then.
settled() { ! host ip -o addr | grep -q tentative; }
wait_for 10 settled
view >"$T/view.before"

# --- install ---

plugins_there() {
	local p
	for p in podlane podlane-ipam; do
		box cmp "$FROM/$p" "/opt/cni/bin/$p" &&
			[ "$(box stat -c %a "/opt/cni/bin/$p")" = 755 ] || return
	done
}
put() { install && plugins_there; }
check install put
inode() { box stat -c %i /opt/cni/bin/podlane; }
again() {
	local was
	was=$(inode)
	install && [ "$(inode)" = "$was" ]
}
check install-again-changes-nothing again
# A program that is executed cannot be written to (ETXTBSY), only replaced.
busy() {
	cp "$(command -v sleep)" "$FROM/podlane"
	install || return
	box_bg /opt/cni/bin/podlane 100000
	BUSY=$PID
	cp "$O/plugin/podlane" "$FROM/podlane"
	install && plugins_there && kill -0 "$BUSY" &&
		[[ $(readlink "/proc/$BUSY/exe") == *deleted* ]]
}
step replaced-while-it-runs busy
kill "$BUSY"
check unknown-option says 2 "unknown option" uninstall --nonsense
check nothing-to-install says 1 "cannot open" install --from "$T/none"
gone() { uninstall && same_view; }
check uninstall-of-plugins gone
# A library for pods comes with a CDI specification that says where it is.
host_config '{"mode":"standalone","cdiDir":"/run/cdi"}'
cdi() {
	mkdir -p "$FROM/lib/pod"
	cp "$O/shm/libpodlane.so.1" "$FROM/lib/pod/"
	box mkdir /run/cdi
	view >"$T/view.before.cdi"
	install && box jq -e '.cdiVersion == "0.3.0" and .kind == "podlane.io/lib" and
		.devices[0].name == "all" and (.devices[0].containerEdits |
		.env == ["PODLANE_LIBRARY=/usr/lib/libpodlane.so.1"] and
		all(.mounts[]; .options | index("ro")))' /run/cdi/podlane.json &&
		box cmp "$O/shm/libpodlane.so.1" "$(box jq -r \
		'.devices[0].containerEdits.mounts[0].hostPath' /run/cdi/podlane.json)" ||
		return
	uninstall && view | diff "$T/view.before.cdi" -
}
check cdi cdi
their_cdi() {
	box sh -c 'echo {} >/run/cdi/podlane.json'
	says 1 "--force" install && uninstall && [ "$(box cat /run/cdi/podlane.json)" = '{}' ]
}
check cdi-of-others-stays their_cdi
box rm -r /run/cdi
rm -r "$FROM/lib"
host_config '{"mode":"standalone"}'
foreign() {
	box sh -c 'echo theirs >/opt/cni/bin/podlane'
	view >"$T/view.before.foreign"
	says 1 "--force" install || return
	[ "$(box cat /opt/cni/bin/podlane)" = theirs ] || return
	uninstall >"$T/o" && [ "$(box cat /opt/cni/bin/podlane)" = theirs ]
}
check foreign-plugin-stays foreign
forced() { install --force && plugins_there && gone; }
check force forced

# A kill at any system call; then it is done again, and undone.
killed_installs() {
	local n=1 rc=99
	while [ $rc = 99 ]; do
		box "$O/tests/system/kill_at" $n "$O/daemonset/podlaned" install \
			--config "$T/etc/podlane.json" --from "$FROM"
		rc=$?
		if [ $((n % 3)) = 0 ]; then
			install && plugins_there || return
		fi
		uninstall >"$T/o" && same_view || { cat "$T/o"; return 1; }
		n=$((n + 11))
	done
	echo "$n calls"
	[ $rc = 0 ] && uninstall && same_view
}
check install-killed-anywhere killed_installs

# What fits, fits; the rest is as it was, and without temporary files.
disk_full() {
	local bytes

	bytes=$(cat "$FROM"/podlane* | wc -c)
	install || return
	box mount -t tmpfs -o size=$((bytes + 900000)) none /opt/cni/bin || return
	box sh -c "echo other >/opt/cni/bin/other; head -c $((bytes + 700000)) /dev/zero >/opt/cni/bin/full"
	says 1 "No space left" install || return
	! box ls /opt/cni/bin | grep -q '\.tmp\.' || return
	box rm /opt/cni/bin/full
	install && plugins_there && [ "$(box cat /opt/cni/bin/other)" = other ]
	local rc=$?
	box umount /opt/cni/bin
	return $rc
}
check disk-full disk_full

# --- standalone ---

first_is_ours() { box jq -e '.plugins[0].type == "podlane" and
	.plugins[0].ipam.ranges == [[{"subnet": "10.88.1.0/24"}]]' "$LIST"; }
not_yet() {
	sed -i 's/node1/nodeX/' "$T/etc/nodes.json"
	serve "has no node" && ! box test -e "$LIST" || return
	sed -i 's/nodeX/node1/' "$T/etc/nodes.json"
	wait_for 10 logged "cni: wrote" && first_is_ours
}
step written-when-it-serves not_yet
reaches() { in_ns "$1" ping -q -c 1 -W 5 "$2"; }
pods_work() {
	pod a && pod b && reaches "${POD[a]}" "${IP[b]}" &&
		reaches "${POD[a]}" 10.99.0.1 &&
		host nft list table inet podlane_masq
}
step pods pods_work
back() { first_is_ours && logged "changed by somebody"; }
overwritten() {
	box sh -c "echo '{}' >$LIST"
	wait_for 10 back
}
check overwritten-is-written-again overwritten
removed() {
	box rm "$LIST"
	wait_for 10 first_is_ours
}
check removed-is-written-again removed
shadowed() {
	box sh -c 'echo "{}" >/etc/cni/net.d/00-mine.conf'
	wait_for 10 logged "00-mine.conf sorts before" || return
	box rm /etc/cni/net.d/00-mine.conf
	first_is_ours
}
check shadow-is-warned-about shadowed
list_inode() { box stat -c %i "$LIST"; }
stays() {
	local was
	was=$(list_inode)
	serve_end && [ "$(list_inode)" = "$was" ] || return
	box sh -c "echo half >$LIST.tmp.4711"
	serve "serving node" && [ "$(list_inode)" = "$was" ] &&
		! box test -e "$LIST.tmp.4711" && logged serving &&
		! logged "cni: wrote"
}
step kept-across-restarts stays
check uninstall-under-an-agent says 1 "in use by another agent" uninstall
serve_end
check uninstall-under-pods says 1 "--force" uninstall
dry() {
	local l
	view >"$T/view.wired"
	uninstall --dry-run >"$T/o" || return
	for l in "2 pods" "file $LIST" "link podlane0" "link podlane.1" \
		"file /opt/cni/bin/podlane-ipam" "attachments of network podlane"; do
		grep -F "$l" "$T/o" || { cat "$T/o"; return 1; }
	done
	view | diff "$T/view.wired" -
}
check dry-run dry
check uninstall says 0 "cutting off 2 pods" uninstall --force
check view-is-as-before same_view
check uninstall-again says 0 "nothing of podlane" uninstall

# Killed at any system call, it is done by the next one.
killed_uninstalls() {
	local n=10 rc=99
	while [ $rc = 99 ]; do
		install && serve && pod a && serve_end || return
		box "$O/tests/system/kill_at" $n "$O/daemonset/podlaned" uninstall \
			--config "$T/etc/podlane.json" --force >/dev/null
		rc=$?
		uninstall --force >"$T/o" && same_view ||
			{ cat "$T/o"; echo "killed at $n"; return 1; }
		pod_end a
		n=$((n + 61))
	done 2>"$T/e"
	cat "$T/e"
	echo "$n calls"
	[ $rc = 0 ]
}
step uninstall-killed-anywhere killed_uninstalls

# What was there before, of the same names, is another's.
their_bridge() {
	host ip link add podlane0 type bridge || return
	install && serve && pod a && serve_end && uninstall --force || return
	pod_end a
	host ip link show podlane0 type bridge && host ip link del podlane0 &&
		same_view
}
step foreign-bridge-stays their_bridge
their_list() {
	box sh -c "echo theirs >$LIST"
	install && serve "was not written by podlaned" || return
	[ "$(box cat "$LIST")" = theirs ] && serve_end && uninstall || return
	[ "$(box cat "$LIST")" = theirs ] && box rm "$LIST" && same_view
}
step foreign-list-stays their_list

# --- chained ---

host_config '{"mode":"chained"}'
sed -i 's/}}$/},"overlay":{"type":"none"}}/' "$T/etc/podlane.json"
box rm /etc/cni/net.d/90-other.conflist
view >"$T/view.before"
waits() {
	install && serve "could go behind" && ! box test -e "$LIST"
}
step chained-waits-for-a-network waits
net() {
	printf '%s' '{"cniVersion":"1.0.0","name":"cluster","plugins":[
	 {"type":"bridge","bridge":"cni0","isGateway":true,
	  "ipam":{"type":"host-local","subnet":"'"$1"'","dataDir":"/var/lib/their-ipam"}},
	 {"type":"portmap","capabilities":{"portMappings":true}}]}'
}
net 10.77.1.0/24 >"$T/theirs"
cp_theirs() { box cp "$T/theirs" /etc/cni/net.d/10-cluster.conflist; }
extended() {
	box jq -e --slurpfile t "$T/theirs" '.name == "cluster" and
		.plugins[0:2] == $t[0].plugins and .plugins[2].type == "podlane" and
		(.plugins | length) == 3' "$LIST"
}
chained() {
	cp_theirs
	wait_for 10 extended && box cmp "$T/theirs" /etc/cni/net.d/10-cluster.conflist
}
check chained chained
follows() {
	net 10.77.2.0/24 >"$T/theirs"
	cp_theirs
	wait_for 10 extended
}
check chained-follows-the-original follows
if [ -x /usr/lib/cni/bridge ]; then
	chained_pod() {
		pod c && [[ ${IP[c]} == 10.77.2.* ]] &&
			box "$O/daemonset/podlanectl" pods | grep "${IP[c]}" &&
			unpod c
	}
	step chained-pod chained_pod
else
	skip chained-pod "the reference bridge plugin is not installed"
fi
list_gone() { ! box test -e "$LIST"; }
original_gone() {
	box rm /etc/cni/net.d/10-cluster.conflist
	wait_for 10 list_gone && cp_theirs && wait_for 10 extended
}
check chained-goes-with-the-original original_gone
named() {
	box sh -c 'echo "{\"cniVersion\":\"0.4.0\",\"name\":\"one\",\"type\":\"loopback\"}" >/etc/cni/net.d/08-one.conf'
	behind_one() { box jq -e '.name == "one" and .cniVersion == "0.4.0" and
		.plugins[0].type == "loopback" and .plugins[1].type == "podlane"' "$LIST"; }
	wait_for 10 behind_one && box rm /etc/cni/net.d/08-one.conf &&
		wait_for 10 extended
}
check chained-behind-a-single-plugin named
chained_gone() {
	serve_end && uninstall && box cmp "$T/theirs" /etc/cni/net.d/10-cluster.conflist ||
		return
	box rm /etc/cni/net.d/10-cluster.conflist
	# What the other plugins made is theirs.
	host ip link del cni0 2>/dev/null
	box rm -rf /var/lib/their-ipam
	host nft list tables | grep -q podlane && return 1
	same_view
}
step chained-uninstall chained_gone
finish

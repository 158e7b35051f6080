#!/bin/bash
# tests/system/upgrade.sh: a release is exchanged for another under load: lanes
# go on, pods come and go, and afterwards all of it can be taken away.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/client.bash"
. "$(dirname "$0")/resume.bash"
. "$(dirname "$0")/install.bash"
need nft jq strip

host_start
node_add 2
host_config '{"mode":"standalone"}'
jq -n '{nodes: [{name: "node1", address: "10.99.0.1", podCIDRs: ["10.88.1.0/24"]},
	{name: "node2", address: "10.99.0.2", podCIDRs: ["10.88.2.0/24"]}]}' >"$T/etc/nodes.json"
jq --arg T "$T" '{registry, carrier, stateDir: ($T + "/n2/state")}' "$T/etc/podlane.json" \
	>"$T/n2/agent.json"
settled() { ! host ip -o addr | grep -q tentative; }
wait_for 10 settled
view >"$T/view.before"
step install install
step serve serve
agent_start 2 || exit 1
pods() { pod a && pod b && reg_add 2 c 10.88.2.10; }
step pods pods
for p in a c; do
	run $p serve_$p serve
	soon serve_$p listening || exit 1
done
run b near talk "${IP[a]}" 2
run b far talk 10.88.2.10 2
run c back talk "${IP[a]}" 1
soon near "talking shm" && soon far "talking tcp" && soon back "talking tcp" || exit 1
step lanes-move moves near far back

# Another release: other bytes, which do the same.
next() {
	strip -o "$FROM/podlane" "$O/plugin/podlane" &&
		strip -o "$FROM/podlane-ipam" "$O/ipam/podlane-ipam" &&
		! cmp -s "$FROM/podlane" "$O/plugin/podlane"
}
check another-release next
# As a rollout does it: the plugins first, then the agent, which was served till
# then by pods that come and go.
wired() { box "$O/daemonset/podlanectl" pods -o json | jq -e "length == $1"; }
upgrade() {
	local was
	was=$(box stat -c %i "$LIST")
	install && box cmp "$FROM/podlane" /opt/cni/bin/podlane || return
	pod d && reaches d && unpod d && pod_end d || return
	serve_end && serve "serving node" || { cat "$AGENT_LOG"; return 1; }
	[ "$(box stat -c %i "$LIST")" = "$was" ] && wired 2
}
reaches() { in_ns "${POD[$1]}" ping -q -c 1 -W 5 "${IP[a]}"; }
step upgrade upgrade
step lanes-go-on moves near far back
back() {
	cp "$O/plugin/podlane" "$O/ipam/podlane-ipam" "$FROM/"
	install && serve_end KILL && serve "serving node" && wired 2
}
step and-back-after-a-kill back
step lanes-go-on-again moves near far back
step nothing-failed nothing_failed
pod_after() { pod e && reaches e && unpod e && pod_end e; }
step pods-after pod_after
step lanes-end-well ends near far back
for p in a c; do kill "${CLIENT[serve_$p]}"; done
unwire() { unpod a && unpod b && pod_end a && pod_end b && serve_end; }
step unwire unwire
clean() {
	uninstall && same_view
}
step uninstall clean
finish

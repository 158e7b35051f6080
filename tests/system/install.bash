# tests/system/install.bash: a node as podlaned install finds it, for tests.
# After lib.sh and client.bash.
#
#   host_start       a box (client.bash) whose /opt/cni/bin has plugins of others
#                    only; the release is in $FROM
#   host_config JSON /etc/podlane.json: the section "cni", and a registry
#   install, uninstall ARG...   as the node's root does
#   serve [TEXT]     starts the agent, waits until its log has TEXT
#   serve_end [SIG]
#   pod NAME         wired by the configuration that the runtime would use, as
#                    ${POD[NAME]}; unpod NAME, pod_end NAME (its namespace)
#   view             all that can be seen of the node
LIST=/etc/cni/net.d/05-podlane.conflist
AGENT_LOG=$T/agent.log
host_start() {
	box_start
	box rm /opt/cni/bin/podlane /opt/cni/bin/podlane-ipam
	FROM=$T/release
	mkdir -p "$FROM"
	cp "$O/plugin/podlane" "$O/ipam/podlane-ipam" "$FROM/"
}
host_config() {
	mkdir -p "$T/etc"
	echo '{"nodes":[{"name":"node1","address":"10.99.0.1","podCIDRs":["10.88.1.0/24"]}]}' \
		>"$T/etc/nodes.json"
	cat >"$T/etc/podlane.json" <<-EOF
	{"registry":{"file":"$T/etc/nodes.json"},"cni":$1,
	 "carrier":{"security":"none"}}
	EOF
}
install() {
	box "$O/daemonset/podlaned" install --config "$T/etc/podlane.json" \
		--from "$FROM" "$@"
}
uninstall() {
	box "$O/daemonset/podlaned" uninstall --config "$T/etc/podlane.json" \
		"$@"
}
logged() { grep -qF -- "$1" "$AGENT_LOG"; }
serve() {
	: >"$AGENT_LOG"
	box_bg "$O/daemonset/podlaned" --config "$T/etc/podlane.json" \
		--node node1 2>"$AGENT_LOG"
	SERVES=$PID
	wait_for 10 logged "${1:-cni: wrote}" || { cat "$AGENT_LOG"; return 1; }
}
serve_end() {
	kill "-${1:-TERM}" "$SERVES" && wait_for 10 is_gone "$SERVES"
}
# The first file counts; its plugins are executed one after the other.
plugin_conf() { # INDEX PREVRESULT
	local f
	f=$(box find /etc/cni/net.d -name '*.conf*' ! -name '*.tmp.*' | sort | head -1)
	box jq -c --argjson i "$1" --argjson prev "${2:-null}" \
		'{name, cniVersion} + .plugins[$i] +
		(if $prev then {prevResult: $prev} else {} end)' "$f"
}
plugins() {
	local f
	f=$(box find /etc/cni/net.d -name '*.conf*' | sort | head -1)
	box jq -r '.plugins[].type' "$f"
}
one_cni() { # COMMAND NAME PLUGIN < config
	box env CNI_COMMAND="$1" CNI_CONTAINERID="$2" CNI_IFNAME=eth0 \
		CNI_NETNS="/proc/${POD[$2]}/ns/net" CNI_PATH=/opt/cni/bin \
		CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=$2" \
		"/opt/cni/bin/$3"
}
pod() {
	local i=0 type out=
	ns_add
	POD[$1]=$PID
	in_ns "$PID" ip link set lo up
	for type in $(plugins); do
		out=$(plugin_conf $i "$out" | one_cni ADD "$1" "$type") ||
			{ echo "$out"; return 1; }
		i=$((i + 1))
	done
	IP[$1]=$(printf '%s' "$out" | jq -r '.ips[0].address' | cut -d/ -f1)
}
pod_end() { kill "${POD[$1]}" && wait_for 10 is_gone "${POD[$1]}"; }
unpod() {
	local i type
	i=$(plugins | wc -l)
	for type in $(plugins | tac); do
		i=$((i - 1))
		plugin_conf $i | one_cni DEL "$1" "$type" || return
	done
}
# ifindex differs after each link that was made and removed.
view() {
	host ip -o link | sed 's/^[0-9]*: //'
	host ip -o addr | sed 's/^[0-9]*: //'
	host ip route show table all | grep -v '^local\|^broadcast\|^multicast'
	host ip -6 route show table all | grep -v '^multicast'
	host ip rule
	host ip neigh show nud permanent
	host nft list ruleset
	box find /opt /etc/cni /run /var/lib -printf '%p %y %m %s %l\n' |
		sort
	box find /opt /etc/cni /run /var/lib -type f -exec sha256sum {} + |
		sort
	# Processes of the node: those in its network namespace.
	local p ns
	ns=$(readlink "/proc/${NODE[1]}/ns/net")
	for p in /proc/[0-9]*; do
		[ "$(readlink "$p/ns/net" 2>/dev/null)" = "$ns" ] &&
			tr '\0' ' ' <"$p/cmdline" 2>/dev/null | grep -v '^find'
	done | sort
}
same_view() {
	view >"$T/view.now"
	diff "$T/view.before" "$T/view.now"
}

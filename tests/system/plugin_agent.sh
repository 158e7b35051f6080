#!/bin/bash
# tests/system/plugin_agent.sh: the plugin together with the real agent.
. "$(dirname "$0")/lib.sh"

node_add 1
agent_start 1 || exit 1
pod_add 1 a
pod_add 1 b kube-system
A=${POD[a]}

# ss(8) of the pod's namespace sees its abstract sockets.
listens() { in_ns "$1" ss -xl | grep -q ' @podlane '; }
add() { conf 1 | cni 1 ADD "$1" "$2" "${3:-eth0}" >"$T/out"; }
del() { conf 1 | cni 1 DEL "$1" "$2" "${3:-eth0}"; }
check_pod() {
	conf 1 | jq -c ".prevResult = $(cat "$T/out")" | cni 1 CHECK "$1" "$2"
}
mtu_of_agent() { in_ns "$A" ip link show eth0 | grep -q 'mtu 1450'; }

check listens-in-pod listens "$A"
check mtu-of-agent mtu_of_agent
ns_add && C=$PID
check add add "$C" c
check check check_pod "$C" c
check second-interface eval 'add "$C" c eth1'
check second-interface-del del "$C" c eth1
check still-listens listens "$C"
check del del "$C" c
check listens-no-more eval '! listens "$C"'

# A pod that wants no lanes, or shall share little.
notes() { # KEY VALUE: the runtime passes this annotation
	echo ".runtimeConfig.\"io.kubernetes.cri.pod-annotations\" =
		{\"podlane.io/$1\": \"$2\", \"other\": \"x\"}"
}
with() { # COMMAND CID JQ
	conf 1 | jq -c "$3" | cni 1 "$1" "$C" "$2" >"$T/out2"
}
off=$(notes lanes disabled)
plain() {
	with ADD d "$off" && ! listens "$C" && in_ns "$C" ping -qc1 10.88.1.1 &&
		in_ns "$C" ip link show eth0 | grep -q 'mtu 1450' &&
		with CHECK d "$off | .prevResult = $(cat "$T/out2")"
}
check without-lanes plain
check without-lanes-del with DEL d .
overruled() {
	with ADD d ".lanes = \"disabled\" | $(notes lanes enabled)" &&
		listens "$C" && with DEL d .
}
check annotation-over-configuration overruled
limited() {
	with ADD d "$(notes memory-limit 1.5Mi)" && ctl 1 -o json pods |
		jq -e 'map(select(.containerID == "d").memoryLimit) ==
			[1572864]' &&
		with CHECK d "$(notes memory-limit 1.5Mi) |
			.prevResult = $(cat "$T/out2")" &&
		! with CHECK d "$(notes memory-limit 2Mi) |
			.prevResult = $(cat "$T/out2")" && with DEL d .
}
check memory-limit limited
bad_note() { ! with ADD d "$1" && jq -e '.code == 7' "$T/out2"; }
check bad-annotation bad_note "$(notes lanes perhaps)"
check bad-limit bad_note "$(notes memory-limit much)"

# The agent dies and comes back.
add "$C" c
agent_stop 1 KILL
required() { conf 1 | cni 1 ADD "$C" d eth1 | jq -e '.code == 11'; }
check agent-gone-add required
check agent-gone-check eval '! check_pod "$C" c'
ns_add && D=$PID
needless() {
	conf 1 | jq -c "$off" | cni 1 ADD "$D" d >"$T/out2" &&
		conf 1 | jq -c "$off | .prevResult = $(cat "$T/out2")" |
			cni 1 CHECK "$D" d && conf 1 | cni 1 DEL "$D" d
}
check agent-gone-without-lanes needless
check agent-gone-del del "${POD[b]}" b
agent_start 1 || exit 1
check agent-back-check check_pod "$C" c
check agent-back-listens listens "$C"
check agent-back-listens-a listens "$A"
forget() {
	ask 1 '{"op":"del","network":"podlane","containerID":"c",
		"ifname":"eth0"}' && ! check_pod "$C" c
}
check check-registration forget
del "$C" c && add "$C" c
check check-registered-again check_pod "$C" c

# The agent dies while an ADD waits for it.
kill -STOP "${AGENT[1]}"
ns_add && E=$PID
conf 1 | cni 1 ADD "$E" e >"$T/out3" &
WAITS=$!
# It has not accepted the connection.
asked() { in_ns "${NODE[1]}" ss -xl | grep -F "$T/n1/run/agent.sock" | grep -q 'LISTEN *[1-9]'; }
check agent-killed-asked wait_for 10 asked
agent_stop 1 KILL
wait "$WAITS"
check agent-killed-in-add [ $? = 1 ]
check agent-killed-says jq -e .code==11 "$T/out3"
check agent-killed-leaves-pod [ "$(in_ns "$E" ip -o link | wc -l)" = 1 ]
agent_start 1 || exit 1
check agent-killed-again eval 'conf 1 | cni 1 ADD "$E" e >"$T/out3" &&
	listens "$E" && del "$E" e'

status() { conf 1 | jq -c '.cniVersion = "1.1.0"' | cni 1 STATUS "" ""; }
check status status
gc() {
	conf 1 | jq -c '.cniVersion = "1.1.0" | ."cni.dev/valid-attachments" =
		[{"containerID":"c","ifname":"eth0"}]' | cni 1 GC "" ""
}
check gc gc
check gc-drops-registration eval '! listens "$A"'
check gc-keeps-registration listens "$C"
check last-del del "$C" c

# Behind another plugin.
other='{"cniVersion":"1.1.0","interfaces":[{"name":"eth0",
 "sandbox":"/proc/'$A'/ns/net"}],"ips":[{"address":"172.30.0.5/24",
 "interface":0}]}'
chained() {
	conf 1 | jq -c ".cniVersion = \"1.1.0\" | del(.ipam) |
		.prevResult = $other" | cni 1 ADD "$A" z >"$T/out" &&
		[ "$(jq -cS . "$T/out")" = "$(printf '%s' "$other" | jq -cS .)" ] &&
		listens "$A"
}
check chained chained
check chained-del del "" z
check chained-del-ends eval '! listens "$A"'

# What keeps the agent from serving keeps STATUS from saying yes.
sed -i 's/10.99.0.1"/10.99.0.201"/' "$T/nodes.json"
not_up() {
	! status >"$T/o" && jq -e '.code == 50 and
		(.msg | contains("overlay is down"))' "$T/o"
}
check status-overlay-down wait_for 10 not_up
sed -i 's/10.99.0.201"/10.99.0.1"/' "$T/nodes.json"
check status-overlay-up wait_for 10 status
agent_stop 1
check status-agent-down says 1 '"code":	50' status
finish

# tests/system/lib.sh: nodes and pods out of network namespaces, for tests.
#
# A namespace is held by a sleeping process of ours and reached by
# /proc/PID/ns/net, so nothing is mounted and all of it goes away with the
# processes. Source it, then use:
#
#   T                 scratch folder of this test, removed at the end
#   node_add N        node N: namespace ${NODE[N]} (pid), address 10.99.0.N on
#                     link "u" of a bridge between the nodes (MTU 1500)
#   agent_config N    writes $T/nN/agent.json; pods of node N: 10.88.N.0/24
#   CARRIER=JSON      before agent_config: the carrier's section, where @N is N
#   NODE_NAME[N]=NAME   before agent_config: the node's name, not nodeN
#   agent_start N     starts podlaned in node N, waits until it serves;
#                     AGENT_WITH: a command before it
#   two_agents        nodes 1 and 2, an agent on each
#   four_pods         a and b registered on node 1, c and d on node 2
#   agent_stop N [SIG]
#   ctl N ARG...      podlanectl for the agent of node N
#   ns_add            new namespace; its pid is in $PID
#   in_ns PID CMD...  run CMD in the namespace of PID
#   cni N CMD PID CID [IF] < config   run a plugin on node N for the pod PID
#   pod_add N NAME [K8SNS]   pod wired by podlane: ${POD[NAME]} (pid) and
#                     ${IP[NAME]}
#   reg_add N NAME IP [K8SNS]   the same without the plugin: registers a new
#                     namespace with the agent; no interface in it
#   reg_json N NAME OP   the request for it
#   client NAME ARG...   agent_client in the pod
#   client_bg NAME AS ARG...   the same in the background; soon AS TEXT waits
#                     for a line of output, client_end AS ends it well
#   prog NAME AS PROGRAM ARG...   the same with any program; prog_end AS kills it
#   says RC TEXT CMD...  CMD ends with RC and says TEXT
#   ask N JSON [NETNS]   one request to the agent, prints the answer
#   conf N            the standalone configuration of node N
#   check NAME CMD... prints "ok NAME" or "FAIL NAME" with the output of CMD
#   step NAME CMD...  check, but in this shell: for what starts processes
#   skip NAME REASON
#   sanitized [WHICH]   whether the programs were built with sanitizers, or with
#                     this one: address, thread
#   wait_for SECONDS CMD...  until CMD succeeds
#
# VIA is the carrier that lanes between nodes are to use (tcp), SLOWER how many
# times as long wait_for waits, NODES_BASH a file that puts its own functions in
# the place of these: tests/vm sets them.
set -u
if [ "$(id -u)" != 0 ] && [ "${LIB_ROOT:-}" != no ]; then
	echo "skip $(basename "$0" .sh): network namespaces need root"
	exit 0
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
O=${O:-build}
case $O in /*) ;; *) O=$PWD/$O;; esac
T=$(mktemp -d "${TMPDIR:-/tmp}/podlane-test.XXXXXX") || exit 1
declare -A NODE NODE_NAME POD IP K8S AGENT CLIENT
PIDS=()
FAILED=0
VIA=${VIA:-tcp}
cleanup() {
	[ -n "${KEEP:-}" ] && cp -r "$T" "$KEEP"
	local all

	trap '' INT TERM
	# jobs: what the test itself put in the background and forgot.
	all="${PIDS[*]} $(jobs -p)"
	[ -z "${all// /}" ] || kill -KILL $all 2>/dev/null
	wait 2>/dev/null
	rm -rf "$T"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
check() {
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then
		echo "ok $name"
	else
		echo "FAIL $name"
		printf '%s\n' "$out" | sed 's/^/    /'
		FAILED=1
		return 1
	fi
}
step() {
	local name=$1
	shift
	if "$@" >"$T/step" 2>&1; then
		echo "ok $name"
	else
		echo "FAIL $name"
		sed 's/^/    /' "$T/step"
		FAILED=1
	fi
}
skip() { echo "skip $1: $2"; }
sanitized() { grep -q -- "-fsanitize=${1:-}" "$O/flags"; }
if sanitized 2>/dev/null; then
	SLOWER=${SLOWER:-4}
fi
wait_for() {
	local end=$((SECONDS + $1 * ${SLOWER:-1} + 1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}
ns_is_new() { [ "$(readlink /proc/"$1"/ns/net)" != "$(readlink /proc/self/ns/net)" ]; }
ns_add() {
	unshare -n sleep 100000 &
	PID=$!
	PIDS+=("$PID")
	disown "$PID"
	wait_for 5 ns_is_new "$PID"
}
in_ns() {
	local p=$1
	shift
	nsenter --net=/proc/"$p"/ns/net "$@"
}
underlay() {
	[ -n "${SWITCH:-}" ] && return
	ns_add
	SWITCH=$PID
	in_ns "$SWITCH" ip link add sw type bridge
	in_ns "$SWITCH" ip link set sw up
}
node_add() {
	local n=$1
	underlay
	ns_add
	NODE[$n]=$PID
	mkdir -p "$T/n$n"
	in_ns "$SWITCH" ip link add "n$n" type veth peer name u netns "$PID"
	in_ns "$SWITCH" ip link set "n$n" master sw up
	in_ns "$PID" ip addr add "10.99.0.$n/24" dev u
	in_ns "$PID" ip link set lo up
	in_ns "$PID" ip link set u up
}
agent_config() {
	local n=$1 m carrier=${CARRIER:-'{"security":"none"}'}
	{
		echo '{"nodes":['
		for m in "${!NODE[@]}"; do
			echo "{\"name\":\"${NODE_NAME[$m]:-node$m}\",\"address\":\"10.99.0.$m\",\"podCIDRs\":[\"10.88.$m.0/24\"]},"
		done | sed '$ s/,$//'
		echo ']}'
	} >"$T/nodes.json"
	cat >"$T/n$n/agent.json" <<-EOF
	{"registry":{"file":"$T/nodes.json"},"stateDir":"$T/n$n/state",
	 "carrier":${carrier//@N/$n}}
	EOF
}
agent_ready() { ctl "$1" status; }
agent_start() {
	local n=$1
	[ -e "$T/n$n/agent.json" ] || agent_config "$n"
	# Not in_ns: $! would be the shell around it.
	nsenter --net=/proc/"${NODE[$n]}"/ns/net \
		${AGENT_WITH:-} "$O/daemonset/podlaned" \
		--config "$T/n$n/agent.json" --run-dir "$T/n$n/run" \
		--node "${NODE_NAME[$n]:-node$n}" 2>>"$T/n$n/agent.log" &
	AGENT[$n]=$!
	PIDS+=("$!")
	disown "$!"
	wait_for 10 agent_ready "$n" || { cat "$T/n$n/agent.log"; return 1; }
}
two_agents() {
	node_add 1
	node_add 2
	agent_config 1
	agent_config 2
	agent_start 1 && agent_start 2
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }
agent_stop() {
	kill "-${2:-TERM}" "${AGENT[$1]}" && wait_for 10 is_gone "${AGENT[$1]}"
}
ctl() {
	local n=$1
	shift
	"$O/daemonset/podlanectl" --run-dir "$T/n$n/run" "$@"
}
conf() {
	cat <<-EOF
	{"cniVersion":"${CNI_VERSION:-1.0.0}","name":"podlane","type":"podlane",
	 "bridge":"podlane0","isGateway":true,
	 "agentSocket":"$T/n$1/run/agent.sock","stateDir":"$T/n$1/cni",
	 "ipam":{"type":"podlane-ipam","dataDir":"$T/n$1/ipam",
	  "ranges":[[{"subnet":"10.88.$1.0/24"}]],
	  "routes":[{"dst":"0.0.0.0/0"}]}}
	EOF
}
cni() {
	local n=$1 cmd=$2 pid=$3 cid=$4 ifname=${5:-eth0}
	in_ns "${NODE[$n]}" env CNI_COMMAND="$cmd" CNI_CONTAINERID="$cid" \
		CNI_NETNS="${pid:+/proc/$pid/ns/net}" CNI_IFNAME="$ifname" \
		CNI_PATH="$O/plugin:$O/ipam:/usr/lib/cni" \
		CNI_ARGS="${CNI_ARGS:-}" "${CNI_PLUGIN:-$O/plugin/podlane}"
}
pod_add() {
	local n=$1 name=$2 k8s=${3:-default} out
	ns_add
	POD[$name]=$PID
	out=$(conf "$n" | CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=$k8s;K8S_POD_NAME=$name" \
		cni "$n" ADD "$PID" "$name") || { echo "$out"; return 1; }
	IP[$name]=$(printf '%s' "$out" | jq -r '.ips[0].address' | cut -d/ -f1)
}
ask() {
	local n=$1
	shift
	"$O/tests/system/agent_call" "$T/n$n/run/agent.sock" "$@"
}
reg_json() {
	local n=$1 name=$2 op=$3
	printf '{"op":"%s","network":"net","containerID":"%s","ifname":"eth0",' \
		"$op" "$name"
	printf '"netns":"/proc/%s/ns/net","addresses":["%s/24"],' \
		"${POD[$name]}" "${IP[$name]}"
	printf '"pod":{"name":"%s","namespace":"%s","uid":"u"}}' "$name" \
		"${K8S[$name]:-default}"
}
reg_add() {
	local n=$1 name=$2
	ns_add
	POD[$name]=$PID IP[$name]=$3 K8S[$name]=${4:-default}
	ask "$n" "$(reg_json "$n" "$name" add)" "/proc/$PID/ns/net"
}
four_pods() {
	reg_add 1 a 10.88.1.10
	reg_add 1 b 10.88.1.11
	reg_add 2 c 10.88.2.10
	reg_add 2 d 10.88.2.11
} >/dev/null
says() {
	local want=$1 text=$2 out rc
	shift 2
	out=$("$@" 2>&1)
	rc=$?
	echo "exit $rc: $out"
	[ $rc = "$want" ] && [[ $out == *"$text"* ]]
}
client() {
	local name=$1
	shift
	in_ns "${POD[$name]}" "$O/tests/system/agent_client" "$@"
}
prog() {
	local name=$1 as=$2
	shift 2
	# What another one of this name has said is not this one's.
	: >"$T/$as.out"
	nsenter --net=/proc/"${POD[$name]}"/ns/net "$@" >"$T/$as.out" &
	CLIENT[$as]=$!
	PIDS+=("$!")
	disown "$!"
}
prog_end() { kill "${CLIENT[$1]}" && wait_for 10 is_gone "${CLIENT[$1]}"; }
client_bg() {
	local name=$1 as=$2
	shift 2
	prog "$name" "$as" "$O/tests/system/agent_client" "$@"
}
client_end() {
	kill -USR1 "${CLIENT[$1]}" && wait_for 10 is_gone "${CLIENT[$1]}"
}
# The client has printed this.
printed() { grep -qF -- "$2" "$T/$1.out"; }
soon() { wait_for 10 printed "$@" || { cat "$T/$1.out"; false; }; }
finish() { exit $FAILED; }
[ -z "${NODES_BASH:-}" ] || . "$NODES_BASH"

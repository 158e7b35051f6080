#!/bin/bash
# tests/system/agent.sh: podlaned and podlanectl: start, bad configuration,
# registrations and their records, restart, namespaces that go away.
. "$(dirname "$0")/lib.sh"

A=$O/daemonset/podlaned
node_add 1
agent_config 1

# --- options and configuration ----------------------------------------------

with_config() {
	printf '%s' "$1" >"$T/bad.json"
	shift
	says "$@" "$A" --config "$T/bad.json" --run-dir "$T/bad" --node node1
}
check "version" says 0 "podlaned 0." "$A" --version
check "help lists options" says 0 "--run-dir DIR" "$A" --help
check "unknown option" says 2 "unknown option --frob" "$A" --frob
check "option without value" says 2 "needs a value" "$A" --config
check "unexpected word" says 2 "unexpected word 'x'" "$A" x
check "bad level" says 2 "not 'loud'" "$A" --log-level loud
check "no configuration" says 1 "cannot open $T/none.json" \
	"$A" --config "$T/none.json" --run-dir "$T/bad"
check "no JSON" with_config '{"a":' 1 "not valid JSON at line 1 column"
check "no object" with_config '[]' 1 "must be a JSON object"
check "bad type" with_config '{"stateDir":5}' 1 \
	"stateDir must be a string, not 5"
check "relative path" with_config '{"stateDir":"here"}' 1 \
	"must be an absolute path, not 'here'"
check "bad port" with_config '{"carrier":{"port":70000}}' 1 \
	"carrier.port must be a whole number from 1 to 65535, not 70000"
check "bad carrier" with_config '{"carrier":{"type":"pigeon"}}' 1 \
	"not 'pigeon'"
check "bad limit" with_config '{"limits":{"lanes":-1}}' 1 \
	"limits.lanes must be"
check "bad seccomp" with_config '{"seccomp":1}' 1 \
	"seccomp must be true or false, not 1"
check "bad log level" with_config '{"logLevel":"x"}' 1 "not 'x'"
check "overlay without nodes" with_config '{"overlay":{"type":"vxlan"}}' 1 \
	"needs registry.file"
check "no registry there" with_config \
	'{"registry":{"file":"/nonexistent"},"stateDir":"/tmp",
	"carrier":{"security":"none"}}' 1 "/nonexistent"
check "bad run directory" says 1 "cannot" "$A" --config "$T/n1/agent.json" \
	--run-dir /proc/nowhere --node node1

# --- start ------------------------------------------------------------------

sed -i 's/^{/{"frob":1,"limits":{"frib":2},/' "$T/n1/agent.json"
agent_start 1 || exit 1
log_has() { grep -qF -- "$1" "$T/n1/agent.log"; }
check "unknown keys are named" log_has "key 'frob' is unknown"
check "unknown keys of sections too" log_has "key 'limits.frib' is unknown"
check "run directory in use" says 1 \
	"in use by another agent, process ${AGENT[1]}" \
	in_ns "${NODE[1]}" "$A" --config "$T/n1/agent.json" \
	--run-dir "$T/n1/run" --node node1
proc_has() { grep -qE "^$2:[[:space:]]*$3\$" /proc/"${AGENT[$1]}"/status; }
kept() { # as many of them as this test has
	local own
	own=$((0x$(awk '/^CapPrm/ { print $2 }' /proc/self/status)))
	# DAC_OVERRIDE, NET_ADMIN, SYS_PTRACE, SYS_ADMIN
	printf %016x $((own & (1 << 1 | 1 << 12 | 1 << 19 | 1 << 21)))
}
check "few capabilities" eval 'proc_has 1 CapEff "$(kept)" &&
	proc_has 1 CapPrm "$(kept)" && proc_has 1 CapInh 0+ &&
	proc_has 1 CapAmb 0+'
check "no new privileges" proc_has 1 NoNewPrivs 1
check "a filter of system calls" proc_has 1 Seccomp 2
check "the socket is root's" [ "$(stat -c %a "$T/n1/run/agent.sock")" = 600 ]
has() { ctl 1 -o json "$1" | jq -e "$2"; }
check "status" has status '.ok and .name == "node1" and .overlay == "up"
	and .podCIDRs == ["10.88.1.0/24"] and .mtu >= 1280'
check "nodes" has nodes '.[0].name == "node1" and .[0].state == "this node"'
check "table" says 0 "NODE   VERSION" ctl 1 status
check "ctl: unknown command" says 2 "unknown command 'frob'" ctl 1 frob
check "ctl: no command" says 2 "which command?" ctl 1
check "ctl: bad format" says 2 "table or json" ctl 1 -o xml pods
check "ctl: words after it" says 2 "unexpected word" ctl 1 pods more
check "ctl: options after it" says 0 "[]" ctl 1 pods -o json
check "ctl: version" says 0 "podlaned 0." ctl 1 version
check "ctl: no agent" says 1 "is podlaned running?" \
	"$O/daemonset/podlanectl" --run-dir "$T/none" status
check "ctl: no agent, version" says 0 "(not running)" \
	"$O/daemonset/podlanectl" --run-dir "$T/none" version

# --- registrations ----------------------------------------------------------

# The pod's agent says who the pod is.
sees() { says 0 "$2" client "$1" hello; }
reg_add 1 a 10.88.1.10 >/dev/null
check "add" [ $? = 0 ]
reg_add 1 b 10.88.1.11 other >/dev/null
check "add another" [ $? = 0 ]
check "the same again" ask 1 "$(reg_json 1 a add)" "/proc/${POD[a]}/ns/net"
check "pods" has pods 'length == 2 and .[0].listening and
	(map(.pod.name) == ["a","b"]) and .[1].pod.namespace == "other"'
check "check" ask 1 "$(reg_json 1 a check)"
check "each pod is who it is" sees a "connected node1 10.88.1.10"
check "and not another one" sees b "connected node1 10.88.1.11"
check "nobody listens on the node" says 3 "no agent" \
	in_ns "${NODE[1]}" "$O/tests/system/agent_client" hello
IP[x]=10.88.1.99 POD[x]=${POD[a]}
check "check of what is not there" says 1 "net@x@eth0 is not registered" \
	ask 1 "$(reg_json 1 x check)"
old=${IP[a]} IP[a]=10.88.1.98
check "check with another address" says 1 "with address 10.88.1.98" \
	ask 1 "$(reg_json 1 a check)"
IP[a]=$old
check "add without descriptor" says 1 "without the descriptor" \
	ask 1 "$(reg_json 1 x add)"
check "add with another namespace" says 1 "is not the namespace" \
	ask 1 "$(reg_json 1 x add)" "/proc/${POD[b]}/ns/net"
check "add with a file" says 1 "is not the namespace" \
	ask 1 "$(reg_json 1 x add)" /dev/null
check "add with a bad name" says 1 "containerID is not well formed" \
	ask 1 "$(reg_json 1 x add | sed 's/"x"/"..\/x"/')" "/proc/${POD[a]}/ns/net"
check "add with a bad address" says 1 "addresses[0]" \
	ask 1 "$(reg_json 1 x add | sed 's/10.88.1.99/nowhere/')" \
	"/proc/${POD[a]}/ns/net"
check "unknown operation" says 1 "knows no operation 'frob'" \
	ask 1 '{"op":"frob"}'
check "no operation" says 1 "knows no operation" ask 1 '{}'
second=$(reg_json 1 a add | sed 's/eth0/net1/; s/1\.10/1.20/')
check "a second network of a pod" ask 1 "$second" "/proc/${POD[a]}/ns/net"
check "is the same pod" has status '.pods == 2'
check "del of one of two" ask 1 "$(echo "$second" | sed s/add/del/)"
check "leaves the pod" sees a "connected node1 10.88.1.10"
check "records" [ "$(ls "$T/n1/state/pods" | tr '\n' ' ')" = \
	"net@a@eth0.json net@b@eth0.json " ]

# --- del, gc ----------------------------------------------------------------

reg_add 1 c 10.88.1.12 >/dev/null
client_bg c watch_c watch
soon watch_c connected
check "del" ask 1 "$(reg_json 1 c del)"
check "del closes connections" soon watch_c "agent gone"
check "del ends the listener" says 3 "no agent" client c hello
check "del again" ask 1 "$(reg_json 1 c del)"
check "del of nonsense" ask 1 '{"op":"del","network":7}'
check "the record is gone" [ ! -e "$T/n1/state/pods/net@c@eth0.json" ]
reg_add 1 d 10.88.1.13 >/dev/null
check "gc of a bad list" says 1 "containerID" ask 1 \
	'{"op":"gc","network":"net","valid":[{"ifname":"eth0"}]}'
check "drops nothing" has status '.pods == 3'
check "gc of another network" [ "$(ask 1 \
	'{"op":"gc","network":"other","valid":[]}' | jq .dropped)" = 0 ]
check "gc" [ "$(ask 1 '{"op":"gc","network":"net","valid":[
	{"containerID":"a","ifname":"eth0"},
	{"containerID":"b","ifname":"eth0"}]}' | jq .dropped)" = 1 ]
check "gc dropped the pod" says 3 "no agent" client d hello

# --- restart ----------------------------------------------------------------

client_bg a watch_a watch
soon watch_a connected
check "SIGKILL" agent_stop 1 KILL
check "clients see it" soon watch_a "agent gone"
: >"$T/n1/state/pods/net@empty@eth0.json"
echo '{"a":1}' >"$T/n1/state/pods/net@wrong@eth0.json"
sed 's/"boot":"[^"]*"/"boot":"x"/; s/@a@/@boot@/; s/"a"/"boot"/' \
	"$T/n1/state/pods/net@a@eth0.json" >"$T/n1/state/pods/net@boot@eth0.json"
echo x >"$T/n1/state/pods/net@t@eth0.json.tmp.77"
# As if its namespace had ended and another one had taken its number.
reused=$(sed 's/"cookie":"[0-9]*"/"cookie":"1"/; s/"a"/"reused"/' \
	"$T/n1/state/pods/net@a@eth0.json")
printf '%s' "$reused" >"$T/n1/state/pods/net@reused@eth0.json"
kill -KILL "${POD[b]}"
wait_for 5 is_gone "${POD[b]}"
agent_start 1 || exit 1
check "a pod is listened for again" sees a "connected node1 10.88.1.10"
check "a pod that is gone is dropped" has pods 'map(.pod.name) == ["a"]'
check "records of no use are removed" \
	[ "$(ls "$T/n1/state/pods")" = "net@a@eth0.json" ]
check "the socket outlives a restart" ask 1 "$(reg_json 1 a check)"

# --- a namespace that goes away while the agent runs --------------------------

reg_add 1 e 10.88.1.14 >/dev/null
kill -KILL "${POD[e]}"
dropped() { has pods 'map(.pod.name) == ["a"]'; }
check "a namespace that ends is noticed" wait_for 15 dropped

# --- end --------------------------------------------------------------------

check "SIGTERM" agent_stop 1 TERM
check "ends well" [ ! -e "$T/n1/run/agent.sock" ]
nsenter --net=/proc/"${NODE[1]}"/ns/net "$A" --config "$T/n1/agent.json" \
	--run-dir "$T/n1/run" --node node1 2>/dev/null &
pid=$!
PIDS+=("$pid")
wait_for 10 agent_ready 1
kill -INT $pid
wait $pid
check "SIGINT: exit status 0" [ $? = 0 ]
finish

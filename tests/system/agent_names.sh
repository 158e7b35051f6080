#!/bin/bash
# tests/system/agent_names.sh: nodes whose names are as long as Kubernetes allows.
. "$(dirname "$0")/lib.sh"

# A DNS name of 253 bytes that ends with $1.
long_name() {
	local l
	l=$(printf 'n%.0s' {1..62})
	printf '%s.%sa.%sb.%s%s' "${l}x" "$l" "$l" "${l:2}" "$1"
}
NODE_NAME[1]=$(long_name 1)
NODE_NAME[2]=$(long_name 2)
node_add 1
node_add 2
check "names have 253 bytes" [ ${#NODE_NAME[2]} = 253 ]
agent_config 1
agent_config 2
agent_start 1 || exit 1
agent_start 2 || exit 1
reg_add 1 a 10.88.1.10 >/dev/null
reg_add 2 b 10.88.2.10 >/dev/null
check "a pod is told all of it" says 0 "connected ${NODE_NAME[1]} 10.88.1.10" \
	client a hello
cut_name() { WIRE=$1 client a hello; }
for v in 1 2; do
	check "one of version $v what it has room for" says 0 \
		"connected ${NODE_NAME[1]:0:63} 10.88.1.10" cut_name $v
done
client_bg b srv listen svc same 1
soon srv listening
check "such nodes connect" says 0 "got pong" \
	client a connect 10.88.2.10 svc 10000
is_up() {
	ctl 1 -o json nodes | jq -e --arg n "${NODE_NAME[2]}" \
		'.[] | select(.name == $n) | .state == "up"'
}
check "podlanectl has it" is_up
for n in 1 2; do
	check "agent $n ends well" agent_stop $n
done
NODE_NAME[1]+=x
check "a longer one is refused" says 1 \
	"--node: a name is not longer than 253 bytes" \
	"$O/daemonset/podlaned" --config "$T/n1/agent.json" \
	--run-dir "$T/n1/run" --node "${NODE_NAME[1]}"
finish

#!/bin/bash
# tests/system/agent_undo.sh: the agent executes DEL for pods whose namespace
# is gone and whose runtime never did it. What the agent finds when it starts
# is what it finds every 10 s, so it is restarted here instead of waited for.
. "$(dirname "$0")/lib.sh"
node_add 1
agent_start 1 || exit 1
host() { in_ns "${NODE[1]}" "$@"; }
conf_masq() { conf 1 | jq -c '. + {ipMasq: true}'; }
add() { # NAME
	ns_add
	POD[$1]=$PID
	conf_masq | cni 1 ADD "$PID" "$1" >"$T/$1.result" || cat "$T/$1.result"
}
address() { jq -r '.ips[0].address' "$T/$1.result" | cut -d/ -f1; }
reserved() { [ -e "$T/n1/ipam/podlane/$(address "$1")" ]; }
state() { find "$T/n1/cni" "$T/n1/state/pods" -type f \( -name "$1:*" -o -name "*@$1@*" \); }
rules() { host nft list ruleset | grep -wF "$(address "$1")"; }
gone() { ! reserved "$1" && ! state "$1" | grep . && ! rules "$1"; }
here() { reserved "$1" && state "$1" | grep -q .; }
end_of() {
	kill -KILL "${POD[$1]}"
	wait_for 5 is_gone "${POD[$1]}"
}
restart() { agent_stop 1 KILL && agent_start 1; }
logged() { grep -qF -- "$1" "$T/n1/agent.log"; }

for n in a b c; do add $n; done
check "three pods" eval 'here a && here b && here c'
check "with rules" rules a
end_of a
end_of b
check "nobody sends DEL" eval 'here a && here b'
restart || exit 1
check "it gives back what the first had" wait_for 15 gone a
check "and the second" wait_for 15 gone b
check "the third is spared" eval 'here c && rules c &&
	in_ns "${POD[c]}" ip link show eth0'
check "its interfaces are gone" [ "$(host ip -o link show type veth | grep -vc ' u@')" = 1 ]
check "the agent still serves" [ "$(ctl 1 status -o json | jq .pods)" = 1 ]
check "DEL of the runtime, late" eval 'conf_masq | cni 1 DEL "" a && here c'

# The path of the namespace goes with its process; another lives on in it.
add d
nsenter --net=/proc/"${POD[d]}"/ns/net sleep 100000 &
OTHER=$!
PIDS+=("$OTHER")
disown "$OTHER"
wait_for 5 ns_is_new "$OTHER"
end_of d
restart || exit 1
check "it drops the pod" wait_for 5 logged 'reg=podlane@d@eth0'
sleep 3
check "an address in use is not given back" here d
check "and can be used" in_ns "$OTHER" ping -c 1 -W 5 -q 10.88.1.1
kill -KILL "$OTHER"
check "until the namespace is gone" wait_for 15 gone d

# A DEL that fails is tried again.
add e
chmod 000 "$T/n1/cni/podlane"
mv "$T/n1/ipam" "$T/n1/ipam.away"
echo >"$T/n1/ipam"
end_of e
restart || exit 1
check "a DEL that fails is told" wait_for 15 logged 'DEL by'
check "the record stays" [ -e "$T/n1/state/pods/podlane@e@eth0.json" ]
chmod 700 "$T/n1/cni/podlane"
rm "$T/n1/ipam"
mv "$T/n1/ipam.away" "$T/n1/ipam"
check "and done again" wait_for 30 gone e

# Without a plugin to execute, and with one that does not exist.
undo() { reg_json 1 "$1" add | jq -c ".undo = $2"; }
reg_add 1 f 10.88.1.200 >/dev/null
check "a bad undo is refused" says 1 "undo.plugin" \
	ask 1 "$(undo f '{"plugin":"here","stateDir":"/"}')" "/proc/${POD[f]}/ns/net"
check "one that is too long" says 1 "undo.stateDir" \
	ask 1 "$(undo f "{\"plugin\":\"/p\",\"stateDir\":\"/$(printf %0600d 0)\"}")" \
	"/proc/${POD[f]}/ns/net"
ask 1 "$(undo f '{"plugin":"/no/plugin","stateDir":"/no"}' | sed 's/"f"/"g"/')" \
	"/proc/${POD[f]}/ns/net" >/dev/null
end_of f
restart || exit 1
check "a plugin that is not there is told" wait_for 15 logged 'cannot execute /no/plugin'
check "without undo the record goes at once" [ ! -e "$T/n1/state/pods/net@f@eth0.json" ]
check "with it, it stays" [ -e "$T/n1/state/pods/net@g@eth0.json" ]
check "the agent ends" agent_stop 1
finish

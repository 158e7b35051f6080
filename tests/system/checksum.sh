#!/bin/bash
# tests/system/checksum.sh: checksums of lanes, by the program and by the
# agent's configuration; a byte that changes between two nodes.
. "$(dirname "$0")/lib.sh"

node_add 1
node_add 2
agent_config 1
agent_config 2
has() { ctl "$1" -o json "$2" | jq -e "$3"; }
in_pod() { # POD AS PROGRAM ARG...: in the background, output in AS.out
	local pod=$1 as=$2
	shift 2
	nsenter --net=/proc/"$pod"/ns/net "$@" >"$T/$as.out" 2>&1 &
	CLIENT[$as]=$!
	PIDS+=("$!")
	disown "$!"
}
stop() { kill "${CLIENT[$1]}" && wait_for 10 is_gone "${CLIENT[$1]}"; }
PODS=$O/tests/system/sum_pods
log_has() { grep -qF -- "$2" "$T/n$1/agent.log"; }

# A proxy in node 1 and one in node 2, whoever connects to the other.
proxy() { # N OTHER
	in_ns "${NODE[$1]}" nft -f - <<-END
	table ip flip {
		chain out {
			type nat hook output priority -100
			meta mark 77 accept
			ip daddr 10.99.0.$2 tcp dport 7471 redirect to :7999
		}
	}
	END
	in_pod "${NODE[$1]}" "proxy$1" "$O/tests/system/flip_proxy" 7999 \
		"10.99.0.$2" 7471
}
if ! proxy 1 2 2>"$T/nft.err"; then
	skip checksums "$(head -n 1 "$T/nft.err")"
	finish
fi
proxy 2 1
agent_start 1 || exit 1
agent_start 2 || exit 1
reg_add 1 a 10.88.1.10 >/dev/null
reg_add 2 b 10.88.2.10 >/dev/null
reg_add 2 c 10.88.2.11 >/dev/null
flipped() { [ "$(cat "$T"/proxy?.out | grep -c flipped)" = 1 ]; }
pod_has() { has "$1" pods ".[] | select(.pod.name == \"$2\") | $3"; }

# --- a byte that changes ------------------------------------------------------

in_pod "${POD[b]}" take "$PODS" take svc
soon take listening
in_pod "${POD[a]}" send "$PODS" send 10.88.2.10 svc 5000 2
check "a byte changes between the nodes" wait_for 20 flipped
check "the receiver is told: EBADMSG" soon take "end 74"
short() { [ "$(sed -n 's/received //p' "$T/take.out")" -lt 320000 ]; }
check "and did not get it" short
check "the sender sees the end" soon send "peer ended"
told() { log_has 2 "pod=default/b" && log_has 2 "checksum mismatch: lane=" &&
	grep -q "checksum mismatch.*service=svc from=10.88.1.10 to=10.88.2.10" \
		"$T/n2/agent.log"; }
check "the agent says which lane" wait_for 10 told
check "it is counted" pod_has 2 b '.received.checksumErrors == 1'
check "only there" pod_has 1 a '.received.checksumErrors == 0'
stop take

# --- bytes that stay ----------------------------------------------------------

in_pod "${POD[b]}" take2 "$PODS" take svc
soon take2 listening
in_pod "${POD[a]}" send2 "$PODS" send 10.88.2.10 svc 100000 2
check "bytes with a checksum arrive" soon take2 "received 6400000"
check "in good order" soon take2 "end 0"
stop take2

# A lane that is open, to be looked at.
ECHO=$O/shm/examples/lane_echo
TALK=$O/tests/system/stats_pods
lane() { has "$1" lanes ".[] | select(.service == \"echo\") | $2"; }
in_pod "${POD[b]}" srv "$ECHO" serve echo
listens() { pod_has 2 b '.listeners == 1'; }
wait_for 10 listens
in_pod "${POD[a]}" talk "$TALK" talk 10.88.2.10 echo 100 70000
soon talk "done"
check "without the option there are none" lane 1 \
	'.sentChecksum == false and .receivedChecksum == false'
stop talk
for n in 1 2; do
	agent_stop $n
	sed -i 's/^{/{"checksum":true,/' "$T/n$n/agent.json"
done
agent_start 1 || exit 1
agent_start 2 || exit 1
# Libraries that were there before take the agents' word, too.
wait_for 10 listens
in_pod "${POD[a]}" talk2 "$TALK" talk 10.88.2.10 echo 300 70000
check "by the configuration" soon talk2 "done"
check "both ways" lane 1 '.sentChecksum and .receivedChecksum'
check "seen from there, too" lane 2 '.sentChecksum and .receivedChecksum'
stop talk2

# --- agents that die ----------------------------------------------------------

in_pod "${POD[a]}" chat "$TALK" chat 10.88.2.10 echo 100000 0
soon chat started
sent() { ctl 1 -o json lanes | jq '.[0].sentBytes'; }
goes_on() { [ "$(sent)" -gt "$1" ]; }
for n in 1 2 1 2; do
	agent_stop $n KILL
	agent_start $n || exit 1
done
open_lane() { lane 1 '.state == "open" and .sentChecksum'; }
wait_for 20 open_lane
check "a lane goes on with other agents" wait_for 20 goes_on "$(sent)"
check "nothing was wrong" [ "$(cat "$T/n1/agent.log" "$T/n2/agent.log" |
	grep -c 'checksum mismatch')" = 1 ]
check "its program lives" kill -0 "${CLIENT[chat]}"
stop chat
stop srv

# --- within a node ------------------------------------------------------------

in_pod "${POD[c]}" srv3 "$ECHO" serve echo
listens_c() { pod_has 2 c '.listeners == 1'; }
wait_for 10 listens_c
in_pod "${POD[b]}" talk3 "$TALK" talk 10.88.2.11 echo 300 70000
soon talk3 "done"
check "within a node" lane 2 '.sentChecksum and .receivedChecksum and
	.path == "shm"'
stop talk3
stop srv3
agent_stop 1
agent_stop 2
finish

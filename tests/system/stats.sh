#!/bin/bash
# tests/system/stats.sh: what podlanectl says of lanes and pods: counts of both
# ends, sums, quotas; of lanes to other nodes, of libraries that do not count,
# and of pods that lie.
. "$(dirname "$0")/lib.sh"

node_add 1
node_add 2
agent_config 1
sed -i 's/^{/{"limits":{"listeners":2,"lanes":5,"regions":6,"bytes":20000000},/' \
	"$T/n1/agent.json"
agent_start 1 || exit 1
agent_start 2 || exit 1
reg_add 1 a 10.88.1.10 >/dev/null
reg_add 1 b 10.88.1.11 >/dev/null
reg_add 2 c 10.88.2.10 >/dev/null
has() { ctl "$1" -o json "$2" | jq -e "$3"; }
# pod_has N NAME FILTER
pod_has() { has "$1" pods ".[] | select(.pod.name == \"$2\") | $3"; }
ECHO=$O/shm/examples/lane_echo
PODS=$O/tests/system/stats_pods
lanes() { has "$1" lanes "length == $2"; }

# --- within a node ----------------------------------------------------------

prog b srv "$ECHO" serve svc
listens() { pod_has "$1" "$2" ".listeners == 1"; }
wait_for 10 listens 1 b
prog a cli "$PODS" talk 10.88.1.11 svc 100 64
check "a lane with traffic" soon cli "done"
check "bytes and messages" has 1 lanes 'length == 1 and (.[0] |
	.sentBytes == 6400 and .receivedBytes == 6400 and
	.sentMessages == 100 and .receivedMessages == 100)'
check "pods by name" has 1 lanes \
	'.[0] | .fromPod == "default/a" and .toPod == "default/b"'
check "each end by itself" has 1 lanes '.[0] |
	.fromEnd.sent.bytes == 6400 and .fromEnd.received.bytes == 6400 and
	.toEnd.received.messages == 100 and
	.fromEnd.received.waits + .toEnd.received.waits >= 1 and
	.fromEnd.sent.errors == 0 and .carried == null'
check "a table" says 0 "MESSAGES" ctl 1 lanes
check "sums of an open lane" pod_has 1 a '.sent.bytes == 6400 and
	.received.messages == 100 and .lanesEver == 1 and .lanes == 1'
prog_end cli
wait_for 10 lanes 1 0
check "a lane that is gone stays in the sums" pod_has 1 a '.sent.bytes == 6400
	and .sent.messages == 100 and .lanes == 0 and .lanesEver == 1'
check "of both pods" pod_has 1 b '.sent.bytes == 6400'
prog_end srv
counts() { # NAME FILTER: what is in shared memory
	ctl 1 -o json counts |
		jq -e ".[] | select(.pod.name == \"$1\") | $2"
}
check "without asking the agent" counts a '.sent.bytes == 6400 and
	.sent.messages == 100 and .lanesEnded == 1 and .refused.quota == 0'
check "as a table" says 0 "COMPLAINTS" ctl 1 counts

# --- the agent goes -----------------------------------------------------------

# A lane that goes on without its agent is counted once, however the agent ends.
prog b srv "$ECHO" serve svc
wait_for 10 listens 1 b
prog a cli "$PODS" talk 10.88.1.11 svc 10 64
soon cli "done"
agent_stop 1 KILL
check "sums are there while no agent is" counts a '.sent.bytes == 6400'
check "whose absence others' commands say" says 1 "is podlaned running" ctl 1 pods
agent_start 1 || exit 1
sums() { # BYTES MESSAGES LANES LANES-EVER
	pod_has 1 a ".sent.bytes == $1 and .sent.messages == $2 and
		.lanes == $3 and .lanesEver == $4" &&
		pod_has 1 b ".received.bytes == $1 and .lanesEver == $4"
}
check "an agent that was killed" wait_for 20 sums 7040 110 1 2
agent_stop 1 TERM
agent_start 1 || exit 1
check "one that was stopped" wait_for 20 sums 7040 110 1 2
prog_end cli
check "and the end of its lane" wait_for 10 sums 7040 110 0 2
agent_stop 1 TERM
agent_start 1 || exit 1
check "which the next one does not forget" sums 7040 110 0 2
prog_end srv
reg_add 1 gone 10.88.1.20 >/dev/null
check "a new pod has done nothing" counts gone '.lanesEnded == 0'
ask 1 "$(reg_json 1 gone del)" >/dev/null
check "one that is gone leaves no file" says 4 "" counts gone .
reg_add 1 gone 10.88.1.20 >/dev/null
agent_stop 1 KILL
kill -KILL "${POD[gone]}"
wait_for 10 is_gone "${POD[gone]}"
agent_start 1 || exit 1
check "nor does one that goes meanwhile" says 4 "" counts gone .

# --- quotas -----------------------------------------------------------------

check "limits are shown" pod_has 1 a '.limits | .lanes == 5 and
	.bytes == 20000000 and .listeners == 2'
check "in the table, too" says 0 "0/5" ctl 1 pods
check "a refused region" says 3 EDQUOT client a region big 30000000 same
check "is counted" pod_has 1 a '.refused.quota == 1'
check "for that pod" pod_has 1 b '.refused.quota == 0'
client_bg b hold listen hold same -9
soon hold listening
reg_add 1 d 10.88.1.12 other >/dev/null
check "a refused pod" says 3 EACCES client d connect 10.88.1.11 hold 1000
check "is counted at whom it wanted" pod_has 1 b '.refused.policy == 1'

# --- old ones and liars -----------------------------------------------------

client_bg a old lanes 10.88.1.11 hold 1
soon old all
check "a library that does not count" has 1 lanes '.[0] |
	.fromEnd.sent == {"bytes":0} and has("sentMessages") == false'
kill "${CLIENT[old]}"
wait_for 10 is_gone "${CLIENT[old]}"
client_bg a liar liar 10.88.1.11 hold
soon liar connected
check "a liar's numbers are cut" has 1 lanes '[.[] |
	select(.sentBytes >= 4.6e18 and
	.sentMessages >= 4.6e18 and
	.fromEnd.received.waits >= 4.6e18)] | length == 1'
check "and can be shown" says 0 "4096.0P" ctl 1 lanes
client_end liar
check "so are sums" pod_has 1 a '.sent.bytes >= 4.6e18'
check "others' are as before" pod_has 1 b '.sent.messages == 110'
kill "${CLIENT[hold]}"

# --- rates --------------------------------------------------------------------

prog b srv2 "$ECHO" serve chat
chatting() { pod_has 1 b '.listeners >= 1'; }
wait_for 10 chatting
prog a chat "$PODS" chat 10.88.1.11 chat 1000 1
soon chat started
CTL=$O/daemonset/podlanectl
# Runs until it is killed, or its reader has gone.
watch() { # AS ARG...
	local as=$1
	shift
	"$CTL" --run-dir "$T/n1/run" lanes --watch 0.2 "$@" >"$T/$as.out" \
		2>"$T/$as.err" &
	CLIENT[$as]=$!
	PIDS+=("$!")
}
ended() { # AS SIGNAL STATUS
	kill "-$2" "${CLIENT[$1]}"
	wait "${CLIENT[$1]}"
	[ $? = "$3" ]
}
lines() { [ "$(grep -c . "$T/$1.out")" -ge "$2" ]; }
watch json --json
wait_for 10 lines json 3
ended json INT 0
check "SIGINT ends it well" [ $? = 0 ]
rated() {
	jq -se 'length >= 3 and all(.seconds >= 0.2 and (.lanes | length == 1 and
		(.[0] | .fromPod == "default/a" and .toPod == "default/b" and
		.service == "chat" and .sentBytesPerSecond > 0 and
		.sentMessagesPerSecond > 0 and .receivedBytesPerSecond > 0 and
		.receivedMessagesPerSecond > 0 and (.sentBytesPerSecond /
		.sentMessagesPerSecond | . > 999 and . < 1001))))' "$T/json.out" ||
		{ cat "$T/json.out"; return 1; }
}
check "a document for each interval" rated
watch table
wait_for 10 lines table 6
ended table TERM 0
check "SIGTERM, too" [ $? = 0 ]
check "a table" grep -q 'default/a  default/b  chat' "$T/table.out"
check "without a terminal's codes" says 1 "" grep -q "$(printf '\033')" "$T/table.out"
screen() {
	timeout -s INT 3 script -qec "$CTL --run-dir $T/n1/run lanes --watch 0.2" \
		/dev/null </dev/null >"$T/screen.out" 2>&1
	grep -q "$(printf '\033')\[H.*rates over" "$T/screen.out" &&
		grep -q 'default/a  default/b' "$T/screen.out" ||
		{ od -c "$T/screen.out" | head -20; return 1; }
}
if command -v script >/dev/null; then
	check "a terminal is drawn anew" screen
else
	skip "a terminal is drawn anew" "there is no script(1)"
fi
one_line() { # of one that would go on for ever
	timeout 10 bash -o pipefail -c '"$0" --run-dir "$1" lanes --watch 0.1 \
		--json | head -n 1 >"$2"' "$CTL" "$T/n1/run" "$T/head.out" &&
		jq -e '.lanes | length == 1' "$T/head.out"
}
check "a reader that goes ends it well" one_line
watch restart --json
wait_for 10 lines restart 1
agent_stop 1 KILL
errors() { grep -q '"error"' "$T/restart.out"; }
check "an agent that is away is said" wait_for 10 errors
agent_start 1 || exit 1
shown() { has 1 lanes 'length == 1'; }
wait_for 20 shown
# The last line, which is whole, has rates of the lane again.
rates_again() {
	jq -se 'last | .lanes | length == 1 and .[0].sentBytesPerSecond > 0' \
		"$T/restart.out"
}
check "the next one's rates are shown" wait_for 10 rates_again
check "it was said once" [ "$(grep -c 'waiting for it' "$T/restart.err")" = 1 ]
ended restart INT 0
check "and it ends well" [ $? = 0 ]
check "no agent at first" says 1 "is podlaned running" \
	"$CTL" --run-dir "$T/none" lanes --watch
check "a wrong interval" says 2 "0.1 to 3600" ctl 1 lanes --watch soon
check "not for pods" says 2 "lanes only" ctl 1 pods --watch
prog_end chat
kill "${CLIENT[srv2]}"

# --- between nodes ----------------------------------------------------------

prog c far "$ECHO" serve far
wait_for 10 listens 2 c
prog b cli2 "$PODS" talk 10.88.2.10 far 50 1000
check "a lane to another node" soon cli2 "done"
far_lane() { ctl 1 -o json lanes | jq -e ".[] | select(.service == \"far\") | $1"; }
check "its messages" wait_for 10 far_lane '.sentBytes == 50000 and
	.sentMessages == 50 and .receivedMessages == 50 and .toEnd == null'
check "what the agent carried" far_lane '.carried | .putBytes == 50000 and
	.puts >= 1 and .puts <= 50 and .counterPuts >= 1 and .notifies >= 1 and
	.rungByPod >= 1 and .againBytes == 0 and .resumes == 0'
check "seen from there" has 2 lanes '.[0] | .sentMessages == 50 and
	.fromEnd == null and .toEnd.received.bytes == 50000 and
	.carried.putBytes == 50000'
agent_stop 2 KILL
agent_start 2 || exit 1
again() { far_lane '.state == "open" and .carried.resumes == 1'; }
check "it is resumed" wait_for 20 again
check "what the pods counted goes on" has 2 lanes '.[0].sentMessages == 50 and
	.[0].toEnd.received.bytes == 50000'
prog_end cli2
prog_end far
agent_stop 1
agent_stop 2
finish

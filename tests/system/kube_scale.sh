#!/bin/bash
# tests/system/kube_scale.sh: an agent with 250 pods in a cluster of 5,000 nodes
# that come, go and change: its memory has a bound; CPU time and the time until
# the overlay is programmed are printed.
. "$(dirname "$0")/lib.sh"
. tests/system/kube.bash

NODES=5000
PODS=250
RSS_MAX_KB=30720
node_add 1
api_start || exit 1
api_node 1
api "{\"op\":\"nodes\",\"first\":0,\"count\":$((NODES - 1)),\"padding\":80}" \
	>/dev/null
api '{"op":"set","piece":16384}' >/dev/null
kube_config 1 '"logLevel":"debug"'
ticks() { awk '{ print $14 + $15 }' "/proc/${AGENT[1]}/stat"; }
# The allocator gives back what it can at each change.
rss_kb() { awk '/^VmRSS/ { print $2 }' "/proc/${AGENT[1]}/status"; }
peak_kb() { awk '/^VmHWM/ { print $2 }' "/proc/${AGENT[1]}/status"; }
cpu() { awk -v a="$(ticks)" -v b="$1" -v hz="$(getconf CLK_TCK)" "BEGIN { printf \"%.2f\", (a - b) / hz }"; }
now_ms() { date +%s%3N; }
shown() { [ "$(ctl 1 -o json nodes | jq length)" = "$1" ]; }
routes() { [ "$(in_ns "${NODE[1]}" ip route show dev podlane.1 | wc -l)" -ge "$1" ]; }
small() { kb=$(rss_kb); echo "resident: $kb kB"; [ "$kb" -le $RSS_MAX_KB ]; }
memory() { sanitized || check "memory $1" small; }
sanitized && skip "memory" "sanitizers need more"

began=$(now_ms)
agent_start 1 || exit 1
wait_for 120 routes $((NODES - 1))
ended=$(now_ms)
check "all nodes are known" shown $NODES
check "and reached by the overlay" routes $((NODES - 1))
echo "# $NODES nodes: serving and overlay programmed after $((ended - began)) ms, with $(cpu 0) s of CPU time; resident $(rss_kb) kB, at most $(peak_kb) kB"
for ((i = 0; i < PODS; i++)); do
	reg_add 1 "p$i" "10.88.1.$((i + 2))" "team$((i % 7))" >/dev/null
done
all_pods() { [ "$(ctl 1 -o json pods | jq length)" = $PODS ]; }
check "$PODS pods" all_pods
memory "with all of them"
answer_ms() {
	in_ns "${NODE[1]}" python3 - <<-'EOT'
	import time, urllib.request
	best = []
	for i in range(5):
	    t = time.monotonic()
	    n = len(urllib.request.urlopen("http://127.0.0.1:7472/metrics").read())
	    best.append(time.monotonic() - t)
	print("%.1f ms (median of 5), %d bytes" % (sorted(best)[2] * 1e3, n))
	EOT
}
echo "# /metrics with all of them: $(answer_ms)"
echo "# $PODS pods more: resident $(rss_kb) kB, at most $(peak_kb) kB"

# Ten seconds as they are in such a cluster: each node's heartbeat every five
# minutes, and a rolling replacement beside.
t=$(ticks)
for ((i = 0; i < 10; i++)); do
	api "{\"op\":\"touch\",\"first\":$((i * 17)),\"count\":17}" >/dev/null
	api "{\"op\":\"delete\",\"name\":\"n0010$i\"}" >/dev/null
	api "{\"op\":\"node\",\"name\":\"r$i\",\"address\":\"10.120.0.$((i + 1))\",\"cidrs\":[\"172.31.$i.0/26\"]}" >/dev/null
	sleep 1
done
is_changed() { ctl 1 -o json nodes |
	jq -e 'any(.[]; .name == "r9") and all(.[]; .name != "n00109")'; }
check "churn has come" wait_for 20 is_changed
check "in the overlay, too" wait_for 20 in_ns "${NODE[1]}" \
	ip route get 172.31.9.1 oif podlane.1
echo "# 10 s of churn: $(cpu "$t") s of CPU time"
memory "after it"
t=$(ticks)
sleep 5
echo "# 5 s without: $(cpu "$t") s of CPU time"

# 5,000 nodes are listed again, and nothing else changes.
forget
api '{"op":"set","down":true}' >/dev/null
sleep 1
api '{"op":"touch","first":0,"count":1}' >/dev/null
api '{"op":"compact"}' >/dev/null
t=$(ticks)
api '{"op":"set","down":false}' >/dev/null
listed() { asked nodes 'any(.[]; .path | contains("continue=")) and length >= 10'; }
check "a list of all again" wait_for 60 listed
well() { ctl 1 -o json status | jq -e '.registry == "ok"'; }
check "is read to its end" wait_for 60 well
echo "# all nodes listed again: $(cpu "$t") s of CPU time"
memory "after that"
no_peers() { [ -z "$(in_ns "${NODE[1]}" ss -Htn "dport = 7471 or sport = 7471")" ]; }
check "no connection to any of them" no_peers
agent_stop 1
began=$(now_ms)
agent_start 1
echo "# serving again after $(($(now_ms) - began)) ms, with $PODS pods and $NODES nodes, from disk"
check "from disk, all pods" all_pods
check "... and all nodes" shown $NODES
memory "of the next agent"
check "the agent ends well" agent_stop 1
finish

#!/bin/bash
# tests/system/metrics.sh: what an agent says of itself by HTTP.
. "$(dirname "$0")/lib.sh"

two_agents || exit 1
four_pods
# get N PATH [METHOD]: the answer of the agent, with its head
get() {
	in_ns "${NODE[$1]}" python3 - "$2" "${3:-GET}" <<-'EOF'
	import socket, sys
	s = socket.create_connection(("127.0.0.1", 7472))
	s.sendall(("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	    % (sys.argv[2], sys.argv[1])).encode())
	while d := s.recv(65536):
	    sys.stdout.buffer.write(d)
	EOF
}
body() { get "$@" | sed '1,/^\r$/d'; }
# metric N NAME VALUE: the sum of these series
metric() {
	local v
	v=$(body "$1" /metrics | python3 tests/system/prom_check.py "$2")
	echo "$2 is $v"
	[ "$v" = "$3" ]
}
format() { body 1 /metrics | python3 tests/system/prom_check.py; }

check "alive" says 0 "200 OK" get 1 /healthz
check "ready" says 0 "200 OK" get 1 /readyz
check "nothing else" says 0 "404 Not" get 1 /etc/passwd
check "HEAD" says 0 "200 OK" get 1 /metrics HEAD
check "no other method" says 0 "501 " get 1 /metrics DELETE
check "the format" says 0 "series of" format
check "pods" metric 1 podlane_pods 2
if [ -d /sys/class/infiniband ]; then
	skip "no word of RDMA" "this machine has it"
else
	check "no word of RDMA where there is none" says 1 "" \
		grep -i rdma "$T/n1/agent.log"
	check "... nor a connection" metric 1 podlane_verbs_connections 0
fi
check "requests of the plugin" metric 1 \
	'podlane_requests_total{op="add",code="OK"}' 2
check "how long they took" metric 1 \
	'podlane_request_duration_seconds_count{op="add"}' 2
client_bg c srv listen svc same 9
soon srv listening
client_bg a lane lanes 10.88.2.10 svc 1
soon lane all
check "a lane to another node" metric 1 'podlane_lanes{path="tcp"}' 1
check "... seen from there" metric 2 'podlane_lanes{path="tcp"}' 1
check "... by pod" metric 1 'podlane_pod_lanes{namespace="default",pod="a"}' 1
check "... and by node" metric 1 'podlane_peer_lanes{node="node2"}' 1
check "that node is connected" metric 1 podlane_peers_connected 1
kill -KILL "${CLIENT[lane]}"
says 0 "got pong" client a connect 10.88.2.10 svc 10000 >/dev/null
bytes() { metric 2 podlane_carried_bytes_total 8; }
check "bytes that were carried, of lanes that are gone" wait_for 10 bytes
check "nothing was lost and sent again" metric 2 \
	podlane_carried_again_bytes_total 0
client_bg b here listen here same 9
soon here listening
check "bytes of a lane that is gone" says 0 "got pong" \
	client a connect 10.88.1.11 here 10000
sent() { metric 1 'podlane_pod_lanes_total{pod="a"}' 3; }
check "lanes that were" wait_for 10 sent
client_bg a reg region r 100000 same
soon reg published
client_bg b rd open 10.88.1.10 r
soon rd version

# Both ends sleep between messages, so what comes wakes them.
ECHO=$O/shm/examples/lane_echo
listens() { metric "$1" "podlane_pod_listeners{pod=\"$2\"}" "$3"; }
woken() { # N POD: at least once; each time is in all of the histogram
	local all=podlane_pod_wakeup_seconds n inf
	body "$1" /metrics >"$T/woken"
	n=$(python3 tests/system/prom_check.py "${all}_count{pod=\"$2\"}" <"$T/woken")
	inf=$(python3 tests/system/prom_check.py \
		"${all}_bucket{pod=\"$2\",le=\"+Inf\"}" <"$T/woken")
	echo "$n in +Inf: $inf"
	[ "${n%.*}" -ge 1 ] && [ "$n" = "$inf" ]
}
check "who has not slept has no histogram" says 1 "" \
	grep -q podlane_pod_wakeup_seconds_count <(body 1 /metrics)
prog b echo "$ECHO" serve chat
wait_for 10 listens 1 b 2
prog a chat "$O/tests/system/stats_pods" chat 10.88.1.11 chat 1000 1
check "wake-ups, of a lane within the node" wait_for 20 woken 1 b
prog_end chat
prog c echo2 "$ECHO" serve chat
wait_for 10 listens 2 c 2
prog b chat2 "$O/tests/system/stats_pods" chat 10.88.2.10 chat 1000 1
check "... by the agent, to another node" wait_for 20 woken 2 c
kept=$(body 2 /metrics | python3 tests/system/prom_check.py \
	'podlane_pod_wakeup_seconds_count{pod="c"}')
prog_end chat2
prog_end echo2
no_lane() { metric 2 'podlane_pod_lanes{pod="c"}' 0; }
wait_for 10 no_lane
kept() { # of lanes that are gone
	[ "$(body 2 /metrics | python3 tests/system/prom_check.py \
		'podlane_pod_wakeup_seconds_count{pod="c"}')" -ge "$kept" ]
}
check "... stay counted when it is gone" kept
check "bytes of regions" metric 1 'podlane_pod_region_bytes{pod="a"}' 100000
check "openings" metric 1 'podlane_region_openings{path="shm"}' 1
check "a refusal" says 3 EHOSTUNREACH client a connect 10.77.1.1 none 100
reg_add 1 q 10.88.1.20 'odd\"\\ns' >/dev/null
check "policy" says 3 EACCES client q open 10.88.1.10 r
check "... is counted" metric 1 \
	'podlane_pod_refused_total{pod="a",reason="policy"}' 1
check "names are escaped" says 0 "series of" format
# Two registrations of pods with one name.
reg_add 1 a2 10.88.1.21 >/dev/null
ask 1 "$(reg_json 1 a2 del)" >/dev/null
ask 1 "$(reg_json 1 a2 add | sed 's/"name":"a2"/"name":"a"/')" \
	"/proc/${POD[a2]}/ns/net" >/dev/null
check "pods of one name" says 0 "series of" format
check "... are one" metric 1 \
	'podlane_pod_shared_bytes_limit{namespace="default",pod="a"}' 137438953472
check "a request that fails" says 1 "" ask 1 \
	'{"op":"check","network":"net","containerID":"zz","ifname":"eth0","netns":"/x"}'
check "... is counted by cause" metric 1 \
	'podlane_requests_total{op="check",code="ENOENT"}' 1

# --- not ready, not alone ---------------------------------------------------

echo '{"nodes":[]}' >"$T/nodes.json"
not_ready() { says 0 "503 Not ready" get 1 /readyz; }
check "not ready" wait_for 10 not_ready
check "... and why" says 0 "has no node 'node1'" get 1 /readyz
check "alive all the same" says 0 "200 OK" get 1 /healthz
check "in numbers" metric 1 podlane_ready 0
agent_config 1
check "ready again" wait_for 10 metric 1 podlane_ready 1
# hog: somebody else has the port, until it is told.
agent_stop 1
nsenter --net=/proc/"${NODE[1]}"/ns/net python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 7472))
time.sleep(1000)' &
HOG=$!
PIDS+=("$HOG")
disown "$HOG"
taken() { in_ns "${NODE[1]}" ss -Htnl "sport = 7472" | grep -q 7472; }
wait_for 10 taken
agent_start 1
check "a port that is taken" grep -q "cannot listen for HTTP at 127.0.0.1:7472" \
	"$T/n1/agent.log"
check "keeps no agent from serving" agent_ready 1
kill -KILL "$HOG"
is_back() { says 0 "200 OK" get 1 /healthz; }
check "it is used when it is free" wait_for 20 is_back
jq '.metrics.listen = ""' "$T/n2/agent.json" >"$T/x" && mv "$T/x" "$T/n2/agent.json"
agent_stop 2
agent_start 2
none() { ! in_ns "${NODE[2]}" ss -Htnl | grep 7472; }
check "none" none
jq '.metrics.listen = "here"' "$T/n2/agent.json" >"$T/x" && mv "$T/x" "$T/n2/agent.json"
check "a wrong address" says 1 "metrics.listen must be an address and a port" \
	"$O/daemonset/podlaned" --config "$T/n2/agent.json" --run-dir "$T/x1" \
	--node node2
for n in 1 2; do
	check "agent $n ends well" agent_stop $n
done
finish

#!/bin/bash
# tests/system/agent_lanes.sh: lanes and regions of one node's pods: policy,
# quotas, ends of every kind, clients that break the rules.
. "$(dirname "$0")/lib.sh"

node_add 1
agent_config 1
sed -i 's/^{/{"limits":{"connections":6,"listeners":2,"lanes":3,"regions":3,"bytes":2000000},/' \
	"$T/n1/agent.json"
agent_start 1 || exit 1
has() { ctl 1 -o json "$1" | jq -e "$2"; }
reg_add 1 a 10.88.1.10 >/dev/null
reg_add 1 b 10.88.1.11 >/dev/null
reg_add 1 c 10.88.1.12 other >/dev/null

# --- lanes ------------------------------------------------------------------

client_bg b srv listen svc same 2
soon srv listening
check "connect" says 0 "got pong" client a connect 10.88.1.11 svc 5000
check "the listener knows who" soon srv "incoming 10.88.1.10 svc shm"
check "it sees the end" soon srv hang-up
check "another service" says 3 "error ECONNREFUSED: nobody in that pod listens" \
	client a connect 10.88.1.11 none 5000
check "another address" says 3 "error EHOSTUNREACH: no pod of this node" \
	client a connect 10.88.1.99 svc 5000
check "an address of no node" says 3 \
	"error EHOSTUNREACH: no node that node1 knows" \
	client a connect 192.0.2.1 svc 5000
check "no address" says 3 "error EINVAL" client a connect here svc 5000
check "policy" says 3 "error EACCES: service 'svc' is for pods of namespace" \
	client c connect 10.88.1.11 svc 5000
check "the service is taken" says 3 "error EADDRINUSE" \
	client b listen svc same 1
check "the same name in another pod" says 0 listening \
	client a offer svc
kill "${CLIENT[srv]}"
client_bg b any listen any any 1
soon any listening
check "a service for all" says 0 "got pong" \
	client c connect 10.88.1.11 any 5000
wait_for 10 is_gone "${CLIENT[any]}"
check "a closed listener is gone" says 3 "error ECONNREFUSED" \
	client a connect 10.88.1.11 any 5000

client_bg b slow listen slow same 0
soon slow listening
check "timeout" says 3 "error ETIMEDOUT" client a connect 10.88.1.11 slow 100
client_bg a waiting connect 10.88.1.11 slow -1
connecting() { has lanes 'length == 1 and .[0].state == "connecting" and
	.[0].from == "10.88.1.10" and .[0].to == "10.88.1.11"'; }
check "an awaited lane is listed" wait_for 10 connecting
check "others are served meanwhile" says 0 connected client a hello
check "the listener goes" client_end slow
check "who waited is told" soon waiting \
	"error ECONNREFUSED: the listener was closed"
check "nothing is left" has lanes 'length == 0'
client_bg b slow2 listen slow same 0
soon slow2 listening
client_bg a waiting2 connect 10.88.1.11 slow -1
wait_for 10 connecting
kill -KILL "${CLIENT[waiting2]}"
no_lanes() { has lanes 'length == 0'; }
check "who waited dies" wait_for 10 no_lanes
client_end slow2
client_bg b rej reject rej
soon rej listening
check "reject" says 3 "error ECONNREFUSED: the listener rejected" \
	client a connect 10.88.1.11 rej 5000
client_end rej

client_bg b hold listen hold same 3
soon hold listening
client_bg a lanes1 lanes 10.88.1.11 hold 1
soon lanes1 all
check "an open lane is listed" has lanes 'length == 1 and
	.[0].state == "open" and .[0].path == "shm" and
	.[0].service == "hold" and .[0].receivedBytes == 4'
check "and counted" has pods '.[0].lanes == 1 and .[1].lanes == 1 and
	.[0].bytes == 131072'
kill -KILL "${CLIENT[lanes1]}"
check "a death is seen" soon hold hang-up
half() { has lanes '.[0].state == "half closed"'; }
check "the other end stays" wait_for 10 half
kill -KILL "${CLIENT[hold]}"
check "until it goes" wait_for 10 no_lanes
check "nothing is charged any more" has pods \
	'map(.lanes + .bytes + .connections + .listeners) == [0,0,0,0] or
	map(.lanes + .bytes + .connections + .listeners) == [0,0,0]'

client_bg a self listen self same 1
soon self listening
check "a lane to oneself" says 0 "got pong" \
	client a connect 10.88.1.10 self 5000

# --- regions ----------------------------------------------------------------

client_bg a reg region w 100000 same
check "region" soon reg published
check "the name is taken" says 3 "error EEXIST" client a region w 4096 same
client_bg b rd open 10.88.1.10 w
check "open" soon rd "opened shm version 1 data"
check "it is listed" has regions 'length == 1 and .[0].name == "w" and
	.[0].owner == "10.88.1.10" and .[0].sizeBytes == 100000 and
	.[0].version == 1 and .[0].readers == 1'
check "no such region" says 3 "error ENOENT" client b open 10.88.1.10 none
check "policy of regions" says 3 "error EACCES" client c open 10.88.1.10 w
client_end reg
check "readers see the end" soon rd ended
client_bg a reg2 region w 100000 any
soon reg2 published
client_bg c rd2 open 10.88.1.10 w
check "a region for all" soon rd2 "opened shm"
kill -KILL "${CLIENT[reg2]}"
check "readers see a death" soon rd2 ended
check "no regions are left" has regions 'length == 0'

# --- quotas -----------------------------------------------------------------

check "connections" says 0 "6 of 8" client a conns 8
check "bytes" says 3 "error EDQUOT: pod default/a shares" \
	client a region big 3000000 same
limit_a() { # BYTES: a is registered anew, with this limit
	ask 1 "$(reg_json 1 a add | jq -c "$1")" "/proc/${POD[a]}/ns/net"
}
check "own limit" limit_a '.memoryLimit = 100000'
check "own limit listed" has pods 'map(.memoryLimit) | contains([100000])'
check "own limit counts" says 3 "raise its podlane.io/memory-limit" \
	client a region big 200000 same
check "own limit too large" limit_a '.memoryLimit = 9000000'
check "agent's limit counts" says 3 "raise limits.bytes of podlaned" \
	client a region big 3000000 same
limit_a . >/dev/null
client_bg b hold2 listen hold same -9
soon hold2 listening
client_bg b two listen two same 0
soon two listening
check "listeners" says 3 "raise limits.listeners" client b listen three same 0
check "lanes" says 3 "raise limits.lanes" client a lanes 10.88.1.11 hold 4
client_end two
for i in 1 2 3; do
	client_bg a "r$i" region "r$i" 4096 same
	soon "r$i" published
done
check "regions" says 3 "raise limits.regions" client a region r4 4096 same
for i in 1 2 3; do client_end "r$i"; done
kill "${CLIENT[hold2]}"

# --- hostile ----------------------------------------------------------------

in_ns "${POD[c]}" ip link set lo up
hostile() {
	in_ns "${POD[c]}" env SELF=10.88.1.12 timeout 60 \
		"$O/tests/system/agent_hostile"
}
check "hostile clients" hostile
log_has() { grep -qF -- "$1" "$T/n1/agent.log"; }
client_bg b cheat cheat liar
soon cheat listening
for i in "no memory" "a region" "a short message"; do
	check "accepted with $i" says 3 "error ECONNREFUSED" \
		client a connect 10.88.1.11 liar 5000
done
check "a listener that cheats is ended" soon cheat "listener ended"
check "are named in the log" log_has "pod=other/c"
check "but can't fill it" [ "$(grep -c 'pod=other/c.*closed' \
	"$T/n1/agent.log")" -le 12 ]
check "the others don't notice" says 0 connected client a hello
check "no lane is left" has lanes 'length == 0'
check "no descriptor is left" [ \
	"$(find /proc/"${AGENT[1]}"/fd -lname '*memfd*' | wc -l)" = 0 ]
check "agent ends well" agent_stop 1
last_word() { tail -n 1 "$T/n1/agent.log"; }
check "with nothing to complain about" says 0 "ending: got SIGTERM" last_word

# --- few descriptors --------------------------------------------------------

sed -i 's/"connections":6/"connections":100/' "$T/n1/agent.json"
AGENT_WITH="prlimit --nofile=64:64"
agent_start 1 || exit 1
client_bg a conns conns 90
soon conns "of 90"
check "pods don't take the last one" [ "$(cut -d' ' -f1 "$T/conns.out")" -lt 60 ]
check "and are told" log_has "raise the limit of open files"
check "it is served again" says 0 connected client a hello
agent_stop 1
finish

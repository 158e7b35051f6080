#!/bin/bash
# tests/system/agent_policy.sh: who may use what pods of other Kubernetes
# namespaces offer, on the node and across nodes; a policy file that changes.
. "$(dirname "$0")/lib.sh"

node_add 1
node_add 2
agent_config 1
agent_config 2
# rules N JSON...: the policy file of node N
rules() {
	local n=$1
	shift
	(IFS=,; echo "{\"allow\":[$*]}") >"$T/n$n/new.json"
	mv "$T/n$n/new.json" "$T/n$n/policy.json"
}
for n in 1 2; do
	rules $n
	jq ".policy.file = \"$T/n$n/policy.json\"" "$T/n$n/agent.json" \
		>"$T/new.json" && mv "$T/new.json" "$T/n$n/agent.json"
	agent_start $n || exit 1
done
has() {
	local n=$1
	shift
	ctl "$n" -o json "$1" | jq -e "$2"
}
holds() { has "$1" policy "length == $2"; }
logged() { grep -E -- "$2" "$T/n$1/agent.log"; }
reg_add 1 own 10.88.1.10 train >/dev/null
reg_add 1 same 10.88.1.11 train >/dev/null
reg_add 1 near 10.88.1.12 mon >/dev/null
reg_add 2 far 10.88.2.10 mon >/dev/null
reg_add 2 kin 10.88.2.11 train >/dev/null
client_bg own svc listen svc same 99
client_bg own metrics listen metrics same 99
client_bg own open listen open any 99
client_bg own reg region params 100000 same
soon svc listening
soon metrics listening
soon open listening
soon reg published
# may, may_not POD SERVICE
may() { says 0 "got pong" client "$1" connect 10.88.1.10 "$2" 10000; }
may_not() {
	says 3 "error EACCES: service '$2' is for pods of namespace 'train'" \
		client "$1" connect 10.88.1.10 "$2" 10000
}
no_region() {
	says 3 "error EACCES: region 'params' is for pods of namespace 'train'" \
		client "$1" open 10.88.1.10 params
}
# reads POD: has opened the region; ends with it.
reads() {
	client_bg "$1" "rd_$1" open 10.88.1.10 params
	soon "rd_$1" "version 1 data"
}

# --- no rules --------------------------------------------------------------

check "the same namespace" may same svc
check "... of another node" may kin svc
check "another one" may_not near svc
check "... of another node" may_not far svc
check "a region" no_region near
check "... of another node" no_region far
check "what its owner offers to any" may near open
check "... to another node" may far open
check "the log names the pod" logged 1 \
	"pod=mon/near .*may not connect: service 'svc'"
check "... and for the region" logged 1 "pod=mon/near .*may not open a region"
check "... on the node of who asked" logged 2 \
	"pod=mon/far .*may not connect: service 'svc'"
check "... and its address where it was refused" logged 1 \
	"node=node2 pod=10.88.2.10: refused: service 'svc'"
check "... also for a region" logged 1 \
	"node=node2 pod=10.88.2.10: refused: region 'params'"
check "the refusals are counted" has 1 pods \
	'[.[] | select(.pod.name == "own") | .refused.policy][0] == 4'

# --- rules -------------------------------------------------------------------

METRICS='{"to":"train","from":["mon"],"services":["metr*"]}'
rules 2 '{"to":"*","from":"*"}'
check "rules come" wait_for 10 holds 2 1
check "those of who asks count for nothing" may_not far svc
rules 1 "$METRICS"
check "rules of the owner's node" wait_for 10 holds 1 1
check "allow what they name" may near metrics
check "... to pods of another node" may far metrics
check "and nothing else" may_not near svc
check "... to another node" may_not far svc
check "... no region" no_region far
check "podlanectl shows them" says 0 "train  mon   metr*" ctl 1 policy
rules 1 "$METRICS" '{"to":"train","from":"mon","regions":["params"]}'
check "a second rule" wait_for 10 holds 1 2
reads near
check "allows a region" printed rd_near "version 1 data"
reads far
check "... to another node" printed rd_far "opened tcp version 1 data"

# --- what a pod's annotation says ----------------------------------------------

reg_json_allow() { reg_json "$1" "$2" add | sed "s/\"pod\":/\"allow\":\"$3\",&/"; }
ns_add
POD[ann]=$PID IP[ann]=10.88.1.40 K8S[ann]=train
ask 1 "$(reg_json_allow 1 ann "serving, mon")" "/proc/$PID/ns/net" >/dev/null
client_bg ann asvc listen svc same 9
soon asvc listening
check "an annotation lets in" says 0 "got pong" client near connect 10.88.1.40 \
	svc 10000
check "... pods of another node" says 0 "got pong" client far connect \
	10.88.1.40 svc 10000
reg_add 1 alien 10.88.1.41 other >/dev/null
check "... and no others" says 3 "its annotation podlane.io/allow" \
	client alien connect 10.88.1.40 svc 10000
check "it is kept for the next agent" jq -e '.allow == "serving, mon"' \
	"$T"/n1/state/pods/net@ann@eth0.json
check "a wrong one is refused" says 1 "allow is not well formed" ask 1 \
	"$(reg_json_allow 1 ann 'a b c')" "/proc/${POD[ann]}/ns/net"

# --- files that are wrong --------------------------------------------------------

echo '{"allow":[{"to":"train","form":"mon"}]}' >"$T/n1/policy.json"
shown() { has 1 status '.policy | contains("form")'; }
check "what is wrong is shown" wait_for 10 shown
check "... and logged" logged 1 "policy.json.*form.*the rules stay as they were"
check "what held before holds" may far metrics
check "... and not more" may_not far svc
rm "$T/n1/policy.json"
gone() { has 1 status '.policy | contains("No such file")'; }
check "a file that is gone" wait_for 10 gone
check "changes nothing" may near metrics
rules 1
none() { has 1 status '.policy == "ok"' && holds 1 0; }
check "a good one holds again" wait_for 10 none
check "what was allowed is not any more" may_not far metrics
not_ended() { ! grep ended "$T/rd_far.out"; }
check "what is open stays open" not_ended
client_end reg
check "until it ends" soon rd_far ended
check "the limits are shown" has 1 pods \
	'all(.[]; .limits.lanes == 4096 and .limits.bytes > 0)'
for n in 1 2; do
	check "agent $n ends well" agent_stop $n
done
echo '{"allow":3}' >"$T/n1/policy.json"
check "an agent does not start with a wrong one" says 1 \
	"policy.json: allow must be" "$O/daemonset/podlaned" \
	--config "$T/n1/agent.json" --run-dir "$T/n1/run" --node node1
finish

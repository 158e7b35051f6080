#!/bin/bash
# tests/system/fork.sh: a child of fork goes on with its parent's lane while the
# agent is killed: within a node it does not notice; between nodes its lane ends,
# and its parent's does not.
. "$(dirname "$0")/lib.sh"
two_agents || exit 1
four_pods
EX=$O/shm/examples

servers() {
	local pod
	mkfifo "$T/never"
	for pod in b c; do
		prog $pod "echo-$pod" "$EX/lane_echo" serve echo
		soon "echo-$pod" "listening on" || return
		# A standard input that does not end.
		prog $pod "region-$pod" sh -c \
			"exec '$EX/region_read' write words 100000 <>'$T/never'"
		soon "region-$pod" "published words" || return
	done
}
servers || exit 1
forks() { # POD AS
	prog a "$2" "$O/tests/system/fork_pods" "${IP[$1]}" echo words "$T/$2.stop"
	check "$2: the child works" soon "$2" "child works"
}
forks b near
forks c far
agent_stop 1 KILL
check "far: the child's lane ends with its agent" soon far "child ended: "
check "by an error of its own" says 0 "" grep -qE \
	"child ended: (Connection reset by peer|Broken pipe)" "$T/far.out"
agent_start 1 || exit 1
check "far: the parent's goes on with the next one" soon far \
	"parent was not disturbed"
check "far: and its region" soon far "region is there"
check "near: the child has not noticed" [ "$(cat "$T/near.out")" = "child works" ]
touch "$T/near.stop"
check "near: it ends when it is told to" soon near "child ended: told to"
check "near: the parent goes on" soon near "parent was not disturbed"
for pod in near far; do
	check "$pod: ends well" wait_for 20 is_gone "${CLIENT[$pod]}"
done
no_lanes() { ctl 1 -o json lanes | jq -e 'length == 0'; }
check "no lane is left" wait_for 20 no_lanes
finish

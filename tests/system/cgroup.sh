#!/bin/bash
# tests/system/cgroup.sh: whole pods are killed, on both nodes, and the memory
# control groups of pods and agents say that all memory is given back.
. "$(dirname "$0")/lib.sh"

MB=1048576
BIG=48000000	# a region, and so its replica
SLACK=$((8 * MB))
CG=podlane-test-$$
if [ -d /sys/fs/cgroup/memory ]; then
	ROOT=/sys/fs/cgroup/memory USAGE=memory.usage_in_bytes
elif grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
	ROOT=/sys/fs/cgroup USAGE=memory.current
fi
if [ -z "${ROOT:-}" ] || ! mkdir "$ROOT/$CG-probe" 2>/dev/null; then
	skip cgroup "no memory control groups can be made here"
	exit 0
fi
rmdir "$ROOT/$CG-probe"
groups_end() {
	local d
	cleanup
	for d in "$ROOT/$CG"-*; do
		wait_for 10 rmdir "$d"
	done
}
trap groups_end EXIT
# A command in a group of its own: in_group NAME CMD...
cat >"$T/in_group" <<-EOF
	#!/bin/sh
	mkdir -p "$ROOT/$CG-\$1" && echo \$\$ >"$ROOT/$CG-\$1/cgroup.procs" || exit 1
	shift
	exec "\$@"
EOF
chmod +x "$T/in_group"
usage() { cat "$ROOT/$CG-$1/$USAGE"; }
at_least() { [ "$(usage "$1")" -ge "$2" ]; }
at_most() {
	[ "$(usage "$1")" -le "$2" ] && return
	echo "$1 has $(usage "$1") bytes, and should have $2 at most"
	false
}
node_add 1
node_add 2
for n in 1 2; do
	agent_config $n
	AGENT_WITH="$T/in_group agent$n"
	agent_start $n || exit 1
done
four_pods
G=$O/tests/system/grow_pods
P=$O/tests/system/resume_pods
# pod_runs POD AS PROGRAM ARG...: in the group of the pod
pod_runs() {
	local pod=$1 as=$2
	shift 2
	prog "$pod" "$as" "$T/in_group" "pod_$pod" "$@"
}
killed() { # POD: all that runs in its group
	local pids
	pids=$(cat "$ROOT/$CG-pod_$1/cgroup.procs")
	[ -n "$pids" ] && kill -KILL $pids
}
is_end() { grep -q "$2" "$T/$1.out"; }

BEFORE1=$(usage agent1) BEFORE2=$(usage agent2)
# In c a region that grows, and who takes lanes; in d and a their peers.
everything() {
	pod_runs c own "$G" own 2 $((BIG / 2)) 1
	soon own grown
	pod_runs c serve "$P" serve
	soon serve listening
	pod_runs a read "$G" read 10.88.2.10 2
	pod_runs d near "$G" read 10.88.2.10 2
	pod_runs a far "$P" talk 10.88.2.10 8
	soon read "end size"
	soon near "end size"
	soon far "talking tcp"
}
everything >/dev/null
check "the region is its owner's" at_least pod_c $BIG
check "its replica is the agent's" at_least agent1 $((BEFORE1 + BIG))
if sanitized thread; then
	skip "the owner's agent has none of it" \
		"ThreadSanitizer keeps notes of all that it read"
else
	check "the owner's agent has none of it" \
		at_most agent2 $((BEFORE2 + SLACK + 16 * MB))
fi

check "the readers' pod is killed" killed a
check "its memory is given back" wait_for 30 at_most pod_a $((4 * MB))
check "and the replica" wait_for 30 at_most agent1 $((BEFORE1 + SLACK))
check "the owner's is as it was" at_least pod_c $BIG
no_lanes() { [ "$(ctl 1 -o json lanes | jq length)$(ctl 2 -o json lanes | jq length)" = 00 ]; }
check "its lanes have ended" wait_for 10 no_lanes

check "the owner's pod is killed" killed c
# Its reader on the node may still look at what it has.
check "the reader beside it is killed" killed d
check "the region is given back" wait_for 30 at_most pod_c $((4 * MB))
check "by the reader, too" wait_for 30 at_most pod_d $((4 * MB))
check "and its agent has none of it" at_most agent2 $((BEFORE2 + SLACK))
everything >/dev/null
check "all of it once more" at_least agent1 $((BEFORE1 + BIG))
check "the owner's pod is killed first" killed c
wait_for 10 no_lanes
check "then its readers elsewhere" killed a
check "and here" killed d
check "all pods' memory is given back" wait_for 30 at_most pod_c $((4 * MB))
check "on the other node" wait_for 30 at_most pod_a $((4 * MB))
check "and the replica again" wait_for 30 at_most agent1 $((BEFORE1 + SLACK))
for n in 1 2; do
	check "agent $n ends well" agent_stop $n
done
finish

# tests/system/resume.bash: programs of resume_pods in pods, for tests of what
# they see when agents die or nodes lose each other. After lib.sh.
#
#   run POD AS ARG...   resume_pods in a pod, in the background
#   moves AS...       each of them counts on
#   ends AS...        told to stop, they end well
#   nothing_failed    none of them has seen an error so far
#   all_move, all_came   the beginning and the end of what both tests watch
P=$O/tests/system/resume_pods
# run POD AS ARG...: resume_pods in a pod, in the background; its output is in
# AS.out, its count in AS.n.
run() {
	local pod=$1 as=$2
	shift 2
	: >"$T/$as.out"
	PROGRESS=$T/$as.n nsenter --net="/proc/${POD[$pod]}/ns/net" "$P" "$@" \
		>"$T/$as.out" 2>&1 &
	CLIENT[$as]=$!
	PIDS+=("$!")
}
# What a program has counted so far.
count() { od -An -tu8 -N8 "$T/$1.n" | tr -d ' '; }
moved() { [ "$(count "$1")" -gt "$2" ]; }
# moves AS...: each of them counts on.
moves() {
	local as n
	for as; do
		n=$(count "$as")
		wait_for 30 moved "$as" "$n" || { show; return 1; }
	done
}
show() { (cd "$T" && tail -n +1 -- *.out); tail -n 20 "$T"/n?/agent.log; }
# ends AS...: told to stop, they end well.
ends() {
	local as
	for as; do
		kill -USR1 "${CLIENT[$as]}" 2>/dev/null
		wait_for 60 is_gone "${CLIENT[$as]}" || { show; return 1; }
		grep -q failed "$T/$as.out" && { show; return 1; }
		grep -q '^ok' "$T/$as.out" || { show; return 1; }
	done
	return 0
}
nothing_failed() { ! grep failed "$T"/*.out || { show; false; }; }
# Lanes both ways across nodes and within one, a region with a reader on each.
all_move() {
	local p
	for p in a c; do
		run $p serve_$p serve
		soon serve_$p listening
	done
	run b far talk 10.88.2.10 3
	run d back talk 10.88.1.10 2 1
	run b near talk 10.88.1.10 1
	soon far "talking $VIA"
	soon back "talking $VIA"
	soon near "talking shm"
	run c own own 1048576
	soon own created
	run a read_far read 10.88.2.10
	run d read_near read 10.88.2.10
	soon read_far "reading $VIA"
	soon read_near "reading shm"
	ALL="far back near own read_far read_near"
	step "all of it moves" moves $ALL
}
# They are told to stop; nothing is missing then.
every_version() {
	kill -USR1 "${CLIENT[own]}"
	ends read_far read_near || return 1
	[ "$(sed -n 's/ok version //p' "$T/read_far.out")" = \
		"$(sed -n 's/published //p' "$T/own.out")" ] &&
	[ "$(sed -n 's/ok version //p' "$T/read_near.out")" = \
		"$(sed -n 's/published //p' "$T/own.out")" ] || { show; false; }
}
# A lane that one end gave up while its agent was away is known to be over when
# the other agent has waited for resumeTimeout, a minute.
all_over() {
	wait_for 90 no_lanes && return
	ctl 1 lanes
	ctl 2 lanes
	return 1
}
no_lanes() {
	[ "$(ctl 1 -o json lanes | jq length)$(ctl 2 -o json lanes |
		jq length)" = 00 ]
}
all_came() {
	step "every byte came once and in order" ends far back near
	step "every version came" every_version
	step "nobody saw anything else" nothing_failed
	step "nothing is left" all_over
}

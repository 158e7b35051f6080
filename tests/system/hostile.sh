#!/bin/bash
# tests/system/hostile.sh: a pod that breaks the rules of what it shares, on the
# node of its victim and on another: it gets an error, the log has its name, and
# lanes of other pods go on all the while. docs/security.md lists what is tried.
. "$(dirname "$0")/lib.sh"
. tests/system/resume.bash

H=$O/tests/system/hostile_pods
two_agents || exit 1
four_pods
reg_add 1 evil 10.88.1.66 >/dev/null
reg_add 1 stranger 10.88.1.67 elsewhere >/dev/null
reg_add 1 greedy 10.88.1.68 >/dev/null
# Who must not notice.
run b serve serve
run c serve_c serve
soon serve listening
soon serve_c listening
run a near talk 10.88.1.11 1
run a far talk 10.88.2.10 1
run d own own 1048576
soon own created
run c read read 10.88.2.11
soon near "talking shm"
soon far "talking tcp"
hostile() { # ARG...: in pod evil
	in_ns "${POD[evil]}" timeout 60 "$H" "$@"
}
logged() { wait_for 20 grep -q "$1" "$T/n1/agent.log" || { tail -n 20 "$T/n1/agent.log"; false; }; }
nobody_notices() { moves near far own read && nothing_failed; }

CASES="head-far head-back head-wraps tail-far tail-back state early header"
for to in b c; do
	at=${IP[$to]}
	where=$([ $to = b ] && echo shm || echo tcp)
	client_bg $to region_$to region r 100000 same
	soon region_$to published
	# One for the attack on memory, too.
	prog $to victim_$to "$H" victim 9
	soon victim_$to listening
	check "$where: memory of others" hostile memory "$at"
	seen=1
	ends_so() { [ "$(grep -c '^lane: E' "$T/victim_$to.out")" -ge "$1" ] || { cat "$T/victim_$to.out"; false; }; }
	for c in $CASES; do
		hostile lane "$at" $c >/dev/null 2>&1 &
		PIDS+=("$!")
		attacker=$!
		seen=$((seen + 1))
		check "$where: $c: the victim is told" wait_for 20 ends_so $seen
		kill $attacker 2>/dev/null
		wait $attacker 2>/dev/null
	done
	step "$where: nobody else notices" nobody_notices
	client_end region_$to
done
check "the log has the pod's name" logged "pod=default/evil .*broke the rules"
check "also within the node" logged "pod=default/evil .*service=v: its head does not go with the tail of pod default/b\|pod=default/b .*service=v: its head does not go with the tail of pod default/evil"

# --- guessing ---------------------------------------------------------------------

prog b again "$H" victim 1
soon again listening
guesses() { in_ns "${POD[stranger]}" timeout 60 "$H" guess 10.88.1.11 10.88.1.67; }
check "numbers, names, lanes of others" guesses
check "is logged" logged "pod=elsewhere/stranger .*may not"
step "nobody else notices" nobody_notices

# --- requests ---------------------------------------------------------------------

greedy() { in_ns "${POD[greedy]}" timeout 60 "$H" requests 10.88.1.11 3000; }
check "3000 requests, and no answer read" greedy
check "is logged, too" logged "pod=default/greedy .*closed a connection: it does not read"
step "nobody else notices that" nobody_notices
step "to the end" ends near far
# Told to stop last, as read reads what own writes.
kill -USR1 "${CLIENT[own]}"
step "and of the region" ends read
for n in 1 2; do
	check "agent $n is still the same" kill -0 "${AGENT[$n]}"
	step "agent $n ends well" agent_stop $n
done
finish

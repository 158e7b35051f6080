#!/bin/bash
# tests/system/agent_idle.sh: an agent with 100 wired pods that do nothing sleeps
# and uses little memory. It is counted how often it wakes up: the processor time
# of that depends on what else the machine does.
. "$(dirname "$0")/lib.sh"

node_add 1
agent_start 1 || exit 1
wakeups() { awk '/^voluntary/ { print $2 }' /proc/"${AGENT[1]}"/status; }
ticks() { awk '{ print $14 + $15 }' /proc/"${AGENT[1]}"/stat; }
rss_kb() { awk '/^VmRSS/ { print $2 }' /proc/"${AGENT[1]}"/status; }
for i in $(seq 100); do
	reg_add 1 "p$i" "10.88.1.$((i + 9))" >/dev/null || exit 1
done
check "100 pods are wired" [ "$(ctl 1 -o json pods | jq length)" = 100 ]
# What is still to be done after the last of them.
sleep 1
woken=$(wakeups)
used=$(ticks)
sleep 10
woken=$(($(wakeups) - woken))
echo "wake-ups in 10 s: $woken, ticks: $(($(ticks) - used))," \
	"resident: $(rss_kb) kB"
# Every ten seconds it looks whether the namespaces are still there.
check "hardly a wake-up in 10 s" [ "$woken" -le 5 ]
if sanitized; then
	skip "less than 20 MB" "sanitizers need more"
else
	check "less than 20 MB" [ "$(rss_kb)" -lt 20480 ]
fi
check "ends well" agent_stop 1
finish

#!/bin/bash
# tests/system/agent_idle.sh: an agent with 100 wired pods that do nothing uses
# no processor time and little memory.
. "$(dirname "$0")/lib.sh"

node_add 1
agent_start 1 || exit 1
ticks() { awk '{ print $14 + $15 }' /proc/"${AGENT[1]}"/stat; }
rss_kb() { awk '/^VmRSS/ { print $2 }' /proc/"${AGENT[1]}"/status; }
for i in $(seq 100); do
	reg_add 1 "p$i" "10.88.1.$((i + 9))" >/dev/null || exit 1
done
check "100 pods are wired" [ "$(ctl 1 -o json pods | jq length)" = 100 ]
# What is still to be done after the last of them.
sleep 1
before=$(ticks)
sleep 10
used=$(($(ticks) - before))
echo "ticks in 10 s: $used, resident: $(rss_kb) kB"
check "at most one tick in 10 s" [ "$used" -le 1 ]
check "less than 20 MB" [ "$(rss_kb)" -lt 20480 ]
check "ends well" agent_stop 1
finish

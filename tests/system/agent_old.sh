#!/bin/bash
# tests/system/agent_old.sh: agent_nodes.sh with pods whose library is of a
# release before: it speaks versions 1 and 2 of shm/wire.h.
rc=0
for WIRE in 1 2; do
	export WIRE
	bash "$(dirname "$0")/agent_nodes.sh" || rc=1
done
exit $rc

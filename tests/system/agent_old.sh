#!/bin/bash
# tests/system/agent_old.sh: agent_nodes.sh once more, with pods whose library is
# of the release before: it speaks version 1 of shm/wire.h.
export WIRE=1
. "$(dirname "$0")/agent_nodes.sh"

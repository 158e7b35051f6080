#!/bin/bash
# tests/system/nl.sh: common/nl.h against the kernel, and without privilege.
. "$(dirname "$0")/lib.sh"
ns_add; node=$PID
ns_add; pod=$PID
in_ns "$node" "$O/tests/system/nl_test" "/proc/$pod/ns/net" || FAILED=1
in_ns "$node" setpriv --bounding-set=-net_admin --inh-caps=-net_admin \
	"$O/tests/system/nl_test" - || FAILED=1
finish

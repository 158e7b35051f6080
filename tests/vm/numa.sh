#!/bin/bash
# tests/vm/numa.sh: where memory lies on a machine with two NUMA nodes.
LIB_ROOT=no
. "$(dirname "$0")/../system/lib.sh"
. tests/vm/vm.bash

vm_possible && vm_kernel stable || { skip numa "$VM_WHY"; finish; }
node() {
	printf '%s ' -object "memory-backend-ram,size=512M,id=m$1" \
		-numa "node,nodeid=$1,cpus=$1,memdev=m$1"
}
VM_CPUS=2 VM_MB=1024 vm_start 1 $(node 0) $(node 1) || exit 1
vm_script 1 tcp numa.sh
vm_stop 1
finish

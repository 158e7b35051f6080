#!/bin/bash
# tests/vm/lanes.sh: lanes and regions between two hosts of one VM, with real
# agents, the plugin and pods.
LIB_ROOT=no
. "$(dirname "$0")/../system/lib.sh"
. tests/vm/vm.bash

vm_possible && vm_kernel stable || { skip lanes "$VM_WHY"; finish; }
for via in tcp verbs; do
	VM_CPUS=2 vm_start 1 || exit 1
	VM_TIMEOUT=280 vm_script 1 $via remote.sh
	vm_stop 1
done
finish

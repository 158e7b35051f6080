#!/bin/bash
# tests/vm/resume.sh: agents of two hosts in one VM are killed at any moment, and
# lanes and regions between their pods lose nothing.
LIB_ROOT=no
. "$(dirname "$0")/../system/lib.sh"
. tests/vm/vm.bash

vm_possible && vm_kernel stable || { skip resume "$VM_WHY"; finish; }
VM_CPUS=2 vm_start 1 || exit 1
vm_do 1 export KILLS=2
VM_TIMEOUT=550 vm_script 1 tcp resume.sh
vm_stop 1
finish

# tests/vm/vm.bash: virtual machines with a kernel that has RDMA, for tests.
#
# qemu emulates the processor, so nothing but qemu is needed: no KVM, no RDMA, no
# root. A VM's root is this machine's, read-only; what changes there is in its
# memory and ends with it. Source tests/system/lib.sh first (LIB_ROOT=no), then:
#
#   vm_possible       false where no VM can be had; $VM_WHY says why not
#   vm_kernel KIND    the kernel of VMs started from now on (see kernel); sets
#                     $VM_WHY when there is none of it
#   vm_start N [QEMU-ARG...]   boots VM N, waits until it takes commands. $VM_CPUS
#                     (1), $VM_MB (1024)
#   vm_do N TEXT...   runs shell text in it, in the root of the tree, in one shell
#                     for all commands; prints the output, returns the status.
#                     124: it took more than $VM_TIMEOUT (120) s, 125: the VM
#                     ended. The VM is killed then, its console is shown. One
#                     command at a time per VM
#   vm_stop N         ends it
#   vm_kill N         the same as by a power failure
#   vm_check N NAME TEXT   check (of lib.sh) with vm_do; the name begins with
#                     the kernel's version
#   vm_script N CARRIER SCRIPT   runs a script of tests/system in it, on hosts of
#                     hosts.bash and over that carrier; its lines count here
#
# In the VM /run/vm is the folder ${VM_DIR[N]}, for reading and writing.
declare -A VM_DIR VM_PID VM_TO VM_FROM
VM_WHY=
vm_possible() {
	local p
	[ "$(uname -m)" = x86_64 ] ||
		{ VM_WHY="VMs are x86-64, this machine is not"; return 1; }
	for p in qemu-system-x86_64 busybox xz zstd rdma ibv_devinfo rping; do
		command -v $p >/dev/null || [ -x "/usr/sbin/$p" ] ||
			{ VM_WHY="no $p; make deps installs it"; return 1; }
	done
}
vm_kernel() {
	if ! VM_KERNEL=$(tests/vm/kernel "$1" 2>"$T/kernel.err"); then
		VM_WHY=$(tail -n 1 "$T/kernel.err")
		return 1
	fi
	VM_VERSION=$(<"$VM_KERNEL/version")
	vm_initrd
}
# busybox, init and the modules between it and its root.
vm_initrd() {
	local d=$T/initrd m f mods=$VM_KERNEL/lib/modules/$VM_VERSION
	rm -rf "$d"
	mkdir -p "$d"/{bin,dev,proc,sys,mod,lower,above,new}
	cp "$(command -v busybox)" "$d/bin/busybox"
	cp tests/vm/init "$d/init"
	chmod 755 "$d/init"
	# modules.dep has what a module needs after it, the nearest first.
	for m in virtio_pci virtio_rng 9pnet_virtio 9p overlay virtio_net; do
		sed -n "s|^\(.*/$m\.ko\):|\1|p" "$mods/modules.dep" |
			tr ' ' '\n' | tac
	done | awk '!seen[$0]++' | while read -r f; do
		cp "$mods/$f" "$d/mod/"
		echo "${f##*/}"
	done >"$d/mod/order"
	(cd "$d" && find . | busybox cpio -o -H newc 2>/dev/null) >"$T/initrd.cpio"
}
vm_start() {
	local n=$1 d=$T/vm$1 word
	shift
	mkdir -p "$d"
	printf '%s=%q\n' VM_KERNEL "$VM_KERNEL" VM_NAME "vm$n" VM_TREE "$PWD" \
		VM_O "$O" >"$d/env"
	rm -f "$d/ctl.in" "$d/ctl.out"
	mkfifo "$d/ctl.in" "$d/ctl.out"
	VM_DIR[$n]=$d
	exec {VM_TO[$n]}<>"$d/ctl.in" {VM_FROM[$n]}<>"$d/ctl.out"
	qemu-system-x86_64 -M q35 \
		-accel tcg,thread=multi -cpu "${VM_CPU:-Nehalem}" \
		-smp "${VM_CPUS:-1}" -m "${VM_MB:-1024}" \
		-nodefaults -no-user-config -display none -no-reboot \
		-kernel "$VM_KERNEL/vmlinux" -initrd "$T/initrd.cpio" -append \
		"console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr \
		tsc=reliable no_timer_check cryptomgr.notests apparmor=0 audit=0" \
		-serial "file:$d/console" \
		-chardev "pipe,id=ctl,path=$d/ctl" -serial chardev:ctl \
		-device isa-debug-exit,iobase=0x501,iosize=1 \
		-object rng-builtin,id=rng -device virtio-rng-pci,rng=rng \
		-fsdev "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap" \
		-device virtio-9p-pci,fsdev=root,mount_tag=root \
		-fsdev "local,id=vm,path=$d,security_model=none" \
		-device virtio-9p-pci,fsdev=vm,mount_tag=vm \
		"$@" </dev/null >"$d/qemu" 2>&1 &
	VM_PID[$n]=$!
	PIDS+=("$!")
	disown "$!"
	VM_TIMEOUT=60 vm_answer "$n" word && [ "$word" = up ]
}
# vm_answer N VAR: the next line of the VM. What read -t had when its time was
# over is the beginning of it.
vm_answer() {
	local i part all=
	for ((i = 0; i < ${VM_TIMEOUT:-120}; i++)); do
		if read -r -t 1 part <&"${VM_FROM[$1]}"; then
			printf -v "$2" %s "$all$part"
			return
		fi
		all+=$part
		kill -0 "${VM_PID[$1]}" 2>/dev/null || break
	done
	kill -0 "${VM_PID[$1]}" 2>/dev/null && i=124 || i=125
	vm_kill "$1"
	echo "vm$1: $([ $i = 124 ] && echo "no answer in ${VM_TIMEOUT:-120} s" ||
		echo "it ended"), console and qemu said:"
	tail -n 30 "${VM_DIR[$1]}/console" "${VM_DIR[$1]}/qemu"
	return $i
}
vm_do() {
	local n=$1 rc answer=
	shift
	printf '%s\n' "$*" >"${VM_DIR[$n]}/cmd"
	echo run >&"${VM_TO[$n]}"
	vm_answer "$n" answer
	rc=$?
	cat "${VM_DIR[$n]}/out" 2>/dev/null
	[ $rc = 0 ] && rc=$answer
	return "$rc"
}
vm_gone() { ! kill -0 "${VM_PID[$1]}" 2>/dev/null; }
vm_stop() {
	echo end >&"${VM_TO[$1]}"
	wait_for 10 vm_gone "$1" || vm_kill "$1"
}
vm_kill() {
	kill -KILL "${VM_PID[$1]}" 2>/dev/null
	wait_for 10 vm_gone "$1"
}
vm_check() {
	local n=$1 name=$2
	shift 2
	check "${VM_VERSION%%-*} $name" vm_do "$n" "$@"
}
# The script's last word, when it failed without a FAIL line, is in its output.
vm_script() {
	local n=$1 via=$2 script=$3 rc
	vm_do "$n" "VIA=$via NODES_BASH=tests/vm/hosts.bash SLOWER=8 \
		CARRIER='{\"type\":\"$via\",\"security\":\"none\"}' \
		bash tests/system/$script" >"$T/script.out"
	rc=$?
	sed -E "s,^(ok|FAIL|skip) ,&${VM_VERSION%%-*} $via $script ," \
		"$T/script.out"
	[ $rc = 0 ] || FAILED=1
}

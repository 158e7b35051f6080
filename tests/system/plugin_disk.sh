#!/bin/bash
# tests/system/plugin_disk.sh: a disk that is full at each of ADD's writes, and
# what is on it from before a reboot.
if [ -z "${OWN_MOUNTS:-}" ] && [ "$(id -u)" = 0 ]; then
	exec env OWN_MOUNTS=1 unshare -m bash "$0"
fi
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/plugin.bash"

one_node
ns_add && A=$PID
mkdir "$T/disk" "$T/state" "$T/ipam"

# So many pages for data, so many files and folders.
disk() { # SIZE-IN-PAGES FILES
	mount -t tmpfs -o "size=$(($1 * 4096)),nr_inodes=$2" none "$T/disk" &&
		mkdir "$T/disk/state" "$T/disk/ipam" &&
		mount --bind "$T/disk/state" "$T/state" &&
		mount --bind "$T/disk/ipam" "$T/ipam"
}
no_disk() { umount "$T/state" "$T/ipam" "$T/disk"; }
room() { mount -o remount,size=10M,nr_inodes=1000 "$T/disk"; }
# ADD there either works or leaves nothing; with room again it works.
fits() { # IPAM-TYPE: FULL counts the ADDs that failed
	local rc
	pl ADD "$A" a eth0 ".ipam.type = \"$1\"" >"$T/o" 2>"$T/e"
	rc=$?
	if [ $rc = 0 ]; then
		reaches "$A" 10.77.0.1 && pl DEL "" a
	else
		FULL=$((FULL + 1))
		jq -e '.code == 5 or .code == 100 or .code == 999' "$T/o" &&
			empty_pod "$A"
	fi && clean && room && pl ADD "$A" a >"$T/o" &&
		reaches "$A" 10.77.0.1 && pl DEL "" a && clean
}
full() { # IPAM-TYPE
	local n i
	FULL=0
	for n in $(seq 1 12); do
		for i in "$n 100" "1000 $((n + 2))"; do
			disk $i || return
			if ! fits "$1"; then
				cat "$T/o" "$T/e"
				echo "with pages and files: $i"
				no_disk
				return 1
			fi
			no_disk
		done
	done
	echo "$FULL ADDs failed"
	[ $FULL -gt 3 ]
}
check disk-full full podlane-ipam
if [ -x /usr/lib/cni/host-local ]; then
	check disk-full-host-local full host-local
else
	skip disk-full-host-local "the reference host-local is not installed"
fi
del_full() {
	disk 100 100 && pl ADD "$A" a >"$T/o" || return
	head -c 1000000 /dev/zero >"$T/disk/fill" 2>/dev/null
	pl DEL "" a && clean && empty_pod "$A"
}
check del-with-full-disk del_full
no_disk
read_only() {
	disk 100 100 && mount -o remount,ro "$T/disk" &&
		mount -o remount,bind,ro "$T/state" &&
		mount -o remount,bind,ro "$T/ipam" &&
		code 5 pl ADD "$A" a && empty_pod "$A" && pl DEL "" a
}
check read-only-disk read_only
no_disk
# Only the records can't be written: CHECK reads, DEL undoes all the rest.
state_read_only() {
	disk 100 100 && pl ADD "$A" a >"$T/o" &&
		mount -o remount,bind,ro "$T/state" &&
		pl CHECK "$A" a eth0 ".prevResult = $(cat "$T/o")" &&
		pl DEL "" a 2>"$T/e" && grep -q 'cannot remove' "$T/e" &&
		empty_pod "$A" && [ -z "$(addresses)" ] && pl DEL "" a &&
		mount -o remount,bind,rw "$T/state" &&
		pl ADD "$A" a >"$T/o" && reaches "$A" 10.77.0.1 &&
		pl DEL "" a && clean
}
check state-read-only state_read_only
no_disk
# Only the addresses can't: CHECK reads; DEL says so, and works later.
ipam_read_only() {
	disk 100 100 && pl ADD "$A" a >"$T/o" &&
		mount -o remount,bind,ro "$T/ipam" &&
		pl CHECK "$A" a eth0 ".prevResult = $(cat "$T/o")" &&
		code 5 pl DEL "" a && empty_pod "$A" && pl DEL "" other &&
		mount -o remount,bind,rw "$T/ipam" && pl DEL "" a && clean
}
check ipam-read-only ipam_read_only
no_disk
pairs_gone() { [ -z "$(host ip -o link show type veth)" ]; }
check no-link pairs_gone

# A reboot: another boot id, no links, no namespaces, what was on the disk
# still there. Three pods, as many addresses.
three='.ipam.ranges = [[{"subnet":"10.77.0.0/24","rangeStart":"10.77.0.2",
	"rangeEnd":"10.77.0.4"}]]'
boot() { # N
	echo "0000000$1-0000-4000-8000-000000000000" >"$T/boot$1"
	umount /proc/sys/kernel/random/boot_id 2>/dev/null
	mount --bind "$T/boot$1" /proc/sys/kernel/random/boot_id
}
new_pods() { # not within check
	local i
	for i in 1 2 3; do
		ns_add
		POD[$i]=$PID
	done
}
pods() { # PREFIX: three pods, of these names
	local i
	for i in 1 2 3; do
		pl ADD "${POD[$i]}" "$1$i" eth0 "$three" || return
	done
	code 101 pl ADD "$A" "${1}4" eth0 "$three"
}
reboot() { # N
	kill -KILL "${POD[1]}" "${POD[2]}" "${POD[3]}"
	wait_for 10 pairs_gone && host ip link del br0 && boot "$1"
}
boot 1
new_pods
check before-reboot pods old
check reboot reboot 2
new_pods
check after-reboot-same-names pods old
check reboot-again reboot 3
new_pods
check after-reboot-other-names pods new
works() {
	reaches "${POD[1]}" 10.77.0.1 && reaches "${POD[3]}" 10.77.0.1 &&
		pl DEL "" old1 eth0 "$three" && reaches "${POD[1]}" 10.77.0.1
}
check late-del-of-old works
fake_stop
check agent-not-up-yet code 11 pl ADD "$A" x eth0 "$three"
fake_start
for i in 1 2 3; do pl DEL "" "new$i"; pl DEL "" "old$i"; done
check clean clean
finish

#!/bin/bash
# tests/system/ipam.sh: podlane-ipam as a program: beside host-local on one
# directory, under the reference bridge plugin, on a full disk, over a reboot,
# many at once, with nobody to take its result.
. "$(dirname "$0")/lib.sh"
CNI=/usr/lib/cni
IPAM=$O/ipam/podlane-ipam
RANGE='[{"subnet":"10.77.0.0/24","rangeEnd":"10.77.0.9"}]'	# 8 addresses
RANGE6='[{"subnet":"fd00:77::/64"}]'
DIR=$T/data
ipam_conf() {
	cat <<-EOF
	{"cniVersion":"${VERSION:-1.0.0}","name":"net","type":"t",${EXTRA:-}
	 "ipam":{"type":"t","dataDir":"$DIR",
	  "ranges":[${RANGES:-$RANGE}],"routes":[{"dst":"0.0.0.0/0"}]}}
	EOF
}
# run PLUGIN COMMAND ID [IF]
run() {
	ipam_conf | env -i CNI_COMMAND="$2" CNI_CONTAINERID="$3" \
		CNI_NETNS="${NETNS-/proc/self/ns/net}" \
		CNI_IFNAME="${4:-eth0}" CNI_PATH="$O/ipam:$CNI" "$1"
}
ours() { run "$IPAM" "$@"; }
theirs() { run "$CNI/host-local" "$@"; }
address() { jq -er '.ips[0].address'; }
# gives WHO ID ADDRESS: ADD and compare
gives() {
	local out
	out=$("$1" ADD "$2") || { echo "$out"; return 1; }
	[ "$(printf '%s' "$out" | address)" = "$3" ] || { echo "$out"; return 1; }
}
# refuses CODE WHO COMMAND ID: exit not 0, one document with that code
refuses() {
	local code=$1 out
	shift
	out=$("$@") && { echo "no error: $out"; return 1; }
	[ "$(printf '%s' "$out" | jq -s 'length, .[0].code' | paste -sd' ')" = \
		"1 $code" ] || { echo "$out"; return 1; }
}
files() { ls "$DIR/net" 2>/dev/null | grep -c '^[0-9a-f]*[.:]'; }
holds() { [ "$(files)" = "$1" ] || { ls -A "$DIR/net"; return 1; }; }
# fill PREFIX: ADD until it fails, print how many did not
fill() {
	local n=0
	while [ $n -lt 100 ] && ours ADD "$1-$n" >"$T/out"; do
		n=$((n + 1))
	done
	[ "$(jq .code "$T/out")" = 101 ] && echo $n
}
fills() { [ "$(fill "$1")" = "$2" ] || { cat "$T/out"; ls -A "$DIR/net"; return 1; }; }
# 4,000 reservations that host-local left: what is free is found, and only that.
crowded() {
	local i RANGES='[{"subnet":"10.77.0.0/20"}]'
	mkdir -p "$DIR/net"
	for i in $(seq 2 4001); do
		printf 'c%s\r\neth0' "$i" \
			>"$DIR/net/10.77.$((i / 256)).$((i % 256))"
	done
	gives ours new 10.77.15.162/20 && refuses 103 ours ADD c7 &&
	ours DEL c1000 && ours CHECK new && holds 4000 &&
	rm -f "$DIR/net/.podlane.index" && ours CHECK c4001 &&
	gives ours next 10.77.15.163/20 && empty && holds 0
}
empty() { VERSION=1.1.0 EXTRA='"cni.dev/valid-attachments":null,' ours GC gc; }

# --- one directory, host-local and podlane-ipam by turns ---
takeover() {
	gives theirs h1 10.77.0.2/24 && gives theirs h2 10.77.0.3/24 &&
	gives ours p1 10.77.0.4/24 && gives ours p2 10.77.0.5/24 &&
	gives theirs h3 10.77.0.6/24 && gives ours p3 10.77.0.7/24 &&
	ours CHECK h1 && theirs CHECK p1 && refuses 103 ours ADD h2 &&
	refuses 999 theirs ADD p1 && holds 6
}
give_back() {
	ours DEL h1 && ours DEL h1 && theirs DEL p1 && holds 4 &&
	ours CHECK h2 && theirs CHECK p2 && refuses 104 ours CHECK p1 &&
	gives ours p4 10.77.0.8/24 && gives theirs h4 10.77.0.9/24 &&
	gives ours p5 10.77.0.2/24 && gives theirs h5 10.77.0.4/24 &&
	refuses 101 ours ADD p6 && refuses 999 theirs ADD h6 &&
	theirs DEL p2 && gives ours p6 10.77.0.5/24 &&
	for id in h2 h3 p3 h4; do ours DEL $id || return; done &&
	for id in p4 p5 h5 p6; do theirs DEL $id || return; done && holds 0
}
half_written() {
	: >"$DIR/net/10.77.0.2"
	fills z 8 && empty && holds 0
}
check "host-local: directory taken over" takeover
check "host-local: given back and shared" give_back
check "host-local: an empty file is nobody's" half_written
RANGES="$RANGE,$RANGE6"
dual() {
	rm -rf "$DIR"
	theirs ADD h1 >"$T/h1" && ours ADD p1 >"$T/p1" && holds 4 &&
	[ "$(jq -c '[.ips[].address]' "$T/p1")" = '["10.77.0.3/24","fd00:77::3/64"]' ] &&
	theirs DEL p1 && ours DEL h1 && holds 0
}
check "host-local: dual stack" dual
same_result() {
	local v
	for v in 0.1.0 0.2.0 0.3.0 0.3.1 0.4.0 1.0.0; do
		rm -rf "$DIR"
		VERSION=$v theirs ADD h >"$T/h" || return
		rm -rf "$DIR"
		VERSION=$v ours ADD h >"$T/p" || return
		diff <(jq -S . "$T/h") <(jq -S . "$T/p") || return
	done
	ours DEL h && holds 0
}
check "host-local: 4,000 reservations" crowded
check "host-local: the same results, 0.1.0 to 1.0.0" same_result
RANGES=$RANGE

# --- GC, STATUS, what is refused ---
gc_status() {
	ours ADD a >/dev/null && ours ADD b >/dev/null && ours ADD b eth1 >/dev/null &&
	VERSION=1.1.0 ours STATUS s &&
	VERSION=1.1.0 refuses 7 ours GC gc && holds 3 &&
	VERSION=1.1.0 EXTRA='"cni.dev/valid-attachments":[{"containerID":"b","ifname":"eth1"}],' ours GC gc &&
	holds 1 && ours CHECK b eth1 && fills f 7 &&
	VERSION=1.1.0 refuses 50 ours STATUS s && empty && holds 0 &&
	refuses 1 ours STATUS s
}
check "GC and STATUS" gc_status
bad_input() {
	NETNS='' refuses 4 ours ADD a && refuses 4 ours ADD a/b &&
	refuses 4 ours DEL a eth0/0 && RANGES=7 refuses 7 ours ADD a &&
	VERSION=9.0.0 refuses 1 ours ADD a && RANGES='[' refuses 6 ours ADD a &&
	NETNS='' ours DEL a && RANGES=7 ours DEL a && holds 0
}
check "bad input" bad_input
about() {
	local out
	out=$(env -i "$IPAM" </dev/null 2>"$T/err") && [ -z "$out" ] &&
	grep -q 'CNI IPAM plugin' "$T/err"
}
check "about text without CNI_COMMAND" about

# --- nobody takes the result ---
no_reader() {
	local rc
	ours ADD a >/dev/full && return 1
	holds 0 || return
	ours ADD a >&- && return 1
	holds 0 || return
	mkfifo "$T/fifo" || return
	# The reader is gone before the plugin writes.
	exec 7<>"$T/fifo" 8>"$T/fifo" 7<&-
	ours ADD a >&8
	rc=$?
	exec 8>&-
	[ $rc = 1 ] && holds 0
}
check "ADD whose result can't be written reserves nothing" no_reader

# --- many at once ---
parallel() {
	local i pids=()
	for i in $(seq 60); do
		RANGES='[{"subnet":"10.77.0.0/24"}]' ours ADD "par-$i" \
			>"$T/par.$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || return; done
	[ "$(for i in $(seq 60); do address <"$T/par.$i"; done | sort -u | wc -l)" = 60 ] &&
	holds 60 && empty && holds 0
}
check "60 ADDs at once" parallel

# --- a reboot, which is another boot ID; mounts in a namespace of their own ---
boot() { echo "$1" >"$T/boot"; }
reboot_case() {
	boot 11111111-1111-1111-1111-111111111111
	mount --bind "$T/boot" /proc/sys/kernel/random/boot_id || return
	fills old 8 && gives_nothing old || return
	boot 22222222-2222-2222-2222-222222222222
	gives ours new 10.77.0.2/24 && holds 1 && ours DEL old-0 && holds 1 &&
	ours CHECK new && fills more 7 && empty
}
gives_nothing() { refuses 101 ours ADD "$1-more"; }
# --- a full disk: every amount of space and of inodes that may be left ---
disk_mount() {
	mkdir -p "$DIR" && mount -t tmpfs -o "$1" none "$DIR"
}
# What an ADD that failed left behind, and whether all can be had after it.
disk_after() {
	local rc=$1 before=$2
	if [ "$rc" = 0 ]; then
		holds $((before + 1)) && ours DEL new
	else
		[ "$(jq .code "$T/out")" = 5 ] && holds "$before"
	fi || { echo "exit $rc"; cat "$T/out"; return 1; }
}
disk_case() {
	local pages inodes n ok=0 failed=0
	for n in 0 3; do
		for pages in $(seq 0 16); do
			disk_mount size=256k || return
			[ $n = 0 ] || for i in $(seq $n); do ours ADD "had-$i" >/dev/null; done
			dd if=/dev/zero of="$DIR/filler" bs=4k 2>/dev/null
			truncate -s -$((pages * 4096)) "$DIR/filler"
			ours ADD new >"$T/out"
			rc=$?
			[ $rc = 0 ] && ok=$((ok + 1)) || failed=$((failed + 1))
			disk_after $rc $n || return
			ours DEL "had-1" || return
			rm "$DIR/filler"
			fills f $((8 - (n ? n - 1 : 0))) || return
			umount "$DIR" || return
		done
	done
	for inodes in $(seq 2 10); do
		disk_mount "size=1m,nr_inodes=$inodes" || return
		ours ADD new >"$T/out"
		rc=$?
		[ $rc = 0 ] && ok=$((ok + 1)) || failed=$((failed + 1))
		disk_after $rc 0 || return
		mount -o remount,nr_inodes=100 "$DIR"
		fills f 8 || return
		umount "$DIR" || return
	done
	echo "$ok succeeded, $failed did not"
	[ $ok -gt 3 ] && [ $failed -gt 3 ]
}
export -f ipam_conf run ours address gives refuses files holds fill fills \
	empty boot reboot_case gives_nothing disk_mount disk_after disk_case
export O T CNI IPAM RANGE RANGES DIR
apart() { unshare -m --propagation private bash -c "$1"; }
if apart "mount --bind $T /mnt" 2>/dev/null; then
	check "reservations of before a reboot are reclaimed" apart reboot_case
	check "a full disk leaves nothing behind" apart disk_case
else
	skip "reservations of before a reboot" "this machine allows no mounts"
	skip "a full disk" "this machine allows no mounts"
fi

# --- under the reference bridge plugin ---
node_add 1
bridge_conf() {
	cat <<-EOF
	{"cniVersion":"1.0.0","name":"net","type":"bridge","bridge":"b0",
	 "isGateway":true,
	 "ipam":{"type":"podlane-ipam","dataDir":"$DIR","ranges":[$RANGE],
	  "routes":[{"dst":"0.0.0.0/0"}]}}
	EOF
}
bridge() { bridge_conf | CNI_PLUGIN=$CNI/bridge cni 1 "$@"; }
ns_add; a=$PID
ns_add; b=$PID
under_bridge() {
	bridge ADD "$a" a >"$T/a" && bridge ADD "$b" b >"$T/b" || { cat "$T/a" "$T/b"; return 1; }
	[ "$(address <"$T/a") $(address <"$T/b")" = "10.77.0.2/24 10.77.0.3/24" ] &&
	in_ns "$a" ping -c 1 -W 5 -q 10.77.0.3 && in_ns "$a" ping -c 1 -W 5 -q 10.77.0.1 || return
	# A second ADD fails and leaves the first one with its address.
	bridge ADD "$a" a && return 1
	holds 2 && in_ns "$a" ping -c 1 -W 5 -q 10.77.0.1 || return
	bridge DEL "$a" a && bridge DEL '' b && bridge DEL '' b && holds 0
}
check "under the reference bridge plugin" under_bridge
finish

#!/bin/bash
# tests/system/fuzz.sh - every fuzzer of tests/fuzz, for FUZZ_SECONDS each
#
# They start from tests/fuzz/corpus/NAME. An input that breaks something is
# printed (base64) and kept in FUZZ_KEEP, if that is set.
. "$(dirname "$0")/lib.sh"
seconds=${FUZZ_SECONDS:-3}
jobs=$(nproc)
if ! why=$(tests/fuzz/possible); then
	skip fuzz "$why"
	finish
fi
# Abstract sockets and timers are of no concern to others then.
run() {
	local name=$1 corpus=tests/fuzz/corpus/$1 dict= out=$T/$1.out
	mkdir -p "$T/$name" "$T/tmp.$name"
	case $name in
	agent_conf|answer|ipam_conf|kube|ops|plugin_conf|policy|record|registry)
		dict=-dict=tests/fuzz/json.dict;;
	esac
	[ -d "$corpus" ] || corpus=
	TMPDIR=$T/tmp.$name timeout -k 10 $((seconds + 60)) unshare -n \
		"$O/fuzz/tests/fuzz/fuzz_$name" -max_total_time="$seconds" \
		-close_fd_mask=3 -rss_limit_mb=2048 -timeout=20 -max_len=4096 \
		$dict -artifact_prefix="$T/$name.bad." "$T/$name" $corpus \
		>"$out" 2>&1
	echo $? >"$T/$name.rc"
}
passed() {
	[ "$(cat "$T/$1.rc")" = 0 ] && return
	grep -v '^#[0-9]\|NEW_FUNC' "$T/$1.out" | tail -60
	[ -z "${FUZZ_KEEP:-}" ] || cp "$T/$1".bad.* "$FUZZ_KEEP"
	return 1
}
names=()
for f in tests/fuzz/fuzz_*.c; do
	f=${f##*/fuzz_}
	names+=("${f%.c}")
done
for name in "${names[@]}"; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
		wait -n
	done
	run "$name" &
done
wait
for name in "${names[@]}"; do
	check "fuzz $name" passed "$name"
done
finish

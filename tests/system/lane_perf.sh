#!/bin/bash
# tests/system/lane_perf.sh: lane_perf on its own cluster, as small as it gets:
# what it measures and verifies, bad input, and that nothing is left behind.
. "$(dirname "$0")/lib.sh"
. tests/system/bench.bash
P=$O/bench/lane_perf
most=200
sanitized && most=1000
bench() { timeout -k 5 $most "$P" "$@" </dev/null; }
small=(--duration 2 --lanes 1,3 --size 8,1000,64K)
runs() {
	local name=$1
	shift
	bench "$@" --json "$T/$name.json" >"$T/$name.out" 2>&1 ||
		{ cat "$T/$name.out"; false; }
}

check "everything, twice" runs all "${small[@]}" --repeat 2 \
	--plot "$T/all.png"
check "rows of repeats are one" q all \
	'[.latency[]|[.placement,.transport,.wait,.way,.size]]|length==(unique|length)'
check "all sizes over all transports" q all '[.latency[]|
	select(.size==1000 and .placement=="same-node")|.transport]|
	unique==["lane","overlay-tcp","unix"]'
check "raw TCP between the nodes" q all '[.latency,.stream|.[]|
	select(.transport=="raw-tcp")|.path=="tcp to 10.99.0.2"]|
	length==6 and all'
check "round trips are verified and in order" q all '[.latency[]|.verified and
	.rounds>=32 and .p50_ns>0 and .p50_ns<=.p99_ns and .p99_ns<=.p999_ns]|all'
check "streams are verified" q all '[.stream[]|.verified and .messages>0 and
	.bytes_per_s>0 and .messages_per_s>0]|all'
check "many lanes are verified" q all '[.many[]|.verified and .jain>0 and
	.jain<=1.0001 and (.lanes==1 or .lanes==3)]|length==8 and all'
check "lanes take the path that the transport reports" q all '[.latency,
	.stream,.many,.idle|.[]|select(.transport=="lane")|
	[.placement,.path]]|unique==[["cross-node","tcp"],["same-node","shm"]]'
check "idle and new ones" q all '([.idle[]|.lanes==3 and .cpu_ns>=0]|
	length==2 and all) and ([.connect[]|.p50_ns>0]|length==4 and all)'
check "four processes" q all '[.busy[]|.processes==4 and .rounds_per_s>0]|
	length==2 and all'
check "bars have a value and a limit" q all '[.bars[]|(.value|type)=="number" and
	(.limit|type)=="number" and (.ok|type)=="boolean"]|length>=4 and all'
check "the machine" q all '.machine.cores>0 and .program=="lane_perf"'
if [ "$(nproc)" -gt 1 ]; then
	check "its limits" q all '[.limits[]|.>0]|length==5 and all'
fi
check "the table" grep -q '^  cross-node lane .* tcp$' "$T/all.out"
check "the picture is a PNG" env LC_ALL=C grep -aq '^.PNG' "$T/all.png"
check "one placement" runs one "${small[@]}" --placement cross-node \
	--run-dir "$T/own" --security tls
check "encrypted between the agents" q one '.machine.carrier=="tcp+tls" and
	([.latency,.stream,.many,.idle|.[]|select(.transport=="lane")|.path]|
	unique==["tcp+tls"])'
check "unknown security" says 2 "give none, auth or tls" "$P" --security x
check "is all there is" q one '[.latency,.stream,.many,.idle,.connect|.[]|
	.placement]|unique==["cross-node"]'
check "its folder is removed" test ! -e "$T/own"
check "nothing is left of good runs" nothing_left

check "unknown option" fails 2 "--frob" --frob
check "a size that is none" fails 2 "--size 7" --size 7
check "too many lanes" fails 2 "--lanes 1001" --lanes 1001
check "no duration" fails 2 "--duration 0" --duration 0
check "unknown placement" fails 2 "--placement moon" --placement moon
check "a word too many" fails 2 "'x' is no option" x
check "a folder for results that is not there" fails 1 "--json" \
	--json "$T/no/x.json"
check "no agent program" fails 1 "--podlaned $T/none is no program" \
	--podlaned "$T/none"
check "a role without its parent" fails 1 "for lane_perf's own use" role
check "a signal ends it" interrupted lp-client --duration 500
check "nothing is left" nothing_left
finish

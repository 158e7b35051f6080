#!/bin/bash
# tests/system/pod_serve.sh: pod_serve on its own cluster, as small as it gets:
# all patterns over all transports, the roles by hand, bad input, and that
# nothing is left behind.
. "$(dirname "$0")/lib.sh"
. tests/system/bench.bash
P=$O/bench/pod_serve
bench() { timeout -k 5 150 "$P" compare "$@" </dev/null; }
# How slow this machine is at the moment decides over nothing here.
small=(--duration 20 --offline-samples 2000 --latency-bound 2000000)
runs() {
	local name=$1
	shift
	bench "$@" --json "$T/$name.json" >"$T/$name.out" 2>"$T/$name.err" ||
		{ cat "$T/$name.out" "$T/$name.err"; false; }
}
check "all patterns over all transports" runs all "${small[@]}" --rate 2000
check "each cell once" q all '[.results[]|[.placement,.transport,.scenario]]|
	length==20 and length==(unique|length)'
check "host TCP only between nodes" q all '[.results[]|
	select(.transport=="host")|.placement]|unique==["cross-node"]'
check "the paths that were taken" q all '[.results[]|
	[.placement,.transport,.path,.server_path]]|unique==[
	["cross-node","host","host-tcp","host-tcp"],
	["cross-node","overlay","overlay-tcp","overlay-tcp"],
	["cross-node","podlane","tcp","tcp"],
	["same-node","overlay","overlay-tcp","overlay-tcp"],
	["same-node","podlane","shm","shm"]]'
check "all answers were right" q all '[.results[]|.wrong==0 and .samples>0]|all'
check "enough queries for each percentile" q all '[.results[]|
	select(.scenario!="offline")|.min_queries_satisfied and
	.queries>=({"90":44,"99":459}[.percentile|tostring])]|length==15 and all'
check "what only a slow machine makes invalid" q all '[.results[]|.reasons[]|
	test("the client itself")]|all'
check "latencies are in order" q all '[.results[].latency_ns|.min<=.p50 and
	.p50<=.p90 and .p90<=.p99 and .p99<=."p99.9" and ."p99.9"<=.max and
	.min>0]|all'
check "multi stream has 8 samples a query, offline all of them" q all '[.results[]|
	.samples/.queries==(if .scenario=="multi-stream" then 8
		elif .scenario=="offline" then 2000 else 1 end)]|all'
check "overhead and slip are told" q all '[.results[]|.own_share>=0 and
	(.scenario!="server" or .slip_ns.p99>=.slip_ns.p50)]|all'
check "it never calls itself a result of MLPerf" q all '.note=="not a result of MLPerf"'
for l in 'SUT name  ' 'Scenario  ' 'Mode  ' '90.0th percentile latency (ns) ' \
	'Result is : ' '  Min duration satisfied : ' '  Min queries satisfied : ' \
	'  Early stopping satisfied : ' 'QPS w/ loadgen overhead' \
	'99.90 percentile latency (ns)' 'target_qps : ' 'schedule_rng_seed : ' \
	'No errors encountered'; do
	check "the summary has \"$l\"" grep -qF -- "$l" "$T/all.out"
done
check "the same seed asks the same" runs again "${small[@]}" --rate 2000 \
	--scenario server --transport podlane --placement same-node --repeat 3
check "in each repeat, whose median is told" q again '[.results[]|
	[.parameters.schedule_rng_seed,.queries,.of_repeats.n]]|
	unique|length==1 and .[0][2]==3'
# The service takes 1 ms for each sample: none can answer more than 1000/s.
check "a fixed service, searched" runs fixed --duration 200 --service fixed \
	--scenario server,offline --transport podlane --placement same-node \
	--offline-samples 100 --latency-bound 500000
check "holds less than it could" q fixed '[.results[]|.valid or
	(.reasons|all(test("client itself")))]|all'
check "and no more" q fixed '[.results[]|.samples_per_s<=1000]|all'
check "the service's time is in the latency" q fixed '[.results[]|
	select(.scenario=="server")|.latency_ns.min>=1000000]|length==1 and all'
check "a rate that it can't keep is invalid, and says why" runs fast \
	--duration 300 --service fixed --scenario server --transport podlane \
	--placement same-node --rate 5000
check "by the bound" q fast '.results[0]|(.valid|not) and (.reasons|
	any(test("longer than the bound|given up")))'

# --- the roles alone, as on a cluster -------------------------------------------
alone() {
	local pid rc
	timeout 60 "$P" server --bind 127.0.0.1 >"$T/server.out" 2>&1 &
	pid=$!
	timeout 60 "$P" client --server localhost --scenario single-stream \
		--duration 20 --json "$T/alone.json" >"$T/alone.out" 2>&1
	rc=$?
	wait $pid && [ $rc = 0 ] || { cat "$T/server.out" "$T/alone.out"; return 1; }
}
check "a server and a client" alone
check "whose loopback is named, and no valid result" q alone '.path=="loopback-tcp" and
	(.valid|not) and (.reasons|any(test("the path was loopback-tcp")))'
disagree() {
	local pid
	timeout 60 "$P" server --bind 127.0.0.1 --sample-bytes 10 >"$T/d.out" 2>&1 &
	pid=$!
	! timeout 60 "$P" client --server 127.0.0.1 --scenario offline \
		>"$T/d2.out" 2>&1 || return 1
	wait $pid && return 1
	cat "$T/d.out" "$T/d2.out"
	grep -q "give both the same" "$T/d.out" && grep -q "give both the same" "$T/d2.out"
}
check "who disagree say so" disagree
check "no server" says 1 "after 1 s" timeout 60 "$P" client --scenario offline \
	--server 127.0.0.1 --timeout 1

# --- bad input ------------------------------------------------------------------
check "no command" says 2 "usage: pod_serve compare" "$P"
check "unknown option" fails 2 "--frob" --frob
check "unknown scenario" fails 2 "give some of single-stream" --scenario x
check "host within a node" fails 2 "loopback" --transport host --placement same-node
check "a folder for results that is not there" fails 1 "--json" --json "$T/no/x"
check "no agent program" fails 1 "--podlaned $T/none is no program" \
	--podlaned "$T/none"
check "a signal ends it" interrupted sv-client compare --duration 5000
check "nothing is left" nothing_left
finish

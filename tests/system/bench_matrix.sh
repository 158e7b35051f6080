#!/bin/bash
# tests/system/bench_matrix.sh: ps_throughput matrix: every case once, with
# what it leaves out and why, as a table, JSON and CSV.
. "$(dirname "$0")/lib.sh"
. tests/system/bench.bash
bench() { timeout -k 5 170 "$P" matrix "$@" </dev/null; }
runs() {
	local name=$1
	shift
	bench --json "$T/$name.json" --csv "$T/$name.csv" "$@" \
		>"$T/$name.out" 2>"$T/$name.err"
	local rc=$?
	[ $rc = 0 ] || cat "$T/$name.out" "$T/$name.err"
	return $rc
}
check "all strategies and transports" runs all --model googlenet --steps 1 \
	--warmup 0
check "each of them, once" q all '[.results[]|.model+" "+.placement+" "+
	.variable_update+" "+.transport]|(unique|length)==length and
	(map(select(endswith("none")))|length)==1 and
	(map(select(endswith("overlay")))|length)>1'
check "all are verified" q all '[.results[].verified]|all'
check "nothing is left out" q all '.left_out==[]'
check "progress says what is left" grep -q 'about [0-9]* s left  googlenet' \
	"$T/all.err"
same_csv() {
	python3 - "$T/all.json" "$T/all.csv" <<-EOF
	import csv, json, sys
	results = json.load(open(sys.argv[1]))["results"]
	rows = list(csv.DictReader(open(sys.argv[2])))
	assert len(rows) == len(results) > 0
	for row, r in zip(rows, results):
	    assert None not in row and None not in row.values(), row
	    assert row["variable_update"] == r["variable_update"], row
	    assert float(row["images_per_s"]) == r["images_per_s"], row
	    assert float(row["step_ms.p50"]) == r["step_ms"]["p50"], row
	    assert row["machine.kernel"] and row["version"], row
	    assert float(row["nic.mtu"] or 0) == (r["nic"]["mtu"] or 0), row
	EOF
}
check "the CSV has the same" same_csv
check "models without a rate of the GPU" runs gpu --gpu p100 --steps 1 \
	--warmup 0 --model googlenet,resnet50 --variable-update ring \
	--transport podlane
check "are left out, by name" q gpu '[.left_out[]|.model+": "+.why]==
	["googlenet: no published rate on a p100"]'
check "the table says so" grep -q '^left out: googlenet' "$T/gpu.out"
check "the others are there" q gpu '[.results[].model]==["resnet50"]'
check "overlap, servers and rings of three" runs overlap --overlap --gpu k80 \
	--batch 2 --model googlenet --workers 3 --steps 2 --warmup 1 \
	--placement both,spread
check "is verified" q overlap '[.results[].verified]|length==23 and all'
check "takes as long as the computing" q overlap \
	'[.results[].step_ms.p50>=15]|all'
check "without computing there is nothing to overlap" fails 2 "needs --gpu" \
	--overlap
check "the table says what computing is" grep -q \
	"^computing .*workers of googlenet sleep 16 ms.*k80" "$T/overlap.out"
is_valid() {
	python3 - docs/ps_throughput.schema.json "$T/$1.json" <<-EOF
	import json, sys, jsonschema
	schema, doc = (json.load(open(f)) for f in sys.argv[1:])
	jsonschema.Draft201909Validator.check_schema(schema)
	jsonschema.Draft201909Validator(schema).validate(doc)
	EOF
}
for name in all gpu overlap; do
	check "the schema describes the output: $name" is_valid $name
done
# A document that is wrong in one place.
broken() {
	jq "$1" "$T/all.json" >"$T/broken.json" && ! is_valid broken 2>"$T/why"
}
check "a wrong strategy is not of it" broken \
	'.results[1].variable_update="pigeon"'
check "nor is a result without its path" broken 'del(.results[0].path)'
check "nor one with a field more" broken '.results[0].moon=1'
check "asynchronous servers" runs async --async --model googlenet --steps 1 \
	--variable-update parameter_server
check "are described, too" is_valid async
check "their staleness stands in the CSV" \
	grep -q '^model,.*,staleness.mean,staleness.max,' "$T/async.csv"
check "runs of one case" runs two --model googlenet --repeat 2 --steps 1 \
	--variable-update ring --transport podlane
check "have a median within their range" q two '.results[0]|.repeat==2 and
	.images_per_s_range.min<=.images_per_s and
	.images_per_s<=.images_per_s_range.max'
check "a folder for the CSV that is not there" fails 1 "--csv" \
	--csv "$T/no/x.csv"
check "nothing is left" nothing_left
finish

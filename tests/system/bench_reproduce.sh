#!/bin/bash
# tests/system/bench_reproduce.sh: ps_throughput reproduce: published facts and
# formulas beside what was measured, with a small model and a slow wire.
. "$(dirname "$0")/lib.sh"
. tests/system/bench.bash
bench() { timeout -k 5 170 "$P" reproduce "$@" </dev/null; }
can_shape() {
	unshare -n sh -c 'ip link add va type veth peer name vb &&
		tc qdisc add dev va root tbf rate 1mbit burst 10k latency 1ms' \
		2>/dev/null
}
runs() {
	bench --model googlenet --link 1g --batch 4 --steps 1 --warmup 1 \
		--repeat 1 --json "$T/r.json" >"$T/r.out" 2>"$T/r.err"
	local rc=$?
	[ $rc = 0 ] || cat "$T/r.out" "$T/r.err"
	return $rc
}
# All of it anew, from what is published and what compare measured.
adds_up() {
	python3 - docs/ps_throughput.schema.json "$T/r.json" <<-EOF
	import json, math, sys, jsonschema
	schema, doc = (json.load(open(f)) for f in sys.argv[1:])
	jsonschema.Draft201909Validator(schema).validate(doc)
	def near(a, b):
	    assert math.isclose(a, b, rel_tol=1e-4), (a, b)
	m, = doc["reproduce"]
	assert m["model"] == "googlenet" and m["one_node"]["workers"] == 2
	once = 4 * 6999577 / 125e6
	compute = 4 / 126.5
	near(m["formula_s"]["computing"], compute)
	near(m["formula_s"]["parameter_server"], 4 / 2 * once)
	near(m["formula_s"]["ring"], 2 * 3 / 4 * once)
	# Models that cross the wire in the busier direction.
	models = {("parameter_server", "overlay"): 2,
	          ("parameter_server", "podlane"): 1,
	          ("ring", "overlay"): 1.5, ("ring", "podlane"): 1.5,
	          ("hierarchical", "overlay"): 1,
	          ("hierarchical", "podlane"): 1}
	assert len(m["rows"]) == len(doc["results"]) == len(models)
	node = m["one_node"]["images_per_s"]
	best = 0
	for row, r in zip(m["rows"], doc["results"]):
	    key = r["variable_update"], r["transport"]
	    assert key == (row["variable_update"], row["transport"])
	    assert r["verified"] and r["link_bytes_per_s"] == 125e6
	    near(row["images_per_s"], r["images_per_s"])
	    near(row["times_one_node"], r["images_per_s"] / node)
	    near(row["formula_times_one_node"],
	         2 * compute / (compute + models[key] * once))
	    near(row["scaling_efficiency"], r["scaling_efficiency"])
	    if key == ("parameter_server", "overlay"):
	        overlay = row["times_one_node"]
	    if key[1] == "podlane":
	        best = max(best, row["times_one_node"])
	facts = [(p["model"], p["relation"], p["value"])
	         for p in doc["published"]]
	assert facts == [("googlenet", "=", 1.86), ("vgg16", "<", 1),
	                 ("vgg16", "=", 0.6)]
	google, vgg, horovod = doc["published"]
	near(google["overlay"], overlay)
	near(google["podlane"], best)
	assert vgg["overlay"] is None and horovod["podlane"] is None
	assert "Microsoft" in google["source"] and "Horovod" in horovod["source"]
	EOF
}
if can_shape; then
	check "a small model over a slow wire" runs
	check "formulas and ratios are what their definitions say" adds_up
	check "the report names published facts" \
		grep -q '^  googlenet .* 1\.86 x  *[0-9.]* x  *[0-9.]* x$' \
		"$T/r.out"
	check "and what was not run" \
		grep -q '^  vgg16 .* below 1\.00 x  *-  *-$' "$T/r.out"
	check "and their sources" grep -q "^    Horovod's README" "$T/r.out"
	check "progress has one node's runs, and what is left" grep -q \
		'about [0-9]* s left  googlenet, one node, run 1 of 1' "$T/r.err"
else
	skip "published facts" "this kernel has no tbf"
fi
check "one placement" fails 2 "spread over two nodes" --placement same-node
check "servers are there" fails 2 "parameter servers" --variable-update ring
check "without a GPU" fails 2 "has a GPU" --gpu none
check "nothing is left" nothing_left
finish

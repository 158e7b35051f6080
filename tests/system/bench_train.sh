#!/bin/bash
# tests/system/bench_train.sh: ps_throughput train and compare --compression:
# the same result over every transport, and what is refused.
. "$(dirname "$0")/lib.sh"
. tests/system/bench.bash
bench() { timeout -k 5 120 "$P" "$COMMAND" "$@" </dev/null; }
DATA=/usr/share/datasets/fashion-mnist
small=(--epochs 1 --seeds 1 --workers 2 --batches 500)

COMMAND=compare
check "every codec, server and ring, each transport" bench --model conv \
	--steps 2 --warmup 1 --repeat 1 --placement spread --workers 3 \
	--variable-update parameter_server,ring --json "$T/codecs.json" \
	--transport overlay,podlane,host \
	--compression none,fp16,dgc,drop,onebit,twobit,powersgd
check "they ran, and ended alike" q codecs '[.results[]|
	.variable_update+.transport+.compression]|length==42 and
	(unique|length)==42'
check "what is compressed is smaller" q codecs '[.results[]|
	select(.variable_update=="parameter_server" and
	.compression!="none").sent_bytes_per_step<=11274*2+16]|all'
check "none of them has a share of a formula" q codecs '[.results[]|
	select(.compression!="none").formula_share]|all(.==null)'
check "unknown codec" fails 2 "unknown value 'zip'" --compression zip
check "several servers" fails 2 "one server" --compression dgc --servers 2
check "asynchronous" fails 2 "--async" --compression dgc --async

COMMAND=train
check "a model that can't learn" fails 2 "choose --model mlp or conv" \
	--model vgg16
check "more images than there are" fails 1 "more than the 60000" \
	--batches 40000
check "no data" fails 1 "$T/none/train-images" --data "$T/none"
if [ -e $DATA/train-images-idx3-ubyte.gz ]; then
	check "it learns" bench "${small[@]}" --compression none,dgc \
		--variable-update parameter_server,ring --placement spread \
		--transport overlay,podlane,host --target 70 --rate 0.1 \
		--json "$T/train.json"
	check "once over each" q train '[.results[]|.transport+
		.variable_update+.compression]|(unique|length)==12'
	check "far beyond chance" q train '[.results[].accuracy>0.7]|all'
	check "the same seed, the same parameters" q train '.results|
		group_by(.compression)|map([.[].runs[].checksum]|unique|
		length)==[1,1]'
	check "a curve of each run" q train '[.results[].runs[].curve[]|
		.seconds>0 and .accuracy>0]|length==12 and all'
	check "no target is reached that was not" bench "${small[@]}" \
		--transport podlane --target 99 --json "$T/far.json"
	check "that is no number" q far '.results[0].seconds_to_target==null'
fi
check "nothing is left behind" nothing_left
finish

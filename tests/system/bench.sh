#!/bin/bash
# tests/system/bench.sh: ps_throughput compare on its own cluster: what it
# prints, bad input, and that nothing is left behind.
. "$(dirname "$0")/lib.sh"
. tests/system/bench.bash
small=(--model googlenet --steps 2 --warmup 1 --repeat 1)
most=120
if sanitized; then
	# They take many times as long, which the size of the model does not
	# change.
	printf 'a/kernel 1000x1000\na/bias 1000\nb/kernel 200x1000\n' >"$T/small"
	small[0]=--tensors small[1]=$T/small most=480
fi
bench() { timeout -k 5 "$most" "$P" compare "$@" </dev/null; }

# --- it works ---------------------------------------------------------------
runs() {
	local name=$1
	shift
	bench "${small[@]}" --json "$T/$name.json" "$@" >"$T/$name.out" 2>&1
	local rc=$?
	[ $rc = 0 ] || cat "$T/$name.out"
	return $rc
}
check "both placements and transports" runs all --plot "$T/all.png"
check "one result of each" q all '[.results[]|.placement+" "+.transport]==
	["same-node overlay","same-node podlane","cross-node overlay","cross-node podlane"]'
check "all verified to the bit" q all '[.results[].verified]|all'
check "the paths are those that the bytes took" q all '[.results[].path]==
	["overlay-tcp","shm","overlay-tcp","tcp"]'
check "the node's gradients are summed when the server is remote" \
	q all '[.results[].local_sum]==[false,false,false,true]'
check "every number is there" q all '[.results[]|.images_per_s,.step_ms.p50,
	.step_ms.p99,.gradient_bytes_per_s,.cpu_s_per_gb,.speedup_vs_overlay,
	.scaling_efficiency,.roofline_share|type=="number" and .>0]|all'
check "each direction has its path" q all '[.results[]|.paths.gradients,
	.paths.parameters]==["overlay-tcp","overlay-tcp","shm","shm",
	"overlay-tcp","overlay-tcp","tcp","tcp"]'
# Of two steps, samples tell it roughly: of one result perhaps nothing.
check "each role has its CPU time" q all '[.results[].cpu_s_per_step]|
	[map(.machine),map(.servers),map(.workers)]|
	all(length==4 and all(.>=0) and add>0)'
# The model has more than 4 MB.
check "the wire carries what crosses it, both ways" q all '[.results[]|
	select(.placement=="cross-node").wire_bytes_per_step|
	.from_first_node,.to_first_node]|length==4 and add>1e6'
check "and nothing within a node" q all '[.results[]|
	select(.placement=="same-node").wire_bytes_per_step|
	.from_first_node,.to_first_node]|length==4 and all(.<1e6)'
check "devices are named, with their MTU" q all '(.machine.wire|.driver=="veth"
	and .mtu>=1500 and (.offloads|test("gso"))) and ([.results[].nic|
	.name=="eth0" and .driver=="veth" and .mtu>1000]|length==4 and all)'
check "the table has them" grep -q "^wire  *veth u, .* MTU " "$T/all.out"
check "memory and the raw rate were measured beside each" \
	q all '[.results[]|.memory_bytes_per_s,.raw_bytes_per_s.one_way,
	.raw_bytes_per_s.both_ways|.>0]|length==12 and all'
check "the overlay has a share of the raw rate" \
	q all '[.results[].raw_share|.!=null and .>0]==[true,false,true,false]'
check "the picture is a PNG" env LC_ALL=C grep -aq '^.PNG' "$T/all.png"
check "the table names path and raw rate" \
	grep -q 'plain TCP both ways' "$T/all.out"
check "three workers, two servers, no local sum" runs more --workers 3 \
	--servers 2 --local-sum off
check "they verify, unsummed" q more \
	'[.results[]|.verified and (.local_sum|not)]|length==4 and all'
check "asynchronous" runs async --async
check "asynchronous runs verify" q async '[.results[].verified]|all'
check "synchronous gradients are never stale" q all '[.results[]|.async==false
	and .staleness=={"mean":null,"max":null}]|all'
# Of three first gradients, all from the first parameters, the second misses one
# update and the third two: in every chunk, whoever is how fast.
check "the first gradients" runs first --async --workers 3 --servers 2 \
	--steps 1 --warmup 0 --transport overlay --placement cross-node
check "missed none, one and two updates" q first '.results[0]|.async and
	.staleness=={"mean":1,"max":2}'
check "the table says so" grep -q 'missed 1.00 updates .*(mean), 2 at most' \
	"$T/first.out"
# Computing takes so long that workers start from copies of one age. The model
# of sanitizers has no GPU's rate.
sanitized || check "asynchronous gradients, computed meanwhile" runs stale \
	--async --workers 3 --steps 3 --warmup 0 --gpu k80 --batch 25
sanitized || check "missed updates, as many as can be" q stale \
	'[.results[].staleness|.mean>0 and .mean<=6 and .max>=1 and .max<=6]|
	length==4 and all'
check "one worker alone" runs unstale --async --workers 1
check "misses nothing" q unstale '[.results[].staleness=={"mean":0,"max":0}]|
	length==4 and all'
check "raw" runs raw --raw --placement same-node
check "raw runs verify nothing" q raw \
	'[.results[]|(.verified|not) and .roofline_share==null]|all'
check "raw: the overlay's share is known" q raw '.results[0].raw_share>0'
printf 'a/kernel 300x1000\na/bias 1000\n' >"$T/net"
all=parameter_server,ring,hierarchical,independent
check "all strategies, transports and placements" runs strategies \
	--variable-update $all --transport overlay,host,podlane \
	--placement both,spread --workers 3 --servers 2
check "each that there is, once" q strategies '[.results[]|
	.placement+" "+.variable_update+" "+.transport]|length==23 and
	(unique|length)==23'
check "all of them are verified" q strategies '[.results[].verified]|all'
paths() {
	q strategies "[.results[]|select(.placement==\"$1\" and
		.variable_update==\"$2\").path]==[$3]"
}
check "paths of servers on both nodes" paths spread parameter_server \
	'"overlay-tcp","loopback-tcp+host-tcp","shm+tcp"'
check "paths of a ring on one node" paths same-node ring \
	'"overlay-tcp","loopback-tcp","shm"'
check "paths of a ring over both" paths spread ring \
	'"overlay-tcp","loopback-tcp+host-tcp","shm+tcp"'
check "paths of sums on one node" paths same-node hierarchical \
	'"overlay-tcp","loopback-tcp","shm"'
check "paths of sums on both, across nodes and within" paths spread \
	hierarchical '"overlay-tcp","host-tcp+loopback-tcp","tcp+shm"'
check "the wire has one gradient of a node" q strategies '[.results[]|
	select(.variable_update=="hierarchical").local_sum]|all'
check "who exchanges nothing says so" paths spread independent '"none"'
check "a ring of one" runs alone --variable-update ring --workers 1 \
	--placement same-node
check "has no path" q alone '[.results[].path]==["none","none"]'
check "a node of one" runs nodeofone --variable-update hierarchical \
	--workers 1 --placement same-node
check "has no path either" q nodeofone '[.results[].path]==["none","none"]'
check "rings, raw" runs rawring --variable-update ring,hierarchical --raw \
	--placement spread
for how in none:tcp auth:tcp+auth tls:tcp+tls; do
	check "agents' security: ${how%:*}" runs "sec-${how%:*}" \
		--security "${how%:*}" --transport podlane \
		--placement cross-node
	check "is in the result: ${how#*:}" q "sec-${how%:*}" \
		".machine.carrier==\"${how#*:}\" and
		.results[0].path==\"${how#*:}\" and .results[0].verified"
done
can_shape() {
	unshare -n sh -c 'ip link add va type veth peer name vb &&
		tc qdisc add dev va root "$@"' sh "$@" 2>/dev/null
}
if can_shape tbf rate 1mbit burst 10k latency 1ms; then
	check "a slow wire" bench --tensors "$T/net" --link 100m \
		--transport overlay,podlane,host --placement cross-node \
		--steps 3 --repeat 1 --json "$T/slow.json"
	check "nothing is faster than it" q slow '[.results[]|
		.gradient_bytes_per_s<25e6]|length==3 and all'
else
	skip "a slow wire" "this kernel has no tbf"
fi
if can_shape netem delay 1ms; then
	check "a long wire" bench --tensors "$T/net" --link 100m,5ms \
		--placement cross-node --repeat 1 --json "$T/long.json"
	check "no step is shorter than there and back" q long \
		'[.results[]|.step_ms.p50>10]|length==2 and all'
else
	check "what the kernel lacks is named" fails 1 "sch_netem" \
		--link 1g,1ms
fi
printf '64\nmoon\n' >"$T/net.bad"
check "a model of one's own" bench --tensors "$T/net" --steps 2 --warmup 1 \
	--repeat 1 --workers 3 --json "$T/own.json"
check "is verified, by its name" q own '[.results[]|.verified and
	.model=="net"]|length==4 and all'
check "one transport only" runs one --transport podlane \
	--placement same-node
check "without the overlay no speed-up is known" \
	q one '[.results[]|.speedup_vs_overlay,.raw_bytes_per_s.one_way]==
	[null,null]'
check "reno instead of the machine's congestion control" runs reno \
	--congestion-control reno --placement same-node
check "is what namespaces and sockets used" q reno \
	'.machine.congestion_control=={"sysctl":"reno","overlay_sockets":"reno","carrier":"reno"}'
check "stands in the table" grep -q '^TCP .*reno' "$T/reno.out"
sanitized || check "a GPU's time passes" runs gpu --compute k80 --batch 2 \
	--placement same-node
sanitized || check "computing is in the step" q gpu '[.results[].step_ms.p50>=15]|all'
check "a run folder of one's own" runs own --run-dir "$T/own" \
	--placement same-node --transport overlay
check "is removed" test ! -e "$T/own"
check "nothing is left of good runs" nothing_left

# --- bad input --------------------------------------------------------------
worker_fails() {
	local text=$1
	shift
	"$P" worker --transport overlay "$@" 2>"$T/err" </dev/null
	[ $? = 2 ] && grep -qF -- "$text" "$T/err"
}
check "unknown option" fails 2 "unknown option '--frob'" --frob
check "a bad tensor is named by file and line" fails 2 \
	"net.bad: line 2" --tensors "$T/net.bad"
check "a ring has no other node" fails 2 "give --placement spread" \
	--variable-update ring
check "nodes must have all workers" worker_fails "add up to --workers 4" \
	--variable-update hierarchical --workers 4 --nodes 2,1 \
	--peers 127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1
check "one worker can't be on two nodes" fails 2 "two workers" \
	--placement spread --workers 1
check "a ring is synchronous" fails 2 "--async is for" --async \
	--variable-update ring --placement same-node
check "unknown model" fails 2 "unknown model 'lenet'" --model lenet
check "unknown placement" fails 2 "'moon'" --placement moon
check "unknown transport" fails 2 "'pigeon'" --transport pigeon
check "unknown congestion control" fails 1 \
	"no TCP congestion control 'pigeon', it has: " "${small[@]}" \
	--congestion-control pigeon
check "no rate for this GPU" fails 1 "no published rate of googlenet" \
	--model googlenet --compute v100
mkdir "$T/there"
touch "$T/there/file"
check "a run folder that exists" fails 1 "exists already" "${small[@]}" \
	--run-dir "$T/there"
check "is left alone" test -e "$T/there/file"
check "a folder for results that is not there" fails 1 "--json" \
	"${small[@]}" --json "$T/no/x.json"
check "no agent program" fails 1 "--podlaned $T/none is no program" \
	"${small[@]}" --podlaned "$T/none"
check "an agent that ends at once" fails 1 \
	"the agent of node1 ended with status 1" "${small[@]}" \
	--podlaned /bin/false
check "no plugins" fails 1 "no CNI plugin podlane" "${small[@]}" \
	--cni-bin "$T/there"
check "more memory than there is" fails 1 "GB of memory" --model vgg16 \
	--workers 64 --steps 1
fails_without_root() {
	setpriv --reuid 65534 --clear-groups "$P" compare 2>&1 |
		grep "needs root"
}
check "without root" fails_without_root
check "results in the place of a device" fails 1 "no regular file" \
	"${small[@]}" --json /dev/full
check "results in the place of a folder" fails 1 "no regular file" \
	"${small[@]}" --json "$T/there"
one_run() { "$P" compare "${small[@]}" --placement same-node --transport podlane; }
table_lost() {
	local rc
	case $1 in
	full) one_run >/dev/full 2>"$T/err" ;;
	closed) one_run >&- 2>"$T/err" ;;
	both) one_run <&- >&- 2>"$T/err" ;;
	esac
	rc=$?
	cat "$T/err"
	[ $rc = 1 ] && grep -q "cannot write to standard output" "$T/err"
}
check "the table finds no space" table_lost full
check "standard output is closed" table_lost closed
check "standard input, too" table_lost both
small_files() {
	local rc
	# Through a pipe: no shell's file may grow then, either.
	(ulimit -f "$1"; exec "$P" compare "${small[@]}") 2>&1 | cat >"$T/err"
	rc=${PIPESTATUS[0]}
	cat "$T/err"
	[ $rc = 1 ] && grep -qi "file too large\|ulimit -f" "$T/err"
}
check "no file may be written" small_files 0
check "only small files may be written" small_files 4
without_gnuplot() {
	PATH=$T/there "$P" compare --plot "$T/x.png" 2>"$T/err"
	grep -q "apt-get install gnuplot" "$T/err"
}
check "without gnuplot" without_gnuplot
check "nothing is left of bad input" nothing_left
finish

#!/bin/bash
# tests/system/bench_k8s.sh: the benchmark's Jobs, rendered as kubectl does it,
# keep to our rules; what is in them runs in pods of two nodes, each with a host
# name that comes late, nobody's account and no capability; results become one.
. "$(dirname "$0")/lib.sh"
. tests/system/manifests.bash
KIND='. == "Job"'
WHERE=
manifests bench/k8s
NAME=app.kubernetes.io/name
ROLE=app.kubernetes.io/component
ME='select(.kind == "Job")'

rules podlane-bench
check labelled holds "select(.kind != \"ConfigMap\") | .metadata.labels[\"$NAME\"] == \"ps-throughput\""
check nobody-s-account holds "$SPEC | .securityContext.runAsNonRoot and .securityContext.runAsUser > 0 and
	.automountServiceAccountToken == false and .enableServiceLinks == false"
check nothing-of-the-node holds "$SPEC | (.hostNetwork or .hostPID or .hostIPC or .volumes) | not"
check nothing-added holds "$C | .securityContext.capabilities.add == null"
check restricted holds 'select(.kind == "Namespace") | .metadata.labels["pod-security.kubernetes.io/enforce"] == "restricted"'
check two-jobs holds "$ME | .metadata.name == .metadata.labels[\"$ROLE\"] and
	.spec.template.metadata.labels == .metadata.labels"
check ends-and-tells-it holds "$ME | .spec | .completionMode == \"Indexed\" and .backoffLimit == 0 and
	.activeDeadlineSeconds > 0 and .ttlSecondsAfterFinished >= 3600 and .completions == .parallelism and
	.template.spec.restartPolicy == \"Never\""
check service-has-no-address holds "select(.kind == \"Service\") | .spec | .clusterIP == \"None\" and
	.publishNotReadyAddresses and .selector == {\"$NAME\": \"ps-throughput\"}"
# Across objects of one overlay.
each() { # FILTER of the list of all objects
	local o
	for o in $OVERLAYS; do
		jq -es "$1" "$T/$o.json" >/dev/null || { echo "$o: $1"; return 1; }
	done
}
JOBS='[.[] | select(.kind == "Job")]'
OPTS='(.[] | select(.kind == "ConfigMap"))'
check names-are-the-service-s each "(.[] | select(.kind == \"Service\") | .metadata.name) as \$s |
	$JOBS | length == 2 and all(.spec.template.spec.subdomain == \$s)"
check as-many-as-the-options-say each "$OPTS.data as \$o | $JOBS | all(.spec.completions ==
	({server: \$o.PS_OPT_SERVERS, worker: \$o.PS_OPT_WORKERS}[.metadata.name] | tonumber))"
check options-by-environment each "$OPTS.metadata.name as \$n | $JOBS | all(.spec.template.spec.containers |
	length == 1 and .[0].envFrom == [{configMapRef: {name: \$n}}])"
near() { # OVERLAY ROLE KIND LABELS
	jq -es "$JOBS | .[] | select(.metadata.name == \"$2\") | .spec.template.spec.affinity.$3 |
		.requiredDuringSchedulingIgnoredDuringExecution == [{topologyKey: \"kubernetes.io/hostname\",
			labelSelector: {matchLabels: $4}}]" "$T/$1.json"
}
is() { echo "{\"$ROLE\": \"$1\"}"; }
placements() {
	local r o=server
	for r in worker server; do
		near same-node $r podAffinity "{\"$NAME\": \"ps-throughput\"}" &&
			near cross-node $r podAffinity "$(is $r)" &&
			near cross-node $r podAntiAffinity "$(is $o)" &&
			near spread $r podAntiAffinity "$(is $r)" || return
		o=worker
	done
}
check placements placements

# --- what is in them, in pods ---------------------------------------------------
two_agents || exit 1
cp "$O/bench/ps_throughput" "$T/"
chmod 711 "$T"
echo 'hosts: files' >"$T/nsswitch.conf"
printf 'a/kernel 300x1000\na/bias 1000\nb/kernel 200x1000\n' >"$T/net"
chmod 644 "$T/net"
# fresh POD:NODE...: those of before go, and these come; no name is known.
fresh() {
	local p
	for p in "${!POD[@]}"; do
		cni "$(node_of "$p")" DEL "${POD[$p]}" "$p" < <(conf "$(node_of "$p")")
		kill "${POD[$p]}"
	done
	POD=()
	WHERE="$*"
	: >"$T/hosts"
	for p; do
		pod_add "${p#*:}" "${p%:*}" podlane-bench || return
	done
}
node_of() { local p; for p in $WHERE; do [ "${p%:*}" = "$1" ] && echo "${p#*:}"; done; }
# The cluster's DNS.
known() { local p; for p; do echo "${IP[$p]} $p.ps" >>"$T/hosts"; done; }
# start OVERLAY POD [VAR=VALUE...]: the Job's container, as it is written there.
start() {
	local o=$1 pod=$2 job
	job="$JOBS | .[] | select(.metadata.name == \"${pod%-*}\") | .spec.template.spec.containers[0]"
	shift 2
	mapfile -t ARGV < <(jq -rs "$job | (.command[1:] + .args)[]" "$T/$o.json" |
		sed "s/\$(JOB_COMPLETION_INDEX)/${pod##*-}/")
	mapfile -t VARS < <(jq -rs "$OPTS.data | to_entries[] | \"\(.key)=\(.value)\"" "$T/$o.json")
	# Seen by the pod alone: names, and a way to $T for who is not root.
	nsenter --net=/proc/"${POD[$pod]}"/ns/net unshare -m sh -c '
		mount --bind "$1/hosts" /etc/hosts &&
		mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf &&
		mount --bind "$1" /mnt && shift && exec "$@"' sh "$T" \
		setpriv --reuid 65532 --regid 65532 --clear-groups --no-new-privs \
		--inh-caps=-all --bounding-set=-all \
		env -i "${VARS[@]}" PS_OPT_MODEL= PS_OPT_TENSORS=/mnt/net PS_OPT_STEPS=4 \
		PS_OPT_NODE_NAME="node$(node_of "$pod")" "$@" \
		/mnt/ps_throughput "${ARGV[@]}" >"$T/$pod.out" 2>"$T/$pod.err" &
	CLIENT[$pod]=$!
	PIDS+=("$!")
}
job() { # OVERLAY NAME [VAR=VALUE...]: ends well, and is in $T/NAME.json
	local o=$1 name=$2 p rc=0 pods
	pods=$(for p in $WHERE; do echo "${p%:*}"; done)
	shift 2
	rm -f "$T"/*-[0-9].out
	: >"$T/hosts"
	for p in $pods; do start "$o" "$p" "$@"; done
	# The last name comes when the others have been looking for it.
	known server-0 worker-0
	sleep 0.5
	known worker-1
	for p in $pods; do wait "${CLIENT[$p]}" || rc=1; done
	cat "$T"/{server,worker}-[0-9].out | bench/k8s/results >"$T/$name.json" 2>"$T/why" &&
		[ $rc = 0 ] || { cat "$T/why" "$T"/*-[0-9].err "$T"/*-[0-9].out; return 1; }
}
q() { jq -e "$2" "$T/$1.json"; }
described() {
	python3 - docs/ps_throughput.schema.json "$T/$1.json" <<-EOF
	import json, sys, jsonschema
	schema, doc = (json.load(open(f)) for f in sys.argv[1:])
	jsonschema.Draft201909Validator(schema).validate(doc)
	EOF
}
# both NAME OVERLAY PATH GRADIENTS...: over both transports
tells() { # NAME OVERLAY TRANSPORT PATH
	q "$1" ".results | length == 1 and (.[0] | .verified and .placement == \"$2\" and
		.transport == \"$3\" and .path == \"$4\" and .images_per_s > 0 and .step_ms.p50 > 0 and
		.workers == 2 and .steps == 4 and .nic.name == \"eth0\")" && described "$1"
}
step pods-same-node fresh server-0:1 worker-0:1 worker-1:1
step podlane-same-node job same-node a
check podlane-same-node-is-verified tells a same-node podlane shm
step overlay-same-node job same-node b PS_OPT_TRANSPORT=overlay
check overlay-same-node-is-verified tells b same-node overlay overlay-tcp
step async-same-node job same-node async PS_OPT_ASYNC=1
check async-is-as-stale-as-servers-say eval 'described async && q async ".results[0] |
	.verified and .async and .staleness.mean >= 0 and .staleness.max >= .staleness.mean"'
step hierarchical-same-node job same-node c PS_OPT_VARIABLE_UPDATE=hierarchical
check hierarchical-needs-no-server q c '.results[0] | .verified and .servers == 0 and .path == "shm"'

step pods-cross-node fresh server-0:2 worker-0:1 worker-1:1
step podlane-cross-node job cross-node d
check podlane-cross-node-is-verified tells d cross-node podlane "$VIA"
check a-worker-sums-for-its-node q d '.results[0].local_sum'
step overlay-cross-node job cross-node e PS_OPT_TRANSPORT=overlay
check overlay-cross-node-is-verified tells e cross-node overlay overlay-tcp

step pods-spread fresh server-0:1 worker-0:1 worker-1:2
step podlane-spread job spread f
check podlane-spread-is-verified tells f spread podlane "shm+$VIA"
step ring-spread job spread g PS_OPT_VARIABLE_UPDATE=ring
check ring-is-verified q g '.results[0] | .verified and .servers == 0'
step overlay-ring-spread job spread h PS_OPT_VARIABLE_UPDATE=ring PS_OPT_TRANSPORT=overlay
check overlay-ring-is-verified q h '.results[0] | .verified and .path == "overlay-tcp"'
page() {
	mkdir "$T/page" && cp "$T"/[a-h].json "$T/page" &&
		bench/report "$T/page" >"$T/page.html" 2>"$T/why" && [ ! -s "$T/why" ] &&
		[ "$(grep -o 'a/kernel\|<td>net</td>' "$T/page.html" | wc -l)" = 8 ]
}
check report-reads-them page

# --- what goes wrong ------------------------------------------------------------
no_name() {
	: >"$T/hosts"
	start spread worker-0 PS_OPT_TIMEOUT=1
	wait "${CLIENT[worker-0]}"
	[ $? = 1 ] && grep -q 'after 1 s: --server: server-0.ps: ' "$T/worker-0.err" &&
		jq -e '(.ok | not) and .role == "worker" and (.error | test("server-0.ps"))' \
			"$T/worker-0.out"
}
check a-name-that-does-not-come no_name
results() { # FILTER TEXT: of the reports of the last job, changed by it
	local rc
	jq -c "$1" "$T/reports" | bench/k8s/results >"$T/out" 2>"$T/why"
	rc=$?
	cat "$T/why"
	[ $rc = 1 ] && [ ! -s "$T/out" ] && grep -qF -- "$2" "$T/why"
}
step job-of-reports job spread i
cat "$T"/{server,worker}-[0-9].out >"$T/reports"
W1='.role == "worker" and .rank == 1'
check a-lost-role results "select(($W1) | not)" "reports of workers [0], of 2"
check a-role-twice results "., select($W1)" "reports of workers [0, 1, 1], of 2"
check a-failed-role results "if $W1 then .ok = false | .error = \"no luck\" else
	.ok = false | .peer_gone = true | .error = \"gone\" end" "worker 1: no luck"
check other-parameters results "if $W1 then .checksum = \"1\" else . end" \
	"worker 1 ended with other parameters"
check another-job results "if $W1 then .job.steps = 9 else . end" \
	"worker 1 has another job than server 0"
check unverified results "if $W1 then .verified = false else . end" "worker 1 verified nothing"
check no-node results "if $W1 then del(.node) else . end" "no node"
check not-whole results "if $W1 then del(.t_last_ns) else . end" "not whole"
cut_off() {
	head -c 900 "$T/reports" | bench/k8s/results >"$T/out" 2>"$T/why"
	[ $? = 1 ] && [ ! -s "$T/out" ] && cat "$T/why"
}
check cut-off cut_off
others() {
	{ echo "a warning"; sed 's/^/[pod\/x] /' "$T/reports"; } | bench/k8s/results 2>"$T/why" |
		jq -e '.results[0].verified' && [ "$(cat "$T/why")" = "a warning" ]
}
check lines-of-others others
finish

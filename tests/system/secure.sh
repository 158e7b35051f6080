#!/bin/bash
# tests/system/secure.sh: agents with a pre-shared key, with certificates, with
# proof alone and in plain text: lanes and regions while agents die, what is on
# the wire, who does not get in, keys that are exchanged.
. "$(dirname "$0")/lib.sh"
. tests/system/resume.bash

if ! command -v openssl >/dev/null; then
	skip secure "no openssl here; apt-get install openssl"
	finish
fi

# --- keys, as podlaned(8) says ------------------------------------------------

psk() { (umask 077 && openssl rand -hex 32 >"$1"); }
ca() { # FILE: FILE.pem and FILE.key
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 \
		-noenc -days 3650 -subj /CN=podlane -keyout "$1.key" \
		-out "$1.pem"
}
cert() { # N CA [NAME [DAYS]]: into the folder of node N, as a rotation does it
	local n=$1 ca=$2 name=${3:-node$1} days=${4:-365} d=$T/n$1
	(umask 077 && openssl req -newkey ec \
		-pkeyopt ec_paramgen_curve:P-256 -noenc -subj "/CN=$name" \
		-addext "subjectAltName=DNS:$name" -keyout "$d/new.key" \
		-out "$d/csr") &&
	openssl x509 -req -in "$d/csr" -CA "$ca.pem" -CAkey "$ca.key" \
		-copy_extensions copy -days "$days" -out "$d/new.pem" &&
	mv "$d/new.pem" "$d/node.pem" && mv "$d/new.key" "$d/node.key"
}
ca_is() { cp "$2.pem" "$T/n$1/new.ca" && mv "$T/n$1/new.ca" "$T/n$1/ca.pem"; }
psk_is() { cp -p "$2" "$T/n$1/new.psk" && mv "$T/n$1/new.psk" "$T/n$1/psk"; }
# mode N none|psk|auth|tls: the configuration of node N
mode() {
	case $2 in
	none) CARRIER='{"security":"none"}';;
	psk) CARRIER='{"security":"psk","key":"'$T'/n@N/psk"}';;
	auth) CARRIER='{"security":"psk","key":"'$T'/n@N/psk","encrypt":false}';;
	tls) CARRIER='{"security":"tls","ca":"'$T'/n@N/ca.pem",
		"cert":"'$T'/n@N/node.pem","key":"'$T'/n@N/node.key"}';;
	esac
	agent_config "$1"
}
node_add 1
node_add 2
node_add 3
unset 'NODE[3]'
STRANGER=$PID
make_keys() {
	local n
	psk "$T/psk1" && psk "$T/psk2" && ca "$T/ca1" && ca "$T/ca2" || return 1
	for n in 1 2; do
		psk_is $n "$T/psk1" && ca_is $n "$T/ca1" && cert $n "$T/ca1" ||
			return 1
	done
}
step "keys and certificates are made" make_keys
has() { ctl "$1" -o json "$2" | jq -e "$3"; }
both() { # MODE
	local n
	none_runs || return 1
	for n in 1 2; do
		mode $n "$1" && agent_start $n || return 1
	done
}
none_runs() {
	local n
	for n in 1 2; do
		[ -n "${AGENT[$n]:-}" ] || continue
		kill -KILL "${AGENT[$n]}" 2>/dev/null
		wait_for 10 is_gone "${AGENT[$n]}" || return 1
	done
}
# The end of all_move, of its servers and of the agents.
all_ended() {
	all_came
	disown "${CLIENT[serve_a]}" "${CLIENT[serve_c]}"
	kill -KILL "${CLIENT[serve_a]}" "${CLIENT[serve_c]}"
	wait_for 10 is_gone "${CLIENT[serve_a]}"
	wait_for 10 is_gone "${CLIENT[serve_c]}"
	none_runs
	rm -f "$T"/*.out
}
again() { agent_stop "$1" KILL && agent_start "$1"; }
cut_links() { in_ns "${NODE[1]}" ss -K dst 10.99.0.2 >/dev/null 2>&1 || true; }

# --- lanes and regions, agents that die ---------------------------------------

pause_and_resume() {
	again 1 && moves $ALL && again 2 && moves $ALL && nothing_failed &&
		cut_links && moves $ALL || return 1
	kill -KILL "${AGENT[1]}" "${AGENT[2]}"
	wait_for 10 is_gone "${AGENT[1]}" && wait_for 10 is_gone "${AGENT[2]}" &&
		agent_start 1 && agent_start 2 && moves $ALL && nothing_failed
}
shown() { # PATH SECURITY
	ctl 1 -o json lanes | jq -e "[.[] | select(.path == \"$1\")] | length == 5" &&
	has 1 nodes ".[] | select(.name == \"node2\") | .carrier == \"$1\" and
		.security == \"$2\" and .state == \"up\"" &&
	ctl 2 -o json regions | jq -e 'any(.[]; .path == "shm")' &&
	ctl 1 -o json regions | jq -e "any(.[]; .path == \"$1\")"
}
for m in psk tls; do
	echo "# $m"
	step "$m: agents" both $m
	[ "$FAILED" = 0 ] || finish
	[ -n "${POD[a]:-}" ] || four_pods
	all_move
	step "$m: agents die, lanes go on" pause_and_resume
	step "$m: shown with lanes, regions and nodes" wait_for 10 shown tcp+tls $m
	all_ended
done

# --- what is on the wire --------------------------------------------------------

PODS=$O/tests/system/sum_pods
tap() {
	: >"$T/tap.out"
	nsenter --net=/proc/"$SWITCH"/ns/net "$O/tests/system/wire_tap" n1 FLIPME \
		>"$T/tap.out" 2>&1 &
	TAP=$!
	PIDS+=("$TAP")
	soon tap tapping
}
wire() { # MODE seen|unseen
	both "$1" && tap || return 1
	: >"$T/take.out"
	nsenter --net=/proc/"${POD[c]}"/ns/net "$PODS" take svc >"$T/take.out" 2>&1 &
	PIDS+=("$!")
	local take=$!
	soon take listening &&
		in_ns "${POD[a]}" "$PODS" send 10.88.2.10 svc 300000 2 &&
		soon take "received 19200000" && soon tap "$2" || return 1
	[ "$2" = seen ] || ! grep -qx seen "$T/tap.out" || return 1
	kill "$take" "$TAP" 2>/dev/null
	wait_for 10 is_gone "$take" && none_runs
}
step "plain text: data is on the wire as it is" wire none seen
step "proof alone: so it is" wire auth seen
step "pre-shared key: it is not" wire psk unseen
step "certificates: it is not" wire tls unseen

# --- who does not get in ---------------------------------------------------------

state_is() { [ "$(has "$1" nodes '.[] | select(.name != "node'"$1"'") | .state' | tr -d '"')" = "$2" ]; }
logged() { grep -qF -- "$2" "$T/n$1/agent.log"; }
# pods of both nodes try, and neither reaches the other.
apart() {
	local out
	out=$(client a connect 10.88.2.10 svc 2000) && return 1
	[[ $out == *error* ]] || { echo "$out"; return 1; }
	out=$(client c connect 10.88.1.10 svc 2000) && return 1
	[[ $out == *error* ]] || { echo "$out"; return 1; }
	has 1 nodes 'all(.[]; .state != "up")' && has 2 nodes \
		'all(.[]; .state != "up")'
}
# differ STATE1 TEXT STATE2 TEXT: what node 1 and node 2 say
differ() {
	none_runs
	: >"$T/n1/agent.log"
	: >"$T/n2/agent.log"
	agent_start 1 && agent_start 2 && apart &&
		wait_for 10 state_is 1 "$1" && wait_for 10 logged 1 "$2" &&
		wait_for 10 state_is 2 "$3" && wait_for 10 logged 2 "$4" &&
		none_runs && return
	ctl 1 nodes
	ctl 2 nodes
	tail "$T"/n?/agent.log
	return 1
}
REJECTED="down: Key was rejected by service"
mode 1 psk
mode 2 psk
psk_is 2 "$T/psk2"
step "another pre-shared key" differ \
	"$REJECTED" "it does not have a pre-shared key of this node" \
	"$REJECTED" "it does not have a pre-shared key of this node"
psk_is 2 "$T/psk1"
mode 1 tls
mode 2 tls
cert 2 "$T/ca2" >/dev/null 2>&1
step "another CA" differ \
	"$REJECTED" "its certificate is refused: unable to get local issuer" \
	"$REJECTED" "it refuses this node: unknown CA"
cert 2 "$T/ca1" node2 0 >/dev/null 2>&1
sleep 1
step "a certificate that has expired" differ \
	"down: Key has expired" "its certificate is refused: certificate has expired" \
	"$REJECTED" "it refuses this node: certificate expired"
step "which its own agent warns about" grep -q \
	"node.pem: the certificate has expired, other nodes will refuse it" \
	"$T/n2/agent.log"
cert 2 "$T/ca1" node3 >/dev/null 2>&1
step "a certificate of another node: not started" says 1 \
	"it needs the subject alternative name DNS:node2" \
	in_ns "${NODE[2]}" "$O/daemonset/podlaned" --config "$T/n2/agent.json" \
	--run-dir "$T/n2/run" --node node2
# Node 2 has the address of node 2, but calls itself node 3.
other_name() {
	: >"$T/n1/agent.log"
	agent_start 1 || return 1
	sed 's/"node2"/"node3"/' "$T/nodes.json" >"$T/n2/nodes.json"
	jq ".registry.file = \"$T/n2/nodes.json\"" "$T/n2/agent.json" \
		>"$T/n2/new.json" && mv "$T/n2/new.json" "$T/n2/agent.json"
	NODE_NAME[2]=node3
	agent_start 2 && apart && wait_for 10 state_is 1 "$REJECTED" &&
		wait_for 10 logged 1 "its certificate is refused: hostname mismatch" &&
		wait_for 10 logged 1 "refused node=node3 address=10.99.0.2" &&
		none_runs && return
	tail "$T"/n?/agent.log
	return 1
}
step "a node that is another one" other_name
unset 'NODE_NAME[2]'
cert 2 "$T/ca1" >/dev/null 2>&1
mode 2 none
step "plain text against certificates" differ \
	"down: Protocol not supported" "it does not speak TLS 1.3" \
	"down: Connection reset by peer" "is carrier.security the same there?"
mode 1 none
mode 2 psk
step "a key against plain text" differ \
	"down: Connection reset by peer" "is carrier.security the same there?" \
	"down: Protocol not supported" "it does not speak TLS 1.3"
mode 1 auth
step "proof alone against encryption" differ \
	"down: Protocol not supported" "carrier.encrypt is not the same there" \
	"down: Protocol not supported" "carrier.encrypt is not the same there"

# --- somebody else ----------------------------------------------------------------

# What comes back: its bytes, in hexadecimal digits; it must end by itself.
tell() { # NAMESPACE BYTES
	timeout 15 nsenter --net=/proc/"$1"/ns/net bash -c '
		exec 3<>/dev/tcp/10.99.0.1/7471 || exit 9
		printf "$1" >&3
		cat <&3' - "$2" 2>/dev/null >"$T/told"
	local rc=$?
	[ $rc != 124 ] || { echo "it waits"; return 1; }
	od -An -tx1 -v "$T/told" | tr -d ' \n' >"$T/told.hex"
	# Nothing, or an alert of TLS.
	[[ $(cat "$T/told.hex") =~ ^(15030[0-9]0002....)?$ ]] ||
		{ cat "$T/told.hex"; false; }
}
HALF='\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'
mode 1 psk
agent_start 1 || exit 1
for who in "${NODE[2]}" "$STRANGER"; do
	w=$([ "$who" = "$STRANGER" ] && echo "from elsewhere" || echo "from a node")
	step "garbage $w" tell "$who" 'hello, is anybody there?\r\n\r\n'
	step "nothing but silence $w" tell "$who" ''
	step "half a ClientHello $w" tell "$who" "$HALF"
done
unknown() { logged 1 "refused node=? address=10.99.0.3: no node has this address"; }
step "a stranger's address is logged" unknown
tool() { # ARG...: OpenSSL's own client, from node 2's address
	! timeout 15 nsenter --net=/proc/"${NODE[2]}"/ns/net openssl s_client \
		-connect 10.99.0.1:7471 -brief "$@" </dev/null >"$T/tool" 2>&1 &&
		! grep -q "CONNECTION ESTABLISHED" "$T/tool" || { cat "$T/tool"; false; }
}
step "TLS without a key" tool
step "TLS with a wrong key" tool -tls1_3 -psk_identity x -psk "$(cat "$T/psk2")"
NAME=podlane:$( (printf 'podlane psk name\0'
	printf "$(sed 's/../\\x&/g' "$T/psk1")") | sha256sum | cut -c1-32)
step "the name of the key alone" tool -tls1_3 -psk_identity "$NAME" \
	-psk "$(cat "$T/psk2")"
step "no older TLS, whatever the key" tool -tls1_2 -psk_identity "$NAME" \
	-psk "$(cat "$T/psk1")"
with_key() {
	timeout 15 nsenter --net=/proc/"${NODE[2]}"/ns/net openssl s_client \
		-connect 10.99.0.1:7471 -brief -tls1_3 -psk_identity "$NAME" \
		-psk "$(cat "$T/psk1")" </dev/null >"$T/tool" 2>&1
	grep -q "CONNECTION ESTABLISHED" "$T/tool" || { cat "$T/tool"; false; }
}
step "with the key TLS comes about" with_key
step "the agent serves on" agent_ready 1

# --- keys are exchanged -------------------------------------------------------------

mode 2 psk
agent_start 2 || exit 1
all_move
new_keys() { # OLD NEW: on one node after the other, without a moment apart
	local n
	for n in 1 2; do
		(umask 077 && cat "$1" "$2" >"$T/keys") && psk_is $n "$T/keys"
	done
	again 1 && moves $ALL || return 1
	for n in 1 2; do
		(umask 077 && cat "$2" "$1" >"$T/keys") && psk_is $n "$T/keys"
		cut_links
		moves $ALL || return 1
	done
	for n in 1 2; do
		psk_is $n "$2"
	done
	again 2 && cut_links && moves $ALL && nothing_failed
}
step "another pre-shared key, while lanes go on" new_keys "$T/psk1" "$T/psk2"
: >"$T/n1/agent.log"
wrong_key() {
	echo nonsense >"$T/n1/psk" && wait_for 10 logged 1 \
		"stay in use" && logged 1 "psk: a key must have" && again 2 &&
		moves $ALL && nothing_failed
}
step "a wrong file is logged, and changes nothing" wrong_key
psk_is 1 "$T/psk2"
step "the right one is taken" wait_for 10 logged 1 "keys have changed"
all_ended
mode 1 tls
mode 2 tls
agent_start 1 && agent_start 2 || exit 1
all_move
new_ca() {
	local n
	for n in 1 2; do
		cat "$T/ca1.pem" "$T/ca2.pem" >"$T/n$n/new.ca" &&
			mv "$T/n$n/new.ca" "$T/n$n/ca.pem"
	done
	for n in 1 2; do
		cert $n "$T/ca2" && again $((3 - n)) && moves $ALL || return 1
	done
	for n in 1 2; do
		ca_is $n "$T/ca2"
	done
	again 1 && again 2 && moves $ALL && nothing_failed
}
step "another CA, while lanes go on" new_ca
all_ended

# --- files that are refused -----------------------------------------------------------

starts_not() { # TEXT
	says 1 "$1" in_ns "${NODE[1]}" "$O/daemonset/podlaned" \
		--config "$T/n1/agent.json" --run-dir "$T/n1/run" --node node1
}
chmod 644 "$T/n1/node.key"
check "a key that others can read" starts_not "node.key has mode 0644"
chmod 600 "$T/n1/node.key"
rm "$T/n1/ca.pem"
check "no CA" starts_not "ca.pem: no certificates of a CA in PEM"
mode 1 psk
chmod 640 "$T/n1/psk"
check "a pre-shared key that others can read" starts_not "psk has mode 0640"
CARRIER='{}'
agent_config 1
check "nothing is said" starts_not "carrier.security is missing: how do agents"
CARRIER='{"security":"psk"}'
agent_config 1
check "no key is said" starts_not '"psk" needs carrier.key: the path of'
finish

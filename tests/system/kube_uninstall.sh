#!/bin/bash
# tests/system/kube_uninstall.sh: what an agent says on its Node goes with it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/client.bash"
. "$(dirname "$0")/install.bash"
. tests/system/kube.bash
need nft jq

host_start
api_start || exit 1
api_node 1
mkdir -p "$T/etc"
cat >"$T/etc/podlane.json" <<EOC
{"registry":{"type":"kubernetes","kubeconfig":"$T/kubeconfig"},
 "cni":{"mode":"standalone"},"carrier":{"security":"none"}}
EOC
notes() { # FILTER: of node1's annotations
	api '{"op":"get","name":"node1"}' | jq -e ".metadata.annotations | $1"
}
undo() { uninstall --node node1 "$@"; }
api '{"op":"annotate","name":"node1","key":"podlane.io/allow","value":"x",
	"manager":"somebody"}' >/dev/null
install && serve || exit 1
published() { notes 'has("podlane.io/endpoint") and has("podlane.io/version")'; }
check published wait_for 15 published
serve_end
dry() {
	local k
	undo --dry-run >"$T/o" || { cat "$T/o"; return 1; }
	for k in endpoint carriers version; do
		grep -F "would remove annotation podlane.io/$k" "$T/o" || return
	done
	! grep podlane.io/allow "$T/o" && published
}
check listed-and-left dry
api '{"op":"fault","for":"patch","times":1,"status":403,"message":"no"}' >/dev/null
check refused says 1 'annotations podlane.io/... of node node1' undo
check still-there published
check removed says 0 "removing annotation podlane.io/endpoint" undo
left() { notes '. == {"podlane.io/allow": "x"}'; }
check others-stay left
check again says 0 "nothing of podlane" undo
check no-such-node says 0 "nothing of podlane" uninstall --node other
api '{"op":"set","down":true}' >/dev/null
check server-away says 1 "all else is away" undo
check server-away-dry says 0 "cannot see" undo --dry-run
finish

# tests/system/manifests.bash: manifests as kubectl renders them, and the rules
# that all of ours keep to; after lib.sh.
#
#   manifests DIR     what DIR/overlays has is rendered to $T/OVERLAY.json, one
#                     object a line; their names are in $OVERLAYS. Ends the
#                     test where a program is missing
#   KIND              before it: a test of .kind, as '. == "Job"'; then $SPEC and
#                     $C select the specs of its pods, and all their containers
#   holds FILTER      in each overlay it gives true for each of what it selects,
#                     of which there is something
#   of OVERLAY FILTER   the same in one overlay
#   rules NAMESPACE   checks of what is the same for all of our manifests
manifests() {
	local p o
	for p in kubectl yq jq; do
		command -v $p >/dev/null && continue
		skip "$(basename "$0" .sh)" "$p is not installed (make deps)"
		exit 0
	done
	D=$T/manifests
	cp -r "$1" "$D"
	OVERLAYS=$(ls "$D/overlays")
	set -- $OVERLAYS
	# kubectl 1.20, which Debian 12 has, knows the older words only.
	if ! kubectl kustomize "$D/overlays/$1" >"$T/o" 2>&1; then
		sed -i 's/^resources:/bases:/; s/^- path: /- /; s/^patches:/patchesStrategicMerge:/' \
			"$D"/overlays/*/kustomization.yaml
		[ ! -e "$D/overlays/uninstall" ] || sed -i 's/^bases:/resources:/' \
			"$D/overlays/uninstall/kustomization.yaml"
	fi
	for o in $OVERLAYS; do
		render "$o" >"$T/$o.json"
	done
	SPEC="select(.kind | $KIND) | .spec.template.spec"
	C="$SPEC | (.initContainers // []) + .containers | .[]"
}
render() { kubectl kustomize "$D/overlays/$1" 2>"$T/e" | yq -c . || cat "$T/e"; }
of() { jq -se "[.[] | $2] | length > 0 and all" "$T/$1.json" >/dev/null; }
holds() {
	local o
	for o in $OVERLAYS; do
		of "$o" "$1" || {
			echo "$o: $1"
			jq -c "$1" "$T/$o.json"
			return 1
		}
	done
}
rendered() {
	local o
	for o in $OVERLAYS; do
		jq -es 'length > 1' "$T/$o.json" || { render "$o"; return 1; }
	done
}
rules() {
	local version
	version=$(sed -n 's/^VERSION := //p' Makefile)
	check rendered rendered
	check in-our-namespace holds "select(.kind | test(\"^(DaemonSet|Job|Service|ServiceAccount|ConfigMap)\$\")) |
		.metadata.namespace == \"$1\""
	check not-privileged holds "$C | .securityContext | .privileged != true and .allowPrivilegeEscalation == false"
	check root-file-system-is-read-only holds "$C | .securityContext.readOnlyRootFilesystem"
	check all-capabilities-are-dropped holds "$C | .securityContext.capabilities.drop == [\"ALL\"]"
	check seccomp holds "$SPEC | .securityContext.seccompProfile.type == \"RuntimeDefault\""
	check no-latest holds "$C | .image | test(\":[0-9]+\\\\.[0-9]+\\\\.[0-9]+$\")"
	check image-is-of-this-version holds "$C | .image == \"podlane:$version\""
	check memory-is-limited holds "$C | .resources | .limits.memory and .requests.memory and .requests.cpu"
}

#!/bin/bash
# tests/system/deploy.sh: the manifests, rendered as kubectl does it, keep to
# the rules that we have for them.
. "$(dirname "$0")/lib.sh"
for p in kubectl yq jq; do
	command -v $p >/dev/null && continue
	skip deploy "$p is not installed (make deps)"
	exit 0
done
D=$T/deploy
cp -r daemonset/deploy "$D"
# kubectl 1.20, which Debian 12 has, knows the older words only.
if ! kubectl kustomize "$D/overlays/standalone" >"$T/o" 2>&1; then
	sed -i 's/^resources:/bases:/; s/^- path: /- /; s/^patches:/patchesStrategicMerge:/' \
		"$D"/overlays/*/kustomization.yaml
	sed -i 's/^bases:/resources:/' "$D/overlays/uninstall/kustomization.yaml"
fi
# One JSON object per line.
render() { kubectl kustomize "$D/overlays/$1" 2>"$T/e" | yq -c . || cat "$T/e"; }
OVERLAYS=$(ls "$D/overlays")
for o in $OVERLAYS; do
	render "$o" >"$T/$o.json"
done
# holds FILTER: in each overlay it gives true for each of what it selects, of
# which there is something.
holds() {
	local o
	for o in $OVERLAYS; do
		jq -se "[.[] | $1] | length > 0 and all" "$T/$o.json" >/dev/null || {
			echo "$o: $1"
			jq -c "$1" "$T/$o.json"
			return 1
		}
	done
}
DS='select(.kind == "DaemonSet")'
POD="$DS | .spec.template.spec"
C="$POD | (.initContainers // []) + .containers | .[]"
of() { # OVERLAY FILTER: the same in one overlay
	jq -se "[.[] | $2] | length > 0 and all" "$T/$1.json" >/dev/null
}

rendered() {
	local o
	for o in $OVERLAYS; do
		jq -es 'length > 1' "$T/$o.json" || { render "$o"; return 1; }
	done
}
check rendered rendered
check in-our-namespace holds 'select(.kind | test("^(DaemonSet|ServiceAccount|ConfigMap)$")) | .metadata.namespace == "podlane"'
check labelled holds 'select(.kind | test("^(DaemonSet|ServiceAccount|ClusterRole|ClusterRoleBinding|Namespace)$")) |
	.metadata.labels["app.kubernetes.io/name"] == "podlane"'
check not-privileged holds "$C | .securityContext | .privileged != true and .allowPrivilegeEscalation == false"
check root-file-system-is-read-only holds "$C | .securityContext.readOnlyRootFilesystem"
check all-capabilities-are-dropped holds "$C | .securityContext.capabilities.drop == [\"ALL\"]"
check seccomp holds "$POD | .securityContext.seccompProfile.type == \"RuntimeDefault\""
check no-latest holds "$C | .image | test(\":[0-9]+\\\\.[0-9]+\\\\.[0-9]+$\")"
version() {
	holds "$C | .image == \"podlane:$(sed -n 's/^VERSION := //p' Makefile)\""
}
check image-is-of-this-version version
check memory-is-limited holds "$C | .resources | .limits.memory and .requests.memory and .requests.cpu"
check critical holds "$POD | .priorityClassName == \"system-node-critical\""
check tolerates-everything holds "$POD | .tolerations == [{\"operator\": \"Exists\"}]"
check rolls holds "$DS | .spec.updateStrategy | .type == \"RollingUpdate\" and .rollingUpdate.maxUnavailable"
check node-namespaces holds "$POD | .hostNetwork and (.hostPID or .hostIPC | not)"
check host-paths holds "$POD | [.volumes[].hostPath.path | select(.)] - [\"/opt/cni/bin\",
	\"/etc/cni/net.d\", \"/etc/cdi\", \"/run/podlane\", \"/var/lib/podlane\", \"/run/netns\"] == []"
same_paths() {
	holds "$POD | ([.volumes[] | select(.hostPath) | {key: .name, value: .hostPath.path}] | from_entries) as \$h |
		(.initContainers // []) + .containers | .[].volumeMounts[] | select(\$h[.name]) | .mountPath == \$h[.name]"
}
check same-paths-as-on-the-node same_paths
check config-is-mounted holds "$POD | [.volumes[] | select(.name == \"config\") | .configMap.name | test(\"^podlane-\")] == [true]"
# Exactly what a running agent keeps.
capabilities() {
	local want
	want=$(sed -n '/kept\[\]/,/};/p' daemonset/caps.c | grep -o 'CAP_[A-Z_]*' |
		sed 's/CAP_//' | sort | jq -Rsc 'split("\n")[:-1]')
	local o
	for o in standalone chained chained-lookup; do
		of $o "$POD | .containers[] | (.securityContext.capabilities.add | sort) == $want" ||
			{ echo "$o: $want"; return 1; }
	done
}
check capabilities-of-the-agent capabilities
# RDMA: devices by a device plugin, no path of /dev, and one capability more.
verbs() {
	of verbs "$POD | .containers[] | (.securityContext.capabilities.add - [\"SYS_RESOURCE\"] | sort) ==
		$(sed -n '/kept\[\]/,/};/p' daemonset/caps.c | grep -o 'CAP_[A-Z_]*' |
			sed 's/CAP_//' | sort | jq -Rsc 'split("\n")[:-1]')" &&
		of verbs "$POD | .containers[] | .resources.limits | .memory and
			([keys[] | select(startswith(\"rdma/\"))] | length == 1)" &&
		of verbs "$POD | [.volumes[].hostPath.path | select(.) | select(startswith(\"/dev\"))] == []" &&
		of verbs 'select(.kind == "ConfigMap") | .data["podlaned.json"] | fromjson | .carrier |
			.type == "auto" and .encrypt == false and .security == "psk"'
}
check devices-of-verbs verbs
probes() {
	local o
	for o in standalone chained chained-lookup verbs; do
		of $o "$POD | .containers[] | [.startupProbe, .livenessProbe,
			.readinessProbe] | length == 3 and all(.httpGet.host == \"127.0.0.1\" and .httpGet.port == 7472)" &&
			of $o "$POD | .containers[].volumeMounts[] | select(.mountPath == \"/run/netns\") |
				.mountPropagation == \"HostToContainer\"" || return
	done
}
check probes-and-propagation probes
keys() {
	local o
	for o in standalone chained chained-lookup verbs; do
		of $o "$POD | .volumes[] | select(.secret) | .secret == {secretName: \"podlane\", defaultMode: 256}" &&
			of $o "$POD | [.initContainers[].volumeMounts[].name] | index(\"keys\") == null" &&
			of $o "$POD | .containers[].volumeMounts[] | select(.name == \"keys\") | .readOnly" ||
			return
	done
	of uninstall "$POD | [.volumes[] | select(.secret)] == []"
}
check keys-are-the-agents-only keys
NODES='{apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "watch", "patch"]}'
EVENTS='{apiGroups: [""], resources: ["events"], verbs: ["create", "patch"]}'
# What daemonset/locate_kube.c asks for.
LOOKUP='{apiGroups: [""], resources: ["pods", "services"], verbs: ["list"]},
	{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list"]}'
rbac() {
	local o
	for o in standalone chained chained-lookup verbs; do
		of $o "select(.kind == \"ClusterRole\") | .rules == [$NODES,$EVENTS$([ $o = chained-lookup ] &&
			echo ",$LOOKUP")]" &&
			of $o 'select(.kind == "ClusterRoleBinding") | .subjects == [{kind: "ServiceAccount",
				name: "podlane", namespace: "podlane"}]' || return
	done
	! jq -e 'select(.kind | test("Role"))' "$T/uninstall.json" &&
		of uninstall "$POD | .automountServiceAccountToken == false"
}
check least-rights rbac
# The same object, so that applying one puts it in the place of the other.
in_its_place() {
	local id='select(.kind == "DaemonSet") | [.apiVersion, .metadata.namespace, .metadata.name, .spec.selector]'
	[ "$(jq -c "$id" "$T/standalone.json")" = "$(jq -c "$id" "$T/uninstall.json")" ]
}
check uninstall-takes-the-agents-place in_its_place
# podlaned reads each configuration, and each command has those options.
configs() {
	local o
	for o in $OVERLAYS; do
		jq -r 'select(.kind == "ConfigMap") | .data["podlaned.json"]' \
			"$T/$o.json" >"$T/c.json" && jq -e . "$T/c.json" || return
		"$O/daemonset/podlaned" uninstall --dry-run --config "$T/c.json" \
			--run-dir "$T/run" >"$T/o" 2>&1 && ! grep unknown "$T/o" ||
			{ cat "$T/o"; return 1; }
	done
}
check configurations-are-read configs
finish

#!/bin/bash
# tests/system/deploy.sh: the manifests, rendered as kubectl does it, keep to
# the rules that we have for them.
. "$(dirname "$0")/lib.sh"
. tests/system/manifests.bash
KIND='. == "DaemonSet"'
manifests daemonset/deploy
DS='select(.kind == "DaemonSet")'
rules podlane
check labelled holds 'select(.kind | test("^(DaemonSet|ServiceAccount|ClusterRole|ClusterRoleBinding|Namespace)$")) |
	.metadata.labels["app.kubernetes.io/name"] == "podlane"'
check critical holds "$SPEC | .priorityClassName == \"system-node-critical\""
check tolerates-everything holds "$SPEC | .tolerations == [{\"operator\": \"Exists\"}]"
check rolls holds "$DS | .spec.updateStrategy | .type == \"RollingUpdate\" and .rollingUpdate.maxUnavailable"
check node-namespaces holds "$SPEC | .hostNetwork and (.hostPID or .hostIPC | not)"
check host-paths holds "$SPEC | [.volumes[].hostPath.path | select(.)] - [\"/opt/cni/bin\",
	\"/etc/cni/net.d\", \"/etc/cdi\", \"/run/podlane\", \"/var/lib/podlane\", \"/run/netns\"] == []"
same_paths() {
	holds "$SPEC | ([.volumes[] | select(.hostPath) | {key: .name, value: .hostPath.path}] | from_entries) as \$h |
		(.initContainers // []) + .containers | .[].volumeMounts[] | select(\$h[.name]) | .mountPath == \$h[.name]"
}
check same-paths-as-on-the-node same_paths
check config-is-mounted holds "$SPEC | [.volumes[] | select(.name == \"config\") | .configMap.name | test(\"^podlane-\")] == [true]"
# Exactly what a running agent keeps.
capabilities() {
	local want
	want=$(sed -n '/kept\[\]/,/};/p' daemonset/caps.c | grep -o 'CAP_[A-Z_]*' |
		sed 's/CAP_//' | sort | jq -Rsc 'split("\n")[:-1]')
	local o
	for o in standalone chained chained-lookup; do
		of $o "$SPEC | .containers[] | (.securityContext.capabilities.add | sort) == $want" ||
			{ echo "$o: $want"; return 1; }
	done
}
check capabilities-of-the-agent capabilities
# RDMA: devices by a device plugin, no path of /dev, and one capability more.
verbs() {
	of verbs "$SPEC | .containers[] | (.securityContext.capabilities.add - [\"SYS_RESOURCE\"] | sort) ==
		$(sed -n '/kept\[\]/,/};/p' daemonset/caps.c | grep -o 'CAP_[A-Z_]*' |
			sed 's/CAP_//' | sort | jq -Rsc 'split("\n")[:-1]')" &&
		of verbs "$SPEC | .containers[] | .resources.limits | .memory and
			([keys[] | select(startswith(\"rdma/\"))] | length == 1)" &&
		of verbs "$SPEC | [.volumes[].hostPath.path | select(.) | select(startswith(\"/dev\"))] == []" &&
		of verbs 'select(.kind == "ConfigMap") | .data["podlaned.json"] | fromjson | .carrier |
			.type == "auto" and .encrypt == false and .security == "psk"'
}
check devices-of-verbs verbs
probes() {
	local o
	for o in standalone chained chained-lookup verbs; do
		of $o "$SPEC | .containers[] | [.startupProbe, .livenessProbe,
			.readinessProbe] | length == 3 and all(.httpGet.host == \"127.0.0.1\" and .httpGet.port == 7472)" &&
			of $o "$SPEC | .containers[].volumeMounts[] | select(.mountPath == \"/run/netns\") |
				.mountPropagation == \"HostToContainer\"" || return
	done
}
check probes-and-propagation probes
keys() {
	local o
	for o in standalone chained chained-lookup verbs; do
		of $o "$SPEC | .volumes[] | select(.secret) | .secret == {secretName: \"podlane\", defaultMode: 256}" &&
			of $o "$SPEC | [.initContainers[].volumeMounts[].name] | index(\"keys\") == null" &&
			of $o "$SPEC | .containers[].volumeMounts[] | select(.name == \"keys\") | .readOnly" ||
			return
	done
	of uninstall "$SPEC | [.volumes[] | select(.secret)] == []"
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
	# In the agents' place, with less: their annotations off the Node.
	of uninstall 'select(.kind == "ClusterRole") | .metadata.name == "podlane" and
		.rules == [{apiGroups: [""], resources: ["nodes"], verbs: ["get", "patch"]}]' &&
		of uninstall 'select(.kind == "ClusterRoleBinding") | .subjects == [{kind: "ServiceAccount",
			name: "podlane", namespace: "podlane"}]' &&
		of uninstall "$SPEC | .serviceAccountName == \"podlane\" and
			(.containers[] | (.command | index(\"\$(NODE_NAME)\")) and
			any(.env[]; .name == \"NODE_NAME\"))"
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

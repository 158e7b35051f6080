#!/bin/bash
# tests/system/monitoring.sh: the dashboard and the alerts name what an agent
# gives, in a language that Prometheus understands; alerts fire when they should.
. "$(dirname "$0")/lib.sh"
M=daemonset/deploy/monitoring

two_agents || exit 1
four_pods
client_bg c srv listen svc same 9
soon srv listening
client_bg a lane lanes 10.88.2.10 svc 1
soon lane all
metrics() {
	in_ns "${NODE[1]}" python3 -c 'import urllib.request as u
print(u.urlopen("http://127.0.0.1:7472/metrics").read().decode(), end="")'
}
metrics >"$T/metrics"
# Histograms have three names.
awk '/^# TYPE/ { print $3; if ($4 == "histogram") {
	print $3 "_bucket"; print $3 "_sum"; print $3 "_count" } }' \
	"$T/metrics" | sort >"$T/names"
jq -r '.. | objects | .expr? // empty' "$M/dashboard.json" >"$T/dashboard"
jq -r '.templating.list[].query' "$M/dashboard.json" |
	sed -n 's/^label_values(\([a-z_]*\),.*/\1/p' >"$T/variables"
grep -v '^ *\(todo\|summary\):' "$M/alerts.yaml" >"$T/alerts"
# names FILE: each metric in it is one that the agent gives.
names() {
	grep -oE '\b(podlane|process)_[a-z_]+' "$1" | sort -u >"$T/used"
	[ -s "$T/used" ] && ! comm -23 "$T/used" "$T/names" | grep .
}
check dashboard-has-names-of-ours names "$T/dashboard"
check variables-have-names-of-ours names "$T/variables"
check alerts-have-names-of-ours names "$T/alerts"
# shown: what an agent gives is in a panel or in an alert, but for these.
shown() {
	local all
	all=$(cat "$T/dashboard" "$T/alerts" "$T/variables")
	for n in podlane_lanes podlane_pod_bytes_total podlane_pod_messages_total \
		podlane_pod_refused_total podlane_lane_resumes_total \
		podlane_requests_total podlane_addresses podlane_peer_up \
		podlane_build_info podlane_pod_doorbells_total; do
		[[ $all = *$n* ]] || { echo "$n"; return 1; }
	done
}
check what-operators-ask-for-is-shown shown
panels() {
	jq -e '[.panels[] | .id] | length == (unique | length)' "$M/dashboard.json" &&
		jq -e 'all(.panels[]; .title and .gridPos.w <= 24 and
			.gridPos.x + .gridPos.w <= 24 and
			(.type == "row" or ((.targets | length > 0) and
			all(.targets[]; .expr and .refId))))' "$M/dashboard.json" &&
		jq -e '[.panels[].gridPos | .y as $y | .x as $x |
			range(.h) as $dy | range(.w) as $dx | "\($y + $dy),\($x + $dx)"] |
			length == (unique | length)' "$M/dashboard.json"
}
check panels-do-not-overlap panels
todo() { ! yq -r '.groups[].rules[] | select((.annotations.summary and
	.annotations.todo and .labels.severity) | not) | .alert' "$M/alerts.yaml" | grep .; }
if command -v yq >/dev/null; then
	check alerts-say-what-to-do todo
else
	skip alerts-say-what-to-do "yq is not installed (make deps)"
fi

if ! command -v promtool >/dev/null; then
	skip promtool "promtool is not installed (make deps)"
	finish
	exit
fi
check metrics-as-prometheus-likes-them promtool check metrics <"$T/metrics"
check alerts-are-understood promtool check rules "$M/alerts.yaml"
# Each query of the dashboard as if it were a rule.
queries() {
	jq -c '{groups: [{name: "x", rules: [[.. | objects | .expr? // empty] |
		to_entries[] | {record: "q:\(.key)", expr: (.value |
		gsub("\\$__rate_interval"; "5m") | gsub("\\$[a-z]+"; ".*"))}]}]}' \
		"$M/dashboard.json" >"$T/queries.yaml"
	promtool check rules "$T/queries.yaml"
}
check queries-are-understood queries
sed "s|@RULES@|$PWD/$M/alerts.yaml|" tests/system/alerts_test.yaml >"$T/test.yaml"
check alerts-fire-when-they-should promtool test rules "$T/test.yaml"
finish

# tests/system/bench.bash: what the tests of ps_throughput and lane_perf
# share; after lib.sh.
#
#   q NAME JQ         the results in NAME.json
#   fails STATUS TEXT OPTION...  the exit status of "bench", which the test
#                     defines, and what stands on stderr
#   nothing_left      no folder of a run, and no process of one
P=$O/bench/ps_throughput
export TMPDIR=$T
# Folders of runs, and processes that outlived theirs: known by our TMPDIR.
leftovers() {
	local pid
	ls -d "$T"/ps_throughput.* 2>/dev/null
	for pid in $(pgrep -x 'ps_throughput|lane_perf|lp-.*|podlaned|podlane'); do
		grep -qzx "TMPDIR=$T" "/proc/$pid/environ" 2>/dev/null &&
			tr '\0' ' ' <"/proc/$pid/cmdline" && echo
	done
}
nothing_left() {
	local s
	# What was killed may take a moment to go.
	for s in 1 2 3 4 5 6 7 8 9 10; do
		[ -z "$(leftovers)" ] && return 0
		sleep 0.2
	done
	leftovers
	return 1
}
q() { jq -e "$2" "$T/$1.json"; }
fails() {
	local rc want=$1 text=$2
	shift 2
	bench "$@" >"$T/out" 2>"$T/err"
	rc=$?
	cat "$T/out" "$T/err"
	[ $rc = "$want" ] && grep -qF -- "$text" "$T/err"
}

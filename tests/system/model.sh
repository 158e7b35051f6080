#!/bin/bash
# tests/system/model.sh - the models of tests/model, each searched through
#
# holds MODEL [OPTION...]  no state breaks a rule, none is without a successor
# ends MODEL [OPTION...]   nothing goes on for ever either
# wrong MODEL OPTION...    the same without one part of the protocol: found out
. "$(dirname "$0")/lib.sh"
if ! command -v spin >/dev/null; then
	skip model "spin is not installed"
	finish
fi
# search KIND MODEL OPTION...: compiles and searches; what pan says: $T/pan.out
search() {
	local how= opt=-O1 model=$PWD/tests/model/$2
	[ "$1" = -DNP ] && how=-l
	[[ "$*" == *-DNO_* ]] && opt=-O0
	(cd "$T" && rm -f pan* ./*.trail &&
		spin -a "${@:3}" "$model.pml" >spin.out &&
		gcc $opt -w "$1" -DCOLLAPSE -DMEMLIM=2048 -o pan pan.c &&
		timeout 120 ./pan -m50000 $how >pan.out) || {
		cat "$T/spin.out" "$T/pan.out"
		return 1
	}
}
errors() { sed -n 's/.*errors: //p' "$T/pan.out"; }
# A search that was cut short proves nothing.
clean() {
	search "$@" || return
	[ "$(errors)" = 0 ] &&
		! grep 'max search depth too small\|Search not completed' \
			"$T/pan.out" && return
	cat "$T/pan.out"
	spin -p -k "$T/$2.pml.trail" "${@:3}" "tests/model/$2.pml" | tail -80
	return 1
}
found() {
	search -DSAFETY "$@" && [ "$(errors)" = 1 ] &&
		grep '^pan:1: \(assertion violated\|invalid end state\)' \
			"$T/pan.out"
}
holds() { check "holds $*" clean -DSAFETY "$@"; }
ends() { check "ends $*" clean -DNP "$@"; }
wrong() { check "wrong $*" found "$@"; }

holds lane
holds lane -DKILL -DSENDS=3
ends lane -DKILL -DSENDS=2
for part in FENCE_SLEEPER FENCE_WAKER LOOK FRESH RELEASE ACQUIRE; do
	wrong lane -DNO_$part
done
wrong lane -DHEAD_FIRST
wrong lane -DKILL -DNO_HANGUP

holds bell
holds bell -DFD
wrong bell -DNO_TURN
wrong bell -DNO_WAKE
for part in NO_SIGNAL ONLY_DATA NO_AGAIN NO_PARTIAL; do
	wrong bell -DFD -D$part
done

holds resume -DBREAKS=1
holds resume -DKILL
for part in NO_SYNC NO_PAUSE COUNTERS_FIRST OLD_FRAMES REWIND NO_REPEAT_TAIL; do
	wrong resume -D$part
done
finish

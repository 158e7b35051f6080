#!/bin/bash
# tests/lint.sh: the rules of the code that a program can check.
cd "$(dirname "$0")/.." || exit 1
bad=0
say() { echo "$*"; bad=1; }
# Without git (an unpacked archive), what is there but what was built.
list() {
	git ls-files -co --exclude-standard "$@" 2>/dev/null && return
	local p
	for p in "$@"; do
		find . -path "./$p" -type f ! -path './build*' ! -path './.git/*'
	done | sed 's|^./||'
}
files=$(list '*.c' '*.h')

# Folders depend one way.
may() {
	case $1 in
	common) echo common;;
	ipam) echo common ipam;;
	plugin) echo common ipam plugin;;
	shm) echo common shm;;
	rdma) echo common shm rdma;;
	daemonset) echo common shm rdma daemonset ipam;;
	bench) echo common shm rdma daemonset bench;;
	*) echo common ipam plugin shm rdma daemonset bench tests;;
	esac
}
for f in $files; do
	d=${f%%/*}
	for inc in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$f"); do
		case $inc in
		*/*) ;;
		podlane.h) [[ $f == shm/examples/* ]] ||
			say "$f: include \"shm/podlane.h\""; continue;;
		*) say "$f: include \"$inc\" must name its folder"; continue;;
		esac
		[[ " $(may "$d") " == *" ${inc%%/*} "* ]] ||
			say "$f: $d/ may not include $inc"
	done
done

# Form.
for f in $files; do
	awk -v f="$f" '{
		l = $0; n = 0
		for (i = 1; i <= length(l); i++)
			n = substr(l, i, 1) == "\t" ? n + 8 - n % 8 : n + 1
		if (n > 80 && l !~ /"/) { print f ":" NR ": past 80 columns"; b = 1 }
		if (l ~ /[ \t]$/) { print f ":" NR ": white space at the end"; b = 1 }
		if (l ~ /^        /) { print f ":" NR ": indent with tabs"; b = 1 }
	} END { exit b }' "$f" || bad=1
	grep -nE '\b(sprintf|vsprintf|strcpy|strcat|strtok|atoi|atol|alloca) *\(' \
		"$f" /dev/null | grep -v '\* ' && say "$f: banned call"
	grep -nE '\b(TODO|FIXME|XXX)\b' "$f" /dev/null && say "$f: unfinished"
	n=$(wc -l <"$f")
	[ "$n" -le 900 ] || say "$f: $n lines; is it still one noun?"
	# The head of a file says what it is for.
	head -2 "$f" | grep -q '^/\*' || say "$f: opens without a word on what it is for"
done
# A function fits on a screen.
for f in $files; do
	awk -v f="$f" '/^{/ { start = NR } /^}/ && start {
		if (NR - start > 70) {
			print f ":" start ": a function of " NR - start " lines"; b = 1
		}
		start = 0
	} END { exit b }' "$f" || bad=1
done
# Headers compile on their own.
cc=${CC:-gcc}
for f in $(list '*.h'); do
	$cc -std=gnu11 -D_GNU_SOURCE -I. $(pkg-config --cflags libnl-3.0 \
		libcjson 2>/dev/null) -fsyntax-only -x c "$f" || say "$f"
done
# Every program and public header has a man page, every folder a README.
for m in */*_main.c; do
	[ -e "$m" ] || continue
	p=$(basename "${m%_main.c}")
	ls man/"$p".[1-8] >/dev/null 2>&1 || say "man/$p.N is missing"
done
for d in common ipam plugin shm rdma daemonset bench tests; do
	[ -e $d/README.md ] || say "$d/README.md is missing"
done
if command -v mandoc >/dev/null; then
	for m in man/*.[1-8]; do
		[ -e "$m" ] && { mandoc -T lint -W error "$m" || say "$m"; }
	done
fi
tests/lint_man.sh || bad=1
for s in $(list '*.sh' tests/run tests/vm/{kernel,vm,guest,init} .ci/run); do
	bash -n "$s" || say "$s"
done
# What a sourced file calls must not become something else.
functions() { grep -ohE '^[a-z_]+\(\)' "$@" | sort -u; }
for s in tests/system/*.sh tests/vm/*.sh; do
	[ "$s" != tests/system/lib.sh ] || continue
	used=tests/system/lib.sh
	for u in $(sed -nE 's/^\. .*\/([a-z]+\.bash)"?$/\1/p' "$s"); do
		[ ! -e "tests/system/$u" ] || used+=" tests/system/$u"
	done
	for f in $(comm -12 <(functions "$s") <(functions $used)); do
		say "$s: $f is a function of $used"
	done
done
[ $bad = 0 ] && echo "lint: ok"
exit $bad

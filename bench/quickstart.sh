#!/bin/bash
# bench/quickstart.sh MAKE O: build into O, compare the overlay with Podlane on
# two nodes made of network namespaces, show the table. Leaves quickstart.json
# and quickstart.png in the current folder; nothing else, however it ends.
#
# The build runs in a process group of its own, so that whatever ends this
# script can end all of it; the comparison takes its place at the end and cleans
# up after itself.
set -u
make=${1:-make}
out=${2:-build}
log=
pid=
clean() {
	trap '' INT TERM HUP
	[ -z "$pid" ] || kill -TERM -- "-$pid" 2>/dev/null
	wait
	[ -z "$log" ] || rm -f "$log"
}
trap 'clean; exit 130' INT TERM HUP
if [ "$(id -u)" != 0 ]; then
	echo "quickstart: makes network namespaces and needs root;" \
		"try: sudo make quickstart" >&2
	exit 1
fi
if [ ! -w . ]; then
	echo "quickstart: the current folder can't be written" >&2
	exit 1
fi
log=$(mktemp) || exit 1
build() {
	unset MAKEFLAGS MFLAGS MAKELEVEL
	exec "$make" --no-print-directory -j"$(nproc)" O="$out" all \
		>"$log" 2>&1 </dev/null
}
files() { printf '\rbuilding: %s files ' "$(grep -c . "$log")" >&2; }
set -m
build &
pid=$!
set +m
[ -t 2 ] || echo "building" >&2
while kill -0 "$pid" 2>/dev/null; do
	[ -t 2 ] && files
	sleep 0.2
done
wait "$pid"
rc=$?
pid=
[ -t 2 ] && printf '\r\033[K' >&2
if [ $rc != 0 ]; then
	cat "$log" >&2
	clean
	echo "quickstart: the build failed" >&2
	exit 1
fi
clean
trap - INT TERM HUP
exec "$out/bench/ps_throughput" compare --model vgg16,resnet50 \
	--placement both --workers 2 --servers 1 --steps 3 --warmup 1 \
	--repeat 5 --json quickstart.json --plot quickstart.png

#!/bin/bash
# tests/system/examples.sh: the programs that the pages of podlane.h show, built
# as a user would from what was installed, and run in pods of one node and of
# two.
. "$(dirname "$0")/lib.sh"

INST=$T/inst
MANDIR=$INST/usr/share/man
EX=$T/ex
mkdir "$EX"
# As it was built, so that nothing is made anew.
SAN=$(sed -n 's/.*-fsanitize=\([^ ]*\).*/\1/p' "$O/flags")
check "install" make --no-print-directory O="$O" SAN="$SAN" \
	CC="$(cut -d' ' -f1 "$O/flags")" DESTDIR="$INST" install

# --- pages --------------------------------------------------------------------

functions() { sed '1,/global:/d; /local:/,$d' shm/podlane.map | grep -o 'pl_[a-z_]*'; }
all_pages() {
	local f
	for f in $(functions); do
		[ -s "$MANDIR/man3/$f.3" ] || { echo "no $f.3"; return 1; }
	done
	[ -s "$MANDIR/man7/podlane.7" ] && [ -s "$MANDIR/man3/podlane.h.3" ]
}
check "a page for each function" all_pages
# The program as a reader sees it.
shown() {
	mandoc -T ascii "$1" | sed 's,.\x08,,g' | awk '/^[A-Z]/ { p = 0 } p
		/^EXAMPLES/ { p = 1 }' | sed 's/^     //'
}
same_text() {
	local f name
	for f in $(functions); do
		name=$(sed -n 's/^\.\\" EXAMPLE //p' "man/$f.3")
		shown "$MANDIR/man3/$f.3" >"$T/shown.c"
		diff -bB "shm/examples/$name" "$T/shown.c" || return 1
		[ -e "$EX/$name" ] || cp "$T/shown.c" "$EX/$name"
	done
}
if command -v mandoc >/dev/null; then
	check "pages show the programs that are built" same_text
else
	skip "pages show the programs that are built" "no mandoc"
fi
cp shm/examples/*.c "$EX"

# --- building -------------------------------------------------------------------

by_pkg_config() {
	PKG_CONFIG_PATH=$INST/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$INST \
		pkg-config --cflags --libs podlane
}
build_all() {
	local c flags
	flags=$(by_pkg_config) || return 1
	for c in "$EX"/*.c; do
		# shellcheck disable=SC2086
		${CC:-gcc} -Wall -Wextra -Werror ${SAN:+-fsanitize=$SAN} \
			-o "${c%.c}" "$c" $flags || return 1
	done
}
check "each is built by what pkg-config says" build_all || finish
export LD_LIBRARY_PATH=$INST/usr/lib

# --- running --------------------------------------------------------------------

two_agents || exit 1
four_pods
run() { # POD PROGRAM ARG...
	local pod=$1 name=$2
	shift 2
	in_ns "${POD[$pod]}" "$EX/$name" "$@"
}
# serve POD PROGRAM ARG...: until it listens
serve() {
	local pod=$1 name=$2
	shift 2
	prog "$pod" "$name" "$EX/$name" "$@"
	soon "$name" "listening on"
}
ends() { wait_for 20 is_gone "${CLIENT[$1]}" || { cat "$T/$1.out"; false; }; }
# Its last words, whole.
said() { ends "$1" && diff <(tail -n 1 "$T/$1.out") <(echo "$2"); }

check "pl_open" says 0 "served by node1" run a pl_open
check "pl_conn_info" says 0 "pod 10.88.1.10 on node node1" run a pl_conn_info
no_agent() { in_ns "$PID" "$EX/pl_conn_info"; }
ns_add
check "without an agent" says 1 "no agent serves this pod" no_agent

# Of a service that sends back what it gets.
repeats() {
	local at=${IP[$1]} path=$2
	check "$path: pl_lane_send" says 0 "to be repeated" \
		run a pl_lane_send "$at" echo "to be repeated"
	check "$path: pl_lane_sendv" says 0 "1: one
2: second" run a pl_lane_sendv "$at" echo one second
	check "$path: pl_lane_set_timeout" says 0 "nothing came in 50 ms
then '?' came" run a pl_lane_set_timeout "$at" echo
	check "$path: pl_lane_set_spin" says 0 "us of CPU a question
sleeps: " run a pl_lane_set_spin "$at" echo 200
	check "$path: pl_lane_wait" says 0 "20000000 bytes there and back" \
		run a pl_lane_wait "$at" echo 20000000
	check "$path: pl_lane_info" says 0 "echo of $at over $path, rings of \
1048576 and 1048576 bytes, 5 sent" run a pl_lane_info "$at" echo
	check "$path: pl_lane_shutdown" says 0 "three words here" \
		run a pl_lane_shutdown "$at" echo <<<"three words here"
	check "$path: lane_echo" says 0 "50 messages of 3000 bytes came back" \
		run a lane_echo ask "$at" echo 50 3000
}
# Of services that end after so many lanes.
services() {
	local pod=$1 at=${IP[$1]} path=$2
	serve "$pod" pl_listen count 3
	check "$path: pl_listen" says 0 "0 before you" \
		run a pl_connect "$at" count
	check "$path: pl_connect" says 0 "1 before you" \
		run a pl_connect "$at" count
	check "$path: pl_lane_recv" says 0 "13 bytes, all of them" \
		run a pl_lane_recv "$at" count
	check "$path: pl_unlisten" ends pl_listen
	check "$path: nobody listens" says 1 "; start it there" \
		run a pl_connect "$at" count
	serve "$pod" pl_accept threads 2
	check "$path: pl_accept" says 0 "one" run a pl_lane_send "$at" threads one
	check "$path: pl_accept again" says 0 "two" \
		run a pl_lane_send "$at" threads two
	check "$path: both were served" said pl_accept "served 2 lanes"
	serve "$pod" lane_fork forks 2
	check "$path: lane_fork" says 0 "one" run a pl_lane_send "$at" forks one
	check "$path: another child" says 0 "300 messages of 5000 bytes" \
		run a lane_echo ask "$at" forks 300 5000
	check "$path: the parent was not disturbed" said lane_fork \
		"served 2 lanes"
	serve "$pod" pl_listener_fd left right 2
	check "$path: pl_listener_fd" says 0 "right" run a pl_connect "$at" right
	check "$path: the other service" says 0 "left" run a pl_connect "$at" left
	check "$path: both came" ends pl_listener_fd
	serve "$pod" pl_lane_fd many 2
	check "$path: pl_lane_fd" says 0 "7 messages of 100000 bytes" \
		run a lane_echo ask "$at" many 7 100000
	check "$path: pl_lane_fd again" says 0 "abc" \
		run a pl_lane_send "$at" many abc
	check "$path: and ends" ends pl_lane_fd
	serve "$pod" pl_lane_peek sum
	check "$path: pl_lane_reserve, pl_lane_peek" says 0 \
		"the sum of 1 to 1000000 is 500000500000" \
		run a pl_lane_reserve "$at" sum 1000000
	check "$path: who added up ends" ends pl_lane_peek
}
# held POD AS PROGRAM ARG...: with a standard input that ends at release
held() {
	local pod=$1 as=$2
	shift 2
	mkfifo "$T/stdin"
	exec 5<>"$T/stdin"
	prog "$pod" "$as" sh -c 'f=$0; exec "$@" <"$f"' "$T/stdin" "$@" 5>&-
}
# Not in a check, which is a shell of its own.
release() {
	exec 5>&-
	rm "$T/stdin"
}
regions() {
	local pod=$1 at=${IP[$1]} path=$2
	held "$pod" create "$EX/pl_region_create" text "to be read"
	check "$path: pl_region_create" soon create "published text"
	check "$path: pl_region_open" says 0 "text of $at over $path, 4194304 \
bytes, version 1: to be read" run a pl_region_open "$at" text
	release
	check "$path: pl_region_close" ends create
	serve "$pod" pl_region_publish table 5
	check "$path: pl_region_wait" says 0 "version 1: sum 499500
version 2: sum 999000
version 3: sum 1498500
version 4: sum 1998000
version 5: sum 2497500" run a pl_region_wait "$at" table
	check "$path: pl_region_publish" said pl_region_publish \
		"version 5 was read"
	held "$pod" write "$EX/region_read" write words 100000 3
	check "$path: region_read writes" soon write "published words"
	check "$path: region_read reads" says 0 "read words of $at over $path" \
		run a region_read read "$at" words 3
	release
	check "$path: region_read ends" ends write
	held "$pod" grow "$EX/pl_region_grow" lines 1000000
	check "$path: pl_region_grow begins" soon grow "growing lines"
	seq 30000 99999 >&5
	release
	check "$path: pl_region_grow grows" ends grow
	check "$path: pl_region_grow, 420000 bytes" soon grow \
		"420000 bytes in a region of 524288"
}
for pod in b c; do
	path=shm
	[ $pod = b ] || path=tcp
	prog $pod "echo-$pod" "$EX/lane_echo" serve echo
	soon "echo-$pod" "listening on"
	repeats $pod $path
	prog_end "echo-$pod"
	services $pod $path
	regions $pod $path
done
finish

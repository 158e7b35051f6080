#!/bin/bash
# tests/lint_man.sh: the pages of podlane.h say what the header says.
#
# One page for each function that the library exports, with its prototype, the
# errors that the header names, and an example; and podlane(7) has every error.
cd "$(dirname "$0")/.." || exit 1
bad=0
say() { echo "$*"; bad=1; }
functions() { sed '1,/global:/d; /local:/,$d' shm/podlane.map | grep -o 'pl_[a-z_]*'; }
# "int pl_close(struct pl_conn *conn);" for each, one a line, in one form.
one_form() {
	tr -s ' \t\n' ' ' | sed 's/; */;\n/g' |
		sed -n 's/ *\([*(,)]\) */\1/g; s/^ //; /^[^{}]* *\**pl_[a-z_]*(.*);$/p'
}
header() { sed '/^#/d; s|/\*.*\*/||; /\/\*/,/\*\//d' shm/podlane.h | one_form; }
synopsis() {
	sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESC/p' "$1" | awk '
		{ gsub(/"/, "") }
		/^\.Ft/ { type = substr($0, 5) }
		/^\.Fo/ { line = type " " $2 "("; n = 0 }
		/^\.Fa/ { line = line (n++ ? ", " : "") substr($0, 5) }
		/^\.Fc/ { print line ");" }' | one_form
}
# What the comment before a function says that it returns.
errors_of() {
	awk -v f="$1" '
		/^(\/\*|struct)/ { said = "" }
		/^( \*|\/\*)/ { said = said " " $0 }
		$0 ~ "(^|[ *])" f "\\(" && !/^( \*|\/\*)/ { print said }' \
		shm/podlane.h | grep -o -- '-E[A-Z]*' | sort -u
}
# The errors that the section of that name has, of a page.
listed() { awk '/^\.S[hs] / { p = tolower($2) == "errors" } p && /^\.It Er/' "$1" |
	grep -o '\bE[A-Z][A-Z]*\b' | grep -vx Er | sort -u; }
all_errors=$(listed man/podlane.7)
for f in $(functions); do
	page=man/$f.3
	[ -e "$page" ] || { say "$page is missing"; continue; }
	[ "$(sed -n 's/^\.Nm //p' "$page" | sort -u)" = "$f" ] ||
		say "$page: is of something else"
	want=$(header | grep "[ *]$f(")
	[ -n "$want" ] || say "podlane.h: where is $f?"
	[ "$(synopsis "$page")" = "$want" ] || say "$page: not the prototype: $want"
	for s in NAME LIBRARY SYNOPSIS DESCRIPTION 'RETURN VALUES' THREADS \
		EXAMPLES ERRORS 'SEE ALSO'; do
		grep -qx "\.Sh $s" "$page" || say "$page: no section $s"
	done
	grep -q '^\.\\" EXAMPLE [a-z_]*\.c$' "$page" || say "$page: no example"
	has=$(listed "$page")
	for e in $(errors_of "$f"); do
		grep -qx "${e#-}" <<<"$has" || say "$page: ERRORS lacks ${e#-}"
	done
	for e in $has; do
		grep -qx "$e" <<<"$all_errors" || say "podlane.7: ERRORS lacks $e"
	done
	grep -q "Xr $f 3" man/podlane.h.3 || say "podlane.h.3: lacks $f"
done
# What the library says, but to itself.
own=$(sed -n 's/.*\(pl_err_set([^,]*, \|return -\|rc = -\)\(E[A-Z]*\)\b.*/\2/p' \
	shm/*.c | grep -vx 'EINTR\|EINPROGRESS\|ESTALE' | sort -u)
for e in $own; do
	grep -qx "$e" <<<"$all_errors" || say "podlane.7: ERRORS lacks $e"
done
for m in man/*.[37]; do
	[ "$m" = man/podlane.7 ] || [ "$m" = man/podlane.h.3 ] ||
		functions | grep -qx "$(basename "${m%.3}")" ||
		say "$m: of nothing that is exported"
done
# Each program is shown, or one of the two that are not, and runs in the test.
for c in shm/examples/*.c; do
	name=$(basename "${c%.c}")
	grep -qwF "EXAMPLE $name.c" man/*.[37] || grep -qF "$name.c" man/podlane.7 ||
		say "$c: no page shows it"
	grep -qw "$name" tests/system/examples.sh || say "$c: nothing runs it"
done
if command -v mandoc >/dev/null; then
	for m in man/pl_*.3 man/podlane.h.3 man/podlane.7; do
		awk -f man/example.awk "$m" | mandoc -T lint -W warning ||
			say "$m"
	done
fi
# Links to pages of ours lead somewhere.
while read -r m name section; do
	[ -e "man/$name.$section" ] || say "$m: there is no $name($section)"
done < <(grep -H '^\.Xr \(pl_\|podlane\|ps_\|lane_\|cni_\)' man/*.[1-8] |
	sed 's/:\.Xr / /; s/ \([0-9]\).*/ \1/')
exit $bad

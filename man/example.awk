# man/example.awk: a page, with the program that its line
#
#	.\" EXAMPLE lane_echo.c
#
# names, of shm/examples/, in that line's place.

# As roff wants it. Not by gsub, which awks do differently with backslashes.
function escaped(line,    i, out) {
	out = line ~ /^[.']/ ? backslash "&" : ""
	while ((i = index(line, backslash))) {
		out = out substr(line, 1, i) "e"
		line = substr(line, i + 1)
	}
	return out line
}
BEGIN { backslash = sprintf("%c", 92) }
$1 == "." backslash "\"" && $2 == "EXAMPLE" {
	file = "shm/examples/" $3
	print ".Bd -literal"
	while ((rc = (getline line <file)) > 0)
		print escaped(line)
	if (rc < 0) {
		print FILENAME ": there is no " file >"/dev/stderr"
		exit 1
	}
	print ".Ed"
	next
}
{ print }

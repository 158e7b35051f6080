#!/usr/bin/env python3
"""Is standard input Prometheus's text format, and named as is usual there?

Prints "N series of M names", or what is wrong and exits 1. With arguments NAME
or NAME{label="value"}: prints the sum of those series instead.
"""
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SERIES = re.compile(r"^(%s)(?:\{(%s(?:,%s)*)\})? (\S+)$" % (NAME, LABEL, LABEL))


def fail(n, text):
    sys.exit("line %d: %s" % (n, text))


def base(name, types):
    for end in ("_bucket", "_sum", "_count"):
        if name.endswith(end) and types.get(name[:-len(end)]) == "histogram":
            return name[:-len(end)]
    return name


types, helps, seen, values, over = {}, set(), set(), {}, set()
current = None
text = sys.stdin.read()
if not text.endswith("\n"):
    sys.exit("no line feed at the end")
for n, line in enumerate(text.split("\n")[:-1], 1):
    if line.startswith("# HELP "):
        name, _, words = line[7:].partition(" ")
        if name in helps or not words:
            fail(n, "HELP twice, or empty: " + name)
        helps.add(name)
    elif line.startswith("# TYPE "):
        name, kind = line[7:].split(" ")
        if name in types or name not in helps:
            fail(n, "TYPE twice, or without HELP: " + name)
        types[name] = kind
        if (kind == "counter") != name.endswith("_total"):
            fail(n, "counters, and only they, end in _total: " + name)
    else:
        m = SERIES.match(line)
        if not m:
            fail(n, "no series: " + line)
        name, labels, value = m.group(1), m.group(2) or "", m.groups()[-1]
        family = base(name, types)
        if family not in types:
            fail(n, "no TYPE before " + name)
        if family != current:
            if family in over:
                fail(n, "series of %s stand apart" % family)
            over.add(family)
            current = family
        pairs = tuple(sorted(re.findall(LABEL, labels)))
        if len({k for k, _ in pairs}) != len(pairs):
            fail(n, "a label twice")
        if (name, pairs) in seen:
            fail(n, "twice: " + line)
        seen.add((name, pairs))
        values[(name, pairs)] = float(value)

if len(sys.argv) == 1:
    print("%d series of %d names" % (len(values), len(types)))
for want in sys.argv[1:]:
    name, _, labels = want.partition("{")
    pairs = set(re.findall(LABEL, labels))
    found = [v for (k, p), v in values.items()
             if k == name and pairs <= set(p)]
    print("%.15g" % sum(found) if found else "none")

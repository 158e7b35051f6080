#!/bin/bash
# tests/system/report.sh: bench/report on results of all kinds, on what no
# benchmark has written, and the page in a browser as narrow as a phone.
LIB_ROOT=no
. "$(dirname "$0")/lib.sh"
R=$T/results
mkdir "$R" "$T/none"
long=$(printf 'x%.0s' {1..400})
cat >"$R/train.json" <<E
{"version":"1","machine":{"cpu":"<b>cpu</b>","cores":2},"results":[
{"model":"vgg16","placement":"same-node","variable_update":"ring","transport":"podlane","images_per_s":12.5,"speedup_vs_overlay":7.25,"path":"shm","verified":true},
{"model":"<script>document.title='evil'</script>","placement":"$long","variable_update":null,"transport":"'\"&","images_per_s":"1","speedup_vs_overlay":1e999,"path":[],"verified":{}}]}
E
cat >"$R/serve.json" <<E
{"program":"pod_serve","version":"1","results":[{"scenario":"offline","placement":"cross-node","transport":"podlane","value":1234.5,"unit":"samples/s","latency_ns":{"p50":1,"p99":2},"path":"tcp","valid":false},
{"scenario":"$long","value":1e308,"latency_ns":7}]}
E
echo '{"program":"lane_perf","version":"1","bars":[{"name":"a bar","value":2,"limit":3,"unit":"times","ok":true}]}' >"$R/lanes.json"
echo '{"version":"1","figures":[{"figure":"add_del_empty","reference":9,"podlane":3,"times":3}]}' >"$R/cni.json"
cat >"$R/curves.json" <<E
{"version":"1","target":0.8,"results":[{"model":"mlp","placement":"spread","variable_update":"ring","transport":"podlane","compression":"dgc","batch":500,"images_per_s":1000,"seconds_to_target":20,"accuracy":0.8725,"path":"shm+tcp","runs":[
{"seed":1,"curve":[{"seconds":10,"accuracy":0.6},{"seconds":20,"accuracy":1}]},
{"seed":2,"curve":[{"seconds":"<i>","accuracy":0.7},{"seconds":5,"accuracy":1e999},{"seconds":-1,"accuracy":0.5},{"seconds":7,"accuracy":2},{"seconds":5,"accuracy":0.7}]}]},
{"model":"</svg><b>","batch":"'><script>","runs":[7,{"curve":3}]}]}
E
echo '{"no":"results"}' >"$R/other.json"
printf '{"cut' >"$R/<img src=x>.json"
printf '\377\376' >"$R/bytes.json"
head -c 300000 /dev/zero | tr '\0' '[' >"$R/deep.json"
made() { bench/report "$R" >"$T/page.html" 2>"$T/err" || { cat "$T/err"; false; }; }
check "a page of all files" made
check "files that are none of ours are named" [ "$(grep -c 'no results that are known' "$T/err")" = 4 ]
check "also in the page" grep -qF '&lt;img src=x&gt;.json: no results' "$T/page.html"
check "a training has the curve of each seed" grep -qF \
	"points='185.0,150.0 330.0,10.0'" "$T/page.html"
check "without what is no point" grep -qF "points='112.5,115.0'" "$T/page.html"
check "its target" grep -qF "points='40.0,80.0 330.0,80.0'" "$T/page.html"
check "and its accuracy" grep -qF '<td>0.8725</td>' "$T/page.html"
check "figures are there" grep -qF '7.25' "$T/page.html"
check "what a file says is data" grep -qF '&lt;script&gt;document.title' "$T/page.html"
clean() { ! grep -oiE '<script|<img|<b>|<link|(src|href)=[^x]|url\(|@import|https?:' "$T/page.html"; }
check "nothing is fetched, nothing runs" clean
check "an empty folder" says 1 "give the folder" bench/report "$T/none"
check "no folder" says 2 "usage: report DIR" bench/report

if ! command -v chromium >/dev/null; then
	skip "in a browser" "chromium is not installed (make deps)"
	finish
	exit
fi
# The page in a frame of 375 pixels; whether it fits, its scripts, pictures and
# tables come back in the title.
python3 - "$T/page.html" >"$T/frame.html" <<'E'
import html, sys
page = html.escape(open(sys.argv[1], encoding="utf-8").read(), quote=True)
print("<!doctype html><title>none</title><iframe id=f srcdoc='" + page +
      "' style='width:375px;height:600px;border:0'></iframe><script>"
      "onload = () => { const d = f.contentDocument; document.title = ["
      "d.documentElement.scrollWidth > d.documentElement.clientWidth ? "
      "'too wide' : 'fits', d.scripts.length, d.images.length, "
      "d.querySelectorAll('table').length, d.title].join(' ') }</script>")
E
browse() {
	HOME=$T timeout -k 5 60 chromium --headless --no-sandbox --disable-gpu \
		--disable-dev-shm-usage --user-data-dir="$T/browser" \
		--dump-dom "file://$T/frame.html" 2>"$T/berr" >"$T/dom"
	grep -o '<title>[^<]*' "$T/dom" || { tail -5 "$T/berr"; false; }
}
narrow() { browse | tee "$T/title" && grep -qx '<title>fits 0 0 5 Podlane: results' "$T/title"; }
check "in a browser, on 375 pixels" narrow
finish

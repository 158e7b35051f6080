#!/bin/bash
# tests/system/plugin_spec.sh: the forms of the CNI specification, in and out,
# and the reference bridge plugin beside ours.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/plugin.bash"

one_node
ns_add && A=$PID

# The error document has the configuration's version, whatever else is wrong.
bare_env() { # VERSION VAR...: run with these variables only
	echo "{\"cniVersion\":\"$1\"}" | env -i "${@:2}" "$PROG"
}
env_version() {
	local v
	for v in 0.1.0 0.4.0 1.1.0; do
		bare_env $v CNI_COMMAND=ADD | jq -e ".cniVersion == \"$v\" and
			.code == 4 and (.msg | contains(\"CNI_NETNS\"))" ||
			return
		bare_env $v CNI_COMMAND=NOTHING | jq -e ".cniVersion == \"$v\"
			and .code == 4" || return
	done
}
for PROG in "$O/plugin/podlane" "$O/ipam/podlane-ipam"; do
	check "version-of-errors-$(basename "$PROG")" env_version
done
check garbage-is-code-6 code 6 eval 'echo "{" | cni 1 ADD "$A" x'
check no-name code 7 pl ADD "$A" x eth0 'del(.name)'
check bad-name code 7 pl ADD "$A" x eth0 '.name = "a/b"'
check bad-id code 4 pl ADD "$A" -x
check bad-ifname code 4 pl ADD "$A" x 'a:b'
check ifname-pattern code 4 pl ADD "$A" x eth%d
check bridge-pattern code 7 pl ADD "$A" x eth0 '.bridge = "br%d"'
no_bridge() { [ -z "$(host ip -o link show type bridge)" ]; }
check bridge-pattern-makes-none no_bridge
check nul-in-name code 6 pl ADD "$A" x eth0 '.name = "n\u0000x"'
id_of() { printf "%0$1d" 0; }
long_id() { # so long, and no longer; of DEL any length is right
	pl ADD "$A" "$(id_of 239)" abcdefghijklmno >/dev/null &&
		pl DEL "" "$(id_of 239)" abcdefghijklmno &&
		code 4 pl ADD "$A" "$(id_of 240)" &&
		pl ADD "$A" "$(id_of 240)" | grep -q '240 bytes .* takes 239' &&
		pl DEL "" "$(id_of 240)" && pl DEL "" "$(id_of 1024)" && clean
}
check long-id long_id
check long-ifname code 4 pl ADD "$A" x abcdefghijklmnop

# The plugin's own namespace, only when told so.
own() {
	net 'del(.ipam) | .isGateway = false' | in_ns "${NODE[1]}" env \
		CNI_COMMAND="$1" CNI_CONTAINERID=own CNI_IFNAME=own0 \
		CNI_NETNS="/proc/${NODE[1]}/ns/net" CNI_NETNS_OVERRIDE="$2" \
		"$O/plugin/podlane"
}
check own-namespace code 8 own ADD ""
check own-namespace-override own ADD 1
check own-namespace-has-it host ip link show own0
check own-namespace-del own DEL 1
check own-namespace-clean clean

# Keys as Go's decoder takes them, and as the reference plugin does.
keys='del(.bridge, .isGateway, .ipam.ranges) | .BRIDGE = "br0" |
	.ISGATEWAY = true | .MTU = 1234 | .mtu = null | .promiscMode = null |
	.ipam.RANGES = [[{"Subnet":"10.77.0.0/24","RangeStart":"10.77.0.40"}]] |
	.RuntimeConfig.MAC = "02:00:00:00:00:45"'
folded() {
	pl ADD "$A" k eth0 "$keys" >"$T/o" &&
		jq -e '.ips[0].address == "10.77.0.40/24" and
			.ips[0].gateway == "10.77.0.1" and
			.interfaces[0].name == "br0" and
			.interfaces[2].mac == "02:00:00:00:00:45"' "$T/o" &&
		in_ns "$A" ip link show eth0 | grep -q 'mtu 1234'
}
check keys-of-any-case folded
check keys-of-any-case-del pl DEL "" k eth0 "$keys"
twice() { # PLUGIN STATE: two spellings, the last one counts
	net 'del(.ipam) | .isGateway = false | .agentPolicy = "optional"' |
		sed 's/^{/{"mtu":1400,"MTU":1300,/' | CNI_PLUGIN=$1 \
		cni 1 ADD "$A" t >"$T/o" &&
		in_ns "$A" ip link show eth0 | grep -q 'mtu 1300' &&
		net 'del(.ipam)' | CNI_PLUGIN=$1 cni 1 DEL "$A" t
}
check two-spellings twice "$O/plugin/podlane"
if [ -x /usr/lib/cni/bridge ]; then
	check two-spellings-reference twice /usr/lib/cni/bridge
fi
host ip link del br0
check keys-are-clean clean

unknown() { # as every configuration of somebody else's may have them
	pl ADD "$A" k eth0 '.x = {"y":[1]} | .ipam.z = 3 |
		.capabilities = {"more":true} | .runtimeConfig.more = {}' \
		>"$T/o" && pl DEL "" k && clean
}
check unknown-keys unknown

# An IPAM plugin gets what we got: every variable, and the same configuration.
mkdir "$T/bin"
cat >"$T/bin/ear" <<'END'
#!/bin/bash
cat >"${EAR:?}/$CNI_COMMAND.conf"
env | grep -E '^(CNI_|OTHER)' | sort >"$EAR/$CNI_COMMAND.env"
[ $CNI_COMMAND != ADD ] ||
	echo '{"cniVersion":"1.1.0","ips":[{"address":"10.77.0.9/24"}]}'
END
chmod +x "$T/bin/ear"
heard() { # COMMAND JQ
	net ".cniVersion = \"1.1.0\" | .ipam.type = \"ear\" | .x = 1 | $2" \
		>"$T/c"
	in_ns "${NODE[1]}" env CNI_COMMAND="$1" CNI_CONTAINERID=h \
		CNI_IFNAME=eth0 CNI_NETNS="/proc/$A/ns/net" CNI_ARGS="a=b;c=d" \
		CNI_PATH="$T/none:$T/bin" OTHER=thing EAR="$T" \
		"$O/plugin/podlane" <"$T/c" >"$T/o" || { cat "$T/o"; return 1; }
	diff <(jq -S . "$T/c") <(jq -S . "$T/$1.conf") &&
		diff - "$T/$1.env" <<-END
		CNI_ARGS=a=b;c=d
		CNI_COMMAND=$1
		CNI_CONTAINERID=h
		CNI_IFNAME=eth0
		CNI_NETNS=/proc/$A/ns/net
		CNI_PATH=$T/none:$T/bin
		OTHER=thing
		END
}
check ipam-hears-status heard STATUS .
check ipam-hears-add heard ADD .
check ipam-hears-check heard CHECK ".prevResult = $(cat "$T/o")"
check ipam-hears-gc heard GC '."cni.dev/valid-attachments" =
	[{"containerID":"h","ifname":"eth0"}]'
check ipam-hears-del heard DEL .
check ipam-hears-clean clean

# What the pod, or who runs it, asks for: the nearest counts, none is added.
wishes='.ipam.ranges[0][0].rangeStart = "10.77.0.10" |
	.args.cni = {"ips":["10.77.0.33"],"mac":"02:00:00:00:00:33"}'
runtime='.runtimeConfig = {"ips":["10.77.0.44/24"],"mac":"02:00:00:00:00:44"}'
wish() { # JQ IP MAC
	pl ADD "$A" w eth0 "$1" >"$T/o" && pl DEL "" w &&
		jq -e "(.ips | length) == 1 and .ips[0].address == \"$2/24\"
			and .interfaces[2].mac == \"$3\"" "$T/o" ||
		{ cat "$T/o"; false; }
}
export CNI_ARGS="IgnoreUnknown=1;UNKNOWN=a=b;;IP=10.77.0.22;\
MAC=02:00:00:00:00:22;K8S_POD_NAME=n=1;K8S_POD_NAMESPACE=ns;NOVALUE"
check cni-args wish . 10.77.0.22 02:00:00:00:00:22
named() { grep '"op":"add"' "$T/log" | tail -1 | grep -q '"name":"n=1"'; }
check cni-args-name named
check args-before-cni-args wish "$wishes" 10.77.0.33 02:00:00:00:00:33
check runtime-before-args wish "$wishes | $runtime" 10.77.0.44 \
	02:00:00:00:00:44
CNI_ARGS=
check args wish "$wishes" 10.77.0.33 02:00:00:00:00:33
extra() {
	pl ADD "$A" e eth0 '.runtimeConfig = {"ipRanges":
		[[{"subnet":"10.76.0.0/24"}]],"aliases":{"net":["x"]},
		"deviceID":"0000:00:1f.6"}' >"$T/o" && pl DEL "" e &&
		jq -e '[.ips[].address] == ["10.76.0.2/24", "10.77.0.2/24"]' \
			"$T/o"
}
check ip-ranges extra
dns() { # JQ OF-RESULT
	pl ADD "$A" n eth0 ".dns = {\"nameservers\":[\"192.0.2.1\"],
		\"domain\":\"d\"} | $1" >"$T/o" && pl DEL "" n &&
		jq -e "$2" "$T/o" || { cat "$T/o"; false; }
}
check dns dns . '.dns == {"nameservers":["192.0.2.1"],"domain":"d"}'
# As containerd writes it.
check runtime-dns dns '.runtimeConfig.dns = {"Servers":["192.0.2.9"],
	"Searches":["a","b"],"Options":["ndots:5"]}' '.dns ==
	{"nameservers":["192.0.2.9"],"search":["a","b"],"options":["ndots:5"]}'
check runtime-dns-empty dns '.runtimeConfig.dns = {"servers":[],
	"searches":null}' '.dns.domain == "d"'
check runtime-dns-wrong code 7 pl ADD "$A" n eth0 \
	'.runtimeConfig.dns = {"servers":[1]}'
no_mac() {
	CNI_ARGS="MAC=02-00-00-00-00-5A" pl ADD "$A" n eth0 \
		'.args.cni.mac = "" | .runtimeConfig.mac = ""' >"$T/o" &&
		pl DEL "" n &&
		jq -e '.interfaces[2].mac == "02:00:00:00:00:5a"' "$T/o"
}
check empty-mac-is-none no_mac
check wishes-are-clean clean

# prevResult in, of every shape, and out in the configuration's.
new='"interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","mtu":1400,
 "sandbox":"/s","socketPath":"/k","pciID":"0000:01:00.0"}],
 "ips":[{"address":"10.1.0.5/24","gateway":"10.1.0.1","interface":0},
  {"address":"fd01::5/64","interface":0}],
 "routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1","mtu":0,"advmss":1300,
  "priority":0,"table":7,"scope":0},{"dst":"fd02::/48"}],
 "dns":{"nameservers":["10.1.0.2"],"domain":"d"}'
old='"ip4":{"ip":"10.1.0.5/24","gateway":"10.1.0.1","routes":
 [{"dst":"0.0.0.0/0","gw":"10.1.0.1"}]},"ip6":{"ip":"fd01::5/64","routes":
 [{"dst":"fd02::/48"}]},"dns":{"nameservers":["10.1.0.2"],"domain":"d"}'
convert() { # VERSION PREVRESULT JQ
	pl ADD "$A" v eth0 "del(.ipam) | .cniVersion = \"$1\" |
		.prevResult = {$2}" >"$T/o"
	local rc=$?
	pl DEL "" v eth0 "del(.ipam) | .cniVersion = \"$1\"" || return
	[ $rc = 0 ] && one_doc "$(cat "$T/o")" &&
		jq -e ".cniVersion == \"$1\" and ($3)" "$T/o" ||
		{ cat "$T/o"; false; }
}
is_old='.ip4.ip == "10.1.0.5/24" and .ip4.gateway == "10.1.0.1" and
	.ip4.routes == [{"dst":"0.0.0.0/0","gw":"10.1.0.1"}] and
	.ip6 == {"ip":"fd01::5/64","routes":[{"dst":"fd02::/48"}]} and
	.dns.domain == "d" and (has("ips") or has("interfaces") | not)'
is_mid='[.ips[].version] == ["4","6"] and .interfaces == [{"name":"eth0",
	"mac":"02:00:00:00:00:01","sandbox":"/s"}] and
	.routes == [{"dst":"0.0.0.0/0","gw":"10.1.0.1"},{"dst":"fd02::/48"}]'
is_one='(.ips[0] | has("version") | not) and .ips[1].interface == 0 and
	(.interfaces[0] | has("mtu") | not) and .routes[0] ==
	{"dst":"0.0.0.0/0","gw":"10.1.0.1"}'
is_new='.interfaces[0].mtu == 1400 and .interfaces[0].socketPath == "/k" and
	.interfaces[0].pciID == "0000:01:00.0" and .routes[0] ==
	{"dst":"0.0.0.0/0","gw":"10.1.0.1","mtu":0,"advmss":1300,"priority":0,
	 "table":7,"scope":0} and .routes[1] == {"dst":"fd02::/48"}'
from_old='(.ips | map(.address)) == ["10.1.0.5/24","fd01::5/64"] and
	(.routes | map(.dst)) == ["0.0.0.0/0","fd02::/48"]'
N='"cniVersion":"1.1.0",'
for v in 0.1.0 0.2.0; do
	check "prev-$v" convert $v "\"cniVersion\":\"$v\",$old" "$is_old"
	check "prev-1.1.0-as-$v" convert $v "$N$new" "$is_old"
	check "prev-$v-as-1.1.0" convert 1.1.0 "\"cniVersion\":\"$v\",$old" \
		"$from_old"
done
for v in 0.3.0 0.3.1 0.4.0; do
	check "prev-1.1.0-as-$v" convert $v "$N$new" "$is_mid"
	check "prev-0.2.0-as-$v" convert $v "\"cniVersion\":\"0.2.0\",$old" \
		"$from_old"
done
check prev-1.1.0-as-1.0.0 convert 1.0.0 "$N$new" "$is_one"
check prev-1.1.0 convert 1.1.0 "$N$new" "$is_new"
check prev-without-version convert 1.1.0 "$new" "$is_new"
check prev-without-version-old convert 0.2.0 "$old" "$is_old"
check prev-bad-version code 7 pl ADD "$A" v eth0 \
	'.prevResult = {"cniVersion":7}'

# Megabytes of it.
large() {
	jq -nc '{cniVersion:"1.1.0",ips:[{address:"10.1.0.5/24"}],
		routes:[range(70000) | {dst:"10.\(. / 65536 | floor + 2).\(. /
		256 % 256 | floor).\(. % 256)/32",priority:.}]}' >"$T/large" &&
		[ "$(wc -c <"$T/large")" -gt 2000000 ] &&
		jq -c --slurpfile p "$T/large" '.prevResult = $p[0] |
			.cniVersion = "1.1.0" | del(.ipam)' <(net) >"$T/c" &&
		cni 1 ADD "$A" l <"$T/c" >"$T/o" &&
		[ "$(jq -cS . "$T/o" | md5sum)" = "$(jq -cS . "$T/large" |
			md5sum)" ] &&
		cni 1 CHECK "$A" l <"$T/c" && cni 1 DEL "$A" l <"$T/c"
}
check large-prev-result large
check shapes-are-clean clean
finish

#!/bin/bash
# daemonset/deploy/image.sh ROOT [ARCHIVE]: the image of the agent, out of what
# was built in $O and the packages that this machine has. Needs no root, no
# network and no container engine. `make image` calls it.
#
#   ROOT      the root file system: the programs, what they load, who made it
#             under which terms (/usr/share/doc), and nothing else
#   ARCHIVE   the same as an OCI image in one file, for ctr image import,
#             podman load, skopeo
#
# The plugins are executed by the node's runtime, on a node whose C library may
# be another one. So in the image they are linked against a dynamic linker and
# libraries of their own, in a folder of the node whose name is a checksum of
# what is in it; podlaned install puts it there.
#
# The same sources, packages and SOURCE_DATE_EPOCH make the same bytes.
set -eu -o pipefail
ROOT=$1 ARCHIVE=${2:-}
O=${O:-build} MAKE=${MAKE:-make} VERSION=${VERSION:?}
export LC_ALL=C TZ=UTC
umask 022
EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1)}
NODE_LIB=/var/lib/podlane/lib
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# What a program, or a library, loads, one path a line.
loads() {
	local f
	for f; do
		ldd "$f" | grep -o '/[^ ]*' || true
	done | sort -u
}
# Opened when the plugin has rules to make; nothing links it.
nftables() {
	local so
	so=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p |
		sed -n 's/.*libnftables\.so\.1 .*=> //p' | head -1)
	[ -n "$so" ] || { echo "missing: libnftables1. Install with: apt-get" \
		"install libnftables1" >&2; return 1; }
	echo "$so"
}
put() { # MODE FROM TO
	install -D -m "$1" "$2" "$ROOT$3"
	case $3 in */sbin/*|*/bin/*|/usr/lib/podlane/podlane*)
		strip "$ROOT$3";;
	esac
}

rm -rf "$ROOT"
for d in usr/bin usr/sbin usr/lib usr/lib64 etc/podlane etc/cni/net.d \
	opt/cni/bin proc sys dev run tmp var/lib/podlane; do
	mkdir -p "$ROOT/$d"
done
chmod 1777 "$ROOT/tmp"
for d in bin sbin lib lib64; do ln -s usr/$d "$ROOT/$d"; done
ln -s ../run "$ROOT/var/run"

# The agent and the benchmark of bench/k8s, with the node's names for libraries.
NFT=$(nftables)
put 755 "$O/daemonset/podlaned" /usr/sbin/podlaned
put 755 "$O/daemonset/podlanectl" /usr/bin/podlanectl
put 755 "$O/bench/ps_throughput" /usr/bin/ps_throughput
AGENT=$(loads "$O/daemonset/podlaned" "$O/daemonset/podlanectl" \
	"$O/bench/ps_throughput")
for so in $AGENT; do
	to=$so
	case $to in /usr/*) ;; *) to=/usr$to;; esac
	put "$([ -x "$so" ] && echo 755 || echo 644)" "$so" "$to"
done

# The plugins, with a linker and libraries of their own.
PLUGIN=$(loads "$O/plugin/podlane" "$O/ipam/podlane-ipam" "$NFT")
PLUGIN=$(printf '%s\n' $PLUGIN "$NFT" | sort -u)
ID=$(cat $PLUGIN | sha256sum | cut -c1-12)
for so in $PLUGIN; do
	put 755 "$so" "/usr/lib/podlane/lib/$ID/${so##*/}"
done
# What pods may mount (CDI).
put 755 "$O/shm/libpodlane.so.1" /usr/lib/podlane/lib/pod/libpodlane.so.1
LINKER=$(printf '%s\n' $PLUGIN | grep '/ld-linux' | sed 's|.*/||')
rm -rf "$O/image/plugin" "$O/image/ipam"
"$MAKE" --no-print-directory O="$O" NODE_LIB="$NODE_LIB/$ID" \
	NODE_LINKER="$LINKER" image-plugins
for p in plugin/podlane ipam/podlane-ipam; do
	put 755 "$O/image/$p" "/usr/lib/podlane/${p##*/}"
done

# Whose all that is: a package's terms, and its entry for scanners.
package_of() {
	local p
	p=$(dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "${1#/usr}" \
		2>/dev/null || dpkg-query -S "$(readlink -f "$1")") || {
		echo "no package has $1" >&2
		return 1
	}
	printf '%s\n' "$p" | head -1 | sed 's/: .*//'
}
for so in $AGENT $PLUGIN; do package_of "$so"; done | sort -u >"$WORK/packages"
while read -r p; do
	name=${p%%:*}
	put 644 "/usr/share/doc/$name/copyright" "/usr/share/doc/$name/copyright"
	mkdir -p "$ROOT/var/lib/dpkg/status.d"
	dpkg-query -W -f 'Package: ${Package}\nStatus: ${Status}\nArchitecture: ${Architecture}\nSource: ${source:Package}\nVersion: ${Version}\n' \
		"$p" >"$ROOT/var/lib/dpkg/status.d/$name"
done <"$WORK/packages"
# Some of those name a licence by its file there.
for f in /usr/share/common-licenses/*; do
	put 644 "$f" "$f"
done
put 644 /etc/os-release /usr/lib/os-release
ln -s ../usr/lib/os-release "$ROOT/etc/os-release"
echo 'root:x:0:0:root:/:/sbin/nologin' >"$ROOT/etc/passwd"
echo 'root:x:0:' >"$ROOT/etc/group"
find "$ROOT" -exec touch -h -d "@$EPOCH" {} +
[ -n "$ARCHIVE" ] || exit 0

# --- one file -----------------------------------------------------------------

pack() { # FOLDER FILE
	tar --format=gnu --sort=name --mtime="@$EPOCH" --owner=0 --group=0 \
		--numeric-owner --mode=go-w -C "$1" -cf "$2" .
}
digest() { sha256sum "$1" | cut -d' ' -f1; }
OCI=$WORK/oci
mkdir -p "$OCI/blobs/sha256"
# A file as a blob: "mediaType", "digest" and "size" of it.
blob() { # FILE TYPE
	local d
	d=$(digest "$1")
	cp "$1" "$OCI/blobs/sha256/$d"
	printf '"mediaType":"%s","digest":"sha256:%s","size":%d' "$2" "$d" \
		"$(stat -c %s "$1")"
}
case $(uname -m) in
x86_64) ARCH=amd64;;
aarch64) ARCH=arm64;;
*) ARCH=$(uname -m);;
esac
CREATED=$(date -u -d "@$EPOCH" +%Y-%m-%dT%H:%M:%SZ)
pack "$ROOT" "$WORK/layer.tar"
gzip -9n <"$WORK/layer.tar" >"$WORK/layer.tgz"
cat >"$WORK/config" <<EOF
{"created":"$CREATED","architecture":"$ARCH","os":"linux","config":{"Entrypoint":["/usr/sbin/podlaned"],"Env":["PATH=/usr/sbin:/usr/bin"],"WorkingDir":"/","Labels":{"org.opencontainers.image.title":"podlane","org.opencontainers.image.version":"$VERSION"}},"rootfs":{"type":"layers","diff_ids":["sha256:$(digest "$WORK/layer.tar")"]},"history":[{"created":"$CREATED","created_by":"make image"}]}
EOF
T=application/vnd.oci.image
cat >"$WORK/manifest" <<EOF
{"schemaVersion":2,"mediaType":"$T.manifest.v1+json","config":{$(blob "$WORK/config" $T.config.v1+json)},"layers":[{$(blob "$WORK/layer.tgz" $T.layer.v1.tar+gzip)}]}
EOF
cat >"$OCI/index.json" <<EOF
{"schemaVersion":2,"mediaType":"$T.index.v1+json","manifests":[{$(blob "$WORK/manifest" $T.manifest.v1+json),"platform":{"architecture":"$ARCH","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"$VERSION","io.containerd.image.name":"docker.io/library/podlane:$VERSION"}}]}
EOF
echo '{"imageLayoutVersion":"1.0.0"}' >"$OCI/oci-layout"
mkdir -p "$(dirname "$ARCHIVE")"
pack "$OCI" "$WORK/archive"
mv "$WORK/archive" "$ARCHIVE"

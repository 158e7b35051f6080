#!/bin/bash
# tests/system/no_verbs.sh: where libibverbs is not installed all else is built,
# "auto" is tcp, and "verbs" says what to install.
. "$(dirname "$0")/lib.sh"

# A machine whose pkg-config finds neither of the two libraries.
cat >"$T/pkg-config" <<'END'
#!/bin/sh
case "$*" in
*libibverbs* | *librdmacm*) exit 1;;
esac
exec pkg-config "$@"
END
chmod 755 "$T/pkg-config"
B=$T/build
without() {
	make -j"$(nproc)" PKG_CONFIG="$T/pkg-config" CFLAGS=-O0 SAN= O="$B" "$@"
}
check "it is noticed" says 0 "RDMA verbs: no" without config
check "agent and podlanectl are built" without "$B/daemonset/podlaned" \
	"$B/daemonset/podlanectl"
linked() { ldd "$B/daemonset/podlaned" | grep -E 'ibverbs|rdmacm'; }
check "without the libraries" says 1 "" linked
O=$B
CARRIER='{"type":"verbs","security":"none"}'
node_add 1
agent_config 1
check "verbs: what to install is said" says 1 \
	"install libibverbs-dev and librdmacm-dev" in_ns "${NODE[1]}" \
	"$B/daemonset/podlaned" --config "$T/n1/agent.json" \
	--run-dir "$T/n1/run" --node node1
CARRIER='{"security":"none"}'
agent_config 1
agent_start 1 || exit 1
check "else tcp is used" grep "carrier=tcp " "$T/n1/agent.log"
check "ends well" agent_stop 1
finish

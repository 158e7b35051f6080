# tests/vm/hosts.bash: several RDMA hosts in one VM, for tests/system/lib.sh.
#
# rxe sends only from the initial network namespace, so nodes can't be
# namespaces here: each is an address and a device there. Its link "uN" is one
# end of a veth whose other end is a port of lib.sh's bridge; rules see to it that
# what one of these addresses sends to another really leaves by the one's link and
# comes in by the other's. Pods are in namespaces as ever.
#
# Sourced after lib.sh, it takes the place of:
#
#   node_add N        node N: address 10.99.0.N, link uN, RDMA device rxeN whose
#                     GID 1 is that address; ${NODE[N]} is this shell
#   conf N            the same with a bridge of its own, podlaneN
hosts_init() {
	[ -n "${HOSTS:-}" ] && return
	HOSTS=1
	modprobe rdma_rxe && modprobe rdma_ucm || return 1
	local d c=/proc/sys/net/ipv4/conf
	for d in all default; do
		echo 0 >$c/$d/rp_filter
		echo 1 >$c/$d/accept_local
		echo 1 >$c/$d/arp_ignore
		echo 2 >$c/$d/arp_announce
	done
	echo 1 >/proc/sys/net/ipv4/ip_forward
	# Local addresses are looked up after the rules of the hosts.
	ip rule add pref 1000 lookup local
	ip rule del pref 0
}
node_add() {
	local n=$1 a=10.99.0.$1
	hosts_init || return 1
	underlay
	NODE[$n]=$$
	mkdir -p "$T/n$n"
	in_ns "$SWITCH" ip link add "n$n" mtu 4400 type veth \
		peer name "u$n" mtu 4400 netns $$
	in_ns "$SWITCH" ip link set "n$n" master sw up
	ip -batch - <<-END || return 1
	addr add $a/24 dev u$n
	link set u$n up
	route add 10.99.0.0/24 dev u$n src $a table $((300 + n))
	rule add pref $((100 + n)) iif u$n lookup local
	rule add pref $((200 + n)) from $a to $a lookup local
	rule add pref $((300 + n)) from $a to 10.99.0.0/24 lookup $((300 + n))
	END
	rdma_add "$n"
}
# The table of GIDs fills a moment after the device is there.
has_gid() {
	[[ $(<"/sys/class/infiniband/rxe$1/ports/1/gids/1") == *ffff:0a63:00$(
		printf %02x "$1") ]]
}
rdma_add() {
	rdma link add "rxe$1" type rxe netdev "${2:-u$1}" &&
		wait_for 10 has_gid "$1"
}
eval "lib_$(declare -f conf)"
conf() { lib_conf "$1" | sed "s/podlane0/podlane$1/"; }

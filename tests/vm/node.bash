# tests/vm/node.bash: this VM is one node of two; sourced in it, after lib.sh.
#
#   node_here N       this VM is node N: address 10.99.0.N on eth0, RDMA device
#                     rxeN, an agent for node N of 1 and 2
#   rdma_add N        the device, until its GID is there
#   hw_sent N         packets that the device has sent
#   lanes_by PATH     every lane to the other node is listed with that path
#   by CARRIER        what podlanectl nodes says of the other node's carrier
# What lib.sh has works on this node, with its N.
. tests/system/resume.bash
. tests/vm/hosts.bash
node_here() {
	HERE=$1 THERE=$((3 - $1))
	NODE[1]=$$ NODE[2]=$$
	mkdir -p "$T/n$1"
	modprobe rdma_rxe && modprobe rdma_ucm &&
		ip addr add "10.99.0.$1/24" dev eth0 && ip link set eth0 up &&
		rdma_add "$1" eth0 && agent_config "$1" &&
		sed -i 's/^{/{"resumeTimeout":30,/' "$T/n$1/agent.json" &&
		agent_start "$1"
}
hw_sent() { cat "/sys/class/infiniband/rxe$1/ports/1/hw_counters/sent_pkts"; }
lanes_by() {
	ctl "$HERE" -o json lanes | jq -e --arg p "$1" \
		'map(select(.node != "")) | length > 0 and all(.path == $p)'
}
by() {
	ctl "$HERE" -o json nodes | jq -e --arg n "node$THERE" --arg c "$1" \
		'.[] | select(.name == $n) | .carrier | startswith($c)'
}

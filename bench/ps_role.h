/*
 * bench/ps_role.h - the roles that compare starts in pods
 *
 * Each role is a command of ps_throughput. compare starts it as a process in a
 * pod's network namespace with --report FD; at its end it writes one line of
 * JSON to that descriptor:
 *
 *   worker     {"role":"worker","rank":R,"ok":true,"verified":B,"path":P,
 *               "param_path":P,"congestion_control":NAME,
 *               "local_sum":B,"nic":{…},"step_ns":[N,…],
 *               "t_first_ns":N,"t_last_ns":N,"sent_bytes":N,
 *               "received_bytes":N,"checksum":HEX,
 *               "curve":[{"seconds":S,"accuracy":A},…]}
 *   server     {"role":"server","rank":R,"ok":true,"path":P,
 *               "grad_paths":[P,…],"steps":N,"checksum":HEX,
 *               "staleness":{"chunks":N,"updates":N,"most":N}}
 *   raw-send,  {"role":…,"ok":true,"sent_bytes":N,"received_bytes":N,
 *   raw-recv    "ns":N}
 *   any        {"role":…,"rank":R,"ok":false,"error":TEXT,
 *              "peer_gone":whether it only noticed that another one had gone}
 *
 * All but raw-* have "job" (what was run), "version", "machine", and "node" if
 * they were told. A server of a job without servers ends at once.
 *
 * step_ns are the measured steps, t_first_ns and t_last_ns CLOCK_MONOTONIC at
 * the beginning of the first and the end of the last of them. path is that of
 * the gradients as the transport reports it ("shm", "tcp", "overlay-tcp";
 * "shm+tcp" when servers differ).
 * nic is the device with the worker's address, as ps_nic_add makes it.
 * sent_bytes and received_bytes are what this worker handed to and took from
 * the transport in the measured steps. congestion_control is that of the
 * overlay's sockets and absent with other transports. verified is false with
 * --raw, where there is nothing to verify. checksum is of all parameters
 * (worker) or of the server's share (server); with one server these are equal.
 *
 * curve is that of worker 0 with --train: the accuracy of the test set after
 * each epoch, and the time since the data was first touched. With --compression
 * or --train the server has no parameters, and its checksum is 0.
 *
 * staleness is that of ps_stale.h, with --async.
 *
 * An error also stands on stderr as one line, and the exit status is 1.
 */
#ifndef BENCH_PS_ROLE_H
#define BENCH_PS_ROLE_H

#include "bench/ps_options.h"

int ps_worker_main(int argc, char **argv);
int ps_server_main(int argc, char **argv);
int ps_raw_recv_main(int argc, char **argv);
int ps_raw_send_main(int argc, char **argv);

/*
 * Bytes per second that all cores together can move to and from memory, reads
 * and writes counted once each, in the mix of a parameter server: two reads
 * of gradients, one read and one write of parameters, on arrays larger than
 * any cache share. 0 when memory or threads could not be had.
 */
double ps_memory_bandwidth(void);

/* What ps_memory_bandwidth needs for a moment, in bytes. */
size_t ps_memory_bandwidth_need(void);

/*
 * Bytes that must cross memory in one step of k co-located workers. Each
 * gradient is written and read once. Parameters are read and written once with
 * servers or a leader, and by each worker without. In a ring 2 (k - 1) models
 * go around, each of which is written and read.
 */
double ps_roofline_bytes(enum ps_strategy s, unsigned int k,
			 double model_bytes);

#endif

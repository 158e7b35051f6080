/*
 * bench/ps_nic.h - the network devices that a result was measured over
 */
#ifndef BENCH_PS_NIC_H
#define BENCH_PS_NIC_H

#include <stdint.h>
#include <sys/types.h>
#include <cjson/cJSON.h>

#include "common/err.h"

/* Of a device; what the driver does not tell is "" or 0. */
struct ps_nic {
	char name[16];
	char driver[32];
	uint32_t mbit_per_s;
	uint32_t mtu;
	char offloads[64];	/* those that are on, as "sg+tso+gso+gro" */
};

/* In the namespace of the caller. -ENODEV: there is none of that name. */
int ps_nic_probe(const char *name, struct ps_nic *n, struct pl_err *err);
/* The same in the namespace at a path. */
int ps_nic_probe_in(const char *netns, const char *name, struct ps_nic *n,
		    struct pl_err *err);
/*
 * The one with this address; addr NULL: the first that is up, has an address
 * and is no loopback. n->name is "" when there is none.
 */
void ps_nic_of(const char *addr, struct ps_nic *n);

/* As a member of obj, whose members are null where n is NULL or lacks them. */
void ps_nic_add(cJSON *obj, const char *key, const struct ps_nic *n);
/* The reverse. -EPROTO: o is none of those. */
int ps_nic_read(const cJSON *o, struct ps_nic *n);
/* "veth eth0, 10000 Mbit/s, MTU 1450, offloads sg+tso" */
void ps_nic_text(const struct ps_nic *n, char *buf, size_t size);

/*
 * Bytes that a device has received and sent since it was made, as
 * /proc/PID/net/dev of a process in its namespace has them. -ENODEV: not there.
 */
int ps_nic_bytes(pid_t pid, const char *name, uint64_t *received,
		 uint64_t *sent);

#endif

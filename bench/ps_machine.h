/*
 * bench/ps_machine.h - what the comparison has to know of this machine
 */
#ifndef BENCH_PS_MACHINE_H
#define BENCH_PS_MACHINE_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/err.h"
#include "bench/ps_nic.h"

struct ps_machine {
	char kernel[160];
	char cpu[96];
	unsigned int cores;		/* that this process may use */
	char qdisc[32];			/* default of the network devices */
	/* Of TCP: what namespaces have, and the overlay's sockets used. */
	char congestion[64], overlay_congestion[64], carrier_congestion[64];
	char carrier[64];		/* "tcp", "tcp+tls": between agents */
	struct ps_nic wire;		/* between the nodes */
};

/* What the machine can do at best, measured beside the runs. 0: not known. */
struct ps_limits {
	double memory_bytes_per_s;	/* ps_memory_bandwidth() */
	/* Plain TCP streams over the overlay. */
	double raw_one_way;		/* as iperf3 */
	double raw_both_ways;		/* as iperf3 --bidir, both summed */
};

/* That this process may use. */
unsigned int ps_machine_cores(void);

/* Fills kernel, cpu, cores and qdisc. */
void ps_machine_probe(struct ps_machine *m);

/* The head of a result: program, version and machine. */
void ps_machine_head(const struct ps_machine *m, const char *program,
		     cJSON *doc);

/*
 * Nanoseconds that all cores together have spent on anything, interrupts
 * included, since boot. 0: not to be had.
 */
uint64_t ps_machine_busy_ns(void);

/* The kB behind key ("VmRSS:") in a file of /proc, in bytes; 0: not there. */
uint64_t ps_machine_bytes_of(const char *file, const char *key);

/*
 * Bytes that this process may still take: what the kernel calls available,
 * or less by the limit of a control group it is in. *limit (or NULL) says
 * which of them it is. root is "" except in tests.
 */
uint64_t ps_machine_free_bytes(const char *root, const char **limit);

#endif

/* bench/ps_usage.c - what a run takes: CPU time by role, bytes on the wire */
#include "bench/ps_usage.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "common/util.h"
#include "bench/ps_machine.h"
#include "bench/ps_nic.h"

#define SAMPLES 4096

struct sample {
	uint64_t at_ns, v[PS_COUNTERS];
};

struct ps_usage {
	const struct ps_cluster *cluster;
	const struct ps_child *child;
	unsigned int n_children, n_servers;
	/* Of processes that have ended it is what was seen last. */
	uint64_t cpu_ns[PS_SERVERS_MAX + PS_WORKERS_MAX];
	unsigned int n, skip, seen;
	struct sample s[SAMPLES];
};

int ps_usage_create(const struct ps_cluster *c, const struct ps_child *child,
		    unsigned int n, unsigned int n_servers,
		    struct ps_usage **out, struct pl_err *err)
{
	struct ps_usage *u = calloc(1, sizeof(*u));

	*out = u;
	if (!u)
		return pl_err_set(err, ENOMEM, "out of memory");
	u->cluster = c;
	u->child = child;
	u->n_children = n;
	u->n_servers = n_servers;
	return 0;
}

void ps_usage_destroy(struct ps_usage *u)
{
	free(u);
}

/* Of all threads; 0: it has gone. */
static uint64_t cpu_ns_of(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 ||
	    clock_gettime(clock, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void count_roles(struct ps_usage *u, struct sample *s)
{
	for (unsigned int i = 0; i < u->n_children; i++) {
		uint64_t ns = cpu_ns_of(u->child[i].pid);

		u->cpu_ns[i] = PL_MAX(u->cpu_ns[i], ns);
		s->v[i < u->n_servers ? PS_CPU_SERVERS : PS_CPU_WORKERS] +=
			u->cpu_ns[i];
	}
}

static void count_nodes(const struct ps_usage *u, struct sample *s)
{
	for (unsigned int i = 0; i < PS_NODES; i++) {
		uint64_t received, sent;

		s->v[PS_CPU_AGENTS] += cpu_ns_of(u->cluster->agent[i]);
		if (ps_nic_bytes(u->cluster->node[i].pid, PS_WIRE_NAME,
				 &received, &sent) == 0)
			s->v[i ? PS_WIRE_BACK : PS_WIRE_OUT] = sent;
	}
}

void ps_usage_sample(struct ps_usage *u)
{
	struct sample *s;

	if (u->seen++ % (u->skip + 1))
		return;
	if (u->n == SAMPLES) {
		/* A long run: every second one will do. */
		for (unsigned int i = 0; i < SAMPLES / 2; i++)
			u->s[i] = u->s[2 * i];
		u->n = SAMPLES / 2;
		u->skip = 2 * u->skip + 1;
	}
	s = &u->s[u->n++];
	*s = (struct sample){ .at_ns = pl_now_ns() };
	s->v[PS_BUSY] = ps_machine_busy_ns();
	count_roles(u, s);
	count_nodes(u, s);
}

static double at(const struct ps_usage *u, enum ps_counter which, uint64_t ns)
{
	const struct sample *a, *b;
	unsigned int i = 1;
	double part;

	if (u->n < 2)
		return 0;
	while (i + 1 < u->n && u->s[i].at_ns < ns)
		i++;
	a = &u->s[i - 1];
	b = &u->s[i];
	part = ((double)ns - (double)a->at_ns) /
	       (double)(b->at_ns - a->at_ns);
	/* What ended within the interval has no more after it. */
	part = PL_MIN(PL_MAX(part, 0.0), 1.0);
	return (double)a->v[which] +
	       part * ((double)b->v[which] - (double)a->v[which]);
}

double ps_usage_between(const struct ps_usage *u, enum ps_counter which,
			uint64_t from_ns, uint64_t to_ns)
{
	return at(u, which, to_ns) - at(u, which, from_ns);
}

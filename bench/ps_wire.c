/* bench/ps_wire.c - the wire between the nodes: its rate and its delay */
#include "bench/ps_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/netns.h"
#include "common/nl.h"
#include "common/util.h"

#define RATE_MIN 1e6		/* bit/s */
#define RATE_MAX 1e12
#define DELAY_MAX 10e9		/* ns */
/* What a port of a switch keeps: 2 ms of its rate, and what is on the way. */
#define QUEUE_NS 2000000
#define QUEUE_MIN (256u << 10)
#define BURST_NS 500000
#define BURST_MIN (128u << 10)
#define PACKET_BYTES 1500

struct unit {
	const char *name;
	double factor;
};

static const struct unit rates[] = {
	{ "m", 1e6 }, { "mbit", 1e6 }, { "g", 1e9 }, { "gbit", 1e9 },
};

static const struct unit times[] = {
	{ "us", 1e3 }, { "ms", 1e6 },
};

/* A number and its unit, up to `end`; negative: it is none. */
static double quantity(const char *text, const char *end,
		       const struct unit *units, size_t n_units)
{
	char *unit;
	double v = strtod(text, &unit);
	size_t len = (size_t)(end - unit);

	if (unit == text || unit > end || text[0] < '0' || text[0] > '9')
		return -1;
	for (size_t i = 0; i < n_units; i++)
		if (strlen(units[i].name) == len &&
		    !strncasecmp(units[i].name, unit, len))
			return v * units[i].factor;
	return -1;
}

int ps_wire_parse(const char *text, struct ps_wire *w, struct pl_err *err)
{
	const char *end = text + strcspn(text, ",");
	double rate = quantity(text, end, rates, PL_ARRAY_SIZE(rates));
	double delay = 0;

	if (*end)
		delay = quantity(end + 1, end + strlen(end), times,
				 PL_ARRAY_SIZE(times));
	if (!(rate >= RATE_MIN && rate <= RATE_MAX) ||
	    !(delay >= 0 && delay <= DELAY_MAX))
		return pl_err_set(err, EINVAL, "'%s': give a rate from 1m to "
				  "1000g (bits per second), and with a comma a "
				  "delay up to 10000ms if you like, as in 10g "
				  "or 1g,50us", text);
	w->bytes_per_s = (uint64_t)(rate / 8);
	w->delay_ns = (uint64_t)delay;
	return 0;
}

/* So many bytes as the wire moves in that time, but some at least. */
static uint32_t bytes_in(const struct ps_wire *w, uint64_t ns, uint32_t least)
{
	double bytes = (double)w->bytes_per_s * (double)ns / 1e9;

	return (uint32_t)PL_MIN(PL_MAX(bytes, (double)least), 1e9);
}

static int shape(struct pl_nl *nl, const struct ps_wire *w, int index,
		 struct pl_err *err)
{
	uint32_t queue = bytes_in(w, QUEUE_NS + 2 * w->delay_ns, QUEUE_MIN);
	struct pl_tbf tbf = { .bytes_per_s = w->bytes_per_s,
			      .burst_bytes = bytes_in(w, BURST_NS, BURST_MIN),
			      .queue_bytes = queue };
	struct pl_netem netem = { .bytes_per_s = w->bytes_per_s,
				  .delay_ns = w->delay_ns,
				  .packets = queue / PACKET_BYTES };
	int rc = w->delay_ns ? pl_nl_netem_add(nl, index, &netem, err) :
			       pl_nl_tbf_add(nl, index, &tbf, err);

	if (rc != -ENOENT && rc != -EOPNOTSUPP)
		return rc;
	return pl_err_set(err, EOPNOTSUPP, "this kernel can't %s: it has no "
			  "%s (try: modprobe %s)", w->delay_ns ?
			  "delay packets" : "limit a rate", w->delay_ns ?
			  "sch_netem" : "sch_tbf", w->delay_ns ?
			  "sch_netem" : "sch_tbf");
}

int ps_wire_apply(const struct ps_wire *w, const char *netns, const char *name,
		  struct pl_err *err)
{
	pl_auto_fd ns = -1;
	struct pl_link link;
	struct pl_nl nl;
	int rc = pl_netns_open(netns, &ns, err);

	if (rc == 0)
		rc = pl_nl_open(&nl, ns, err);
	if (rc < 0)
		return rc;
	rc = pl_nl_link_get(&nl, name, &link, err);
	if (rc == 0)
		rc = shape(&nl, w, link.index, err);
	pl_nl_close(&nl);
	return rc;
}

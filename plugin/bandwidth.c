/* plugin/bandwidth.c - limits of a pod's bandwidth */
#include "plugin/bandwidth.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <linux/if_ether.h>

#include "common/json.h"
#include "common/util.h"

#define LATENCY_MS 25
/* What the token bucket can hold: 2^32 - 1 bytes. */
#define BURST_BITS_MAX (UINT64_C(8) * UINT32_MAX)
#define RATE_BITS_MAX (INT64_C(1) << 53)
/* A frame is so much longer than the MTU: header and VLAN tag. */
#define FRAME_EXTRA (ETH_HLEN + 4)

/* --- the configuration --- */

static int parse_rate(const cJSON *j, const char *where, const char *rate_key,
		      const char *burst_key, struct pl_rate *r,
		      struct pl_err *err)
{
	const char *dot = *where ? "." : "";
	int64_t rate = 0, burst = 0;

	if (pl_json_int(j, where, rate_key, 0, RATE_BITS_MAX, &rate, err) < 0 ||
	    pl_json_int(j, where, burst_key, 0, RATE_BITS_MAX, &burst,
			err) < 0)
		return -EINVAL;
	if (!rate != !burst)
		return pl_err_set(err, EINVAL, "%s%s%s and %s must both be "
				  "set, or both be 0", where, dot, rate_key,
				  burst_key);
	if ((uint64_t)burst > BURST_BITS_MAX)
		return pl_err_set(err, EINVAL, "%s%s%s must be less than 4 GB",
				  where, dot, burst_key);
	r->bits_per_s = (uint64_t)rate;
	r->burst_bits = (uint64_t)burst;
	return 0;
}

int pl_bandwidth_parse(const cJSON *json, struct pl_bandwidth *b,
		       struct pl_err *err)
{
	const cJSON *rt = NULL, *from = NULL;
	const char *where = "runtimeConfig.bandwidth";

	memset(b, 0, sizeof(*b));
	if (pl_json_obj(json, "", "runtimeConfig", &rt, err) < 0 ||
	    pl_json_obj(rt, "runtimeConfig", "bandwidth", &from, err) < 0)
		return -EINVAL;
	if (!from) {
		from = json;
		where = "";
	}
	if (parse_rate(from, where, "ingressRate", "ingressBurst", &b->ingress,
		       err) < 0 ||
	    parse_rate(from, where, "egressRate", "egressBurst", &b->egress,
		       err) < 0)
		return -EINVAL;
	return 0;
}

bool pl_bandwidth_any(const struct pl_bandwidth *b)
{
	return b->ingress.bits_per_s || b->egress.bits_per_s;
}

/* --- setting it --- */

static uint32_t at_most_u32(uint64_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

/*
 * The kernel drops what is longer than the burst, so that a pod with a small
 * one could only send small packets. One frame fits always.
 */
static struct pl_tbf bucket(const struct pl_rate *r, uint32_t mtu)
{
	uint64_t burst = PL_MAX(r->burst_bits / 8, mtu + FRAME_EXTRA);
	uint64_t rate = PL_MAX(r->bits_per_s / 8, 1);

	return (struct pl_tbf){
		.bytes_per_s = rate,
		.burst_bytes = at_most_u32(burst),
		.queue_bytes = at_most_u32(rate / 1000 * LATENCY_MS + burst),
	};
}

static int set_egress(struct pl_nl *host, const struct pl_rate *r,
		      const struct pl_link *port, const char *ifb_name,
		      struct pl_link *ifb, struct pl_err *err)
{
	struct pl_tbf t = bucket(r, port->mtu);
	int rc = pl_nl_ifb_add(host, ifb_name, port->mtu, ifb, err);

	if (rc == 0)
		rc = pl_nl_tbf_add(host, ifb->index, &t, err);
	if (rc == 0)
		rc = pl_nl_redirect_add(host, port->index, ifb->index, err);
	return rc;
}

int pl_bandwidth_set(struct pl_nl *host, const struct pl_bandwidth *b,
		     const struct pl_link *port, const char *ifb_name,
		     struct pl_link *ifb, struct pl_err *err)
{
	struct pl_tbf t = bucket(&b->ingress, port->mtu);
	int rc = 0;

	if (b->ingress.bits_per_s)
		rc = pl_nl_tbf_add(host, port->index, &t, err);
	if (rc == 0 && b->egress.bits_per_s)
		rc = set_egress(host, &b->egress, port, ifb_name, ifb, err);
	if (rc < 0)
		pl_err_prefix(err, "bandwidth");
	return rc;
}

/* --- looking at it --- */

static int check_bucket(struct pl_nl *host, const struct pl_rate *r,
			const struct pl_link *link, struct pl_err *err)
{
	struct pl_tbf want = bucket(r, link->mtu), have;
	int rc = pl_nl_tbf_get(host, link->index, &have, err);

	if (rc < 0)
		return rc;
	if (have.bytes_per_s == want.bytes_per_s)
		return 0;
	return pl_err_set(err, ENOENT, "%s is limited to %llu bytes/s, not "
			  "%llu", link->name,
			  (unsigned long long)have.bytes_per_s,
			  (unsigned long long)want.bytes_per_s);
}

static int check_egress(struct pl_nl *host, const struct pl_rate *r,
			const struct pl_link *port, const char *ifb_name,
			struct pl_err *err)
{
	struct pl_link ifb;
	int to, rc = pl_nl_link_get(host, ifb_name, &ifb, err);

	if (rc == 0 && !(ifb.flags & IFF_UP))
		rc = pl_err_set(err, ENOENT, "%s is down", ifb_name);
	if (rc == 0)
		rc = check_bucket(host, r, &ifb, err);
	if (rc == 0)
		rc = pl_nl_redirect_get(host, port->index, &to, err);
	if (rc == 0 && to != ifb.index)
		rc = pl_err_set(err, ENOENT, "%s does not redirect to %s",
				port->name, ifb_name);
	return rc;
}

int pl_bandwidth_check(struct pl_nl *host, const struct pl_bandwidth *b,
		       const struct pl_link *port, const char *ifb_name,
		       struct pl_err *err)
{
	int rc = 0;

	if (b->ingress.bits_per_s)
		rc = check_bucket(host, &b->ingress, port, err);
	if (rc == 0 && b->egress.bits_per_s)
		rc = check_egress(host, &b->egress, port, ifb_name, err);
	return rc;
}

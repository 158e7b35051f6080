/*
 * common/nl_tc.c - traffic control: a token bucket, a redirection to an ifb,
 * a delay
 *
 * Only what limits a pod's bandwidth and makes a benchmark's wire. A link's
 * outgoing traffic is limited by a token bucket as its root qdisc. Incoming
 * traffic can't wait, so a filter on the link's ingress qdisc hands all of it
 * to an ifb device, which sends it back to where it was, through its own token
 * bucket.
 */
#include "common/nl_internal.h"

#include <errno.h>
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <net/if.h>

#include "common/util.h"

#define CREATE (NLM_F_CREATE | NLM_F_EXCL)
#define TBF_HANDLE TC_H_MAKE(1 << 16, 0)
#define INGRESS_HANDLE TC_H_MAKE(TC_H_INGRESS, 0)
#define FILTER_PRIO 1

int pl_nl_ifb_add(struct pl_nl *nl, const char *name, uint32_t mtu,
		  struct pl_link *out, struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_flags = IFF_UP, .ifi_change = IFF_UP };
	struct nlattr *info;
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_NEWLINK, CREATE, &ifi, sizeof(ifi));
	pl_nlreq_str(&r, IFLA_IFNAME, name);
	if (mtu)
		pl_nlreq_u32(&r, IFLA_MTU, mtu);
	pl_nlreq_u32(&r, IFLA_NUM_TX_QUEUES, 1);
	pl_nlreq_u32(&r, IFLA_NUM_RX_QUEUES, 1);
	info = pl_nlreq_nest(&r, IFLA_LINKINFO);
	pl_nlreq_str(&r, IFLA_INFO_KIND, "ifb");
	pl_nlreq_unnest(&r, info);
	rc = pl_nl_ack(nl, &r, err);
	if (rc == 0)
		rc = pl_nl_link_get(nl, name, out, err);
	else
		pl_err_prefix(err, "cannot create ifb device %s", name);
	return rc;
}

/* --- token bucket --- */

static void put_tbf(struct pl_nlreq *r, const struct pl_tbf *t)
{
	struct tc_tbf_qopt q = { .rate.linklayer = TC_LINKLAYER_ETHERNET,
				 .limit = t->queue_bytes };
	struct nlattr *opts = pl_nlreq_nest(r, TCA_OPTIONS);

	q.rate.rate = t->bytes_per_s > UINT32_MAX ? UINT32_MAX :
						    (uint32_t)t->bytes_per_s;
	pl_nlreq_put(r, TCA_TBF_PARMS, &q, sizeof(q));
	if (t->bytes_per_s > UINT32_MAX)
		pl_nlreq_put(r, TCA_TBF_RATE64, &t->bytes_per_s,
			     sizeof(t->bytes_per_s));
	/* Not as a time in tc_tbf_qopt, which a slow rate overflows. */
	pl_nlreq_u32(r, TCA_TBF_BURST, t->burst_bytes);
	pl_nlreq_unnest(r, opts);
}

int pl_nl_tbf_add(struct pl_nl *nl, int index, const struct pl_tbf *t,
		  struct pl_err *err)
{
	struct tcmsg tc = { .tcm_ifindex = index,
			    .tcm_handle = TBF_HANDLE,
			    .tcm_parent = TC_H_ROOT };
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_NEWQDISC, CREATE, &tc, sizeof(tc));
	pl_nlreq_str(&r, TCA_KIND, "tbf");
	put_tbf(&r, t);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot limit the rate of link %d", index);
	return rc;
}

static int parse_tbf(const struct nlmsghdr *h, void *arg)
{
	struct nlattr *tb[TCA_MAX + 1], *o[TCA_TBF_MAX + 1];
	struct pl_tbf *t = arg;
	struct tc_tbf_qopt q;
	char kind[16];

	if (nlmsg_parse((struct nlmsghdr *)h, sizeof(struct tcmsg), tb,
			TCA_MAX, NULL) < 0)
		return -EPROTO;
	pl_nla_str(tb[TCA_KIND], kind, sizeof(kind));
	if (strcmp(kind, "tbf") || !tb[TCA_OPTIONS] ||
	    nla_parse_nested(o, TCA_TBF_MAX, tb[TCA_OPTIONS], NULL) < 0 ||
	    !o[TCA_TBF_PARMS] || nla_len(o[TCA_TBF_PARMS]) < (int)sizeof(q))
		return -ENOENT;
	memcpy(&q, nla_data(o[TCA_TBF_PARMS]), sizeof(q));
	t->bytes_per_s = q.rate.rate;
	if (o[TCA_TBF_RATE64] && nla_len(o[TCA_TBF_RATE64]) >= 8)
		memcpy(&t->bytes_per_s, nla_data(o[TCA_TBF_RATE64]), 8);
	t->queue_bytes = q.limit;
	return 0;
}

int pl_nl_tbf_get(struct pl_nl *nl, int index, struct pl_tbf *out,
		  struct pl_err *err)
{
	struct tcmsg tc = { .tcm_ifindex = index, .tcm_parent = TC_H_ROOT };
	struct pl_nlreq r;
	int rc;

	memset(out, 0, sizeof(*out));
	/* Its answer is a notification, which we get when we want our echo. */
	pl_nlreq_init(&r, RTM_GETQDISC, NLM_F_ECHO, &tc, sizeof(tc));
	rc = pl_nl_ask(nl, &r, parse_tbf, out, err);
	if (rc == -ENOENT)
		pl_err_set(err, ENOENT, "link %d has no limit of its rate",
			   index);
	return rc;
}

/* --- delay --- */

static void put_netem_rate(struct pl_nlreq *r, uint64_t bytes_per_s)
{
	struct tc_netem_rate rate = {
		.rate = (uint32_t)PL_MIN(bytes_per_s, (uint64_t)UINT32_MAX),
	};

	pl_nlreq_put(r, TCA_NETEM_RATE, &rate, sizeof(rate));
	if (bytes_per_s > UINT32_MAX)
		pl_nlreq_put(r, TCA_NETEM_RATE64, &bytes_per_s,
			     sizeof(bytes_per_s));
}

int pl_nl_netem_add(struct pl_nl *nl, int index, const struct pl_netem *e,
		    struct pl_err *err)
{
	struct tcmsg tc = { .tcm_ifindex = index,
			    .tcm_handle = TBF_HANDLE,
			    .tcm_parent = TC_H_ROOT };
	/* The delay is not in ticks but in the attribute, since Linux 4.15. */
	struct tc_netem_qopt q = { .limit = e->packets };
	struct nlattr *opts;
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_NEWQDISC, CREATE, &tc, sizeof(tc));
	pl_nlreq_str(&r, TCA_KIND, "netem");
	/* The structure comes first in what else is a nest of attributes. */
	opts = pl_nlreq_nest(&r, TCA_OPTIONS);
	pl_nlreq_append(&r, &q, sizeof(q));
	pl_nlreq_put(&r, TCA_NETEM_LATENCY64, &e->delay_ns,
		     sizeof(e->delay_ns));
	if (e->bytes_per_s)
		put_netem_rate(&r, e->bytes_per_s);
	pl_nlreq_unnest(&r, opts);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot delay what link %d sends", index);
	return rc;
}

/* --- redirection --- */

static int add_ingress(struct pl_nl *nl, int index, struct pl_err *err)
{
	struct tcmsg tc = { .tcm_ifindex = index,
			    .tcm_handle = INGRESS_HANDLE,
			    .tcm_parent = TC_H_INGRESS };
	struct pl_nlreq r;

	pl_nlreq_init(&r, RTM_NEWQDISC, CREATE, &tc, sizeof(tc));
	pl_nlreq_str(&r, TCA_KIND, "ingress");
	return pl_nl_ack(nl, &r, err);
}

static void put_mirred(struct pl_nlreq *r, int to)
{
	struct tc_mirred m = { .action = TC_ACT_STOLEN,
			       .eaction = TCA_EGRESS_REDIR,
			       .ifindex = (uint32_t)to };
	struct nlattr *acts = pl_nlreq_nest(r, TCA_U32_ACT);
	struct nlattr *act = pl_nlreq_nest(r, 1), *opts;

	pl_nlreq_str(r, TCA_ACT_KIND, "mirred");
	opts = pl_nlreq_nest(r, TCA_ACT_OPTIONS);
	pl_nlreq_put(r, TCA_MIRRED_PARMS, &m, sizeof(m));
	pl_nlreq_unnest(r, opts);
	pl_nlreq_unnest(r, act);
	pl_nlreq_unnest(r, acts);
}

/* A selector with one key of mask 0, which every packet matches. */
struct match_all {
	struct tc_u32_sel sel;
	struct tc_u32_key key;
};

int pl_nl_redirect_add(struct pl_nl *nl, int index, int to, struct pl_err *err)
{
	struct tcmsg tc = { .tcm_ifindex = index,
			    .tcm_parent = INGRESS_HANDLE,
			    .tcm_info = TC_H_MAKE(FILTER_PRIO << 16,
						  htons(ETH_P_ALL)) };
	struct match_all all = { .sel = { .flags = TC_U32_TERMINAL,
					  .nkeys = 1 } };
	struct nlattr *opts;
	struct pl_nlreq r;
	int rc = add_ingress(nl, index, err);

	if (rc == 0) {
		pl_nlreq_init(&r, RTM_NEWTFILTER, CREATE, &tc, sizeof(tc));
		pl_nlreq_str(&r, TCA_KIND, "u32");
		opts = pl_nlreq_nest(&r, TCA_OPTIONS);
		pl_nlreq_put(&r, TCA_U32_SEL, &all, sizeof(all));
		put_mirred(&r, to);
		pl_nlreq_unnest(&r, opts);
		rc = pl_nl_ack(nl, &r, err);
	}
	if (rc < 0)
		pl_err_prefix(err, "cannot redirect what link %d receives to "
			      "link %d", index, to);
	return rc;
}

/* Of several actions the first one, of which ours has no more. */
static int mirred_of(const struct nlattr *acts)
{
	struct nlattr *tb[2], *act[TCA_ACT_MAX + 1], *m[TCA_MIRRED_MAX + 1];
	struct tc_mirred p;

	if (!acts ||
	    nla_parse_nested(tb, 1, (struct nlattr *)acts, NULL) < 0 ||
	    !tb[1] || nla_parse_nested(act, TCA_ACT_MAX, tb[1], NULL) < 0 ||
	    !act[TCA_ACT_OPTIONS] ||
	    nla_parse_nested(m, TCA_MIRRED_MAX, act[TCA_ACT_OPTIONS],
			     NULL) < 0 ||
	    !m[TCA_MIRRED_PARMS] ||
	    nla_len(m[TCA_MIRRED_PARMS]) < (int)sizeof(p))
		return 0;
	memcpy(&p, nla_data(m[TCA_MIRRED_PARMS]), sizeof(p));
	return p.eaction == TCA_EGRESS_REDIR ? (int)p.ifindex : 0;
}

static int parse_filter(const struct nlmsghdr *h, void *arg)
{
	struct nlattr *tb[TCA_MAX + 1], *o[TCA_U32_MAX + 1];
	int *to = arg;
	char kind[16];

	if (nlmsg_parse((struct nlmsghdr *)h, sizeof(struct tcmsg), tb,
			TCA_MAX, NULL) < 0)
		return -EPROTO;
	pl_nla_str(tb[TCA_KIND], kind, sizeof(kind));
	if (!strcmp(kind, "u32") && tb[TCA_OPTIONS] &&
	    nla_parse_nested(o, TCA_U32_MAX, tb[TCA_OPTIONS], NULL) == 0 &&
	    mirred_of(o[TCA_U32_ACT]))
		*to = mirred_of(o[TCA_U32_ACT]);
	return *to ? 1 : 0;
}

int pl_nl_redirect_get(struct pl_nl *nl, int index, int *to,
		       struct pl_err *err)
{
	struct tcmsg tc = { .tcm_ifindex = index,
			    .tcm_parent = INGRESS_HANDLE };
	struct pl_nlreq r;
	int rc;

	*to = 0;
	pl_nlreq_init(&r, RTM_GETTFILTER, 0, &tc, sizeof(tc));
	rc = pl_nl_dump(nl, &r, RTM_NEWTFILTER, parse_filter, to, err);
	if (rc < 0)
		return rc;
	return *to ? 0 : pl_err_set(err, ENOENT, "nothing redirects what link "
				    "%d receives", index);
}

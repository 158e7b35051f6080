/* daemonset/stats.c - what pods say that they did; what they were refused */
#include "daemonset/stats.h"

#include "common/util.h"

static const char *const names[PL_FLOW_ITEMS] = {
	[PL_FLOW_BYTES] = "bytes",
	[PL_FLOW_MESSAGES] = "messages",
	[PL_FLOW_DOORBELLS] = "doorbells",
	[PL_FLOW_WAITS] = "waits",
	[PL_FLOW_SLEEPS] = "sleeps",
	[PL_FLOW_WAIT_NS] = "waitSeconds",
	[PL_FLOW_REFUSALS] = "refusals",
	[PL_FLOW_ERRORS] = "errors",
	[PL_FLOW_BAD_SUMS] = "checksumErrors",
};

static uint64_t plus(uint64_t a, uint64_t b)
{
	return pl_stat(pl_stat(a) + pl_stat(b));
}

static void count_read(const struct pl_lane_count *c, struct pl_flow *f)
{
	f->n[PL_FLOW_MESSAGES] = pl_stat_read(&c->calls);
	f->n[PL_FLOW_DOORBELLS] = pl_stat_read(&c->rings);
	f->n[PL_FLOW_WAITS] = pl_stat_read(&c->waits);
	f->n[PL_FLOW_SLEEPS] = pl_stat_read(&c->sleeps);
	f->n[PL_FLOW_WAIT_NS] = pl_stat_read(&c->wait_ns);
	f->n[PL_FLOW_REFUSALS] = pl_stat_read(&c->refusals);
	f->n[PL_FLOW_ERRORS] = pl_stat_read(&c->errors);
	f->n[PL_FLOW_BAD_SUMS] = pl_stat_read(&c->bad_sums);
}

void pl_flows_read(const struct pl_lane_seg *ctl, struct pl_flows *out)
{
	*out = (struct pl_flows){ 0 };
	if (!ctl)
		return;
	out->tx.n[PL_FLOW_BYTES] = pl_stat_read(&ctl->head);
	out->rx.n[PL_FLOW_BYTES] = pl_stat_read(&ctl->tail);
	out->has_counts = ctl->additions & PL_LANE_COUNTS;
	if (out->has_counts) {
		count_read(&ctl->tx_count, &out->tx);
		count_read(&ctl->rx_count, &out->rx);
	} else if (ctl->additions & PL_LANE_CARRY) {
		out->tx.n[PL_FLOW_MESSAGES] = pl_stat_read(&ctl->carried_sends);
	}
}

void pl_flow_add(struct pl_flow *sum, const struct pl_flow *more)
{
	for (int i = 0; i < PL_FLOW_ITEMS; i++)
		sum->n[i] = plus(sum->n[i], more->n[i]);
}

static void wake_add(struct pl_wakes *sum, const struct pl_lane_wake *w)
{
	sum->ns = plus(sum->ns, pl_stat_read(&w->ns));
	for (int i = 0; i < PL_WAKE_BUCKETS; i++)
		sum->n[i] = plus(sum->n[i], pl_stat_read(&w->n[i]));
}

void pl_wakes_add(struct pl_wakes *sum, const struct pl_lane_seg *ctl)
{
	if (!ctl || !(ctl->additions & PL_LANE_WAKES))
		return;
	wake_add(sum, &ctl->tx_wake);
	wake_add(sum, &ctl->rx_wake);
}

cJSON *pl_flow_json(const struct pl_flow *f, bool has_counts)
{
	cJSON *j = cJSON_CreateObject();

	for (int i = 0; i < PL_FLOW_ITEMS; i++) {
		double v = (double)f->n[i];

		if (!has_counts && i != PL_FLOW_BYTES)
			break;
		cJSON_AddNumberToObject(j, names[i],
					i == PL_FLOW_WAIT_NS ? v / 1e9 : v);
	}
	return j;
}

void pl_carry_sum_add(struct pl_carry_sum *sum, const struct pl_lane_seg *ctl)
{
	const struct pl_lane_carry *c;

	if (!ctl || !(ctl->additions & PL_LANE_CARRY))
		return;
	c = &ctl->carry;

	const _Atomic uint64_t *const from[PL_CARRY_ITEMS] = {
		[PL_CARRY_PUTS] = &c->puts,
		[PL_CARRY_PUT_BYTES] = &c->put_bytes,
		[PL_CARRY_AGAIN_BYTES] = &c->again_bytes,
		[PL_CARRY_COUNTER_PUTS] = &c->counter_puts,
		[PL_CARRY_NOTIFIES] = &c->notifies,
		[PL_CARRY_RINGS] = &c->rings,
		[PL_CARRY_RUNG] = &c->rung,
		[PL_CARRY_RESUMES] = &c->resumes,
	};

	for (int i = 0; i < PL_CARRY_ITEMS; i++)
		sum->n[i] = plus(sum->n[i], pl_stat_read(from[i]));
}

cJSON *pl_carry_json(const struct pl_lane_seg *ctl)
{
	static const char *const items[PL_CARRY_ITEMS] = {
		[PL_CARRY_PUTS] = "puts",
		[PL_CARRY_PUT_BYTES] = "putBytes",
		[PL_CARRY_AGAIN_BYTES] = "againBytes",
		[PL_CARRY_COUNTER_PUTS] = "counterPuts",
		[PL_CARRY_NOTIFIES] = "notifies",
		[PL_CARRY_RINGS] = "podRung",
		[PL_CARRY_RUNG] = "rungByPod",
		[PL_CARRY_RESUMES] = "resumes",
	};
	struct pl_carry_sum sum = { .n = { 0 } };
	cJSON *j;

	if (!ctl || !(ctl->additions & PL_LANE_CARRY))
		return NULL;
	pl_carry_sum_add(&sum, ctl);
	j = cJSON_CreateObject();
	for (int i = 0; i < PL_CARRY_ITEMS; i++)
		cJSON_AddNumberToObject(j, items[i], (double)sum.n[i]);
	return j;
}

/* --- pods ----------------------------------------------------------------- */

static void add(_Atomic uint64_t *sum, uint64_t more)
{
	/* One writer: no read-modify-write. */
	atomic_store_explicit(sum, plus(pl_stat_read(sum), more),
			      memory_order_relaxed);
}

void pl_pod_counts_end(struct pl_pod_counts *c, const struct pl_lane_seg *ctl)
{
	struct pl_wakes w = { .ns = 0 };
	struct pl_flows f;

	if (!ctl)
		return;
	pl_flows_read(ctl, &f);
	pl_wakes_add(&w, ctl);
	pl_pod_counts_event(c, PL_POD_LANES);
	add(&c->wakes[0], w.ns);
	for (int i = 0; i < PL_WAKE_BUCKETS; i++)
		add(&c->wakes[1 + i], w.n[i]);
	for (int i = 0; i < PL_FLOW_ITEMS; i++) {
		add(&c->tx[i], f.tx.n[i]);
		add(&c->rx[i], f.rx.n[i]);
	}
}

void pl_pod_counts_event(struct pl_pod_counts *c, enum pl_pod_event e)
{
	add(&c->events[e], 1);
}

void pl_pod_counts_flows(const struct pl_pod_counts *c, struct pl_flow *tx,
			 struct pl_flow *rx)
{
	for (int i = 0; i < PL_FLOW_ITEMS; i++) {
		tx->n[i] = pl_stat_read(&c->tx[i]);
		rx->n[i] = pl_stat_read(&c->rx[i]);
	}
}

void pl_pod_counts_wakes(const struct pl_pod_counts *c, struct pl_wakes *out)
{
	out->ns = pl_stat_read(&c->wakes[0]);
	for (int i = 0; i < PL_WAKE_BUCKETS; i++)
		out->n[i] = pl_stat_read(&c->wakes[1 + i]);
}

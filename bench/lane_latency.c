/*
 * bench/lane_latency.c - round trips, one at a time
 *
 * The client sends a message and waits until it has come back, whole. Each
 * round is timed by one reading of the clock, which is in the figure, as it is
 * in that of the bare cache lines (lane_limits.c).
 */
#include "bench/lane_perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util.h"
#include "bench/lane_link.h"
#include "bench/lane_message.h"
#include "bench/ps_stats.h"

#define SAMPLES_MAX (1u << 20)
#define ROUNDS_MIN 32u			/* also of those that take long */
#define WARM_ROUNDS 200u
#define WARM_NS 20000000u

/* One size: what both sides have of it. */
struct trip {
	const struct lp_end *end;
	size_t size;
	bool in_place;
	char *buf;
	uint32_t *ns;			/* client */
	unsigned int n;
};

/* --- the side that answers ------------------------------------------------ */

/* Returns the kind, or -errno. */
static int answer_copy(const struct trip *t, uint64_t no)
{
	int kind, rc = lp_recv(t->end, t->buf, t->size);

	if (rc < 0)
		return rc;
	kind = lp_check(t->buf, t->size, no);
	if (kind < 0)
		return -EBADMSG;
	rc = lp_send(t->end, t->buf, t->size);
	return rc < 0 ? rc : kind;
}

static int answer_in_place(const struct trip *t, uint64_t no)
{
	const void *from;
	void *to;
	int kind;
	ssize_t n = lp_peek(t->end, t->size, &from);

	if (n < 0)
		return (int)n;
	kind = lp_check(from, t->size, no);
	if (kind < 0)
		return -EBADMSG;
	n = lp_reserve(t->end, t->size, &to);
	if (n < 0)
		return (int)n;
	memcpy(to, from, t->size);
	n = pl_lane_commit(t->end->lane, t->size);
	if (n == 0)
		n = pl_lane_consume(t->end->lane, t->size);
	return n < 0 ? (int)n : kind;
}

static int answer(const struct trip *t, struct pl_err *err)
{
	int kind = 0;

	for (uint64_t no = 0; kind != LP_LAST; no++) {
		kind = t->in_place ? answer_in_place(t, no) :
				     answer_copy(t, no);
		if (kind < 0)
			return lp_told(kind, err);
	}
	return 0;
}

/* --- the side that asks --------------------------------------------------- */

static int ask_copy(const struct trip *t, enum lp_kind kind, uint64_t no)
{
	int rc;

	if (kind == LP_FULL)
		lp_fill(t->buf, t->size, no);
	else
		lp_stamp(t->buf, t->size, kind, no);
	rc = lp_send(t->end, t->buf, t->size);
	if (rc == 0)
		rc = lp_recv(t->end, t->buf, t->size);
	if (rc == 0 && lp_check(t->buf, t->size, no) != (int)kind)
		rc = -EBADMSG;
	return rc;
}

static int ask_in_place(const struct trip *t, enum lp_kind kind, uint64_t no)
{
	const void *from;
	void *to;
	ssize_t n = lp_reserve(t->end, t->size, &to);

	if (n < 0)
		return (int)n;
	if (kind == LP_FULL)
		lp_fill(to, t->size, no);
	else
		lp_stamp(to, t->size, kind, no);
	n = pl_lane_commit(t->end->lane, t->size);
	if (n == 0)
		n = lp_peek(t->end, t->size, &from);
	if (n < 0)
		return (int)n;
	if (lp_check(from, t->size, no) != (int)kind)
		return -EBADMSG;
	return pl_lane_consume(t->end->lane, t->size);
}

static int ask(const struct trip *t, enum lp_kind kind, uint64_t no)
{
	return t->in_place ? ask_in_place(t, kind, no) :
			     ask_copy(t, kind, no);
}

/* Rounds that are not timed: full ones, then as many as warm all up. */
static int warm_up(const struct trip *t, uint64_t *no)
{
	uint64_t end = pl_now_ns() + WARM_NS;
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < lp_full_count(t->size); i++)
		rc = ask(t, LP_FULL, (*no)++);
	for (unsigned int i = 0; rc == 0 && i < WARM_ROUNDS; i++) {
		rc = ask(t, LP_ENDS, (*no)++);
		if (pl_now_ns() > end)
			break;
	}
	return rc;
}

static int ask_all(struct trip *t, unsigned int ms, struct pl_err *err)
{
	uint64_t no = 0, at, end, now;
	int rc = warm_up(t, &no);

	at = pl_now_ns();
	end = at + ms * 1000000ull;
	for (t->n = 0; rc == 0 && t->n < SAMPLES_MAX; at = now) {
		rc = ask(t, LP_ENDS, no++);
		now = pl_now_ns();
		t->ns[t->n++] = (uint32_t)PL_MIN(now - at, UINT32_MAX);
		if (now > end && t->n >= ROUNDS_MIN)
			break;
	}
	if (rc == 0)
		rc = ask(t, LP_LAST, no);
	return lp_told(rc, err);
}

/* --- both ----------------------------------------------------------------- */

static void row_add(cJSON *rows, const struct trip *t)
{
	cJSON *row = cJSON_CreateObject();

	ps_sort_u32(t->ns, t->n);
	cJSON_AddNumberToObject(row, "size", (double)t->size);
	cJSON_AddNumberToObject(row, "rounds", t->n);
	cJSON_AddNumberToObject(row, "p50_ns",
				ps_sorted_u32(t->ns, t->n, 0.5));
	cJSON_AddNumberToObject(row, "p99_ns",
				ps_sorted_u32(t->ns, t->n, 0.99));
	cJSON_AddNumberToObject(row, "p999_ns",
				ps_sorted_u32(t->ns, t->n, 0.999));
	cJSON_AddBoolToObject(row, "verified", true);
	cJSON_AddStringToObject(row, "path", t->end->path);
	cJSON_AddItemToArray(rows, row);
}

static int run_size(struct trip *t, const struct lp_job *j, size_t size,
		    cJSON *rows, struct pl_err *err)
{
	int rc;

	t->size = size;
	if (t->in_place && lp_piece(t->end, size) < size)
		return 0;
	if (j->is_server)
		return answer(t, err);
	rc = ask_all(t, j->ms, err);
	if (rc == 0)
		row_add(rows, t);
	return rc;
}

int lp_latency_run(const struct lp_job *j, cJSON *rows, struct pl_err *err)
{
	struct trip t = { .in_place = j->way == LP_IN_PLACE };
	struct lp_ends e;
	int rc;

	t.buf = calloc(1, LP_SIZE_MAX);
	t.ns = calloc(SAMPLES_MAX, sizeof(*t.ns));
	lp_pin_job(j);
	rc = lp_ends_open(j, &e, err);
	if (rc == 0 && (!t.buf || !t.ns))
		rc = pl_err_set(err, ENOMEM, "out of memory");
	t.end = e.end;
	for (unsigned int i = 0; rc == 0 && i < j->n_sizes; i++)
		rc = run_size(&t, j, j->sizes[i], rows, err);
	lp_ends_close(&e);
	free(t.buf);
	free(t.ns);
	return rc;
}

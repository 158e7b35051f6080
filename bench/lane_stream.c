/*
 * bench/lane_stream.c - messages one way, over one lane
 *
 * The client sends for a while and then a last message; the server answers that
 * it has got all of them. The time is from the first to that answer. "In place"
 * is one copy into the ring and reading all of it there; "copy" is one copy
 * into the ring and one out of it; "batch" is the same, committed and consumed
 * many messages at a time.
 */
#include "bench/lane_perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util.h"
#include "bench/lane_link.h"
#include "bench/lane_message.h"
#include "bench/ps_machine.h"

/* Between two looks at the clock. */
#define LOOK_BYTES (64u << 10)
#define LOOK_MESSAGES 256u
#define WARM_MS 10

struct flow {
	const struct lp_end *end;
	enum lp_way way;
	size_t size;
	char *buf;
	uint64_t no, sum;
};

/* --- receiving ------------------------------------------------------------ */

static int recv_copy(struct flow *f)
{
	int rc = lp_recv(f->end, f->buf, f->size);

	return rc < 0 ? rc : lp_check(f->buf, f->size, f->no++);
}

/* A piece of a message; *kind of its first word. */
static bool piece_ok(struct flow *f, const char *at, size_t off, size_t len,
		     int *kind)
{
	const size_t end = lp_last(f->size) - 8;

	if (off == 0)
		*kind = (int)(lp_get(at) >> 62);
	if (*kind == LP_FULL) {
		if (!lp_filled_part(at, off, len, f->size, f->no))
			return false;
	} else {
		f->sum += lp_sum(at, len);
	}
	if (off == 0 && lp_get(at) != lp_word((enum lp_kind)*kind, f->no))
		return false;
	return off + len <= end ||
	       lp_get(at + end - off) == lp_word((enum lp_kind)*kind, f->no);
}

static int recv_in_place(struct flow *f)
{
	const size_t piece = lp_piece(f->end, f->size);
	const void *at;
	int kind = 0;

	for (size_t off = 0; off < f->size; off += piece) {
		size_t want = PL_MIN(piece, f->size - off);
		ssize_t n = lp_peek(f->end, want, &at);

		if (n < 0)
			return (int)n;
		if (!piece_ok(f, at, off, want, &kind))
			return -EBADMSG;
		n = pl_lane_consume(f->end->lane, want);
		if (n < 0)
			return (int)n;
	}
	f->no++;
	return kind;
}

/* Whole messages that are there, each copied out. */
static int recv_batch(struct flow *f)
{
	const void *at;
	ssize_t n = lp_peek(f->end, f->size, &at);
	size_t done = 0;
	int kind = 0;

	if (n < 0)
		return (int)n;
	while ((size_t)n - done >= f->size && kind != LP_LAST && kind >= 0) {
		memcpy(f->buf, (const char *)at + done, f->size);
		kind = lp_check(f->buf, f->size, f->no++);
		done += f->size;
	}
	n = pl_lane_consume(f->end->lane, done);
	return n < 0 ? (int)n : kind;
}

static int recv_size(struct flow *f, struct pl_err *err)
{
	int kind = 0, rc;
	char ok[8] = "received";

	f->no = 0;
	while (kind != LP_LAST && kind >= 0) {
		kind = f->way == LP_IN_PLACE ? recv_in_place(f) :
		       f->way == LP_BATCH ? recv_batch(f) : recv_copy(f);
	}
	if (kind == -1)
		kind = -EBADMSG;
	rc = kind < 0 ? kind : lp_send(f->end, ok, sizeof(ok));
	return lp_told(rc, err);
}

/* --- sending -------------------------------------------------------------- */

static void make(struct flow *f, enum lp_kind kind)
{
	if (kind == LP_FULL)
		lp_fill(f->buf, f->size, f->no++);
	else
		lp_stamp(f->buf, f->size, kind, f->no++);
}

static int send_in_place(struct flow *f)
{
	const size_t piece = lp_piece(f->end, f->size);
	const char *from = f->buf;
	size_t left = f->size;

	while (left) {
		size_t n = PL_MIN(piece, left);
		void *to;
		ssize_t rc = lp_reserve(f->end, n, &to);

		if (rc < 0)
			return (int)rc;
		memcpy(to, from, n);
		rc = pl_lane_commit(f->end->lane, n);
		if (rc < 0)
			return (int)rc;
		from += n;
		left -= n;
	}
	return 0;
}

static int send_one(struct flow *f, enum lp_kind kind)
{
	make(f, kind);
	return f->way == LP_IN_PLACE ? send_in_place(f) :
				       lp_send(f->end, f->buf, f->size);
}

/* Messages for one commit: what there is space for, up to a few. */
static int send_batch(struct flow *f)
{
	size_t most = PL_MAX(lp_piece(f->end, LOOK_BYTES), f->size);
	size_t done = 0;
	void *to;
	ssize_t n = lp_reserve(f->end, f->size, &to);

	if (n < 0)
		return (int)n;
	for (most = PL_MIN(most, (size_t)n); most - done >= f->size;
	     done += f->size) {
		make(f, LP_ENDS);
		memcpy((char *)to + done, f->buf, f->size);
	}
	return pl_lane_commit(f->end->lane, done);
}

/* For so long, in bunches between two looks at the clock. */
static int send_for(struct flow *f, unsigned int ms)
{
	uint64_t end = pl_now_ns() + ms * 1000000ull;
	unsigned int bunch = (unsigned int)PL_MAX(LOOK_BYTES / f->size,
						  (size_t)1);
	int rc = 0;

	bunch = PL_MIN(bunch, LOOK_MESSAGES);
	do {
		if (f->way == LP_BATCH) {
			rc = send_batch(f);
			continue;
		}
		for (unsigned int i = 0; rc == 0 && i < bunch; i++)
			rc = send_one(f, LP_ENDS);
	} while (rc == 0 && pl_now_ns() < end);
	return rc;
}

static int last(struct flow *f)
{
	char answer[8];
	int rc = send_one(f, LP_LAST);

	return rc < 0 ? rc : lp_recv(f->end, answer, sizeof(answer));
}

/* Full messages and a few others, up to an answer: not timed. */
static int warm_up(struct flow *f)
{
	int rc = 0;

	f->no = 0;
	for (unsigned int i = 0; rc == 0 && i < lp_full_count(f->size); i++)
		rc = send_one(f, LP_FULL);
	if (rc == 0)
		rc = send_for(f, WARM_MS);
	return rc < 0 ? rc : last(f);
}

static void row_add(cJSON *rows, const struct flow *f, uint64_t ns,
		    uint64_t busy_ns)
{
	cJSON *row = cJSON_CreateObject();
	double s = (double)ns / 1e9, bytes = (double)f->no * (double)f->size;

	cJSON_AddNumberToObject(row, "size", (double)f->size);
	cJSON_AddNumberToObject(row, "messages", (double)f->no);
	cJSON_AddNumberToObject(row, "messages_per_s", (double)f->no / s);
	cJSON_AddNumberToObject(row, "bytes_per_s", bytes / s);
	cJSON_AddNumberToObject(row, "cpu_s_per_gb", (double)busy_ns / bytes);
	cJSON_AddBoolToObject(row, "verified", true);
	cJSON_AddStringToObject(row, "path", f->end->path);
	cJSON_AddItemToArray(rows, row);
}

static int send_size(struct flow *f, unsigned int ms, cJSON *rows,
		     struct pl_err *err)
{
	int rc = warm_up(f);
	uint64_t start, busy;

	f->no = 0;
	start = pl_now_ns();
	busy = ps_machine_busy_ns();
	if (rc == 0)
		rc = send_for(f, ms);
	if (rc == 0)
		rc = last(f);
	if (rc == 0)
		row_add(rows, f, pl_now_ns() - start,
			ps_machine_busy_ns() - busy);
	return lp_told(rc, err);
}

/* The server answers twice: after what warms up, and after what is timed. */
static int run_size(struct flow *f, const struct lp_job *j, size_t size,
		    cJSON *rows, struct pl_err *err)
{
	int rc;

	f->size = size;
	if (f->way == LP_BATCH && size > LOOK_BYTES)
		return 0;
	if (!j->is_server)
		return send_size(f, j->ms, rows, err);
	rc = recv_size(f, err);
	return rc < 0 ? rc : recv_size(f, err);
}

int lp_stream_run(const struct lp_job *j, cJSON *rows, struct pl_err *err)
{
	struct flow f = { .way = j->way };
	struct lp_ends e;
	int rc;

	f.buf = calloc(1, LP_SIZE_MAX);
	lp_pin_job(j);
	rc = lp_ends_open(j, &e, err);
	if (rc == 0 && !f.buf)
		rc = pl_err_set(err, ENOMEM, "out of memory");
	f.end = e.end;
	for (unsigned int i = 0; rc == 0 && i < j->n_sizes; i++)
		rc = run_size(&f, j, j->sizes[i], rows, err);
	/* What was read is of use to somebody. */
	if (rc == 0 && j->is_server)
		cJSON_AddItemToArray(rows, cJSON_CreateNumber(
			(double)(f.sum >> 12)));
	lp_ends_close(&e);
	free(f.buf);
	return rc;
}

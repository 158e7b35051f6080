/*
 * bench/compress_sparse.c - the messages of dgc and drop
 *
 * Layout: vectors, values, runs; see compress.h. How many values there are
 * follows from the length of the message, and one of exactly all elements as
 * floats is dense. Messages are combined by a merge of their elements, which
 * stand in order in each: nothing of the model's size is touched for it.
 */
#include "bench/compress_impl.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"

#define RUN_MAX 65535u
#define PICK_BYTES (sizeof(float) + sizeof(uint16_t))
#define SOURCES_MAX 64

static size_t dense_bytes(const struct codec *c)
{
	return c->elems * sizeof(float);
}

size_t codec_sparse_max(const struct codec *c)
{
	return dense_bytes(c);
}

/* Elements of 0 that cut the runs before a pick. */
static uint64_t fillers(uint64_t run)
{
	return run / (RUN_MAX + 1);
}

static uint64_t entries(const struct codec_pick *picks, uint64_t n)
{
	uint64_t next = 0, all = n;

	for (uint64_t i = 0; i < n; i++) {
		all += fillers(picks[i].at - next);
		next = picks[i].at + 1;
	}
	return all;
}

/* Calls for each part, with where it is in the vectors or in the matrices. */
static float *put_vectors(const struct codec *c, const float *v, float *out)
{
	for (uint32_t i = 0; i < c->n; i++) {
		const struct codec_part *p = &c->parts[i];

		if (!codec_is_vector(p))
			continue;
		memcpy(out, v + p->first, p->elems * sizeof(float));
		out += p->elems;
	}
	return out;
}

static const float *get_vectors(const struct codec *c, const float *in,
				float *v)
{
	for (uint32_t i = 0; i < c->n; i++) {
		const struct codec_part *p = &c->parts[i];

		if (!codec_is_vector(p))
			continue;
		memcpy(v + p->first, in, p->elems * sizeof(float));
		in += p->elems;
	}
	return in;
}

/* Places among all matrices become places in the whole vector, in order. */
struct walk {
	const struct codec *c;
	uint32_t part;
	uint64_t before;	/* elements of matrices before the part */
};

static uint64_t whole(struct walk *w, uint64_t at)
{
	const struct codec_part *p = &w->c->parts[w->part];

	while (codec_is_vector(p) || at >= w->before + p->elems) {
		w->before += codec_is_vector(p) ? 0 : p->elems;
		p = &w->c->parts[++w->part];
	}
	return p->first + (at - w->before);
}

static size_t write_dense(const struct codec *c, const float *v,
			  const struct codec_pick *picks, uint64_t n,
			  float *out)
{
	struct walk w = { .c = c };

	memset(out, 0, dense_bytes(c));
	for (uint32_t i = 0; i < c->n; i++)
		if (codec_is_vector(&c->parts[i]))
			memcpy(out + c->parts[i].first, v + c->parts[i].first,
			       c->parts[i].elems * sizeof(float));
	for (uint64_t i = 0; i < n; i++)
		out[whole(&w, picks[i].at)] = picks[i].value;
	return dense_bytes(c);
}

size_t codec_sparse_write(const struct codec *c, const float *v,
			  const struct codec_pick *picks, uint64_t n,
			  uint8_t *msg)
{
	uint64_t all = entries(picks, n), next = 0;
	size_t bytes = c->vector_elems * sizeof(float) + all * PICK_BYTES;
	float *values;
	uint16_t *runs;

	if (bytes >= dense_bytes(c))
		return write_dense(c, v, picks, n, (float *)msg);
	values = put_vectors(c, v, (float *)msg);
	runs = (uint16_t *)(values + all);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t run = picks[i].at - next;

		for (; run > RUN_MAX; run -= RUN_MAX + 1) {
			*values++ = 0;
			*runs++ = RUN_MAX;
		}
		*values++ = picks[i].value;
		*runs++ = (uint16_t)run;
		next = picks[i].at + 1;
	}
	return bytes;
}

/* --- reading -------------------------------------------------------------- */

/* One message: its next element of a matrix. */
struct cursor {
	const float *vectors;		/* NULL: dense */
	const float *values;
	const uint16_t *runs;		/* NULL: dense */
	uint64_t left, at, end;
	struct walk walk;
};

static int cursor_init(const struct codec *c, const void *msg, size_t len,
		       struct cursor *cur, struct pl_err *err)
{
	size_t vectors = c->vector_elems * sizeof(float);

	*cur = (struct cursor){ .values = msg, .walk.c = c,
				.end = c->elems - c->vector_elems };
	if (len == dense_bytes(c)) {
		cur->left = cur->end;
		return 0;
	}
	if (len > dense_bytes(c) || len < vectors ||
	    (len - vectors) % PICK_BYTES)
		return codec_no_message(c, len, err);
	cur->vectors = msg;
	cur->values = cur->vectors + c->vector_elems;
	cur->left = (len - vectors) / PICK_BYTES;
	cur->runs = (const uint16_t *)(cur->values + cur->left);
	return 0;
}

/* 1: there is one more; 0: the end; -ERANGE: past the last element. */
static int cursor_next(struct cursor *cur, struct codec_pick *out)
{
	if (cur->left == 0)
		return 0;
	cur->left--;
	if (cur->runs) {
		cur->at += *cur->runs++;
		if (cur->at >= cur->end)
			return -ERANGE;
		*out = (struct codec_pick){ cur->at++, *cur->values++ };
		return 1;
	}
	*out = (struct codec_pick){ cur->at, 0 };
	out->value = cur->values[whole(&cur->walk, cur->at++)];
	return 1;
}

int codec_sparse_decode(struct codec *c, unsigned int round,
			const uint8_t *msg, size_t len, float *sum,
			struct pl_err *err)
{
	struct walk w = { .c = c };
	struct codec_pick pick;
	struct cursor cur;
	int rc = cursor_init(c, msg, len, &cur, err);

	(void)round;
	if (rc < 0)
		return rc;
	if (!cur.runs) {
		memcpy(sum, msg, len);
		return 0;
	}
	memset(sum, 0, dense_bytes(c));
	get_vectors(c, cur.vectors, sum);
	while ((rc = cursor_next(&cur, &pick)) > 0)
		sum[whole(&w, pick.at)] = pick.value;
	return rc < 0 ? codec_no_message(c, len, err) : 0;
}

/* --- combining ------------------------------------------------------------ */

struct merge {
	uint32_t n;
	struct cursor cur[SOURCES_MAX];
	struct codec_pick head[SOURCES_MAX];
	bool has[SOURCES_MAX];
};

static int advance(struct merge *m, uint32_t i)
{
	int rc = cursor_next(&m->cur[i], &m->head[i]);

	m->has[i] = rc > 0;
	return rc;
}

static bool least(const struct merge *m, uint64_t *at)
{
	bool any = false;

	*at = UINT64_MAX;
	for (uint32_t i = 0; i < m->n; i++) {
		if (!m->has[i])
			continue;
		any = true;
		*at = PL_MIN(*at, m->head[i].at);
	}
	return any;
}

/* Sums by rank; what cancels out is not there. */
static int merge_all(struct merge *m, struct codec_pick *out, uint64_t *n)
{
	uint64_t at;
	int rc = 0;

	for (*n = 0; least(m, &at); ) {
		float sum = 0;

		for (uint32_t i = 0; i < m->n; i++) {
			if (!m->has[i] || m->head[i].at != at)
				continue;
			sum += m->head[i].value;
			rc = advance(m, i);
			if (rc < 0)
				return rc;
		}
		if (sum != 0)
			out[(*n)++] = (struct codec_pick){ at, sum };
	}
	return 0;
}

static void add_vectors(struct codec *c, const struct cursor *cur,
			float *sum)
{
	const float *in = cur->vectors;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct codec_part *p = &c->parts[i];
		const float *src = in ? in : cur->values + p->first;

		if (!codec_is_vector(p))
			continue;
		for (uint32_t k = 0; k < p->elems; k++)
			sum[p->first + k] += src[k];
		in = in ? in + p->elems : NULL;
	}
}

static void clear_vectors(const struct codec *c, float *v)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (codec_is_vector(&c->parts[i]))
			memset(v + c->parts[i].first, 0,
			       c->parts[i].elems * sizeof(float));
}

int codec_sparse_combine(struct codec *c, unsigned int round,
			 const void *const *msgs, const size_t *lens,
			 uint8_t *out, size_t *out_len, struct pl_err *err)
{
	struct merge m = { .n = c->conf.workers };
	uint64_t n;
	int rc;

	(void)round;
	if (m.n > SOURCES_MAX)
		return pl_err_set(err, EINVAL, "%u workers, at most %u", m.n,
				  SOURCES_MAX);
	clear_vectors(c, c->work);
	for (uint32_t i = 0; i < m.n; i++) {
		rc = cursor_init(c, msgs[i], lens[i], &m.cur[i], err);
		if (rc < 0)
			return rc;
		add_vectors(c, &m.cur[i], c->work);
		if (advance(&m, i) < 0)
			return codec_no_message(c, lens[i], err);
	}
	if (merge_all(&m, c->picks, &n) < 0)
		return pl_err_set(err, EPROTO, "a message of %s goes past the "
				  "last element", c->ops->name);
	*out_len = codec_sparse_write(c, c->work, c->picks, n, out);
	return 0;
}

/* tests/unit/carrier_tests.h - what holds for every carrier: two ends of it */
#ifndef TESTS_CARRIER_TESTS_H
#define TESTS_CARRIER_TESTS_H

#include "tests/unit/carrier_util.h"

#include <stdio.h>

#define MB ((size_t)1 << 20)

struct pair {
	struct event_base *base;
	struct end a, b;
	struct memory src, dst;		/* of a; of b, exposed to a */
	int done, failed, status;
	size_t seen;			/* bytes when something happened */
};

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	pl_log_init("test", PL_LOG_ERROR);
	p->base = event_base_new();
	if (ends.begin)
		ends.begin(p->base);
	end_create(&p->a, p->base, "node-a", 0);
	end_create(&p->b, p->base, "node-b", 0);
	p->a.test = p->b.test = p;
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	if (p->a.c)
		pl_carrier_destroy(p->a.c);
	if (p->b.c)
		pl_carrier_destroy(p->b.c);
	if (p->src.map)
		memory_fini(&p->src);
	if (p->dst.map)
		memory_fini(&p->dst);
	if (ends.end)
		ends.end();
	event_base_free(p->base);
	free(p);
	return 0;
}

static void pair_up(struct pair *p)
{
	end_dial(&p->a, "node-b", &p->b);
	RUN_UNTIL(p->base, p->a.ups == 1 && p->b.ups == 1);
	assert_string_equal(p->a.peer->node, "node-b");
	assert_string_equal(p->b.peer->node, "node-a");
	assert_true(p->a.peer->instance && p->b.peer->instance);
}

static void pair_source(struct pair *p, int fd)
{
	assert_int_equal(pl_carrier_source(p->a.peer, fd, p->src.map,
					   p->src.len, &p->src.id), 0);
}

/* As keys are told: a has heard all that b has done with them. */
static void key_told(struct pair *p)
{
	int told = p->a.messages;

	assert_int_equal(pl_carrier_message(p->b.peer, "key", 3, 0), 0);
	RUN_UNTIL(p->base, p->a.messages == told + 1);
}

static void pair_memory(struct pair *p, size_t len)
{
	memory_init(&p->src, len);
	memory_init(&p->dst, len);
	pair_source(p, p->src.fd);
	assert_int_equal(pl_carrier_expose(p->b.peer, p->dst.fd, p->dst.map,
					   len, p, &p->dst.id), 0);
	assert_true(p->dst.id != 0);
	key_told(p);
}

static void on_done(void *user, int status)
{
	struct pair *p = user;

	if (status)
		p->failed++;
	else
		p->done++;
	p->status = status;
}

static int put(struct pair *p, size_t off, size_t len, unsigned int flags)
{
	return pl_carrier_put(p->a.peer, p->src.id, p->dst.id, off,
			      p->src.map + off, len, flags, on_done, p);
}

static inline void big_data(void **state)
{
	struct pair *p = *state;
	size_t at = 0, chunk = MB + 4321, n = 0;
	struct pl_carrier_stats sa, sb;

	pair_up(p);
	pair_memory(p, 64 * MB);
	memory_fill(&p->src, 7);
	while (at < p->src.len) {
		size_t len = PL_MIN(chunk, p->src.len - at);
		int before = p->done;
		int rc = put(p, at, len, PL_PUT_NOTIFY);

		if (rc == 0) {
			at += len;
			n++;
			continue;
		}
		assert_int_equal(rc, -ENOBUFS);
		RUN_UNTIL(p->base, p->done > before);
	}
	RUN_UNTIL(p->base, (size_t)p->b.notifies == n);
	assert_int_equal(p->done, n);
	assert_memory_equal(p->src.map, p->dst.map, p->src.len);
	assert_int_equal(pl_carrier_queued(p->a.peer), 0);
	pl_carrier_stats(p->a.peer, &sa);
	pl_carrier_stats(p->b.peer, &sb);
	assert_int_equal(sa.puts, n);
	assert_int_equal(sa.put_bytes, p->src.len);
	assert_int_equal(sb.received_bytes, p->src.len);
	assert_true(sb.syscalls > 0 && sa.syscalls > 0);
}

/* A counter never runs ahead of the bytes that it counts. */
static void check_counter(struct end *e)
{
	struct pair *p = e->test;
	uint64_t head;

	memcpy(&head, p->dst.map, 8);
	assert_true(head >= p->seen);
	p->seen = head;
	if (head)
		assert_memory_equal(p->src.map + 4096, p->dst.map + 4096, head);
}

static inline void words_follow_data(void **state)
{
	struct pair *p = *state;
	uint64_t head = 0, words[3] = { 0, 1, ~0ull };
	int n = 0;

	pair_up(p);
	pair_memory(p, 4 * MB);
	memory_fill(&p->src, 3);
	p->b.on_notify = check_counter;
	while (head < 3 * MB) {
		size_t len = 1 + (size_t)(head * 7919 + 17) % 70000;

		RUN_UNTIL(p->base, pl_carrier_queued(p->a.peer) < MB);
		assert_int_equal(put(p, 4096 + head, len, 0), 0);
		head += len;
		words[0] = head;
		assert_int_equal(pl_carrier_put(p->a.peer, 0, p->dst.id, 0,
						words, sizeof(words),
						PL_PUT_NOTIFY, NULL, NULL), 0);
		/* The put has its own copy. */
		words[0] = 1ull << 60;
		n++;
	}
	RUN_UNTIL(p->base, p->b.notifies == n);
	assert_int_equal(p->seen, head);
	memcpy(words, p->dst.map, sizeof(words));
	assert_true(words[1] == 1 && words[2] == ~0ull);
}

static inline void small_and_odd(void **state)
{
	static const struct { size_t off, len; } puts[] = {
		{ 0, 1 }, { 3, 5 }, { 8, 8 }, { 16, 128 }, { 151, 127 },
		{ 304, 129 }, { 1000, 24 }, { 4095, 1 },
	};
	struct pair *p = *state;

	pair_up(p);
	pair_memory(p, 4096);
	memory_fill(&p->src, 5);
	for (size_t i = 0; i < PL_ARRAY_SIZE(puts); i++)
		assert_int_equal(put(p, puts[i].off, puts[i].len,
				     PL_PUT_NOTIFY), 0);
	RUN_UNTIL(p->base, p->b.notifies == (int)PL_ARRAY_SIZE(puts));
	for (size_t i = 0; i < PL_ARRAY_SIZE(puts); i++)
		assert_memory_equal(p->src.map + puts[i].off,
				    p->dst.map + puts[i].off, puts[i].len);
	assert_int_equal(p->dst.map[1], 0);
	assert_int_equal(p->dst.map[2], 0);
	assert_int_equal(p->dst.map[150], 0);
}

static inline void wrong_calls(void **state)
{
	struct pair *p = *state;
	struct pl_addr a = loopback();

	assert_null(pl_carrier_peer_get(p->a.c, "", &a, 1));
	assert_null(pl_carrier_peer_get(p->a.c, "node-a", &a, 1));
	pair_up(p);
	pair_memory(p, MB);
	assert_int_equal(put(p, 0, 0, 0), -EINVAL);
	assert_int_equal(put(p, MB - 1, 4096, 0), -EINVAL);
	assert_int_equal(put(p, 0, MB + 1, 0), -EINVAL);
	assert_int_equal(put(p, 0, 4096, 0x80), -EINVAL);
	assert_int_equal(pl_carrier_put(p->a.peer, 99, p->dst.id, 0,
					p->src.map, 4096, 0, NULL, NULL),
			 -EINVAL);
	assert_int_equal(pl_carrier_message(p->a.peer, p->src.map, 0, 0),
			 -EMSGSIZE);
	assert_int_equal(pl_carrier_message(p->a.peer, p->src.map,
					    PL_CARRIER_MSG_MAX + 1, 0),
			 -EMSGSIZE);
	assert_int_equal(p->b.downs, 0);
}

static void check_message(struct end *e)
{
	int n;

	memcpy(&n, e->last, sizeof(n));
	assert_int_equal(n, e->messages - 1);
	assert_int_equal(e->last_len, 4 + (size_t)n * 37 % 4000);
}

static inline void messages_in_order(void **state)
{
	struct pair *p = *state;
	char text[PL_CARRIER_MSG_MAX];

	pair_up(p);
	memset(text, 'x', sizeof(text));
	p->b.on_message = check_message;
	for (int i = 0; i < 500; i++) {
		memcpy(text, &i, sizeof(i));
		assert_int_equal(pl_carrier_message(p->a.peer, text,
				 4 + (size_t)i * 37 % 4000, 0), 0);
	}
	RUN_UNTIL(p->base, p->b.messages == 500);
}

static inline void messages_are_bounded(void **state)
{
	struct pair *p = *state;
	int n = 0;

	pair_up(p);
	while (pl_carrier_message(p->a.peer, "x", 1, 0) == 0 && n < 1000000)
		n++;
	assert_int_equal(pl_carrier_message(p->a.peer, "x", 1, 0), -ENOBUFS);
	RUN_UNTIL(p->base, p->b.messages == n);
	assert_int_equal(pl_carrier_message(p->a.peer, "x", 1, 0), 0);
}

static void check_all_there(struct end *e)
{
	struct pair *p = e->test;

	assert_memory_equal(p->src.map, p->dst.map, p->src.len);
}

static inline void message_after_puts(void **state)
{
	struct pair *p = *state;

	pair_up(p);
	for (int i = 0; i < 8; i++) {
		pair_memory(p, 3 * MB);
		memory_fill(&p->src, (uint64_t)i);
		p->b.on_message = check_all_there;
		assert_int_equal(put(p, 0, 3 * MB, 0), 0);
		assert_int_equal(pl_carrier_message(p->a.peer, "after", 5,
						    p->dst.id), 0);
		RUN_UNTIL(p->base, p->b.messages == i + 1);
		pl_carrier_source_end(p->a.peer, p->src.id);
		pl_carrier_revoke(p->b.peer, p->dst.id);
		memory_fini(&p->src);
		memory_fini(&p->dst);
		p->src.map = p->dst.map = NULL;
	}
}

static inline void revoke_stops_puts(void **state)
{
	struct pair *p = *state;
	struct memory other;

	pair_up(p);
	pair_memory(p, 4 * MB);
	memory_init(&other, 4096);
	assert_int_equal(pl_carrier_expose(p->b.peer, other.fd, other.map, 4096,
					   NULL, &other.id), 0);
	memory_fill(&p->src, 1);
	assert_int_equal(put(p, 0, 4 * MB, PL_PUT_NOTIFY), 0);
	/* In the middle of a frame, most likely. */
	RUN_UNTIL(p->base, p->dst.map[0] || p->dst.map[8]);
	pl_carrier_revoke(p->b.peer, p->dst.id);
	if (ends.settled) {
		key_told(p);
		RUN_UNTIL(p->base, ends.settled());
	}
	memset(p->dst.map, 0, p->dst.len);
	RUN_UNTIL(p->base, p->done == 1);
	assert_int_equal(pl_carrier_put(p->a.peer, p->src.id, other.id, 0,
					p->src.map, 4096, PL_PUT_NOTIFY, NULL,
					NULL), 0);
	assert_int_equal(put(p, 0, 4096, PL_PUT_NOTIFY), 0);
	assert_int_equal(put(p, 0, 64, PL_PUT_NOTIFY), 0);
	RUN_UNTIL(p->base, p->b.notifies == 1 && p->done == 3);
	run_ms(p->base, 50);
	for (size_t i = 0; i < p->dst.len; i++)
		assert_int_equal(p->dst.map[i], 0);
	assert_memory_equal(p->src.map, other.map, 4096);
	assert_int_equal(p->b.notifies, 1);
	assert_int_equal(p->b.last_key, other.id);
	assert_int_equal(p->a.downs + p->b.downs, 0);
	memory_fini(&other);
}

/* The second half of the memory is there later, with puts under way. */
static inline void extends(void **state)
{
	struct pair *p = *state;

	pair_up(p);
	memory_init(&p->src, 4 * MB);
	memory_init(&p->dst, 4 * MB);
	pair_source(p, p->src.fd);
	assert_int_equal(pl_carrier_expose(p->b.peer, p->dst.fd, p->dst.map,
					   2 * MB, p, &p->dst.id), 0);
	key_told(p);
	memory_fill(&p->src, 1);
	assert_int_equal(put(p, 0, 2 * MB, PL_PUT_NOTIFY), 0);
	assert_int_equal(pl_carrier_extend(p->b.peer, p->dst.id, p->dst.fd,
					   MB), -EINVAL);
	assert_int_equal(pl_carrier_extend(p->b.peer, p->dst.id + 8, p->dst.fd,
					   4 * MB), -EINVAL);
	assert_int_equal(pl_carrier_extend(p->b.peer, p->dst.id, p->dst.fd,
					   4 * MB), 0);
	key_told(p);
	assert_int_equal(put(p, 2 * MB, 2 * MB, 0), 0);
	assert_int_equal(put(p, 0, 64, PL_PUT_NOTIFY), 0);
	RUN_UNTIL(p->base, p->b.notifies == 2 && p->done == 3);
	assert_memory_equal(p->src.map, p->dst.map, 4 * MB);
	assert_int_equal(p->failed + p->a.downs + p->b.downs, 0);
}

static inline void backpressure(void **state)
{
	struct pair *p = *state;
	int n = 0, rc;

	pair_up(p);
	pair_memory(p, 16 * MB);
	/* An empty queue takes a put of any size ... */
	assert_int_equal(put(p, 0, 16 * MB, 0), 0);
	/* ... and then none: nothing has been sent before the loop runs. */
	assert_int_equal(put(p, 0, 4096, 0), -ENOBUFS);
	assert_int_equal(pl_carrier_queued(p->a.peer), 16 * MB);
	assert_int_equal(p->done, 0);
	RUN_UNTIL(p->base, p->done == 1);
	/* Small ones are bounded by number. */
	while ((rc = put(p, 0, 8, 0)) == 0 && n < 1000000)
		n++;
	assert_int_equal(rc, -ENOBUFS);
	RUN_UNTIL(p->base, p->done == 1 + n);
	assert_int_equal(put(p, 0, 8, PL_PUT_NOTIFY), 0);
	RUN_UNTIL(p->base, p->b.notifies == 1);
	assert_int_equal(p->failed, 0);
}

static void on_small_notify(struct end *e)
{
	struct pair *p = e->test;
	struct pl_carrier_stats st;

	if (e->last_key == p->dst.id)
		return;
	pl_carrier_stats(e->peer, &st);
	p->seen = st.received_bytes;
}

/* Counted in bytes: a key that is busy does not keep another waiting. */
static inline void keys_take_turns(void **state)
{
	struct pair *p = *state;
	struct memory small[8];

	pair_up(p);
	pair_memory(p, 64 * MB);
	p->b.on_notify = on_small_notify;
	for (int i = 0; i < 8; i++) {
		memory_init(&small[i], 4096);
		assert_int_equal(pl_carrier_expose(p->b.peer, small[i].fd,
						   small[i].map, 4096, NULL,
						   &small[i].id), 0);
	}
	assert_int_equal(put(p, 0, 64 * MB, PL_PUT_NOTIFY), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pl_carrier_put(p->a.peer, p->src.id,
						small[i].id, 0, p->src.map,
						4096, PL_PUT_NOTIFY, NULL,
						NULL), 0);
	RUN_UNTIL(p->base, p->b.notifies == 9);
	/* All small ones were there before a few MB of the large one. */
	assert_true(p->seen > 0);
	assert_true(p->seen < 8 * MB);
	for (int i = 0; i < 8; i++)
		memory_fini(&small[i]);
}

static void source_ends(struct pair *p, bool file)
{
	pair_up(p);
	pair_memory(p, 32 * MB);
	pair_source(p, file ? p->src.fd : -1);
	memory_fill(&p->src, 9);
	assert_int_equal(put(p, 0, 32 * MB, PL_PUT_NOTIFY), 0);
	/* A frame is under way. */
	RUN_UNTIL(p->base, p->dst.map[0] || p->dst.map[8]);
	pl_carrier_source_end(p->a.peer, p->src.id);
	assert_int_equal(p->failed, 1);
	assert_int_equal(p->status, -ECANCELED);
	assert_int_equal(put(p, 0, 4096, 0), -EINVAL);
	/* What is still sent must not need the memory. */
	munmap(p->src.map, p->src.len);
	p->src.map = mmap(NULL, p->src.len, PROT_READ | PROT_WRITE, MAP_SHARED,
			  p->src.fd, 0);
	/* What the kernel or a device took of it may still change. */
	if (!file && !ends.settled)
		memset(p->src.map, 0xff, p->src.len);
	assert_int_equal(pl_carrier_message(p->a.peer, "end", 3, p->dst.id), 0);
	RUN_UNTIL(p->base, p->b.messages == 1);
	for (size_t i = 0; i + 8 <= p->dst.len; i += 8)
		assert_memory_not_equal(p->dst.map + i,
					"\xff\xff\xff\xff\xff\xff\xff\xff", 8);
	assert_int_equal(p->b.notifies, 0);
	assert_int_equal(pl_carrier_queued(p->a.peer), 0);
	assert_int_equal(p->a.downs + p->b.downs, 0);
}

static inline void source_end_drops(void **state)
{
	source_ends(*state, false);
}

static inline void source_end_drops_file(void **state)
{
	source_ends(*state, true);
}

/* Sources that sendfile can't read from, or not to the end. */
static inline void odd_sources(void **state)
{
	struct pair *p = *state;
	int fds[2];

	pair_up(p);
	pair_memory(p, 4 * MB);
	memory_fill(&p->src, 2);
	assert_int_equal(pipe(fds), 0);
	pair_source(p, fds[0]);
	assert_int_equal(put(p, 0, 2 * MB, PL_PUT_NOTIFY), 0);
	RUN_UNTIL(p->base, p->b.notifies == 1);
	assert_memory_equal(p->src.map, p->dst.map, 2 * MB);
	memory_fill(&p->src, 3);
	pair_source(p, -1);
	assert_int_equal(put(p, 0, 4 * MB, PL_PUT_NOTIFY), 0);
	RUN_UNTIL(p->base, p->b.notifies == 2);
	check_all_there(&p->b);
	close(fds[0]);
	close(fds[1]);
}

static void on_done_forget(void *user, int status)
{
	struct pair *p = user;

	if (p->a.peer) {
		struct pl_carrier_peer *peer = p->a.peer;

		p->a.peer = NULL;
		pl_carrier_peer_forget(peer);
	}
	on_done(user, status);
}

static inline void forget_in_callback(void **state)
{
	struct pair *p = *state;

	pair_up(p);
	pair_memory(p, 8 * MB);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pl_carrier_put(p->a.peer, p->src.id,
						p->dst.id, 0, p->src.map,
						MB, 0, on_done_forget, p), 0);
	RUN_UNTIL(p->base, p->b.downs == 1);
	assert_int_equal(p->done, 1);
	assert_int_equal(p->failed, 3);
	assert_int_equal(p->status, 0);
	assert_int_equal(p->a.downs, 0);
	run_ms(p->base, 100);
	assert_int_equal(p->a.ups, 1);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define CARRIER_TESTS							\
	T(big_data), T(words_follow_data), T(small_and_odd),		\
	T(wrong_calls), T(messages_in_order), T(messages_are_bounded),	\
	T(message_after_puts), T(revoke_stops_puts), T(extends),	\
	T(backpressure), T(keys_take_turns), T(source_end_drops),	\
	T(source_end_drops_file), T(odd_sources), T(forget_in_callback)

#endif

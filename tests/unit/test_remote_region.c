/* tests/unit/test_remote_region.c - regions that other nodes follow */
#include "tests/unit/remote_util.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>

#define MB ((size_t)1 << 20)

static int setup(void **state)
{
	struct nodes *n = calloc(1, sizeof(*n));

	assert_non_null(n);
	nodes_init(n);
	*state = n;
	return 0;
}

static int teardown(void **state)
{
	nodes_fini(*state);
	free(*state);
	return 0;
}

/* --- the owner's and the readers' side ----------------------------------- */

static struct pl_region_seg *rseg(struct region *r)
{
	return r->seg.base;
}

static void region_make_max(struct pl_broker *b, struct region *r, size_t size,
			    size_t max)
{
	struct pl_err err = { 0 };

	memset(r, 0, sizeof(*r));
	r->max_size = max;
	if (pl_seg_region_create_max(size, max, &r->seg, &err) < 0 ||
	    pl_seg_watch_create(&r->watch_seg, &err) < 0)
		fail_msg("%s", err.msg);
	r->watch = r->watch_seg.base;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
				    SOCK_NONBLOCK, 0, r->bell), 0);
	b->region = r;
	b->region_id = ++b->last_id;
	assert_int_equal(pl_uid_draw(b->region_uid, NULL), 0);
}

static void region_make(struct pl_broker *b, struct region *r, size_t size)
{
	region_make_max(b, r, size, size);
}

static void region_free(struct region *r)
{
	pl_seg_close(&r->seg);
	for (unsigned int i = 0; i < r->n_parts; i++)
		close(r->parts[i].fd);
	pl_seg_close(&r->watch_seg);
	close(r->bell[0]);
	close(r->bell[1]);
}

static void region_gone(struct pl_broker *b, bool died)
{
	pl_remote_region_gone(b->remote, b->region_id, died);
	region_free(b->region);
	b->region = NULL;
}

static void publish_raw(struct region *r, uint64_t off, uint64_t len)
{
	struct pl_region_range *e = &rseg(r)->log[r->version % PL_REGION_LOG];
	uint32_t wait;

	atomic_store_explicit(&e->offset, off, memory_order_release);
	atomic_store_explicit(&e->len, len, memory_order_release);
	atomic_store_explicit(&rseg(r)->version, ++r->version,
			      memory_order_release);
	pl_fence();
	wait = atomic_load(&r->watch->wait);
	if (wait && wait != r->rang) {
		r->rang = wait;
		(void)!send(r->bell[1], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

/* Fills the range with what depends on place and version. */
static void publish(struct region *r, size_t off, size_t len)
{
	uint64_t *p = (uint64_t *)((char *)pl_seg_data(&r->seg) + off);

	for (size_t i = 0; i < len / 8; i++)
		p[i] = (off / 8 + i) * 0x9e3779b97f4a7c15ull ^ (r->version + 1);
	publish_raw(r, off, len);
}

static void on_opened(void *arg, int status, const char *text,
		      const struct pl_remote_region_up *up)
{
	struct reader *r = arg;
	struct pl_err err = { 0 };

	assert_int_equal(r->status, 1);
	r->status = status;
	if (status < 0) {
		snprintf(r->text, sizeof(r->text), "%s", text);
		return;
	}
	r->size = up->size;
	memcpy(r->uid, up->uid, sizeof(r->uid));
	assert_string_equal(up->path, "tcp");
	if (pl_seg_region_open_max(fcntl(up->replica_fd, F_DUPFD_CLOEXEC, 3),
				   up->size, up->max_size, &r->seg, &err) < 0)
		fail_msg("%s", err.msg);
}

/* A pod of node b wants region "r" of a pod of node a. */
static int reader_try(struct pl_broker *b, struct reader *r, int slot,
		      const char *ns, uint64_t max_bytes, const uint8_t *uid)
{
	struct pl_remote_open o = { .id = ++b->last_id,
				    .node = &b->nodes[0],
				    .owner = addr("10.88.1.2"),
				    .reader = addr("10.88.2.2"),
				    .reader_ns = ns,
				    .name = "r",
				    .uid = uid,
				    .max_bytes = max_bytes,
				    .room_bytes = max_bytes,
				    .timeout_ms = -1 };
	struct pl_err err = { 0 };

	r->seg = PL_SEG_NONE;
	r->id = o.id;
	r->size = 0;
	r->text[0] = '\0';
	r->status = 1;
	b->readers[slot] = r;
	return pl_remote_region_open(b->remote, &o, on_opened, r, &err);
}

static void reader_open(struct pl_broker *b, struct reader *r, int slot,
			const char *ns, uint64_t max_bytes)
{
	static const uint8_t any[PL_WIRE_UID];

	assert_int_equal(reader_try(b, r, slot, ns, max_bytes, any), 0);
}

static void reader_close(struct pl_broker *b, struct reader *r, int slot)
{
	b->readers[slot] = NULL;
	if (r->status < 2)
		pl_remote_region_put(b->remote, r->id);
	pl_seg_close(&r->seg);
}

static uint64_t version(struct reader *r)
{
	const struct pl_region_seg *seg = r->seg.base;

	return atomic_load_explicit(
		&((struct pl_region_seg *)(uintptr_t)seg)->version,
		memory_order_acquire);
}

static uint64_t state_of(struct reader *r)
{
	return atomic_load(&((struct pl_region_seg *)r->seg.base)->state);
}

static void same_bytes(struct region *o, struct reader *r)
{
	assert_int_equal(version(r), o->version);
	assert_memory_equal(pl_seg_data(&o->seg), pl_seg_data(&r->seg),
			    o->seg.data_bytes);
}

static void opened(struct nodes *n, struct reader *r, int slot)
{
	reader_open(&n->b, r, slot, "team", ~0ull);
	RUN_UNTIL(n->base, r->status != 1);
	assert_int_equal(r->status, 0);
}

/* --- tests --------------------------------------------------------------- */

static void one_transfer_for_all(void **state)
{
	struct nodes *n = *state;
	struct reader r[4];
	struct region o;
	uint64_t got;

	region_make(&n->a, &o, 8 * MB);
	for (int i = 0; i < 3; i++)
		opened(n, &r[i], i);
	assert_int_equal(node_info(&n->b).replicas, 1);
	assert_int_equal(version(&r[0]), 0);
	publish(&o, 0, 8 * MB);
	for (int i = 0; i < 3; i++) {
		RUN_UNTIL(n->base, version(&r[i]) == 1);
		same_bytes(&o, &r[i]);
	}
	got = node_info(&n->b).received_bytes;
	assert_true(got >= 8 * MB && got < 8 * MB + 65536);
	/* A late reader needs no transfer of its own. */
	opened(n, &r[3], 3);
	same_bytes(&o, &r[3]);
	assert_true(node_info(&n->b).received_bytes - got < 65536);
	/* Only what is published travels. */
	got = node_info(&n->b).received_bytes;
	publish(&o, MB + 64, 4096);
	RUN_UNTIL(n->base, version(&r[3]) == 2);
	same_bytes(&o, &r[0]);
	assert_true(node_info(&n->b).received_bytes - got < 8192);
	for (int i = 0; i < 4; i++)
		reader_close(&n->b, &r[i], i);
	RUN_UNTIL(n->base, node_info(&n->b).replicas == 0);
	/* Nobody follows: the owner is not asked to ring. */
	RUN_UNTIL(n->base, atomic_load(&o.watch->wait) == 0);
	region_gone(&n->a, false);
}

/* A version is there as soon as its bytes are, long before the last one. */
static void streams(void **state)
{
	struct nodes *n = *state;
	struct reader r;
	struct region o;
	uint64_t seen = 0, steps = 0;
	const uint64_t *data;

	region_make(&n->a, &o, 48 * MB);
	opened(n, &r, 0);
	data = pl_seg_data(&r.seg);
	for (size_t i = 0; i < 48; i++)
		publish(&o, i * MB, MB);
	while (seen < 48) {
		uint64_t v = version(&r);

		assert_true(v >= seen);
		steps += v > seen;
		for (; seen < v; seen++) {
			size_t at = seen * MB / 8;

			for (size_t k = 0; k < MB / 8; k += 511)
				assert_true(data[at + k] ==
					    ((at + k) * 0x9e3779b97f4a7c15ull ^
					     (seen + 1)));
		}
		run_once(n->base);
	}
	same_bytes(&o, &r);
	/* Versions came one after the other, not all in the end. */
	assert_true(steps > 4);
	assert_true(node_info(&n->b).received_bytes < 49 * MB);
	reader_close(&n->b, &r, 0);
	region_gone(&n->a, false);
}

static void late_reader(void **state)
{
	struct nodes *n = *state;
	struct reader r;
	struct region o;
	uint64_t got;

	/* Published in parts, some never. */
	region_make(&n->a, &o, 16 * MB);
	for (int i = 0; i < 10; i++)
		publish(&o, (size_t)i * MB, 4096);
	opened(n, &r, 0);
	RUN_UNTIL(n->base, version(&r) == 10);
	same_bytes(&o, &r);
	assert_true(node_info(&n->b).received_bytes < MB);
	reader_close(&n->b, &r, 0);
	RUN_UNTIL(n->base, node_info(&n->b).replicas == 0);
	/* Published again and again: once is enough. */
	for (int i = 0; i < 100; i++)
		publish(&o, (size_t)(i % 4) * 4 * MB, 4 * MB);
	got = node_info(&n->b).received_bytes;
	opened(n, &r, 0);
	RUN_UNTIL(n->base, version(&r) == 110);
	same_bytes(&o, &r);
	assert_true(node_info(&n->b).received_bytes - got < 17 * MB);
	reader_close(&n->b, &r, 0);
	region_gone(&n->a, false);
}

/* The log holds PL_REGION_LOG versions; what is lost in it is sent whole. */
static void log_overrun(void **state)
{
	struct nodes *n = *state;
	struct reader r;
	struct region o;

	region_make(&n->a, &o, 4 * MB);
	opened(n, &r, 0);
	for (int i = 0; i < 3 * (int)PL_REGION_LOG; i++)
		publish(&o, (size_t)i % 1024 * 4096, 64);
	RUN_UNTIL(n->base, version(&r) == 3 * PL_REGION_LOG);
	same_bytes(&o, &r);
	/* Versions without bytes, and the first again. */
	for (int i = 0; i < 10; i++)
		publish_raw(&o, 0, 0);
	publish(&o, 0, 8);
	RUN_UNTIL(n->base, version(&r) == 3 * PL_REGION_LOG + 11);
	same_bytes(&o, &r);
	reader_close(&n->b, &r, 0);
	region_gone(&n->a, false);
}

static void owner_ends(void **state)
{
	struct nodes *n = *state;

	for (int died = 0; died < 2; died++) {
		struct reader r[2];
		struct region o;

		region_make(&n->a, &o, 16 * MB);
		opened(n, &r[0], 0);
		opened(n, &r[1], 1);
		publish(&o, 0, 16 * MB);
		/* The last version still arrives. */
		region_gone(&n->a, died);
		RUN_UNTIL(n->base, r[0].status == 2 && r[1].status == 2);
		assert_int_equal(version(&r[0]), 1);
		assert_int_equal(state_of(&r[0]), died ? PL_STATE_DEAD :
							 PL_STATE_CLOSED);
		for (size_t i = 0; i < 16 * MB / 8; i += 1001)
			assert_true(((uint64_t *)pl_seg_data(&r[1].seg))[i] ==
				    (i * 0x9e3779b97f4a7c15ull ^ 1));
		assert_int_equal(node_info(&n->b).replicas, 0);
		reader_close(&n->b, &r[0], 0);
		reader_close(&n->b, &r[1], 1);
	}
}

static void not_found(void **state)
{
	struct nodes *n = *state;
	struct reader r;
	struct region o;

	reader_open(&n->b, &r, 0, "team", ~0ull);
	RUN_UNTIL(n->base, r.status != 1);
	assert_int_equal(r.status, -ENOENT);
	assert_string_equal(r.text, "no such region");
	region_make(&n->a, &o, MB);
	n->a.allowed_ns = "other";
	reader_open(&n->b, &r, 0, "team", ~0ull);
	RUN_UNTIL(n->base, r.status != 1);
	assert_int_equal(r.status, -EACCES);
	n->a.allowed_ns = NULL;
	reader_open(&n->b, &r, 0, "team", MB - 1);
	RUN_UNTIL(n->base, r.status != 1);
	assert_int_equal(r.status, -EDQUOT);
	assert_int_equal(node_info(&n->b).replicas, 0);
	/* Cancelled before the answer. */
	reader_open(&n->b, &r, 0, "team", ~0ull);
	reader_close(&n->b, &r, 0);
	run_ms(n->base, 50);
	assert_int_equal(r.status, 1);
	region_gone(&n->a, false);
	pl_remote_destroy(n->a.remote);
	n->a.remote = NULL;
	run_ms(n->base, 20);
	reader_open(&n->b, &r, 0, "team", ~0ull);
	RUN_UNTIL(n->base, r.status != 1);
	assert_int_equal(r.status, -EHOSTUNREACH);
}

static void resumes(void **state)
{
	struct nodes *n = *state;
	struct reader r[2];
	struct region o;
	int cuts = 0;

	region_make(&n->a, &o, 32 * MB);
	opened(n, &r[0], 0);
	opened(n, &r[1], 1);
	for (int i = 0; i < 200; i++) {
		publish(&o, (size_t)(i * 37 % 32) * MB, MB);
		event_base_loop(n->base, EVLOOP_NONBLOCK);
		if (i % 25 == 24) {
			cut();
			cuts++;
		}
	}
	RUN_UNTIL(n->base, version(&r[0]) == 200);
	same_bytes(&o, &r[1]);
	assert_int_equal(cuts, 8);
	assert_int_equal(r[0].status, 0);
	/* One reader leaves while there is no connection, then the other. */
	cut();
	reader_close(&n->b, &r[0], 0);
	publish(&o, 0, MB);
	RUN_UNTIL(n->base, version(&r[1]) == 201);
	same_bytes(&o, &r[1]);
	cut();
	reader_close(&n->b, &r[1], 1);
	RUN_UNTIL(n->base, node_info(&n->b).replicas == 0);
	/* Ended while there is no connection. */
	opened(n, &r[0], 0);
	RUN_UNTIL(n->base, version(&r[0]) == 201);
	cut();
	region_gone(&n->a, false);
	RUN_UNTIL(n->base, r[0].status == 2);
	assert_true(state_of(&r[0]) != PL_STATE_OPEN);
	reader_close(&n->b, &r[0], 0);
}

/* The owner's agent is another one, to which the owner shows its region. */
static void owner_restarts(void **state)
{
	struct nodes *n = *state;
	struct reader r;
	struct region o;

	region_make(&n->a, &o, MB);
	opened(n, &r, 0);
	publish(&o, 0, MB);
	RUN_UNTIL(n->base, version(&r) == 1);
	pl_remote_destroy(n->a.remote);
	publish(&o, 0, MB / 2);
	node_start(n, &n->a, "node-a");
	RUN_UNTIL(n->base, version(&r) == 2);
	same_bytes(&o, &r);
	/* It is shown late. */
	pl_remote_destroy(n->a.remote);
	n->a.region = NULL;
	n->a.may_show = true;
	node_start(n, &n->a, "node-a");
	publish(&o, MB / 2, MB / 2);
	run_ms(n->base, 300);
	assert_int_equal(version(&r), 2);
	n->a.region = &o;
	RUN_UNTIL(n->base, version(&r) == 3);
	same_bytes(&o, &r);
	assert_int_equal(r.status, 0);
	/* It is not shown: the owner died meanwhile. */
	pl_remote_destroy(n->a.remote);
	n->a.region = NULL;
	node_start(n, &n->a, "node-a");
	run_ms(n->base, 300);
	assert_int_equal(r.status, 0);
	n->a.may_show = false;
	RUN_UNTIL(n->base, r.status == 2);
	assert_int_equal(state_of(&r), PL_STATE_DEAD);
	same_bytes(&o, &r);
	reader_close(&n->b, &r, 0);
	region_free(&o);
}

/* The readers' agent is another one: they open what they had. */
static void reader_restarts(void **state)
{
	struct nodes *n = *state;
	struct reader r, again;
	struct region o;

	region_make(&n->a, &o, MB);
	opened(n, &r, 0);
	publish(&o, 0, MB);
	RUN_UNTIL(n->base, version(&r) == 1);
	pl_remote_destroy(n->b.remote);
	assert_int_equal(state_of(&r), PL_STATE_OPEN);
	n->b.readers[0] = NULL;
	publish(&o, 0, MB / 4);
	node_start(n, &n->b, "node-b");
	/* Not connected yet: at once, so that the library may do more. */
	assert_int_equal(reader_try(&n->b, &again, 0, "", SIZE_MAX, r.uid),
			 -EAGAIN);
	RUN_UNTIL(n->base, !strcmp(node_info(&n->b).state, "up"));
	assert_int_equal(reader_try(&n->b, &again, 0, "", SIZE_MAX, r.uid), 0);
	RUN_UNTIL(n->base, again.status == 0 && version(&again) == 2);
	same_bytes(&o, &again);
	reader_close(&n->b, &again, 0);
	/* Another region of this name is not taken for it. */
	region_gone(&n->a, false);
	region_make(&n->a, &o, MB);
	assert_int_equal(reader_try(&n->b, &again, 0, "", SIZE_MAX, r.uid), 0);
	RUN_UNTIL(n->base, again.status != 1);
	assert_int_equal(again.status, -ESTALE);
	n->b.readers[0] = NULL;
	pl_seg_close(&r.seg);
	region_gone(&n->a, false);
}

static void replaced_region(void **state)
{
	struct nodes *n = *state;
	struct reader old, new;
	struct region first, second;

	/* The same name once more, while a reader has the old one. */
	region_make(&n->a, &first, MB);
	opened(n, &old, 0);
	publish(&first, 0, MB);
	RUN_UNTIL(n->base, version(&old) == 1);
	pl_remote_region_gone(n->a.remote, n->a.region_id, false);
	region_make(&n->a, &second, 2 * MB);
	opened(n, &new, 1);
	publish(&second, 0, 2 * MB);
	RUN_UNTIL(n->base, version(&new) == 1 && old.status == 2);
	same_bytes(&first, &old);
	same_bytes(&second, &new);
	region_free(&first);
	reader_close(&n->b, &old, 0);
	reader_close(&n->b, &new, 1);
	region_gone(&n->a, false);
}

static void hostile_owner(void **state)
{
	static const struct { uint64_t off, len; } bad[] = {
		{ MB, 1 }, { 0, MB + 1 }, { ~0ull, 2 }, { MB - 1, ~0ull },
	};
	struct nodes *n = *state;

	for (size_t i = 0; i < PL_ARRAY_SIZE(bad) + 1; i++) {
		struct reader r;
		struct region o;

		region_make(&n->a, &o, MB);
		opened(n, &r, 0);
		publish(&o, 0, 4096);
		RUN_UNTIL(n->base, version(&r) == 1);
		if (i < PL_ARRAY_SIZE(bad)) {
			publish_raw(&o, bad[i].off, bad[i].len);
		} else {
			/* Backwards. */
			atomic_store(&rseg(&o)->version, 0);
			(void)!send(o.bell[1], "", 1, MSG_DONTWAIT);
		}
		RUN_UNTIL(n->base, r.status == 2);
		assert_int_equal(state_of(&r), PL_STATE_DEAD);
		reader_close(&n->b, &r, 0);
		region_gone(&n->a, true);
	}
	/* Far ahead is no more than everything. */
	struct reader r;
	struct region o;

	region_make(&n->a, &o, MB);
	opened(n, &r, 0);
	o.version = ~0ull - 10;
	publish(&o, 0, 4096);
	RUN_UNTIL(n->base, version(&r) == ~0ull - 9);
	reader_close(&n->b, &r, 0);
	region_gone(&n->a, false);
}

static void *sleeper(void *arg)
{
	struct reader *r = arg;
	struct timespec limit = { 20, 0 };
	long rc = 0;

	while (version(r) == 0 && rc == 0)
		rc = syscall(SYS_futex,
			     &((struct pl_region_seg *)r->seg.base)->version,
			     FUTEX_WAIT, 0, &limit, NULL, 0) < 0 &&
		     errno == ETIMEDOUT;
	return (void *)(uintptr_t)version(r);
}

static void sleepers_wake(void **state)
{
	struct nodes *n = *state;
	pthread_t t[2];
	struct reader r;
	struct region o;
	void *seen;

	region_make(&n->a, &o, MB);
	opened(n, &r, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, sleeper, &r), 0);
	run_ms(n->base, 100);
	publish(&o, 0, MB);
	RUN_UNTIL(n->base, version(&r) == 1);
	run_ms(n->base, 10);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(t[i], &seen), 0);
		assert_int_equal((uintptr_t)seen, 1);
	}
	reader_close(&n->b, &r, 0);
	region_gone(&n->a, false);
}

/* --- growing -------------------------------------------------------------- */

/* As a library does it; the agent is told by hand. */
static void grow(struct pl_broker *b, size_t size)
{
	struct region *r = b->region;
	struct pl_broker_part *p = &r->parts[r->n_parts];
	struct pl_err err = { 0 };

	p->offset = r->seg.end_bytes;
	p->bytes = pl_seg_round(size) - p->offset;
	if (pl_seg_part_create(&r->seg, p->bytes, &p->fd, &err) < 0 ||
	    pl_remote_region_grew(b->remote, b->region_id, p, &err) < 0)
		fail_msg("%s", err.msg);
	r->n_parts++;
	atomic_store(&rseg(r)->grown, size);
}

static uint64_t grown(struct reader *r)
{
	return atomic_load(&((struct pl_region_seg *)r->seg.base)->grown);
}

static uint64_t filled(struct reader *r)
{
	return atomic_load(&((struct pl_region_seg *)r->seg.base)->filled);
}

/* Asks for what is behind what it has; the error, or 0. */
static int more(struct pl_broker *b, struct reader *r, uint64_t max_bytes)
{
	struct pl_err err = { 0 };
	struct pl_broker_part p;
	int rc = pl_remote_region_more(b->remote, r->id, r->seg.end_bytes,
				       max_bytes, &p, &err);

	if (rc < 0)
		return rc;
	if (pl_seg_part_open(&r->seg, p.fd, p.bytes, &err) < 0)
		fail_msg("%s", err.msg);
	return 0;
}

static void same_data(struct region *o, struct reader *r, size_t len)
{
	assert_memory_equal(pl_seg_data(&o->seg), pl_seg_data(&r->seg), len);
}

static void grows(void **state)
{
	struct nodes *n = *state;
	struct region o;
	struct reader r, s, late;

	region_make_max(&n->a, &o, MB + 8, 8 * MB);
	publish(&o, 0, MB);
	opened(n, &r, 0);
	opened(n, &s, 1);
	RUN_UNTIL(n->base, version(&r) == 1);
	assert_int_equal(more(&n->b, &r, ~0ull), -EAGAIN);
	grow(&n->a, 3 * MB + 8);
	publish(&o, MB - 64, MB);	/* across the end */
	publish(&o, 3 * MB, 8);
	RUN_UNTIL(n->base, version(&r) == 3);
	assert_int_equal(grown(&r), 3 * MB + 8);
	assert_int_equal(more(&n->b, &r, MB), -EDQUOT);
	assert_int_equal(more(&n->b, &r, ~0ull), 0);
	assert_int_equal(r.seg.end_bytes, pl_seg_round(3 * MB + 8));
	RUN_UNTIL(n->base, filled(&r) >= 3 * MB + 8);
	same_data(&o, &r, 3 * MB + 8);
	/* One replica: the other reader has it at once. */
	assert_int_equal(more(&n->b, &s, ~0ull), 0);
	same_data(&o, &s, 3 * MB + 8);
	publish(&o, 0, 3 * MB);
	RUN_UNTIL(n->base, version(&s) == 4);
	same_data(&o, &r, 3 * MB + 8);
	grow(&n->a, 8 * MB);
	publish(&o, 4 * MB, 4 * MB);
	opened(n, &late, 2);
	assert_int_equal(late.size, r.size);
	assert_int_equal(more(&n->b, &late, ~0ull), 0);
	RUN_UNTIL(n->base, version(&late) == 5 && grown(&late) == 8 * MB);
	assert_int_equal(more(&n->b, &late, ~0ull), 0);
	RUN_UNTIL(n->base, filled(&late) == 8 * MB);
	same_data(&o, &late, 8 * MB);
	reader_close(&n->b, &r, 0);
	reader_close(&n->b, &s, 1);
	reader_close(&n->b, &late, 2);
	region_gone(&n->a, false);
}

/* The first reader of a node comes when the region has grown already. */
static void grown_before(void **state)
{
	struct nodes *n = *state;
	struct region o;
	struct reader r;

	region_make_max(&n->a, &o, 100, 4 * MB);
	grow(&n->a, 2 * MB);
	publish(&o, 0, 2 * MB);
	opened(n, &r, 0);
	assert_int_equal(r.size, 2 * MB);
	RUN_UNTIL(n->base, version(&r) == 1);
	same_data(&o, &r, 2 * MB);
	reader_close(&n->b, &r, 0);
	region_gone(&n->a, false);
}

/* The connection breaks while a replica is being filled. */
static void grows_and_resumes(void **state)
{
	struct nodes *n = *state;
	struct region o;
	struct reader r;

	region_make_max(&n->a, &o, MB, 64 * MB);
	opened(n, &r, 0);
	grow(&n->a, 64 * MB);
	publish(&o, 0, 64 * MB);
	RUN_UNTIL(n->base, grown(&r) == 64 * MB);
	assert_int_equal(more(&n->b, &r, ~0ull), 0);
	cut();
	for (int i = 0; i < 20; i++)
		event_base_loop(n->base, EVLOOP_NONBLOCK);
	cut();
	publish(&o, MB / 2, MB);
	RUN_UNTIL(n->base, version(&r) == 2 && filled(&r) == 64 * MB);
	same_data(&o, &r, 64 * MB);
	/* Another agent, which gets all segments of the region at once. */
	pl_remote_destroy(n->a.remote);
	publish(&o, 40 * MB, 8);
	node_start(n, &n->a, "node-a");
	RUN_UNTIL(n->base, version(&r) == 3);
	same_data(&o, &r, 64 * MB);
	/* The replica of the next agent there has all of it in one. */
	pl_remote_destroy(n->b.remote);
	n->b.readers[0] = NULL;
	pl_seg_close(&r.seg);
	node_start(n, &n->b, "node-b");
	assert_int_equal(reader_try(&n->b, &r, 0, "", SIZE_MAX, r.uid),
			 -EAGAIN);
	RUN_UNTIL(n->base, !strcmp(node_info(&n->b).state, "up"));
	assert_int_equal(reader_try(&n->b, &r, 0, "", SIZE_MAX, r.uid), 0);
	RUN_UNTIL(n->base, r.status == 0 && version(&r) == 3);
	assert_int_equal(r.size, 64 * MB);
	same_data(&o, &r, 64 * MB);
	reader_close(&n->b, &r, 0);
	region_gone(&n->a, false);
}

/* An owner that says that it has grown, and has not. */
static void grows_in_words(void **state)
{
	struct nodes *n = *state;
	struct region o;
	struct reader r;

	region_make_max(&n->a, &o, MB, 8 * MB);
	opened(n, &r, 0);
	atomic_store(&rseg(&o)->grown, 4 * MB);
	publish_raw(&o, 0, 8);
	RUN_UNTIL(n->base, r.status == 2);
	assert_int_equal(state_of(&r), PL_STATE_DEAD);
	assert_int_equal(n->a.n_broke, 1);
	reader_close(&n->b, &r, 0);
	region_gone(&n->a, false);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(one_transfer_for_all), T(streams), T(late_reader),
		T(log_overrun), T(owner_ends), T(not_found), T(resumes),
		T(owner_restarts), T(reader_restarts), T(replaced_region),
		T(hostile_owner), T(grows), T(grown_before),
		T(grows_and_resumes), T(grows_in_words),
		T(sleepers_wake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tests/unit/test_ipam_index.c - the index of addresses against a model */
#include "tests/unit/ipam_test.h"

#include "ipam/index.h"

static struct pl_index *create(const char *start, uint32_t count)
{
	struct pl_index_range r = { .count = count };
	struct pl_index *ix;

	assert_int_equal(pl_addr_parse(start, &r.start), 0);
	assert_int_equal(pl_index_create(&r, 1, &ix), 0);
	return ix;
}

/* As spread as hashes of attachments are. */
static uint64_t mix(uint32_t pos)
{
	return (pos + 1) * 0x9e3779b97f4a7c15u;
}

static void take(struct pl_index *ix, const char *start, uint32_t pos)
{
	struct pl_addr a;

	pl_addr_parse(start, &a);
	a = pl_addr_add(&a, pos);
	assert_int_equal(pl_index_add(ix, mix(pos), &a), 0);
}

static void give(struct pl_index *ix, const char *start, uint32_t pos)
{
	struct pl_addr a;

	pl_addr_parse(start, &a);
	a = pl_addr_add(&a, pos);
	assert_int_equal(pl_index_del(ix, mix(pos), &a), 0);
}

static void test_next_free(void **state)
{
	static const uint32_t counts[] = {
		1, 2, 63, 64, 65, 127, 128, 4095, 4096, 4097, 10000,
	};
	unsigned int seed = 3;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(counts); i++) {
		uint32_t n = counts[i], pos, taken = 0;
		struct pl_index *ix = create("10.0.0.1", n);
		uint8_t *model = calloc(n, 1);

		for (int step = 0; step < 3000; step++) {
			uint32_t from = (uint32_t)rand_r(&seed) % n, want;
			/* Mostly full half of the time, mostly empty else. */
			bool fill_up = step % 1000 < 500 ?
				       rand_r(&seed) % 8 : !(rand_r(&seed) % 8);

			for (want = from; want < n && model[want]; want++)
				;
			assert_int_equal(pl_index_next_free(ix, 0, from, &pos),
					 want < n);
			if (want < n)
				assert_int_equal(pos, want);
			if (fill_up && want < n) {
				take(ix, "10.0.0.1", want);
				model[want] = 1;
				taken++;
			} else if (!fill_up && model[from]) {
				give(ix, "10.0.0.1", from);
				model[from] = 0;
				taken--;
			}
			assert_int_equal(pl_index_entries(ix), taken);
		}
		free(model);
		pl_index_destroy(ix);
	}
}

static void test_largest_range(void **state)
{
	struct pl_index *ix = create("fd00::1", PL_IPAM_RANGE_SPAN);
	uint32_t pos;

	(void)state;
	for (uint32_t i = 0; i < PL_IPAM_RANGE_SPAN - 1; i++)
		take(ix, "fd00::1", i);
	assert_int_equal(pl_index_next_free(ix, 0, 0, &pos), 1);
	assert_int_equal(pos, PL_IPAM_RANGE_SPAN - 1);
	take(ix, "fd00::1", PL_IPAM_RANGE_SPAN - 1);
	assert_int_equal(pl_index_next_free(ix, 0, 0, &pos), 0);
	give(ix, "fd00::1", 77777);
	assert_int_equal(pl_index_next_free(ix, 0, 0, &pos), 1);
	assert_int_equal(pos, 77777);
	assert_int_equal(pl_index_next_free(ix, 0, 77778, &pos), 0);
	pl_index_destroy(ix);
}

static void test_find(void **state)
{
	struct pl_index *ix = create("10.0.0.0", 100);
	struct pl_addr a, found[4];

	(void)state;
	pl_addr_parse("10.0.0.7", &a);
	assert_int_equal(pl_index_find(ix, 5, found, 4), 0);
	/* One hash, many addresses: more than a bucket holds. */
	for (int i = 0; i < 40; i++) {
		struct pl_addr b = pl_addr_add(&a, (uint64_t)i);

		assert_int_equal(pl_index_add(ix, 5, &b), 0);
	}
	assert_int_equal(pl_index_find(ix, 5, found, 4), 4);
	assert_int_equal(pl_index_find(ix, 6, found, 4), 0);
	for (int i = 39; i >= 0; i--) {
		struct pl_addr b = pl_addr_add(&a, (uint64_t)i);

		assert_int_equal(pl_index_del(ix, 5, &b), 0);
		assert_int_equal(pl_index_del(ix, 5, &b), -EBADMSG);
	}
	assert_int_equal(pl_index_find(ix, 5, found, 4), 0);
	pl_index_destroy(ix);
}

static void test_store_and_grow(void **state)
{
	struct pl_index_stamp stamp = {
		.dev = 1, .ino = 2, .mtime_sec = 3, .boot = "b",
	}, other;
	struct pl_index_range ranges[PL_INDEX_MAX_RANGES];
	struct pl_index *ix = create("10.0.0.0", 5000);
	struct pl_addr found[2], a;
	struct scratch *s = *state;
	uint32_t pos;
	int fd;

	scratch_init(s, "[[{'subnet': '10.1.0.0/24'}]]");
	fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(pl_index_store(ix, fd, &stamp), 0);
	pl_index_destroy(ix);
	/* Opened, changed and stored for each entry, through three growths. */
	for (uint32_t i = 0; i < 3000; i++) {
		assert_int_equal(pl_index_open(fd, &stamp, &ix), 0);
		assert_int_equal(pl_index_entries(ix), i);
		assert_false(pl_index_is_dirty(ix));
		assert_int_equal(pl_index_next_free(ix, 0, 0, &pos), 1);
		assert_int_equal(pos, i);
		take(ix, "10.0.0.0", i);
		assert_true(pl_index_is_dirty(ix));
		assert_int_equal(pl_index_store(ix, fd, &stamp), 0);
		pl_index_destroy(ix);
	}
	assert_int_equal(pl_index_open(fd, &stamp, &ix), 0);
	pl_addr_parse("10.0.0.0", &a);
	for (uint32_t i = 0; i < 3000; i++) {
		struct pl_addr want = pl_addr_add(&a, i);

		assert_int_equal(pl_index_find(ix, mix(i), found, 2), 1);
		assert_true(pl_addr_equal(&found[0], &want));
	}
	pl_index_destroy(ix);
	for (int i = 0; i < 4; i++) {
		other = stamp;
		other.dev += i == 0;
		other.ino += i == 1;
		other.mtime_sec += i == 2;
		other.boot[0] += i == 3;
		assert_int_equal(pl_index_open(fd, &other, &ix), -ESTALE);
	}
	assert_int_equal(pl_index_stored_ranges(fd, ranges), 1);
	assert_int_equal(ranges[0].count, 5000);
	unlinkat(fd, PL_INDEX_FILE, 0);
	assert_int_equal(pl_index_open(fd, &stamp, &ix), -ENOENT);
	assert_int_equal(pl_index_stored_ranges(fd, ranges), 0);
	close(fd);
}

static void test_offset(void **state)
{
	static const struct {
		const char *start, *addr;
		uint64_t want;
	} cases[] = {
		{ "10.0.0.0", "10.0.0.0", 0 },
		{ "10.0.0.255", "10.0.1.0", 1 },
		{ "10.0.0.1", "10.0.0.0", UINT64_MAX },
		{ "0.0.0.0", "255.255.255.255", UINT32_MAX },
		{ "fd00::ffff", "fd00::1:0", 1 },
		{ "fd00::", "fd00::ffff:ffff:ffff:fffe", UINT64_MAX - 1 },
		{ "fd00::", "fd00:0:0:1::", UINT64_MAX },
		{ "fd00::", "10.0.0.1", UINT64_MAX },
		{ "::ffff:ffff:ffff:ffff", "0:0:0:1::", 1 },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		struct pl_addr a, b;

		pl_addr_parse(cases[i].start, &a);
		pl_addr_parse(cases[i].addr, &b);
		assert_true(pl_index_offset(&a, &b) == cases[i].want);
	}
}

static void test_hash(void **state)
{
	(void)state;
	assert_true(pl_index_hash("a", "b") == pl_index_hash("a", "b"));
	assert_true(pl_index_hash("ab", "") != pl_index_hash("a", "b"));
	assert_true(pl_index_hash("a", "eth0") != pl_index_hash("a", "eth1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_next_free),
		cmocka_unit_test(test_largest_range),
		cmocka_unit_test(test_find),
		scratch_test(test_store_and_grow),
		cmocka_unit_test(test_offset),
		cmocka_unit_test(test_hash),
	};

	return cmocka_run_group_tests_name("ipam index", tests, NULL, NULL);
}

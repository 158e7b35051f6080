/*
 * tests/unit/test_ipam_fuzz.c - what comes from outside, garbled: network
 * configurations, reservation files, the index
 *
 * The seed is fixed unless FUZZ_SEED is set; FUZZ_ROUNDS makes it longer.
 */
#include "tests/unit/ipam_test.h"

static unsigned int start_seed(void)
{
	const char *s = getenv("FUZZ_SEED");

	return s ? (unsigned int)strtoul(s, NULL, 0) : 42;
}

static int rounds(int usual)
{
	const char *s = getenv("FUZZ_ROUNDS");

	return s ? (int)strtol(s, NULL, 0) : usual;
}

static const char *const words[] = {
	"\"", "{", "}", "[", "]", ":", ",", "null", "0", "-1", "1e99", "/", ".",
	"\"10.1.0.0/24\"", "\"fd00::/64\"", "\"10.1.0.255\"", "\"::\"", "/0",
	"/128", "/32", "true", "\"ranges\"", "\"subnet\"", "\"rangeEnd\"",
	"\"ips\"", "\\u0000", "\xff", "255.255.255.255", "0.0.0.0",
};

/* Some bytes changed, cut out or put in. */
static void garble(char *text, size_t size, unsigned int *seed)
{
	for (int n = rand_r(seed) % 4 + 1; n; n--) {
		size_t len = strlen(text), at = len ? rand_r(seed) % len : 0;
		const char *w = words[rand_r(seed) % PL_ARRAY_SIZE(words)];
		size_t cut = rand_r(seed) % 12, put = strlen(w);

		switch (rand_r(seed) % 3) {
		case 0:
			if (len)
				text[at] = (char)(rand_r(seed) % 255 + 1);
			break;
		case 1:
			cut = PL_MIN(cut, len - at);
			memmove(text + at, text + at + cut, len - at - cut + 1);
			break;
		default:
			if (len + put >= size)
				break;
			memmove(text + at + put, text + at, len - at + 1);
			memcpy(text + at, w, put);
			break;
		}
	}
}

static void check_config(const struct pl_ipam_config *cfg)
{
	assert_in_range(cfg->n_sets, 1, PL_IPAM_MAX_SETS);
	assert_in_range(cfg->n_ranges, cfg->n_sets, PL_IPAM_MAX_RANGES);
	assert_true(cfg->n_requested <= cfg->n_sets);
	for (unsigned int i = 0; i < cfg->n_ranges; i++) {
		const struct pl_ipam_range *r = &cfg->ranges[i];

		assert_true(pl_addr_cmp(&r->start, &r->end) <= 0);
		assert_true(pl_prefix_contains(&r->subnet, &r->start));
		assert_true(pl_prefix_contains(&r->subnet, &r->end));
		/* As with host-local, it may be outside the subnet. */
		assert_int_equal(r->gateway.family, r->subnet.addr.family);
		assert_true(r->set < cfg->n_sets);
	}
}

static void test_configurations(void **state)
{
	static const char seed_text[] =
		"{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"ipam\":{\"subnet\":"
		"\"10.1.0.0/24\",\"rangeStart\":\"10.1.0.9\",\"ranges\":[[{"
		"\"subnet\":\"10.2.0.0/30\",\"gateway\":\"10.2.0.2\"},{"
		"\"subnet\":\"10.3.0.0/16\"}],[{\"subnet\":\"fd00::/64\","
		"\"rangeEnd\":\"fd00::ff\"}]],\"routes\":[{\"dst\":\"::/0\","
		"\"gw\":\"fd00::1\",\"mtu\":1}]},\"runtimeConfig\":{\"ips\":["
		"\"10.1.0.10/24\"],\"ipRanges\":[]},\"args\":{\"cni\":{\"ips\":"
		"[\"10.2.0.1\"]}},\"cni.dev/valid-attachments\":[{"
		"\"containerID\":\"a\",\"ifname\":\"e\"}]}";
	unsigned int seed = start_seed();
	int taken = 0, n = rounds(30000);
	char text[2048];

	(void)state;
	for (int i = 0; i < n; i++) {
		struct pl_ipam_config cfg;
		struct pl_ipam_where where;
		struct pl_err err;
		const cJSON *list;
		pl_auto_json *json = NULL;

		memcpy(text, seed_text, sizeof(seed_text));
		garble(text, sizeof(text), &seed);
		if (pl_json_parse(text, strlen(text), &json, &err) < 0)
			continue;
		pl_ipam_where_parse(json, &where, &err);
		pl_cni_gc_valid(json, &list, &err);
		if (pl_ipam_config_parse(json, text, &cfg, &err) < 0) {
			assert_true(err.msg[0]);
			continue;
		}
		check_config(&cfg);
		taken++;
	}
	assert_true(taken > n / 100);
}

/* Garbage in any of the files: never two with one address, none lost. */
static void test_directories(void **state)
{
	static const char *const names[] = {
		"10.1.0.2", "10.1.0.3", "10.1.0.6", "10.1.0.77", "fd00::5",
		".podlane.index", ".podlane.index", ".podlane.index",
		".podlane.new", ".podlane.index.new", "last_reserved_ip.0", "x",
	};
	struct scratch *s = *state;
	unsigned int seed = start_seed();
	char text[3000], path[160];

	scratch_init(s, "[[{'subnet': '10.1.0.0/29'}]]");
	for (int i = rounds(1500); i; i--) {
		int held = 0, fd;
		off_t at = rand_r(&seed) % 30000;
		size_t len = rand_r(&seed) % sizeof(text);

		for (size_t k = 0; k < len; k++)
			text[k] = (char)rand_r(&seed);
		snprintf(path, sizeof(path), "%s/%s", s->net,
			 names[rand_r(&seed) % PL_ARRAY_SIZE(names)]);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd >= 0) {
			assert_true(pwrite(fd, text, len, at % 3 ? 0 : at) >=
				    0);
			close(fd);
		}
		for (int k = 0; k < 5; k++) {
			char id[16], got[INET6_ADDRSTRLEN];

			snprintf(id, sizeof(id), "p%d", k);
			if (add(s, id, got) == 0)
				held++;
			else
				assert_int_equal(pl_cni_code(&s->err),
						 PL_CNI_EXHAUSTED);
		}
		/* Text that reads as a reservation may hold one of the five. */
		assert_in_range(held, 4, 5);
		assert_int_equal(pl_ipam_gc(&s->cfg.where, NULL, 0, NULL,
					    &s->err), 0);
		assert_int_equal(count_files(s), 0);
		mkdir(s->net, 0755);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_configurations),
		scratch_test(test_directories),
	};

	return cmocka_run_group_tests_name("ipam fuzz", tests, NULL, NULL);
}

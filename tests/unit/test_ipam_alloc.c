/* tests/unit/test_ipam_alloc.c - what the allocator gives, to whom, and back */
#include "tests/unit/ipam_test.h"

#include <sys/xattr.h>

#define ONE "[[{'subnet': '10.1.0.0/29'}]]"		/* .2 to .6 are free */
#define DUAL "[[{'subnet': '10.1.0.0/29'}], [{'subnet': 'fd00::/64'}]]"

static void test_in_turn_and_wrap(void **state)
{
	struct scratch *s = *state;

	scratch_init(s, ONE);
	assert_add(s, "a", "10.1.0.2");
	assert_add(s, "b", "10.1.0.3");
	assert_del(s, "a");
	assert_add(s, "c", "10.1.0.4");
	assert_add(s, "d", "10.1.0.5");
	assert_add(s, "e", "10.1.0.6");
	assert_add(s, "f", "10.1.0.2");
	assert_int_equal(count_files(s), 5);
}

static void test_exhausted(void **state)
{
	struct scratch *s = *state;

	scratch_init(s, ONE);
	assert_int_equal(fill(s, "p"), 5);
	assert_non_null(strstr(s->err.msg, "10.1.0.1-10.1.0.6"));
	assert_cni_code(s, pl_ipam_status(&s->cfg, &s->err),
			PL_CNI_NOT_AVAILABLE);
	assert_del(s, "p-3");
	assert_int_equal(pl_ipam_status(&s->cfg, &s->err), 0);
	assert_add(s, "q", "10.1.0.5");
	assert_int_equal(fill(s, "r"), 0);
}

static void test_usage(void **state)
{
	struct pl_ipam_usage u[PL_IPAM_MAX_RANGES];
	struct scratch *s = *state;

	scratch_init(s, DUAL);
	assert_int_equal(pl_ipam_usage(&s->cfg, u, &s->err), 0);
	assert_int_equal(u[0].total, 5);
	assert_int_equal(u[0].used, 0);
	assert_int_equal(u[1].total, PL_IPAM_RANGE_SPAN - 1);
	assert_int_equal(fill(s, "p"), 5);
	put_file(s, "10.9.0.1", "of another range");
	put_file(s, "no-address", "");
	assert_int_equal(pl_ipam_usage(&s->cfg, u, &s->err), 0);
	assert_int_equal(u[0].used, 5);
	assert_int_equal(u[1].used, 5);
	assert_del(s, "p-3");
	assert_int_equal(pl_ipam_usage(&s->cfg, u, &s->err), 0);
	assert_int_equal(u[0].used, 4);
	assert_int_equal(u[1].used, 4);
}

static void test_one_address(void **state)
{
	struct scratch *s = *state;

	scratch_init(s, "[[{'subnet': '10.1.0.0/24', 'rangeStart': "
		     "'10.1.0.9', 'rangeEnd': '10.1.0.9'}]]");
	for (int i = 0; i < 3; i++) {
		char text[INET6_ADDRSTRLEN];

		assert_add(s, "a", "10.1.0.9");
		assert_cni_code(s, add(s, "b", text), PL_CNI_EXHAUSTED);
		assert_del(s, "b");
		assert_del(s, "a");
	}
}

static void test_several_ranges(void **state)
{
	struct scratch *s = *state;

	scratch_init(s, "[[{'subnet': '10.1.0.0/24', 'rangeStart': "
		     "'10.1.0.254'}, {'subnet': '10.2.0.0/24', 'rangeEnd': "
		     "'10.2.0.2'}, {'subnet': '10.3.0.0/30'}]]");
	assert_add(s, "a", "10.1.0.254");
	assert_add(s, "b", "10.2.0.2");
	assert_add(s, "c", "10.3.0.2");
	assert_int_equal(fill(s, "p"), 0);
	assert_del(s, "b");
	assert_add(s, "d", "10.2.0.2");
}

static void test_gateway_is_not_given(void **state)
{
	struct scratch *s = *state;

	/* Two ranges of one subnet; each other's gateways count, too. */
	scratch_init(s, "[[{'subnet': '10.1.0.0/24', 'rangeStart': "
		     "'10.1.0.9', 'rangeEnd': '10.1.0.11', 'gateway': "
		     "'10.1.0.10'}, {'subnet': '10.1.0.0/24', 'rangeStart': "
		     "'10.1.0.20', 'rangeEnd': '10.1.0.21', 'gateway': "
		     "'10.1.0.11'}]]");
	assert_add(s, "a", "10.1.0.9");
	assert_add(s, "b", "10.1.0.20");
	assert_add(s, "c", "10.1.0.21");
	assert_int_equal(fill(s, "p"), 0);
}

static void test_dual_stack(void **state)
{
	struct pl_ipam_result res;
	struct scratch *s = *state;
	char text[PL_PREFIX_STRLEN];

	scratch_init(s, DUAL);
	assert_int_equal(pl_ipam_add(&s->cfg, "a", "eth0", 0, &res, &s->err), 0);
	assert_int_equal(res.n_ips, 2);
	assert_string_equal(pl_prefix_str(&res.ips[0].address, text),
			    "10.1.0.2/29");
	assert_string_equal(pl_addr_str(&res.ips[0].gateway, text), "10.1.0.1");
	assert_string_equal(pl_prefix_str(&res.ips[1].address, text),
			    "fd00::2/64");
	assert_string_equal(pl_addr_str(&res.ips[1].gateway, text), "fd00::1");
	assert_int_equal(count_files(s), 2);
	/* The sixth has no IPv4 address, so it has no IPv6 address either. */
	assert_int_equal(fill(s, "p"), 4);
	assert_int_equal(count_files(s), 10);
	assert_del(s, "a");
	assert_int_equal(count_files(s), 8);
}

static void test_second_set_exhausted(void **state)
{
	struct scratch *s = *state;
	char text[INET6_ADDRSTRLEN];

	scratch_init(s, "[[{'subnet': '10.1.0.0/24'}], "
		     "[{'subnet': 'fd00::/126'}]]");
	assert_int_equal(fill(s, "p"), 2);
	for (int i = 0; i < 300; i++)
		assert_cni_code(s, add(s, "q", text), PL_CNI_EXHAUSTED);
	assert_int_equal(count_files(s), 4);
}

static void test_interfaces_are_apart(void **state)
{
	struct pl_ipam_result res;
	struct scratch *s = *state;

	scratch_init(s, ONE);
	assert_add(s, "a", "10.1.0.2");
	assert_int_equal(pl_ipam_add(&s->cfg, "a", "eth1", 0, &res, &s->err), 0);
	assert_int_equal(count_files(s), 2);
	assert_int_equal(pl_ipam_del(&s->cfg.where, "a", "eth1", &s->err), 0);
	assert_false(has_file(s, "10.1.0.3"));
	assert_true(has_file(s, "10.1.0.2"));
}

static void test_add_twice(void **state)
{
	struct pl_ipam_result res;
	struct scratch *s = *state;
	char text[INET6_ADDRSTRLEN];

	scratch_init(s, DUAL);
	assert_add(s, "a", "10.1.0.2");
	assert_cni_code(s, add(s, "a", text), PL_CNI_DUPLICATE);
	assert_int_equal(count_files(s), 2);
	assert_int_equal(pl_ipam_add(&s->cfg, "a", "eth0", PL_IPAM_REUSE, &res,
				     &s->err), 0);
	assert_true(res.existed);
	assert_string_equal(pl_addr_str(&res.ips[1].address.addr, text),
			    "fd00::2");
	/* Half of it: what a crash leaves is completed. */
	pl_ipam_release(&s->cfg.where, &res.ips[0].address.addr, &s->err);
	assert_int_equal(pl_ipam_add(&s->cfg, "a", "eth0", PL_IPAM_REUSE, &res,
				     &s->err), 0);
	assert_false(res.existed);
	assert_string_equal(pl_addr_str(&res.ips[0].address.addr, text),
			    "10.1.0.3");
	assert_string_equal(pl_addr_str(&res.ips[1].address.addr, text),
			    "fd00::2");
	assert_del(s, "a");
	assert_del(s, "a");
	assert_int_equal(count_files(s), 0);
}

static void request(struct scratch *s, const char *addr)
{
	assert_int_equal(pl_addr_parse(addr, &s->cfg.requested[0]), 0);
	s->cfg.n_requested = 1;
}

static void test_requested(void **state)
{
	struct pl_ipam_result res;
	struct scratch *s = *state;
	char text[INET6_ADDRSTRLEN];

	scratch_init(s, DUAL);
	request(s, "fd00::1234:5");	/* beyond what is given unasked */
	assert_int_equal(pl_ipam_add(&s->cfg, "a", "eth0", 0, &res, &s->err), 0);
	assert_string_equal(pl_addr_str(&res.ips[0].address.addr, text),
			    "10.1.0.2");
	assert_string_equal(pl_addr_str(&res.ips[1].address.addr, text),
			    "fd00::1234:5");
	assert_cni_code(s, add(s, "b", text), PL_CNI_IN_USE);
	assert_non_null(strstr(s->err.msg, "container a"));
	assert_int_equal(count_files(s), 2);
	s->cfg.n_requested = 0;
	/* After it comes the beginning again. */
	assert_int_equal(pl_ipam_add(&s->cfg, "c", "eth0", 0, &res, &s->err), 0);
	assert_string_equal(pl_addr_str(&res.ips[1].address.addr, text),
			    "fd00::2");
	assert_del(s, "a");
	request(s, "fd00::1234:5");
	assert_add(s, "b", "10.1.0.5");
}

static void test_empty_and_garbled_files(void **state)
{
	struct scratch *s = *state;

	scratch_init(s, ONE);
	/* As host-local leaves them when it is killed; then in place. */
	put_file(s, "10.1.0.3", "");
	put_file(s, "10.1.0.4", "\x01\x02\r\nxx");
	put_file(s, "10.1.0.5", "ok\r\neth0");
	put_file(s, "010.1.0.6", "other");
	assert_add(s, "a", "10.1.0.2");
	assert_int_equal(fill(s, "p"), 3);
	assert_int_equal(count_files(s), 5);
	put_file(s, "10.1.0.3", "");
	assert_int_equal(fill(s, "q"), 1);
	put_file(s, "10.1.0.4", "");
	request(s, "10.1.0.4");
	assert_add(s, "r", "10.1.0.4");
	/* Emptied in place, DEL of the owner still gives it back. */
	put_file(s, "10.1.0.4", "");
	assert_del(s, "r");
	assert_false(has_file(s, "10.1.0.4"));
}

static void test_reuse_repairs(void **state)
{
	struct pl_ipam_result res;
	struct scratch *s = *state;

	scratch_init(s, ONE);
	assert_add(s, "a", "10.1.0.2");
	put_file(s, "10.1.0.2", "");
	assert_int_equal(pl_ipam_add(&s->cfg, "a", "eth0", PL_IPAM_REUSE, &res,
				     &s->err), 0);
	assert_int_equal(pl_ipam_check(&s->cfg.where, "a", "eth0",
				       &res.ips[0].address.addr, 1, &s->err),
			 0);
	assert_add(s, "b", "10.1.0.3");
	assert_int_equal(fill(s, "p"), 3);
}

/* The directory as another program (or an operator) changes it. */
static void test_foreign_changes(void **state)
{
	struct scratch *s = *state;
	char text[INET6_ADDRSTRLEN], path[160];

	scratch_init(s, ONE);
	put_file(s, "10.1.0.2", "hl1\r\neth0");
	put_file(s, "10.1.0.3", "hl2");	/* before host-local 0.8 */
	put_file(s, "last_reserved_ip.0", "10.1.0.3");
	assert_add(s, "a", "10.1.0.4");
	put_file(s, "10.1.0.5", "hl3\r\neth0\n");
	assert_add(s, "b", "10.1.0.6");
	assert_cni_code(s, add(s, "hl1", text), PL_CNI_DUPLICATE);
	assert_cni_code(s, add(s, "hl2", text), PL_CNI_DUPLICATE);
	assert_del(s, "hl2");
	assert_del(s, "hl3");
	assert_int_equal(count_files(s), 3);
	snprintf(path, sizeof(path), "%s/10.1.0.2", s->net);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(fill(s, "p"), 3);
	assert_del(s, "hl1");
	assert_int_equal(count_files(s), 5);
}

static void test_reused_by_another(void **state)
{
	struct scratch *s = *state;

	scratch_init(s, ONE);
	assert_add(s, "a", "10.1.0.2");
	/* Its file in other hands, while the directory kept its time. */
	put_file(s, "10.1.0.2", "b\r\neth0");
	assert_del(s, "a");
	assert_true(has_file(s, "10.1.0.2"));
	assert_del(s, "b");
	assert_false(has_file(s, "10.1.0.2"));
}

static void test_index_lost_or_damaged(void **state)
{
	struct scratch *s = *state;
	char text[INET6_ADDRSTRLEN], path[160];
	struct stat st;
	int got = 0;

	scratch_init(s, "[[{'subnet': '10.1.0.0/26'}]]");
	snprintf(path, sizeof(path), "%s/.podlane.index", s->net);
	assert_int_equal(fill(s, "p"), 61);
	assert_int_equal(stat(path, &st), 0);
	/* A byte of each block, then lengths, then nothing at all. */
	for (off_t at = 0; at < st.st_size; at += 256) {
		int fd = open(path, O_RDWR | O_CLOEXEC);
		char id[32];
		uint8_t b;

		assert_int_equal(pread(fd, &b, 1, at), 1);
		b ^= 0x40;
		assert_int_equal(pwrite(fd, &b, 1, at), 1);
		close(fd);
		snprintf(id, sizeof(id), "p-%d", got);
		assert_del(s, id);
		assert_int_equal(add(s, id, text), 0);
		assert_cni_code(s, add(s, id, text), PL_CNI_DUPLICATE);
		assert_cni_code(s, add(s, "more", text), PL_CNI_EXHAUSTED);
		got = (got + 1) % 61;
	}
	for (off_t len = 0; len < st.st_size; len += 700) {
		assert_int_equal(truncate(path, len), 0);
		assert_del(s, "p-7");
		assert_int_equal(add(s, "p-7", text), 0);
	}
	unlink(path);
	assert_int_equal(fill(s, "q"), 0);
	assert_int_equal(count_files(s), 61);
}

static void test_config_changes(void **state)
{
	struct scratch *s = *state;

	scratch_init(s, ONE);
	assert_add(s, "a", "10.1.0.2");
	scratch_ranges(s, "[[{'subnet': '10.1.0.0/28'}]]");
	assert_add(s, "b", "10.1.0.3");
	scratch_ranges(s, "[[{'subnet': '10.9.0.0/29'}]]");
	assert_add(s, "c", "10.9.0.2");
	assert_int_equal(fill(s, "p"), 4);
	/* More ranges than the index keeps, one after the other. */
	for (int i = 0; i < 100; i++) {
		char ranges[64], want[32];

		snprintf(ranges, sizeof(ranges),
			 "[[{'subnet': '10.20.%d.0/24'}]]", i);
		scratch_ranges(s, ranges);
		snprintf(want, sizeof(want), "10.20.%d.2", i);
		assert_add(s, want, want);
	}
	scratch_ranges(s, ONE);
	assert_int_equal(fill(s, "q"), 3);
	assert_del(s, "a");
	assert_del(s, "c");
	assert_int_equal(fill(s, "r"), 1);
}

static void tag(const struct scratch *s, const char *name, const char *boot)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", s->net, name);
	if (setxattr(path, "user.podlane.boot", boot, strlen(boot), 0) == 0)
		return;
	if (setxattr(path, "trusted.podlane.boot", boot, strlen(boot), 0) < 0)
		skip();
}

static void test_reservations_of_another_boot(void **state)
{
	struct scratch *s = *state;
	char path[160];

	scratch_init(s, ONE);
	assert_int_equal(fill(s, "p"), 5);
	tag(s, "10.1.0.3", "another-boot");
	tag(s, "10.1.0.5", "another-boot");
	put_file(s, "10.1.0.200", "untagged\r\neth0");
	snprintf(path, sizeof(path), "%s/.podlane.index", s->net);
	unlink(path);
	assert_int_equal(fill(s, "q"), 2);
	assert_true(has_file(s, "10.1.0.200"));
	/* A late DEL of before the reboot takes nothing from the new ones. */
	assert_del(s, "p-1");
	assert_del(s, "p-3");
	assert_int_equal(count_files(s), 6);
}

static void test_gc(void **state)
{
	const struct pl_ipam_key valid[] = {
		{ "c", "eth0" }, { "a", "eth0" }, { "nobody", "eth0" },
		{ "b", "eth1" }, { "old", "eth7" },
	};
	struct scratch *s = *state;
	unsigned int n;

	scratch_init(s, DUAL);
	assert_int_equal(pl_ipam_gc(&s->cfg.where, valid, 3, &n, &s->err), 0);
	assert_int_equal(n, 0);
	assert_add(s, "a", "10.1.0.2");
	assert_add(s, "b", "10.1.0.3");
	assert_add(s, "c", "10.1.0.4");
	put_file(s, "10.1.0.6", "old");
	put_file(s, "10.1.0.5", "");
	assert_int_equal(pl_ipam_gc(&s->cfg.where, valid, 5, &n, &s->err), 0);
	assert_int_equal(n, 3);
	assert_int_equal(count_files(s), 5);
	assert_int_equal(fill(s, "p"), 2);
	assert_int_equal(pl_ipam_gc(&s->cfg.where, NULL, 0, &n, &s->err), 0);
	assert_int_equal(n, 9);
	assert_int_equal(count_files(s), 0);
	assert_int_equal(fill(s, "q"), 5);
}

static void test_check(void **state)
{
	struct pl_addr a, b;
	struct scratch *s = *state;

	scratch_init(s, ONE);
	assert_cni_code(s, pl_ipam_check(&s->cfg.where, "a", "eth0", NULL, 0,
					  &s->err), PL_CNI_CHECK_FAILED);
	assert_add(s, "a", "10.1.0.2");
	assert_add(s, "b", "10.1.0.3");
	pl_addr_parse("10.1.0.2", &a);
	pl_addr_parse("10.1.0.3", &b);
	assert_int_equal(pl_ipam_check(&s->cfg.where, "a", "eth0", NULL, 0,
				       &s->err), 0);
	assert_int_equal(pl_ipam_check(&s->cfg.where, "a", "eth0", &a, 1,
				       &s->err), 0);
	assert_cni_code(s, pl_ipam_check(&s->cfg.where, "a", "eth0", &b, 1,
					  &s->err), PL_CNI_CHECK_FAILED);
	assert_cni_code(s, pl_ipam_check(&s->cfg.where, "a", "eth1", NULL, 0,
					  &s->err), PL_CNI_CHECK_FAILED);
	put_file(s, "10.1.0.2", "");
	assert_cni_code(s, pl_ipam_check(&s->cfg.where, "a", "eth0", &a, 1,
					  &s->err), PL_CNI_CHECK_FAILED);
}

struct listed {
	int n;
	char text[512];
};

static int on_entry(const struct pl_ipam_entry *e, void *arg)
{
	struct listed *l = arg;
	char addr[INET6_ADDRSTRLEN];
	size_t at = strlen(l->text);

	snprintf(l->text + at, sizeof(l->text) - at, "%s=%s/%s;",
		 pl_addr_str(&e->addr, addr), e->container_id, e->ifname);
	return ++l->n == 7 ? 7 : 0;
}

static void test_list_and_release(void **state)
{
	struct listed l = { 0 };
	struct pl_addr a;
	struct scratch *s = *state;

	scratch_init(s, DUAL);
	pl_addr_parse("fd00::2", &a);
	assert_int_equal(pl_ipam_list(&s->cfg.where, on_entry, &l, &s->err), 0);
	assert_int_equal(pl_ipam_release(&s->cfg.where, &a, &s->err), -ENOENT);
	assert_add(s, "a", "10.1.0.2");
	assert_add(s, "b", "10.1.0.3");
	assert_int_equal(pl_ipam_list(&s->cfg.where, on_entry, &l, &s->err), 0);
	assert_int_equal(l.n, 4);
	assert_non_null(strstr(l.text, "fd00::3=b/eth0;"));
	assert_int_equal(pl_ipam_release(&s->cfg.where, &a, &s->err), 0);
	assert_int_equal(pl_ipam_release(&s->cfg.where, &a, &s->err), -ENOENT);
	assert_int_equal(count_files(s), 3);
	assert_del(s, "a");
	assert_int_equal(count_files(s), 2);
}

static void test_no_directory(void **state)
{
	struct scratch *s = *state;

	scratch_init(s, ONE);
	/* DEL, CHECK and the like make none. */
	assert_del(s, "a");
	assert_int_not_equal(access(s->net, F_OK), 0);
	assert_add(s, "a", "10.1.0.2");
	scratch_wipe(s);
	assert_del(s, "a");
	assert_add(s, "b", "10.1.0.2");
}

static int on_problem(const struct pl_ipam_problem *p, void *arg)
{
	(void)arg;
	fail_msg("%s %s", p->file, p->text);
	return 0;
}

/* Random ADD and DEL of many attachments against a model. */
static void test_model(void **state)
{
	enum { N = 700, STEPS = 12000 };
	char (*have)[INET6_ADDRSTRLEN] = calloc(N, sizeof(*have));
	char text[INET6_ADDRSTRLEN], id[32];
	int n_have = 0, n_full = 0;
	struct scratch *s = *state;
	unsigned int seed = 7, n_reserved;

	scratch_init(s, "[[{'subnet': '10.1.0.0/23', 'rangeStart': "
		     "'10.1.0.9'}]]");		/* 502 addresses */
	for (int i = 0; i < STEPS; i++) {
		int k = rand_r(&seed) % N;
		int rc;

		snprintf(id, sizeof(id), "pod-%d", k);
		if (rand_r(&seed) % 9 == 0) {
			assert_del(s, id);
			n_have -= have[k][0] != '\0';
			have[k][0] = '\0';
			continue;
		}
		rc = add(s, id, text);
		if (have[k][0]) {
			assert_cni_code(s, rc, PL_CNI_DUPLICATE);
			continue;
		}
		if (n_have == 502) {
			assert_cni_code(s, rc, PL_CNI_EXHAUSTED);
			n_full++;
			continue;
		}
		assert_int_equal(rc, 0);
		for (int j = 0; j < N; j++)
			assert_string_not_equal(have[j], text);
		memcpy(have[k], text, sizeof(text));
		n_have++;
	}
	assert_true(n_full > 0);
	assert_int_equal(count_files(s), n_have);
	assert_int_equal(pl_ipam_verify(&s->cfg.where, on_problem, NULL,
					&n_reserved, &s->err), 0);
	assert_int_equal(n_reserved, n_have);
	free(have);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_in_turn_and_wrap),
		scratch_test(test_exhausted),
		scratch_test(test_usage),
		scratch_test(test_one_address),
		scratch_test(test_several_ranges),
		scratch_test(test_gateway_is_not_given),
		scratch_test(test_dual_stack),
		scratch_test(test_second_set_exhausted),
		scratch_test(test_interfaces_are_apart),
		scratch_test(test_add_twice),
		scratch_test(test_requested),
		scratch_test(test_empty_and_garbled_files),
		scratch_test(test_reuse_repairs),
		scratch_test(test_foreign_changes),
		scratch_test(test_reused_by_another),
		scratch_test(test_index_lost_or_damaged),
		scratch_test(test_config_changes),
		scratch_test(test_reservations_of_another_boot),
		scratch_test(test_gc),
		scratch_test(test_check),
		scratch_test(test_list_and_release),
		scratch_test(test_no_directory),
		scratch_test(test_model),
	};

	return cmocka_run_group_tests_name("ipam alloc", tests, NULL, NULL);
}

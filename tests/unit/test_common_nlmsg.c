/* tests/unit/test_common_nlmsg.c - common/nlmsg.h, and what we build */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <linux/rtnetlink.h>

#include "common/nl_internal.h"

static void build(struct pl_nlreq *r)
{
	const struct ifinfomsg ifi = { .ifi_index = 7 };
	struct nlattr *outer, *inner;

	pl_nlreq_init(r, RTM_NEWLINK, NLM_F_CREATE, &ifi, sizeof(ifi));
	pl_nlreq_str(r, IFLA_IFNAME, "eth0");
	outer = pl_nlreq_nest(r, IFLA_LINKINFO);
	pl_nlreq_str(r, IFLA_INFO_KIND, "veth");
	inner = pl_nlreq_nest(r, IFLA_INFO_DATA);
	pl_nlreq_u8(r, 1, 200);
	pl_nlreq_unnest(r, inner);
	pl_nlreq_unnest(r, outer);
	pl_nlreq_u32(r, IFLA_MTU, 1400);
}

static void built_is_parsed(void **state)
{
	const struct nlattr *tb[IFLA_MAX + 1], *info[IFLA_INFO_MAX + 1];
	struct pl_nlreq r;
	char text[16];

	(void)state;
	build(&r);
	assert_false(r.full);
	assert_int_equal(r.hdr.nlmsg_type, RTM_NEWLINK);
	assert_int_equal(r.hdr.nlmsg_flags, NLM_F_REQUEST | NLM_F_CREATE);
	assert_true(pl_nlmsg_ok(&r.hdr, r.hdr.nlmsg_len));
	assert_int_equal(pl_nlmsg_parse(&r.hdr, sizeof(struct ifinfomsg), tb,
					IFLA_MAX), 0);
	pl_nla_str(tb[IFLA_IFNAME], text, sizeof(text));
	assert_string_equal(text, "eth0");
	assert_int_equal(pl_nla_u32(tb[IFLA_MTU]), 1400);
	assert_null(tb[IFLA_ADDRESS]);
	assert_true(pl_nla_parse_nested(tb[IFLA_LINKINFO], info,
					IFLA_INFO_MAX));
	pl_nla_str(info[IFLA_INFO_KIND], text, sizeof(text));
	assert_string_equal(text, "veth");
	assert_false(pl_nla_parse_nested(info[IFLA_INFO_XSTATS], tb, 1));
	assert_true(pl_nla_parse_nested(info[IFLA_INFO_DATA], tb, 1));
	assert_int_equal(pl_nla_u8(tb[1]), 200);
	assert_ptr_equal(pl_nlmsg_find(&r.hdr, sizeof(struct ifinfomsg),
				       IFLA_LINKINFO),
			 (char *)info[IFLA_INFO_KIND] - NLA_HDRLEN);
}

/* Of every beginning, in a block that ends with it, for sanitizers to see. */
static void cut_short(void **state)
{
	const size_t whole = NLMSG_LENGTH(sizeof(struct ifinfomsg));
	struct pl_nlreq r;

	(void)state;
	build(&r);
	for (uint32_t n = NLMSG_HDRLEN; n <= r.hdr.nlmsg_len; n++) {
		const struct nlattr *tb[IFLA_MAX + 1];
		struct nlmsghdr *h = malloc(n);
		const char *end = (char *)h + n;
		int rc;

		assert_non_null(h);
		memcpy(h, &r, n);
		assert_int_equal(pl_nlmsg_ok(h, n), n == r.hdr.nlmsg_len);
		h->nlmsg_len = n;
		rc = pl_nlmsg_parse(h, sizeof(struct ifinfomsg), tb, IFLA_MAX);
		assert_int_equal(rc, n < whole ? -EPROTO : 0);
		for (int i = 0; rc == 0 && i <= IFLA_MAX; i++)
			if (tb[i])
				assert_true((char *)tb[i] + tb[i]->nla_len <=
					    end);
		free(h);
	}
}

/* A length that is no length ends the walk. */
static void bad_lengths(void **state)
{
	static const uint16_t bad[] = { 0, 1, NLA_HDRLEN - 1, 9, 0xffff };
	struct nlattr a[2] = { { NLA_HDRLEN, 2 }, { NLA_HDRLEN, 1 } };
	const struct nlattr *tb[3];

	(void)state;
	pl_nla_parse(a, sizeof(a), tb, 2);
	assert_ptr_equal(tb[2], &a[0]);
	assert_ptr_equal(tb[1], &a[1]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		a[0].nla_len = bad[i];
		pl_nla_parse(a, sizeof(a), tb, 2);
		assert_null(tb[1]);
		assert_null(tb[2]);
		assert_null(pl_nla_find(a, sizeof(a), 1));
	}
}

static void values(void **state)
{
	struct {
		struct nlattr a;
		char data[8];
	} m = { { NLA_HDRLEN + 3, 1 }, "ab\0defg" };
	uint32_t v = 5;
	char text[3] = "";

	(void)state;
	assert_int_equal(pl_nla_u32(&m.a), 0);
	assert_false(pl_nla_copy(&m.a, &v, sizeof(v)));
	assert_false(pl_nla_copy(NULL, &v, sizeof(v)));
	assert_int_equal(v, 5);
	assert_int_equal(pl_nla_u8(&m.a), 'a');
	assert_int_equal(pl_nla_be16(&m.a), 'a' << 8 | 'b');
	pl_nla_str(&m.a, text, sizeof(text));
	assert_string_equal(text, "ab");
	m.data[2] = 'c';
	m.a.nla_len = NLA_HDRLEN + 8;
	pl_nla_str(&m.a, text, sizeof(text));
	assert_string_equal(text, "ab");
	pl_nla_str(NULL, text, sizeof(text));
	assert_string_equal(text, "");
}

static void too_much(void **state)
{
	const struct ifinfomsg ifi = { 0 };
	const char much[PL_NLREQ_BYTES] = "";
	struct pl_nlreq r;
	uint32_t len;

	(void)state;
	pl_nlreq_init(&r, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	pl_nlreq_put(&r, 1, much, PL_NLREQ_BYTES -
		     NLMSG_LENGTH(sizeof(ifi)) - NLA_HDRLEN);
	assert_false(r.full);
	assert_int_equal(r.hdr.nlmsg_len, PL_NLREQ_BYTES);
	len = r.hdr.nlmsg_len;
	pl_nlreq_unnest(&r, pl_nlreq_nest(&r, 2));
	assert_true(r.full);
	assert_int_equal(r.hdr.nlmsg_len, len);
	pl_nlreq_init(&r, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	pl_nlreq_put(&r, 1, much, sizeof(much));
	assert_true(r.full);
	pl_nlreq_u8(&r, 2, 1);
	assert_int_equal(r.hdr.nlmsg_len, NLMSG_LENGTH(sizeof(ifi)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(built_is_parsed),
		cmocka_unit_test(cut_short),
		cmocka_unit_test(bad_lengths),
		cmocka_unit_test(values),
		cmocka_unit_test(too_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

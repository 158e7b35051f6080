/*
 * tests/unit/ipam_test.h - a scratch data directory and short calls for the
 * tests of ipam/
 */
#ifndef TESTS_UNIT_IPAM_TEST_H
#define TESTS_UNIT_IPAM_TEST_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "common/tree.h"
#include "common/json.h"
#include "common/util.h"
#include "ipam/ipam.h"

struct scratch {
	char dir[64];
	char net[80];		/* dir + "/net" */
	cJSON *conf;
	struct pl_ipam_config cfg;
	struct pl_err err;
};

static inline void scratch_wipe(const struct scratch *s)
{
	pl_tree_remove(s->net);
}

/* Every test has one of its own, which goes away also when it fails. */
static inline int scratch_setup(void **state)
{
	*state = calloc(1, sizeof(struct scratch));
	return *state ? 0 : -1;
}

static inline int scratch_teardown(void **state)
{
	struct scratch *s = *state;

	cJSON_Delete(s->conf);
	if (*s->dir)
		pl_tree_remove(s->dir);
	free(s);
	return 0;
}

#define scratch_test(fn) \
	cmocka_unit_test_setup_teardown(fn, scratch_setup, scratch_teardown)

/* A configuration with these "ranges", single quotes standing for double. */
static inline void scratch_ranges(struct scratch *s, const char *ranges)
{
	char text[2048];

	snprintf(text, sizeof(text), "{'cniVersion': '1.1.0', 'name': 'net', "
		 "'ipam': {'dataDir': '%s', 'ranges': %s}}", s->dir, ranges);
	for (char *p = text; *p; p++)
		if (*p == '\'')
			*p = '"';
	cJSON_Delete(s->conf);
	s->conf = NULL;
	assert_int_equal(pl_json_parse(text, strlen(text), &s->conf, &s->err),
			 0);
	if (pl_ipam_config_parse(s->conf, NULL, &s->cfg, &s->err) < 0)
		fail_msg("%s", s->err.msg);
}

static inline void scratch_init(struct scratch *s, const char *ranges)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(s->dir, sizeof(s->dir), "%.40s/podlane-test.XXXXXX",
		 tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(s->dir));
	snprintf(s->net, sizeof(s->net), "%s/net", s->dir);
	scratch_ranges(s, ranges);
}

/* ADD for interface eth0; the first address is in text. Returns as the call. */
static inline int add(struct scratch *s, const char *id, char *text)
{
	struct pl_ipam_result res;
	int rc = pl_ipam_add(&s->cfg, id, "eth0", 0, &res, &s->err);

	text[0] = '\0';
	if (rc == 0)
		pl_addr_str(&res.ips[0].address.addr, text);
	return rc;
}

static inline int del(struct scratch *s, const char *id)
{
	return pl_ipam_del(&s->cfg.where, id, "eth0", &s->err);
}

#define assert_add(s, id, want) do {					\
	char got_[INET6_ADDRSTRLEN];					\
	if (add((s), (id), got_) < 0)					\
		fail_msg("ADD %s: %s", (id), (s)->err.msg);		\
	assert_string_equal(got_, (want));				\
} while (0)

#define assert_del(s, id) do {						\
	if (del((s), (id)) < 0)						\
		fail_msg("DEL %s: %s", (id), (s)->err.msg);		\
} while (0)

#define assert_cni_code(s, rc, want) do {				\
	assert_true((rc) < 0);						\
	assert_int_equal(pl_cni_code(&(s)->err), (want));		\
} while (0)

/* Files of the network's directory that are named like addresses. */
static inline int count_files(const struct scratch *s)
{
	DIR *d = opendir(s->net);
	struct dirent *e;
	struct pl_addr a;
	int n = 0;

	if (!d)
		return 0;
	while ((e = readdir(d)))
		n += pl_addr_parse(e->d_name, &a) == 0;
	closedir(d);
	return n;
}

/* ADD until it fails; the number of ADDs that did not. IDs are PREFIX-N. */
static inline int fill(struct scratch *s, const char *prefix)
{
	char id[64], text[INET6_ADDRSTRLEN];
	int n = 0;

	for (; n < 100000; n++) {
		snprintf(id, sizeof(id), "%s-%d", prefix, n);
		if (add(s, id, text) < 0)
			break;
	}
	assert_int_equal(pl_cni_code(&s->err), PL_CNI_EXHAUSTED);
	return n;
}

/* A file of the network's directory. */
static inline void put_file(const struct scratch *s, const char *name,
			    const char *content)
{
	char path[160];
	int fd;

	pl_mkdirs(s->net, 0755, NULL);
	snprintf(path, sizeof(path), "%s/%s", s->net, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(pl_write_all(fd, content, strlen(content)), 0);
	close(fd);
}

static inline bool has_file(const struct scratch *s, const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", s->net, name);
	return access(path, F_OK) == 0;
}

#endif

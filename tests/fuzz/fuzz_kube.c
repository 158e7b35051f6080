/*
 * tests/fuzz/fuzz_kube.c - Nodes in what the API server sends, and their table
 *
 * The first byte says how: as a list or as a stream, and in pieces of how many
 * bytes. However it is cut, the same objects come.
 */
#include <errno.h>

#include "common/log.h"
#include "daemonset/json_stream.h"
#include "daemonset/kube_node.h"
#include "tests/fuzz/fuzz.h"

#define VALUE_MAX 2048
#define NODES_MAX 64

struct seen {
	struct pl_kube_node *nodes;
	size_t n, hash;
};

static void see_node(struct seen *s, const struct pl_kube_node *from)
{
	struct pl_kube_node *n;

	HASH_FIND_STR(s->nodes, from->node.name, n);
	if (n || HASH_COUNT(s->nodes) == NODES_MAX)
		return;
	n = malloc(sizeof(*n));
	HOLDS(n);
	*n = *from;
	HASH_ADD_STR(s->nodes, node.name, n);
}

static int see(enum pl_json_part part, const cJSON *v, void *arg,
	       struct pl_err *err)
{
	pl_auto_free char *text = cJSON_PrintUnformatted(v);
	struct pl_kube_node n;
	struct seen *s = arg;

	HOLDS(text);
	s->n++;
	s->hash = s->hash * 31 + (size_t)part;
	for (const char *p = text; *p; p++)
		s->hash = s->hash * 31 + (unsigned char)*p;
	if (part != PL_JSON_REST &&
	    pl_kube_node_parse(v, true, &n, err) != -EINVAL)
		see_node(s, &n);
	pl_err_clear(err);
	return 0;
}

static int feed(const char *data, size_t size, bool is_list, size_t piece,
		struct seen *s)
{
	struct pl_err err = { 0 };
	struct pl_json_stream j;
	int rc = 0;

	pl_json_stream_init(&j, is_list, VALUE_MAX, see, s);
	for (size_t i = 0; rc == 0 && i < size; i += piece)
		rc = pl_json_stream_feed(&j, data + i, PL_MIN(piece, size - i),
					 &err);
	HOLDS(rc == 0 || (err.code == -rc && err.msg[0]));
	HOLDS(j.len <= VALUE_MAX);
	pl_json_stream_fini(&j);
	return rc;
}

static void table(struct seen *s)
{
	struct pl_kube_node *n, *next;
	struct pl_err err = { 0 };
	struct pl_registry r;

	pl_registry_init(&r);
	HOLDS(pl_kube_table(s->nodes, &r, &err) == 0);
	HOLDS(r.n <= HASH_COUNT(s->nodes));
	for (size_t i = 0; i < r.n; i++)
		for (int k = 0; k < r.nodes[i].n_cidrs; k++)
			HOLDS(pl_registry_by_pod(&r,
						 &r.nodes[i].cidrs[k].addr) ==
			      &r.nodes[i]);
	pl_registry_fini(&r);
	HASH_ITER(hh, s->nodes, n, next) {
		HASH_DEL(s->nodes, n);
		free(n);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	pl_log_init("fuzz", PL_LOG_ERROR);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole = { .n = 0 }, cut = { .n = 0 };
	const char *text = (const char *)data + 1;
	bool is_list;
	int a, b;

	if (size < 2)
		return 0;
	is_list = data[0] & 1;
	a = feed(text, size - 1, is_list, size, &whole);
	b = feed(text, size - 1, is_list, (data[0] >> 1) + 1, &cut);
	HOLDS(a == b && whole.n == cut.n && whole.hash == cut.hash);
	table(&whole);
	table(&cut);
	return 0;
}

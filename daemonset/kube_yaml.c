/* daemonset/kube_yaml.c - a small YAML document as JSON */
#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "common/util.h"
#include "daemonset/kube_conf.h"

#define BYTES_MAX (1u << 20)
/* Aliases can make a small file a large document. */
#define DEPTH_MAX 32
#define NODES_MAX 100000

struct walk {
	yaml_document_t *doc;
	unsigned int nodes;
};

static cJSON *convert(struct walk *w, int index, unsigned int depth);

static cJSON *scalar(const yaml_node_t *n)
{
	const char *s = (const char *)n->data.scalar.value;

	if (n->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return cJSON_CreateString(s);
	if (!strcmp(s, "true") || !strcmp(s, "false"))
		return cJSON_CreateBool(*s == 't');
	if (!*s || !strcmp(s, "null") || !strcmp(s, "~"))
		return cJSON_CreateNull();
	return cJSON_CreateString(s);
}

static cJSON *sequence(struct walk *w, const yaml_node_t *n,
		       unsigned int depth)
{
	cJSON *list = cJSON_CreateArray();
	const yaml_node_item_t *i;

	for (i = n->data.sequence.items.start;
	     list && i < n->data.sequence.items.top; i++) {
		cJSON *v = convert(w, *i, depth);

		if (!v) {
			cJSON_Delete(list);
			return NULL;
		}
		cJSON_AddItemToArray(list, v);
	}
	return list;
}

static cJSON *mapping(struct walk *w, const yaml_node_t *n, unsigned int depth)
{
	cJSON *obj = cJSON_CreateObject();
	const yaml_node_pair_t *p;

	for (p = n->data.mapping.pairs.start;
	     obj && p < n->data.mapping.pairs.top; p++) {
		yaml_node_t *k = yaml_document_get_node(w->doc, p->key);
		cJSON *v = k && k->type == YAML_SCALAR_NODE ?
				   convert(w, p->value, depth) : NULL;

		if (!v) {
			cJSON_Delete(obj);
			return NULL;
		}
		cJSON_AddItemToObject(obj,
				      (const char *)k->data.scalar.value, v);
	}
	return obj;
}

static cJSON *convert(struct walk *w, int index, unsigned int depth)
{
	const yaml_node_t *n = yaml_document_get_node(w->doc, index);

	if (!n || depth > DEPTH_MAX || ++w->nodes > NODES_MAX)
		return NULL;
	switch (n->type) {
	case YAML_SCALAR_NODE:
		return scalar(n);
	case YAML_SEQUENCE_NODE:
		return sequence(w, n, depth + 1);
	case YAML_MAPPING_NODE:
		return mapping(w, n, depth + 1);
	default:
		return NULL;
	}
}

static int parse(yaml_parser_t *p, cJSON **out, struct pl_err *err)
{
	yaml_document_t doc;
	struct walk w = { .doc = &doc };
	yaml_node_t *root;

	if (!yaml_parser_load(p, &doc))
		return pl_err_set(err, EINVAL, "line %zu: %s",
				  p->problem_mark.line + 1, p->problem ?
				  p->problem : "no YAML");
	root = yaml_document_get_root_node(&doc);
	/* The root is the first of them. */
	*out = root ? convert(&w, 1, 0) : NULL;
	yaml_document_delete(&doc);
	return *out ? 0 : pl_err_set(err, EINVAL, root ? "keys that are no "
				     "texts, or nested too deeply" :
				     "it is empty");
}

int pl_yaml_load(const char *path, cJSON **out, struct pl_err *err)
{
	pl_auto_free char *text = NULL;
	yaml_parser_t p;
	size_t len;
	int rc = pl_file_read(path, BYTES_MAX, &text, &len, err);

	if (rc < 0)
		return rc;
	if (!yaml_parser_initialize(&p))
		return pl_err_set(err, ENOMEM, "out of memory");
	yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
	rc = parse(&p, out, err);
	yaml_parser_delete(&p);
	if (rc < 0)
		pl_err_prefix(err, "%s", path);
	return rc;
}

/* bench/ps_tensors.c - a model of the user's own, as a file of tensors */
#include "bench/ps_tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define BLANK " \t\r\n"
/* 16 GiB of floats: no machine of a laptop's kind goes beyond. */
#define ELEMS_MAX (UINT64_C(1) << 32)

struct list {
	uint32_t *v;
	unsigned int n, room;
	uint64_t elems;
};

/* The product of dimensions; 0: this is no size. */
static uint64_t size_of(char *text)
{
	uint64_t all = 1, n;
	char *save = NULL;

	if (text[0] == 'x' || text[strlen(text) - 1] == 'x' ||
	    strstr(text, "xx"))
		return 0;
	for (char *d = strtok_r(text, "x", &save); d;
	     d = strtok_r(NULL, "x", &save)) {
		if (pl_parse_u64(d, 1, UINT32_MAX, &n) < 0 ||
		    n > UINT32_MAX / all)
			return 0;
		all *= n;
	}
	return all;
}

static int append(struct list *l, uint64_t elems, struct pl_err *err)
{
	if (l->n == l->room) {
		unsigned int room = l->room ? 2 * l->room : 64;
		uint32_t *v = reallocarray(l->v, room, sizeof(*v));

		if (!v)
			return pl_err_set(err, ENOMEM, "out of memory");
		l->v = v;
		l->room = room;
	}
	if (l->n == PS_TENSORS_MAX || elems > ELEMS_MAX - l->elems)
		return pl_err_set(err, EINVAL, "more than %u tensors or %"
				  PRIu64 " elements", PS_TENSORS_MAX,
				  ELEMS_MAX);
	l->v[l->n++] = (uint32_t)elems;
	l->elems += elems;
	return 0;
}

static int take_line(struct list *l, char *line, struct pl_err *err)
{
	char *save = NULL, *word, *last = NULL;
	unsigned int words = 0;
	uint64_t elems;

	line[strcspn(line, "#")] = '\0';
	for (word = strtok_r(line, BLANK, &save); word;
	     word = strtok_r(NULL, BLANK, &save)) {
		last = word;
		words++;
	}
	if (words == 0)
		return 0;
	elems = words > 2 ? 0 : size_of(last);
	if (elems == 0)
		return pl_err_set(err, EINVAL, "give a tensor as NAME SIZE or "
				  "SIZE, with a size such as 2359808 or "
				  "3x3x512x512, below 2^32");
	return append(l, elems, err);
}

static int read_all(FILE *f, struct list *l, struct pl_err *err)
{
	pl_auto_free char *line = NULL;
	unsigned int no = 0;
	size_t room = 0;
	ssize_t len;

	while ((len = getline(&line, &room, f)) >= 0) {
		no++;
		if (strlen(line) != (size_t)len)
			return pl_err_set(err, EINVAL, "line %u: this is no "
					  "text", no);
		if (take_line(l, line, err) < 0) {
			pl_err_prefix(err, "line %u", no);
			return -err->code;
		}
	}
	if (ferror(f))
		return pl_err_sys(err, "reading");
	return l->n ? 0 : pl_err_set(err, EINVAL, "there is no tensor");
}

static struct ps_model *model_of(const char *path, struct list *l)
{
	struct ps_model *m = calloc(1, sizeof(*m));
	char *copy = strdup(path);

	if (m && copy)
		m->name = strdup(basename(copy));
	free(copy);
	if (!m || !m->name) {
		free(m);
		return NULL;
	}
	m->tensors = l->v;
	m->n_tensors = l->n;
	m->elems = l->elems;
	return m;
}

int ps_tensors_load(const char *path, struct ps_model **out,
		    struct pl_err *err)
{
	FILE *f = fopen(path, "re");
	struct list l = { .n = 0 };
	int rc;

	if (!f)
		return pl_err_sys(err, "cannot read tensors from %s", path);
	rc = read_all(f, &l, err);
	fclose(f);
	if (rc < 0)
		pl_err_prefix(err, "tensors of %s", path);
	*out = rc == 0 ? model_of(path, &l) : NULL;
	if (rc == 0 && !*out)
		rc = pl_err_set(err, ENOMEM, "out of memory");
	if (rc < 0)
		free(l.v);
	return rc;
}

void ps_tensors_free(struct ps_model *model)
{
	if (!model)
		return;
	free((void *)model->name);
	free((void *)model->tensors);
	free(model);
}

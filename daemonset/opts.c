/* daemonset/opts.c - command line options by a table */
#include "daemonset/opts.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct pl_opt *find_long(const struct pl_opt *opts, size_t n,
				      const char *name, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(opts[i].name) == len &&
		    !memcmp(opts[i].name, name, len))
			return &opts[i];
	return NULL;
}

static const struct pl_opt *find_short(const struct pl_opt *opts, size_t n,
				       char letter)
{
	for (size_t i = 0; letter && i < n; i++)
		if (opts[i].letter == letter)
			return &opts[i];
	return NULL;
}

/* word is "--name", "--name=VALUE", "-c" or "-cVALUE". */
static const struct pl_opt *find(const struct pl_opt *opts, size_t n,
				 const char *word, const char **value)
{
	const char *eq;

	*value = NULL;
	if (word[1] != '-') {
		*value = word[2] ? word + 2 : NULL;
		return find_short(opts, n, word[1]);
	}
	eq = strchr(word, '=');
	if (!eq)
		return find_long(opts, n, word + 2, strlen(word + 2));
	*value = eq + 1;
	return find_long(opts, n, word + 2, (size_t)(eq - word - 2));
}

/* Returns how many words this option took. */
static int apply(const struct pl_opt *o, const char *value, const char *next,
		 void *conf, struct pl_err *err)
{
	int words = 1, rc;

	if (!o->arg && value)
		return pl_err_set(err, EINVAL, "option --%s takes no value",
				  o->name);
	if (o->arg && !value) {
		value = next;
		words = 2;
	}
	if (o->arg && !value)
		return pl_err_set(err, EINVAL, "option --%s needs a value: %s",
				  o->name, o->arg);
	rc = o->set(conf, value, err);
	return rc < 0 ? rc : words;
}

int pl_opts_parse(const struct pl_opt *opts, size_t n, int argc, char **argv,
		  void *conf, bool *help, struct pl_err *err)
{
	int i = 1;

	*help = false;
	while (i < argc && argv[i][0] == '-' && argv[i][1]) {
		const struct pl_opt *o;
		const char *value;
		int rc;

		if (!strcmp(argv[i], "--"))
			return i + 1;
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			*help = true;
			return i;
		}
		o = find(opts, n, argv[i], &value);
		if (!o)
			return pl_err_set(err, EINVAL,
					  "unknown option %s; --help lists "
					  "them", argv[i]);
		rc = apply(o, value, i + 1 < argc ? argv[i + 1] : NULL, conf,
			   err);
		if (rc < 0)
			return rc;
		i += rc;
	}
	return i;
}

int pl_opts_node(const char **node, char host[PL_OPTS_HOST_BYTES],
		 struct pl_err *err)
{
	if (*node)
		return 0;
	if (gethostname(host, PL_OPTS_HOST_BYTES) < 0)
		return pl_err_sys(err, "cannot get the host name; give --node");
	host[PL_OPTS_HOST_BYTES - 1] = '\0';
	*node = host;
	return 0;
}

void pl_opts_print(FILE *f, const struct pl_opt *opts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char left[64], letter[8] = "    ";

		if (opts[i].letter)
			snprintf(letter, sizeof(letter), "-%c, ",
				 opts[i].letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter,
			 opts[i].name, opts[i].arg ? " " : "",
			 opts[i].arg ? opts[i].arg : "");
		fprintf(f, "  %-26s %s\n", left, opts[i].help);
	}
	fprintf(f, "  %-26s %s\n", "-h, --help", "show this");
}

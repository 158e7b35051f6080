/*
 * tests/fuzz/fuzz_plugin_conf.c - the CNI plugin's configuration
 *
 * As the runtime gives it on standard input, with prevResult, for each command;
 * CNI_ARGS are the first piece of the input. What could be read of a previous
 * result is printed in the form of every version.
 */
#include "ipam/cni.h"
#include "plugin/conf.h"
#include "plugin/result.h"
#include "tests/fuzz/fuzz.h"

static void results(const struct pl_conf *c)
{
	static const char *const versions[] = { "0.1.0", "0.2.0", "0.3.0",
						"0.3.1", "0.4.0", "1.0.0",
						"1.1.0" };
	struct pl_err err = { 0 };
	struct pl_result r = { 0 }, again = { 0 };

	if (!c->prev)
		return;
	if (pl_result_parse(c->prev, &r, &err) < 0) {
		HOLDS(err.code > 0 && r.n_ips == 0 && !r.ips);
		return;
	}
	for (size_t i = 0; i < PL_ARRAY_SIZE(versions); i++) {
		cJSON *j = pl_result_print(&r, versions[i]);

		HOLDS(j);
		/* What we print, we can read. */
		HOLDS(pl_result_parse(j, &again, &err) == 0);
		pl_result_fini(&again);
		cJSON_Delete(j);
	}
	pl_result_fini(&r);
}

static void parse(const char *text, size_t len, const char *args,
		  enum pl_cni_cmd cmd)
{
	struct pl_cni_conf doc;
	struct pl_err err = { 0 };
	const cJSON *list;
	struct pl_conf c;
	char path[32];
	int fd = fuzz_file(text, len, path);

	HOLDS(lseek(fd, 0, SEEK_SET) == 0);
	if (pl_cni_conf_read(fd, cmd, &doc, &err) == 0) {
		if (pl_conf_parse(&doc, args, true, &c, &err) == 0)
			results(&c);
		else
			HOLDS(err.code > 0 && err.msg[0]);
		/* DEL gets through whatever is in it. */
		HOLDS(pl_conf_parse(&doc, args, false, &c, &err) == 0);
		pl_cni_gc_valid(doc.json, &list, &err);
	} else {
		HOLDS(err.code > 0 && err.msg[0]);
	}
	HOLDS(memchr(doc.version_text, '\0', sizeof(doc.version_text)));
	pl_cni_conf_fini(&doc);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { data, size };
	char args[257];
	char *text;
	size_t len;

	/* A seed is plain JSON: no arguments. */
	args[0] = '\0';
	if (size && data[0] != '{')
		fuzz_piece(&f, args, sizeof(args) - 1);
	len = f.left;
	text = malloc(len + 1);
	HOLDS(text);
	fuzz_take(&f, text, len);
	parse(text, len, args, PL_CNI_ADD);
	parse(text, len, args, PL_CNI_GC);
	free(text);
	return 0;
}

/* bench/lane_job.c - a job as words, and the process that gets them */
#include "bench/lane_perf.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/util.h"

static const char *const whats[LP_WHATS] = { "latency", "stream", "many",
					     "idle", "connect" };
static const char *const waits[LP_WAITS] = { "auto", "spin", "sleep",
					     "one-cpu" };
static const char *const ways[LP_WAYS] = { "copy", "in-place", "batch" };
const char *const lp_places[LP_PLACES] = { "same-node", "cross-node" };

const char *lp_what_name(enum lp_what w)
{
	return whats[w];
}

const char *lp_wait_name(enum lp_wait w)
{
	return waits[w];
}

const char *lp_way_name(enum lp_way w)
{
	return ways[w];
}

const char *lp_place_name(enum lp_place p)
{
	return lp_places[p];
}

enum kind { NUMBER, TEXT };

static const struct word {
	const char *key;
	enum kind kind;
	size_t at, size;		/* size: of a text */
	uint64_t max;			/* of a number */
} words[] = {
#define NUM(f, m) { #f, NUMBER, offsetof(struct lp_job, f), 0, m }
#define TXT(f) { #f, TEXT, offsetof(struct lp_job, f), \
		 sizeof(((struct lp_job *)0)->f), 0 }
	NUM(what, LP_WHATS - 1), NUM(link, LP_LINKS - 1),
	NUM(wait, LP_WAITS - 1), NUM(way, LP_WAYS - 1),
	NUM(lanes, LP_LANES_MAX), NUM(ring_bytes, 1u << 30),
	NUM(ms, 600000), NUM(loose, 1), TXT(addr), TXT(path),
#undef NUM
#undef TXT
};

void lp_job_words(const struct lp_job *j, struct lp_words *w)
{
	char *sizes;
	size_t n = 0, len = 0;

	memset(w, 0, sizeof(*w));
	snprintf(w->text[n++], LP_WORD_BYTES, "lane_perf");
	snprintf(w->text[n++], LP_WORD_BYTES, "role");
	snprintf(w->text[n++], LP_WORD_BYTES, "server=%d", j->is_server);
	for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++) {
		const void *f = (const char *)j + words[i].at;

		if (words[i].kind == NUMBER)
			snprintf(w->text[n++], LP_WORD_BYTES, "%s=%u",
				 words[i].key, *(const unsigned int *)f);
		else
			snprintf(w->text[n++], LP_WORD_BYTES, "%s=%s",
				 words[i].key, (const char *)f);
	}
	sizes = w->text[n++];
	len = (size_t)snprintf(sizes, LP_WORD_BYTES, "sizes=");
	for (unsigned int i = 0; i < j->n_sizes; i++)
		len += (size_t)snprintf(sizes + len, LP_WORD_BYTES - len,
					"%s%u", i ? "," : "", j->sizes[i]);
	for (size_t i = 0; i < n; i++)
		w->argv[i] = w->text[i];
}

static int parse_sizes(const char *v, struct lp_job *j)
{
	char part[16];

	for (j->n_sizes = 0; *v; v += *v == ',') {
		size_t len = strcspn(v, ",");
		uint64_t n;

		if (len >= sizeof(part) || j->n_sizes == LP_SIZES_MAX)
			return -EINVAL;
		memcpy(part, v, len);
		part[len] = '\0';
		if (pl_parse_u64(part, 8, LP_SIZE_MAX, &n) < 0)
			return -EINVAL;
		j->sizes[j->n_sizes++] = (uint32_t)n;
		v += len;
	}
	return 0;
}

static int parse_word(const char *key, size_t len, const char *v,
		      struct lp_job *j)
{
	uint64_t n;

	if (len == 5 && !strncmp(key, "sizes", len))
		return parse_sizes(v, j);
	if (len == 6 && !strncmp(key, "server", len)) {
		j->is_server = *v == '1';
		return 0;
	}
	for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++) {
		void *f = (char *)j + words[i].at;

		if (strlen(words[i].key) != len ||
		    strncmp(key, words[i].key, len))
			continue;
		if (words[i].kind == TEXT)
			return pl_format(f, words[i].size, "%s", v) < 0 ?
			       -EINVAL : 0;
		if (pl_parse_u64(v, 0, words[i].max, &n) < 0)
			return -EINVAL;
		*(unsigned int *)f = (unsigned int)n;
		return 0;
	}
	return -EINVAL;
}

int lp_job_parse(int argc, char **argv, struct lp_job *j, struct pl_err *err)
{
	uint64_t fd;

	memset(j, 0, sizeof(*j));
	j->report_fd = -1;
	for (int i = 1; i < argc; i++) {
		const char *eq = strchr(argv[i], '=');

		if (!strcmp(argv[i], "--report") && i + 1 < argc &&
		    pl_parse_u64(argv[++i], 0, 65535, &fd) == 0) {
			j->report_fd = (int)fd;
			continue;
		}
		if (!eq || parse_word(argv[i], (size_t)(eq - argv[i]), eq + 1,
				      j) < 0)
			return pl_err_set(err, EINVAL, "'%.100s' is no word of "
					  "a job", argv[i]);
	}
	if (j->report_fd < 0)
		return pl_err_set(err, EINVAL, "role is for lane_perf's own "
				  "use");
	return 0;
}

static int run(const struct lp_job *j, cJSON *rows, struct pl_err *err)
{
	static int (*const runs[LP_WHATS])(const struct lp_job *j, cJSON *rows,
					   struct pl_err *err) = {
		lp_latency_run, lp_stream_run, lp_many_run, lp_idle_run,
		lp_connect_run,
	};

	return runs[j->what](j, rows, err);
}

int lp_role_main(int argc, char **argv)
{
	struct pl_err err = { .code = 0 };
	struct lp_job j;
	int rc = lp_job_parse(argc, argv, &j, &err);
	cJSON *rows = cJSON_CreateArray();
	char *text;

	if (rc == 0) {
		prctl(PR_SET_NAME, j.is_server ? "lp-server" : "lp-client");
		rc = run(&j, rows, &err);
	}
	text = cJSON_PrintUnformatted(rows);
	if (rc == 0 && (!text || pl_write_all(j.report_fd, text,
					      strlen(text)) < 0))
		rc = pl_err_set(&err, EIO, "cannot report");
	cJSON_Delete(rows);
	free(text);
	if (rc < 0)
		fprintf(stderr, "%s\n", err.msg);
	return rc < 0;
}

/* bench/ps_csv.c - results as comma-separated values */
#include "bench/ps_csv.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* Text with a comma, a quote or a newline stands in quotes. */
static void text(FILE *f, const char *s)
{
	if (!strpbrk(s, ",\"\n")) {
		fputs(s, f);
		return;
	}
	fputc('"', f);
	for (; *s; s++)
		fprintf(f, *s == '"' ? "\"\"" : "%c", *s);
	fputc('"', f);
}

static void cell(FILE *f, const cJSON *v)
{
	pl_auto_free char *raw = NULL;

	if (cJSON_IsString(v)) {
		text(f, v->valuestring);
	} else if (!cJSON_IsNull(v)) {
		raw = cJSON_PrintUnformatted(v);
		fputs(raw ? raw : "", f);
	}
}

/* The names of an object's members, or their values; nested ones in place. */
static void line(FILE *f, const cJSON *obj, const char *prefix, bool names,
		 unsigned int *n)
{
	const cJSON *v;
	char name[128];

	cJSON_ArrayForEach(v, obj) {
		snprintf(name, sizeof(name), "%s%s%s", prefix,
			 *prefix ? "." : "", v->string);
		if (cJSON_IsObject(v)) {
			line(f, v, name, names, n);
			continue;
		}
		if (cJSON_IsArray(v))
			continue;
		fputs((*n)++ ? "," : "", f);
		if (names)
			text(f, name);
		else
			cell(f, v);
	}
}

int ps_csv_save(const char *path, const cJSON *doc, struct pl_err *err)
{
	const cJSON *list = cJSON_GetObjectItem(doc, "results"), *r;
	pl_auto_free char *buf = NULL;
	unsigned int n = 0;
	size_t len = 0;
	FILE *f = open_memstream(&buf, &len);

	if (!f)
		return pl_err_set(err, ENOMEM, "out of memory");
	line(f, cJSON_GetArrayItem(list, 0), "", true, &n);
	line(f, doc, "", true, &n);
	fputc('\n', f);
	cJSON_ArrayForEach(r, list) {
		n = 0;
		line(f, r, "", false, &n);
		line(f, doc, "", false, &n);
		fputc('\n', f);
	}
	if (fclose(f) != 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	return pl_file_replace(path, buf, len, 0644, err);
}

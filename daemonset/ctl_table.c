/* daemonset/ctl_table.c - lists of JSON objects as aligned tables */
#include "daemonset/ctl_table.h"

#include <stdbool.h>
#include <string.h>

#include "common/util.h"

#define COLUMNS_MAX 16

static const cJSON *find(const cJSON *row, const char *key)
{
	const char *dot = strchr(key, '.');
	char head[32];

	if (!dot)
		return cJSON_GetObjectItemCaseSensitive(row, key);
	if ((size_t)(dot - key) >= sizeof(head))
		return NULL;
	memcpy(head, key, (size_t)(dot - key));
	head[dot - key] = '\0';
	return find(cJSON_GetObjectItemCaseSensitive(row, head), dot + 1);
}

static void format_bytes(double v, char *buf, size_t size)
{
	static const char units[] = "\0KMGTP";
	size_t i = 0;

	while (v >= 1024 && i + 1 < sizeof(units) - 1) {
		v /= 1024;
		i++;
	}
	if (i == 0)
		snprintf(buf, size, "%.0f", v);
	else
		snprintf(buf, size, "%.1f%c", v, units[i]);
}

static void join(const cJSON *list, char *buf, size_t size)
{
	size_t n = 0;
	const cJSON *e;

	buf[0] = '\0';
	cJSON_ArrayForEach(e, list) {
		int r;

		if (!cJSON_IsString(e) || n >= size)
			continue;
		r = snprintf(buf + n, size - n, "%s%s", n ? "," : "",
			     e->valuestring);
		n += r > 0 ? (size_t)r : 0;
	}
}

static void format_number(double v, enum pl_cell kind, char *buf, size_t size)
{
	if (kind == PL_CELL_BYTES)
		format_bytes(v, buf, size);
	else
		snprintf(buf, size, "%.0f", v);
}

/* Names come from pods: a terminal must not act on what is in them. */
static void make_printable(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

void pl_cell_format(const cJSON *row, const struct pl_column *c, char *buf,
		    size_t size)
{
	const cJSON *v = find(row, c->key);
	const cJSON *of = c->of ? find(row, c->of) : NULL;
	size_t n;

	buf[0] = '\0';
	if (cJSON_IsArray(v))
		join(v, buf, size);
	else if (cJSON_IsBool(v))
		snprintf(buf, size, "%s", cJSON_IsTrue(v) ? "yes" : "no");
	else if (cJSON_IsString(v))
		snprintf(buf, size, "%s", v->valuestring);
	else if (cJSON_IsNumber(v))
		format_number(v->valuedouble, c->kind, buf, size);
	n = strlen(buf);
	if (n && n + 1 < size && cJSON_IsNumber(of)) {
		buf[n++] = '/';
		format_number(of->valuedouble, c->kind, buf + n, size - n);
	}
	if (!buf[0])
		snprintf(buf, size, "-");
	make_printable(buf);
}

static void print_cell(FILE *f, const struct pl_column *c, const char *text,
		       size_t width, bool is_last)
{
	if (c->kind != PL_CELL_TEXT)
		fprintf(f, "%*s", (int)width, text);
	else if (is_last)
		fprintf(f, "%s", text);
	else
		fprintf(f, "%-*s", (int)width, text);
	fputs(is_last ? "\n" : "  ", f);
}

void pl_table_print(FILE *f, const cJSON *list, const struct pl_column *columns,
		    size_t n)
{
	size_t width[COLUMNS_MAX];
	char buf[PL_CELL_MAX];
	const cJSON *row;

	n = PL_MIN(n, (size_t)COLUMNS_MAX);
	for (size_t i = 0; i < n; i++) {
		width[i] = strlen(columns[i].title);
		cJSON_ArrayForEach(row, list) {
			pl_cell_format(row, &columns[i], buf, sizeof(buf));
			width[i] = PL_MAX(width[i], strlen(buf));
		}
	}
	for (size_t i = 0; i < n; i++)
		print_cell(f, &columns[i], columns[i].title, width[i],
			   i + 1 == n);
	cJSON_ArrayForEach(row, list) {
		for (size_t i = 0; i < n; i++) {
			pl_cell_format(row, &columns[i], buf, sizeof(buf));
			print_cell(f, &columns[i], buf, width[i], i + 1 == n);
		}
	}
}

void pl_doc_print(FILE *f, const cJSON *doc)
{
	pl_auto_free char *text = cJSON_Print(doc);

	fprintf(f, "%s\n", text ? text : "");
}

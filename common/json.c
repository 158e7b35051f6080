/* common/json.c - typed, checked access to cJSON objects */
#include "common/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/util.h"

#define JSON_FILE_MAX (64u << 20)

static void position(const char *text, const char *at, int *line, int *col)
{
	*line = 1;
	*col = 1;
	for (; text < at; text++) {
		if (*text == '\n') {
			++*line;
			*col = 1;
		} else {
			++*col;
		}
	}
}

/*
 * A byte of value 0 or an escape that means one, or NULL. cJSON takes both
 * into strings, which then end there: another string than the text has.
 */
static const char *find_nul(const char *text, size_t len)
{
	const char *raw = memchr(text, 0, len), *at = text;
	const char *end = raw ? raw : text + len;

	while ((at = memchr(at, '\\', end - at)) && end - at >= 2) {
		if (end - at >= 6 && !memcmp(at + 1, "u0000", 5))
			return at;
		at += 2;
	}
	return raw;
}

int pl_json_parse(const char *text, size_t len, cJSON **out, struct pl_err *err)
{
	const char *nul = find_nul(text, len), *end = NULL;
	cJSON *j = cJSON_ParseWithLengthOpts(text, nul ? (size_t)(nul - text) :
					     len, &end, 0);
	int line, col;

	/* A NUL within len bytes is no end. */
	while (j && end < text + len && *end && strchr(" \t\r\n", *end))
		end++;
	if (j && end == text + len) {
		*out = j;
		return 0;
	}
	cJSON_Delete(j);
	position(text, end ? end : text, &line, &col);
	return pl_err_set(err, EINVAL, "not valid JSON at line %d column %d",
			  line, col);
}

int pl_json_load(const char *path, cJSON **out, struct pl_err *err)
{
	pl_auto_free char *text = NULL;
	size_t len;
	int rc = pl_file_read(path, JSON_FILE_MAX, &text, &len, err);

	if (rc < 0)
		return rc;
	rc = pl_json_parse(text, len, out, err);
	if (rc < 0)
		pl_err_prefix(err, "%s", path);
	return rc;
}

void pl_json_add_text(cJSON *obj, const char *key, const char *text)
{
	if (text[0])
		cJSON_AddStringToObject(obj, key, text);
	else
		cJSON_AddNullToObject(obj, key);
}

int pl_json_save(const char *path, const cJSON *doc, mode_t mode,
		 struct pl_err *err)
{
	pl_auto_free char *text = cJSON_Print(doc);

	if (!text)
		return pl_err_set(err, ENOMEM, "out of memory");
	return pl_file_replace(path, text, strlen(text), mode, err);
}

const cJSON *pl_json_member(const cJSON *obj, const char *key)
{
	const cJSON *m, *found = NULL;

	if (!cJSON_IsObject(obj))
		return NULL;
	cJSON_ArrayForEach(m, obj) {
		if (m->string && !strcasecmp(m->string, key) &&
		    (!found || !cJSON_IsNull(m)))
			found = m;
	}
	return found;
}

static const cJSON *find(const cJSON *obj, const char *key)
{
	const cJSON *v = pl_json_member(obj, key);

	return v && !cJSON_IsNull(v) ? v : NULL;
}

static int wrong(struct pl_err *err, const char *where, const char *key,
		 const char *want, const cJSON *v)
{
	pl_auto_free char *is = cJSON_PrintUnformatted(v);

	return pl_err_set(err, EINVAL, "%s%s%s must be %s, not %.200s", where,
			  *where ? "." : "", key, want, is ? is : "this");
}

static int wrong_number(struct pl_err *err, const char *where,
			const char *key, int64_t min, int64_t max,
			const cJSON *v)
{
	char want[96];

	snprintf(want, sizeof(want), "a whole number from %lld to %lld",
		 (long long)min, (long long)max);
	return wrong(err, where, key, want, v);
}

int pl_json_str(const cJSON *obj, const char *where, const char *key,
		const char **out, struct pl_err *err)
{
	const cJSON *v = find(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsString(v))
		return wrong(err, where, key, "a string", v);
	*out = v->valuestring;
	return 1;
}

int pl_json_bool(const cJSON *obj, const char *where, const char *key,
		 bool *out, struct pl_err *err)
{
	const cJSON *v = find(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsBool(v))
		return wrong(err, where, key, "true or false", v);
	*out = cJSON_IsTrue(v);
	return 1;
}

int pl_json_int(const cJSON *obj, const char *where, const char *key,
		int64_t min, int64_t max, int64_t *out, struct pl_err *err)
{
	const cJSON *v = find(obj, key);
	double d;

	if (!v)
		return 0;
	d = cJSON_IsNumber(v) ? v->valuedouble : NAN;
	if (!(d >= (double)min && d <= (double)max) || d != floor(d) ||
	    fabs(d) > 9007199254740992.0)
		return wrong_number(err, where, key, min, max, v);
	*out = (int64_t)d;
	return 1;
}

int pl_json_obj(const cJSON *obj, const char *where, const char *key,
		const cJSON **out, struct pl_err *err)
{
	const cJSON *v = find(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsObject(v))
		return wrong(err, where, key, "an object", v);
	*out = v;
	return 1;
}

int pl_json_arr(const cJSON *obj, const char *where, const char *key,
		const cJSON **out, struct pl_err *err)
{
	const cJSON *v = find(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsArray(v))
		return wrong(err, where, key, "a list", v);
	*out = v;
	return 1;
}

int pl_json_only(const cJSON *obj, const char *where, const char *const *keys,
		 struct pl_err *err)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, obj) {
		const char *const *k = keys;

		while (*k && strcmp(*k, v->string))
			k++;
		if (!*k)
			return pl_err_set(err, EINVAL,
					  "%s%s%s is no known key", where,
					  *where ? "." : "", v->string);
	}
	return 0;
}

/*
 * common/json.h - typed, checked access to cJSON objects
 *
 * Each getter names the key in its error. "Where" is a path prefix for the
 * message ("ipam.ranges[0][0]"), "" at the top. An absent key leaves *out as it
 * was and returns 0; a present key of the wrong type or range is -EINVAL; a
 * present key returns 1. A JSON null counts as absent.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <cjson/cJSON.h>

#include "common/err.h"

/* Parse len bytes, all of them; the error tells line and column. */
int pl_json_parse(const char *text, size_t len, cJSON **out,
		  struct pl_err *err);
int pl_json_load(const char *path, cJSON **out, struct pl_err *err);
/* A member of obj, null where the text is empty. */
void pl_json_add_text(cJSON *obj, const char *key, const char *text);
/* As pl_file_replace. doc NULL: there was no memory for it. */
int pl_json_save(const char *path, const cJSON *doc, mode_t mode,
		 struct pl_err *err);

/*
 * The member that Go's decoder takes for key, since the configurations of CNI
 * are written for programs in Go: letters (ASCII) match in either case, and of
 * several the last that is not null counts. NULL: there is none. The getters
 * below find members in this way.
 */
const cJSON *pl_json_member(const cJSON *obj, const char *key);

/* *out points into obj. */
int pl_json_str(const cJSON *obj, const char *where, const char *key,
		const char **out, struct pl_err *err);
int pl_json_bool(const cJSON *obj, const char *where, const char *key,
		 bool *out, struct pl_err *err);
/* Whole numbers only, at most 2^53. */
int pl_json_int(const cJSON *obj, const char *where, const char *key,
		int64_t min, int64_t max, int64_t *out, struct pl_err *err);
int pl_json_obj(const cJSON *obj, const char *where, const char *key,
		const cJSON **out, struct pl_err *err);
int pl_json_arr(const cJSON *obj, const char *where, const char *key,
		const cJSON **out, struct pl_err *err);

/*
 * Every key must be one of the list, which NULL ends: a misspelt key would else
 * be a setting that silently does nothing.
 */
int pl_json_only(const cJSON *obj, const char *where, const char *const *keys,
		 struct pl_err *err);

static inline void pl_json_free(cJSON **j)
{
	cJSON_Delete(*j);
	*j = NULL;
}
#define pl_auto_json __attribute__((cleanup(pl_json_free))) cJSON

#endif

/*
 * daemonset/policy.c - the policy file; see policy.h
 *
 * A document that was checked is kept as it is, and looked through for each
 * request of a pod of another namespace: these are few, and so are rules.
 */
#include "daemonset/policy.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/util.h"
#include "daemonset/file_watch.h"

#define RULES_MAX 10000
#define NAMES_MAX 1000

struct pl_policy {
	char path[PATH_MAX];
	cJSON *now;
	struct pl_err problem;
	struct pl_file_watch *watch;
};

static const char *const kind_keys[] = {
	[PL_POLICY_SERVICE] = "services",
	[PL_POLICY_REGION] = "regions",
};

/* --- checking ------------------------------------------------------------ */

/* A "*" stands alone, or with is_name at the end. */
static int check_text(const cJSON *v, const char *where, const char *key,
		      bool is_name, struct pl_err *err)
{
	const char *s = cJSON_IsString(v) ? v->valuestring : "", *star;

	if (!*s)
		return pl_err_set(err, EINVAL, "%s.%s must have texts that are "
				  "not empty", where, key);
	star = strchr(s, '*');
	if (!star || (!star[1] && (is_name || star == s)))
		return 0;
	return pl_err_set(err, EINVAL, "%s.%s: '%.64s': a * may only %s", where,
			  key, s, is_name ? "be at the end" : "stand alone");
}

static int check_texts(const cJSON *rule, const char *where, const char *key,
		       bool is_name, struct pl_err *err)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(rule, key), *e;
	int rc = 0;

	if (cJSON_IsString(v) && !is_name)
		return check_text(v, where, key, is_name, err);
	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) > NAMES_MAX)
		return pl_err_set(err, EINVAL, "%s.%s must be a list of up to "
				  "%d texts", where, key, NAMES_MAX);
	cJSON_ArrayForEach(e, v) {
		rc = check_text(e, where, key, is_name, err);
		if (rc < 0)
			break;
	}
	return rc;
}

static int check_rule(const cJSON *rule, size_t index, struct pl_err *err)
{
	static const char *const keys[] = { "to", "from", "services",
					    "regions", NULL };
	char where[32];
	int rc;

	pl_format(where, sizeof(where), "allow[%zu]", index);
	if (!cJSON_IsObject(rule))
		return pl_err_set(err, EINVAL, "%s must be an object", where);
	rc = pl_json_only(rule, where, keys, err);
	for (size_t i = 0; i < 4 && rc == 0; i++) {
		if (i >= 2 && !cJSON_HasObjectItem(rule, keys[i]))
			continue;
		rc = check_texts(rule, where, keys[i], i >= 2, err);
	}
	return rc;
}

int pl_policy_check(const cJSON *doc, struct pl_err *err)
{
	static const char *const keys[] = { "allow", NULL };
	const cJSON *list = NULL, *rule;
	size_t i = 0;
	int rc;

	if (!cJSON_IsObject(doc))
		return pl_err_set(err, EINVAL, "a policy must be an object: "
				  "{\"allow\": [...]}");
	rc = pl_json_only(doc, "", keys, err);
	if (rc == 0)
		rc = pl_json_arr(doc, "", "allow", &list, err);
	if (rc == 0)
		return pl_err_set(err, EINVAL, "allow is missing");
	if (rc < 0)
		return rc;
	if (cJSON_GetArraySize(list) > RULES_MAX)
		return pl_err_set(err, EINVAL, "allow has more than %d rules",
				  RULES_MAX);
	cJSON_ArrayForEach(rule, list) {
		rc = check_rule(rule, i++, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* --- asking -------------------------------------------------------------- */

static bool text_fits(const char *pattern, const char *s)
{
	size_t n = strlen(pattern);

	if (n && pattern[n - 1] == '*')
		return !strncmp(pattern, s, n - 1);
	return !strcmp(pattern, s);
}

static bool fits(const cJSON *v, const char *s)
{
	const cJSON *e;

	if (cJSON_IsString(v))
		return text_fits(v->valuestring, s);
	cJSON_ArrayForEach(e, v) {
		if (text_fits(e->valuestring, s))
			return true;
	}
	return false;
}

static const cJSON *part(const cJSON *rule, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(rule, key);
}

static bool names_fit(const cJSON *rule, enum pl_policy_kind kind,
		      const char *name)
{
	const cJSON *names = part(rule, kind_keys[kind]);

	if (names)
		return fits(names, name);
	return !part(rule, kind_keys[!kind]);
}

bool pl_policy_says(const cJSON *doc, enum pl_policy_kind kind,
		    const char *name, const char *owner_ns, const char *ns)
{
	const cJSON *rule;

	cJSON_ArrayForEach(rule, part(doc, "allow")) {
		if (fits(part(rule, "to"), owner_ns) &&
		    fits(part(rule, "from"), ns) &&
		    names_fit(rule, kind, name))
			return true;
	}
	return false;
}

bool pl_policy_allows(const struct pl_policy *p, enum pl_policy_kind kind,
		      const char *name, const char *owner_ns, const char *ns)
{
	return p && pl_policy_says(p->now, kind, name, owner_ns, ns);
}

cJSON *pl_policy_rules(const struct pl_policy *p)
{
	return p ? cJSON_Duplicate(part(p->now, "allow"), true) :
		   cJSON_CreateArray();
}

const char *pl_policy_problem(const struct pl_policy *p)
{
	return p->problem.msg;
}

/* --- the file ------------------------------------------------------------ */

static int load(const char *path, cJSON **out, struct pl_err *err)
{
	int rc = pl_json_load(path, out, err);

	if (rc < 0)
		return rc;
	rc = pl_policy_check(*out, err);
	if (rc < 0) {
		pl_json_free(out);
		pl_err_prefix(err, "%s", path);
	}
	return rc;
}

static void reload(void *arg)
{
	struct pl_err err = { 0 };
	struct pl_policy *p = arg;
	cJSON *now = NULL;

	if (load(p->path, &now, &err) < 0) {
		if (strcmp(err.msg, p->problem.msg))
			pl_warn("%s; the rules stay as they were", err.msg);
		p->problem = err;
		return;
	}
	if (p->problem.code || !cJSON_Compare(now, p->now, true))
		pl_info("%s: %d rules hold", p->path,
			cJSON_GetArraySize(part(now, "allow")));
	pl_err_clear(&p->problem);
	pl_json_free(&p->now);
	p->now = now;
}

int pl_policy_open(struct event_base *base, const char *path,
		   struct pl_policy **out, struct pl_err *err)
{
	struct pl_policy *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = pl_file_watch_open(base, path, reload, p, &p->watch, err);
	if (rc == 0) {
		pl_format(p->path, sizeof(p->path), "%s", path);
		rc = load(p->path, &p->now, err);
	}
	if (rc < 0) {
		pl_policy_close(p);
		return rc;
	}
	*out = p;
	return 0;
}

void pl_policy_close(struct pl_policy *p)
{
	if (!p)
		return;
	pl_file_watch_close(p->watch);
	pl_json_free(&p->now);
	free(p);
}

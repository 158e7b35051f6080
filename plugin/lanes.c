/* plugin/lanes.c - whether a pod gets lanes, and how much it may share */
#include "plugin/lanes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"

#define ANNOTATIONS "io.kubernetes.cri.pod-annotations"
#define DIGITS_MAX 18
#define EXPONENT_MAX 18

/* --- quantities --- */

static const struct {
	const char *suffix;
	uint64_t factor;
} suffixes[] = {
	{ "", 1 },
	{ "k", UINT64_C(1000) },
	{ "M", UINT64_C(1000000) },
	{ "G", UINT64_C(1000000000) },
	{ "T", UINT64_C(1000000000000) },
	{ "P", UINT64_C(1000000000000000) },
	{ "E", UINT64_C(1000000000000000000) },
	{ "Ki", UINT64_C(1) << 10 },
	{ "Mi", UINT64_C(1) << 20 },
	{ "Gi", UINT64_C(1) << 30 },
	{ "Ti", UINT64_C(1) << 40 },
	{ "Pi", UINT64_C(1) << 50 },
	{ "Ei", UINT64_C(1) << 60 },
};

static uint64_t power_of_ten(unsigned int n)
{
	uint64_t v = 1;

	while (n--)
		v *= 10;
	return v;
}

/* "e3" or "E+3", which is no suffix E. */
static bool exponent(const char *s, uint64_t *factor)
{
	uint64_t n;

	if (*s != 'e' && *s != 'E')
		return false;
	s += 1 + (s[1] == '+');
	if (!isdigit((unsigned char)*s) ||
	    pl_parse_u64(s, 0, EXPONENT_MAX, &n) < 0)
		return false;
	*factor = power_of_ten((unsigned int)n);
	return true;
}

static bool factor_of(const char *s, uint64_t *factor)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(suffixes); i++) {
		if (!strcmp(s, suffixes[i].suffix)) {
			*factor = suffixes[i].factor;
			return true;
		}
	}
	return exponent(s, factor);
}

int pl_lanes_quantity(const char *s, uint64_t *bytes)
{
	unsigned int digits = 0, after_point = 0;
	uint64_t v = 0, factor, divisor;
	unsigned __int128 n;
	bool point = false;

	for (; isdigit((unsigned char)*s) || (*s == '.' && !point); s++) {
		if (*s == '.') {
			point = true;
			continue;
		}
		if (++digits > DIGITS_MAX)
			return -ERANGE;
		v = v * 10 + (uint64_t)(*s - '0');
		after_point += point;
	}
	if (!digits || !factor_of(s, &factor))
		return -EINVAL;
	divisor = power_of_ten(after_point);
	n = ((unsigned __int128)v * factor + divisor - 1) / divisor;
	if (n > PL_LANES_LIMIT_MAX)
		return -ERANGE;
	*bytes = (uint64_t)n;
	return 0;
}

/* --- the configuration --- */

static int parse_word(const char *where, const char *word, bool *enabled,
		      struct pl_err *err)
{
	bool on = !strcmp(word, "enabled");

	if (!on && strcmp(word, "disabled"))
		return pl_err_set(err, EINVAL, "%s must be \"enabled\" or "
				  "\"disabled\", is \"%.64s\"", where, word);
	*enabled = on;
	return 0;
}

static int parse_limit(const char *text, struct pl_lanes *l,
		       struct pl_err *err)
{
	if (pl_lanes_quantity(text, &l->memory_limit) < 0)
		return pl_err_set(err, EINVAL, "the pod's annotation "
				  "podlane.io/memory-limit must be a number of "
				  "bytes up to 8Pi like \"64Mi\", is "
				  "\"%.64s\"", text);
	return 0;
}

static int parse_allow(const char *text, struct pl_lanes *l,
		       struct pl_err *err)
{
	if (pl_agent_allow_check(text) < 0)
		return pl_err_set(err, EINVAL, "the pod's annotation "
				  "podlane.io/allow must be names of namespaces "
				  "with a comma between them, or \"*\", is "
				  "\"%.64s\"", text);
	return pl_format(l->allow, sizeof(l->allow), "%s", text);
}

/* Keys of a map, so in exactly these letters. */
static const char *annotation(const cJSON *all, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(all, key));
}

int pl_lanes_parse(const cJSON *json, struct pl_lanes *l, struct pl_err *err)
{
	const cJSON *rt = NULL, *all = NULL;
	const char *word = "enabled";
	int rc;

	*l = (struct pl_lanes){ .enabled = true,
				.memory_limit = PL_LANES_NO_LIMIT };
	if (pl_json_str(json, "", "lanes", &word, err) < 0)
		return -EINVAL;
	rc = parse_word("lanes", word, &l->enabled, err);
	if (rc < 0)
		return rc;
	if (pl_json_obj(json, "", "runtimeConfig", &rt, err) < 0 ||
	    pl_json_obj(rt, "runtimeConfig", ANNOTATIONS, &all, err) < 0)
		return -EINVAL;
	word = annotation(all, "podlane.io/lanes");
	if (word)
		rc = parse_word("the pod's annotation podlane.io/lanes", word,
				&l->enabled, err);
	word = annotation(all, "podlane.io/memory-limit");
	if (rc == 0 && word)
		rc = parse_limit(word, l, err);
	word = annotation(all, "podlane.io/allow");
	if (rc == 0 && word)
		rc = parse_allow(word, l, err);
	return rc < 0 ? rc : 0;
}

/* plugin/dns.c - the part "dns" of a result */
#include "plugin/dns.h"

#include <errno.h>

#include "common/json.h"
#include "common/util.h"

static const struct {
	const char *from, *to;
} words[] = {
	{ "servers", "nameservers" },
	{ "searches", "search" },
	{ "options", "options" },
};

static int copy_list(const cJSON *from, size_t word, cJSON *to,
		     struct pl_err *err)
{
	const cJSON *list = NULL, *e;
	cJSON *copy;

	if (pl_json_arr(from, "runtimeConfig.dns", words[word].from, &list,
			err) < 0)
		return -EINVAL;
	cJSON_ArrayForEach(e, list) {
		if (!cJSON_IsString(e))
			return pl_err_set(err, EINVAL, "runtimeConfig.dns.%s "
					  "must be a list of strings",
					  words[word].from);
	}
	if (!list || !list->child)
		return 0;
	copy = cJSON_Duplicate(list, true);
	if (!copy)
		return pl_err_set(err, ENOMEM, "out of memory");
	cJSON_AddItemToObject(to, words[word].to, copy);
	return 0;
}

static int from_runtime(const cJSON *from, cJSON **out, struct pl_err *err)
{
	pl_auto_json *dns = cJSON_CreateObject();

	if (!dns)
		return pl_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++) {
		if (copy_list(from, i, dns, err) < 0)
			return -err->code;
	}
	if (!dns->child)
		return 0;
	*out = dns;
	dns = NULL;
	return 0;
}

int pl_dns_choose(const struct pl_conf *conf, struct pl_result *r,
		  struct pl_err *err)
{
	cJSON *dns = NULL;
	int rc = 0;

	if (conf->runtime_dns)
		rc = from_runtime(conf->runtime_dns, &dns, err);
	if (rc == 0 && !dns && conf->dns && conf->dns->child) {
		dns = cJSON_Duplicate(conf->dns, true);
		if (!dns)
			rc = pl_err_set(err, ENOMEM, "out of memory");
	}
	if (!dns)
		return rc;
	cJSON_Delete(r->dns);
	r->dns = dns;
	return 0;
}

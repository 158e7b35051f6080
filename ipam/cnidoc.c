/* ipam/cnidoc.c - the JSON documents of CNI: configuration, result, error */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/inet.h"
#include "common/json.h"
#include "common/util.h"
#include "ipam/cni.h"

static int read_all(int fd, char **out, size_t *len, struct pl_err *err)
{
	pl_auto_free char *buf = NULL;
	size_t cap = 0, n = 0;

	for (;;) {
		ssize_t r;

		if (n == cap) {
			char *p = realloc(buf, cap = cap ? cap * 2 : 8192);

			if (!p)
				return pl_err_set(err, ENOMEM, "out of memory");
			buf = p;
		}
		r = read(fd, buf + n, cap - n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return pl_cni_err(err, PL_CNI_IO, "cannot read the "
					  "configuration from standard input: "
					  "%s", strerror(errno));
		if (r == 0)
			break;
		n += (size_t)r;
		if (n > PL_CNI_CONF_MAX)
			return pl_cni_err(err, PL_CNI_DECODE, "the "
					  "configuration on standard input is "
					  "larger than %u bytes",
					  PL_CNI_CONF_MAX);
	}
	*out = pl_take_ptr(&buf);
	*len = n;
	return 0;
}

/* The version that the document names; sets version_text where it is one. */
static int read_version(struct pl_cni_conf *conf, struct pl_err *err)
{
	const char *text = PL_CNI_VERSION_DEFAULT;

	if (pl_json_str(conf->json, "", "cniVersion", &text, err) < 0)
		return pl_cni_err(err, PL_CNI_DECODE,
				  "cniVersion must be a string");
	if (!*text)
		text = PL_CNI_VERSION_DEFAULT;
	conf->version = pl_cni_version_parse(text);
	if (conf->version < 0 ||
	    pl_format(conf->version_text, sizeof(conf->version_text), "%s",
		      text) < 0)
		return pl_cni_err(err, PL_CNI_DECODE, "cniVersion \"%.32s\" is "
				  "no version like " PL_CNI_VERSION_LATEST,
				  text);
	return 0;
}

/* The first version that has the command. */
static int min_version(enum pl_cni_cmd cmd)
{
	switch (cmd) {
	case PL_CNI_CHECK:
		return PL_CNI_V(0, 4, 0);
	case PL_CNI_GC:
	case PL_CNI_STATUS:
		return PL_CNI_V(1, 1, 0);
	default:
		return 0;
	}
}

static int check_conf(struct pl_cni_conf *conf, enum pl_cni_cmd cmd,
		      struct pl_err *err)
{
	int rc;

	if (!pl_cni_version_supported(conf->version))
		return pl_cni_err(err, PL_CNI_INCOMPATIBLE_VERSION,
				  "cniVersion %s is not supported; use one from "
				  PL_CNI_VERSION_DEFAULT " to "
				  PL_CNI_VERSION_LATEST, conf->version_text);
	if (conf->version < min_version(cmd))
		return pl_cni_err(err, PL_CNI_INCOMPATIBLE_VERSION,
				  "cniVersion %s has no %s; use %s or later",
				  conf->version_text,
				  cmd == PL_CNI_CHECK ? "CHECK" :
				  cmd == PL_CNI_GC ? "GC" : "STATUS",
				  cmd == PL_CNI_CHECK ? "0.4.0" : "1.1.0");
	rc = pl_json_str(conf->json, "", "name", &conf->name, err);
	if (rc < 0)
		return pl_cni_err(err, PL_CNI_DECODE, "name must be a string");
	if (rc == 0 || !*conf->name)
		return pl_cni_err(err, PL_CNI_INVALID_CONFIG,
				  "the configuration has no name (of the "
				  "network)");
	return pl_cni_check_network(conf->name, err);
}

static bool is_blank(const char *text, size_t len)
{
	while (len && strchr(" \t\r\n", text[len - 1]))
		len--;
	return len == 0;
}

int pl_cni_conf_read(int fd, enum pl_cni_cmd cmd, struct pl_cni_conf *conf,
		     struct pl_err *err)
{
	pl_auto_free char *text = NULL;
	struct pl_err why;
	size_t len = 0;
	int rc;

	memset(conf, 0, sizeof(*conf));
	strncpy(conf->version_text, PL_CNI_VERSION_LATEST,
		sizeof(conf->version_text) - 1);
	conf->version = pl_cni_version_parse(PL_CNI_VERSION_LATEST);
	rc = read_all(fd, &text, &len, err);
	if (rc < 0)
		return rc;
	if (cmd == PL_CNI_VERSION && is_blank(text, len))
		return 0;
	if (is_blank(text, len))
		return pl_cni_err(err, PL_CNI_DECODE, "there is no "
				  "configuration on standard input");
	rc = pl_json_parse(text, len, &conf->json, &why);
	if (rc < 0 || !cJSON_IsObject(conf->json))
		return pl_cni_err(err, PL_CNI_DECODE, "the configuration on "
				  "standard input is %s",
				  rc < 0 ? why.msg : "no JSON object");
	rc = read_version(conf, err);
	if (rc < 0 || cmd == PL_CNI_VERSION)
		return rc;
	return check_conf(conf, cmd, err);
}

void pl_cni_conf_fini(struct pl_cni_conf *conf)
{
	cJSON_Delete(conf->json);
	conf->json = NULL;
	conf->name = NULL;
}

int pl_cni_gc_valid(const cJSON *netconf, const cJSON **list,
		    struct pl_err *err)
{
	const char *key = "cni.dev/valid-attachments";
	const cJSON *v = pl_json_member(netconf, key);
	const cJSON *e;
	int i = 0;

	if (!v) {
		key = "cni.dev/attachments";
		v = pl_json_member(netconf, key);
	}
	if (!v)
		return pl_cni_err(err, PL_CNI_INVALID_CONFIG,
				  "GC needs cni.dev/valid-attachments in the "
				  "configuration: without it every attachment "
				  "would be taken for stale");
	*list = NULL;
	if (cJSON_IsNull(v))
		return 0;
	if (!cJSON_IsArray(v))
		return pl_cni_err(err, PL_CNI_INVALID_CONFIG,
				  "%s must be a list", key);
	cJSON_ArrayForEach(e, v) {
		const char *id = NULL, *ifname = NULL;
		char where[64];

		snprintf(where, sizeof(where), "%s[%d]", key, i++);
		if (pl_json_str(e, where, "containerID", &id, err) < 0 ||
		    pl_json_str(e, where, "ifname", &ifname, err) < 0)
			return -EINVAL;
		if (!id || !ifname)
			return pl_cni_err(err, PL_CNI_INVALID_CONFIG, "%s must "
					  "have containerID and ifname", where);
	}
	*list = v;
	return 0;
}

int pl_cni_print(int fd, const cJSON *doc, struct pl_err *err)
{
	char *text = doc ? cJSON_Print(doc) : NULL;
	size_t len;
	int rc;

	if (!text)
		return pl_err_set(err, ENOMEM, "out of memory");
	/* The NUL's place takes the newline: one write, so one whole line. */
	len = strlen(text);
	text[len] = '\n';
	rc = pl_write_all(fd, text, len + 1);
	cJSON_free(text);
	if (rc < 0)
		return pl_cni_err(err, PL_CNI_IO, "cannot write the result to "
				  "standard output: %s", strerror(-rc));
	return 0;
}

int pl_cni_print_err(int fd, const char *version_text, const struct pl_err *err,
		     const char *details)
{
	pl_auto_json *doc = cJSON_CreateObject();

	cJSON_AddStringToObject(doc, "cniVersion", version_text);
	cJSON_AddNumberToObject(doc, "code", pl_cni_code(err));
	cJSON_AddStringToObject(doc, "msg", err->msg);
	if (details && *details)
		cJSON_AddStringToObject(doc, "details", details);
	return pl_cni_print(fd, doc, NULL);
}

/* Attributes of a route beside dst and gw, all since 1.1.0. */
static const struct {
	const char *key;
	int64_t max;
} route_numbers[] = {
	{ "mtu", UINT32_MAX },
	{ "advmss", UINT32_MAX },
	{ "priority", UINT32_MAX },
	{ "table", UINT32_MAX },
	{ "scope", UINT8_MAX },
};

static bool copy_key(cJSON *to, const cJSON *from, const char *key)
{
	const cJSON *v = pl_json_member(from, key);
	cJSON *copy;

	/* As Go takes an address, an empty text is none. */
	if (!v || cJSON_IsNull(v) || (cJSON_IsString(v) && !*v->valuestring))
		return true;
	copy = cJSON_Duplicate(v, true);
	if (!copy || !cJSON_AddItemToObject(to, key, copy)) {
		cJSON_Delete(copy);
		return false;
	}
	return true;
}

cJSON *pl_cni_route_for(const cJSON *route, int version)
{
	cJSON *out = cJSON_CreateObject();
	bool ok = out && copy_key(out, route, "dst") &&
		  copy_key(out, route, "gw");

	for (size_t i = 0; ok && version >= PL_CNI_V(1, 1, 0) &&
			   i < PL_ARRAY_SIZE(route_numbers); i++)
		ok = copy_key(out, route, route_numbers[i].key);
	if (!ok) {
		cJSON_Delete(out);
		return NULL;
	}
	return out;
}

static int check_route(const cJSON *route, const char *where,
		       struct pl_err *err)
{
	const char *dst = NULL, *gw = NULL;
	struct pl_prefix prefix;
	struct pl_addr addr;

	if (!cJSON_IsObject(route))
		return pl_err_set(err, EINVAL, "%s must be an object", where);
	if (pl_json_str(route, where, "dst", &dst, err) < 0 ||
	    pl_json_str(route, where, "gw", &gw, err) < 0)
		return -EINVAL;
	if (!dst)
		return pl_err_set(err, EINVAL, "%s has no dst", where);
	if (pl_prefix_parse(dst, &prefix) < 0)
		return pl_err_set(err, EINVAL, "%s.dst \"%.64s\" is no prefix "
				  "like 10.0.0.0/8", where, dst);
	if (gw && *gw && pl_addr_parse(gw, &addr) < 0)
		return pl_err_set(err, EINVAL, "%s.gw \"%.64s\" is no address",
				  where, gw);
	for (size_t i = 0; i < PL_ARRAY_SIZE(route_numbers); i++) {
		int64_t v;

		if (pl_json_int(route, where, route_numbers[i].key, 0,
				route_numbers[i].max, &v, err) < 0)
			return -EINVAL;
	}
	return 0;
}

int pl_cni_check_routes(const cJSON *routes, const char *where,
			struct pl_err *err)
{
	const cJSON *e;
	int i = 0;

	cJSON_ArrayForEach(e, routes) {
		char item[96];

		snprintf(item, sizeof(item), "%s[%d]", where, i++);
		if (check_route(e, item, err) < 0)
			return -EINVAL;
	}
	return 0;
}

/* daemonset/install_conf.c - the section "cni" of the agent's configuration */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/util.h"
#include "daemonset/install.h"

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" \
		   "0123456789_.-"

static int check_dir(const char *v)
{
	return *v == '/' ? 0 : -EINVAL;
}

static int check_dir_or_none(const char *v)
{
	return *v ? check_dir(v) : 0;
}

static int check_name(const char *v)
{
	return *v && strspn(v, NAME_CHARS) == strlen(v) && *v != '.' &&
	       *v != '-' ? 0 : -EINVAL;
}

static int check_extend(const char *v)
{
	return *v ? check_name(v) : 0;
}

static int check_file(const char *v)
{
	const char *dot = strrchr(v, '.');

	return check_name(v) == 0 && dot && !strcmp(dot, ".conflist") ? 0 :
	       -EINVAL;
}

#define FIELD(m) offsetof(struct pl_install_conf, m), \
		 sizeof(((struct pl_install_conf *)0)->m)
static const struct {
	const char *key;
	size_t at, size;
	int (*check)(const char *v);
	const char *want, *def;
} texts[] = {
	{ "binDir", FIELD(bin_dir), check_dir, "an absolute path",
	  "/opt/cni/bin" },
	{ "confDir", FIELD(conf_dir), check_dir, "an absolute path",
	  "/etc/cni/net.d" },
	{ "file", FIELD(file), check_file, "a name that ends with .conflist",
	  "05-podlane.conflist" },
	{ "extend", FIELD(extend), check_extend, "the name of a file in "
	  "confDir", "" },
	{ "network", FIELD(network), check_name, "a name of letters, digits, "
	  "'_', '.' and '-'", "podlane" },
	{ "bridge", FIELD(bridge), check_name, "the name of an interface",
	  "podlane0" },
	{ "stateDir", FIELD(state_dir), check_dir, "an absolute path",
	  PL_AGENT_STATE_DIR "/cni" },
	{ "dataDir", FIELD(data_dir), check_dir, "an absolute path",
	  PL_AGENT_STATE_DIR "/ipam" },
	{ "cdiDir", FIELD(cdi_dir), check_dir_or_none, "an absolute path, or "
	  "empty", "/etc/cdi" },
};

void pl_install_conf_default(struct pl_install_conf *c)
{
	memset(c, 0, sizeof(*c));
	c->ip_masq = true;
	for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++)
		memcpy((char *)c + texts[i].at, texts[i].def,
		       strlen(texts[i].def) + 1);
}

static int read_texts(const cJSON *obj, const char *where,
		      struct pl_install_conf *c, struct pl_err *err)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++) {
		const char *v = NULL;
		int rc = pl_json_str(obj, where, texts[i].key, &v, err);

		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		if (texts[i].check(v) < 0 ||
		    pl_format((char *)c + texts[i].at, texts[i].size, "%s",
			      v) < 0)
			return pl_err_set(err, EINVAL, "%s.%s must be %s, not "
					  "'%.200s'", where, texts[i].key,
					  texts[i].want, v);
	}
	return 0;
}

static int read_mode(const cJSON *obj, const char *where,
		     struct pl_install_conf *c, struct pl_err *err)
{
	const char *v = "";
	int rc = pl_json_str(obj, where, "mode", &v, err);

	if (rc < 0)
		return rc;
	if (!strcmp(v, "standalone"))
		c->mode = PL_CNI_STANDALONE;
	else if (!strcmp(v, "chained"))
		c->mode = PL_CNI_CHAINED;
	else
		return pl_err_set(err, EINVAL, "%s.mode must be \"standalone\" "
				  "(podlane makes the pods' network) or "
				  "\"chained\" (it goes behind the one there "
				  "is), not '%.100s'", where, v);
	return 0;
}

int pl_install_conf_parse(const cJSON *obj, const char *where,
		      struct pl_install_conf *c, struct pl_err *err)
{
	static const char *const keys[] = { "mode", "binDir", "confDir",
					    "file", "extend", "network",
					    "bridge", "ipMasq", "stateDir",
					    "dataDir", "cdiDir", NULL };
	int rc;

	pl_install_conf_default(c);
	if (!obj)
		return 0;
	rc = pl_json_only(obj, where, keys, err);
	if (rc >= 0)
		rc = read_mode(obj, where, c, err);
	if (rc >= 0)
		rc = read_texts(obj, where, c, err);
	if (rc >= 0)
		rc = pl_json_bool(obj, where, "ipMasq", &c->ip_masq, err);
	return rc < 0 ? rc : 0;
}

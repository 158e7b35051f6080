/*
 * daemonset/conf.c - the agent's configuration file
 *
 * One table says which keys there are; see podlaned(8) for what they mean.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/util.h"
#include "daemonset/agent.h"
#include "daemonset/kube_conf.h"
#include "daemonset/metrics.h"
#include "daemonset/remote.h"

#define LIMIT_MAX 1000000
#define RESUME_MAX_S 86400
#define PEER_MAX_S 3600

struct key {
	const char *section;		/* "": the top */
	const char *name;
	int (*get)(const cJSON *obj, const char *where, const struct key *k,
		   void *field, struct pl_err *err);
	size_t offset;			/* of the field */
	int64_t min, max;		/* of a number; of a text's length */
};

static int get_u16(const cJSON *obj, const char *where, const struct key *k,
		   void *field, struct pl_err *err)
{
	int64_t v;
	int rc = pl_json_int(obj, where, k->name, k->min, k->max, &v, err);

	if (rc > 0)
		*(uint16_t *)field = (uint16_t)v;
	return rc;
}

static int get_u32(const cJSON *obj, const char *where, const struct key *k,
		   void *field, struct pl_err *err)
{
	int64_t v;
	int rc = pl_json_int(obj, where, k->name, k->min, k->max, &v, err);

	if (rc > 0)
		*(uint32_t *)field = (uint32_t)v;
	return rc;
}

/* Seconds, also parts of them, into ms. */
static int get_seconds(const cJSON *obj, const char *where,
		       const struct key *k, void *field, struct pl_err *err)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, k->name);

	(void)where;
	if (!v)
		return 0;
	if (!cJSON_IsNumber(v) || !(v->valuedouble * 1000 >= (double)k->min) ||
	    !(v->valuedouble * 1000 <= (double)k->max))
		return pl_err_set(err, EINVAL, "%s must be a number of seconds "
				  "from %g to %g", k->name,
				  (double)k->min / 1000, (double)k->max / 1000);
	*(uint32_t *)field = (uint32_t)(v->valuedouble * 1000);
	return 1;
}

static int get_u64(const cJSON *obj, const char *where, const struct key *k,
		   void *field, struct pl_err *err)
{
	int64_t v;
	int rc = pl_json_int(obj, where, k->name, k->min, k->max, &v, err);

	if (rc > 0)
		*(uint64_t *)field = (uint64_t)v;
	return rc;
}

static int get_path(const cJSON *obj, const char *where, const struct key *k,
		    void *field, struct pl_err *err)
{
	const char *s;
	int rc = pl_json_str(obj, where, k->name, &s, err);

	if (rc <= 0)
		return rc;
	if (*s != '/')
		return pl_err_set(err, EINVAL,
				  "%s must be an absolute path, not '%.200s'",
				  k->name, s);
	rc = pl_format(field, PATH_MAX, "%s", s);
	return rc < 0 ? pl_err_set(err, -rc, "%s is too long", k->name) : 1;
}

static int get_listen(const cJSON *obj, const char *where, const struct key *k,
		      void *field, struct pl_err *err)
{
	const char *s;
	int rc = pl_json_str(obj, where, k->name, &s, err);

	if (rc > 0 && *s && pl_metrics_check(s, err) < 0)
		return -EINVAL;
	if (rc > 0 && pl_format(field, PL_AGENT_LISTEN_BYTES, "%s", s) < 0)
		return pl_err_set(err, EINVAL, "metrics.listen is too long");
	return rc;
}

static int get_registry(const cJSON *obj, const char *where,
			const struct key *k, void *field, struct pl_err *err)
{
	enum pl_registry_type *type = field;
	const char *s;
	int rc = pl_json_str(obj, where, k->name, &s, err);

	if (rc <= 0)
		return rc;
	if (!strcmp(s, "file"))
		*type = PL_REGISTRY_FILE;
	else if (!strcmp(s, "kubernetes"))
		*type = PL_REGISTRY_KUBERNETES;
	else
		rc = pl_err_set(err, EINVAL, "registry.type must be \"file\" or "
				"\"kubernetes\", not '%.200s'", s);
	return rc;
}

static int get_carrier(const cJSON *obj, const char *where,
		       const struct key *k, void *field, struct pl_err *err)
{
	const char *s;
	int rc = pl_json_str(obj, where, k->name, &s, err);

	if (rc <= 0)
		return rc;
	if (strcmp(s, "tcp") && strcmp(s, "verbs") && strcmp(s, "auto"))
		return pl_err_set(err, EINVAL, "carrier.type must be \"auto\", "
				  "\"verbs\" or \"tcp\", not '%.200s'", s);
	return pl_format(field, sizeof(((struct pl_agent_conf *)0)->carrier),
			 "%s", s);
}

/* Which ones there are, only the kernel knows. */
static int get_congestion(const cJSON *obj, const char *where,
			  const struct key *k, void *field, struct pl_err *err)
{
	const char *s;
	int rc = pl_json_str(obj, where, k->name, &s, err);

	if (rc <= 0)
		return rc;
	if (!*s || pl_format(field, PL_CARRIER_CONGESTION_BYTES, "%s", s) < 0)
		return pl_err_set(err, EINVAL, "carrier.congestionControl must "
				  "be \"auto\" or a name such as \"cubic\", "
				  "not '%.200s'", s);
	return rc;
}

static int get_security(const cJSON *obj, const char *where,
			const struct key *k, void *field, struct pl_err *err)
{
	static const enum pl_security all[] = { PL_SECURITY_NONE,
						PL_SECURITY_PSK,
						PL_SECURITY_TLS };
	const char *s;
	int rc = pl_json_str(obj, where, k->name, &s, err);

	if (rc <= 0)
		return rc;
	for (size_t i = 0; i < PL_ARRAY_SIZE(all); i++) {
		if (strcmp(s, pl_security_name(all[i])))
			continue;
		*(enum pl_security *)field = all[i];
		return rc;
	}
	return pl_err_set(err, EINVAL, "carrier.security must be \"tls\", "
			  "\"psk\" or \"none\", not '%.200s'", s);
}

static int get_polling(const cJSON *obj, const char *where,
		       const struct key *k, void *field, struct pl_err *err)
{
	static const char *const names[] = {
		[PL_POLLING_ADAPTIVE] = "adaptive",
		[PL_POLLING_EVENT] = "event",
		[PL_POLLING_BUSY] = "busy",
	};
	const char *s;
	int rc = pl_json_str(obj, where, k->name, &s, err);

	if (rc <= 0)
		return rc;
	for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++) {
		if (strcmp(s, names[i]))
			continue;
		*(enum pl_polling *)field = (enum pl_polling)i;
		return rc;
	}
	return pl_err_set(err, EINVAL, "carrier.polling must be \"adaptive\", "
			  "\"event\" or \"busy\", not '%.200s'", s);
}

static int get_device(const cJSON *obj, const char *where, const struct key *k,
		      void *field, struct pl_err *err)
{
	const char *s;
	int rc = pl_json_str(obj, where, k->name, &s, err);

	if (rc <= 0)
		return rc;
	if (!*s || strchr(s, '/') ||
	    pl_format(field, PL_RDMA_NAME_BYTES, "%s", s) < 0)
		return pl_err_set(err, EINVAL, "carrier.device must be the "
				  "name of an RDMA device such as \"mlx5_0\", "
				  "not '%.200s'", s);
	return rc;
}

static int get_log_format(const cJSON *obj, const char *where,
			  const struct key *k, void *field, struct pl_err *err)
{
	const char *s;
	int rc = pl_json_str(obj, where, k->name, &s, err);

	if (rc > 0 && strcmp(s, "text") && strcmp(s, "json"))
		return pl_err_set(err, EINVAL, "logFormat must be \"text\" or "
				  "\"json\", not '%.200s'", s);
	if (rc > 0)
		*(bool *)field = !strcmp(s, "json");
	return rc;
}

static int get_level(const cJSON *obj, const char *where, const struct key *k,
		     void *field, struct pl_err *err)
{
	const char *s;
	int rc = pl_json_str(obj, where, k->name, &s, err);

	if (rc > 0 && pl_log_level_parse(s, field) < 0)
		return pl_err_set(err, EINVAL, "logLevel must be error, warn, "
				  "info or debug, not '%.200s'", s);
	return rc;
}

static int get_bool(const cJSON *obj, const char *where, const struct key *k,
		    void *field, struct pl_err *err)
{
	return pl_json_bool(obj, where, k->name, field, err);
}

#define AT(member) offsetof(struct pl_agent_conf, member)
static const struct key keys[] = {
	{ "", "stateDir", get_path, AT(state_dir), 0, 0 },
	{ "", "logFormat", get_log_format, AT(log_json), 0, 0 },
	{ "", "logLevel", get_level, AT(log_level), 0, 0 },
	{ "", "seccomp", get_bool, AT(seccomp), 0, 0 },
	{ "", "resumeTimeout", get_seconds, AT(resume_ms), 100,
	  RESUME_MAX_S * 1000 },
	{ "", "checksum", get_bool, AT(checksum), 0, 0 },
	{ "registry", "type", get_registry, AT(registry), 0, 0 },
	{ "registry", "file", get_path, AT(registry_file), 0, 0 },
	{ "registry", "kubeconfig", get_path, AT(registry_kubeconfig), 0, 0 },
	{ "registry", "serviceAccount", get_path, AT(registry_account), 0, 0 },
	{ "registry", "podCIDRs", get_bool, AT(registry_cidrs), 0, 0 },
	{ "registry", "eventSeconds", get_u32, AT(event_s), 0, 86400 },
	{ "metrics", "listen", get_listen, AT(metrics_listen), 0, 0 },
	{ "policy", "file", get_path, AT(policy_file), 0, 0 },
	{ "carrier", "type", get_carrier, AT(carrier), 0, 0 },
	{ "carrier", "port", get_u16, AT(port), 1, 65535 },
	{ "carrier", "congestionControl", get_congestion, AT(congestion), 0,
	  0 },
	{ "carrier", "peerTimeout", get_seconds, AT(peer_ms), 1000,
	  PEER_MAX_S * 1000 },
	{ "carrier", "polling", get_polling, AT(polling), 0, 0 },
	{ "carrier", "device", get_device, AT(device), 0, 0 },
	{ "carrier", "devicePort", get_u32, AT(device_port), 1, 255 },
	{ "carrier", "gidIndex", get_u32, AT(gid_index), 0, 4095 },
	{ "carrier", "security", get_security, AT(security), 0, 0 },
	{ "carrier", "encrypt", get_bool, AT(encrypt), 0, 0 },
	{ "carrier", "ca", get_path, AT(ca), 0, 0 },
	{ "carrier", "cert", get_path, AT(cert), 0, 0 },
	{ "carrier", "key", get_path, AT(key), 0, 0 },
	{ "carrier", "connections", get_u32, AT(connections), 0,
	  PL_CARRIER_CONNECTIONS_MAX },
	{ "limits", "connections", get_u32, AT(limits.connections), 1,
	  LIMIT_MAX },
	{ "limits", "listeners", get_u32, AT(limits.listeners), 0, LIMIT_MAX },
	{ "limits", "lanes", get_u32, AT(limits.lanes), 0, LIMIT_MAX },
	{ "limits", "regions", get_u32, AT(limits.regions), 0, LIMIT_MAX },
	{ "limits", "bytes", get_u64, AT(limits.bytes), 0, INT64_C(1) << 52 },
};

void pl_agent_conf_default(struct pl_agent_conf *c)
{
	*c = (struct pl_agent_conf){
		.state_dir = PL_AGENT_STATE_DIR "/agent",
		.metrics_listen = PL_METRICS_LISTEN,
		.registry_account = PL_KUBE_ACCOUNT_DIR,
		.registry_cidrs = true,
		.event_s = 600,
		.carrier = "auto",
		.gid_index = PL_AGENT_GID_ANY,
		.congestion = "auto",
		.encrypt = true,
		.limits = { .connections = 256,
			    .listeners = 256,
			    .lanes = 4096,
			    .regions = 1024,
			    .bytes = UINT64_C(64) << 30 },
		.resume_ms = PL_REMOTE_RESUME_MS,
		.peer_ms = PL_REMOTE_DEAD_MS,
		.log_level = PL_LOG_INFO,
		.seccomp = true,
	};
	pl_install_conf_default(&c->cni);
}

static bool is_known(const char *section, const char *name)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i].section, section) &&
		    !strcmp(keys[i].name, name))
			return true;
	return false;
}

static bool is_section(const char *name)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i].section, name))
			return true;
	return !strcmp(name, "overlay") || !strcmp(name, "cni");
}

static void warn_unknown(const char *path, const cJSON *obj,
			 const char *section)
{
	const cJSON *k;

	cJSON_ArrayForEach(k, obj) {
		if (is_known(section, k->string) ||
		    (!*section && is_section(k->string)))
			continue;
		pl_warn("%s: key '%s%s%s' is unknown and has no effect", path,
			section, *section ? "." : "", k->string);
	}
}

static int read_section(const char *path, const cJSON *top,
			const char *section, struct pl_agent_conf *c,
			struct pl_err *err)
{
	const cJSON *obj = *section ? NULL : top;
	int rc;

	if (!obj) {
		rc = pl_json_obj(top, "", section, &obj, err);
		if (rc <= 0)
			return rc;
	}
	warn_unknown(path, obj, section);
	for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++) {
		const struct key *k = &keys[i];

		if (strcmp(k->section, section))
			continue;
		rc = k->get(obj, section, k, (char *)c + k->offset, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* What counts only with the API would else be ignored without a word. */
static int check_kube_keys(const cJSON *registry, struct pl_err *err)
{
	static const char *const names[] = { "kubeconfig", "serviceAccount",
					     "podCIDRs", "eventSeconds" };

	for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
		if (cJSON_GetObjectItemCaseSensitive(registry, names[i]))
			return pl_err_set(err, EINVAL, "registry.%s needs "
					  "registry.type \"kubernetes\"",
					  names[i]);
	return 0;
}

/* Which registry, and whether it has what it needs. */
static int check_registry(const cJSON *top, struct pl_agent_conf *c,
			  struct pl_err *err)
{
	if (c->registry == PL_REGISTRY_NONE && *c->registry_file)
		c->registry = PL_REGISTRY_FILE;
	if (c->registry == PL_REGISTRY_FILE && !*c->registry_file)
		return pl_err_set(err, EINVAL, "registry.type \"file\" needs "
				  "registry.file, the list of the nodes");
	if (c->registry != PL_REGISTRY_KUBERNETES)
		return check_kube_keys(cJSON_GetObjectItemCaseSensitive(
					       top, "registry"), err);
	if (*c->registry_file)
		return pl_err_set(err, EINVAL, "registry.file has no place "
				  "beside registry.type \"kubernetes\"");
	return 0;
}

static int check_device(const struct pl_agent_conf *c, struct pl_err *err)
{
	if (*c->device || (!c->device_port &&
			   c->gid_index == PL_AGENT_GID_ANY))
		return 0;
	return pl_err_set(err, EINVAL, "carrier.%s needs carrier.device, the "
			  "name of the RDMA device that is meant",
			  c->device_port ? "devicePort" : "gidIndex");
}

/* Without pod ranges there is nothing that an overlay could be made of. */
static int read_overlay(const cJSON *top, struct pl_agent_conf *c,
			struct pl_err *err)
{
	const cJSON *obj = NULL;
	bool has_ranges = c->registry != PL_REGISTRY_NONE && c->registry_cidrs;
	int rc = pl_json_obj(top, "", "overlay", &obj, err);

	if (rc < 0)
		return rc;
	rc = pl_overlay_conf_parse(obj, "overlay", &c->overlay, err);
	if (rc < 0 || has_ranges || c->overlay.type == PL_OVERLAY_NONE)
		return rc;
	if (obj)
		return pl_err_set(err, EINVAL, "overlay.type \"vxlan\" needs %s",
				  c->registry_cidrs ?
				  "registry.file, the list of the nodes, or "
				  "registry.type \"kubernetes\"" :
				  "registry.podCIDRs, which is false");
	c->overlay.type = PL_OVERLAY_NONE;
	return 0;
}

static int read_cni(const cJSON *top, struct pl_agent_conf *c,
		    struct pl_err *err)
{
	const cJSON *obj = NULL;
	int rc = pl_json_obj(top, "", "cni", &obj, err);

	return rc < 0 ? rc : pl_install_conf_parse(obj, "cni", &c->cni, err);
}

/* What each kind of security needs, and what is a mistake with it. */
static int check_security(const cJSON *top, const struct pl_agent_conf *c,
			  struct pl_err *err)
{
	static const struct {
		const char *name, *what;
		bool tls, psk;		/* needed by it, else of no use */
	} files[] = {
		{ "ca", "certificates of the cluster's CA", true, false },
		{ "cert", "this node's certificate", true, false },
		{ "key", "the certificate's key, or the pre-shared key", true,
		  true },
	};
	const cJSON *obj = cJSON_GetObjectItemCaseSensitive(top, "carrier");
	const char *name = pl_security_name(c->security);
	bool none = c->security == PL_SECURITY_NONE;

	for (size_t i = 0; i < PL_ARRAY_SIZE(files); i++) {
		bool needed = c->security == PL_SECURITY_TLS ? files[i].tls :
			      c->security == PL_SECURITY_PSK && files[i].psk;
		bool there = cJSON_GetObjectItemCaseSensitive(obj,
							      files[i].name);

		if (needed && !there)
			return pl_err_set(err, EINVAL, "carrier.security "
					  "\"%s\" needs carrier.%s: the path "
					  "of %s", name, files[i].name,
					  files[i].what);
		if (there && !needed)
			return pl_err_set(err, EINVAL, "carrier.%s has no use "
					  "with carrier.security \"%s\"",
					  files[i].name, name);
	}
	if (none && cJSON_GetObjectItemCaseSensitive(obj, "encrypt"))
		return pl_err_set(err, EINVAL, "carrier.encrypt has no use "
				  "with carrier.security \"none\"");
	return 0;
}

/* Plain text, and trust in addresses, only where somebody has written so. */
static int read_security(const cJSON *top, const struct pl_agent_conf *c,
			 struct pl_err *err)
{
	const cJSON *registry = cJSON_GetObjectItemCaseSensitive(top,
								 "registry");

	if (c->security != PL_SECURITY_UNSET)
		return check_security(top, c, err);
	/* Without other nodes there is nobody to be told apart. */
	if (!registry || !registry->child)
		return 0;
	return pl_err_set(err, EINVAL, "carrier.security is missing: how do "
			  "agents know each other? Write \"carrier\": "
			  "{\"security\": \"psk\", \"key\": FILE} (made by: "
			  "openssl rand -hex 32), {\"security\": \"tls\", "
			  "\"ca\": FILE, \"cert\": FILE, \"key\": FILE}, or "
			  "{\"security\": \"none\"} for plain text where only "
			  "nodes can send to the port; see podlaned(8)");
}

int pl_agent_conf_load(const char *path, struct pl_agent_conf *c,
		       struct pl_err *err)
{
	static const char *const sections[] = { "", "registry", "policy",
						"carrier", "limits",
						"metrics" };
	pl_auto_json *top = NULL;
	int rc = pl_json_load(path, &top, err);

	if (rc < 0)
		return rc;
	if (!cJSON_IsObject(top))
		return pl_err_set(err, EINVAL, "%s: must be a JSON object",
				  path);
	for (size_t i = 0; rc >= 0 && i < PL_ARRAY_SIZE(sections); i++)
		rc = read_section(path, top, sections[i], c, err);
	if (rc >= 0)
		rc = check_registry(top, c, err);
	if (rc >= 0)
		rc = check_device(c, err);
	if (rc >= 0)
		rc = read_security(top, c, err);
	if (rc >= 0)
		rc = read_overlay(top, c, err);
	if (rc >= 0)
		rc = read_cni(top, c, err);
	if (rc < 0)
		pl_err_prefix(err, "%s", path);
	return rc < 0 ? rc : 0;
}

int pl_agent_conf_find(const char *path, struct pl_agent_conf *c,
		       struct pl_err *err)
{
	pl_agent_conf_default(c);
	if (!path && access(PL_AGENT_CONFIG, F_OK) < 0)
		return 0;
	return pl_agent_conf_load(path ? path : PL_AGENT_CONFIG, c, err);
}

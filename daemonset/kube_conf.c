/* daemonset/kube_conf.c - where the Kubernetes API server is, and who we are */
#include "daemonset/kube_conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"

#define TOKEN_MAX 65536

static void pem_fini(struct pl_kube_pem *p)
{
	/* A private key, perhaps. */
	if (p->data)
		explicit_bzero(p->data, p->len);
	free(p->data);
	*p = (struct pl_kube_pem){ 0 };
}

void pl_kube_conf_fini(struct pl_kube_conf *c)
{
	pem_fini(&c->ca);
	pem_fini(&c->cert);
	pem_fini(&c->key);
	free(c->token);
	*c = (struct pl_kube_conf){ 0 };
}

/* It goes into a header, where a line's end would begin another one. */
static bool is_token(const char *s)
{
	while (isgraph((unsigned char)*s))
		s++;
	return !*s;
}

int pl_kube_conf_token(const struct pl_kube_conf *c, char **out,
		       struct pl_err *err)
{
	size_t len;
	int rc;

	if (!*c->token_file) {
		*out = strdup(c->token ? c->token : "");
		return *out ? 0 : pl_err_set(err, ENOMEM, "out of memory");
	}
	rc = pl_file_read(c->token_file, TOKEN_MAX, out, &len, err);
	if (rc < 0)
		return rc;
	while (len && isspace((unsigned char)(*out)[len - 1]))
		(*out)[--len] = '\0';
	if (len && is_token(*out))
		return 0;
	free(*out);
	return pl_err_set(err, EINVAL, "%s has no token in it",
			  c->token_file);
}

/* What a configuration has to have whichever way it came. */
static int check(struct pl_kube_conf *c, struct pl_err *err)
{
	const char *s = c->server;
	size_t n = strlen(s);
	bool is_tls = !strncmp(s, "https://", 8);

	for (size_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)s[i]))
			return pl_err_set(err, EINVAL, "server: no URL");
	if (!is_tls && strncmp(s, "http://", 7))
		return pl_err_set(err, EINVAL, "server must begin with "
				  "https:// or http://, not be '%.200s'", s);
	if (!isalnum((unsigned char)s[is_tls ? 8 : 7]) &&
	    s[is_tls ? 8 : 7] != '[')
		return pl_err_set(err, EINVAL, "server: '%.200s' names no host",
				  s);
	if (s[n - 1] == '/')
		c->server[n - 1] = '\0';
	if (!is_tls && (c->token || *c->token_file))
		return pl_err_set(err, EINVAL, "a token would go to %s in "
				  "clear text; use https://", s);
	if (!*c->cert.file != !*c->key.file || !c->cert.data != !c->key.data)
		return pl_err_set(err, EINVAL, "client-certificate and "
				  "client-key belong together");
	return 0;
}

/* --- as a pod ------------------------------------------------------------- */

int pl_kube_conf_account(struct pl_kube_conf *c, const char *account,
			 struct pl_err *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	int rc;

	*c = (struct pl_kube_conf){ 0 };
	if (!host || !port || !*host || !*port)
		return pl_err_set(err, ENOENT, "KUBERNETES_SERVICE_HOST and "
				  "KUBERNETES_SERVICE_PORT are not set, so this "
				  "is no pod of a cluster; give "
				  "registry.kubeconfig");
	rc = pl_format(c->server, sizeof(c->server),
		       strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s",
		       host, port);
	if (rc >= 0)
		rc = pl_format(c->ca.file, sizeof(c->ca.file), "%s/ca.crt",
			       account);
	if (rc >= 0)
		rc = pl_format(c->token_file, sizeof(c->token_file),
			       "%s/token", account);
	if (rc < 0)
		return pl_err_set(err, -rc, "names are too long");
	return check(c, err);
}

/* --- by a kubeconfig ------------------------------------------------------ */

/* A text that may stand in a message. */
static bool is_name(const char *s)
{
	while (*s && !iscntrl((unsigned char)*s))
		s++;
	return !*s;
}

/* Relative ones are so to the folder of the kubeconfig. */
static int get_path(const cJSON *obj, const char *where, const char *key,
		    const char *path, char out[PATH_MAX], struct pl_err *err)
{
	const char *s = NULL, *slash = strrchr(path, '/');
	int rc = pl_json_str(obj, where, key, &s, err);

	if (rc <= 0 || !*s)
		return rc < 0 ? rc : 0;
	if (!is_name(s))
		return pl_err_set(err, EINVAL, "%s.%s has control characters "
				  "in it", where, key);
	rc = *s == '/' || !slash ?
		     pl_format(out, PATH_MAX, "%s", s) :
		     pl_format(out, PATH_MAX, "%.*s/%s", (int)(slash - path),
			       path, s);
	return rc < 0 ? pl_err_set(err, -rc, "%s.%s is too long", where, key) :
			0;
}

static int sextet(char c)
{
	static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "abcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = c ? strchr(all, c) : NULL;

	return p ? (int)(p - all) : -1;
}

/* White space between is fine. */
static int base64(const char *s, struct pl_kube_pem *out)
{
	unsigned int bits = 0;
	uint32_t v = 0;

	out->data = malloc(strlen(s) + 1);
	if (!out->data)
		return -ENOMEM;
	for (; *s && *s != '='; s++) {
		int six = sextet(*s);

		if (isspace((unsigned char)*s))
			continue;
		if (six < 0)
			return -EINVAL;
		v = v << 6 | (uint32_t)six;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			out->data[out->len++] = (char)(v >> bits);
		}
	}
	return out->len ? 0 : -EINVAL;
}

/* KEY-data is before KEY, as kubectl has it. */
static int get_pem(const cJSON *obj, const char *where, const char *key,
		   const char *path, struct pl_kube_pem *out,
		   struct pl_err *err)
{
	const char *s = NULL;
	char data[64];
	int rc;

	pl_format(data, sizeof(data), "%s-data", key);
	rc = pl_json_str(obj, where, data, &s, err);
	if (rc < 0)
		return rc;
	if (!s || !*s)
		return get_path(obj, where, key, path, out->file, err);
	rc = base64(s, out);
	return rc < 0 ? pl_err_set(err, -rc, "%s.%s is not base64", where,
				   data) : 0;
}

static int refuse(const cJSON *obj, const char *where, const char *const *keys,
		  struct pl_err *err)
{
	for (; *keys; keys++) {
		const cJSON *v = pl_json_member(obj, *keys);

		if (v && !(cJSON_IsString(v) && !*v->valuestring))
			return pl_err_set(err, ENOTSUP, "%s.%s is not "
					  "supported; use a token, a tokenFile "
					  "or a client certificate, without a "
					  "proxy", where, *keys);
	}
	return 0;
}

/* The member `part` of the element of list `key` with this name. */
static int named(const cJSON *top, const char *key, const char *name,
		 const char *part, const cJSON **out, struct pl_err *err)
{
	const cJSON *list = NULL, *e;
	int rc = is_name(name) ? pl_json_arr(top, "", key, &list, err) :
		 pl_err_set(err, EINVAL, "a name to be looked for in %s has "
			    "control characters in it", key);

	if (rc < 0)
		return rc;
	cJSON_ArrayForEach(e, list) {
		const char *s = NULL;

		rc = cJSON_IsObject(e) ? pl_json_str(e, key, "name", &s, err) :
			       pl_err_set(err, EINVAL, "%s: no object", key);
		if (rc < 0)
			return rc;
		if (!s || strcmp(s, name))
			continue;
		rc = pl_json_obj(e, key, part, out, err);
		return rc ? rc : pl_err_set(err, EINVAL, "%s '%.64s' has no "
					    "%s", key, name, part);
	}
	return pl_err_set(err, ENOENT, "%s has none of the name '%.64s'", key,
			  name);
}

static int get_cluster(const cJSON *o, const char *path, struct pl_kube_conf *c,
		       struct pl_err *err)
{
	static const char *const no[] = { "proxy-url", "tls-server-name",
					  NULL };
	const char *s = NULL;
	int rc = refuse(o, "cluster", no, err);

	if (rc == 0)
		rc = pl_json_str(o, "cluster", "server", &s, err);
	if (rc >= 0 && (!s || pl_format(c->server, sizeof(c->server), "%s",
					s) < 0))
		rc = pl_err_set(err, EINVAL, "cluster.server is missing or "
				"too long");
	if (rc >= 0)
		rc = get_pem(o, "cluster", "certificate-authority", path,
			     &c->ca, err);
	if (rc >= 0)
		rc = pl_json_bool(o, "cluster", "insecure-skip-tls-verify",
				  &c->is_insecure, err);
	return rc < 0 ? rc : 0;
}

/* tokenFile is before token, as the API's documentation says. */
static int get_user(const cJSON *o, const char *path, struct pl_kube_conf *c,
		    struct pl_err *err)
{
	static const char *const no[] = { "exec", "auth-provider", "username",
					  "password", "as", "as-groups", NULL };
	const char *s = NULL;
	int rc = refuse(o, "user", no, err);

	if (rc == 0)
		rc = get_path(o, "user", "tokenFile", path, c->token_file,
			      err);
	if (rc == 0)
		rc = pl_json_str(o, "user", "token", &s, err);
	if (rc > 0 && !is_token(s))
		rc = pl_err_set(err, EINVAL, "user.token is no token");
	if (rc > 0 && *s && !*c->token_file) {
		c->token = strdup(s);
		if (!c->token)
			return pl_err_set(err, ENOMEM, "out of memory");
	}
	if (rc >= 0)
		rc = get_pem(o, "user", "client-certificate", path, &c->cert,
			     err);
	if (rc == 0)
		rc = get_pem(o, "user", "client-key", path, &c->key, err);
	return rc;
}

static int get_all(const cJSON *top, const char *path, struct pl_kube_conf *c,
		   struct pl_err *err)
{
	const char *context = NULL, *cluster = NULL, *user = NULL;
	const cJSON *o = NULL;
	int rc = cJSON_IsObject(top) ?
			 pl_json_str(top, "", "current-context", &context,
				     err) :
			 pl_err_set(err, EINVAL, "it is no mapping");

	if (rc == 0 || (rc > 0 && !*context))
		return pl_err_set(err, EINVAL, "current-context is missing");
	if (rc > 0)
		rc = named(top, "contexts", context, "context", &o, err);
	if (rc > 0)
		rc = pl_json_str(o, "context", "cluster", &cluster, err);
	if (rc >= 0)
		rc = pl_json_str(o, "context", "user", &user, err);
	if (rc >= 0 && !cluster)
		rc = pl_err_set(err, EINVAL, "context.cluster is missing");
	if (rc >= 0)
		rc = named(top, "clusters", cluster, "cluster", &o, err);
	if (rc >= 0)
		rc = get_cluster(o, path, c, err);
	if (rc == 0 && user)
		rc = named(top, "users", user, "user", &o, err);
	if (rc > 0)
		rc = get_user(o, path, c, err);
	return rc < 0 ? rc : check(c, err);
}

int pl_kube_conf_load(struct pl_kube_conf *c, const char *path,
		      struct pl_err *err)
{
	pl_auto_json *top = NULL;
	int rc;

	*c = (struct pl_kube_conf){ 0 };
	rc = pl_yaml_load(path, &top, err);
	if (rc < 0)
		return rc;
	rc = get_all(top, path, c, err);
	if (rc < 0) {
		pl_kube_conf_fini(c);
		pl_err_prefix(err, "%s", path);
	}
	return rc;
}

int pl_kube_conf_find(struct pl_kube_conf *c, const char *kubeconfig,
		      const char *account, struct pl_err *err)
{
	return *kubeconfig ? pl_kube_conf_load(c, kubeconfig, err) :
			     pl_kube_conf_account(c, account, err);
}

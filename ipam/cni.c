/* ipam/cni.c - codes, versions, names and environment of the CNI protocol */
#include "ipam/cni.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/util.h"

int pl_cni_err(struct pl_err *err, enum pl_cni_code code, const char *fmt, ...)
{
	int rc = PL_CNI_ERR_BASE + (int)code;
	va_list ap;

	if (!err)
		return -rc;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	err->code = rc;
	return -rc;
}

int pl_cni_code(const struct pl_err *err)
{
	if (err->code > PL_CNI_ERR_BASE)
		return err->code - PL_CNI_ERR_BASE;
	switch (err->code) {
	case EINVAL:
	case ERANGE:
	case ENAMETOOLONG:
		return PL_CNI_INVALID_CONFIG;
	case EAGAIN:
	case EBUSY:
	case ETIMEDOUT:
		return PL_CNI_TRY_AGAIN;
	case EACCES:
	case EDQUOT:
	case EFBIG:
	case EIO:
	case EMFILE:
	case ENFILE:
	case ENOENT:
	case ENOSPC:
	case ENOTDIR:
	case EPERM:
	case EPIPE:
	case EROFS:
		return PL_CNI_IO;
	default:
		return PL_CNI_FAILED;
	}
}

static const struct {
	int number;
	const char *text;
} versions[] = {
	{ PL_CNI_V(0, 1, 0), "0.1.0" },
	{ PL_CNI_V(0, 2, 0), "0.2.0" },
	{ PL_CNI_V(0, 3, 0), "0.3.0" },
	{ PL_CNI_V(0, 3, 1), "0.3.1" },
	{ PL_CNI_V(0, 4, 0), "0.4.0" },
	{ PL_CNI_V(1, 0, 0), "1.0.0" },
	{ PL_CNI_V(1, 1, 0), "1.1.0" },
};

int pl_cni_version_parse(const char *text)
{
	int part[3] = { 0, 0, 0 };

	for (int i = 0; i < 3; i++) {
		int digits = 0;

		while (isdigit((unsigned char)*text) && digits++ < 3)
			part[i] = part[i] * 10 + (*text++ - '0');
		if (!digits)
			return -EINVAL;
		if (!*text)
			return PL_CNI_V(part[0], part[1], part[2]);
		if (*text++ != '.')
			return -EINVAL;
	}
	return -EINVAL;
}

bool pl_cni_version_supported(int version)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(versions); i++)
		if (versions[i].number == version)
			return true;
	return false;
}

cJSON *pl_cni_version_doc(const char *cni_version)
{
	cJSON *doc = cJSON_CreateObject();
	cJSON *list = cJSON_CreateArray();

	cJSON_AddStringToObject(doc, "cniVersion", cni_version);
	for (size_t i = 0; i < PL_ARRAY_SIZE(versions); i++)
		cJSON_AddItemToArray(list,
				     cJSON_CreateString(versions[i].text));
	if (!cJSON_AddItemToObject(doc, "supportedVersions", list))
		cJSON_Delete(list);
	return doc;
}

/* ASCII, whatever the locale says. */
static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

/* A letter or digit, then letters, digits, '_', '.', '-'. */
static bool is_plain_name(const char *s)
{
	if (!is_alnum(*s))
		return false;
	while (*++s)
		if (!is_alnum(*s) && !strchr("_.-", *s))
			return false;
	return true;
}

int pl_cni_check_container_id(const char *id, struct pl_err *err)
{
	if (!is_plain_name(id))
		return pl_cni_err(err, PL_CNI_INVALID_ENVIRONMENT,
				  "CNI_CONTAINERID \"%.64s\" must be a letter "
				  "or digit, then letters, digits, \"_\", "
				  "\".\" or \"-\"", id);
	if (strlen(id) > PL_CNI_ID_MAX)
		return pl_cni_err(err, PL_CNI_INVALID_ENVIRONMENT,
				  "CNI_CONTAINERID \"%.64s...\" is longer than "
				  "%d bytes", id, PL_CNI_ID_MAX);
	return 0;
}

int pl_cni_check_ifname(const char *name, struct pl_err *err)
{
	const char *why = NULL;

	if (!*name)
		why = "is empty";
	else if (strlen(name) > PL_CNI_IFNAME_MAX)
		why = "is longer than 15 bytes";
	else if (!strcmp(name, ".") || !strcmp(name, ".."))
		why = "names a folder";
	else if (strchr(name, '%'))
		why = "has a \"%\" in it, for which Linux puts a number";
	else if (name[strcspn(name, "/: \t\n\v\f\r")])
		why = "has a \"/\", a \":\" or white space in it";
	if (why)
		return pl_cni_err(err, PL_CNI_INVALID_ENVIRONMENT,
				  "CNI_IFNAME \"%.32s\" is no name of an "
				  "interface: it %s", name, why);
	return 0;
}

int pl_cni_check_network(const char *name, struct pl_err *err)
{
	if (!is_plain_name(name))
		return pl_cni_err(err, PL_CNI_INVALID_CONFIG,
				  "the network's name \"%.64s\" must be a "
				  "letter or digit, then letters, digits, "
				  "\"_\", \".\" or \"-\"", name);
	if (strlen(name) > PL_CNI_NAME_MAX)
		return pl_cni_err(err, PL_CNI_INVALID_CONFIG,
				  "the network's name \"%.64s...\" is longer "
				  "than %d bytes", name, PL_CNI_NAME_MAX);
	return 0;
}

#define NEED(cmd) (1u << (cmd))
#define NEED_POD (NEED(PL_CNI_ADD) | NEED(PL_CNI_DEL) | NEED(PL_CNI_CHECK))

/* Section 2, "CNI operations": what each command requires. */
static const struct {
	const char *name;
	size_t offset;
	unsigned int need;
} variables[] = {
	{ "CNI_CONTAINERID", offsetof(struct pl_cni_env, container_id),
	  NEED_POD },
	{ "CNI_NETNS", offsetof(struct pl_cni_env, netns),
	  NEED(PL_CNI_ADD) | NEED(PL_CNI_CHECK) },
	{ "CNI_IFNAME", offsetof(struct pl_cni_env, ifname), NEED_POD },
	{ "CNI_ARGS", offsetof(struct pl_cni_env, args), 0 },
	{ "CNI_PATH", offsetof(struct pl_cni_env, path), NEED(PL_CNI_GC) },
};

static const char *const commands[] = {
	[PL_CNI_ADD] = "ADD",
	[PL_CNI_DEL] = "DEL",
	[PL_CNI_CHECK] = "CHECK",
	[PL_CNI_VERSION] = "VERSION",
	[PL_CNI_GC] = "GC",
	[PL_CNI_STATUS] = "STATUS",
};

static const char *get(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static int find_command(const char *word, enum pl_cni_cmd *cmd)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(commands); i++) {
		if (strcmp(word, commands[i]))
			continue;
		*cmd = (enum pl_cni_cmd)i;
		return 0;
	}
	return -EINVAL;
}

static int read_variables(struct pl_cni_env *env, struct pl_err *err)
{
	char missing[128] = "";
	size_t used = 0;

	for (size_t i = 0; i < PL_ARRAY_SIZE(variables); i++) {
		const char *v = get(variables[i].name);

		*(const char **)((char *)env + variables[i].offset) = v;
		if (v || !(variables[i].need & NEED(env->cmd)))
			continue;
		used += (size_t)snprintf(missing + used, sizeof(missing) - used,
					 "%s%s", used ? ", " : "",
					 variables[i].name);
	}
	if (used)
		return pl_cni_err(err, PL_CNI_INVALID_ENVIRONMENT,
				  "%s requires environment variables that are "
				  "not set: %s", commands[env->cmd], missing);
	return 0;
}

int pl_cni_env_read(struct pl_cni_env *env, struct pl_err *err)
{
	const char *word = get("CNI_COMMAND");
	const char *override = get("CNI_NETNS_OVERRIDE");
	int rc;

	memset(env, 0, sizeof(*env));
	if (!word)
		return 1;
	if (find_command(word, &env->cmd) < 0)
		return pl_cni_err(err, PL_CNI_INVALID_ENVIRONMENT,
				  "CNI_COMMAND \"%.32s\" is none of ADD, DEL, "
				  "CHECK, VERSION, GC, STATUS", word);
	rc = read_variables(env, err);
	env->netns_override = override && (!strcmp(override, "1") ||
					   !strcasecmp(override, "true"));
	if (rc == 0 && (NEED(env->cmd) & NEED_POD))
		rc = pl_cni_check_container_id(env->container_id, err);
	if (rc == 0 && (NEED(env->cmd) & NEED_POD))
		rc = pl_cni_check_ifname(env->ifname, err);
	return rc;
}

int pl_cni_args_get(const char *args, const char *key, char *buf, size_t size)
{
	size_t key_len = strlen(key);
	int found = 0;

	while (args && *args) {
		size_t len = strcspn(args, ";");

		if (len > key_len && args[key_len] == '=' &&
		    !memcmp(args, key, key_len)) {
			size_t n = len - key_len - 1;

			if (n >= size)
				return -ENAMETOOLONG;
			memcpy(buf, args + key_len + 1, n);
			buf[n] = '\0';
			found = 1;
		}
		args += len;
		args += *args == ';';
	}
	return found;
}

/*
 * daemonset/ctl_report.c - podlanectl bugreport: what somebody else has to see
 *
 * A tar archive (POSIX ustar) that is written here, as the image has no tar. A
 * file that can't be had is in it as the reason why.
 */
#include "daemonset/ctl_report.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/nl.h"
#include "common/util.h"
#include "daemonset/agent.h"

#define FILE_MAX (4u << 20)
#define HEX_MIN 40
#define BLOCK 512

struct report {
	const struct pl_ctl_check *o;
	int fd;
	time_t now;
	char top[64];		/* the archive's only folder */
	int rc;
};

/* --- secrets -------------------------------------------------------------- */

/* Parts of names, in small letters. */
static const char *const telling[] = { "token", "password", "passwd", "secret",
				       "psk", "private", "credential",
				       "-key-data", "etcd_key" };

static bool tells(const char *name, size_t n)
{
	char low[64];

	if (n >= sizeof(low))
		return false;
	for (size_t i = 0; i < n; i++)
		low[i] = (char)tolower((unsigned char)name[i]);
	low[n] = '\0';
	for (size_t i = 0; i < PL_ARRAY_SIZE(telling); i++)
		if (strstr(low, telling[i]))
			return true;
	return false;
}

/* The end of a text in quotation marks that begins at s. */
static char *quoted_end(char *s)
{
	while (*s && *s != '"')
		s += *s == '\\' && s[1] ? 2 : 1;
	return s;
}

static void hide_members(char *text)
{
	for (char *p = strchr(text, '"'); p; p = strchr(p, '"')) {
		char *name = p + 1, *end = quoted_end(name), *v;

		if (!*end)
			return;
		p = end + 1;
		v = p + strspn(p, " \t\n:");
		if (*v != '"' || !memchr(p, ':', (size_t)(v - p)) ||
		    !tells(name, (size_t)(end - name)))
			continue;
		p = quoted_end(v + 1);
		memset(v + 1, 'x', (size_t)(p - v - 1));
		p += *p == '"';
	}
}

static void hide_numbers(char *text)
{
	size_t n = 0;

	for (char *p = text;; p++) {
		if (isxdigit((unsigned char)*p)) {
			n++;
			continue;
		}
		if (n >= HEX_MIN)
			memset(p - n, 'x', n);
		n = 0;
		if (!*p)
			return;
	}
}

static void hide_pem(char *text)
{
	for (char *p = text; (p = strstr(p, "-----BEGIN"));) {
		char *end = strstr(p, "-----END");
		size_t n = end ? (size_t)(end - p) : strlen(p);

		memset(p, 'x', n);
		p += n;
	}
}

void pl_report_hide(char *text)
{
	hide_members(text);
	hide_numbers(text);
	hide_pem(text);
}

/* --- the archive ---------------------------------------------------------- */

static void put(struct report *r, const void *data, size_t len)
{
	if (r->rc == 0)
		r->rc = pl_write_all(r->fd, data, len);
}

/* Offsets and lengths of ustar's header. */
static void header(char h[BLOCK], const char *name, size_t len, time_t mtime)
{
	unsigned int sum = 0;

	memset(h, 0, BLOCK);
	snprintf(h, 100, "%s", name);
	memcpy(h + 100, "0000644", 7);
	memcpy(h + 108, "0000000", 7);
	memcpy(h + 116, "0000000", 7);
	snprintf(h + 124, 12, "%011lo", len & 077777777777ul);
	snprintf(h + 136, 12, "%011lo", (unsigned long)mtime & 077777777777ul);
	memset(h + 148, ' ', 8);
	h[156] = '0';
	memcpy(h + 257, "ustar\00000", 8);
	for (int i = 0; i < BLOCK; i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum);
}

/* Hides in text, which is the caller's. */
static void add(struct report *r, const char *name, char *text)
{
	static const char zeros[BLOCK];
	size_t len = strlen(text);
	char h[BLOCK], path[100];

	snprintf(path, sizeof(path), "%s/%s", r->top, name);
	pl_report_hide(text);
	header(h, path, len, r->now);
	put(r, h, sizeof(h));
	put(r, text, len);
	put(r, zeros, (BLOCK - len % BLOCK) % BLOCK);
}

static void add_error(struct report *r, const char *name,
		      const struct pl_err *err)
{
	char text[PL_ERR_MSG_BYTES + 32];

	snprintf(text, sizeof(text), "not here: %s\n", err->msg);
	add(r, name, text);
}

static void add_file(struct report *r, const char *name, const char *path)
{
	pl_auto_free char *text = NULL;
	struct pl_err err = { 0 };

	if (pl_file_read(path, FILE_MAX, &text, NULL, &err) < 0)
		add_error(r, name, &err);
	else
		add(r, name, text);
}

static void add_json(struct report *r, const char *name, const cJSON *j)
{
	pl_auto_free char *text = cJSON_Print(j);

	if (text)
		add(r, name, text);
}

/* --- what is in it -------------------------------------------------------- */

static void add_answers(struct report *r)
{
	static const char *const ops[] = { "status", "pods", "lanes",
					   "regions", "nodes", "policy",
					   "counts" };
	char path[256];

	if (pl_format(path, sizeof(path), "%s/%s", r->o->run_dir,
		      PL_AGENT_SOCKET) < 0)
		return;
	for (size_t i = 0; i < PL_ARRAY_SIZE(ops); i++) {
		pl_auto_json *request = cJSON_CreateObject();
		pl_auto_json *answer = NULL;
		struct pl_err err = { 0 };
		pl_auto_fd fd = -1;
		char name[32];

		snprintf(name, sizeof(name), "agent/%s.json", ops[i]);
		cJSON_AddStringToObject(request, "op", ops[i]);
		if (pl_agent_open(path, &fd, &err) < 0 ||
		    pl_agent_call(fd, request, -1, &answer, &err) < 0)
			add_error(r, name, &err);
		else
			add_json(r, name, answer);
	}
}

static void add_check(struct report *r)
{
	struct pl_err err = { 0 };
	cJSON *list = NULL;

	if (pl_ctl_check_list(r->o, &list, &err) < 0)
		add_error(r, "check.json", &err);
	else
		add_json(r, "check.json", list);
	cJSON_Delete(list);
}

static void add_conf(struct report *r)
{
	pl_auto_free struct pl_agent_conf *conf = calloc(1, sizeof(*conf));
	const char *file = r->o->config ? r->o->config : PL_AGENT_CONFIG;
	char path[PATH_MAX], name[64];
	struct dirent *e;
	DIR *f;

	add_file(r, "podlaned.json", file);
	if (!conf)
		return;
	pl_agent_conf_default(conf);
	if (pl_agent_conf_load(file, conf, NULL) < 0)
		pl_agent_conf_default(conf);
	f = opendir(conf->cni.conf_dir);
	while (f && (e = readdir(f))) {
		if (e->d_name[0] == '.' || strstr(e->d_name, "kubeconfig") ||
		    pl_format(path, sizeof(path), "%s/%s", conf->cni.conf_dir,
			      e->d_name) < 0 ||
		    pl_format(name, sizeof(name), "net.d/%s", e->d_name) < 0)
			continue;
		if (strstr(name, ".conf"))
			add_file(r, name, path);
	}
	if (f)
		closedir(f);
}

static int link_line(const struct pl_link *l, void *arg)
{
	fprintf(arg, "%d %s kind=%s mtu=%u flags=%#x master=%d\n", l->index,
		l->name, *l->kind ? l->kind : "-", l->mtu, l->flags, l->master);
	return 0;
}

static int addr_line(const struct pl_prefix *p, void *arg)
{
	char buf[PL_PREFIX_STRLEN];

	fprintf(arg, "%s\n", pl_prefix_str(p, buf));
	return 0;
}

static int route_line(const struct pl_route *t, void *arg)
{
	char dst[PL_PREFIX_STRLEN], gw[INET6_ADDRSTRLEN] = "-";

	if (t->gw.family)
		pl_addr_str(&t->gw, gw);
	fprintf(arg, "%s via %s link=%d table=%u mtu=%u\n",
		pl_prefix_str(&t->dst, dst), gw, t->index, t->table, t->mtu);
	return 0;
}

static void add_network(struct report *r)
{
	char *text = NULL;
	size_t len;
	struct pl_nl nl;
	FILE *f = open_memstream(&text, &len);

	if (f && pl_nl_open(&nl, -1, NULL) == 0) {
		fprintf(f, "links\n");
		pl_nl_link_each(&nl, link_line, f, NULL);
		fprintf(f, "\naddresses\n");
		pl_nl_addr_each(&nl, 0, addr_line, f, NULL);
		fprintf(f, "\nroutes\n");
		pl_nl_route_each(&nl, 0, route_line, f, NULL);
		pl_nl_close(&nl);
	}
	if (f && fclose(f) == 0)
		add(r, "network.txt", text);
	free(text);
}

static void add_machine(struct report *r)
{
	static const char *const files[] = { "cpuinfo", "meminfo", "loadavg",
					     "uptime", "mounts", "modules",
					     "net/sockstat", "net/snmp",
					     "net/dev", "sys/fs/file-nr" };
	char path[PATH_MAX], kernel[256], name[64];
	pl_auto_free char *text = NULL;
	struct utsname u = { 0 };

	uname(&u);
	snprintf(kernel, sizeof(kernel), "%.60s %.60s %.60s\n", u.sysname,
		 u.release, u.machine);
	add(r, "kernel.txt", kernel);
	for (size_t i = 0; i < PL_ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "/proc/%s", files[i]);
		snprintf(name, sizeof(name), "proc/%s", files[i]);
		add_file(r, name, path);
	}
	if (pl_format(path, sizeof(path), "%s/lock", r->o->run_dir) < 0 ||
	    pl_file_read(path, FILE_MAX, &text, NULL, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	snprintf(path, sizeof(path), "/proc/%.16s/status", text);
	add_file(r, "agent/status.txt", path);
	snprintf(path, sizeof(path), "/proc/%.16s/limits", text);
	add_file(r, "agent/limits.txt", path);
}

static int open_out(const char *file, struct pl_err *err)
{
	int fd;

	if (!strcmp(file, "-"))
		return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		  0600);
	return fd < 0 ? pl_err_sys(err, "cannot create %s", file) : fd;
}

int pl_ctl_report(const struct pl_ctl_check *o, const char *file,
		  struct pl_err *err)
{
	static const char end[2 * BLOCK];
	struct report r = { .o = o, .now = time(NULL) };
	char version[64];
	struct tm tm;

	r.fd = open_out(file, err);
	if (r.fd < 0)
		return r.fd;
	strftime(r.top, sizeof(r.top), "podlane-bugreport-%Y%m%dT%H%M%SZ",
		 gmtime_r(&r.now, &tm));
	snprintf(version, sizeof(version), "podlanectl %s\n", PL_VERSION);
	add(&r, "version.txt", version);
	add_answers(&r);
	add_check(&r);
	add_conf(&r);
	add_network(&r);
	add_machine(&r);
	put(&r, end, sizeof(end));
	if (close(r.fd) < 0 && r.rc == 0)
		r.rc = -errno;
	if (r.rc < 0 && strcmp(file, "-"))
		unlink(file);
	return r.rc < 0 ? pl_err_set(err, -r.rc, "cannot write %s: %s", file,
				     strerror(-r.rc)) : 0;
}

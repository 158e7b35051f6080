/* plugin/delegate.c - execute another plugin, as a runtime does */
#include "plugin/delegate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/exec.h"
#include "common/json.h"
#include "common/util.h"
#include "ipam/cni.h"

#define OUTPUT_MAX (64u << 20)

extern char **environ;

static int find_plugin(const struct pl_delegate *d, char *buf, size_t size,
		       struct pl_err *err)
{
	if (pl_exec_find(d->path, d->plugin, buf, size) == 0)
		return 0;
	return pl_err_set(err, ENOENT,
			  "plugin %s is in none of the folders of CNI_PATH "
			  "(%s)", d->plugin, d->path ? d->path : "");
}

static int conf_file(const struct pl_delegate *d, struct pl_err *err)
{
	pl_auto_free char *text = cJSON_PrintUnformatted(d->conf);

	return text ? pl_exec_input(text, err) :
		      pl_err_set(err, ENOMEM, "out of memory");
}

/* What replaces the variables of our own environment. */
struct overrides {
	char text[3][PL_CNI_ID_MAX + 32];
	int n;
};

static int override(struct overrides *o, const char *name, const char *value)
{
	if (!value)
		return 0;
	return pl_format(o->text[o->n++], sizeof(o->text[0]), "%s=%s", name,
			 value);
}

static bool replaced(const struct overrides *o, const char *var)
{
	for (int i = 0; i < o->n; i++) {
		if (!strncmp(o->text[i], var, strcspn(o->text[i], "=") + 1))
			return true;
	}
	return false;
}

/* Our environment with the overrides; the strings are shared. */
static char **make_env(struct overrides *o)
{
	size_t n = 0, k = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + (size_t)o->n + 1, sizeof(*env));
	if (!env)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (!replaced(o, environ[i]))
			env[k++] = environ[i];
	}
	for (int i = 0; i < o->n; i++)
		env[k++] = o->text[i];
	return env;
}

/*
 * fds: its standard input and output, and the lock or -1. SIGPIPE and
 * SIGXFSZ, which we ignore, are given back to it.
 */
static int spawn_with(const char *path, char **env, const int *fds, pid_t *pid)
{
	char *const argv[] = { (char *)path, NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t sigs;
	int rc = posix_spawn_file_actions_init(&fa);

	if (rc)
		return rc;
	rc = posix_spawnattr_init(&attr);
	if (rc)
		goto out;
	sigemptyset(&sigs);
	sigaddset(&sigs, SIGPIPE);
	sigaddset(&sigs, SIGXFSZ);
	posix_spawnattr_setsigdefault(&attr, &sigs);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_adddup2(&fa, fds[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&fa, fds[1], STDOUT_FILENO);
	/* Onto itself: that keeps it open over the exec. */
	if (fds[2] >= 0)
		posix_spawn_file_actions_adddup2(&fa, fds[2], fds[2]);
	rc = posix_spawn(pid, path, &fa, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
out:
	posix_spawn_file_actions_destroy(&fa);
	return rc;
}

static int spawn(const char *path, const struct pl_delegate *d, int in, int out,
		 pid_t *pid, struct pl_err *err)
{
	const int fds[3] = { in, out, d->lock_fd };
	struct overrides o = { .n = 0 };
	pl_auto_free char **env = NULL;
	int rc;

	if (override(&o, "CNI_COMMAND", d->command) < 0 ||
	    override(&o, "CNI_CONTAINERID", d->id) < 0 ||
	    override(&o, "CNI_IFNAME", d->ifname) < 0)
		return pl_err_set(err, ENAMETOOLONG, "names are too long");
	env = make_env(&o);
	if (!env)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = spawn_with(path, env, fds, pid);
	if (rc)
		return pl_err_set(err, rc, "cannot execute %s: %s", path,
				  strerror(rc));
	return 0;
}

static int read_all(int fd, char **out, size_t *len, struct pl_err *err)
{
	pl_auto_free char *buf = NULL;
	size_t cap = 0;
	ssize_t r;

	*len = 0;
	do {
		if (*len == cap) {
			char *p;

			cap = cap ? cap * 2 : 4096;
			p = cap > OUTPUT_MAX ? NULL : realloc(buf, cap);
			if (!p)
				return pl_err_set(err, EFBIG,
						  "its output is too large");
			buf = p;
		}
		r = read(fd, buf + *len, cap - *len);
		if (r > 0)
			*len += (size_t)r;
	} while (r > 0 || (r < 0 && errno == EINTR));
	if (r < 0)
		return pl_err_sys(err, "cannot read its output");
	*out = pl_take_ptr(&buf);
	return 0;
}

static int failed(const cJSON *j, int status, struct pl_err *err)
{
	const char *msg = "", *details = "";
	int64_t c = 0;

	if (pl_json_int(j, "", "code", 1, 65535, &c, NULL) <= 0 ||
	    pl_json_str(j, "", "msg", &msg, NULL) < 0 ||
	    pl_json_str(j, "", "details", &details, NULL) < 0) {
		if (WIFSIGNALED(status))
			return pl_err_set(err, EREMOTEIO, "killed by signal %d",
					  WTERMSIG(status));
		return pl_err_set(err, EREMOTEIO,
				  "failed with exit status %d and without a "
				  "message", WEXITSTATUS(status));
	}
	return pl_cni_err(err, (enum pl_cni_code)c, "%s%s%s", msg,
			  *details ? "; " : "", details);
}

static int judge(const char *text, size_t len, int status, cJSON **out,
		 struct pl_err *err)
{
	pl_auto_json *j = NULL;
	struct pl_err why;
	int rc = 0;

	if (len)
		rc = pl_json_parse(text, len, &j, &why);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return failed(j, status, err);
	if (rc < 0)
		return pl_cni_err(err, PL_CNI_DECODE, "%s", why.msg);
	*out = j;
	j = NULL;
	return 0;
}

static int run(const char *path, const struct pl_delegate *d, cJSON **out,
	       struct pl_err *err)
{
	pl_auto_fd in = conf_file(d, err);
	pl_auto_fd from = -1;
	pl_auto_free char *text = NULL;
	int p[2], status = 0, rc;
	size_t len = 0;
	pid_t pid;

	if (in < 0)
		return in;
	if (pipe2(p, O_CLOEXEC) < 0)
		return pl_err_sys(err, "cannot make a pipe");
	from = p[0];
	rc = spawn(path, d, in, p[1], &pid, err);
	close(p[1]);
	if (rc < 0)
		return rc;
	rc = read_all(from, &text, &len, err);
	if (rc < 0)
		pl_close_fd(&from);	/* ends a plugin that still writes */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return rc < 0 ? rc : judge(text, len, status, out, err);
}

int pl_delegate(const struct pl_delegate *d, cJSON **out, struct pl_err *err)
{
	char path[4096];
	int rc = find_plugin(d, path, sizeof(path), err);

	*out = NULL;
	if (rc == 0)
		rc = run(path, d, out, err);
	if (rc < 0)
		pl_err_prefix(err, "%s %s", d->plugin, d->command);
	return rc;
}

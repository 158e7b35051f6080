/* daemonset/undo.c - DEL for pods whose runtime never sends one */
#include "daemonset/undo.h"

#include <errno.h>
#include <event2/event.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/exec.h"
#include "common/json.h"
#include "common/log.h"
#include "common/util.h"

#define WAIT_FIRST_S 1
#define WAIT_MAX_S 300
#define DEL_TIMEOUT_S 60
#define ENV_VARS 6
#define ENV_BYTES (PL_AGENT_UNDO_MAX + 32)

struct job {
	char key[PL_REG_KEY_BYTES];
	char network[128], container[128], ifname[16];
	struct pl_reg_undo how;
	uint64_t due_ns;
	unsigned int wait_s;
	TAILQ_ENTRY(job) of_undo;
};

struct pl_undo {
	struct event_base *base;
	void (*done)(const char *key, void *arg);
	void *arg;
	TAILQ_HEAD(, job) jobs;
	struct event *timer;		/* for the next that is due */
	struct job *running;		/* NULL: none */
	bool cancelled;
	pid_t pid;
	int pidfd;
	struct event *ended;		/* of pidfd */
};

static void schedule(struct pl_undo *u);

/* Later: twice as long as before. */
static void put_off(struct job *j)
{
	j->due_ns = pl_now_ns() + j->wait_s * UINT64_C(1000000000);
	j->wait_s = PL_MIN(j->wait_s * 2, (unsigned int)WAIT_MAX_S);
}

/* --- executing the plugin --- */

/* The record in the plugin's stateDir says the rest. */
static int conf_file(const struct job *j)
{
	pl_auto_json *conf = cJSON_CreateObject();
	pl_auto_free char *text = NULL;

	cJSON_AddStringToObject(conf, "cniVersion", "1.0.0");
	cJSON_AddStringToObject(conf, "name", j->network);
	cJSON_AddStringToObject(conf, "type", "podlane");
	cJSON_AddStringToObject(conf, "stateDir", j->how.state_dir);
	text = cJSON_PrintUnformatted(conf);
	return text ? pl_exec_input(text, NULL) : -ENOMEM;
}

static int make_env(const struct job *j, char (*text)[ENV_BYTES], char **env)
{
	const char *name[ENV_VARS] = { "CNI_COMMAND", "CNI_CONTAINERID",
				       "CNI_IFNAME", "CNI_PATH", "CNI_NETNS",
				       "PATH" };
	const char *value[ENV_VARS] = { "DEL", j->container, j->ifname,
					j->how.cni_path, "",
					"/usr/sbin:/usr/bin:/sbin:/bin" };

	for (int i = 0; i < ENV_VARS; i++) {
		if (pl_format(text[i], ENV_BYTES, "%s=%s", name[i],
			      value[i]) < 0)
			return -ENAMETOOLONG;
		env[i] = text[i];
	}
	env[ENV_VARS] = NULL;
	return 0;
}

static int execute(struct job *j, pid_t *pid)
{
	char text[ENV_VARS][ENV_BYTES], *env[ENV_VARS + 1];
	pl_auto_fd in = conf_file(j);
	int rc;

	if (in < 0)
		return in;
	rc = make_env(j, text, env);
	/* What it prints is an error document, for the log. */
	return rc < 0 ? rc : pl_exec_spawn(j->how.plugin, env, in,
					   STDERR_FILENO, pid);
}

/* --- one job --- */

static void finish(struct pl_undo *u, bool good)
{
	struct job *j = u->running;

	u->running = NULL;
	if (!u->cancelled && !good) {
		put_off(j);
		return;
	}
	TAILQ_REMOVE(&u->jobs, j, of_undo);
	if (!u->cancelled) {
		pl_info("gave back reg=%s: DEL, its namespace is gone", j->key);
		u->done(j->key, u->arg);
	}
	free(j);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct pl_undo *u = arg;
	const struct timeval tv = { .tv_sec = DEL_TIMEOUT_S };
	int status = -1;

	(void)fd;
	if (what & EV_TIMEOUT) {
		pl_error("reg=%s: %s did not end within %d s, killed",
			 u->running->key, u->running->how.plugin,
			 DEL_TIMEOUT_S);
		kill(u->pid, SIGKILL);
		event_add(u->ended, &tv);
		return;
	}
	waitpid(u->pid, &status, 0);
	event_free(u->ended);
	u->ended = NULL;
	pl_close_fd(&u->pidfd);
	if (status)
		pl_error("reg=%s: DEL by %s failed; trying again",
			 u->running->key, u->running->how.plugin);
	finish(u, status == 0);
	schedule(u);
}

/* The end of a process is told by a descriptor for it. */
static int watch(struct pl_undo *u)
{
	const struct timeval tv = { .tv_sec = DEL_TIMEOUT_S };

	u->pidfd = (int)syscall(SYS_pidfd_open, u->pid, 0);
	if (u->pidfd < 0)
		return -errno;
	u->ended = event_new(u->base, u->pidfd, EV_READ, on_end, u);
	if (u->ended && event_add(u->ended, &tv) == 0)
		return 0;
	if (u->ended)
		event_free(u->ended);
	u->ended = NULL;
	pl_close_fd(&u->pidfd);
	return -ENOMEM;
}

/* Whether it runs now. */
static bool start(struct pl_undo *u, struct job *j)
{
	int rc;

	if (*j->how.link && if_nametoindex(j->how.link)) {
		put_off(j);
		return false;
	}
	rc = execute(j, &u->pid);
	if (rc < 0) {
		pl_error("reg=%s: cannot execute %s: %s; trying again (or: "
			 "podlanectl ipam release %s %s)", j->key,
			 j->how.plugin, strerror(-rc), j->container,
			 j->ifname);
		put_off(j);
		return false;
	}
	u->running = j;
	u->cancelled = false;
	rc = watch(u);
	if (rc == 0)
		return true;
	/* Not to be left behind unseen. */
	kill(u->pid, SIGKILL);
	waitpid(u->pid, NULL, 0);
	finish(u, false);
	return false;
}

static void schedule(struct pl_undo *u)
{
	uint64_t now = pl_now_ns(), next = UINT64_MAX;
	struct job *j;
	struct timeval tv;

	if (u->running)
		return;
	TAILQ_FOREACH(j, &u->jobs, of_undo) {
		if (j->due_ns <= now && start(u, j))
			return;
		next = PL_MIN(next, j->due_ns);
	}
	if (next == UINT64_MAX)
		return;
	next = next > now ? (next - now) / 1000 + 1 : 1;
	tv.tv_sec = (time_t)(next / 1000000);
	tv.tv_usec = (suseconds_t)(next % 1000000);
	event_add(u->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	schedule(arg);
}

/* --- all of them --- */

static struct job *find(struct pl_undo *u, const char *key)
{
	struct job *j;

	TAILQ_FOREACH(j, &u->jobs, of_undo)
		if (!strcmp(j->key, key) && !(j == u->running && u->cancelled))
			return j;
	return NULL;
}

int pl_undo_add(struct pl_undo *u, const struct pl_reg *reg)
{
	struct job *j;

	if (!*reg->undo.plugin)
		return -EINVAL;
	if (find(u, reg->key))
		return 0;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	memcpy(j->key, reg->key, sizeof(j->key));
	memcpy(j->network, reg->network, sizeof(j->network));
	memcpy(j->container, reg->container, sizeof(j->container));
	memcpy(j->ifname, reg->ifname, sizeof(j->ifname));
	j->how = reg->undo;
	j->wait_s = WAIT_FIRST_S;
	/* The kernel needs a moment until a namespace is gone. */
	put_off(j);
	TAILQ_INSERT_TAIL(&u->jobs, j, of_undo);
	schedule(u);
	return 0;
}

void pl_undo_cancel(struct pl_undo *u, const char *key)
{
	struct job *j = find(u, key);

	if (j && j == u->running) {
		u->cancelled = true;
	} else if (j) {
		TAILQ_REMOVE(&u->jobs, j, of_undo);
		free(j);
	}
}

int pl_undo_create(struct event_base *base,
		   void (*done)(const char *key, void *arg), void *arg,
		   struct pl_undo **out, struct pl_err *err)
{
	struct pl_undo *u = calloc(1, sizeof(*u));

	if (!u)
		return pl_err_set(err, ENOMEM, "out of memory");
	u->base = base;
	u->done = done;
	u->arg = arg;
	u->pidfd = -1;
	TAILQ_INIT(&u->jobs);
	u->timer = evtimer_new(base, on_timer, u);
	if (!u->timer) {
		free(u);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	*out = u;
	return 0;
}

void pl_undo_destroy(struct pl_undo *u)
{
	struct job *j;

	if (!u)
		return;
	while ((j = TAILQ_FIRST(&u->jobs))) {
		TAILQ_REMOVE(&u->jobs, j, of_undo);
		free(j);
	}
	if (u->ended)
		event_free(u->ended);
	pl_close_fd(&u->pidfd);
	event_free(u->timer);
	free(u);
}

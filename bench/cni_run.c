/* bench/cni_run.c - execute CNI plugins the way a container runtime does */
#include "bench/cni_run.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/exec.h"
#include "common/json.h"
#include "common/netns.h"
#include "common/nl.h"
#include "common/util.h"

#define OUTPUT_BYTES 65536
#define EXEC_TIMEOUT_MS 30000
#define SETTLE_TRIES 1000

/* --- pods --- */

/* Says 0 or an errno on the pipe, then sleeps until it is killed. */
static void hold(int ready, pid_t parent)
{
	int rc = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (unshare(CLONE_NEWNET) < 0)
		rc = errno;
	if (pl_write_all(ready, &rc, sizeof(rc)) < 0 || rc)
		_exit(1);
	for (;;)
		pause();
}

int cni_pod_create(struct cni_pod *pod, struct pl_err *err)
{
	int p[2], rc = EIO;
	pid_t self = getpid();

	pod->pid = 0;
	if (pipe2(p, O_CLOEXEC) < 0)
		return pl_err_sys(err, "cannot make a pipe");
	pod->pid = fork();
	if (pod->pid == 0)
		hold(p[1], self);
	close(p[1]);
	if (pod->pid < 0)
		rc = errno;
	else if (read(p[0], &rc, sizeof(rc)) != sizeof(rc))
		rc = EIO;
	close(p[0]);
	snprintf(pod->netns, sizeof(pod->netns), "/proc/%d/ns/net",
		 (int)pod->pid);
	if (!rc)
		return 0;
	cni_pod_destroy(pod);
	return pl_err_set(err, rc, "cannot make a network namespace: %s",
			  strerror(rc));
}

void cni_pod_destroy(struct cni_pod *pod)
{
	if (pod->pid > 0) {
		kill(pod->pid, SIGKILL);
		waitpid(pod->pid, NULL, 0);
	}
	pod->pid = 0;
}

/* --- execution --- */

#define ENV_VARS 7
#define ENV_BYTES 4096

static int make_env(const struct cni_exec *e, const char *command,
		    const struct cni_pod *pod, char (*text)[ENV_BYTES])
{
	const char *name[ENV_VARS] = { "CNI_COMMAND", "CNI_CONTAINERID",
				       "CNI_NETNS", "CNI_IFNAME", "CNI_PATH",
				       "CNI_ARGS", "PATH" };
	const char *value[ENV_VARS] = { command, e->id, pod->netns, e->ifname,
					e->cni_path, e->args ? e->args : "",
					"/usr/sbin:/usr/bin" };

	for (int i = 0; i < ENV_VARS; i++) {
		if (pl_format(text[i], ENV_BYTES, "%s=%s", name[i],
			      value[i]) < 0)
			return -ENAMETOOLONG;
	}
	return 0;
}

/*
 * posix_spawn() lends the child our memory until it executes the plugin, and
 * the kernel counts that; a copy has but the few pages that a child can't fault
 * in.
 */
static int spawn_counted(const char *plugin, char **env, int in, int out,
			 pid_t *pid)
{
	char *argv[] = { (char *)plugin, NULL };
	sigset_t none;

	*pid = fork();
	if (*pid < 0)
		return -errno;
	if (*pid)
		return 0;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
		execve(plugin, argv, env);
	_exit(127);
}

/* To the end of file, at most size - 1 bytes, NUL terminated. */
static int read_output(int fd, char *buf, size_t size, struct pl_err *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 0;

	for (;;) {
		ssize_t r = 0;

		if (poll(&p, 1, EXEC_TIMEOUT_MS) == 0)
			return pl_err_set(err, ETIMEDOUT,
					  "did not end within %d s",
					  EXEC_TIMEOUT_MS / 1000);
		r = read(fd, buf + n, size - 1 - n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return pl_err_sys(err, "cannot read its output");
		n += (size_t)r;
		buf[n] = '\0';
		if (r == 0)
			return 0;
	}
}

int cni_start(const struct cni_exec *e, const char *command,
	      const struct cni_pod *pod, bool counted, struct cni_job *job,
	      struct pl_err *err)
{
	char text[ENV_VARS][ENV_BYTES], *env[ENV_VARS + 1] = { NULL };
	pl_auto_fd in = pl_exec_input(e->conf, err);
	int p[2], rc;

	*job = (struct cni_job){ .out = -1 };
	if (in < 0)
		return in;
	if (make_env(e, command, pod, text) < 0)
		return pl_err_set(err, ENAMETOOLONG, "paths are too long");
	for (int i = 0; i < ENV_VARS; i++)
		env[i] = text[i];
	if (pipe2(p, O_CLOEXEC) < 0)
		return pl_err_sys(err, "cannot make a pipe");
	job->out = p[0];
	job->start_ns = pl_now_ns();
	rc = (counted ? spawn_counted : pl_exec_spawn)(e->plugin, env, in,
						       p[1], &job->pid);
	close(p[1]);
	if (rc == 0)
		return 0;
	job->pid = 0;
	pl_close_fd(&job->out);
	return pl_err_set(err, -rc, "cannot execute %s: %s", e->plugin,
			  strerror(-rc));
}

int cni_finish(struct cni_job *job, char **out, struct pl_err *err)
{
	pl_auto_free char *buf = malloc(OUTPUT_BYTES);
	struct rusage usage = { 0 };
	int rc, status = 0;

	if (buf) {
		buf[0] = '\0';
		rc = read_output(job->out, buf, OUTPUT_BYTES, err);
	} else {
		rc = pl_err_set(err, ENOMEM, "out of memory");
	}
	pl_close_fd(&job->out);
	if (rc < 0)
		kill(job->pid, SIGKILL);
	while (wait4(job->pid, &status, 0, &usage) < 0 && errno == EINTR)
		;
	job->pid = 0;
	job->ns = pl_now_ns() - job->start_ns;
	job->peak_kib = (uint32_t)usage.ru_maxrss;
	if (rc == 0 && WIFSIGNALED(status))
		rc = pl_err_set(err, ECHILD, "it was ended by signal %d",
				WTERMSIG(status));
	else if (rc == 0 && status)
		rc = pl_err_set(err, EREMOTEIO, "it failed and printed %s",
				buf);
	if (rc == 0 && out)
		*out = pl_take_ptr(&buf);
	return rc;
}

int cni_exec(const struct cni_exec *e, const char *command,
	     const struct cni_pod *pod, uint64_t *ns, char **out,
	     struct pl_err *err)
{
	struct cni_job job;
	int rc = cni_start(e, command, pod, false, &job, err);

	if (rc == 0)
		rc = cni_finish(&job, out, err);
	*ns = job.ns;
	if (rc < 0)
		pl_err_prefix(err, "%s %s", e->plugin, command);
	return rc;
}

/* --- verification --- */

static int same_addr(const struct pl_prefix *a, void *arg)
{
	const struct pl_prefix *b = arg;

	return a->len == b->len && pl_addr_equal(&a->addr, &b->addr);
}

static int first_address(const char *result, struct pl_prefix *out)
{
	pl_auto_json *doc = NULL;
	const cJSON *ips = NULL;
	const char *s = "";

	if (pl_json_parse(result, strlen(result), &doc, NULL) < 0 ||
	    pl_json_arr(doc, "", "ips", &ips, NULL) <= 0 ||
	    pl_json_str(cJSON_GetArrayItem(ips, 0), "", "address", &s,
			NULL) <= 0)
		return -EINVAL;
	return pl_prefix_parse(s, out);
}

static int open_pod(const struct cni_pod *pod, struct pl_nl *nl,
		    struct pl_err *err)
{
	pl_auto_fd fd = -1;
	int rc = pl_netns_open(pod->netns, &fd, err);

	return rc < 0 ? rc : pl_nl_open(nl, fd, err);
}

int cni_verify_added(const struct cni_pod *pod, const char *ifname,
		     const char *result, struct pl_err *err)
{
	struct pl_prefix want;
	struct pl_link link;
	struct pl_nl nl;
	int rc;

	if (first_address(result, &want) < 0)
		return pl_err_set(err, EPROTO, "no address in the result %s",
				  result);
	rc = open_pod(pod, &nl, err);
	if (rc < 0)
		return rc;
	rc = pl_nl_link_get(&nl, ifname, &link, err);
	if (rc == 0 && !(link.flags & IFF_UP))
		rc = pl_err_set(err, EPROTO, "%s is down after ADD", ifname);
	if (rc == 0) {
		rc = pl_nl_addr_each(&nl, link.index, same_addr, &want, err);
		rc = rc ? PL_MIN(rc, 0) :
			  pl_err_set(err, EPROTO, "%s lacks the address of "
				     "the result %s", ifname, result);
	}
	pl_nl_close(&nl);
	return rc;
}

int cni_verify_deleted(const struct cni_pod *pod, const char *ifname,
		       struct pl_err *err)
{
	struct pl_link link;
	struct pl_nl nl;
	int rc = open_pod(pod, &nl, err);

	if (rc < 0)
		return rc;
	rc = pl_nl_link_get(&nl, ifname, &link, err);
	pl_nl_close(&nl);
	if (rc == -ENODEV)
		return 0;
	return rc < 0 ? rc : pl_err_set(err, EPROTO, "%s is still there after "
					"DEL", ifname);
}

/* --- what plugins leave running --- */

int cni_adopt(struct pl_err *err)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return pl_err_sys(err, "prctl(PR_SET_CHILD_SUBREAPER)");
	return 0;
}

/* A child that is not known, 0: none, -errno. */
static pid_t stranger(const pid_t *known, size_t n)
{
	char text[32768], *p = text, *end;
	pl_auto_fd fd = open("/proc/thread-self/children",
			     O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (len < 0)
		return -errno;
	text[len] = '\0';
	for (;; p = end) {
		pid_t pid = (pid_t)strtol(p, &end, 10);
		size_t i = 0;

		if (end == p)
			return 0;
		while (i < n && known[i] != pid)
			i++;
		if (i == n)
			return pid;
	}
}

int cni_settle(const pid_t *known, size_t n, struct pl_err *err)
{
	for (int i = 0; i < SETTLE_TRIES; i++) {
		pid_t pid = stranger(known, n);

		if (pid == 0)
			return 0;
		if (pid < 0)
			return pl_err_set(err, -pid, "cannot read the list of "
					  "children: %s", strerror(-pid));
		waitpid(pid, NULL, 0);
	}
	return pl_err_set(err, EPROTO, "the plugin left too many processes");
}

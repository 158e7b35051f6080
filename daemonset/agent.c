/* daemonset/agent.c - puts the parts of an agent together, and runs them */
#include "daemonset/agent.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "common/util.h"
#include "daemonset/agent_internal.h"
#include "daemonset/file_watch.h"
#include "daemonset/guard.h"
#include "daemonset/install_keep.h"
#include "daemonset/notice.h"
#include "daemonset/rundir.h"

#define OVERLAY_WAIT_MAX_S 32
#define OVERLAY_LOOK_S 60

const struct pl_registry *pl_agent_registry(const struct pl_agent *a)
{
	return a->registry ? pl_registry_source_table(a->registry) : &a->none;
}

int pl_agent_ready(const struct pl_agent *a, struct pl_err *err)
{
	const char *overlay = pl_overlay_state(&a->overlay);
	const char *problem = a->registry ?
			      pl_registry_source_problem(a->registry) : "";

	if (a->registry && !pl_registry_by_name(pl_agent_registry(a),
						a->args->node))
		return pl_err_set(err, EAGAIN,
				  "the registry %s has no node '%s'; add it, or "
				  "start podlaned with --node%s%s",
				  pl_registry_source_name(a->registry),
				  a->args->node, *problem ? "; " : "",
				  problem);
	if (a->args->conf.overlay.type != PL_OVERLAY_NONE &&
	    strcmp(overlay, "up"))
		return pl_err_set(err, EAGAIN, "the overlay is %s", overlay);
	if (access(a->pods->dir, W_OK) < 0)
		return pl_err_sys(err, "cannot write to %s", a->pods->dir);
	return 0;
}

/* --- overlay -------------------------------------------------------------- */

/*
 * A failure is tried again, ever more slowly. What is good is looked at again
 * now and then, as others may change interfaces and routes at any time.
 */
static void overlay_sync(struct pl_agent *a)
{
	struct timeval tv = { .tv_sec = OVERLAY_LOOK_S };
	struct pl_err err = { 0 };

	if (pl_overlay_sync(&a->overlay, pl_agent_registry(a), &err) == 0) {
		if (a->overlay_wait_s)
			pl_info("overlay: %s", pl_overlay_state(&a->overlay));
		a->overlay_wait_s = 0;
		event_add(a->overlay_retry, &tv);
		return;
	}
	a->overlay_wait_s = a->overlay_wait_s ?
				    PL_MIN(2 * a->overlay_wait_s,
					   OVERLAY_WAIT_MAX_S) : 1;
	pl_warn("overlay: %s; trying again in %d s", err.msg,
		a->overlay_wait_s);
	tv.tv_sec = a->overlay_wait_s;
	event_add(a->overlay_retry, &tv);
}

static void on_overlay_retry(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	overlay_sync(arg);
}

static int overlay_start(struct pl_agent *a, struct pl_err *err)
{
	int rc = pl_overlay_init(&a->overlay, &a->args->conf.overlay,
				 a->args->node, err);

	if (rc < 0)
		return rc;
	a->has_overlay = true;
	a->overlay_retry = evtimer_new(a->base, on_overlay_retry, a);
	if (!a->overlay_retry)
		return pl_err_set(err, ENOMEM, "out of memory");
	overlay_sync(a);
	return 0;
}

/* --- registry ------------------------------------------------------------- */

static void on_registry(const struct pl_registry *was,
			const struct pl_registry *now, void *arg)
{
	struct pl_agent *a = arg;

	(void)was;
	pl_info("registry: %zu nodes", now->n);
	a->broker->registry = now;
	if (a->remote)
		pl_remote_update(a->remote, now);
	if (a->overlay_retry)
		overlay_sync(a);
	pl_keeper_kick(a->keeper);
}

static int registry_start(struct pl_agent *a, struct pl_err *err)
{
	int rc;

	pl_registry_init(&a->none);
	if (a->args->conf.registry != PL_REGISTRY_NONE)
		rc = pl_registry_source_open(a->base, a->args, on_registry, a,
					     &a->registry, err);
	else
		rc = pl_registry_seal(&a->none, err);
	a->broker->registry = pl_agent_registry(a);
	return rc;
}

static int policy_start(struct pl_agent *a, struct pl_err *err)
{
	const char *file = a->args->conf.policy_file;
	int rc = *file ? pl_policy_open(a->base, file, &a->policy, err) : 0;

	a->broker->policy = a->policy;
	return rc;
}

static int remote_start(struct pl_agent *a, struct pl_err *err)
{
	const struct pl_agent_conf *conf = &a->args->conf;
	const struct pl_remote_config cfg = {
		.base = a->base,
		.broker = a->broker,
		.node = a->args->node,
		.carrier = conf->carrier,
		.port = conf->port,
		.connections = (int)conf->connections,
		.congestion = conf->congestion,
		.verbs = { .polling = conf->polling,
			   .device = *conf->device ? conf->device : NULL,
			   .port = (int)conf->device_port,
			   .gid_index = conf->gid_index == PL_AGENT_GID_ANY ?
						-1 : (int)conf->gid_index },
		.security = { .kind = conf->security,
			      .plain = !conf->encrypt,
			      .ca = *conf->ca ? conf->ca : NULL,
			      .cert = *conf->cert ? conf->cert : NULL,
			      .key = *conf->key ? conf->key : NULL },
		.resume_ms = (int)conf->resume_ms,
		.dead_ms = (int)conf->peer_ms,
		.registry = pl_agent_registry(a),
	};
	int rc = pl_remote_create(&cfg, &a->remote, err);

	a->broker->remote = a->remote;
	return rc;
}

/* --- keys ----------------------------------------------------------------- */

static void on_keys(void *arg)
{
	struct pl_agent *a = arg;

	if (a->remote)
		pl_remote_refresh(a->remote);
}

static int keys_start(struct pl_agent *a, struct pl_err *err)
{
	const struct pl_agent_conf *conf = &a->args->conf;
	const char *const paths[] = { conf->ca, conf->cert, conf->key };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < PL_ARRAY_SIZE(a->keys); i++)
		if (*paths[i])
			rc = pl_file_watch_open(a->base, paths[i], on_keys, a,
						&a->keys[i], err);
	return rc;
}

/* Behind the registry's ranges, and where there are none. */
static int locate_start(struct pl_agent *a, struct pl_err *err)
{
	struct pl_kube *kube = a->registry ?
			       pl_registry_source_kube(a->registry) : NULL;
	int rc = pl_locate_create(a->args->node, kube, a->remote,
				  &a->locate, err);

	a->broker->locate = a->locate;
	return rc;
}

/* --- start and end -------------------------------------------------------- */

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct pl_agent *a = arg;

	(void)what;
	pl_info("ending: got %s", sig == SIGTERM ? "SIGTERM" : "SIGINT");
	event_base_loopbreak(a->base);
}

static int signals_start(struct pl_agent *a, struct pl_err *err)
{
	static const int wanted[] = { SIGTERM, SIGINT };

	signal(SIGPIPE, SIG_IGN);
	if (pl_guard_init(err) < 0)
		return -err->code;
	for (size_t i = 0; i < PL_ARRAY_SIZE(wanted); i++) {
		a->signals[i] = evsignal_new(a->base, wanted[i], on_signal, a);
		if (!a->signals[i] || event_add(a->signals[i], NULL) < 0)
			return pl_err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

static void raise_limits(const struct pl_agent_conf *conf)
{
	static const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return;
	rl.rlim_cur = rl.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &rl) < 0)
		pl_warn("cannot raise the limit of open files: %s",
			strerror(errno));
	/* Memory for RDMA is locked; what it lacks, the carrier says. */
	if (strcmp(conf->carrier, "tcp") && setrlimit(RLIMIT_MEMLOCK, &all) < 0)
		pl_debug("cannot raise the limit of locked memory: %s",
			 strerror(errno));
}

static int pods_start(struct pl_agent *a, struct pl_err *err)
{
	int rc = pl_broker_create(a->base, a->args->node, &a->broker, err);

	if (rc == 0)
		rc = pl_pods_create(a->base, a->broker, a->args->node,
				    a->args->run_dir, &a->args->conf, &a->pods,
				    err);
	if (rc < 0)
		return rc;
	a->broker->pods = a->pods;
	a->broker->show_until_ns = pl_now_ns() +
				   a->args->conf.resume_ms * UINT64_C(1000000);
	return 0;
}

static int server_start(struct pl_agent *a, struct pl_err *err)
{
	int fd, rc = pl_rundir_listen(a->args->run_dir, &fd, err);

	return rc < 0 ? rc : pl_server_create(a, fd, &a->server, err);
}

static int notices_start(struct pl_agent *a, struct pl_err *err)
{
	if (!a->registry || !pl_registry_source_kube(a->registry) ||
	    !a->args->conf.event_s)
		return 0;
	return pl_notices_create(a, &a->notices, err);
}

/* The socket is made last: who can connect to it can be served. */
static int start(struct pl_agent *a, struct pl_err *err)
{
	int rc = pl_rundir_lock(a->args->run_dir, &a->lock_fd, err);

	if (rc < 0)
		return rc;
	raise_limits(&a->args->conf);
	a->base = event_base_new();
	if (!a->base)
		return pl_err_set(err, ENOMEM, "cannot make an event loop");
	rc = signals_start(a, err);
	if (rc == 0)
		rc = pods_start(a, err);
	if (rc == 0)
		rc = registry_start(a, err);
	if (rc == 0)
		rc = policy_start(a, err);
	if (rc == 0)
		rc = overlay_start(a, err);
	if (rc == 0)
		rc = keys_start(a, err);
	/* The kernel lets nobody use an RDMA device who changes them later. */
	if (rc == 0)
		rc = pl_caps_drop(err);
	if (rc == 0)
		rc = remote_start(a, err);
	if (rc == 0)
		rc = locate_start(a, err);
	if (rc == 0)
		rc = pl_pods_restore(a->pods, err);
	if (rc == 0 && a->args->conf.seccomp)
		rc = pl_seccomp_install(err);
	if (rc == 0)
		rc = server_start(a, err);
	if (rc == 0 && *a->args->conf.metrics_listen)
		rc = pl_metrics_create(a, a->args->conf.metrics_listen,
				       &a->metrics, err);
	/* Now that pods can be served, runtimes may send them. */
	if (rc == 0 && a->args->conf.cni.mode != PL_CNI_NONE)
		rc = pl_keeper_create(a, &a->keeper, err);
	if (rc == 0)
		rc = notices_start(a, err);
	return rc;
}

/* Whatever start made, in reverse. Devices and records stay. */
static void stop(struct pl_agent *a)
{
	pl_notices_destroy(a->notices);
	pl_keeper_destroy(a->keeper);
	pl_metrics_destroy(a->metrics);
	if (a->server) {
		pl_rundir_unlink(a->args->run_dir);
		pl_server_destroy(a->server);
	}
	if (a->broker)
		a->broker->ending = true;
	if (a->locate) {
		a->broker->locate = NULL;
		pl_locate_destroy(a->locate);
	}
	if (a->remote) {
		a->broker->remote = NULL;
		pl_remote_destroy(a->remote);
	}
	for (size_t i = 0; i < PL_ARRAY_SIZE(a->keys); i++)
		pl_file_watch_close(a->keys[i]);
	if (a->pods)
		pl_pods_destroy(a->pods);
	if (a->overlay_retry)
		event_free(a->overlay_retry);
	if (a->has_overlay)
		pl_overlay_fini(&a->overlay);
	pl_registry_source_close(a->registry);
	pl_registry_fini(&a->none);
	pl_policy_close(a->policy);
	if (a->broker)
		pl_broker_destroy(a->broker);
	for (size_t i = 0; i < PL_ARRAY_SIZE(a->signals); i++)
		if (a->signals[i])
			event_free(a->signals[i]);
	if (a->base)
		event_base_free(a->base);
	pl_close_fd(&a->lock_fd);
}

int pl_agent_run(const struct pl_agent_args *args, struct pl_err *err)
{
	struct pl_agent a = { .args = args, .lock_fd = -1 };
	int rc;

	if (strlen(args->node) >= PL_NODE_NAME_BYTES)
		return pl_err_set(err, EINVAL, "--node: a name is not longer "
				  "than %d bytes", PL_NODE_NAME_BYTES - 1);
	rc = start(&a, err);
	if (rc == 0) {
		pl_info("serving node=%s run-dir=%s version=%s", args->node,
			args->run_dir, PL_VERSION);
		if (event_base_dispatch(a.base) < 0)
			rc = pl_err_set(err, EIO, "the event loop failed");
	}
	stop(&a);
	return rc;
}

/* daemonset/pod.c - the pods of this node and their registrations */
#include "daemonset/pod.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/netns.h"
#include "common/util.h"
#include "daemonset/broker_internal.h"
#include "daemonset/client.h"
#include "daemonset/undo.h"

#define RECONCILE_S 10
#define FD_RESERVE 128
#define COMPLAINTS 10			/* of one kind per pod and minute */
#define COMPLAINTS_NS UINT64_C(60000000000)

/* The last place is for all kinds that have none of their own. */
static struct pl_pod_said *said(struct pl_pod *pod, const char *fmt)
{
	struct pl_pod_said *s = pod->said;

	while (s < &pod->said[PL_POD_SAID - 1] && s->fmt && s->fmt != fmt)
		s++;
	s->fmt = fmt;
	return s;
}

void pl_pod_complain(struct pl_pod *pod, const char *fmt, ...)
{
	uint64_t now = pl_now_ns();
	struct pl_pod_said *s;
	char text[512];
	va_list ap;

	pl_pod_counts_event(pod->counts, PL_POD_COMPLAINTS);
	if (now - pod->log_window_ns > COMPLAINTS_NS) {
		pod->log_window_ns = now;
		memset(pod->said, 0, sizeof(pod->said));
	}
	s = said(pod, fmt);
	if (++s->n > COMPLAINTS)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pl_warn("pod=%s/%s netns=%llu: %s%s", pod->ns, pod->name,
		(unsigned long long)pod->id.ino, text,
		s->n == COMPLAINTS ? " (more of these in the next minute are "
				     "not shown)" : "");
}

const struct pl_addr *pl_pod_addr(const struct pl_pod *pod, uint8_t family)
{
	const struct pl_addr *first = NULL;
	struct pl_reg *reg;

	LIST_FOREACH(reg, &pod->regs, of_pod)
		for (uint32_t i = 0; i < reg->n_addrs; i++) {
			const struct pl_addr *a = &reg->addrs[i].addr;

			if (a->family == family)
				return a;
			if (!first)
				first = a;
		}
	return first;
}

struct pl_pod *pl_pods_by_addr(struct pl_pods *p, const struct pl_addr *a)
{
	struct pl_pod_addr *found;

	HASH_FIND(hh, p->by_addr, a, sizeof(*a), found);
	return found ? found->reg->pod : NULL;
}

static void index_addrs(struct pl_pods *p, struct pl_reg *reg)
{
	for (uint32_t i = 0; i < reg->n_addrs; i++) {
		struct pl_pod_addr *a = &reg->addrs[i], *old;

		a->reg = reg;
		HASH_FIND(hh, p->by_addr, &a->addr, sizeof(a->addr), old);
		if (old) {
			char buf[INET6_ADDRSTRLEN];

			if (old->reg != reg)
				pl_warn("reg=%s has address %s, which reg=%s "
					"had", reg->key,
					pl_addr_str(&a->addr, buf),
					old->reg->key);
			HASH_DELETE(hh, p->by_addr, old);
			old->is_indexed = false;
		}
		HASH_ADD(hh, p->by_addr, addr, sizeof(a->addr), a);
		a->is_indexed = true;
	}
}

static void unindex_addrs(struct pl_pods *p, struct pl_reg *reg)
{
	for (uint32_t i = 0; i < reg->n_addrs; i++) {
		if (reg->addrs[i].is_indexed)
			HASH_DELETE(hh, p->by_addr, &reg->addrs[i]);
		reg->addrs[i].is_indexed = false;
	}
}

static void set_timer(struct pl_pods *p)
{
	const struct timeval tv = { .tv_sec = RECONCILE_S };

	if (!p->by_ns)
		event_del(p->timer);
	else if (!event_pending(p->timer, EV_TIMEOUT, NULL))
		event_add(p->timer, &tv);
}

/* The pod's name is its first registration's; "" when it has none. */
static void name_pod(struct pl_pod *pod)
{
	struct pl_reg *reg = LIST_FIRST(&pod->regs), *next;

	while (reg && (next = LIST_NEXT(reg, of_pod)))
		reg = next;
	pod->name = reg ? reg->pod_name : "";
	pod->ns = reg ? reg->pod_ns : "";
	if (reg)
		pl_counts_name(pod->counts, pod->ns, pod->name);
}

static struct pl_counts_key counts_key(const struct pl_pod *pod)
{
	return (struct pl_counts_key){ pod->id.dev, pod->id.ino, pod->cookie };
}

/* Without a file they are the agent's own, and end with it. */
static int counts_get(struct pl_pod *pod)
{
	const struct pl_counts_key key = counts_key(pod);
	struct pl_err err;

	pod->has_counts_file = pl_counts_open(pod->pods->counts_dir, &key,
					      pod->is_restored, &pod->counts,
					      &err) == 0;
	if (pod->has_counts_file)
		return 0;
	pl_warn("netns=%llu: what this pod does is counted until the agent "
		"ends: %s", (unsigned long long)pod->id.ino, err.msg);
	pod->counts = calloc(1, sizeof(*pod->counts));
	return pod->counts ? 0 : -ENOMEM;
}

static void counts_put(struct pl_pod *pod)
{
	const struct pl_counts_key key = counts_key(pod);

	if (!pod->has_counts_file) {
		free(pod->counts);
		return;
	}
	pl_counts_close(pod->counts);
	/* An agent that ends leaves them to the next one. */
	if (!pod->pods->broker->ending)
		pl_counts_remove(pod->pods->counts_dir, &key);
}

static struct pl_pod *pod_get(struct pl_pods *p, const struct pl_reg *reg,
			      bool is_restored)
{
	const struct pl_ns_id id = { reg->dev, reg->ino };
	struct pl_pod *pod;

	HASH_FIND(hh, p->by_ns, &id, sizeof(id), pod);
	if (pod)
		return pod;
	pod = calloc(1, sizeof(*pod));
	if (!pod)
		return NULL;
	pod->pods = p;
	pod->id = id;
	pod->cookie = reg->cookie;
	pod->is_restored = is_restored;
	if (counts_get(pod) < 0) {
		free(pod);
		return NULL;
	}
	pod->listen_fd = -1;
	LIST_INIT(&pod->regs);
	LIST_INIT(&pod->clients);
	name_pod(pod);
	HASH_ADD(hh, p->by_ns, id, sizeof(pod->id), pod);
	set_timer(p);
	return pod;
}

/* Ends a pod that has no registration left. */
static void pod_put(struct pl_pods *p, struct pl_pod *pod)
{
	struct pl_client *c;

	name_pod(pod);
	if (!LIST_EMPTY(&pod->regs))
		return;
	pl_pod_unlisten(pod);
	while ((c = LIST_FIRST(&pod->clients)))
		pl_client_destroy(c);
	HASH_DELETE(hh, p->by_ns, pod);
	counts_put(pod);
	free(pod);
	set_timer(p);
}

static void reg_drop(struct pl_pods *p, struct pl_reg *reg)
{
	struct pl_pod *pod = reg->pod;

	unindex_addrs(p, reg);
	HASH_DELETE(hh, p->regs, reg);
	LIST_REMOVE(reg, of_pod);
	pod_put(p, pod);
	free(reg);
}

static struct pl_reg *reg_attach(struct pl_pods *p, struct pl_pod *pod,
				 const struct pl_reg *from)
{
	struct pl_reg *reg = malloc(sizeof(*reg));

	if (!reg)
		return NULL;
	*reg = *from;
	reg->pod = pod;
	LIST_INSERT_HEAD(&pod->regs, reg, of_pod);
	HASH_ADD_STR(p->regs, key, reg);
	index_addrs(p, reg);
	name_pod(pod);
	return reg;
}

/* The file at path is this namespace's. */
static bool path_is_ns(const char *path, uint64_t dev, uint64_t ino)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

static bool reg_same(const struct pl_reg *a, const struct pl_reg *b)
{
	if (a->dev != b->dev || a->ino != b->ino || a->n_addrs != b->n_addrs)
		return false;
	for (uint32_t i = 0; i < a->n_addrs; i++)
		if (!pl_addr_equal(&a->addrs[i].addr, &b->addrs[i].addr))
			return false;
	return a->memory_limit == b->memory_limit &&
	       !strcmp(a->allow, b->allow) &&
	       !strcmp(a->netns, b->netns) && !strcmp(a->pod_ns, b->pod_ns) &&
	       !strcmp(a->pod_name, b->pod_name);
}

static int add_new(struct pl_pods *p, struct pl_reg *reg, int ns_fd,
		   struct pl_err *err)
{
	struct pl_pod *pod = pod_get(p, reg, false);
	int rc;

	if (!pod)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = pl_pod_listen(pod, ns_fd, &reg->cookie, err);
	pod->cookie = reg->cookie;
	pod->counts->cookie = reg->cookie;
	if (rc == 0)
		rc = pl_reg_record_write(p, reg, err);
	if (rc == 0 && !reg_attach(p, pod, reg)) {
		pl_reg_record_remove(p, reg->key);
		rc = pl_err_set(err, ENOMEM, "out of memory");
	}
	if (rc < 0)
		pod_put(p, pod);
	return rc;
}

static void drop(struct pl_pods *p, struct pl_reg *reg, const char *why)
{
	pl_info("dropped reg=%s pod=%s/%s: %s", reg->key, reg->pod_ns,
		reg->pod_name, why);
	pl_reg_record_remove(p, reg->key);
	reg_drop(p, reg);
}

/* The runtime may never say so: the record stays until DEL was done. */
static void drop_gone(struct pl_pods *p, struct pl_reg *reg)
{
	static const char why[] = "its namespace is gone";

	if (pl_undo_add(p->undo, reg) < 0) {
		drop(p, reg, why);
		return;
	}
	pl_info("dropped reg=%s pod=%s/%s: %s", reg->key, reg->pod_ns,
		reg->pod_name, why);
	reg_drop(p, reg);
}

static void on_undone(const char *key, void *arg)
{
	pl_reg_record_remove(arg, key);
}

/* The same namespace, told anew: its clients stay. */
static int reg_update(struct pl_pods *p, struct pl_reg *reg,
		      const struct pl_reg *from, int ns_fd, struct pl_err *err)
{
	uint64_t cookie;
	int rc = pl_pod_listen(reg->pod, ns_fd, &cookie, err);

	if (rc < 0 || reg_same(reg, from))
		return rc;
	unindex_addrs(p, reg);
	memcpy(reg->netns, from->netns, sizeof(reg->netns));
	reg->undo = from->undo;
	memcpy(reg->pod_name, from->pod_name, sizeof(reg->pod_name));
	memcpy(reg->pod_ns, from->pod_ns, sizeof(reg->pod_ns));
	memcpy(reg->pod_uid, from->pod_uid, sizeof(reg->pod_uid));
	memcpy(reg->addrs, from->addrs, sizeof(reg->addrs));
	reg->memory_limit = from->memory_limit;
	memcpy(reg->allow, from->allow, sizeof(reg->allow));
	reg->n_addrs = from->n_addrs;
	index_addrs(p, reg);
	return pl_reg_record_write(p, reg, err);
}

int pl_pods_add(struct pl_pods *p, const struct pl_reg *from, int ns_fd,
		struct pl_err *err)
{
	struct pl_reg reg = *from, *old;
	int rc = pl_netns_id(ns_fd, &reg.dev, &reg.ino);

	if (rc < 0)
		return pl_err_set(err, -rc, "cannot look at the namespace");
	if (!path_is_ns(reg.netns, reg.dev, reg.ino))
		return pl_err_set(err, EINVAL,
				  "netns %s, as the agent sees it, is not the "
				  "namespace that came along; does the agent's "
				  "container have the host's /proc and /run?",
				  reg.netns);
	pl_undo_cancel(p->undo, reg.key);
	HASH_FIND_STR(p->regs, reg.key, old);
	if (old && old->dev == reg.dev && old->ino == reg.ino)
		return reg_update(p, old, &reg, ns_fd, err);
	if (old)
		drop(p, old, "registered anew for another namespace");
	rc = add_new(p, &reg, ns_fd, err);
	if (rc == 0)
		pl_info("added reg=%s pod=%s/%s netns=%s", reg.key, reg.pod_ns,
			reg.pod_name, reg.netns);
	return rc;
}

bool pl_pods_del(struct pl_pods *p, const char *key)
{
	struct pl_reg *reg;

	HASH_FIND_STR(p->regs, key, reg);
	if (reg)
		drop(p, reg, "deleted");
	return reg != NULL;
}

int pl_pods_check(struct pl_pods *p, const struct pl_reg *want,
		  struct pl_err *err)
{
	struct pl_reg *reg;

	HASH_FIND_STR(p->regs, want->key, reg);
	if (!reg)
		return pl_err_set(err, ENOENT, "%s is not registered with the "
				  "agent", want->key);
	if (!path_is_ns(want->netns, reg->dev, reg->ino))
		return pl_err_set(err, EINVAL, "%s is registered for another "
				  "namespace than %s", want->key, want->netns);
	for (uint32_t i = 0; i < want->n_addrs; i++) {
		const struct pl_addr *a = &want->addrs[i].addr;
		char buf[INET6_ADDRSTRLEN];

		if (pl_pods_by_addr(p, a) != reg->pod)
			return pl_err_set(err, EINVAL, "%s is not registered "
					  "with address %s", want->key,
					  pl_addr_str(a, buf));
	}
	if (reg->memory_limit != want->memory_limit)
		return pl_err_set(err, EINVAL, "%s is registered with another "
				  "memory limit", want->key);
	if (reg->pod->listen_fd < 0)
		return pl_err_set(err, ECONNREFUSED, "the agent can't listen "
				  "in the namespace of %s", want->key);
	return 0;
}

uint64_t pl_pod_bytes_max(const struct pl_pod *pod)
{
	uint64_t max = pod->pods->limits.bytes;
	const struct pl_reg *reg;

	LIST_FOREACH(reg, &pod->regs, of_pod)
		max = PL_MIN(max, reg->memory_limit);
	return max;
}

int pl_pods_gc(struct pl_pods *p, const char *network,
	       bool (*is_valid)(const char *key, void *arg), void *arg)
{
	struct pl_reg *reg, *next;
	int n = 0;

	HASH_ITER(hh, p->regs, reg, next) {
		if (strcmp(reg->network, network) || is_valid(reg->key, arg))
			continue;
		drop(p, reg, "garbage");
		n++;
	}
	return n;
}

/* Listens again where another program had the name at first. */
static void listen_again(struct pl_reg *reg)
{
	struct pl_err err;
	pl_auto_fd fd = -1;
	uint64_t cookie;

	if (pl_netns_open(reg->netns, &fd, &err) < 0 ||
	    pl_pod_listen(reg->pod, fd, &cookie, &err) < 0)
		pl_pod_complain(reg->pod, "%s", err.msg);
}

static void reconcile(evutil_socket_t fd, short what, void *arg)
{
	struct pl_pods *p = arg;
	struct pl_reg *reg, *next;

	(void)fd;
	(void)what;
	HASH_ITER(hh, p->regs, reg, next) {
		if (!path_is_ns(reg->netns, reg->dev, reg->ino))
			drop_gone(p, reg);
		else if (reg->pod->listen_fd < 0)
			listen_again(reg);
	}
	pl_broker_look_sums(p->broker);
	set_timer(p);
}

/* Is there nothing to come back to, or was it only not to be reached now? */
static bool is_stale(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -EINVAL ||
	       rc == -ESRCH || rc == -ESTALE;
}

static int restore_reg(struct pl_pods *p, struct pl_reg *reg,
		       struct pl_err *err)
{
	uint64_t dev, ino, cookie = 0;
	pl_auto_fd fd = -1;
	struct pl_pod *pod;
	int rc = pl_netns_open(reg->netns, &fd, err);

	if (rc < 0)
		return rc;
	if (pl_netns_id(fd, &dev, &ino) < 0 || dev != reg->dev ||
	    ino != reg->ino)
		return pl_err_set(err, ESTALE,
				  "its path is another namespace's now");
	pod = pod_get(p, reg, true);
	if (!pod)
		return pl_err_set(err, ENOMEM, "out of memory");
	if (pl_pod_listen(pod, fd, &cookie, err) < 0)
		pl_error("reg=%s: %s; trying again every %d s", reg->key,
			 err->msg, RECONCILE_S);
	if (cookie != reg->cookie)
		rc = pl_err_set(err, ESTALE,
				"its namespace is gone, another has its number");
	else if (!reg_attach(p, pod, reg))
		rc = pl_err_set(err, ENOMEM, "out of memory");
	if (rc < 0)
		pod_put(p, pod);
	return rc;
}

/*
 * DEL is the end of the plugin's record (plugin/record.h). Where that folder
 * can't be seen, nothing is known of it.
 */
static bool was_deleted(const struct pl_reg *reg)
{
	char dir[PATH_MAX], path[PATH_MAX];

	if (!*reg->undo.plugin || !*reg->undo.link ||
	    pl_format(dir, sizeof(dir), "%s/%s", reg->undo.state_dir,
		      reg->network) < 0 ||
	    pl_format(path, sizeof(path), "%s/%s:%s", dir, reg->container,
		      reg->ifname) < 0)
		return false;
	return access(dir, X_OK) == 0 && access(path, F_OK) < 0 &&
	       errno == ENOENT;
}

static void restore(struct pl_pods *p, struct pl_reg *reg)
{
	struct pl_err err;
	int rc;

	if (was_deleted(reg)) {
		pl_info("dropped reg=%s pod=%s/%s: its DEL came while no agent "
			"ran", reg->key, reg->pod_ns, reg->pod_name);
		pl_reg_record_remove(p, reg->key);
		return;
	}
	rc = restore_reg(p, reg, &err);
	if (rc == 0) {
		pl_info("restored reg=%s pod=%s/%s", reg->key, reg->pod_ns,
			reg->pod_name);
	} else if (is_stale(rc)) {
		pl_info("dropped reg=%s pod=%s/%s: %s", reg->key, reg->pod_ns,
			reg->pod_name, err.msg);
		if (pl_undo_add(p->undo, reg) < 0)
			pl_reg_record_remove(p, reg->key);
	} else {
		pl_error("reg=%s can't be restored: %s", reg->key, err.msg);
	}
}

/* The soft limit, which podlaned has raised to the hard one. */
static int fd_max(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0 || rl.rlim_cur > INT_MAX)
		return INT_MAX;
	return (int)(rl.rlim_cur - PL_MIN(rl.rlim_cur / 4,
					  (rlim_t)FD_RESERVE));
}

int pl_pods_fd_scarce(const struct pl_pods *p, int fd, struct pl_err *err)
{
	if (fd < p->fd_max)
		return 0;
	return pl_err_set(err, EMFILE, "the agent has no descriptor left for "
			  "pods; raise the limit of open files of podlaned");
}

static int read_boot_id(char *buf, size_t size, struct pl_err *err)
{
	pl_auto_free char *text = NULL;
	int rc = pl_file_read("/proc/sys/kernel/random/boot_id", 64, &text,
			      NULL, err);

	if (rc < 0)
		return rc;
	text[strcspn(text, "\n")] = '\0';
	rc = pl_format(buf, size, "%s", text);
	return rc < 0 ? pl_err_set(err, -rc, "boot_id is too long") : 0;
}

int pl_pods_create(struct event_base *base, struct pl_broker *broker,
		   const char *node, const char *run_dir,
		   const struct pl_agent_conf *conf, struct pl_pods **out,
		   struct pl_err *err)
{
	struct pl_pods *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return pl_err_set(err, ENOMEM, "out of memory");
	p->base = base;
	p->broker = broker;
	p->node = node;
	p->limits = conf->limits;
	p->resume_ms = conf->resume_ms;
	p->checksum = conf->checksum;
	p->fd_max = fd_max();
	p->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	p->timer = evtimer_new(base, reconcile, p);
	rc = p->timer ? pl_format(p->dir, sizeof(p->dir), "%s/pods",
				  conf->state_dir) : -ENOMEM;
	rc = rc < 0 ? pl_err_set(err, -rc, "stateDir is too long") :
		      pl_mkdirs(p->dir, 0700, err);
	if (rc == 0 && pl_format(p->counts_dir, sizeof(p->counts_dir),
				 "%s/" PL_COUNTS_DIR, run_dir) < 0)
		rc = pl_err_set(err, ENAMETOOLONG, "--run-dir is too long");
	if (rc == 0)
		rc = read_boot_id(p->boot, sizeof(p->boot), err);
	if (rc == 0)
		rc = pl_undo_create(base, on_undone, p, &p->undo, err);
	if (rc < 0) {
		pl_pods_destroy(p);
		return rc;
	}
	*out = p;
	return 0;
}

static bool has_ns(uint64_t dev, uint64_t ino, void *arg)
{
	const struct pl_pods *p = arg;
	const struct pl_ns_id id = { dev, ino };
	struct pl_pod *pod;

	HASH_FIND(hh, p->by_ns, &id, sizeof(id), pod);
	return pod != NULL;
}

int pl_pods_restore(struct pl_pods *p, struct pl_err *err)
{
	int rc = pl_reg_record_each(p, restore, err);

	if (rc == 0)
		pl_counts_sweep(p->counts_dir, has_ns, p);
	return rc;
}

void pl_pods_destroy(struct pl_pods *p)
{
	struct pl_reg *reg, *next;

	HASH_ITER(hh, p->regs, reg, next)
		reg_drop(p, reg);
	if (p->timer)
		event_free(p->timer);
	pl_undo_destroy(p->undo);
	pl_close_fd(&p->spare_fd);
	free(p);
}

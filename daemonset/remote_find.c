/*
 * daemonset/remote_find.c - which of the other nodes has a pod of an address?
 *
 * All of them are asked, each as soon as it is connected. The first yes ends
 * the question; so does a no of each, or the time.
 */
#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "daemonset/broker.h"
#include "daemonset/remote_internal.h"

#define WAIT_MS 5000

struct pl_rfind {
	uint64_t no;			/* key */
	struct pl_remote *r;
	struct pl_addr pod;
	pl_remote_pod_found *done;
	void *arg;
	unsigned int left;		/* nodes that have not said no */
	struct event *timer;
	UT_hash_handle hh;
};

static void rfind_free(struct pl_rfind *f)
{
	HASH_DEL(f->r->pod_finds, f);
	if (f->timer)
		event_free(f->timer);
	free(f);
}

static void finish(struct pl_rfind *f, const char *node)
{
	pl_remote_pod_found *done = f->done;
	void *arg = f->arg;

	rfind_free(f);
	done(arg, node);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	finish(arg, NULL);
}

static void ask(struct pl_rfind *f, struct pl_rnode *n)
{
	struct pl_peer_pod m = {
		.h = pl_peer_head(PL_PEER_POD_FIND, sizeof(m), f->no, 0),
	};

	pl_peer_addr_make(&m.addr, &f->pod);
	pl_rnode_send(n, &m, sizeof(m), 0);
}

void pl_rfind_up(struct pl_rnode *n)
{
	struct pl_rfind *f;

	for (f = n->r->pod_finds; f; f = f->hh.next)
		ask(f, n);
}

static void ask_all(struct pl_rfind *f)
{
	struct pl_remote *r = f->r;

	for (size_t i = 0; i < r->registry->n; i++) {
		const char *name = r->registry->nodes[i].name;
		struct pl_rnode *n;

		if (!strcmp(name, r->node))
			continue;
		f->left++;
		/* One that can't be reached is waited for. */
		if (pl_rnode_reach(r, name, &n, NULL) == 0 && n->is_up)
			ask(f, n);
	}
}

int pl_remote_pod_find(struct pl_remote *r, const struct pl_addr *pod,
		       pl_remote_pod_found *done, void *arg, uint64_t *id,
		       struct pl_err *err)
{
	struct timeval tv = { WAIT_MS / 1000, WAIT_MS % 1000 * 1000 };
	struct pl_rfind *f;

	if (r->registry->n > PL_REMOTE_FIND_NODES_MAX)
		return pl_err_set(err, E2BIG, "%zu nodes are too many to ask",
				  r->registry->n);
	if (r->registry->n < 2 || !r->carrier)
		return pl_err_set(err, ENOENT, "there is no other node to ask");
	f = calloc(1, sizeof(*f));
	if (!f || !(f->timer = evtimer_new(r->base, on_timer, f))) {
		free(f);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	f->no = ++r->last_no;
	f->r = r;
	f->pod = *pod;
	f->done = done;
	f->arg = arg;
	HASH_ADD(hh, r->pod_finds, no, sizeof(f->no), f);
	event_add(f->timer, &tv);
	*id = f->no;
	ask_all(f);
	return 0;
}

void pl_remote_pod_find_cancel(struct pl_remote *r, uint64_t id)
{
	struct pl_rfind *f;

	HASH_FIND(hh, r->pod_finds, &id, sizeof(id), f);
	if (f)
		rfind_free(f);
}

void pl_rfind_free_all(struct pl_remote *r)
{
	struct pl_rfind *f, *next;

	HASH_ITER(hh, r->pod_finds, f, next)
		rfind_free(f);
}

/* --- messages ------------------------------------------------------------- */

void pl_rfind_on_find(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_pod *m = msg;
	struct pl_peer_pod a = {
		.h = pl_peer_head(PL_PEER_POD_FOUND, sizeof(a), m->h.no, 0),
		.addr = m->addr,
	};
	struct pl_addr pod;

	a.has = pl_peer_addr_take(&m->addr, &pod) == 0 &&
		pl_broker_has_pod(n->r->broker, &pod);
	pl_rnode_send(n, &a, sizeof(a), 0);
}

/* A node may be asked twice, when it went down in between. */
void pl_rfind_on_found(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_pod *m = msg;
	struct pl_rfind *f;
	struct pl_addr pod;

	HASH_FIND(hh, n->r->pod_finds, &m->h.no, sizeof(m->h.no), f);
	if (!f || pl_peer_addr_take(&m->addr, &pod) < 0 ||
	    !pl_addr_equal(&pod, &f->pod))
		return;
	if (m->has)
		finish(f, n->name);
	else if (--f->left == 0)
		finish(f, NULL);
}

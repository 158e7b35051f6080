/* daemonset/locate.c - on which node a pod is whose address no range has */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/locate_internal.h"

#define FOUND_NS UINT64_C(300000000000)
#define NONE_NS UINT64_C(5000000000)
#define LOOKUPS_MAX 4096
/* Requests to the server: 20 a second, after a pause 40 at once. */
#define TOKEN_NS UINT64_C(50000000)
#define TOKENS 40

static void lookup_free(struct pl_lookup *k)
{
	struct pl_locate_waiter *w;

	while ((w = LIST_FIRST(&k->waiters)))
		pl_locate_leave(w);
	HASH_DEL(k->l->lookups, k);
	pl_kube_cancel(k->req);
	pl_json_stream_fini(&k->stream);
	if (k->find_id)
		pl_remote_pod_find_cancel(k->l->remote, k->find_id);
	free(k);
}

/* --- answers -------------------------------------------------------------- */

void pl_lookup_answer(struct pl_lookup *k, int rc, const char *fmt, ...)
{
	struct pl_locate_waiter *w;
	char text[INET6_ADDRSTRLEN];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(k->msg, sizeof(k->msg), fmt, ap);
	va_end(ap);
	k->rc = rc;
	k->is_pending = false;
	k->until_ns = pl_now_ns() + (rc == 0 ? FOUND_NS : NONE_NS);
	pl_debug("address=%s: %s", pl_addr_str(&k->addr, text),
		 rc == 0 ? k->node : k->msg);
	k->is_telling = true;
	/* What it calls may ask anew, for this address and others. */
	while (!k->is_pending && (w = LIST_FIRST(&k->waiters))) {
		pl_locate_leave(w);
		w->fn(w);
	}
	k->is_telling = false;
}

static void nowhere(struct pl_lookup *k, const char *more)
{
	char text[INET6_ADDRSTRLEN];

	pl_lookup_answer(k, -EHOSTUNREACH, "no node that %s knows has a pod "
			 "with address %s; see podlanectl nodes%s%s%s%s",
			 k->l->node, pl_addr_str(&k->addr, text),
			 *k->why ? "; the API server: " : "", k->why,
			 *more ? "; " : "", more);
}

static void on_peers(void *arg, const char *node)
{
	struct pl_lookup *k = arg;

	k->find_id = 0;
	if (!node) {
		nowhere(k, "");
		return;
	}
	k->pod = k->addr;
	pl_format(k->node, sizeof(k->node), "%s", node);
	pl_lookup_answer(k, 0, "%s", "");
}

void pl_lookup_ask_peers(struct pl_lookup *k)
{
	struct pl_err err = { 0 };

	if (pl_remote_pod_find(k->l->remote, &k->addr, on_peers, k,
			       &k->find_id, &err) < 0)
		nowhere(k, err.msg);
}

/* --- questions ------------------------------------------------------------ */

/* tokens_ns moves up by TOKEN_NS for each, and waits behind the clock. */
static bool take_token(struct pl_locate *l)
{
	uint64_t now = pl_now_ns(), least = now - TOKENS * TOKEN_NS;

	l->tokens_ns = PL_MAX(l->tokens_ns, least);
	if (l->tokens_ns + TOKEN_NS > now)
		return false;
	l->tokens_ns += TOKEN_NS;
	return true;
}

static void sweep(struct pl_locate *l)
{
	struct pl_lookup *k, *next;
	uint64_t now = pl_now_ns();

	HASH_ITER(hh, l->lookups, k, next)
		if (!k->is_pending && !k->is_telling && now >= k->until_ns)
			lookup_free(k);
}

static struct pl_lookup *lookup_new(struct pl_locate *l,
				    const struct pl_addr *addr,
				    struct pl_err *err)
{
	struct pl_lookup *k;

	if (HASH_COUNT(l->lookups) >= LOOKUPS_MAX)
		sweep(l);
	if (HASH_COUNT(l->lookups) >= LOOKUPS_MAX) {
		pl_err_set(err, EAGAIN, "too many pods of other nodes are "
			   "looked for; try again");
		return NULL;
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		pl_err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	k->l = l;
	k->addr = *addr;
	LIST_INIT(&k->waiters);
	HASH_ADD(hh, l->lookups, addr, sizeof(k->addr), k);
	return k;
}

static struct pl_lookup *lookup_get(struct pl_locate *l,
				    const struct pl_addr *addr)
{
	struct pl_lookup *k;

	HASH_FIND(hh, l->lookups, addr, sizeof(*addr), k);
	return k;
}

static int ask(struct pl_lookup *k, struct pl_err *err)
{
	int rc = 0;

	k->why[0] = '\0';
	if (!take_token(k->l))
		rc = pl_err_set(err, EAGAIN, "too many pods of other nodes "
				"are looked for; try again");
	else if (k->l->kube)
		rc = pl_lookup_ask_kube(k, err);
	if (rc < 0)
		return rc;
	k->is_pending = true;
	/* It may answer at once. */
	if (!k->l->kube)
		pl_lookup_ask_peers(k);
	return 0;
}

static int known(const struct pl_lookup *k, struct pl_addr *addr,
		 const char **node, struct pl_err *err)
{
	if (k->is_pending)
		return -EINPROGRESS;
	if (k->rc < 0)
		return pl_err_set(err, -k->rc, "%s", k->msg);
	*addr = k->pod;
	*node = k->node;
	return 0;
}

int pl_locate_find(struct pl_locate *l, struct pl_addr *addr,
		   const char **node, struct pl_err *err)
{
	struct pl_lookup *k = lookup_get(l, addr);
	int rc;

	if (k && (k->is_pending || pl_now_ns() < k->until_ns))
		return known(k, addr, node, err);
	if (!k)
		k = lookup_new(l, addr, err);
	if (!k)
		return -err->code;
	rc = ask(k, err);
	if (rc < 0) {
		if (!k->is_telling)
			lookup_free(k);
		return rc;
	}
	return known(k, addr, node, err);
}

void pl_locate_wait(struct pl_locate *l, const struct pl_addr *addr,
		    struct pl_locate_waiter *w)
{
	struct pl_lookup *k = lookup_get(l, addr);

	LIST_INSERT_HEAD(&k->waiters, w, of_lookup);
}

void pl_locate_leave(struct pl_locate_waiter *w)
{
	if (w->of_lookup.le_prev)
		LIST_REMOVE(w, of_lookup);
	w->of_lookup.le_prev = NULL;
}

/* An answer that is not there any more; what waits goes on waiting. */
void pl_locate_forget(struct pl_locate *l, const struct pl_addr *addr)
{
	struct pl_lookup *k, *next;

	HASH_ITER(hh, l->lookups, k, next)
		if (!k->is_pending && k->rc == 0 &&
		    pl_addr_equal(&k->pod, addr))
			k->until_ns = 0;
}

int pl_locate_create(const char *node, struct pl_kube *kube,
		     struct pl_remote *remote, struct pl_locate **out,
		     struct pl_err *err)
{
	struct pl_locate *l = calloc(1, sizeof(*l));

	if (!l)
		return pl_err_set(err, ENOMEM, "out of memory");
	l->node = node;
	l->kube = kube;
	l->remote = remote;
	*out = l;
	return 0;
}

void pl_locate_destroy(struct pl_locate *l)
{
	struct pl_lookup *k, *next;

	if (!l)
		return;
	HASH_ITER(hh, l->lookups, k, next)
		lookup_free(k);
	free(l);
}

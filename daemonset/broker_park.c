/* daemonset/broker_park.c - requests that wait until a pod is found */
#include <errno.h>
#include <event2/event.h>
#include <string.h>

#include "common/util.h"
#include "daemonset/broker_internal.h"
#include "daemonset/guard.h"
#include "shm/msg.h"

#define PARKED_MAX 64
#define FDS_MAX 2
/* As long as a question to the API server, or to other agents, may take. */
#define WAIT_MS 15000

struct pl_parked {
	struct pl_locate_waiter w;	/* first: see on_answer */
	struct pl_client *client;
	pl_broker_handler *handler;
	char msg[PL_WIRE_MAX] __attribute__((aligned(8)));
	int fds[FDS_MAX], n_fds;
	struct event *timer;
	LIST_ENTRY(pl_parked) of_client;
};

void pl_parked_end(struct pl_parked *p)
{
	pl_locate_leave(&p->w);
	LIST_REMOVE(p, of_client);
	p->client->n_parked--;
	for (int i = 0; i < p->n_fds; i++)
		pl_guard_close(&p->fds[i]);
	if (p->timer)
		event_free(p->timer);
	free(p);
}

static void on_answer(struct pl_locate_waiter *w)
{
	struct pl_parked *p = (struct pl_parked *)(void *)w;
	const char *wrong = p->client->is_doomed ? NULL :
			    p->handler(p->client, p->msg, p->fds, p->n_fds);

	if (wrong)
		pl_client_doom(p->client, wrong);
	pl_parked_end(p);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct pl_parked *p = arg;
	struct pl_msg_hdr h;

	(void)fd;
	(void)what;
	memcpy(&h, p->msg, sizeof(h));
	pl_client_send_error(p->client, h.seq, -ETIMEDOUT, "it could not be "
			     "told in time on which node the pod is");
	pl_parked_end(p);
}

static int start_timer(struct pl_parked *p, int timeout_ms)
{
	int ms = timeout_ms < 0 ? WAIT_MS : PL_MIN(timeout_ms, WAIT_MS);
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	p->timer = evtimer_new(p->client->pod->pods->base, on_timer, p);
	return p->timer && event_add(p->timer, &tv) == 0 ? 0 : -ENOMEM;
}

int pl_broker_park(struct pl_client *c, const struct pl_addr *addr,
		   const void *msg, int *fds, int n_fds, int timeout_ms,
		   pl_broker_handler *handler, struct pl_err *err)
{
	struct pl_parked *p = NULL;

	if (c->n_parked < PARKED_MAX)
		p = calloc(1, sizeof(*p));
	if (!p)
		return pl_err_set(err, EAGAIN, "too many requests wait until "
				  "it is known where a pod is");
	p->client = c;
	p->handler = handler;
	p->w.fn = on_answer;
	memcpy(p->msg, msg, sizeof(p->msg));
	LIST_INSERT_HEAD(&c->parked, p, of_client);
	c->n_parked++;
	if (start_timer(p, timeout_ms) < 0) {
		pl_parked_end(p);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	for (int i = 0; i < n_fds && i < FDS_MAX; i++)
		p->fds[p->n_fds++] = pl_take_fd(&fds[i]);
	pl_locate_wait(c->pod->pods->broker->locate, addr, &p->w);
	return 0;
}

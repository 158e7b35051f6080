/*
 * daemonset/server.c - the socket for the plugin and podlanectl
 *
 * Lines of JSON, see common/agentapi.h. A connection's next request is read
 * when the answer to the last one has been written, so a peer that does not
 * read holds up nobody else.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "common/agentapi.h"
#include "common/fdpass.h"
#include "common/util.h"
#include "daemonset/agent_internal.h"

#define CONNS_MAX 256
#define READ_BYTES 65536

struct conn {
	struct pl_server *server;
	int fd;
	int ns_fd;			/* came with the request; -1 */
	struct event *read_ev, *write_ev;
	struct evbuffer *in, *out;
	LIST_ENTRY(conn) of_server;
};

struct pl_server {
	struct pl_agent *agent;
	int fd;
	struct event *ev;
	uint32_t n_conns;
	LIST_HEAD(, conn) conns;
};

static void conn_free(struct conn *c)
{
	c->server->n_conns--;
	LIST_REMOVE(c, of_server);
	if (c->read_ev)
		event_free(c->read_ev);
	if (c->write_ev)
		event_free(c->write_ev);
	if (c->in)
		evbuffer_free(c->in);
	if (c->out)
		evbuffer_free(c->out);
	pl_close_fd(&c->fd);
	pl_close_fd(&c->ns_fd);
	free(c);
}

static int answer(struct conn *c, const char *line, size_t len)
{
	pl_auto_free char *text = NULL;
	cJSON *j = pl_op_run(c->server->agent, line, len, c->ns_fd);

	pl_close_fd(&c->ns_fd);
	text = j ? cJSON_PrintUnformatted(j) : NULL;
	cJSON_Delete(j);
	if (!text)
		return -ENOMEM;
	if (evbuffer_add(c->out, text, strlen(text)) < 0 ||
	    evbuffer_add(c->out, "\n", 1) < 0)
		return -ENOMEM;
	return 0;
}

/* Writes what is there. 1: not all of it yet. */
static int flush(struct conn *c)
{
	while (evbuffer_get_length(c->out)) {
		if (evbuffer_write(c->out, c->fd) >= 0)
			continue;
		if (errno == EAGAIN || errno == EINTR)
			return 1;
		return -errno;
	}
	return 0;
}

/* Serves whole lines for as long as their answers can be written. */
static int serve(struct conn *c)
{
	for (;;) {
		pl_auto_free char *line = NULL;
		size_t len;
		int rc = flush(c);

		if (rc < 0)
			return rc;
		if (rc > 0) {
			event_del(c->read_ev);
			return event_add(c->write_ev, NULL);
		}
		line = evbuffer_readln(c->in, &len, EVBUFFER_EOL_LF);
		if (!line)
			return 0;
		rc = answer(c, line, len);
		if (rc < 0)
			return rc;
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	if (event_add(c->read_ev, NULL) < 0 || serve(c) < 0)
		conn_free(c);
}

static void take_fds(struct conn *c, int *fds, int n_fds)
{
	for (int i = 0; i < n_fds; i++) {
		if (c->ns_fd < 0)
			c->ns_fd = pl_take_fd(&fds[i]);
		pl_close_fd(&fds[i]);
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	char buf[READ_BYTES];
	int fds[PL_FDPASS_MAX], n_fds;
	ssize_t n;

	(void)what;
	n = pl_fdpass_recv(fd, buf, sizeof(buf), fds, PL_FDPASS_MAX, &n_fds,
			   MSG_DONTWAIT);
	if (n == -EAGAIN)
		return;
	if (n > 0)
		take_fds(c, fds, n_fds);
	if (n <= 0 || evbuffer_add(c->in, buf, (size_t)n) < 0 ||
	    evbuffer_get_length(c->in) > PL_AGENT_LINE_MAX ||
	    (memchr(buf, '\n', (size_t)n) && serve(c) < 0))
		conn_free(c);
}

static void conn_new(struct pl_server *s, int fd)
{
	struct event_base *base = s->agent->base;
	struct conn *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return;
	}
	c->server = s;
	c->fd = fd;
	c->ns_fd = -1;
	LIST_INSERT_HEAD(&s->conns, c, of_server);
	s->n_conns++;
	c->in = evbuffer_new();
	c->out = evbuffer_new();
	c->read_ev = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
	c->write_ev = event_new(base, fd, EV_WRITE, on_writable, c);
	if (!c->in || !c->out || !c->read_ev || !c->write_ev ||
	    event_add(c->read_ev, NULL) < 0)
		conn_free(c);
}

static void on_connection(evutil_socket_t listen_fd, short what, void *arg)
{
	struct pl_server *s = arg;
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)what;
	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		pl_pods_refuse_one(s->agent->pods, listen_fd);
		pl_error("no descriptor left for a connection of the plugin");
	}
	if (fd < 0)
		return;
	if (s->n_conns < CONNS_MAX) {
		conn_new(s, fd);
		return;
	}
	pl_warn("refused a connection to the agent's socket: there are %d",
		CONNS_MAX);
	close(fd);
}

int pl_server_create(struct pl_agent *a, int listen_fd, struct pl_server **out,
		     struct pl_err *err)
{
	struct pl_server *s = calloc(1, sizeof(*s));

	if (s) {
		s->agent = a;
		s->fd = listen_fd;
		LIST_INIT(&s->conns);
		s->ev = event_new(a->base, listen_fd, EV_READ | EV_PERSIST,
				  on_connection, s);
		if (s->ev && event_add(s->ev, NULL) == 0) {
			*out = s;
			return 0;
		}
		pl_server_destroy(s);
	} else {
		close(listen_fd);
	}
	return pl_err_set(err, ENOMEM, "out of memory");
}

void pl_server_destroy(struct pl_server *s)
{
	struct conn *c;

	while ((c = LIST_FIRST(&s->conns)))
		conn_free(c);
	if (s->ev)
		event_free(s->ev);
	pl_close_fd(&s->fd);
	free(s);
}

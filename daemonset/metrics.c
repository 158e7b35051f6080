/* daemonset/metrics.c - /metrics, /healthz and /readyz, by HTTP */
#include "daemonset/metrics.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/util.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/agent_internal.h"

#define HEADERS_MAX 8192
#define TIMEOUT_S 10
#define RETRY_S 5

struct pl_metrics {
	struct pl_agent *agent;
	struct sockaddr_storage addr;
	int addr_len;
	const char *text;		/* of addr, for messages */
	struct evhttp *http;
	struct event *retry;
	bool is_told;
};

static int parse(const char *text, struct sockaddr_storage *sa, int *len,
		 struct pl_err *err)
{
	const char *colon = strrchr(text, ':');
	uint64_t port;

	*len = sizeof(*sa);
	if (!colon || pl_parse_u64(colon + 1, 1, 65535, &port) < 0 ||
	    evutil_parse_sockaddr_port(text, (struct sockaddr *)sa, len) < 0)
		return pl_err_set(err, EINVAL, "metrics.listen must be an "
				  "address and a port, such as "
				  PL_METRICS_LISTEN ", or empty, not '%.100s'",
				  text);
	return 0;
}

int pl_metrics_check(const char *listen, struct pl_err *err)
{
	struct sockaddr_storage sa;
	int len;

	return parse(listen, &sa, &len, err);
}

/* --- answers -------------------------------------------------------------- */

static void reply(struct evhttp_request *r, int code, const char *reason,
		  const char *type, struct evbuffer *body)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(r);

	evhttp_add_header(headers, "Content-Type", type);
	evhttp_add_header(headers, "Cache-Control", "no-store");
	evhttp_send_reply(r, code, reason, body);
}

static void reply_text(struct evhttp_request *r, int code, const char *reason,
		       const char *text)
{
	struct evbuffer *b = evbuffer_new();

	if (b)
		evbuffer_add_printf(b, "%s\n", text);
	reply(r, code, reason, "text/plain; charset=utf-8", b);
	if (b)
		evbuffer_free(b);
}

static void on_metrics(struct evhttp_request *r, void *arg)
{
	const struct pl_metrics *m = arg;
	struct evbuffer *b = evbuffer_new();

	if (b && pl_metrics_print(m->agent, b) == 0)
		reply(r, HTTP_OK, "OK",
		      "text/plain; version=0.0.4; charset=utf-8", b);
	else
		reply_text(r, HTTP_INTERNAL, "Error", "out of memory");
	if (b)
		evbuffer_free(b);
}

static void on_health(struct evhttp_request *r, void *arg)
{
	(void)arg;
	reply_text(r, HTTP_OK, "OK", "ok");
}

static void on_ready(struct evhttp_request *r, void *arg)
{
	const struct pl_metrics *m = arg;
	struct pl_err err = { 0 };

	if (pl_agent_ready(m->agent, &err) == 0)
		reply_text(r, HTTP_OK, "OK", "ok");
	else
		reply_text(r, HTTP_SERVUNAVAIL, "Not ready", err.msg);
}

static void on_other(struct evhttp_request *r, void *arg)
{
	(void)arg;
	reply_text(r, HTTP_NOTFOUND, "Not found",
		   "there are /metrics, /healthz and /readyz");
}

/* --- listening ------------------------------------------------------------ */

static int listen_at(const struct pl_metrics *m, struct pl_err *err)
{
	pl_auto_fd fd = socket(m->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC |
			       SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&m->addr,
		 (socklen_t)m->addr_len) < 0 || listen(fd, 16) < 0)
		return pl_err_sys(err, "cannot listen for HTTP at %s",
				  m->text);
	if (evhttp_accept_socket(m->http, fd) < 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	pl_take_fd(&fd);
	return 0;
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct timeval tv = { .tv_sec = RETRY_S };
	struct pl_metrics *m = arg;
	struct pl_err err = { 0 };

	(void)fd;
	(void)what;
	if (listen_at(m, &err) == 0) {
		pl_info("metrics at http://%s/metrics", m->text);
		return;
	}
	if (!m->is_told)
		pl_warn("%s; no metrics and no probes until that works (see "
			"metrics.listen)", err.msg);
	m->is_told = true;
	event_add(m->retry, &tv);
}

static int http_start(struct pl_metrics *m)
{
	m->http = evhttp_new(m->agent->base);
	m->retry = evtimer_new(m->agent->base, on_retry, m);
	if (!m->http || !m->retry)
		return -ENOMEM;
	evhttp_set_max_headers_size(m->http, HEADERS_MAX);
	evhttp_set_max_body_size(m->http, 0);
	evhttp_set_timeout(m->http, TIMEOUT_S);
	evhttp_set_allowed_methods(m->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_gencb(m->http, on_other, m);
	if (evhttp_set_cb(m->http, "/metrics", on_metrics, m) < 0 ||
	    evhttp_set_cb(m->http, "/healthz", on_health, m) < 0 ||
	    evhttp_set_cb(m->http, "/readyz", on_ready, m) < 0)
		return -ENOMEM;
	return 0;
}

int pl_metrics_create(struct pl_agent *a, const char *listen,
		      struct pl_metrics **out, struct pl_err *err)
{
	struct pl_metrics *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return pl_err_set(err, ENOMEM, "out of memory");
	m->agent = a;
	m->text = listen;
	rc = parse(listen, &m->addr, &m->addr_len, err);
	if (rc == 0 && http_start(m) < 0)
		rc = pl_err_set(err, ENOMEM, "out of memory");
	if (rc < 0) {
		pl_metrics_destroy(m);
		return rc;
	}
	on_retry(-1, 0, m);
	*out = m;
	return 0;
}

void pl_metrics_destroy(struct pl_metrics *m)
{
	if (!m)
		return;
	if (m->http)
		evhttp_free(m->http);
	if (m->retry)
		event_free(m->retry);
	free(m);
}

/* daemonset/kube_client.c - requests to the Kubernetes API server */
#include "daemonset/kube_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/json.h"
#include "common/util.h"

#define CONNECT_MS 10000
/*
 * A connection whose other side is silent, as TCP sees it. A watch only
 * listens, so for as long a node that got another address does not notice.
 */
#define SILENT_S 15
#define COLLECT_MAX (256u << 10)

struct pl_kube {
	struct event_base *base;
	struct pl_kube_conf conf;
	CURLM *multi;
	struct event *timer;
	LIST_HEAD(, pl_kube_request) requests;
};

struct pl_kube_request {
	struct pl_kube *kube;
	struct pl_kube_call call;
	char *url;
	CURL *easy;
	struct curl_slist *headers;
	char why[CURL_ERROR_SIZE];
	struct pl_err err;		/* of data */
	int rc;				/* of data */
	char *body;
	size_t len;
	LIST_ENTRY(pl_kube_request) of_kube;
};

/* --- requests ------------------------------------------------------------- */

static void request_free(struct pl_kube_request *r)
{
	LIST_REMOVE(r, of_kube);
	if (r->easy) {
		curl_multi_remove_handle(r->kube->multi, r->easy);
		curl_easy_cleanup(r->easy);
	}
	curl_slist_free_all(r->headers);
	free(r->url);
	free(r->body);
	free(r);
}

void pl_kube_cancel(struct pl_kube_request *r)
{
	if (r)
		request_free(r);
}

static int collect(struct pl_kube_request *r, const char *data, size_t len)
{
	char *p;

	if (len > COLLECT_MAX - r->len)
		return pl_err_set(&r->err, EMSGSIZE, "the answer has more than "
				  "%u bytes", COLLECT_MAX);
	p = realloc(r->body, r->len + len + 1);
	if (!p)
		return pl_err_set(&r->err, ENOMEM, "out of memory");
	memcpy(p + r->len, data, len);
	r->body = p;
	r->len += len;
	p[r->len] = '\0';
	return 0;
}

/* The empty line after the headers, also of answers such as 100. */
static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
	struct pl_kube_request *r = arg;
	long status = 0;

	curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
	if (r->call.begin && size * n == 2 && *line == '\r' &&
	    status / 100 == 2)
		r->call.begin(r->call.arg);
	return size * n;
}

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
	struct pl_kube_request *r = arg;
	long status = 0;

	curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
	r->rc = r->call.data && status / 100 == 2 ?
			r->call.data(data, size * n, r->call.arg, &r->err) :
			collect(r, data, size * n);
	/* Another number than was given ends the transfer. */
	return r->rc < 0 ? CURL_WRITEFUNC_ERROR : size * n;
}

static int on_socket_made(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	unsigned int ms = SILENT_S * 1000;

	(void)arg;
	(void)purpose;
	/* Also of bytes that we sent; best effort. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	return CURL_SOCKOPT_OK;
}

static void set_blob(CURL *e, CURLoption blob, CURLoption file,
		     const struct pl_kube_pem *p)
{
	struct curl_blob b = { p->data, p->len, CURL_BLOB_NOCOPY };

	if (p->data)
		curl_easy_setopt(e, blob, &b);
	else if (*p->file)
		curl_easy_setopt(e, file, p->file);
}

static void set_tls(CURL *e, const struct pl_kube_conf *c)
{
	curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, !c->is_insecure * 1L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, !c->is_insecure * 2L);
	/* A new CA in the file counts for the next connection. */
	curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT, 0L);
	if (c->ca.data || *c->ca.file) {
		curl_easy_setopt(e, CURLOPT_CAINFO, NULL);
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	}
	set_blob(e, CURLOPT_CAINFO_BLOB, CURLOPT_CAINFO, &c->ca);
	set_blob(e, CURLOPT_SSLCERT_BLOB, CURLOPT_SSLCERT, &c->cert);
	set_blob(e, CURLOPT_SSLKEY_BLOB, CURLOPT_SSLKEY, &c->key);
}

static void set_connection(CURL *e)
{
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, SILENT_S / 3L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, SILENT_S / 3L);
	curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, on_socket_made);
}

static int add_header(struct pl_kube_request *r, const char *name,
		      const char *value)
{
	pl_auto_free char *line = NULL;
	struct curl_slist *l;

	if (asprintf(&line, "%s: %s", name, value) < 0) {
		line = NULL;
		return -ENOMEM;
	}
	l = curl_slist_append(r->headers, line);
	if (!l)
		return -ENOMEM;
	r->headers = l;
	return 0;
}

static int add_headers(struct pl_kube_request *r, struct pl_err *err)
{
	pl_auto_free char *token = NULL, *bearer = NULL;
	int rc = pl_kube_conf_token(&r->kube->conf, &token, err);

	if (rc < 0)
		return rc;
	if (asprintf(&bearer, "Bearer %s", token) < 0) {
		bearer = NULL;
		rc = -ENOMEM;
	}
	if (rc == 0)
		rc = add_header(r, "Accept", "application/json");
	if (rc == 0 && *token)
		rc = add_header(r, "Authorization", bearer);
	if (rc == 0 && r->call.type)
		rc = add_header(r, "Content-Type", r->call.type);
	return rc < 0 ? pl_err_set(err, -rc, "out of memory") : 0;
}

static int set_up(struct pl_kube_request *r, const struct pl_kube_call *call,
		  struct pl_err *err)
{
	CURL *e = r->easy = curl_easy_init();

	if (!e || asprintf(&r->url, "%s%s", r->kube->conf.server,
			   call->path) < 0) {
		r->url = NULL;
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	set_connection(e);
	set_tls(e, &r->kube->conf);
	curl_easy_setopt(e, CURLOPT_URL, r->url);
	curl_easy_setopt(e, CURLOPT_USERAGENT, "podlaned/" PL_VERSION);
	curl_easy_setopt(e, CURLOPT_TIMEOUT, (long)r->call.timeout_s);
	if (call->type)
		curl_easy_setopt(e, CURLOPT_COPYPOSTFIELDS, call->body);
	curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, call->method);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, r);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, r);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, r->why);
	curl_easy_setopt(e, CURLOPT_PRIVATE, r);
	return add_headers(r, err);
}

int pl_kube_start(struct pl_kube *k, const struct pl_kube_call *call,
		  struct pl_kube_request **out, struct pl_err *err)
{
	struct pl_kube_request *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return pl_err_set(err, ENOMEM, "out of memory");
	r->kube = k;
	r->call = *call;
	r->call.path = r->call.body = NULL;
	LIST_INSERT_HEAD(&k->requests, r, of_kube);
	rc = set_up(r, call, err);
	curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
	if (rc == 0 && curl_multi_add_handle(k->multi, r->easy) != CURLM_OK)
		rc = pl_err_set(err, ENOMEM, "out of memory");
	if (rc < 0) {
		request_free(r);
		return rc;
	}
	*out = r;
	return 0;
}

/* --- answers -------------------------------------------------------------- */

static int code_of(int status)
{
	static const struct {
		int status, code;
	} codes[] = {
		{ 401, EACCES }, { 403, EACCES }, { 404, ENOENT },
		{ 409, EEXIST }, { 410, ESTALE }, { 429, EAGAIN },
	};

	for (size_t i = 0; i < PL_ARRAY_SIZE(codes); i++)
		if (codes[i].status == status)
			return codes[i].code;
	return status >= 500 ? EAGAIN : EINVAL;
}

/* The message of a Status, if it is one. */
static void refused(struct pl_kube_request *r, struct pl_kube_answer *a)
{
	pl_auto_json *s = r->body ? cJSON_Parse(r->body) : NULL;
	const char *m = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(s, "message"));

	a->rc = pl_err_set(&r->err, code_of(a->status), "%s %.200s: HTTP "
			   "status %d%s%.400s", r->call.method,
			   r->url + strlen(r->kube->conf.server), a->status,
			   m ? ": " : "", m ? m : "");
}

static void failed(struct pl_kube_request *r, CURLcode code,
		   struct pl_kube_answer *a)
{
	int e = code == CURLE_OPERATION_TIMEDOUT ? ETIMEDOUT :
		code == CURLE_OUT_OF_MEMORY ? ENOMEM :
		code == CURLE_PEER_FAILED_VERIFICATION ||
		code == CURLE_SSL_CACERT_BADFILE ? EACCES :
		a->status ? ECONNRESET : EHOSTUNREACH;

	a->rc = pl_err_set(&r->err, e, "%s: %s", r->kube->conf.server,
			   *r->why ? r->why : curl_easy_strerror(code));
}

static void finish(struct pl_kube_request *r, CURLcode code)
{
	struct pl_kube_answer a = { .err = &r->err,
				    .body = r->body ? r->body : "",
				    .len = r->len };
	curl_off_t after = 0;
	long status = 0;

	curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(r->easy, CURLINFO_RETRY_AFTER, &after);
	a.status = (int)status;
	a.retry_after_s = (int)PL_MIN(after, 86400);
	if (r->rc < 0)
		a.rc = r->rc;
	else if (code != CURLE_OK)
		failed(r, code, &a);
	else if (status / 100 != 2)
		refused(r, &a);
	r->call.done(&a, r->call.arg);
	request_free(r);
}

/* --- curl in the loop ----------------------------------------------------- */

static void look(struct pl_kube *k)
{
	const CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(k->multi, &left))) {
		CURLcode code = m->data.result;
		char *r = NULL;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &r);
		/* m is not valid any more once its handle is removed. */
		finish((struct pl_kube_request *)(void *)r, code);
	}
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct pl_kube *k = arg;
	int running, flags = (what & EV_READ ? CURL_CSELECT_IN : 0) |
			     (what & EV_WRITE ? CURL_CSELECT_OUT : 0);

	curl_multi_socket_action(k->multi, fd, flags, &running);
	look(k);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct pl_kube *k = arg;
	int running;

	(void)fd;
	(void)what;
	curl_multi_socket_action(k->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	look(k);
}

static int on_wait_change(CURLM *multi, long ms, void *arg)
{
	struct pl_kube *k = arg;
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	(void)multi;
	if (ms < 0)
		return event_del(k->timer);
	return event_add(k->timer, &tv);
}

static int on_socket_change(CURL *easy, curl_socket_t fd, int what, void *arg,
			    void *socket)
{
	struct pl_kube *k = arg;
	struct event *ev = socket;
	short events = EV_PERSIST | (what & CURL_POLL_IN ? EV_READ : 0) |
		       (what & CURL_POLL_OUT ? EV_WRITE : 0);

	(void)easy;
	if (ev)
		event_free(ev);
	ev = what == CURL_POLL_REMOVE ? NULL :
	     event_new(k->base, fd, events, on_ready, k);
	curl_multi_assign(k->multi, fd, ev);
	return ev && event_add(ev, NULL) < 0 ? -1 : 0;
}

int pl_kube_create(struct event_base *base, struct pl_kube_conf *conf,
		   struct pl_kube **out, struct pl_err *err)
{
	struct pl_kube *k = calloc(1, sizeof(*k));

	if (!k) {
		pl_kube_conf_fini(conf);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	k->base = base;
	k->conf = *conf;
	*conf = (struct pl_kube_conf){ 0 };
	k->timer = evtimer_new(base, on_timer, k);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
		k->multi = curl_multi_init();
	if (!k->timer || !k->multi) {
		pl_kube_destroy(k);
		return pl_err_set(err, ENOMEM, "libcurl does not start");
	}
	curl_multi_setopt(k->multi, CURLMOPT_SOCKETFUNCTION, on_socket_change);
	curl_multi_setopt(k->multi, CURLMOPT_SOCKETDATA, k);
	curl_multi_setopt(k->multi, CURLMOPT_TIMERFUNCTION, on_wait_change);
	curl_multi_setopt(k->multi, CURLMOPT_TIMERDATA, k);
	*out = k;
	return 0;
}

void pl_kube_destroy(struct pl_kube *k)
{
	struct pl_kube_request *r;

	if (!k)
		return;
	while ((r = LIST_FIRST(&k->requests)))
		request_free(r);
	if (k->multi)
		curl_multi_cleanup(k->multi);
	if (k->timer)
		event_free(k->timer);
	pl_kube_conf_fini(&k->conf);
	free(k);
}

const char *pl_kube_server(const struct pl_kube *k)
{
	return k->conf.server;
}

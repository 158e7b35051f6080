/* daemonset/ctl_watch.c - podlanectl lanes --watch, top: rates, live */
#include "daemonset/ctl_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/util.h"
#include "daemonset/ctl_table.h"

/* Home, and everything below it is gone. */
#define CLEAR "\033[H\033[J"
#define TITLE_LINES 2

struct view;

struct watch {
	const char *socket_path;
	const struct view *view;
	uint32_t ms;
	bool json, terminal;
	bool is_away;		/* the agent; that was said */
	int fd;			/* to the agent; -1 */
	cJSON *before;		/* rows, or NULL */
	uint64_t before_ns;
	sigset_t open;		/* signals while it waits */
};

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

int pl_watch_interval(const char *text, uint32_t *ms, struct pl_err *err)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v * 1000 >= PL_WATCH_MS_MIN) ||
	    !(v * 1000 <= PL_WATCH_MS_MAX))
		return pl_err_set(err, EINVAL, "--watch takes 0.1 to 3600 "
				  "seconds, not '%s'", text);
	*ms = (uint32_t)(v * 1000);
	return 0;
}

/* --- rates ---------------------------------------------------------------- */

#define RATES 4
#define KEYS_MAX 4

/* What is watched: a list of the agent's. */
struct view {
	const char *list;		/* and the operation */
	const char *keys[KEYS_MAX];	/* equal: the same row */
	/* Sent bytes and messages, received ones; of an object within: a.b */
	const char *counters[RATES];
	const struct pl_column *columns;
	size_t n_columns;
};

static const char *const rates[RATES] = { "sentBytesPerSecond",
					  "sentMessagesPerSecond",
					  "receivedBytesPerSecond",
					  "receivedMessagesPerSecond" };

static bool same(const cJSON *a, const cJSON *b, const char *key)
{
	return cJSON_Compare(cJSON_GetObjectItemCaseSensitive(a, key),
			     cJSON_GetObjectItemCaseSensitive(b, key), true);
}

static double number(const cJSON *j, const char *key)
{
	const char *dot = strchr(key, '.');
	char head[16];

	if (dot && pl_format(head, sizeof(head), "%.*s", (int)(dot - key),
			     key) > 0) {
		j = cJSON_GetObjectItemCaseSensitive(j, head);
		key = dot + 1;
	}
	j = cJSON_GetObjectItemCaseSensitive(j, key);
	return cJSON_IsNumber(j) ? j->valuedouble : -1;
}

static bool same_row(const struct view *v, const cJSON *a, const cJSON *b)
{
	for (int i = 0; i < KEYS_MAX && v->keys[i]; i++)
		if (!same(a, b, v->keys[i]))
			return false;
	return true;
}

/* Lists are in the order of numbers, so the next one is mostly the right one */
static const cJSON *find(const struct view *v, const cJSON *before,
			 const cJSON **hint, const cJSON *row)
{
	const cJSON *l = *hint;

	for (int round = 0; round < 2; round++) {
		for (; l; l = l->next) {
			if (!same_row(v, l, row))
				continue;
			*hint = l->next;
			return l;
		}
		l = before ? before->child : NULL;
	}
	return NULL;
}

static void add_rates(const struct view *v, cJSON *row, const cJSON *was,
		      double seconds)
{
	for (int i = 0; i < RATES; i++) {
		double a = number(was, v->counters[i]);
		double b = number(row, v->counters[i]);

		if (a >= 0 && b >= a)
			cJSON_AddNumberToObject(row, rates[i],
						(b - a) / seconds);
	}
}

static int faster(const void *a, const void *b)
{
	const cJSON *x = *(cJSON *const *)a, *y = *(cJSON *const *)b;
	double d = number(y, rates[0]) + number(y, rates[2]) -
		   number(x, rates[0]) - number(x, rates[2]);

	if (d != 0)
		return d > 0 ? 1 : -1;
	return number(x, "id") < number(y, "id") ? -1 :
	       number(x, "id") > number(y, "id");
}

static void sort(cJSON *lanes)
{
	size_t n = (size_t)cJSON_GetArraySize(lanes);
	cJSON **v = calloc(n ? n : 1, sizeof(cJSON *));

	for (size_t i = 0; v && i < n; i++)
		v[i] = cJSON_DetachItemFromArray(lanes, 0);
	if (v)
		qsort(v, n, sizeof(cJSON *), faster);
	for (size_t i = 0; v && i < n; i++)
		cJSON_AddItemToArray(lanes, v[i]);
	free(v);
}

static void rows_rates(const struct view *v, cJSON *now, const cJSON *before,
		       double seconds)
{
	const cJSON *hint = before ? before->child : NULL, *was;
	cJSON *row;

	cJSON_ArrayForEach(row, now) {
		was = find(v, before, &hint, row);
		if (was)
			add_rates(v, row, was, seconds);
	}
	sort(now);
}

/* --- showing -------------------------------------------------------------- */

static const struct pl_column lane_columns[] = {
	{ "ID", "id", PL_CELL_NUMBER, NULL },
	{ "FROM", "fromName", PL_CELL_TEXT, NULL },
	{ "TO", "toName", PL_CELL_TEXT, NULL },
	{ "SERVICE", "service", PL_CELL_TEXT, NULL },
	{ "PATH", "path", PL_CELL_TEXT, NULL },
	{ "SENT/s", "sentBytesPerSecond", PL_CELL_BYTES, NULL },
	{ "MESSAGES/s", "sentMessagesPerSecond", PL_CELL_NUMBER, NULL },
	{ "RECEIVED/s", "receivedBytesPerSecond", PL_CELL_BYTES, NULL },
	{ "MESSAGES/s", "receivedMessagesPerSecond", PL_CELL_NUMBER, NULL },
};

static const struct pl_column pod_columns[] = {
	{ "NAMESPACE", "pod.namespace", PL_CELL_TEXT, NULL },
	{ "POD", "pod.name", PL_CELL_TEXT, NULL },
	{ "LANES", "lanes", PL_CELL_NUMBER, NULL },
	{ "REGIONS", "regions", PL_CELL_NUMBER, NULL },
	{ "BYTES", "bytes", PL_CELL_BYTES, "limits.bytes" },
	{ "SENT/s", "sentBytesPerSecond", PL_CELL_BYTES, NULL },
	{ "MESSAGES/s", "sentMessagesPerSecond", PL_CELL_NUMBER, NULL },
	{ "RECEIVED/s", "receivedBytesPerSecond", PL_CELL_BYTES, NULL },
	{ "MESSAGES/s", "receivedMessagesPerSecond", PL_CELL_NUMBER, NULL },
};

static const struct view lanes_view = {
	.list = "lanes",
	.keys = { "id", "from", "to", "service" },
	.counters = { "sentBytes", "sentMessages", "receivedBytes",
		      "receivedMessages" },
	.columns = lane_columns,
	.n_columns = PL_ARRAY_SIZE(lane_columns),
};

static const struct view pods_view = {
	.list = "pods",
	.keys = { "network", "containerID", "ifname" },
	.counters = { "sent.bytes", "sent.messages", "received.bytes",
		      "received.messages" },
	.columns = pod_columns,
	.n_columns = PL_ARRAY_SIZE(pod_columns),
};

void pl_watch_rates(cJSON *now, const cJSON *before, double seconds)
{
	rows_rates(&lanes_view, now, before, seconds);
}

/* The pod's name where it is known here, else its address. */
static void add_name(cJSON *lane, const char *key, const char *pod,
		     const char *addr)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(lane, pod);

	if (!cJSON_IsString(v) || !*v->valuestring)
		v = cJSON_GetObjectItemCaseSensitive(lane, addr);
	if (cJSON_IsString(v))
		cJSON_AddStringToObject(lane, key, v->valuestring);
}

static void time_text(char buf[32])
{
	time_t now = time(NULL);
	struct tm tm;

	if (!gmtime_r(&now, &tm) ||
	    !strftime(buf, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
		buf[0] = '\0';
}

/* Without room for all of them: how many lanes may be shown. */
static int rows(const struct watch *w)
{
	struct winsize size;

	if (!w->terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 ||
	    size.ws_row <= TITLE_LINES + 1)
		return INT32_MAX;
	return size.ws_row - TITLE_LINES - 1;
}

static void show_table(const struct watch *w, cJSON *lanes, double seconds)
{
	int n = cJSON_GetArraySize(lanes), most = rows(w);
	char when[32];
	cJSON *lane;

	cJSON_ArrayForEach(lane, lanes) {
		add_name(lane, "fromName", "fromPod", "from");
		add_name(lane, "toName", "toPod", "to");
	}
	time_text(when);
	printf("%s%s  %d %s%s, rates over %.1f s\n", w->terminal ? CLEAR : "",
	       when, n, w->view->list, n > most ? ", the fastest" : "", seconds);
	while (cJSON_GetArraySize(lanes) > most)
		cJSON_DeleteItemFromArray(lanes,
					  cJSON_GetArraySize(lanes) - 1);
	pl_table_print(stdout, lanes, w->view->columns, w->view->n_columns);
	if (!w->terminal)
		printf("\n");
}

/* lanes NULL: there is no agent, as err says. Takes lanes. */
static void show_json(const struct watch *w, cJSON *lanes, double seconds,
		      const struct pl_err *err)
{
	pl_auto_json *j = cJSON_CreateObject();
	pl_auto_free char *text = NULL;
	char when[32];

	time_text(when);
	cJSON_AddStringToObject(j, "time", when);
	if (lanes) {
		cJSON_AddNumberToObject(j, "seconds", seconds);
		cJSON_AddItemToObject(j, w->view->list, lanes);
	} else {
		cJSON_AddStringToObject(j, "error", err->msg);
	}
	text = cJSON_PrintUnformatted(j);
	printf("%s\n", text ? text : "{}");
}

/* --- the agent ------------------------------------------------------------ */

/*
 * Wait with signals let in: for fd (or none, -1) to be readable, no longer than
 * so many ms. False: it is over.
 */
static bool wait_for(const struct watch *w, int fd, int64_t ms)
{
	/* A pipe whose reader has gone says so unasked. */
	struct pollfd p[] = { { .fd = STDOUT_FILENO },
			      { .fd = fd, .events = POLLIN } };
	uint64_t end = pl_now_ns() + (uint64_t)ms * 1000000;
	struct timespec ts;
	uint64_t now;

	while (!stopped && (now = pl_now_ns()) < end) {
		ts.tv_sec = (time_t)((end - now) / 1000000000);
		ts.tv_nsec = (long)((end - now) % 1000000000);
		if (ppoll(p, 2, &ts, &w->open) < 0)
			continue;
		if (p[0].revents & (POLLERR | POLLHUP | POLLNVAL))
			return false;
		if (p[1].revents)
			return true;
	}
	return !stopped;
}

static int ask(struct watch *w, cJSON **lanes, struct pl_err *err)
{
	pl_auto_json *request = cJSON_CreateObject();
	pl_auto_json *answer = NULL;
	int rc = 0;

	cJSON_AddStringToObject(request, "op", w->view->list);
	if (w->fd < 0)
		rc = pl_agent_open(w->socket_path, &w->fd, err);
	if (rc == 0)
		rc = pl_agent_send(w->fd, request, -1, err);
	if (rc == 0 && !wait_for(w, w->fd, PL_AGENT_TIMEOUT_MS))
		return -EINTR;
	if (rc == 0)
		rc = pl_agent_recv(w->fd, &answer, err);
	if (rc < 0) {
		pl_close_fd(&w->fd);
		return rc;
	}
	*lanes = cJSON_DetachItemFromObjectCaseSensitive(answer,
							 w->view->list);
	if (cJSON_IsArray(*lanes))
		return 0;
	cJSON_Delete(*lanes);
	return pl_err_set(err, EPROTO, "the agent's answer has no %s",
			  w->view->list);
}

static void away(struct watch *w, const struct pl_err *err)
{
	cJSON_Delete(w->before);
	w->before = NULL;
	if (!w->is_away)
		fprintf(stderr, "podlanectl: %s; waiting for it\n", err->msg);
	w->is_away = true;
	if (w->json)
		show_json(w, NULL, 0, err);
}

static void show(struct watch *w, cJSON *lanes, uint64_t now)
{
	double seconds = (double)(now - w->before_ns) / 1e9;
	cJSON *next = cJSON_Duplicate(lanes, true);

	w->is_away = false;
	/* After a start there is nothing yet to compare with. */
	if (w->before) {
		rows_rates(w->view, lanes, w->before, seconds);
		if (w->json) {
			show_json(w, lanes, seconds, NULL);
			lanes = NULL;
		} else {
			show_table(w, lanes, seconds);
		}
	}
	cJSON_Delete(lanes);
	cJSON_Delete(w->before);
	w->before = next;
	w->before_ns = now;
}

static int run(struct watch *w, struct pl_err *err)
{
	cJSON *lanes = NULL;
	int rc = ask(w, &lanes, err);

	if (rc < 0)
		return rc == -EINTR ? 0 : rc;
	for (;;) {
		if (rc == 0)
			show(w, lanes, pl_now_ns());
		else
			away(w, err);
		if (fflush(stdout) < 0 || ferror(stdout) ||
		    !wait_for(w, -1, w->ms))
			return 0;
		rc = ask(w, &lanes, err);
		if (rc == -EINTR)
			return 0;
	}
}

static int watch(const struct view *view, const char *socket_path,
		 uint32_t ms, bool json, struct pl_err *err)
{
	struct watch w = { .socket_path = socket_path,
			   .view = view,
			   .ms = ms,
			   .json = json,
			   .terminal = !json && isatty(STDOUT_FILENO),
			   .fd = -1 };
	const struct sigaction sa = { .sa_handler = on_signal };
	sigset_t closed;
	int rc;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&closed);
	sigaddset(&closed, SIGINT);
	sigaddset(&closed, SIGTERM);
	sigprocmask(SIG_BLOCK, &closed, &w.open);
	sigdelset(&w.open, SIGINT);
	sigdelset(&w.open, SIGTERM);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	rc = run(&w, err);
	cJSON_Delete(w.before);
	pl_close_fd(&w.fd);
	return rc;
}

int pl_watch_lanes(const char *socket_path, uint32_t ms, bool json,
		   struct pl_err *err)
{
	return watch(&lanes_view, socket_path, ms, json, err);
}

int pl_watch_pods(const char *socket_path, uint32_t ms, bool json,
		  struct pl_err *err)
{
	return watch(&pods_view, socket_path, ms, json, err);
}

/*
 * bench/lane_many.c - messages one way, over many lanes at once
 *
 * The client offers bytes to all lanes in turn and waits when none takes any;
 * the server waits for whichever has some. Fairness is Jain's index of what was
 * sent on each lane while it was measured.
 */
#include "bench/lane_perf.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "common/util.h"
#include "bench/lane_link.h"
#include "bench/lane_message.h"
#include "bench/ps_machine.h"

#define EVENTS 64
#define STUCK_MS 30000
/* Messages from one lane before the next one's turn. */
#define TURN 8

struct part {
	const struct lp_end *end;
	char *buf;
	size_t off;			/* of the present message */
	uint64_t no;
	bool done;
};

struct crowd {
	struct lp_ends e;
	size_t size;
	struct part *part;
	char *bufs;
};

/* --- receiving ------------------------------------------------------------ */

/* What is there, up to a few messages; 1 when the last one is among them. */
static int take_turn(struct crowd *c, struct part *p)
{
	for (int i = 0; i < TURN && !p->done;) {
		ssize_t n = lp_recv_now(p->end, p->buf + p->off,
					c->size - p->off);
		int kind;

		if (n == -EAGAIN || n == -EINTR)
			return 0;
		if (n <= 0)
			return n < 0 ? (int)n : -ECONNRESET;
		p->off += (size_t)n;
		if (p->off < c->size)
			continue;
		p->off = 0;
		kind = lp_check(p->buf, c->size, p->no++);
		if (kind < 0)
			return -EBADMSG;
		p->done = kind == LP_LAST;
		i++;
	}
	return p->done;
}

static int watch_all(struct crowd *c, int ep)
{
	for (unsigned int i = 0; i < c->e.n; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };
		int fd = lp_end_fd(&c->e.end[i]);

		if (fd < 0)
			return fd;
		if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
			return -errno;
	}
	return 0;
}

static int end_one(const struct part *p, int ep)
{
	epoll_ctl(ep, EPOLL_CTL_DEL, lp_end_fd(p->end), NULL);
	return lp_send(p->end, "received", 8);
}

/* Until each lane has had its last message. */
static int recv_all(struct crowd *c)
{
	pl_auto_fd ep = epoll_create1(EPOLL_CLOEXEC);
	unsigned int left = c->e.n;
	int rc = ep < 0 ? -errno : watch_all(c, ep);

	while (rc >= 0 && left) {
		struct epoll_event ev[EVENTS];
		int n = epoll_wait(ep, ev, EVENTS, STUCK_MS);

		if (n == 0)
			return -ETIMEDOUT;
		for (int i = 0; rc >= 0 && i < n; i++) {
			struct part *p = &c->part[ev[i].data.u32];

			rc = take_turn(c, p);
			if (rc == 1) {
				rc = end_one(p, ep);
				left--;
			}
		}
	}
	return PL_MIN(rc, 0);
}

/* --- sending -------------------------------------------------------------- */

static void next(struct crowd *c, struct part *p, enum lp_kind kind)
{
	p->off = 0;
	if (kind == LP_FULL)
		lp_fill(p->buf, c->size, p->no++);
	else
		lp_stamp(p->buf, c->size, kind, p->no++);
}

/* Bytes that the lane took, or -errno. */
static ssize_t give_turn(struct crowd *c, struct part *p)
{
	size_t sum = 0;

	for (int i = 0; i < TURN; i++) {
		ssize_t n = lp_send_now(p->end, p->buf + p->off,
					c->size - p->off);

		if (n == -EAGAIN || n == -EINTR)
			break;
		if (n < 0)
			return n;
		sum += (size_t)n;
		p->off += (size_t)n;
		if (p->off < c->size)
			break;
		next(c, p, LP_ENDS);
	}
	return (ssize_t)sum;
}

static void wait_space(const struct lp_end *end)
{
	struct pollfd p = { .fd = end->fd, .events = POLLOUT };

	if (end->lane)
		pl_lane_wait(end->lane, PL_OUT, 1);
	else
		poll(&p, 1, 1);
}

static int give_for(struct crowd *c, unsigned int ms)
{
	uint64_t end = pl_now_ns() + ms * 1000000ull;

	for (unsigned int round = 0; pl_now_ns() < end; round++) {
		bool any = false;

		for (unsigned int i = 0; i < c->e.n; i++) {
			ssize_t n = give_turn(c, &c->part[i]);

			if (n < 0)
				return (int)n;
			any |= n > 0;
		}
		if (!any)
			wait_space(&c->e.end[round % c->e.n]);
	}
	return 0;
}

/* The message that was begun, and one that says that it is the last. */
static int give_last(struct crowd *c, struct part *p)
{
	int rc = lp_send(p->end, p->buf + p->off, c->size - p->off);

	next(c, p, LP_LAST);
	return rc < 0 ? rc : lp_send(p->end, p->buf, c->size);
}

static double jain(const struct crowd *c)
{
	double sum = 0, squares = 0;

	for (unsigned int i = 0; i < c->e.n; i++) {
		double x = (double)c->part[i].no * (double)c->size +
			   (double)c->part[i].off;

		sum += x;
		squares += x * x;
	}
	return sum * sum / (c->e.n * squares);
}

static void row_add(struct crowd *c, cJSON *rows, uint64_t ns, uint64_t busy_ns,
		    double fairness)
{
	cJSON *row = cJSON_CreateObject();
	double messages = 0, bytes;

	for (unsigned int i = 0; i < c->e.n; i++)
		messages += (double)c->part[i].no;
	bytes = messages * (double)c->size;
	cJSON_AddNumberToObject(row, "lanes", c->e.n);
	cJSON_AddNumberToObject(row, "size", (double)c->size);
	cJSON_AddNumberToObject(row, "messages_per_s",
				messages * 1e9 / (double)ns);
	cJSON_AddNumberToObject(row, "bytes_per_s", bytes * 1e9 / (double)ns);
	cJSON_AddNumberToObject(row, "cpu_s_per_gb", (double)busy_ns / bytes);
	cJSON_AddNumberToObject(row, "jain", fairness);
	cJSON_AddBoolToObject(row, "verified", true);
	cJSON_AddStringToObject(row, "path", c->e.end[0].path);
	cJSON_AddItemToArray(rows, row);
}

static int send_all(struct crowd *c, unsigned int ms, cJSON *rows)
{
	uint64_t start = pl_now_ns(), busy = ps_machine_busy_ns();
	double fairness;
	char answer[8];
	int rc;

	for (unsigned int i = 0; i < c->e.n; i++)
		next(c, &c->part[i], LP_FULL);
	rc = give_for(c, ms);
	fairness = jain(c);
	for (unsigned int i = 0; rc == 0 && i < c->e.n; i++)
		rc = give_last(c, &c->part[i]);
	for (unsigned int i = 0; rc == 0 && i < c->e.n; i++)
		rc = lp_recv(&c->e.end[i], answer, sizeof(answer));
	if (rc == 0)
		row_add(c, rows, pl_now_ns() - start,
			ps_machine_busy_ns() - busy, fairness);
	return rc;
}

/* --- both ----------------------------------------------------------------- */

static int crowd_init(struct crowd *c, const struct lp_job *j,
		      struct pl_err *err)
{

	c->size = j->n_sizes ? j->sizes[0] : 8;
	c->part = calloc(j->lanes, sizeof(*c->part));
	c->bufs = calloc(j->lanes, c->size);
	if (!c->part || !c->bufs)
		return pl_err_set(err, ENOMEM, "out of memory");
	return 0;
}

int lp_many_run(const struct lp_job *j, cJSON *rows, struct pl_err *err)
{
	struct crowd c = { .size = 0 };
	int rc = lp_ends_open(j, &c.e, err);

	if (rc == 0)
		rc = crowd_init(&c, j, err);
	for (unsigned int i = 0; rc == 0 && i < j->lanes; i++)
		c.part[i] = (struct part){ .end = &c.e.end[i],
					   .buf = c.bufs + i * c.size };
	if (rc == 0)
		rc = lp_told(j->is_server ? recv_all(&c) :
					 send_all(&c, j->ms, rows), err);
	lp_ends_close(&c.e);
	free(c.part);
	free(c.bufs);
	return rc;
}

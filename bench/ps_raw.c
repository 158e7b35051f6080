/*
 * bench/ps_raw.c - the plain rate of the path between pods
 *
 * What the network gives to programs that do nothing but stream: one connection
 * per sender, large writes from one buffer, the receiver reads and forgets.
 * With --bidir both ends do both at once, like the exchange of gradients and
 * parameters. A sender ends its stream after --duration; the receiver when all
 * streams have ended.
 */
#include "bench/ps_role.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/util.h"
#include "bench/ps_job.h"
#include "bench/ps_names.h"
#include "bench/ps_overlay.h"

#define BUF_BYTES (128u << 10)	/* as iperf3 writes and reads */

/* One direction of one connection. */
struct stream {
	pthread_t thread;
	int fd;
	bool send, started;
	uint64_t until_ns;	/* sending ends; 0: with the other direction */
	atomic_bool *stop;
	uint64_t bytes, start_ns, end_ns;
	int error;
};

static int send_some(struct stream *s, void *buf)
{
	ssize_t n = send(s->fd, buf, BUF_BYTES, MSG_NOSIGNAL);

	if (n < 0 && errno != EINTR)
		return -errno;
	s->bytes += n > 0 ? (uint64_t)n : 0;
	if (s->until_ns ? pl_now_ns() < s->until_ns : !atomic_load(s->stop))
		return 0;
	shutdown(s->fd, SHUT_WR);
	return 1;
}

static int recv_some(struct stream *s, void *buf)
{
	ssize_t n = recv(s->fd, buf, BUF_BYTES, 0);

	if (n < 0 && errno != EINTR)
		return -errno;
	s->bytes += n > 0 ? (uint64_t)n : 0;
	return n == 0;
}

static void *stream_main(void *arg)
{
	void *buf = calloc(1, BUF_BYTES);
	struct stream *s = arg;
	int r = buf ? 0 : -ENOMEM;

	s->start_ns = pl_now_ns();
	while (!r)
		r = s->send ? send_some(s, buf) : recv_some(s, buf);
	s->end_ns = pl_now_ns();
	s->error = PL_MIN(r, 0);
	if (!s->send)
		atomic_store(s->stop, true);
	free(buf);
	return NULL;
}

static int start(struct stream *s, struct pl_err *err)
{
	int r = pthread_create(&s->thread, NULL, stream_main, s);

	if (r)
		return pl_err_set(err, r, "starting a thread: %s",
				  strerror(r));
	s->started = true;
	return 0;
}

static void finish(struct stream *s, struct ps_report *rep, struct pl_err *err)
{
	if (!s->started)
		return;
	pthread_join(s->thread, NULL);
	if (s->error && !err->code)
		pl_err_set(err, -s->error, "streaming: %s",
			   strerror(-s->error));
	if (s->send)
		rep->sent_bytes += s->bytes;
	else
		rep->received_bytes += s->bytes;
	/* Of all streams together: from the first to the last. */
	rep->t_first_ns = rep->t_first_ns ?
		PL_MIN(rep->t_first_ns, s->start_ns) : s->start_ns;
	rep->t_last_ns = PL_MAX(rep->t_last_ns, s->end_ns);
	rep->ns = rep->t_last_ns - rep->t_first_ns;
}

static int recv_run(const struct ps_opts *o, struct ps_report *rep,
		    struct pl_err *err)
{
	uint64_t end = pl_now_ns() + o->timeout_s * 1000000000ull;
	struct stream s[2 * PS_WORKERS_MAX] = { { .started = false } };
	atomic_bool stop[PS_WORKERS_MAX] = { false };
	pl_auto_fd listener = -1;
	unsigned int i;
	int r, fd = -1;

	r = ps_tcp_listen(o->bind.n ? o->bind.text[0] : NULL, o->port,
			  &listener, err);
	for (i = 0; i < o->workers && !r; i++) {
		r = ps_tcp_accept(listener, end, &fd, err);
		if (r == -ETIMEDOUT)
			pl_err_set(err, ETIMEDOUT, "%u of %u senders came "
				   "within %u s", i, o->workers, o->timeout_s);
		if (r)
			break;
		s[2 * i] = (struct stream){ .fd = fd, .stop = &stop[i] };
		s[2 * i + 1] = (struct stream){ .fd = fd, .stop = &stop[i],
						.send = true };
		r = start(&s[2 * i], err);
		if (!r && o->bidir)
			r = start(&s[2 * i + 1], err);
	}
	while (i-- > 0) {
		finish(&s[2 * i], rep, err);
		finish(&s[2 * i + 1], rep, err);
		close(s[2 * i].fd);
	}
	return -err->code;
}

static int send_run(const struct ps_opts *o, struct ps_report *rep,
		    struct pl_err *err)
{
	struct stream up = { .send = true }, down = { .send = false };
	atomic_bool stop = false;
	pl_auto_fd fd = -1;
	int r;

	if (o->server.n != 1)
		return pl_err_set(err, EINVAL, "--server needs one address");
	r = ps_tcp_connect(o->server.text[0], o->port, o->timeout_s, &fd, err);
	if (r)
		return r;
	ps_tcp_timeout(fd, 0);
	up.fd = down.fd = fd;
	up.stop = down.stop = &stop;
	up.until_ns = pl_now_ns() + o->duration_ms * 1000000ull;
	r = start(&up, err);
	if (!r && o->bidir)
		start(&down, err);
	finish(&up, rep, err);
	finish(&down, rep, err);
	return -err->code;
}

static int raw_main(enum ps_cmd cmd, int argc, char **argv)
{
	struct ps_report rep = { .checksum = 0 };
	struct pl_err err = { .code = 0 };
	struct ps_job job;
	struct ps_opts o;
	int r;

	r = ps_opts_parse(cmd, argc, argv, &o, &err);
	if (r == 1)
		return 0;
	if (r) {
		fprintf(stderr, "ps_throughput %s: %s\n", argv[0], err.msg);
		return 2;
	}
	memset(&job, 0, sizeof(job));
	job.o = o;
	if (cmd == PS_CMD_RAW_RECV)
		recv_run(&job.o, &rep, &err);
	else if (ps_names_resolve(&job.o, &err) == 0)
		send_run(&job.o, &rep, &err);
	return ps_report_end(argv[0], &job, &rep, &err);
}

int ps_raw_recv_main(int argc, char **argv)
{
	return raw_main(PS_CMD_RAW_RECV, argc, argv);
}

int ps_raw_send_main(int argc, char **argv)
{
	return raw_main(PS_CMD_RAW_SEND, argc, argv);
}

/* tests/unit/test_conn.c - the library against a stand-in agent */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/un.h>
#include <cmocka.h>

#include "tests/unit/agent_stub.h"

#define SOON_MS 20000		/* a limit against hanging, not a measure */

static struct pl_conn *conn_open(struct stub *s)
{
	struct pl_err err = { 0 };
	struct pl_conn *c;

	if (pl_conn_attach(stub_start(s), &c, &err) < 0)
		fail_msg("%s", err.msg);
	return c;
}

/* --- what goes right ------------------------------------------------------ */

static void lane_and_region(void **state)
{
	const struct pl_lane_opts opts = { .ring_bytes = PL_RING_MIN * 2 };
	struct stub s = { .spoil = NULL };
	struct pl_conn *c = conn_open(&s);
	struct pl_conn_info ci;
	struct pl_lane_info li;
	struct pl_region_info ri;
	struct pl_region *own, *other;
	struct pl_lane *l;
	struct pl_err err;

	(void)state;
	pl_conn_info(c, &ci);
	assert_string_equal(ci.node, "node1");
	assert_string_equal(ci.addr, "10.1.2.4");
	assert_string_equal(pl_conn_node(c), "node1");
	assert_int_equal(pl_connect(c, "10.1.2.3", "echo", &opts, &l, &err),
			 0);
	pl_lane_info(l, &li);
	assert_int_equal(li.id, STUB_ID);
	assert_string_equal(li.peer, "10.1.2.3");
	assert_string_equal(li.path, "shm");
	assert_int_equal(li.send_ring_bytes, PL_RING_MIN * 2);
	assert_int_equal(li.recv_ring_bytes, STUB_RING);
	assert_int_equal(pl_region_create(c, "r", STUB_REGION, 0, &own, &err),
			 0);
	assert_int_equal(pl_region_open(c, "10.1.2.3", "r", 0, &other, &err),
			 0);
	pl_region_info(other, &ri);
	assert_string_equal(ri.name, "r");
	assert_string_equal(ri.owner, "10.1.2.3");
	assert_int_equal(ri.size, STUB_REGION);
	pl_region_close(own);
	pl_region_close(other);
	pl_lane_close(l);
	assert_int_equal(s.seen[PL_MSG_LANE_CLOSE], 1);
	assert_int_equal(s.seen[PL_MSG_REGION_CLOSE], 2);
	pl_close(c);
	pl_close(NULL);
	stub_stop(&s);
}

/* What the listener answers to what it is offered. */
static uint16_t listener_answer(struct stub *s, uint64_t *id)
{
	int fds[PL_FDPASS_MAX], n_fds;
	struct pl_msg_accept m;
	ssize_t n = pl_fdpass_recv(s->listener, &m, sizeof(m), fds,
				   PL_FDPASS_MAX, &n_fds, 0);

	if (n < (ssize_t)sizeof(struct pl_msg_ok))
		return 0;
	for (int i = 0; i < n_fds; i++)
		close(fds[i]);
	*id = m.id;
	if (m.h.type == PL_MSG_ACCEPT &&
	    (n != sizeof(m) || n_fds != 1 || m.ring_bytes != PL_RING_DEFAULT))
		return 0;
	return m.h.type;
}

static void listening(void **state)
{
	struct stub_answer in = { .n_fds = 0 };
	struct stub s = { .spoil = NULL };
	struct pl_conn *c = conn_open(&s);
	struct pollfd p = { .events = POLLIN };
	struct pl_listener *l;
	struct pl_lane *lane;
	struct pl_err err;
	uint64_t id;

	(void)state;
	assert_int_equal(pl_listen(c, "echo", NULL, &l, &err), 0);
	p.fd = pl_listener_fd(l);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(pl_accept(l, -2, &lane, &err), -EINVAL);
	assert_int_equal(pl_accept(l, 0, &lane, &err), -ETIMEDOUT);
	assert_int_equal(pl_accept(l, 20, &lane, &err), -ETIMEDOUT);
	/* The second one's segment is made while the call waits in vain. */
	for (int i = 0; i < 2; i++) {
		stub_lane(&s, &in, PL_MSG_INCOMING, 0);
		stub_send(s.listener, &in);
		stub_answer_free(&in);
		assert_int_equal(poll(&p, 1, SOON_MS), 1);
		assert_int_equal(pl_accept(l, SOON_MS, &lane, &err), 0);
		assert_int_equal(listener_answer(&s, &id), PL_MSG_ACCEPT);
		assert_int_equal(id, STUB_ID);
		assert_int_equal(pl_lane_send(lane, "x", 1, 0), 1);
		pl_lane_close(lane);
		assert_int_equal(pl_accept(l, 20, &lane, &err), -ETIMEDOUT);
	}
	/* The agent goes. */
	pl_close_fd(&s.listener);
	assert_int_equal(pl_accept(l, -1, &lane, &err), -ECONNRESET);
	pl_unlisten(l);
	pl_unlisten(NULL);
	pl_close(c);
	stub_stop(&s);
}

/* --- arguments ------------------------------------------------------------ */

static void arguments(void **state)
{
	static const char *const names[] = {
		"", "a b", "a\n", "\xc3\xa4", "a*b",
		"0123456789012345678901234567890123456789012345678901234567890123",
	};
	static const char *const addrs[] = {
		"", "10.1.2", "pod", "10.1.2.3.4", "10.1.2.3 ", "::g",
		"0000000000000000000000000000000000000000000000000000000000000",
	};
	const struct pl_lane_opts odd[] = { { .ring_bytes = 5 },
					    { .flags = 0x100 },
					    { .connect_timeout_ms = -2 } };
	struct stub s = { .spoil = NULL };
	struct pl_conn *c = conn_open(&s);
	struct pl_listener *l;
	struct pl_region *r;
	struct pl_lane *lane;
	struct pl_err err;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++) {
		assert_int_equal(pl_listen(c, names[i], NULL, &l, &err),
				 -EINVAL);
		assert_int_equal(pl_connect(c, "10.1.2.3", names[i], NULL,
					    &lane, &err), -EINVAL);
		assert_int_equal(pl_region_create(c, names[i], 1, 0, &r, &err),
				 -EINVAL);
		assert_int_equal(pl_region_open(c, "10.1.2.3", names[i], 0, &r,
						&err), -EINVAL);
		assert_true(err.msg[0]);
	}
	for (size_t i = 0; i < PL_ARRAY_SIZE(addrs); i++) {
		assert_int_equal(pl_connect(c, addrs[i], "a", NULL, &lane,
					    &err), -EINVAL);
		assert_int_equal(pl_region_open(c, addrs[i], "a", 0, &r, &err),
				 -EINVAL);
	}
	for (size_t i = 0; i < PL_ARRAY_SIZE(odd); i++) {
		assert_int_equal(pl_listen(c, "a", &odd[i], &l, &err),
				 -EINVAL);
		assert_int_equal(pl_connect(c, "10.1.2.3", "a", &odd[i], &lane,
					    &err), -EINVAL);
	}
	assert_int_equal(pl_region_create(c, "a", 0, 0, &r, &err), -EINVAL);
	assert_int_equal(pl_region_create(c, "a", 1, 6, &r, &err), -EINVAL);
	assert_int_equal(pl_region_create(c, "a", SIZE_MAX / 2, 0, &r, &err),
			 -EINVAL);
	assert_int_equal(pl_region_create(c, "a", (size_t)1 << 44, 0, &r,
					  NULL), -ENOMEM);
	assert_int_equal(pl_region_open(c, "10.1.2.3", "a", -2, &r, &err),
			 -EINVAL);
	/* None of it reached the agent. */
	assert_int_equal(s.seen[PL_MSG_LISTEN] + s.seen[PL_MSG_CONNECT] +
			 s.seen[PL_MSG_REGION_OPEN] +
			 s.seen[PL_MSG_REGION_CREATE], 0);
	pl_close(c);
	stub_stop(&s);
}

/* --- spoilt answers ------------------------------------------------------- */

/* The requests that are tried; 0: HELLO itself. */
static const uint16_t requests[] = { PL_MSG_HELLO, PL_MSG_LISTEN,
				     PL_MSG_CONNECT, PL_MSG_REGION_CREATE,
				     PL_MSG_REGION_OPEN };

enum how {
	STUMP, CUT, CUT_HONESTLY, LONGER, LONGER_HONESTLY, LENGTH, MAGIC,
	VERSION, SEQ, SEQ_ZERO, TYPE_OK, TYPE_OTHER, TYPE_UNKNOWN, TYPE_HUGE,
	TYPE_ZERO, FD_LESS, FD_MORE, FD_MANY, TEXT_OPEN, TEXT_CONTROL,
	ERROR_ZERO, ERROR_NEGATIVE, ERROR_HUGE, ERROR_TEXT, ERROR_FD, WAYS
};

struct spoiler {
	uint16_t request;
	enum how how;
	bool done;
};

static void spoil_size(struct stub_answer *a, enum how how)
{
	if (how == STUMP)
		a->len = 8;
	else if (how == CUT || how == CUT_HONESTLY)
		a->len--;
	else if (how == LONGER || how == LONGER_HONESTLY)
		a->len += 8;
	else
		a->h.len ^= 4;
	if (how == CUT_HONESTLY || how == LONGER_HONESTLY)
		a->h.len = (uint32_t)a->len;
}

static void spoil_head(struct stub_answer *a, enum how how)
{
	switch (how) {
	case MAGIC:
		a->h.magic++;
		break;
	case VERSION:
		a->h.version++;
		break;
	case SEQ:
		a->h.seq++;
		break;
	case SEQ_ZERO:
		a->h.seq = 0;
		break;
	case TYPE_UNKNOWN:
		a->h.type = 99;
		break;
	case TYPE_HUGE:
		a->h.type = UINT16_MAX;
		break;
	default:
		a->h.type = 0;
	}
}

/* An answer that is right in itself, but to another request. */
static void spoil_type(struct stub *s, struct stub_answer *a, enum how how)
{
	uint32_t seq = a->h.seq;

	stub_answer_free(a);
	if (how == TYPE_OK)
		stub_head(a, PL_MSG_OK, sizeof(a->ok), seq);
	else
		stub_lane(s, a, PL_MSG_INCOMING, seq);
}

static bool spoil_fds(struct stub_answer *a, enum how how)
{
	if (how == FD_LESS && !a->n_fds)
		return false;
	if (how == FD_LESS)
		close(a->fds[--a->n_fds]);
	for (int n = how == FD_LESS ? 0 : how == FD_MORE ? 1 : 4; n > 0; n--)
		stub_fd(a, dup(0));
	return true;
}

static bool spoil_text(struct stub_answer *a, enum how how)
{
	char *text;

	switch (a->h.type) {
	case PL_MSG_CONNECT_OK:
	case PL_MSG_INCOMING:
		text = a->lane.self;
		break;
	case PL_MSG_HELLO_OK:
		text = a->hello_ok.addr;
		break;
	case PL_MSG_REGION_CREATE_OK:
	case PL_MSG_REGION_OPEN_OK:
		text = a->region.owner;
		break;
	default:
		return false;
	}
	if (how == TEXT_OPEN)
		memset(text, 'x', PL_WIRE_ADDR);
	else
		text[1] = '\n';
	return true;
}

static void spoil_error(struct stub_answer *a, enum how how)
{
	const int codes[] = { 0, -5, 5000, EACCES, EACCES };
	uint32_t seq = a->h.seq;

	stub_answer_free(a);
	stub_error(a, codes[how - ERROR_ZERO], seq);
	if (how == ERROR_TEXT)
		memset(a->error.text, 'x', sizeof(a->error.text));
	if (how == ERROR_FD)
		stub_fd(a, dup(0));
}

static bool spoil(struct stub *s, uint16_t request, struct stub_answer *a)
{
	struct spoiler *sp = s->arg;

	if (request != sp->request)
		return true;
	sp->done = true;
	if (sp->how <= LENGTH)
		spoil_size(a, sp->how);
	else if (sp->how == TYPE_OK || sp->how == TYPE_OTHER)
		spoil_type(s, a, sp->how);
	else if (sp->how <= TYPE_ZERO)
		spoil_head(a, sp->how);
	else if (sp->how <= FD_MANY)
		sp->done = spoil_fds(a, sp->how);
	else if (sp->how <= TEXT_CONTROL)
		sp->done = spoil_text(a, sp->how);
	else
		spoil_error(a, sp->how);
	return true;
}

/* One call that makes the library send that request; what it returned. */
static int provoke(struct pl_conn *c, uint16_t request, struct pl_err *err)
{
	struct pl_listener *l = NULL;
	struct pl_region *r = NULL;
	struct pl_lane *lane = NULL;
	int rc = 0;

	if (request == PL_MSG_LISTEN)
		rc = pl_listen(c, "a", NULL, &l, err);
	else if (request == PL_MSG_CONNECT)
		rc = pl_connect(c, "10.1.2.3", "a", NULL, &lane, err);
	else if (request == PL_MSG_REGION_CREATE)
		rc = pl_region_create(c, "a", STUB_REGION, 0, &r, err);
	else if (request == PL_MSG_REGION_OPEN)
		rc = pl_region_open(c, "10.1.2.3", "a", 0, &r, err);
	pl_unlisten(l);
	pl_region_close(r);
	pl_lane_close(lane);
	return rc;
}

static void spoilt_once(uint16_t request, enum how how)
{
	struct spoiler sp = { .request = request, .how = how };
	struct stub s = { .spoil = spoil, .arg = &sp };
	struct pl_conn *c = NULL;
	struct pl_err err = { 0 };
	int before = count_fds();
	int rc = pl_conn_attach(stub_start(&s), &c, &err);

	if (request != PL_MSG_HELLO && rc == 0)
		rc = provoke(c, request, &err);
	if (rc != (sp.done ? -EPROTO : 0))
		fail_msg("request %u spoilt by %d: %d, %s", request, how, rc,
			 err.msg);
	/* The connection is of no use any more, and says so. */
	if (sp.done && c && provoke(c, PL_MSG_LISTEN, &err) == 0)
		fail_msg("request %u spoilt by %d: goes on", request, how);
	pl_close(c);
	stub_stop(&s);
	if (count_fds() != before)
		fail_msg("request %u spoilt by %d: a descriptor is left",
			 request, how);
}

static void spoilt_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(requests); i++)
		for (int how = 0; how < WAYS; how++)
			spoilt_once(requests[i], how);
}

/* --- answers in good form with bad content -------------------------------- */

enum content {
	RING_ODD, RING_OTHER, SIZE_ZERO, SIZE_OTHER, SIZE_HUGE, FIRST_IS_PIPE,
	SECOND_IS_PIPE, SWAPPED, CONTENTS
};

static void replace_fd(struct stub_answer *a, int i)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		abort();
	close(p[0]);
	close(a->fds[i]);
	a->fds[i] = p[1];
}

static bool bad_content(struct stub *s, uint16_t request,
			struct stub_answer *a)
{
	struct spoiler *sp = s->arg;
	bool lane = request == PL_MSG_CONNECT;
	bool region = request == PL_MSG_REGION_OPEN ||
		      request == PL_MSG_REGION_CREATE;
	enum content how = (enum content)sp->how;

	if (request != sp->request)
		return true;
	sp->done = how <= RING_OTHER ? lane : how <= SIZE_HUGE ? region :
		   how == FIRST_IS_PIPE ? a->n_fds > 0 : a->n_fds > 1;
	if (!sp->done)
		return true;
	if (how <= RING_OTHER)
		a->lane.ring_bytes = how == RING_ODD ? 5 : STUB_RING * 2;
	else if (how <= SIZE_HUGE)
		a->region.size = how == SIZE_ZERO ? 0 :
				 how == SIZE_OTHER ? STUB_REGION + 1 :
						     UINT64_MAX;
	else if (how <= SECOND_IS_PIPE)
		replace_fd(a, how - FIRST_IS_PIPE);
	else {
		int fd = a->fds[0];

		a->fds[0] = a->fds[1];
		a->fds[1] = fd;
	}
	return true;
}

static void bad_contents(void **state)
{
	(void)state;
	for (size_t i = 1; i < PL_ARRAY_SIZE(requests); i++) {
		for (int how = 0; how < CONTENTS; how++) {
			struct spoiler sp = { .request = requests[i],
					      .how = (enum how)how };
			struct stub s = { .spoil = bad_content, .arg = &sp };
			int before = count_fds();
			struct pl_conn *c = conn_open(&s);
			struct pl_err err = { 0 };
			int rc = provoke(c, requests[i], &err);

			if (rc != (sp.done ? -EPROTO : 0))
				fail_msg("request %u, content %d: %d, %s",
					 requests[i], how, rc, err.msg);
			/* What the agent made has to be unmade. */
			if (sp.done && requests[i] != PL_MSG_LISTEN)
				assert_int_equal(s.seen[PL_MSG_LANE_CLOSE] +
						 s.seen[PL_MSG_REGION_CLOSE],
						 1);
			pl_close(c);
			stub_stop(&s);
			assert_int_equal(count_fds(), before);
		}
	}
}

/* --- the listener --------------------------------------------------------- */

/* A lane that is offered wrongly by the agent; a peer's bad segment. */
static void offers(void **state)
{
	struct stub s = { .spoil = NULL };
	struct pl_conn *c = conn_open(&s);
	struct pl_listener *l;
	struct pl_lane *lane;
	struct pl_err err;
	uint64_t id;

	(void)state;
	assert_int_equal(pl_listen(c, "echo", NULL, &l, &err), 0);
	for (int how = 0; how <= TEXT_CONTROL; how++) {
		struct spoiler sp = { .how = how };
		struct stub fake = s;
		struct stub_answer in = { .n_fds = 0 };
		int rc;

		if (how == SEQ || how == SEQ_ZERO || how == TYPE_OTHER)
			continue;
		stub_lane(&s, &in, PL_MSG_INCOMING, 0);
		fake.arg = &sp;
		spoil(&fake, 0, &in);
		stub_send(s.listener, &in);
		stub_answer_free(&in);
		rc = pl_accept(l, SOON_MS, &lane, &err);
		if (rc != -EPROTO)
			fail_msg("offer %d: %d", how, rc);
	}
	for (int i = 0; i < 3; i++) {
		struct stub_answer in = { .n_fds = 0 };

		stub_lane(&s, &in, PL_MSG_INCOMING, 0);
		in.lane.id = 5;
		if (i == 0)
			replace_fd(&in, 0);
		else if (i == 1)
			replace_fd(&in, 1);
		else
			in.lane.ring_bytes = 3;
		stub_send(s.listener, &in);
		stub_answer_free(&in);
	}
	/* Bad ones are rejected and the good one after them is taken. */
	{
		struct stub_answer in = { .n_fds = 0 };

		stub_lane(&s, &in, PL_MSG_INCOMING, 0);
		stub_send(s.listener, &in);
		stub_answer_free(&in);
	}
	assert_int_equal(pl_accept(l, SOON_MS, &lane, &err), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(listener_answer(&s, &id), PL_MSG_REJECT);
		assert_int_equal(id, 5);
	}
	assert_int_equal(listener_answer(&s, &id), PL_MSG_ACCEPT);
	pl_lane_close(lane);
	pl_unlisten(l);
	pl_close(c);
	stub_stop(&s);
}

/* --- errors and ends ------------------------------------------------------ */

static bool refuse(struct stub *s, uint16_t request, struct stub_answer *a)
{
	unsigned int *times = s->arg;
	uint32_t seq = a->h.seq;

	if (request == PL_MSG_HELLO || !*times)
		return true;
	--*times;
	stub_answer_free(a);
	stub_error(a, request == PL_MSG_REGION_OPEN ? ENOENT : EACCES, seq);
	return true;
}

static void refusals(void **state)
{
	unsigned int times = 4;
	struct stub s = { .spoil = refuse, .arg = &times };
	struct pl_conn *c = conn_open(&s);
	struct pl_region *r;
	struct pl_err err;

	(void)state;
	for (int i = 1; i < 4; i++) {
		assert_int_equal(provoke(c, requests[i], &err), -EACCES);
		assert_string_equal(err.msg, "the stub says no");
	}
	assert_int_equal(pl_region_open(c, "10.1.2.3", "a", 0, &r, &err),
			 -ENOENT);
	/* A region that is not there yet is asked for until it is. */
	times = 3;
	assert_int_equal(pl_region_open(c, "10.1.2.3", "a", SOON_MS, &r,
					&err), 0);
	assert_int_equal(s.seen[PL_MSG_REGION_OPEN], 5);
	assert_int_equal(err.code, 0);
	pl_region_close(r);
	times = 1000;
	assert_int_equal(pl_region_open(c, "10.1.2.3", "a", 30, &r, &err),
			 -ENOENT);
	pl_close(c);
	stub_stop(&s);
}

static bool refuse_connection(struct stub *s, uint16_t request,
			      struct stub_answer *a)
{
	(void)s;
	(void)request;
	stub_error(a, EDQUOT, 0);
	return true;
}

static void refused_connection(void **state)
{
	struct stub s = { .spoil = refuse_connection };
	struct pl_conn *c = NULL;
	struct pl_err err;

	(void)state;
	assert_int_equal(pl_conn_attach(stub_start(&s), &c, &err), -EDQUOT);
	assert_string_equal(err.msg, "the stub says no");
	stub_stop(&s);
}

/* The agent says why and hangs up before the library has said anything. */
static void refused_at_once(void **state)
{
	struct stub_answer a = { .n_fds = 0 };
	struct pl_conn *c = NULL;
	struct pl_err err;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
				    fds), 0);
	stub_error(&a, EDQUOT, 0);
	stub_send(fds[0], &a);
	close(fds[0]);
	assert_int_equal(pl_conn_attach(fds[1], &c, &err), -EDQUOT);
}

static void agent_that_dies(void **state)
{
	struct stub s = { .spoil = NULL };
	struct pl_conn *c = conn_open(&s);
	struct pl_region *own, *other;
	struct pl_lane *lane;
	struct pl_err err;

	(void)state;
	assert_int_equal(pl_connect(c, "10.1.2.3", "a", NULL, &lane, &err), 0);
	assert_int_equal(pl_region_create(c, "r", STUB_REGION, 0, &own, &err),
			 0);
	assert_int_equal(pl_region_open(c, "10.1.2.3", "r", 0, &other, &err),
			 0);
	shutdown(s.sock, SHUT_RDWR);
	for (size_t i = 1; i < PL_ARRAY_SIZE(requests); i++)
		assert_int_equal(provoke(c, requests[i], &err), -ECONNRESET);
	/* What is there goes on, and no region has ended by that. */
	assert_int_equal(pl_lane_send(lane, "x", 1, 0), 1);
	assert_int_equal(pl_region_publish(own, 0, 1, NULL), 0);
	assert_int_equal(pl_region_wait(other, 1, 250), -ETIMEDOUT);
	pl_lane_close(lane);
	pl_region_close(own);
	pl_region_close(other);
	pl_close(c);
	stub_stop(&s);
}

static bool silent(struct stub *s, uint16_t request, struct stub_answer *a)
{
	(void)s;
	(void)a;
	return request != PL_MSG_LANE_CLOSE && request != PL_MSG_REGION_CLOSE;
}

/* An agent that hangs delays closing by a moment once, not each time. */
static void agent_that_hangs(void **state)
{
	struct stub s = { .spoil = silent };
	struct pl_conn *c = conn_open(&s);
	struct pl_lane *lane[3];
	struct pl_err err;
	uint64_t start, first;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pl_connect(c, "10.1.2.3", "a", NULL, &lane[i],
					    &err), 0);
	start = pl_now_ns();
	pl_lane_close(lane[0]);
	first = pl_now_ns() - start;
	for (int i = 1; i < 3; i++)
		pl_lane_close(lane[i]);
	/* Each of them would take as long as the first. */
	assert_true(pl_now_ns() - start < 2 * first);
	/* It answers again; what comes late is put aside. */
	s.spoil = NULL;
	assert_int_equal(provoke(c, PL_MSG_LISTEN, &err), 0);
	assert_int_equal(provoke(c, PL_MSG_CONNECT, &err), 0);
	pl_close(c);
	stub_stop(&s);
	assert_int_equal(s.seen[PL_MSG_LANE_CLOSE], 4);
}

/* --- what the agent pushes ------------------------------------------------ */

/* Found by who waits, and by who reads a reply. */
static void region_ends(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct stub s = { .spoil = NULL };
		struct pl_conn *c = conn_open(&s);
		struct pl_region *r;
		struct pl_err err;

		assert_int_equal(pl_region_open(c, "10.1.2.3", "r", 0, &r,
						&err), 0);
		stub_push_end(&s, STUB_ID + 1);
		assert_int_equal(pl_region_wait(r, 1, 150), -ETIMEDOUT);
		stub_push_end(&s, STUB_ID);
		if (i)
			assert_int_equal(provoke(c, PL_MSG_LISTEN, &err), 0);
		assert_int_equal(pl_region_wait(r, 1, i ? 0 : -1),
				 -ECONNRESET);
		pl_region_close(r);
		pl_close(c);
		stub_stop(&s);
	}
}

/* --- threads -------------------------------------------------------------- */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool asked, may_answer;
};

static bool answer_when_told(struct stub *s, uint16_t request,
			     struct stub_answer *a)
{
	struct gate *g = s->arg;

	(void)a;
	if (request != PL_MSG_LISTEN)
		return true;
	pthread_mutex_lock(&g->lock);
	g->asked = true;
	pthread_cond_broadcast(&g->moved);
	while (!g->may_answer)
		pthread_cond_wait(&g->moved, &g->lock);
	pthread_mutex_unlock(&g->lock);
	return true;
}

static void *listen_thread(void *arg)
{
	struct pl_err err;

	return (void *)(intptr_t)provoke(arg, PL_MSG_LISTEN, &err);
}

/* Closing does not wait for another thread's request; its end is told after. */
static void closing_beside_a_request(void **state)
{
	struct gate g = { .asked = false };
	struct stub s = { .spoil = answer_when_told, .arg = &g };
	struct pl_conn *c = conn_open(&s);
	struct pl_lane *lane;
	struct pl_err err;
	pthread_t t;
	void *rc;

	(void)state;
	pthread_mutex_init(&g.lock, NULL);
	pthread_cond_init(&g.moved, NULL);
	assert_int_equal(pl_connect(c, "10.1.2.3", "a", NULL, &lane, &err), 0);
	pthread_create(&t, NULL, listen_thread, c);
	pthread_mutex_lock(&g.lock);
	while (!g.asked)
		pthread_cond_wait(&g.moved, &g.lock);
	pthread_mutex_unlock(&g.lock);
	pl_lane_close(lane);
	assert_int_equal(s.seen[PL_MSG_LANE_CLOSE], 0);
	pthread_mutex_lock(&g.lock);
	g.may_answer = true;
	pthread_cond_broadcast(&g.moved);
	pthread_mutex_unlock(&g.lock);
	pthread_join(t, &rc);
	assert_int_equal((intptr_t)rc, 0);
	assert_int_equal(s.seen[PL_MSG_LANE_CLOSE], 1);
	pl_close(c);
	stub_stop(&s);
	pthread_cond_destroy(&g.moved);
	pthread_mutex_destroy(&g.lock);
}

static void *many_calls(void *arg)
{
	struct pl_err err;
	intptr_t bad = 0;

	for (int i = 0; i < 40; i++)
		bad += provoke(arg, requests[1 + i % 4], &err) != 0;
	return (void *)bad;
}

static void threads_of_one_connection(void **state)
{
	struct stub s = { .spoil = NULL };
	struct pl_conn *c = conn_open(&s);
	pthread_t t[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, many_calls, c);
	for (int i = 0; i < 4; i++) {
		void *bad;

		pthread_join(t[i], &bad);
		assert_int_equal((intptr_t)bad, 0);
	}
	pl_close(c);
	stub_stop(&s);
}

/* --- the abstract socket -------------------------------------------------- */

/* In a network namespace of its own: 77 without the right to make one. */
static int open_in_namespace(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX,
				  .sun_path = "\0podlane" };
	struct pl_err err = { 0 };
	struct pl_conn *c;
	struct stub s = { .spoil = NULL };
	int l;

	if (unshare(CLONE_NEWNET) < 0 &&
	    unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return 77;
	if (pl_open(&c, &err) != -ECONNREFUSED || !strstr(err.msg, "podlaned"))
		return 1;
	l = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(l, (struct sockaddr *)&sa, sizeof(sa_family_t) + 8) < 0 ||
	    listen(l, 5) < 0)
		return 2;
	if (fork() == 0) {
		s.sock = accept(l, NULL, NULL);
		s.lane_bell = s.listener = s.region_bell = -1;
		stub_run(&s);
		_exit(0);
	}
	if (pl_open(&c, &err) < 0)
		return 3;
	pl_close(c);
	return 0;
}

static void abstract_socket(void **state)
{
	pid_t pid = fork();
	int rc;

	(void)state;
	if (pid == 0) {
		alarm(60);
		_exit(open_in_namespace());
	}
	rc = child_status(pid);
	if (rc == 77)
		skip();
	assert_int_equal(rc, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lane_test(lane_and_region),
		lane_test(listening),
		lane_test(arguments),
		lane_test(spoilt_answers),
		lane_test(bad_contents),
		lane_test(offers),
		lane_test(refusals),
		lane_test(refused_connection),
		lane_test(refused_at_once),
		lane_test(agent_that_dies),
		lane_test(agent_that_hangs),
		lane_test(region_ends),
		lane_test(closing_beside_a_request),
		lane_test(threads_of_one_connection),
		lane_test(abstract_socket),
	};

	alarm(240);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

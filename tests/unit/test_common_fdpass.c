/* tests/unit/test_common_fdpass.c - common/fdpass.h and common/agentapi.h */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/agentapi.h"
#include "common/fdpass.h"
#include "common/util.h"

static void pair(int type, int sv[2])
{
	assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, sv), 0);
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void with_descriptors(void **state)
{
	int before = open_fds(), sv[2], p[2], fds[4], n = 0;
	char buf[8] = "";

	(void)state;
	pair(SOCK_SEQPACKET, sv);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(pl_fdpass_send(sv[0], "hello", 5, p, 2, 0), 0);
	assert_int_equal(pl_fdpass_recv(sv[1], buf, sizeof(buf), fds, 4, &n,
					0), 5);
	assert_memory_equal(buf, "hello", 5);
	assert_int_equal(n, 2);
	assert_int_equal(fds[2], -1);
	assert_int_equal(fds[3], -1);
	assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(read(p[0], buf, 1), 1);
	for (int i = 0; i < 2; i++) {
		close(fds[i]);
		close(p[i]);
		close(sv[i]);
	}
	assert_int_equal(open_fds(), before);
}

/* Taken for the end of the connection: nobody would close them. */
static void with_empty_packet(void **state)
{
	int before = open_fds(), sv[2], fds[4], n = 9;
	char buf[8];

	(void)state;
	pair(SOCK_SEQPACKET, sv);
	assert_int_equal(pl_fdpass_send(sv[0], "", 0, sv, 2, 0), 0);
	assert_int_equal(pl_fdpass_recv(sv[1], buf, sizeof(buf), fds, 4, &n,
					0), 0);
	assert_int_equal(n, 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(fds[i], -1);
	close(sv[0]);
	close(sv[1]);
	assert_int_equal(open_fds(), before);
}

static void without(void **state)
{
	int sv[2], fds[1], n = 9;
	char buf[8];

	(void)state;
	pair(SOCK_STREAM, sv);
	assert_int_equal(pl_fdpass_send(sv[0], "ab", 2, NULL, 0, 0), 0);
	assert_int_equal(pl_fdpass_recv(sv[1], buf, sizeof(buf), fds, 1, &n,
					0), 2);
	assert_int_equal(n, 0);
	assert_int_equal(pl_fdpass_recv(sv[1], buf, sizeof(buf), fds, 1, &n,
					MSG_DONTWAIT), -EAGAIN);
	close(sv[0]);
	assert_int_equal(pl_fdpass_recv(sv[1], buf, sizeof(buf), fds, 1, &n,
					0), 0);
	assert_int_equal(pl_fdpass_send(sv[1], "ab", 2, NULL, 0, 0), -EPIPE);
	close(sv[1]);
}

/* More than was asked for, or cut off: none of them may stay open. */
static void refused(void **state)
{
	int before = open_fds(), sv[2], three[3] = { 0, 1, 2 }, fds[4], n = 9;
	char buf[8];

	(void)state;
	pair(SOCK_SEQPACKET, sv);
	assert_int_equal(pl_fdpass_send(sv[0], "x", 1, three, 3, 0), 0);
	assert_int_equal(pl_fdpass_recv(sv[1], buf, sizeof(buf), fds, 2, &n,
					0), -EPROTO);
	assert_int_equal(n, 0);
	assert_int_equal(fds[0], -1);
	assert_int_equal(pl_fdpass_send(sv[0], "123456789", 9, three, 3, 0),
			 0);
	assert_int_equal(pl_fdpass_recv(sv[1], buf, sizeof(buf), fds, 4, &n,
					0), -EMSGSIZE);
	assert_int_equal(n, 0);
	assert_int_equal(fds[0], -1);
	assert_int_equal(pl_fdpass_send(sv[0], "x", 1, three,
					PL_FDPASS_MAX + 1, 0), -EINVAL);
	close(sv[0]);
	close(sv[1]);
	assert_int_equal(open_fds(), before);
}

/* A hostile sender's control message is larger than what we make room for. */
static void too_many(void **state)
{
	int before = open_fds(), sv[2], fds[PL_FDPASS_MAX], n = 9;
	union {
		char buf[CMSG_SPACE(sizeof(int) * 64)];
		struct cmsghdr align;
	} ctl = { 0 };
	struct iovec iov = { (char *)"x", 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = ctl.buf,
			    .msg_controllen = sizeof(ctl.buf) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	char buf[8];

	(void)state;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * 64);	/* 64 times fd 0 */
	pair(SOCK_SEQPACKET, sv);
	assert_int_equal(sendmsg(sv[0], &m, 0), 1);
	assert_int_equal(pl_fdpass_recv(sv[1], buf, sizeof(buf), fds,
					PL_FDPASS_MAX, &n, 0), -EPROTO);
	assert_int_equal(n, 0);
	close(sv[0]);
	close(sv[1]);
	assert_int_equal(open_fds(), before);
}

/* --- the agent's socket --- */

struct agent {
	char dir[64], path[96];
	int listener;
};

static int setup(void **state)
{
	struct agent *a = calloc(1, sizeof(*a));
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	snprintf(a->dir, sizeof(a->dir), "/tmp/podlane-unit.XXXXXX");
	assert_non_null(mkdtemp(a->dir));
	snprintf(a->path, sizeof(a->path), "%s/agent.sock", a->dir);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", a->path);
	a->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(a->listener, (struct sockaddr *)&sa,
			      sizeof(sa)), 0);
	assert_int_equal(listen(a->listener, 1), 0);
	*state = a;
	return 0;
}

static int teardown(void **state)
{
	struct agent *a = *state;

	close(a->listener);
	unlink(a->path);
	rmdir(a->dir);
	free(a);
	return 0;
}

/* A child that takes one request, expects want_fd in it, and answers. */
static pid_t answer_with(struct agent *a, const char *answer, int want_fds)
{
	pid_t pid = fork();
	char buf[4096];
	int fd, fds[1], n = 0;
	ssize_t r;

	if (pid)
		return pid;
	fd = accept(a->listener, NULL, NULL);
	r = pl_fdpass_recv(fd, buf, sizeof(buf), fds, 1, &n, 0);
	while (r > 0 && buf[r - 1] != '\n')
		r = read(fd, buf, sizeof(buf));
	if (r > 0 && n == want_fds)
		pl_write_all(fd, answer, strlen(answer));
	_exit(n != want_fds);
}

static int call(struct agent *a, const char *answer, int ns_fd, cJSON **out,
		struct pl_err *err)
{
	pid_t pid = answer_with(a, answer, ns_fd >= 0);
	cJSON *req = cJSON_CreateObject();
	int fd = -1, rc, st;

	cJSON_AddStringToObject(req, "op", "status");
	assert_int_equal(pl_agent_open(a->path, &fd, err), 0);
	rc = pl_agent_call(fd, req, ns_fd, out, err);
	close(fd);
	cJSON_Delete(req);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	return rc;
}

static void agent_answers(void **state)
{
	struct agent *a = *state;
	struct pl_err e = { 0 };
	cJSON *out = NULL;

	assert_int_equal(call(a, "{\"ok\":true,\"n\":7}\n", -1, &out, &e), 0);
	assert_int_equal(cJSON_GetObjectItem(out, "n")->valueint, 7);
	cJSON_Delete(out);
	assert_int_equal(call(a, "{\"ok\":true}\n", 0, NULL, &e), 0);
}

static void agent_refuses(void **state)
{
	static const struct {
		const char *answer;
		int rc;
		const char *says;
	} t[] = {
		{ "{\"ok\":false,\"code\":17,\"msg\":\"there\"}\n", -EEXIST,
		  "there" },
		{ "{\"ok\":false}\n", -EPROTO, "without a reason" },
		{ "{\"ok\":false,\"code\":0,\"msg\":\"x\"}\n", -EPROTO,
		  "code" },
		{ "{}\n", -EPROTO, "without a reason" },
		{ "{\"ok\":1}\n", -EPROTO, "ok" },
		{ "nonsense\n", -EINVAL, "JSON" },
		{ "{\"ok\":true}", -ECONNRESET, "went away" },
		{ "", -ECONNRESET, "went away" },
	};
	struct agent *a = *state;

	for (size_t i = 0; i < PL_ARRAY_SIZE(t); i++) {
		struct pl_err e = { 0 };
		cJSON *out = NULL;

		assert_int_equal(call(a, t[i].answer, -1, &out, &e), t[i].rc);
		assert_null(out);
		if (!strstr(e.msg, t[i].says))
			fail_msg("%s: %s", t[i].answer, e.msg);
	}
}

static void agent_is_not_there(void **state)
{
	struct agent *a = *state;
	struct pl_err e = { 0 };
	char path[200];
	int fd = -1;

	close(a->listener);
	a->listener = -1;
	assert_int_equal(pl_agent_open(a->path, &fd, &e), -ECONNREFUSED);
	assert_non_null(strstr(e.msg, "podlaned"));
	assert_non_null(strstr(e.msg, a->path));
	snprintf(path, sizeof(path), "%s.none", a->path);
	assert_int_equal(pl_agent_open(path, &fd, &e), -ENOENT);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(pl_agent_open(path, &fd, &e), -ENAMETOOLONG);
	assert_int_equal(fd, -1);
}

#define AGENT_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_descriptors),
		cmocka_unit_test(with_empty_packet),
		cmocka_unit_test(without),
		cmocka_unit_test(refused),	    cmocka_unit_test(too_many),
		AGENT_TEST(agent_answers),	    AGENT_TEST(agent_refuses),
		AGENT_TEST(agent_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

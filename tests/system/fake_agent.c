/*
 * tests/system/fake_agent.c - an agent that only answers, for the plugin's
 * tests
 *
 *   fake_agent SOCKET LOG [--mtu N] [--refuse OP] [--die OP]
 *                          [--stop OP]
 *
 * It says yes to every request, and appends each of them to LOG as it came
 * (with " fd" behind it when a descriptor came along). --refuse: no to OP;
 * --die: exits when OP comes. --stop: stops itself then (SIGSTOP), and answers
 * when it is told to go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <signal.h>
#include <unistd.h>

#include "common/fdpass.h"
#include "common/json.h"
#include "common/util.h"

#define CLIENTS 64
#define LINE_BYTES 65536

struct client {
	int fd, passed;		/* passed: a descriptor came */
	size_t len;
	char line[LINE_BYTES];
};

struct fake {
	int listener, log;
	const char *mtu, *refuse, *die, *stop;
	struct client *clients;		/* fd -1: free */
};

static void answer(const struct fake *f, struct client *c)
{
	pl_auto_json *j = NULL;
	const char *op = "";
	char text[256];

	pl_json_parse(c->line, c->len, &j, NULL);
	pl_json_str(j, "", "op", &op, NULL);
	dprintf(f->log, "%.*s%s\n", (int)c->len, c->line,
		c->passed ? " fd" : "");
	if (f->die && !strcmp(op, f->die))
		_exit(0);
	if (f->stop && !strcmp(op, f->stop))
		raise(SIGSTOP);
	if (f->refuse && !strcmp(op, f->refuse))
		snprintf(text, sizeof(text), "{\"ok\":false,\"code\":28,"
			 "\"msg\":\"told to refuse\",\"retry\":false}\n");
	else
		snprintf(text, sizeof(text), "{\"ok\":true,\"mtu\":%s,"
			 "\"socket\":\"@podlane\"}\n", f->mtu ? f->mtu : "0");
	/* A plugin that was killed does not read it. */
	if (send(c->fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		return;
}

static void serve(const struct fake *f, struct client *c)
{
	char *nl;
	int fd, n;
	ssize_t r = pl_fdpass_recv(c->fd, c->line + c->len,
				   LINE_BYTES - 1 - c->len, &fd, 1, &n, 0);

	if (r <= 0) {
		pl_close_fd(&c->fd);
		return;
	}
	if (n > 0) {
		c->passed = 1;
		close(fd);
	}
	c->len += (size_t)r;
	nl = memchr(c->line, '\n', c->len);
	if (!nl)
		return;
	c->len = (size_t)(nl - c->line);
	answer(f, c);
	c->len = 0;
	c->passed = 0;
}

static void accept_one(const struct fake *f)
{
	int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);

	for (int i = 0; fd >= 0 && i < CLIENTS; i++) {
		if (f->clients[i].fd >= 0)
			continue;
		f->clients[i].fd = fd;
		f->clients[i].len = 0;
		f->clients[i].passed = 0;
		return;
	}
	close(fd);
}

static void loop(const struct fake *f)
{
	struct pollfd p[CLIENTS + 1];

	for (;;) {
		p[CLIENTS] = (struct pollfd){ f->listener, POLLIN, 0 };
		for (int i = 0; i < CLIENTS; i++)
			p[i] = (struct pollfd){ f->clients[i].fd, POLLIN, 0 };
		if (poll(p, CLIENTS + 1, -1) < 0 && errno != EINTR)
			return;
		for (int i = 0; i < CLIENTS; i++) {
			if (p[i].revents)
				serve(f, &f->clients[i]);
		}
		if (p[CLIENTS].revents)
			accept_one(f);
	}
}

static int listen_at(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (pl_format(sa.sun_path, sizeof(sa.sun_path), "%s", path) < 0)
		return -1;
	unlink(path);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    listen(fd, CLIENTS) < 0)
		return -1;
	return fd;
}

int main(int argc, char **argv)
{
	struct fake f = { .listener = -1 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 3; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--mtu"))
			f.mtu = argv[i + 1];
		else if (!strcmp(argv[i], "--refuse"))
			f.refuse = argv[i + 1];
		else if (!strcmp(argv[i], "--die"))
			f.die = argv[i + 1];
		else if (!strcmp(argv[i], "--stop"))
			f.stop = argv[i + 1];
	}
	if (argc < 3) {
		fprintf(stderr, "usage: fake_agent SOCKET LOG [OPTION]\n");
		return 2;
	}
	f.clients = calloc(CLIENTS, sizeof(*f.clients));
	for (int i = 0; f.clients && i < CLIENTS; i++)
		f.clients[i].fd = -1;
	f.log = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	f.listener = listen_at(argv[1]);
	if (!f.clients || f.log < 0 || f.listener < 0) {
		perror("fake_agent");
		return 1;
	}
	loop(&f);
	return 1;
}

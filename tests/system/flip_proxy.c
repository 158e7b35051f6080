/*
 * tests/system/flip_proxy.c - between two agents: changes a byte on the way
 *
 *   flip_proxy PORT ADDRESS REAL_PORT
 *
 * Takes connections to PORT and passes them on to ADDRESS, with a mark that the
 * rules of the test know. The first time that FLIPME stands in what passes, one
 * bit of it changes; it says so.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MARK 77
#define PAIRS 32

static int fds[2 * PAIRS];
static int n_fds;
static int has_flipped;

static struct sockaddr_in address(const char *addr, const char *port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };

	sa.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
	inet_pton(AF_INET, addr, &sa.sin_addr);
	return sa;
}

static int listen_on(const char *port)
{
	struct sockaddr_in sa = address("0.0.0.0", port);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    listen(fd, PAIRS) < 0)
		return -1;
	return fd;
}

static void pair_up(int in, const struct sockaddr_in *to)
{
	int mark = MARK, out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (in < 0 || n_fds == 2 * PAIRS ||
	    setsockopt(out, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0 ||
	    connect(out, (const struct sockaddr *)to, sizeof(*to)) < 0) {
		close(in);
		close(out);
		return;
	}
	fds[n_fds++] = in;
	fds[n_fds++] = out;
}

/* 0: this pair is over. */
static int pass(int from, int to)
{
	static char buf[65536];
	ssize_t n = read(from, buf, sizeof(buf)), done = 0, r;
	char *at = n > 0 ? memmem(buf, (size_t)n, "FLIPME", 6) : NULL;

	if (at && !has_flipped) {
		at[3] ^= 1;
		has_flipped = 1;
		printf("flipped\n");
		fflush(stdout);
	}
	while (done < n) {
		r = send(to, buf + done, (size_t)(n - done), MSG_NOSIGNAL);
		if (r <= 0)
			return 0;
		done += r;
	}
	return n > 0;
}

int main(int argc, char **argv)
{
	struct pollfd p[2 * PAIRS + 1];
	struct sockaddr_in to;
	int l;

	if (argc != 4)
		return 2;
	to = address(argv[2], argv[3]);
	l = listen_on(argv[1]);
	if (l < 0)
		return 1;
	for (;;) {
		int n = n_fds;

		p[0] = (struct pollfd){ .fd = l, .events = POLLIN };
		for (int i = 0; i < n; i++)
			p[i + 1] = (struct pollfd){ .fd = fds[i],
						    .events = POLLIN };
		if (poll(p, (nfds_t)n + 1, -1) < 0)
			return 1;
		for (int i = 0; i < n; i++) {
			if (fds[i] < 0 || !p[i + 1].revents ||
			    pass(fds[i], fds[i ^ 1]))
				continue;
			close(fds[i]);
			close(fds[i ^ 1]);
			fds[i] = fds[i ^ 1] = -1;
		}
		if (p[0].revents)
			pair_up(accept(l, NULL, NULL), &to);
	}
}

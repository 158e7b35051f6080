/*
 * tests/system/whoami.c - who the other side thinks that we are
 *
 *   whoami serve PORT             TCP and UDP, both families: answers each
 *                                 client with the address that it comes from
 *   whoami ask tcp|udp ADDR PORT  prints the answer; fails after 2 seconds
 *   whoami stream ADDR PORT       asks by UDP from one port every 20 ms, and
 *                                 prints each answer
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static int bind_to(const char *port, int type)
{
	struct addrinfo hints = { .ai_family = AF_INET6, .ai_socktype = type,
				  .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *ai;
	int fd, one = 1, zero = 0, rc;

	if (getaddrinfo(NULL, port, &hints, &ai))
		return -1;
	fd = socket(AF_INET6, type | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	/* The answer to a datagram leaves by the address that it came to. */
	setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one));
	rc = bind(fd, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	if (rc == 0 && type == SOCK_STREAM)
		rc = listen(fd, 16);
	return rc < 0 ? -1 : fd;
}

static size_t name(const struct sockaddr_in6 *from, char *buf, size_t size)
{
	const char *text;

	inet_ntop(AF_INET6, &from->sin6_addr, buf, (socklen_t)size);
	if (IN6_IS_ADDR_V4MAPPED(&from->sin6_addr)) {
		text = strrchr(buf, ':') + 1;
		memmove(buf, text, strlen(text) + 1);
	}
	return strlen(buf);
}

static void answer_stream(int fd)
{
	struct sockaddr_in6 from;
	socklen_t len = sizeof(from);
	char buf[INET6_ADDRSTRLEN];
	int c = accept4(fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);

	if (c < 0)
		return;
	if (write(c, buf, name(&from, buf, sizeof(buf))) < 0)
		perror("write");
	close(c);
}

static void answer_datagram(int fd)
{
	char text[INET6_ADDRSTRLEN], control[256];
	struct sockaddr_in6 from;
	struct iovec iov = { text, sizeof(text) };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof(from),
			    .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };

	if (recvmsg(fd, &m, 0) < 0)
		return;
	iov.iov_len = name(&from, text, sizeof(text));
	if (sendmsg(fd, &m, 0) < 0)
		perror("sendmsg");
}

static int serve(const char *port)
{
	struct pollfd p[2] = { { bind_to(port, SOCK_STREAM), POLLIN, 0 },
			       { bind_to(port, SOCK_DGRAM), POLLIN, 0 } };

	if (p[0].fd < 0 || p[1].fd < 0)
		return fail("bind");
	puts("ready");
	fflush(stdout);
	while (poll(p, 2, -1) > 0) {
		if (p[0].revents)
			answer_stream(p[0].fd);
		if (p[1].revents)
			answer_datagram(p[1].fd);
	}
	return fail("poll");
}

static int ask_at(const struct addrinfo *ai)
{
	const int type = ai->ai_socktype;
	struct timeval limit = { .tv_sec = 2 };
	char buf[INET6_ADDRSTRLEN];
	ssize_t n;
	int fd;

	fd = socket(ai->ai_family, type | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0)
		return fail("connect");
	if (type == SOCK_DGRAM && send(fd, "?", 1, 0) < 0)
		return fail("send");
	n = recv(fd, buf, sizeof(buf), 0);
	if (n <= 0)
		return fail("recv");
	printf("%.*s\n", (int)n, buf);
	close(fd);
	return 0;
}

static int ask(const char *proto, const char *addr, const char *port)
{
	const struct addrinfo hints = {
		.ai_socktype = strcmp(proto, "udp") ? SOCK_STREAM : SOCK_DGRAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	};
	struct addrinfo *ai;
	int rc;

	if (getaddrinfo(addr, port, &hints, &ai))
		return fail("address");
	rc = ask_at(ai);
	freeaddrinfo(ai);
	return rc;
}

static int stream(const char *addr, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM,
				  .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	char buf[INET6_ADDRSTRLEN];
	struct addrinfo *ai;
	struct pollfd p;
	ssize_t n;

	if (getaddrinfo(addr, port, &hints, &ai))
		return fail("address");
	p.fd = socket(ai->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	p.events = POLLIN;
	if (connect(p.fd, ai->ai_addr, ai->ai_addrlen) < 0)
		return fail("connect");
	freeaddrinfo(ai);
	/* Errors are those of a moment without a pod. */
	for (;;) {
		if (send(p.fd, "?", 1, 0) < 0 || poll(&p, 1, 20) <= 0)
			continue;
		n = recv(p.fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0)
			printf("%.*s\n", (int)n, buf);
		fflush(stdout);
		usleep(20000);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(argv[2]);
	if (argc == 5 && !strcmp(argv[1], "ask"))
		return ask(argv[2], argv[3], argv[4]);
	if (argc == 4 && !strcmp(argv[1], "stream"))
		return stream(argv[2], argv[3]);
	fputs("usage: whoami serve PORT | ask tcp|udp ADDR PORT | "
	      "stream ADDR PORT\n", stderr);
	return 2;
}

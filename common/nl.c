/* common/nl.c - the route netlink socket: requests, dumps, errors */
#include "common/nl_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/socket.h>

#include "common/netns.h"
#include "common/util.h"

/* What the kernel fills at most with one part of a dump. */
#define RECV_BYTES 32768
#define DUMP_TRIES 16

/* --- the socket --- */

/* Only what opening a socket can end with. */
static int nle_errno(int nle)
{
	static const struct {
		int nle, code;
	} map[] = {
		{ NLE_NOMEM, ENOMEM },
		{ NLE_NOACCESS, EACCES },
		{ NLE_PERM, EPERM },
		{ NLE_EXIST, EADDRINUSE },
		{ NLE_AF_NOSUPPORT, EAFNOSUPPORT },
		{ NLE_PROTO_MISMATCH, EPROTONOSUPPORT },
	};

	for (size_t i = 0; i < PL_ARRAY_SIZE(map); i++)
		if (map[i].nle == abs(nle))
			return map[i].code;
	return errno ? errno : EIO;
}

static int open_here(struct nl_sock *sock, int protocol, struct pl_err *err)
{
	static const int options[] = { NETLINK_EXT_ACK, NETLINK_CAP_ACK,
				       NETLINK_GET_STRICT_CHK };
	int rc, one = 1;

	errno = 0;
	rc = nl_connect(sock, protocol);
	if (rc < 0)
		return pl_err_set(err, nle_errno(rc),
				  "cannot open a netlink socket: %s",
				  nl_geterror(rc));
	for (size_t i = 0; i < PL_ARRAY_SIZE(options); i++)
		if (setsockopt(nl_socket_get_fd(sock), SOL_NETLINK, options[i],
			       &one, sizeof(one)) < 0)
			return pl_err_sys(err, "netlink option %d",
					  options[i]);
	return 0;
}

static int open_sock(struct pl_nl *nl, int protocol, int netns_fd,
		     struct pl_err *err)
{
	int home = -1, rc = 0;

	nl->sock = nl_socket_alloc();
	if (!nl->sock)
		return pl_err_set(err, ENOMEM, "out of memory");
	if (netns_fd >= 0)
		rc = pl_netns_enter(netns_fd, &home, err);
	if (rc == 0)
		rc = open_here(nl->sock, protocol, err);
	if (home >= 0)
		pl_netns_leave(home);
	if (rc < 0)
		pl_nl_close(nl);
	return rc;
}

int pl_nl_open(struct pl_nl *nl, int netns_fd, struct pl_err *err)
{
	return open_sock(nl, NETLINK_ROUTE, netns_fd, err);
}

int pl_nl_open_netfilter(struct pl_nl *nl, struct pl_err *err)
{
	return open_sock(nl, NETLINK_NETFILTER, -1, err);
}

void pl_nl_close(struct pl_nl *nl)
{
	if (nl->sock)
		nl_socket_free(nl->sock);
	nl->sock = NULL;
}

/* --- building --- */

void pl_nlreq_init(struct pl_nlreq *r, int type, int flags, const void *hdr,
		   size_t len)
{
	r->msg = nlmsg_alloc_simple(type, NLM_F_REQUEST | flags);
	r->full = !r->msg;
	pl_nlreq_append(r, hdr, len);
}

void pl_nlreq_append(struct pl_nlreq *r, const void *data, size_t len)
{
	if (!r->full && nlmsg_append(r->msg, (void *)data, len,
				     NLMSG_ALIGNTO) < 0)
		r->full = true;
}

void pl_nlreq_put(struct pl_nlreq *r, int attr, const void *data, size_t len)
{
	if (!r->full && nla_put(r->msg, attr, (int)len, data) < 0)
		r->full = true;
}

struct nlattr *pl_nlreq_nest(struct pl_nlreq *r, int attr)
{
	struct nlattr *nest = r->full ? NULL : nla_nest_start(r->msg, attr);

	if (!nest)
		r->full = true;
	return nest;
}

void pl_nlreq_unnest(struct pl_nlreq *r, struct nlattr *nest)
{
	if (!r->full)
		nla_nest_end(r->msg, nest);
}

/* --- errors --- */

/* The attributes behind an error code, past what it echoes of the request. */
static const char *kernel_text(const struct nlmsghdr *h, size_t code_bytes,
			       size_t echo)
{
	size_t skip = NLMSG_ALIGN(code_bytes + echo);
	size_t have = h->nlmsg_len - NLMSG_HDRLEN;
	struct nlattr *a;

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS) || skip >= have)
		return NULL;
	a = nla_find((struct nlattr *)((char *)NLMSG_DATA(h) + skip),
		     (int)(have - skip), NLMSGERR_ATTR_MSG);
	if (!a || nla_len(a) < 1 ||
	    ((char *)nla_data(a))[nla_len(a) - 1] != '\0')
		return NULL;
	return nla_data(a);
}

static int fail(int code, const char *text, struct pl_err *err)
{
	if (text && *text)
		return pl_err_set(err, code, "%s (%s)", strerror(code), text);
	if (code == EPERM)
		return pl_err_set(err, code, "%s (run it with CAP_NET_ADMIN)",
				  strerror(code));
	return pl_err_set(err, code, "%s", strerror(code));
}

/* NLMSG_ERROR, which with code 0 is the acknowledgement. */
static int read_ack(const struct nlmsghdr *h, struct pl_err *err)
{
	const struct nlmsgerr *e = NLMSG_DATA(h);
	size_t echo = 0;

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*e)))
		return pl_err_set(err, EPROTO, "short answer from the kernel");
	if (e->error == 0)
		return 0;
	if (!(h->nlmsg_flags & NLM_F_CAPPED) &&
	    e->msg.nlmsg_len > NLMSG_HDRLEN)
		echo = e->msg.nlmsg_len - NLMSG_HDRLEN;
	return fail(-e->error, kernel_text(h, sizeof(*e), echo), err);
}

static int read_done(const struct nlmsghdr *h, struct pl_err *err)
{
	int code = 0;

	if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(code)))
		memcpy(&code, NLMSG_DATA(h), sizeof(code));
	return code < 0 ? fail(-code, kernel_text(h, sizeof(code), 0), err) : 0;
}

/* --- sending and receiving --- */

static int send_req(struct pl_nl *nl, struct pl_nlreq *r, int flags,
		    uint32_t *seq, struct pl_err *err)
{
	struct nlmsghdr *h;
	ssize_t n;

	if (r->full)
		return pl_err_set(err, ENOMEM,
				  "no memory for a netlink message");
	h = nlmsg_hdr(r->msg);
	h->nlmsg_flags |= (uint16_t)flags;
	h->nlmsg_pid = nl_socket_get_local_port(nl->sock);
	h->nlmsg_seq = *seq = nl_socket_use_seq(nl->sock);
	do {
		n = send(nl_socket_get_fd(nl->sock), h, h->nlmsg_len, 0);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? pl_err_sys(err, "cannot send to the kernel") : 0;
}

/* One datagram from the kernel. */
static int recv_some(struct pl_nl *nl, void *buf, size_t size,
		     struct pl_err *err)
{
	struct sockaddr_nl from;
	struct iovec iov = { buf, size };
	ssize_t n;

	for (;;) {
		struct msghdr msg = { .msg_name = &from,
				      .msg_namelen = sizeof(from),
				      .msg_iov = &iov, .msg_iovlen = 1 };

		n = recvmsg(nl_socket_get_fd(nl->sock), &msg, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return pl_err_sys(err, "no answer from the kernel");
		if (msg.msg_flags & MSG_TRUNC)
			return pl_err_set(err, EMSGSIZE,
					  "the kernel's answer is too long");
		if (from.nl_pid == 0)
			return (int)n;
	}
}

static void req_free(struct pl_nlreq *r)
{
	if (r->msg)
		nlmsg_free(r->msg);
	r->msg = NULL;
}

/* Until the answer to seq: an error, an acknowledgement or a message. */
static int answer(struct pl_nl *nl, uint32_t seq, pl_nl_msg_fn *fn, void *arg,
		  struct pl_err *err)
{
	_Alignas(struct nlmsghdr) char buf[RECV_BYTES];

	for (;;) {
		struct nlmsghdr *h = (struct nlmsghdr *)buf;
		int n = recv_some(nl, buf, sizeof(buf), err);

		if (n < 0)
			return n;
		for (; nlmsg_ok(h, n); h = nlmsg_next(h, &n)) {
			if (h->nlmsg_seq != seq)
				continue;
			if (h->nlmsg_type == NLMSG_ERROR)
				return read_ack(h, err);
			if (fn)
				return fn(h, arg);
		}
	}
}

int pl_nl_ack(struct pl_nl *nl, struct pl_nlreq *r, struct pl_err *err)
{
	uint32_t seq;
	int rc = send_req(nl, r, NLM_F_ACK, &seq, err);

	req_free(r);
	return rc < 0 ? rc : answer(nl, seq, NULL, NULL, err);
}

int pl_nl_ask(struct pl_nl *nl, struct pl_nlreq *r, pl_nl_msg_fn *fn, void *arg,
	      struct pl_err *err)
{
	uint32_t seq;
	int rc = send_req(nl, r, 0, &seq, err);

	req_free(r);
	return rc < 0 ? rc : answer(nl, seq, fn, arg, err);
}

struct dump {
	char *buf;
	size_t len, size;
	bool interrupted;
};

/* Looks through n bytes; 1 when the dump's end is among them. */
static int scan(struct dump *d, const char *at, int n, uint32_t seq,
		struct pl_err *err)
{
	struct nlmsghdr *h = (struct nlmsghdr *)at;

	for (; nlmsg_ok(h, n); h = nlmsg_next(h, &n)) {
		int rc;

		if (h->nlmsg_seq != seq)
			continue;
		if (h->nlmsg_flags & NLM_F_DUMP_INTR)
			d->interrupted = true;
		if (h->nlmsg_type != NLMSG_DONE &&
		    h->nlmsg_type != NLMSG_ERROR)
			continue;
		rc = h->nlmsg_type == NLMSG_DONE ? read_done(h, err) :
						   read_ack(h, err);
		return rc < 0 ? rc : 1;
	}
	return 0;
}

/* All parts of one dump, one after the other, into d. */
static int gather(struct pl_nl *nl, struct dump *d, uint32_t seq,
		  struct pl_err *err)
{
	int n, rc;

	d->len = 0;
	d->interrupted = false;
	do {
		if (d->size - d->len < RECV_BYTES) {
			size_t size = d->size * 2 + RECV_BYTES;
			char *p = realloc(d->buf, size);

			if (!p)
				return pl_err_set(err, ENOMEM,
						  "out of memory");
			d->buf = p;
			d->size = size;
		}
		n = recv_some(nl, d->buf + d->len, d->size - d->len, err);
		if (n < 0)
			return n;
		rc = scan(d, d->buf + d->len, n, seq, err);
		d->len += NLMSG_ALIGN((size_t)n);
	} while (rc == 0);
	return rc < 0 ? rc : 0;
}

static int each(const struct dump *d, uint32_t seq, int want, pl_nl_msg_fn *fn,
		void *arg)
{
	struct nlmsghdr *h = (struct nlmsghdr *)d->buf;
	int n = (int)d->len, rc;

	for (; nlmsg_ok(h, n); h = nlmsg_next(h, &n)) {
		if (h->nlmsg_seq != seq || h->nlmsg_type != want)
			continue;
		rc = fn(h, arg);
		if (rc)
			return rc;
	}
	return 0;
}

int pl_nl_dump(struct pl_nl *nl, struct pl_nlreq *r, int want,
	       pl_nl_msg_fn *fn, void *arg, struct pl_err *err)
{
	struct dump d = { 0 };
	uint32_t seq = 0;
	int rc = 0;

	for (int i = 0; i < DUMP_TRIES; i++) {
		rc = send_req(nl, r, NLM_F_DUMP, &seq, err);
		if (rc == 0)
			rc = gather(nl, &d, seq, err);
		if (rc < 0 || !d.interrupted)
			break;
	}
	req_free(r);
	if (rc == 0 && d.interrupted)
		rc = pl_err_set(err, EAGAIN, "it changed during each of %d "
				"attempts to read it; try again", DUMP_TRIES);
	if (rc == 0)
		rc = each(&d, seq, want, fn, arg);
	free(d.buf);
	return rc;
}

int pl_nl_stream(struct pl_nl *nl, struct pl_nlreq *r, pl_nl_msg_fn *fn,
		 void *arg, struct pl_err *err)
{
	_Alignas(struct nlmsghdr) char buf[RECV_BYTES];
	struct dump d = { 0 };
	uint32_t seq = 0;
	int n, rc = send_req(nl, r, NLM_F_DUMP, &seq, err);

	req_free(r);
	while (rc == 0) {
		struct nlmsghdr *h = (struct nlmsghdr *)buf;

		n = recv_some(nl, buf, sizeof(buf), err);
		if (n < 0)
			return n;
		rc = scan(&d, buf, n, seq, err);
		for (; rc >= 0 && nlmsg_ok(h, n); h = nlmsg_next(h, &n)) {
			if (h->nlmsg_seq == seq &&
			    h->nlmsg_type >= NLMSG_MIN_TYPE)
				fn(h, arg);
		}
	}
	return rc < 0 ? rc : 0;
}

/* --- attributes --- */

uint8_t pl_nla_u8(const struct nlattr *a)
{
	return a && nla_len(a) >= 1 ? nla_get_u8(a) : 0;
}

uint16_t pl_nla_be16(const struct nlattr *a)
{
	return a && nla_len(a) >= 2 ? ntohs(nla_get_u16(a)) : 0;
}

uint32_t pl_nla_u32(const struct nlattr *a)
{
	return a && nla_len(a) >= 4 ? nla_get_u32(a) : 0;
}

void pl_nla_str(const struct nlattr *a, char *buf, size_t size)
{
	buf[0] = '\0';
	if (a)
		nla_strlcpy(buf, a, size);
}

bool pl_nla_mac(const struct nlattr *a, uint8_t *mac)
{
	if (!a || nla_len(a) != 6)
		return false;
	memcpy(mac, nla_data(a), 6);
	return true;
}

void pl_nla_addr(const struct nlattr *a, int family, struct pl_addr *out)
{
	size_t want = family == AF_INET6 ? 16 : 4;

	memset(out, 0, sizeof(*out));
	if (!a || (size_t)nla_len(a) != want)
		return;
	out->family = (uint8_t)family;
	memcpy(out->bytes, nla_data(a), want);
}

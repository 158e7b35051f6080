/* shm/msg.c - messages of wire.h: making, receiving and checking them */
#include "shm/msg.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "common/util.h"

/* Of each type: its size in versions 1 to 4; 0: it is not there. */
#define SAME(t) { sizeof(t), sizeof(t), sizeof(t), sizeof(t) }
#define SINCE_2(t) { 0, sizeof(t), sizeof(t), sizeof(t) }
#define SINCE_4(t) { 0, 0, 0, sizeof(t) }
#define MORE_2(v1, t) { v1, sizeof(t), sizeof(t), sizeof(t) }
#define MORE_3(v1, v2, t) { v1, v2, sizeof(t), sizeof(t) }
#define MORE_4(v1, v2, t) { v1, v2, v2, sizeof(t) }
static const uint16_t sizes[PL_MSG_TYPES][PL_WIRE_VERSION] = {
	[PL_MSG_ERROR] = SAME(struct pl_msg_error),
	[PL_MSG_OK] = SAME(struct pl_msg_ok),
	[PL_MSG_HELLO] = SAME(struct pl_msg_hello),
	[PL_MSG_HELLO_OK] = MORE_3(PL_HELLO_OK_V1_BYTES, PL_HELLO_OK_V2_BYTES,
				   struct pl_msg_hello_ok),
	[PL_MSG_LISTEN] = SAME(struct pl_msg_listen),
	[PL_MSG_LISTEN_OK] = SAME(struct pl_msg_ok),
	[PL_MSG_CONNECT] = MORE_2(PL_CONNECT_V1_BYTES, struct pl_msg_connect),
	[PL_MSG_CONNECT_OK] = MORE_2(PL_LANE_V1_BYTES, struct pl_msg_lane),
	[PL_MSG_INCOMING] = MORE_2(PL_LANE_V1_BYTES, struct pl_msg_lane),
	[PL_MSG_ACCEPT] = SAME(struct pl_msg_accept),
	[PL_MSG_REJECT] = SAME(struct pl_msg_ok),
	[PL_MSG_LANE_CLOSE] = SAME(struct pl_msg_id),
	[PL_MSG_REGION_CREATE] = MORE_4(PL_REGION_CREATE_V1_BYTES,
					PL_REGION_CREATE_V2_BYTES,
					struct pl_msg_region_create),
	[PL_MSG_REGION_CREATE_OK] = MORE_4(PL_REGION_V1_BYTES,
					   PL_REGION_V2_BYTES,
					   struct pl_msg_region),
	[PL_MSG_REGION_OPEN] = MORE_3(PL_REGION_OPEN_V1_BYTES,
				      PL_REGION_OPEN_V2_BYTES,
				      struct pl_msg_region_open),
	[PL_MSG_REGION_OPEN_OK] = MORE_4(PL_REGION_V1_BYTES, PL_REGION_V2_BYTES,
					 struct pl_msg_region),
	[PL_MSG_REGION_CLOSE] = SAME(struct pl_msg_id),
	[PL_MSG_REGION_END] = SAME(struct pl_msg_id),
	[PL_MSG_LANE_RESUME] = SINCE_2(struct pl_msg_lane_resume),
	[PL_MSG_LANE_RESUMED] = SINCE_2(struct pl_msg_lane),
	[PL_MSG_LANE_SHOW] = SINCE_2(struct pl_msg_lane_resume),
	[PL_MSG_REGION_GROW] = SINCE_4(struct pl_msg_region_grow),
	[PL_MSG_REGION_MORE] = SINCE_4(struct pl_msg_region_more),
	[PL_MSG_REGION_MORE_OK] = SINCE_4(struct pl_msg_region_more_ok),
};
#undef SAME
#undef SINCE_2
#undef SINCE_4
#undef MORE_2
#undef MORE_3
#undef MORE_4

/* What a library may receive: descriptors of each type, -1: not that. */
static int fds_of(unsigned int type)
{
	switch (type) {
	case PL_MSG_ERROR:
	case PL_MSG_OK:
	case PL_MSG_HELLO_OK:
	case PL_MSG_REGION_END:
		return 0;
	case PL_MSG_LISTEN_OK:
	case PL_MSG_REGION_OPEN_OK:
	case PL_MSG_REGION_MORE_OK:
		return 1;
	case PL_MSG_CONNECT_OK:
	case PL_MSG_INCOMING:
	case PL_MSG_LANE_RESUMED:
	case PL_MSG_REGION_CREATE_OK:
		return 2;
	default:
		return -1;
	}
}

uint32_t pl_msg_bytes(unsigned int type, unsigned int version)
{
	if (type >= PL_MSG_TYPES || version < PL_WIRE_VERSION_MIN ||
	    version > PL_WIRE_VERSION)
		return 0;
	return sizes[type][version - PL_WIRE_VERSION_MIN];
}

bool pl_uid_is_set(const uint8_t uid[PL_WIRE_UID])
{
	static const uint8_t none[PL_WIRE_UID];

	return memcmp(uid, none, sizeof(none)) != 0;
}

int pl_uid_draw(uint8_t uid[PL_WIRE_UID], struct pl_err *err)
{
	ssize_t n;

	do {
		n = getrandom(uid, PL_WIRE_UID, 0);
	} while (n < 0 && errno == EINTR);
	if (n != PL_WIRE_UID)
		return pl_err_set(err, EIO, "no random numbers: %s",
				  strerror(errno));
	return 0;
}

uint64_t pl_msg_deadline(int timeout_ms)
{
	if (timeout_ms < 0)
		return UINT64_MAX;
	return pl_now_ns() + (uint64_t)timeout_ms * 1000000u;
}

int pl_msg_check_timeout(int timeout_ms, const char *name, struct pl_err *err)
{
	if (timeout_ms >= -1)
		return 0;
	return pl_err_set(err, EINVAL, "%s %d: it is -1 (for ever) or more",
			  name, timeout_ms);
}

static int wrong(struct pl_err *err, const char *what)
{
	return pl_err_set(err, EPROTO, "the agent sent %s; are libpodlane and "
			  "podlaned of one release?", what);
}

/* Whatever the locale is: not a control character. */
static bool is_text(char c)
{
	return (unsigned char)c >= ' ' && c != 0x7f;
}

static bool is_name(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z') || (c && strchr("._/:-", c));
}

bool pl_msg_text_ok(const char *s, size_t size)
{
	size_t n = strnlen(s, size);

	for (size_t i = 0; i < n; i++)
		if (!is_text(s[i]))
			return false;
	return n < size;
}

/* The text fields of a message whose size is right. */
static bool texts_ok(const struct pl_msg *m)
{
#define OK(field) pl_msg_text_ok(m->field, sizeof(m->field))
	switch (m->h.type) {
	case PL_MSG_ERROR:
		return OK(error.text);
	case PL_MSG_HELLO_OK:
		return OK(hello_ok.node) && OK(hello_ok.addr) &&
		       OK(hello_ok.full_node);
	case PL_MSG_CONNECT_OK:
	case PL_MSG_INCOMING:
	case PL_MSG_LANE_RESUMED:
		return OK(lane.path) && OK(lane.peer) && OK(lane.service) &&
		       OK(lane.self);
	case PL_MSG_REGION_CREATE_OK:
	case PL_MSG_REGION_OPEN_OK:
		return OK(region.path) && OK(region.owner);
	default:
		return true;
	}
#undef OK
}

static int check(const struct pl_msg *m, struct pl_err *err)
{
	int n_fds;

	if (m->len < sizeof(m->h))
		return wrong(err, "a message shorter than its header");
	if (m->h.magic != PL_WIRE_MAGIC)
		return wrong(err, "a message without the magic number");
	if (m->h.version < PL_WIRE_VERSION_MIN ||
	    m->h.version > PL_WIRE_VERSION)
		return wrong(err, "a message of an unknown version");
	if (m->h.len != m->len)
		return wrong(err, "a message with a wrong length");
	n_fds = fds_of(m->h.type);
	if (n_fds < 0)
		return wrong(err, "a message of an unknown type");
	if (m->len != pl_msg_bytes(m->h.type, m->h.version))
		return wrong(err, "a message whose size is not that of its "
				  "type");
	if (m->n_fds != n_fds)
		return wrong(err, "a message with a wrong number of "
				  "descriptors");
	if (!texts_ok(m))
		return wrong(err, "a message with a text that is not one");
	return 0;
}

/* Did the kernel leave descriptors out because this process has too many? */
static bool fds_used_up(int sock)
{
	int fds[PL_FDPASS_MAX], n = 0;
	bool full = false;

	while (n < PL_FDPASS_MAX && !full) {
		fds[n] = fcntl(sock, F_DUPFD_CLOEXEC, 0);
		full = fds[n] < 0;
		n += !full;
	}
	while (n)
		close(fds[--n]);
	return full;
}

int pl_msg_recv_now(int sock, struct pl_msg *m, struct pl_err *err)
{
	ssize_t n = pl_fdpass_recv(sock, m->bytes, sizeof(m->bytes), m->fds,
				   PL_FDPASS_MAX, &m->n_fds, MSG_DONTWAIT);
	int rc;

	if (n == -EAGAIN)
		return -EAGAIN;
	if (n == 0 || n == -ECONNRESET)
		return pl_err_set(err, ECONNRESET,
				  "the agent closed the connection");
	if (n == -EPROTO && fds_used_up(sock))
		return pl_err_set(err, EMFILE, "this process has too few "
				  "descriptors left (ulimit -n)");
	if (n == -EMSGSIZE || n == -EPROTO)
		return wrong(err, "a message that is too long, or with too "
				  "many descriptors");
	if (n < 0)
		return pl_err_set(err, (int)-n, "cannot receive from the agent: "
				  "%s", strerror((int)-n));
	m->len = (size_t)n;
	memset(m->bytes + n, 0, sizeof(m->bytes) - (size_t)n);
	rc = check(m, err);
	if (rc < 0)
		pl_msg_drop(m);
	return rc;
}

int pl_msg_wait(int fd, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec ts;
	uint64_t now = pl_now_ns();
	int n;

	if (deadline_ns <= now)
		return -ETIMEDOUT;
	ts.tv_sec = (time_t)((deadline_ns - now) / 1000000000u);
	ts.tv_nsec = (long)((deadline_ns - now) % 1000000000u);
	n = ppoll(&p, 1, deadline_ns == UINT64_MAX ? NULL : &ts, NULL);
	if (n < 0 && errno != EINTR)
		return -errno;
	return 0;
}

int pl_msg_recv(int sock, uint64_t deadline_ns, struct pl_msg *m,
		struct pl_err *err)
{
	for (;;) {
		int rc = pl_msg_recv_now(sock, m, err);

		if (rc != -EAGAIN)
			return rc;
		rc = pl_msg_wait(sock, deadline_ns);
		if (rc == -ETIMEDOUT)
			return pl_err_set(err, ETIMEDOUT,
					  "the agent does not answer");
		if (rc < 0)
			return pl_err_set(err, -rc, "cannot wait for the "
					  "agent: %s", strerror(-rc));
	}
}

void pl_msg_drop(struct pl_msg *m)
{
	for (int i = 0; i < m->n_fds; i++)
		pl_close_fd(&m->fds[i]);
	m->n_fds = 0;
}

int pl_msg_take_fd(struct pl_msg *m, int i)
{
	return pl_take_fd(&m->fds[i]);
}

bool pl_msg_is_socket(int fd, int type)
{
	int has_domain = 0, has_type = 0;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &has_domain, &len) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &has_type, &len) == 0 &&
	       has_domain == AF_UNIX && has_type == type;
}

int pl_msg_put(int sock, unsigned int version, void *msg,
	       enum pl_msg_type type, uint32_t seq, const int *fds, int n_fds)
{
	const struct pl_msg_hdr h = { .magic = PL_WIRE_MAGIC,
				      .version = (uint16_t)version,
				      .type = (uint16_t)type,
				      .seq = seq,
				      .len = pl_msg_bytes(type, version) };
	int rc;

	memcpy(msg, &h, sizeof(h));
	rc = pl_fdpass_send(sock, msg, h.len, fds, n_fds, 0);
	if (rc == -EPIPE)
		return -ECONNRESET;
	return rc == -EAGAIN ? -ETIMEDOUT : rc;
}

bool pl_name_valid(const char *name)
{
	size_t n = strnlen(name, PL_WIRE_NAME);

	for (size_t i = 0; i < n; i++)
		if (!is_name(name[i]))
			return false;
	return n > 0 && n < PL_WIRE_NAME;
}

int pl_msg_set_name(char field[PL_WIRE_NAME], const char *name,
		    const char *what, struct pl_err *err)
{
	if (!name || !pl_name_valid(name))
		return pl_err_set(err, EINVAL, "the name of a %s must have 1 to "
				  "%d bytes of [A-Za-z0-9._/:-]", what,
				  PL_WIRE_NAME - 1);
	memset(field, 0, PL_WIRE_NAME);
	memcpy(field, name, strlen(name));
	return 0;
}

int pl_msg_set_addr(char field[PL_WIRE_ADDR], const char *addr,
		    struct pl_err *err)
{
	unsigned char bin[16];
	size_t n = addr ? strlen(addr) : 0;

	if (n == 0 || n >= PL_WIRE_ADDR ||
	    (inet_pton(AF_INET, addr, bin) != 1 &&
	     inet_pton(AF_INET6, addr, bin) != 1))
		return pl_err_set(err, EINVAL, "'%.47s' is no address of a pod",
				  addr ? addr : "");
	memset(field, 0, PL_WIRE_ADDR);
	memcpy(field, addr, n);
	return 0;
}

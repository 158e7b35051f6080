/* common/agentapi.c - the client's half of the agent's socket */
#include "common/agentapi.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "common/fdpass.h"
#include "common/json.h"
#include "common/util.h"

/* --- who is let in -------------------------------------------------------- */

/* The next name of *rest, without the spaces around it; NULL: there is none. */
static const char *next_name(const char **rest, size_t *len)
{
	const char *s = *rest, *end;

	if (!s)
		return NULL;
	end = s + strcspn(s, ",");
	*rest = *end ? end + 1 : NULL;
	s += strspn(s, " ");
	while (end > s && end[-1] == ' ')
		end--;
	*len = (size_t)(end - s);
	return s;
}

static bool is_namespace(const char *s, size_t len)
{
	if (len == 1 && *s == '*')
		return true;
	if (!len || len > 63 || *s == '-' || s[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') &&
		    !(s[i] >= '0' && s[i] <= '9') && s[i] != '-')
			return false;
	return true;
}

int pl_agent_allow_check(const char *allow)
{
	const char *s;
	size_t len;

	if (strlen(allow) >= PL_AGENT_ALLOW_MAX)
		return -EINVAL;
	if (!*allow)
		return 0;
	while ((s = next_name(&allow, &len)))
		if (!is_namespace(s, len))
			return -EINVAL;
	return 0;
}

bool pl_agent_allow_has(const char *allow, const char *ns)
{
	const char *rest = allow, *s;
	size_t len;

	while ((s = next_name(&rest, &len))) {
		if (len == 1 && *s == '*')
			return true;
		if (len && len == strlen(ns) && !memcmp(s, ns, len))
			return true;
	}
	return false;
}

/* --- the agent ------------------------------------------------------------ */

int pl_agent_open(const char *socket_path, int *fd, struct pl_err *err)
{
	struct timeval tv = { .tv_sec = PL_AGENT_TIMEOUT_MS / 1000 };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	pl_auto_fd s = -1;

	if (strlen(socket_path) >= sizeof(sa.sun_path))
		return pl_err_set(err, ENAMETOOLONG,
				  "agent socket path %s is longer than %zu bytes",
				  socket_path, sizeof(sa.sun_path) - 1);
	memcpy(sa.sun_path, socket_path, strlen(socket_path) + 1);
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return pl_err_sys(err, "cannot make a socket");
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(s, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return pl_err_sys(err, "cannot reach the agent at %s "
				       "(is podlaned running?)", socket_path);
	*fd = pl_take_fd(&s);
	return 0;
}

/* A message of at most so much is sent with its descriptor, whole. */
#define WHOLE_BYTES 4096

int pl_agent_send(int fd, const cJSON *request, int ns_fd, struct pl_err *err)
{
	pl_auto_free char *text = cJSON_PrintUnformatted(request);
	size_t len, off = 0;
	int rc;

	if (!text)
		return pl_err_set(err, ENOMEM, "out of memory");
	len = strlen(text);
	text[len++] = '\n';	/* in place of the NUL */
	if (ns_fd >= 0) {
		off = len <= WHOLE_BYTES ? len : 1;
		rc = pl_fdpass_send(fd, text, off, &ns_fd, 1, 0);
		if (rc < 0)
			return pl_err_set(err, -rc, "cannot write to the agent");
	}
	while (off < len) {
		ssize_t r = send(fd, text + off, len - off, MSG_NOSIGNAL);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return pl_err_sys(err, "cannot write to the agent");
		off += (size_t)r;
	}
	return 0;
}

static int read_line(int fd, char **out, size_t *len, struct pl_err *err)
{
	pl_auto_free char *buf = NULL;
	size_t n = 0, cap = 0;

	for (;;) {
		ssize_t r;

		if (n == cap) {
			char *p;

			cap = cap ? cap * 2 : 4096;
			p = cap > PL_AGENT_LINE_MAX ? NULL : realloc(buf, cap);
			if (!p)
				return pl_err_set(err, ENOMEM,
						  "the agent's answer is too large");
			buf = p;
		}
		r = recv(fd, buf + n, cap - n, 0);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && errno == EAGAIN)
			return pl_err_set(err, ETIMEDOUT,
					  "the agent did not answer within %d s",
					  PL_AGENT_TIMEOUT_MS / 1000);
		if (r < 0)
			return pl_err_sys(err, "cannot read from the agent");
		if (r == 0)
			return pl_err_set(err, ECONNRESET,
					  "the agent went away before it answered");
		n += (size_t)r;
		if (buf[n - 1] == '\n')
			break;
	}
	*out = pl_take_ptr(&buf);
	*len = n - 1;
	return 0;
}

static int not_understood(struct pl_err *err)
{
	if (err)
		err->code = EPROTO;
	pl_err_prefix(err, "the agent's answer is not understood");
	return -EPROTO;
}

static int answer_check(const cJSON *j, struct pl_err *err)
{
	const char *msg = "the agent refused without a reason";
	int64_t code = EPROTO;
	bool ok = false;

	if (pl_json_bool(j, "answer", "ok", &ok, err) < 0)
		return not_understood(err);
	if (ok)
		return 0;
	if (pl_json_int(j, "answer", "code", 1, 4095, &code, err) < 0 ||
	    pl_json_str(j, "answer", "msg", &msg, err) < 0)
		return not_understood(err);
	return pl_err_set(err, (int)code, "%s", msg);
}

int pl_agent_recv(int fd, cJSON **answer, struct pl_err *err)
{
	pl_auto_free char *line = NULL;
	pl_auto_json *j = NULL;
	size_t len = 0;
	int rc = read_line(fd, &line, &len, err);

	if (answer)
		*answer = NULL;
	if (rc == 0)
		rc = pl_json_parse(line, len, &j, err);
	if (rc == 0)
		rc = answer_check(j, err);
	if (rc == 0 && answer) {
		*answer = j;
		j = NULL;
	}
	return rc;
}

int pl_agent_call(int fd, const cJSON *request, int ns_fd, cJSON **answer,
		  struct pl_err *err)
{
	int rc;

	if (answer)
		*answer = NULL;
	rc = pl_agent_send(fd, request, ns_fd, err);
	return rc < 0 ? rc : pl_agent_recv(fd, answer, err);
}

/*
 * daemonset/pod_listen.c - the socket @podlane in a pod's namespace
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/log.h"
#include "common/netns.h"
#include "common/util.h"
#include "daemonset/client.h"
#include "daemonset/guard.h"
#include "daemonset/pod.h"
#include "shm/wire.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define BACKLOG 64
#define ACCEPTS_A_TURN 8

void pl_pods_refuse_one(struct pl_pods *p, int listen_fd)
{
	int fd;

	pl_close_fd(&p->spare_fd);
	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	pl_guard_close(&fd);
	p->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_connection(evutil_socket_t listen_fd, short what, void *arg)
{
	struct pl_pod *pod = arg;

	(void)what;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		int fd = accept4(listen_fd, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
			pl_pod_complain(pod, "the agent has no descriptor left "
					     "for a connection");
			pl_pods_refuse_one(pod->pods, listen_fd);
		}
		if (fd < 0)
			return;
		pl_client_accept(pod, fd);
	}
}

/* In the pod's namespace: only what must be done there. */
static int open_there(int *out, uint64_t *cookie, struct pl_err *err)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const size_t n = strlen(PL_WIRE_SOCKET);
	socklen_t len = sizeof(*cookie);
	pl_auto_fd fd = socket(AF_UNIX,
			       SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			       0);

	if (fd < 0)
		return pl_err_sys(err, "cannot make a socket");
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, cookie, &len) < 0)
		return pl_err_sys(err, "cannot get the namespace's cookie "
				       "(Linux 5.14 has it)");
	memcpy(sa.sun_path + 1, PL_WIRE_SOCKET, n);
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
	if (bind(fd, (struct sockaddr *)&sa, len) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return pl_err_sys(err, "cannot listen on @%s in the pod's "
				       "namespace (does something else there?)",
				  PL_WIRE_SOCKET);
	*out = pl_take_fd(&fd);
	return 0;
}

int pl_pod_listen(struct pl_pod *pod, int ns_fd, uint64_t *cookie,
		  struct pl_err *err)
{
	pl_auto_fd fd = -1;
	int home, rc;

	*cookie = pod->cookie;
	if (pod->listen_fd >= 0)
		return 0;
	rc = pl_netns_enter(ns_fd, &home, err);
	if (rc < 0)
		return rc;
	rc = open_there(&fd, cookie, err);
	pl_netns_leave(home);
	if (rc < 0)
		return rc;
	pod->listen_ev = event_new(pod->pods->base, fd, EV_READ | EV_PERSIST,
				   on_connection, pod);
	if (!pod->listen_ev || event_add(pod->listen_ev, NULL) < 0) {
		pl_pod_unlisten(pod);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	pod->listen_fd = pl_take_fd(&fd);
	return 0;
}

void pl_pod_unlisten(struct pl_pod *pod)
{
	if (pod->listen_ev)
		event_free(pod->listen_ev);
	pod->listen_ev = NULL;
	pl_guard_close(&pod->listen_fd);
}

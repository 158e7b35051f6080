/*
 * daemonset/client.h - one connection of a pod's library to the agent
 *
 * Theory of operation
 *
 * The pod is known by the listener that accepted the connection. Messages are
 * those of shm/wire.h, one packet each, non-blocking: one message is taken per
 * turn of the event loop, and a client that does not read its answers is
 * closed when the kernel's buffer is full. A message that breaks the rules
 * ends the connection; a request that can't be served gets ERROR.
 *
 * What a client made hangs from it and ends with it. Handlers may find that a
 * client must go while they are using it (or another's answer fails), so a
 * client is only doomed there, and freed from the event loop.
 */
#ifndef DAEMONSET_CLIENT_H
#define DAEMONSET_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/err.h"
#include "shm/wire.h"

struct event;
struct pl_pod;
struct pl_service;
struct pl_lane_end;
struct pl_region_own;
struct pl_region_opening;
struct pl_parked;

struct pl_client {
	struct pl_pod *pod;
	int fd;
	bool said_hello;
	bool is_doomed;
	unsigned int version;		/* of the protocol, see shm/wire.h */
	struct event *ev;
	struct event *doom_ev;
	/* the broker's */
	LIST_HEAD(, pl_service) services;
	LIST_HEAD(, pl_lane_end) lane_ends;
	LIST_HEAD(, pl_region_own) regions;
	LIST_HEAD(, pl_region_opening) openings;
	LIST_HEAD(, pl_parked) parked;
	uint32_t n_parked;
	LIST_ENTRY(pl_client) of_pod;
};

/* Takes fd. Over the limit it is told so and closed. */
void pl_client_accept(struct pl_pod *pod, int fd);

/* Free it now; not from within a handler of a client's message. */
void pl_client_destroy(struct pl_client *c);
/* Free it from the event loop. why NULL: nothing to log. */
void pl_client_doom(struct pl_client *c, const char *why);

/*
 * Send as much of a message as the client's version has. A client that does not
 * take it is doomed, and gets nothing more.
 */
void pl_client_send(struct pl_client *c, void *msg, const int *fds, int n_fds);
/* Make a message's header of the client's version; returns its length. */
uint32_t pl_client_fit(const struct pl_client *c, void *msg);
void pl_client_send_ok(struct pl_client *c, uint32_t seq, uint64_t id);
void pl_client_send_error(struct pl_client *c, uint32_t seq, int status,
			  const char *text);

/* Header of a message of this type and size, seq 0. */
struct pl_msg_hdr pl_msg_head(uint16_t type, uint32_t len, uint32_t seq);

/*
 * Check what every message has, of this version; "": good, else what is wrong.
 */
const char *pl_msg_check(const void *data, size_t len, unsigned int version);

/* NUL-terminated within size, not empty, of the characters of podlane.h. */
bool pl_msg_name_ok(const char *s, size_t size);

#endif

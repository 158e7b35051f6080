/* shm/msg.h - messages of wire.h: making, receiving and checking them */
#ifndef SHM_MSG_H
#define SHM_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/fdpass.h"
#include "shm/wire.h"

/* A received message with its descriptors, owned until they are taken. */
struct pl_msg {
	union {
		struct pl_msg_hdr h;
		struct pl_msg_error error;
		struct pl_msg_ok ok;
		struct pl_msg_hello_ok hello_ok;
		struct pl_msg_lane lane;
		struct pl_msg_id id;
		struct pl_msg_region region;
		char bytes[PL_WIRE_MAX];
	};
	size_t len;
	int fds[PL_FDPASS_MAX];
	int n_fds;
};

/* A deadline in pl_now_ns; UINT64_MAX: none. */
uint64_t pl_msg_deadline(int timeout_ms);

/*
 * Receive one message and check its header, and its size and descriptors as
 * far as its type says. -ETIMEDOUT; -ECONNRESET at the end of the connection;
 * -EPROTO; -EMFILE: its descriptors did not fit, and it is lost. On failure no
 * descriptor is left open.
 */
int pl_msg_recv(int sock, uint64_t deadline_ns, struct pl_msg *m,
		struct pl_err *err);

/* The same, -EAGAIN instead of waiting. */
int pl_msg_recv_now(int sock, struct pl_msg *m, struct pl_err *err);

/* Close the descriptors that were not taken. */
void pl_msg_drop(struct pl_msg *m);

/* Take the i-th descriptor. */
int pl_msg_take_fd(struct pl_msg *m, int i);

/* A descriptor that came along: is it a Unix socket of this type? */
bool pl_msg_is_socket(int fd, int type);

/* Fill in the header and send. -ECONNRESET: nobody is there any more. */
int pl_msg_put(int sock, void *msg, uint32_t len, enum pl_msg_type type,
	       uint32_t seq, const int *fds, int n_fds);

/* The form of service and region names, see pl_listen in podlane.h. */
bool pl_name_valid(const char *name);

/* A text field: printable and ended by NUL within size; may be empty. */
bool pl_msg_text_ok(const char *s, size_t size);

/*
 * Copy a name that a user gave (see pl_listen for its form) or the address of a
 * pod into a field. -EINVAL.
 */
int pl_msg_set_name(char field[PL_WIRE_NAME], const char *name,
		    const char *what, struct pl_err *err);
int pl_msg_set_addr(char field[PL_WIRE_ADDR], const char *addr,
		    struct pl_err *err);

#endif

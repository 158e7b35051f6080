/* shm/msg.h - messages of wire.h: making, receiving and checking them */
#ifndef SHM_MSG_H
#define SHM_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/fdpass.h"
#include "shm/wire.h"

/* Bytes of a message of this type and version; 0: there is none. */
uint32_t pl_msg_bytes(unsigned int type, unsigned int version);

/*
 * A received message with its descriptors, owned until they are taken. Fields
 * that its version does not have are 0.
 */
struct pl_msg {
	union {
		struct pl_msg_hdr h;
		struct pl_msg_error error;
		struct pl_msg_ok ok;
		struct pl_msg_hello_ok hello_ok;
		struct pl_msg_lane lane;
		struct pl_msg_id id;
		struct pl_msg_region region;
		struct pl_msg_region_more_ok more_ok;
		char bytes[PL_WIRE_MAX];
	};
	size_t len;
	int fds[PL_FDPASS_MAX];
	int n_fds;
};

/* A deadline in pl_now_ns; UINT64_MAX: none. */
uint64_t pl_msg_deadline(int timeout_ms);
/* A time that a user gave, -1 or more: 0, else -EINVAL. */
int pl_msg_check_timeout(int timeout_ms, const char *name, struct pl_err *err);

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

/*
 * Until the descriptor is readable or hung up, or a signal came: 0, or
 * -ETIMEDOUT.
 */
int pl_msg_wait(int fd, uint64_t deadline_ns);

/* Close the descriptors that were not taken. */
void pl_msg_drop(struct pl_msg *m);

/* Take the i-th descriptor. */
int pl_msg_take_fd(struct pl_msg *m, int i);

/* A descriptor that came along: is it a Unix socket of this type? */
bool pl_msg_is_socket(int fd, int type);

/*
 * Fill in the header and send as much of msg as this version has. -ECONNRESET:
 * nobody is there any more.
 */
int pl_msg_put(int sock, unsigned int version, void *msg,
	       enum pl_msg_type type, uint32_t seq, const int *fds, int n_fds);

/* The other side's uid: 0 is none. */
bool pl_uid_is_set(const uint8_t uid[PL_WIRE_UID]);
/* 128 random bits; -EIO where the kernel gives none. */
int pl_uid_draw(uint8_t uid[PL_WIRE_UID], struct pl_err *err);

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

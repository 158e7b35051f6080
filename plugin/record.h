/*
 * plugin/record.h - what one attachment did, so that DEL can undo it
 *
 * STATE_DIR/NETWORK/CONTAINERID:IFNAME is one line of JSON, written before the
 * first side effect of ADD. It holds all that DEL needs: neither the namespace
 * nor the configuration nor prevResult has to be there any more.
 *
 * An exclusive flock on the file is held while ADD or DEL works on the
 * attachment, so the kernel says whether the maker of an unfinished record is
 * still at it. "done" is one byte at a fixed place, so marking it is atomic.
 *
 * Nothing is synced to the disk: what a record undoes is gone after a crash of
 * the node, except addresses, which the allocators reclaim by themselves. The
 * boot id tells a record of an earlier boot. A record that can't be read stands
 * for nothing but its name; DEL then works from the configuration.
 */
#ifndef PLUGIN_RECORD_H
#define PLUGIN_RECORD_H

#include <stdbool.h>
#include <cjson/cJSON.h>

#include "common/err.h"

/* Names one attachment. All of it was validated. */
struct pl_attach {
	const char *network;
	const char *id;		/* of the container */
	const char *ifname;
};

/* "ID:IFNAME" is a file name. */
#define PL_RECORD_ID_MAX (255 - 1 - 15)

struct pl_record {
	int fd;			/* open and locked, or -1 */
	bool done;		/* ADD came to its end */
	bool old_boot;
	cJSON *json;		/* an object; NULL: empty or damaged */
	char path[4096];
};

/*
 * Make the record of a new attachment with the members of json, and lock it.
 * -EEXIST: there is one already.
 */
int pl_record_create(const char *state_dir, const struct pl_attach *at,
		     const cJSON *json, struct pl_record *r,
		     struct pl_err *err);

/*
 * Open and lock the record, also where it can't be written or is a folder.
 * While another process works on it, wait for at most wait_ms, then -EBUSY.
 * -ENOENT: there is none.
 */
int pl_record_open(const char *state_dir, const struct pl_attach *at,
		   int wait_ms, struct pl_record *r, struct pl_err *err);

int pl_record_done(struct pl_record *r, struct pl_err *err);

/* Remove the file, and unlock. */
int pl_record_remove(struct pl_record *r, struct pl_err *err);

/* Unlock; the file stays. */
void pl_record_close(struct pl_record *r);

/*
 * Each attachment of a network that has a record; the strings of at live during
 * the call only. A callback that returns nonzero ends it.
 */
int pl_record_each(const char *state_dir, const char *network,
		   int (*fn)(const struct pl_attach *at, void *arg), void *arg,
		   struct pl_err *err);

/*
 * The name of the attachment's interface on the host: a hash of all three
 * parts, so ids with equal beginnings do not collide. buf of 16 bytes.
 */
void pl_record_host_ifname(const struct pl_attach *at, char *buf);
/* The same for the ifb device that limits what the pod sends. */
void pl_record_ifb_name(const struct pl_attach *at, char *buf);

#endif

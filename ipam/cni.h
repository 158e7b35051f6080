/*
 * ipam/cni.h - what every CNI program of ours shares of the protocol
 *
 * The environment and its checks, the configuration on standard input, version
 * numbers, names, CNI_ARGS, error codes and the documents on standard output.
 * Sections are those of the CNI specification 1.1.0.
 *
 * Errors: struct pl_err carries either a positive errno or, set by
 * pl_cni_err(), a CNI error code; pl_cni_code() gives the number that belongs
 * in the error document for both.
 */
#ifndef IPAM_CNI_H
#define IPAM_CNI_H

#include <stdbool.h>
#include <stddef.h>
#include <cjson/cJSON.h>

#include "common/err.h"

/* Well-known error codes (section 2, "Error"); ours start at 100. */
enum pl_cni_code {
	PL_CNI_INCOMPATIBLE_VERSION = 1,
	PL_CNI_UNSUPPORTED_FIELD = 2,
	PL_CNI_UNKNOWN_CONTAINER = 3,
	PL_CNI_INVALID_ENVIRONMENT = 4,
	PL_CNI_IO = 5,
	PL_CNI_DECODE = 6,
	PL_CNI_INVALID_CONFIG = 7,
	PL_CNI_INVALID_NETNS = 8,
	PL_CNI_TRY_AGAIN = 11,
	PL_CNI_NOT_AVAILABLE = 50,
	PL_CNI_LIMITED_CONNECTIVITY = 51,
	PL_CNI_FAILED = 100,		/* anything that has no better code */
	PL_CNI_EXHAUSTED = 101,		/* no address is free */
	PL_CNI_IN_USE = 102,		/* the requested address is taken */
	PL_CNI_DUPLICATE = 103,		/* second ADD for one attachment */
	PL_CNI_CHECK_FAILED = 104,	/* CHECK found something amiss */
};

/* pl_err.code of a CNI code: above every errno. */
#define PL_CNI_ERR_BASE 100000

/* Set a CNI code and message; returns -(PL_CNI_ERR_BASE + code). */
int pl_cni_err(struct pl_err *err, enum pl_cni_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * The number for the error document: what pl_cni_err set, or what an errno
 * means here (EINVAL: invalid configuration, ENOSPC: I/O, EAGAIN: try again).
 */
int pl_cni_code(const struct pl_err *err);

/* --- versions --- */

/* Versions as one number, to be compared: conf.version >= PL_CNI_V(1, 1, 0). */
#define PL_CNI_V(major, minor, patch) \
	((major) * 1000000 + (minor) * 1000 + (patch))
#define PL_CNI_VERSION_LATEST "1.1.0"
/* What a configuration without cniVersion has. */
#define PL_CNI_VERSION_DEFAULT "0.1.0"

/* "1.1.0" to PL_CNI_V(1, 1, 0); -EINVAL when it is no version. */
int pl_cni_version_parse(const char *text);
bool pl_cni_version_supported(int version);

/* The answer to VERSION, with the version that was given; to be deleted. */
cJSON *pl_cni_version_doc(const char *cni_version);

/* --- names (section 2, "Parameters"; section 1, "name") --- */

/* Longest container ID that we take; the specification has no limit. */
#define PL_CNI_ID_MAX 1024
#define PL_CNI_NAME_MAX 200	/* of a network: becomes a file name */
#define PL_CNI_IFNAME_MAX 15

int pl_cni_check_container_id(const char *id, struct pl_err *err);
int pl_cni_check_ifname(const char *name, struct pl_err *err);
int pl_cni_check_network(const char *name, struct pl_err *err);

/* --- environment --- */

enum pl_cni_cmd {
	PL_CNI_ADD,
	PL_CNI_DEL,
	PL_CNI_CHECK,
	PL_CNI_VERSION,
	PL_CNI_GC,
	PL_CNI_STATUS,
};

/* Strings point into the environment; NULL: not set or empty. */
struct pl_cni_env {
	enum pl_cni_cmd cmd;
	const char *container_id;
	const char *netns;
	const char *ifname;
	const char *args;
	const char *path;
	bool netns_override;	/* CNI_NETNS_OVERRIDE is "1" or "true" */
};

/*
 * Read and check the environment: every variable that the command requires,
 * all missing ones in one message, the forms of the ID and the interface name.
 * Whether CNI_NETNS is a namespace, and not our own, is not looked at.
 * Returns 1 when there is no CNI_COMMAND (print the about text, exit 0), 0 when
 * all is well.
 */
int pl_cni_env_read(struct pl_cni_env *env, struct pl_err *err);

/*
 * The value of key in CNI_ARGS ("K=V;K=V", value after the first '='), the last
 * one when it is there more than once; other keys are ignored. args may be
 * NULL. Returns 1 and buf, 0: not there, -ENAMETOOLONG.
 */
int pl_cni_args_get(const char *args, const char *key, char *buf, size_t size);

/* --- configuration --- */

/* The most that is read from standard input (prevResult may be large). */
#define PL_CNI_CONF_MAX (64u << 20)

struct pl_cni_conf {
	cJSON *json;		/* all of it; owned */
	char version_text[32];	/* cniVersion as given, or the default */
	int version;		/* the same as PL_CNI_V() */
	const char *name;	/* of the network; NULL: VERSION only */
};

/*
 * Read fd to its end and check cniVersion and name. The error of an
 * unsupported version is PL_CNI_INCOMPATIBLE_VERSION. With cmd VERSION an empty
 * input and any version will do; CHECK needs a configuration of 0.4.0, GC and
 * STATUS of 1.1.0. Also on error version_text is right for the error document
 * and the structure is to be given to pl_cni_conf_fini.
 */
int pl_cni_conf_read(int fd, enum pl_cni_cmd cmd, struct pl_cni_conf *conf,
		     struct pl_err *err);
void pl_cni_conf_fini(struct pl_cni_conf *conf);

/*
 * The attachments that GC is to keep: "cni.dev/valid-attachments", or the older
 * "cni.dev/attachments". *list is NULL when it is null (none is valid); its
 * elements have been checked to be {"containerID": S, "ifname": S}. No key at
 * all is an error.
 */
int pl_cni_gc_valid(const cJSON *netconf, const cJSON **list,
		    struct pl_err *err);

/* --- output --- */

/* Write doc and a newline. On error a part of it may have been written. */
int pl_cni_print(int fd, const cJSON *doc, struct pl_err *err);

/* The error document: {"cniVersion","code","msg"[,"details"]}. */
int pl_cni_print_err(int fd, const char *version_text, const struct pl_err *err,
		     const char *details);

/*
 * One element of "routes" in the form of that version: only dst and gw before
 * 1.1.0. A copy of it, to be deleted by the caller; NULL: out of memory.
 */
cJSON *pl_cni_route_for(const cJSON *route, int version);

/*
 * Check the form of a list of routes: dst a prefix, gw an address, mtu, advmss,
 * priority and table from 0 to 2^32-1, scope from 0 to 255. where: path for the
 * message.
 */
int pl_cni_check_routes(const cJSON *routes, const char *where,
			struct pl_err *err);

#endif

/*
 * plugin/detach.c - undoing an attachment: DEL and GC
 *
 * Neither looks into the pod: with the host's end of the pair goes the pod's,
 * and with that its addresses and routes. So it does not matter whether the
 * namespace is still there, or is somebody else's by now.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/nl.h"
#include "common/util.h"
#include "plugin/address.h"
#include "plugin/plugin.h"
#include "plugin/rules.h"

/* DEL waits so long for an ADD of the same attachment that is under way. */
#define LOCK_WAIT_MS 20000

int pl_delete_link(const char *name, const char *kind, bool quick,
		   struct pl_err *err)
{
	struct pl_link link;
	struct pl_nl nl;
	int rc = pl_nl_open(&nl, -1, err);

	if (rc < 0)
		return rc;
	rc = pl_nl_link_get(&nl, name, &link, err);
	if (rc == 0 && strcmp(link.kind, kind))
		rc = pl_err_set(err, EEXIST, "%s is none of ours: its kind is "
				"\"%s\"", name, link.kind);
	else if (rc == 0)
		rc = quick ? pl_nl_link_del_quick(link.index, err) :
			     pl_nl_link_del(&nl, link.index, err);
	pl_nl_close(&nl);
	return rc == -ENODEV ? 0 : rc;
}

/*
 * Best effort: an agent that can't be reached sees the end of a pod itself.
 * *fd is to be given to unregister_end.
 */
static void unregister_begin(const char *socket, const struct pl_attach *at,
			     int *fd)
{
	struct pl_err why;

	*fd = -1;
	if (pl_agent_open(socket, fd, &why) == 0 &&
	    pl_agent_unregister_send(*fd, at, &why) == 0)
		return;
	pl_info("container=%s: %s", at->id, why.msg);
	pl_close_fd(fd);
}

static void unregister_end(const struct pl_attach *at, int *fd)
{
	struct pl_err why;

	if (*fd >= 0 && pl_agent_recv(*fd, NULL, &why) < 0)
		pl_info("container=%s: %s", at->id, why.msg);
	pl_close_fd(fd);
}

/*
 * What a record, or without one the configuration, says. prevResult tells
 * nothing here: DEL has it in either mode. So without a record all is undone
 * that there would be standalone; in a chain there is none of it.
 */
struct memo {
	const char *socket;
	const char *link, *ifb;	/* NULL: none */
	const cJSON *ipam;	/* NULL: as configured */
	bool addresses, lanes, rules, ports;
};

static void read_memo(const struct pl_call *c, const struct pl_record *rec,
		      const char *host_name, const char *ifb_name,
		      struct memo *m)
{
	bool chained = false;
	const cJSON *j = rec ? rec->json : NULL;
	struct memo in = { .socket = c->conf.agent_socket, .lanes = true,
			   .rules = true, .ports = true };

	*m = in;
	if (j && pl_json_bool(j, "", "chained", &chained, NULL) >= 0 &&
	    pl_json_str(j, "", "agent", &in.socket, NULL) >= 0 &&
	    pl_json_bool(j, "", "lanes", &in.lanes, NULL) >= 0 &&
	    pl_json_bool(j, "", "rules", &in.rules, NULL) >= 0 &&
	    pl_json_bool(j, "", "ports", &in.ports, NULL) >= 0 &&
	    pl_json_str(j, "", "link", &in.link, NULL) >= 0 &&
	    pl_json_str(j, "", "ifb", &in.ifb, NULL) >= 0 &&
	    pl_json_obj(j, "", "ipam", &in.ipam, NULL) >= 0)
		*m = in;
	else if (rec)
		pl_warn("%s is damaged; the configuration says what to undo",
			rec->path);
	m->addresses = !chained;
	if (chained) {
		m->link = m->ifb = NULL;
	} else if (!m->link) {
		m->link = host_name;
		m->ifb = ifb_name;
	}
}

int pl_detach(const struct pl_call *c, const struct pl_attach *at,
	      const struct pl_record *rec, bool quick, struct pl_err *err)
{
	char host_name[PL_IFNAME_BYTES], ifb_name[PL_IFNAME_BYTES];
	struct memo m;
	int agent = -1, rc = 0;

	pl_record_host_ifname(at, host_name);
	pl_record_ifb_name(at, ifb_name);
	read_memo(c, rec, host_name, ifb_name, &m);
	if (m.lanes)
		unregister_begin(m.socket, at, &agent);
	/* The address is free for others only when nobody can use it. */
	if (m.link)
		rc = pl_delete_link(m.link, "veth", quick, err);
	if (m.ifb && rc == 0)
		rc = pl_delete_link(m.ifb, "ifb", quick, err);
	if (m.rules && rc == 0)
		rc = pl_rules_del(at, m.ports, err);
	if (m.addresses && rc == 0)
		rc = pl_address_del(c, at, m.ipam, err);
	/* An ADD whose IPAM plugin is not there has failed, too; end it. */
	if (rc == -ENOENT && !rec) {
		pl_warn("container=%s: %s", at->id, err->msg);
		rc = 0;
	}
	unregister_end(at, &agent);
	return rc;
}

/* All is undone: what is left is a file, which tells nothing new. */
static void forget(const struct pl_call *c, struct pl_record *rec)
{
	struct pl_err why;

	if (pl_record_remove(rec, &why) < 0)
		pl_warn("container=%s: %s", c->at.id, why.msg);
}

int pl_cmd_del(struct pl_call *c, struct pl_err *err)
{
	struct pl_record rec;
	int rc = pl_record_open(c->conf.state_dir, &c->at, LOCK_WAIT_MS, &rec,
				err);

	/* An id too long for a file name was never attached. */
	if (rc == -ENOENT || rc == -ENAMETOOLONG || rc == -ENOTDIR)
		return pl_detach(c, &c->at, NULL, true, err);
	if (rc < 0)
		return rc;
	c->lock_fd = rec.fd;
	rc = pl_detach(c, &c->at, &rec, true, err);
	if (rc == 0)
		forget(c, &rec);
	c->lock_fd = -1;
	pl_record_close(&rec);
	return rc;
}

/* --- GC --- */

struct gc {
	const struct pl_call *c;
	const cJSON *valid;
	int failed;
	struct pl_err *err;		/* of the first failure */
};

static bool is_valid(const cJSON *valid, const struct pl_attach *at)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, valid) {
		const char *id = "", *ifname = "";

		pl_json_str(e, "", "containerID", &id, NULL);
		pl_json_str(e, "", "ifname", &ifname, NULL);
		if (!strcmp(id, at->id) && !strcmp(ifname, at->ifname))
			return true;
	}
	return false;
}

/* Every failure goes to the log, and all of them into the one message. */
static void note(struct gc *gc, const struct pl_err *why)
{
	size_t len;

	pl_error("gc: %s", why->msg);
	if (!gc->failed++) {
		*gc->err = *why;
		return;
	}
	len = strlen(gc->err->msg);
	snprintf(gc->err->msg + len, sizeof(gc->err->msg) - len, "; %s",
		 why->msg);
}

static int drop(const struct pl_attach *at, void *arg)
{
	struct gc *gc = arg;
	struct pl_record rec;
	struct pl_err why;
	int rc;

	if (is_valid(gc->valid, at))
		return 0;
	rc = pl_record_open(gc->c->conf.state_dir, at, 0, &rec, &why);
	if (rc == -ENOENT)
		return 0;
	if (rc == 0) {
		rc = pl_detach(gc->c, at, &rec, false, &why);
		if (rc == 0)
			rc = pl_record_remove(&rec, &why);
		pl_record_close(&rec);
	}
	if (rc < 0) {
		pl_err_prefix(&why, "container %s, %s", at->id, at->ifname);
		note(gc, &why);
	}
	return 0;
}

struct keep {
	struct pl_rules_tags *tags;
	struct pl_err *err;
};

static int keep(const struct pl_attach *at, void *arg)
{
	struct keep *k = arg;

	return pl_rules_tags_add(k->tags, at, k->err);
}

/* Records that are left are of attachments that are valid, or being made. */
static int keep_all(struct pl_rules_tags *tags, void *arg, struct pl_err *err)
{
	const struct gc *gc = arg;
	struct keep k = { tags, err };
	const cJSON *e;
	int rc = pl_record_each(gc->c->conf.state_dir, gc->c->conf.name, keep,
				&k, err);

	cJSON_ArrayForEach(e, gc->valid) {
		struct pl_attach at = { gc->c->conf.name, "", "" };

		pl_json_str(e, "", "containerID", &at.id, NULL);
		pl_json_str(e, "", "ifname", &at.ifname, NULL);
		if (rc == 0)
			rc = pl_rules_tags_add(tags, &at, err);
	}
	return rc;
}

static int list_one(const struct pl_attach *at, void *arg)
{
	cJSON *e = cJSON_CreateObject();

	if (!cJSON_AddStringToObject(e, "containerID", at->id) ||
	    !cJSON_AddStringToObject(e, "ifname", at->ifname) ||
	    !cJSON_AddItemToArray(arg, e)) {
		cJSON_Delete(e);
		return -ENOMEM;
	}
	return 0;
}

/*
 * What is valid, and what has a record all the same: it is being made, or could
 * not be undone, so its address is not free. NULL: out of memory.
 */
static cJSON *list_kept(const struct gc *gc)
{
	cJSON *list = gc->valid ? cJSON_Duplicate(gc->valid, true) :
				  cJSON_CreateArray();

	/* That records can't be read has been told. */
	if (list && pl_record_each(gc->c->conf.state_dir, gc->c->conf.name,
				   list_one, list, NULL) == -ENOMEM) {
		cJSON_Delete(list);
		list = NULL;
	}
	return list;
}

static int gc_agent(const struct pl_call *c, const cJSON *valid,
		    struct pl_err *err)
{
	pl_auto_fd fd = -1;
	int rc = pl_agent_open(c->conf.agent_socket, &fd, err);

	if (rc == 0)
		return pl_agent_gc(fd, c->conf.name, valid, err);
	return c->conf.agent_required ? rc : 0;
}

int pl_cmd_gc(struct pl_call *c, struct pl_err *err)
{
	struct gc gc = { .c = c, .err = err };
	pl_auto_json *kept = NULL;
	struct pl_err why;

	if (pl_cni_gc_valid(c->conf.json, &gc.valid, err) < 0)
		return -err->code;
	if (pl_record_each(c->conf.state_dir, c->conf.name, drop, &gc,
			   &why) < 0)
		note(&gc, &why);
	if (pl_rules_gc(c->conf.name, keep_all, &gc, &why) < 0)
		note(&gc, &why);
	kept = list_kept(&gc);
	if (!kept)
		return pl_err_set(err, ENOMEM, "out of memory");
	if (pl_address_gc(c, kept, &why) < 0)
		note(&gc, &why);
	if (gc_agent(c, kept, &why) < 0)
		note(&gc, &why);
	return gc.failed ? -err->code : 0;
}

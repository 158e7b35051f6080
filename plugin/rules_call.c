/* plugin/rules_call.c - the rules that a configuration asks for */
#include "plugin/rules_call.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "plugin/masq.h"
#include "plugin/portmap.h"
#include "plugin/rules.h"

/* In a chain we leave to others what is theirs: all but port mappings. */
bool pl_rules_asked(const struct pl_call *c)
{
	const struct pl_conf *conf = &c->conf;

	return pl_portmap_wanted(conf) ||
	       (!conf->prev && (conf->ip_masq || conf->mac_check));
}

/* Frames from the pod's end of the pair must have its MAC. */
static int mac_rules(const struct pl_result *res, int ifindex,
		     struct pl_rules *r, struct pl_err *err)
{
	char key[80];

	if (ifindex < 0 || strlen(res->ifs[ifindex].mac) != 17 ||
	    pl_format(key, sizeof(key), "%s . %s", r->tag,
		      res->ifs[ifindex].mac) < 0)
		return pl_err_set(err, EINVAL, "macspoofchk: the pod's "
				  "interface has no MAC");
	for (char *p = key; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	if (pl_rules_elem(r, PL_RULES_MAC, "macs", key, NULL, err) < 0)
		return -err->code;
	return pl_rules_elem(r, PL_RULES_MAC, "guarded", r->tag, NULL, err);
}

static int build(const struct pl_call *c, const struct pl_result *res,
		 bool chained, struct pl_rules *r, struct pl_err *err)
{
	int ifindex = pl_result_find(res, c->at.ifname);
	int rc = 0;

	pl_rules_init(r, &c->at, chained);
	if (!chained && c->conf.ip_masq)
		rc = pl_masq_rules(res, ifindex, r, err);
	if (rc == 0 && !chained && c->conf.mac_check)
		rc = mac_rules(res, ifindex, r, err);
	if (rc == 0 && pl_portmap_wanted(&c->conf))
		rc = pl_portmap_rules(&c->conf, res, ifindex, r, err);
	return rc == 0 ? pl_rules_settle(r, err) : rc;
}

int pl_rules_make(const struct pl_call *c, const struct pl_result *res,
		  struct pl_err *err)
{
	struct pl_rules r;
	int rc = build(c, res, c->conf.prev != NULL, &r, err);

	if (rc == 0 && !pl_rules_empty(&r))
		rc = pl_rules_add(&r, &c->at, err);
	pl_rules_fini(&r);
	return rc;
}

int pl_rules_verify(const struct pl_call *c, const struct pl_result *res,
		    bool chained, struct pl_err *err)
{
	struct pl_rules r;
	int rc = build(c, res, chained, &r, err);

	if (rc == 0 && !pl_rules_empty(&r))
		rc = pl_rules_check(&r, err);
	pl_rules_fini(&r);
	return rc;
}

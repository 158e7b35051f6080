/*
 * daemonset/policy.h - which pods may use what pods of other namespaces offer
 *
 * Pods of one Kubernetes namespace may connect to each other's services and
 * open each other's regions. Others may where the owner said PL_ALLOW_ANY, or
 * where a rule of the policy file says so:
 *
 *   {"allow": [{"to": "training", "from": ["monitoring"],
 *               "services": ["metrics"], "regions": ["params.*"]}, ...]}
 *
 * to, from: namespaces of the owner and of who asks, a text or a list of texts,
 * "*" for all. services, regions: names, a "*" at the end stands for anything.
 * A rule with neither of the two is for everything, one with one of them for
 * nothing of the other kind.
 *
 * The file is read again when it changes. One that can't be read or is wrong
 * changes nothing: the rules that held before hold, and the reason is logged
 * and shown. What was opened before a change stays open.
 */
#ifndef DAEMONSET_POLICY_H
#define DAEMONSET_POLICY_H

#include <stdbool.h>
#include <cjson/cJSON.h>

#include "common/err.h"

struct event_base;
struct pl_policy;

enum pl_policy_kind { PL_POLICY_SERVICE, PL_POLICY_REGION };

/* Is this document a policy? -EINVAL. */
int pl_policy_check(const cJSON *doc, struct pl_err *err);
/* What a checked document says. */
bool pl_policy_says(const cJSON *doc, enum pl_policy_kind kind,
		    const char *name, const char *owner_ns, const char *ns);

/* Read path, which must be good now, and follow it. */
int pl_policy_open(struct event_base *base, const char *path,
		   struct pl_policy **out, struct pl_err *err);
void pl_policy_close(struct pl_policy *p);

/* p NULL: no rules. */
bool pl_policy_allows(const struct pl_policy *p, enum pl_policy_kind kind,
		      const char *name, const char *owner_ns, const char *ns);
/* The rules that hold, a list; NULL: there is no memory. */
cJSON *pl_policy_rules(const struct pl_policy *p);
/* Why the file as it is now is not what holds; "" when it is. */
const char *pl_policy_problem(const struct pl_policy *p);

#endif

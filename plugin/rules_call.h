/* plugin/rules_call.h - the rules that a configuration asks for */
#ifndef PLUGIN_RULES_CALL_H
#define PLUGIN_RULES_CALL_H

#include "plugin/plugin.h"
#include "plugin/result.h"

/* Whether ADD is asked for any. */
bool pl_rules_asked(const struct pl_call *c);

/* Make them, all or none, for the pod's interface in res. */
int pl_rules_make(const struct pl_call *c, const struct pl_result *res,
		  struct pl_err *err);

/* CHECK: they are there. chained: as the record says. */
int pl_rules_verify(const struct pl_call *c, const struct pl_result *res,
		    bool chained, struct pl_err *err);

#endif

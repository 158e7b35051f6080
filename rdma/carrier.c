/* rdma/carrier.c - which carriers this build has */
#include "rdma/carrier.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"

int pl_carrier_find(const char *name, const struct pl_carrier_ops **out,
		    struct pl_err *err)
{
	static const struct {
		const char *name;
		const struct pl_carrier_ops *ops;	/* NULL: not built */
	} all[] = {
		{ "tcp", &pl_carrier_tcp },
#ifdef PL_HAVE_VERBS
		{ "auto", &pl_carrier_auto },
		{ "verbs", &pl_carrier_verbs },
#else
		{ "auto", &pl_carrier_tcp },
		{ "verbs", NULL },
#endif
	};

	for (size_t i = 0; i < PL_ARRAY_SIZE(all); i++) {
		if (strcmp(all[i].name, name))
			continue;
		if (!all[i].ops)
			return pl_err_set(err, EINVAL, "this build has no "
					  "carrier \"%s\": install "
					  "libibverbs-dev and librdmacm-dev, "
					  "and build again", name);
		*out = all[i].ops;
		return 0;
	}
	return pl_err_set(err, EINVAL, "there is no carrier \"%s\": use auto, "
			  "tcp or verbs", name);
}

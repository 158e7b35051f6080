/* tests/fuzz/fuzz_policy.c - the policy file, and asking it */
#include "common/json.h"
#include "daemonset/policy.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pl_err err = { 0 };
	pl_auto_json *j = NULL;

	if (pl_json_parse((const char *)data, size, &j, &err) < 0 ||
	    pl_policy_check(j, &err) < 0) {
		HOLDS(err.code > 0 && err.msg[0]);
		return 0;
	}
	pl_policy_says(j, PL_POLICY_SERVICE, "s", "a", "b");
	pl_policy_says(j, PL_POLICY_REGION, "r", "a", "");
	return 0;
}

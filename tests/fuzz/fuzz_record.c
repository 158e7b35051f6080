/* tests/fuzz/fuzz_record.c - the CNI plugin's records of what it did */
#include <sys/stat.h>

#include "plugin/record.h"
#include "tests/fuzz/fuzz.h"

static const struct pl_attach at = { "net", "c1", "eth0" };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_dir_make();
	return 0;
}

static int on_record(const struct pl_attach *a, void *arg)
{
	HOLDS(!strcmp(a->id, at.id) && !strcmp(a->ifname, at.ifname));
	++*(int *)arg;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pl_err err = { 0 };
	struct pl_record r;
	char path[512];
	int n = 0;

	snprintf(path, sizeof(path), "%s/net", fuzz_dir);
	mkdir(path, 0700);
	fuzz_dir_put("net/c1:eth0", data, size);
	HOLDS(pl_record_each(fuzz_dir, at.network, on_record, &n, &err) == 0);
	HOLDS(n == 1);
	HOLDS(pl_record_open(fuzz_dir, &at, 0, &r, &err) == 0);
	HOLDS(!r.json || cJSON_IsObject(r.json));
	/* Whatever it says, it can be marked and is then gone for good. */
	pl_record_done(&r, &err);
	HOLDS(pl_record_remove(&r, &err) == 0);
	return 0;
}

/*
 * tests/system/overlay_test.c - one step of the overlay of one node
 *
 * overlay_test sync NODE REGISTRY [CONF]: bring the overlay of the namespace up
 * to date; prints its state and the MTU of pods. overlay_test teardown NODE -
 * [CONF]: remove it. CONF is the "overlay" object, as JSON. Exits with 1 when
 * the call fails, and prints why.
 */
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "daemonset/overlay.h"
#include "daemonset/registry_file.h"

static int sync_once(struct pl_overlay *o, const char *path, struct pl_err *err)
{
	struct pl_registry reg;
	cJSON *json = NULL;
	int rc = 0;

	pl_registry_init(&reg);
	if (strcmp(path, "-")) {
		rc = pl_json_load(path, &json, err);
		if (rc == 0)
			rc = pl_registry_parse(json, &reg, err);
	}
	if (rc == 0)
		rc = pl_overlay_sync(o, json ? &reg : NULL, err);
	printf("%s mtu %u\n", pl_overlay_state(o), pl_overlay_mtu(o));
	pl_registry_fini(&reg);
	cJSON_Delete(json);
	return rc;
}

int main(int argc, char **argv)
{
	struct pl_overlay_conf conf;
	struct pl_overlay o;
	struct pl_err err = { 0 };
	cJSON *json = NULL;
	int rc;

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: overlay_test sync|teardown NODE "
				"REGISTRY [CONF]\n");
		return 2;
	}
	rc = argc == 5 ? pl_json_parse(argv[4], strlen(argv[4]), &json, &err) :
			 0;
	if (rc == 0)
		rc = pl_overlay_conf_parse(json, "overlay", &conf, &err);
	cJSON_Delete(json);
	if (rc == 0)
		rc = pl_overlay_init(&o, &conf, argv[2], &err);
	if (rc < 0) {
		printf("error: %s\n", err.msg);
		return 1;
	}
	rc = strcmp(argv[1], "sync") ? pl_overlay_teardown(&o, &err) :
				       sync_once(&o, argv[3], &err);
	if (rc < 0)
		printf("error: %s\n", err.msg);
	pl_overlay_fini(&o);
	return rc < 0;
}

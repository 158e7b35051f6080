/*
 * bench/ps_server.c - a parameter server: sums, updates, gives out
 */
#include "bench/ps_role.h"

#include <string.h>

#include "common/util.h"
#include "bench/ps_job.h"

/* In a job without servers its part is done, so that manifests can stay. */
static int no_server(const struct ps_job *job, struct ps_report *r,
		     struct pl_err *err)
{
	(void)job;
	(void)err;
	pl_format(r->path, sizeof(r->path), "none");
	return 0;
}

static const struct ps_server_ops idle_server = { .run = no_server };

static const struct ps_server_ops *ops_of(const struct ps_opts *o)
{
	if (o->strategies != PS_SERVER)
		return &idle_server;
	if (ps_opts_is_packed(o))
		return &ps_packed_server;
	return o->transports == PS_PODLANE ? &ps_podlane_server :
					     &ps_overlay_server;
}

int ps_server_main(int argc, char **argv)
{
	struct ps_report r = { .checksum = 0 };
	struct pl_err err = { .code = 0 };
	struct ps_job job;
	struct ps_opts o;
	int rc;

	rc = ps_opts_parse(PS_CMD_SERVER, argc, argv, &o, &err);
	if (rc == 1)
		return 0;
	if (rc) {
		fprintf(stderr, "ps_throughput server: %s\n", err.msg);
		ps_opts_fini(&o);
		return 2;
	}
	memset(&job, 0, sizeof(job));
	rc = ps_job_init(&job, &o, &err);
	if (!rc)
		ops_of(&o)->run(&job, &r, &err);
	rc = ps_report_end("server", &job, &r, &err);
	ps_job_fini(&job);
	ps_opts_fini(&o);
	return rc;
}

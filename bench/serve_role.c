/* bench/serve_role.c - the server and the client of pod_serve */
#include "bench/serve.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "common/json.h"
#include "common/util.h"
#include "bench/resolve.h"

#define EXIT_USAGE 2
#define PAUSE_MS 200

/* --- the other end -------------------------------------------------------- */

static int open_once(const struct sv_opts *o, struct lp_job *j,
		     struct lp_ends *e, struct pl_err *err)
{
	int rc = 0;

	if (!j->is_server) {
		rc = bench_resolve(o->addr, j->addr, sizeof(j->addr), err);
		if (rc < 0)
			pl_err_prefix(err, "--server");
	} else if (pl_format(j->addr, sizeof(j->addr), "%s",
			   o->addr ? o->addr : "0.0.0.0") < 0)
		rc = pl_err_set(err, EINVAL, "--bind %s is no address",
				o->addr);
	if (rc < 0)
		return rc;
	rc = lp_ends_open(j, e, err);
	if (rc < 0)
		lp_ends_close(e);
	return rc;
}

static bool may_come(int rc)
{
	return rc == -ECONNREFUSED || rc == -EHOSTUNREACH ||
	       rc == -ETIMEDOUT || rc == -ENETUNREACH;
}

/* Until both are there, for --timeout. */
static int open_end(const struct sv_opts *o, struct lp_job *j,
		    struct lp_ends *e, struct pl_err *err)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };
	uint64_t end = pl_now_ns() + o->timeout_s * 1000000000ull;
	uint64_t now;
	int rc;

	j->find_s = o->timeout_s;
	while (may_come(rc = open_once(o, j, e, err)) &&
	       (now = pl_now_ns()) < end) {
		nanosleep(&pause, NULL);
		j->find_s = (unsigned int)((end - now) / 1000000000u) + 1;
	}
	return rc;
}

static struct lp_job job_of(const struct sv_opts *o, bool is_server)
{
	const bool lane = o->transports == 1u << SV_LANE;

	return (struct lp_job){ .link = lane ? LP_LANE : LP_TCP,
				.wait = lane ? LP_AUTO : LP_SLEEP,
				.lanes = 1,
				.is_server = is_server };
}

static void address_of(int fd, bool own, char *buf, size_t size)
{
	struct sockaddr_storage a = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(a);
	int rc = own ? getsockname(fd, (struct sockaddr *)&a, &len) :
		       getpeername(fd, (struct sockaddr *)&a, &len);

	if (rc ||
	    getnameinfo((struct sockaddr *)&a, len, buf, (socklen_t)size, NULL,
			0, NI_NUMERICHOST))
		snprintf(buf, size, "unknown");
}

/* What really carries it: a lane tells, TCP by its two addresses. */
static const char *path_of(const struct sv_opts *o, const struct lp_end *end)
{
	char own[64], peer[64];

	if (end->lane)
		return end->path;
	address_of(end->fd, true, own, sizeof(own));
	address_of(end->fd, false, peer, sizeof(peer));
	if (!strcmp(own, peer) || !strncmp(peer, "127.", 4) ||
	    !strcmp(peer, "::1"))
		return "loopback-tcp";
	return o->transports == 1u << SV_HOST ? "host-tcp" : "overlay-tcp";
}

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- both roles ----------------------------------------------------------- */

static int report(const struct sv_opts *o, const cJSON *doc,
		  struct pl_err *err)
{
	pl_auto_free char *text = cJSON_PrintUnformatted(doc);

	if (!text)
		return pl_err_set(err, ENOMEM, "out of memory");
	if (pl_write_all(o->report_fd, text, strlen(text)) < 0)
		return pl_err_sys(err, "cannot report");
	return 0;
}

static int serve(const struct sv_opts *o, struct pl_err *err)
{
	struct lp_job j = job_of(o, true);
	pl_auto_json *doc = cJSON_CreateObject();
	struct lp_ends e;
	uint64_t samples = 0;
	double before;
	int rc = open_end(o, &j, &e, err);

	if (rc < 0)
		return rc;
	before = cpu_s();
	rc = sv_serve(o, &e.end[0], &samples, err);
	cJSON_AddStringToObject(doc, "role", "server");
	cJSON_AddStringToObject(doc, "path", path_of(o, &e.end[0]));
	cJSON_AddNumberToObject(doc, "samples", (double)samples);
	cJSON_AddNumberToObject(doc, "cpu_s", cpu_s() - before);
	lp_ends_close(&e);
	if (rc < 0 || o->report_fd >= 0)
		return rc < 0 ? rc : report(o, doc, err);
	printf("%llu samples\n", (unsigned long long)samples);
	return 0;
}

static int show(const struct sv_opts *o, const cJSON *row, struct pl_err *err)
{
	if (o->report_fd >= 0)
		return report(o, row, err);
	sv_summary(row, stdout);
	return o->json ? pl_json_save(o->json, row, 0644, err) : 0;
}

static int load(const struct sv_opts *o, struct pl_err *err)
{
	struct lp_job j = job_of(o, false);
	pl_auto_json *row = NULL;
	struct sv_verdict v;
	struct lp_ends e;
	struct sv_run r;
	double before;
	int rc = open_end(o, &j, &e, err);

	if (rc < 0)
		return rc;
	before = cpu_s();
	rc = sv_load(o, &e.end[0], &r, err);
	if (rc == 0) {
		const char *path = path_of(o, &e.end[0]);

		sv_judge(o, sv_only(o->transports), path, &r, &v);
		row = sv_row(o, path, &r, &v);
		cJSON_AddNumberToObject(row, "client_cpu_s", cpu_s() - before);
		cJSON_AddStringToObject(row, "version", PL_VERSION);
		rc = show(o, row, err);
	}
	sv_run_fini(&r);
	lp_ends_close(&e);
	return rc;
}

static int role_main(enum sv_cmd cmd, int argc, char **argv)
{
	struct pl_err err = { .code = 0 };
	struct sv_opts o;
	int rc = sv_opts_parse(cmd, argc, argv, &o, &err);

	if (rc) {
		if (rc < 0)
			fprintf(stderr, "pod_serve: %s\n", err.msg);
		return rc < 0 ? EXIT_USAGE : 0;
	}
	prctl(PR_SET_NAME, cmd == SV_SERVE ? "sv-server" : "sv-client");
	rc = cmd == SV_SERVE ? serve(&o, &err) : load(&o, &err);
	if (rc < 0)
		fprintf(stderr, "%s\n", err.msg);
	return rc < 0;
}

int sv_server_main(int argc, char **argv)
{
	return role_main(SV_SERVE, argc, argv);
}

int sv_client_main(int argc, char **argv)
{
	return role_main(SV_LOAD, argc, argv);
}

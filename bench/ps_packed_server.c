/*
 * bench/ps_packed_server.c - a server that combines compressed gradients
 *
 * Workers are served in the order of their ranks, both ways. The server keeps
 * no parameters: what it sends is the sum, as small as the codec makes it.
 */
#include "bench/ps_packed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_overlay.h"

struct server {
	const struct ps_job *job;
	struct ps_port port;
	struct ps_link links[PS_WORKERS_MAX];
	struct codec *codec;
	void *msgs[PS_WORKERS_MAX], *result;
	size_t lens[PS_WORKERS_MAX], room;
};

static int accept_all(struct server *s, struct pl_err *err)
{
	bool seen[PS_WORKERS_MAX] = { false };
	int rc = ps_port_open(s->job, &s->port, err);

	for (uint32_t i = 0; i < s->job->o.workers && rc == 0; i++) {
		struct ps_link link = PS_LINK_NONE;
		uint32_t rank = 0;

		rc = ps_link_accept_any(&s->port, seen, &rank, &link, err);
		if (rc == 0)
			s->links[rank] = link;
	}
	return rc;
}

static int allocate(struct server *s, struct pl_err *err)
{
	int rc = ps_packed_codec(s->job, &s->codec, err);

	if (rc < 0)
		return rc;
	s->room = codec_message_max(s->codec);
	s->result = malloc(s->room);
	for (uint32_t i = 0; i < s->job->o.workers && s->result; i++)
		s->msgs[i] = malloc(s->room);
	return s->msgs[s->job->o.workers - 1] ? 0 :
		pl_err_set(err, ENOMEM, "no memory for messages");
}

static int serve(struct server *s, unsigned int round, struct pl_err *err)
{
	uint32_t n = s->job->o.workers;
	size_t len = 0;
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		rc = ps_packed_recv(&s->links[i], s->msgs[i], s->room,
				    &s->lens[i]);
		if (rc < 0)
			return ps_link_error(&s->links[i], rc, err);
	}
	rc = codec_combine(s->codec, round, (const void **)s->msgs, s->lens,
			   s->result, &len, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < n; i++) {
		rc = ps_packed_send(&s->links[i], s->result, len);
		if (rc < 0)
			return ps_link_error(&s->links[i], rc, err);
	}
	return 0;
}

static int serve_all(struct server *s, struct pl_err *err)
{
	unsigned int rounds = codec_rounds(s->codec);
	uint64_t all = (uint64_t)s->job->steps * rounds;
	char bye = 0;
	int rc = 0;

	for (uint64_t i = 0; i < all && rc == 0; i++) {
		rc = serve(s, (unsigned int)(i % rounds), err);
		if (rc < 0)
			pl_err_prefix(err, "step %u of %u",
				      (uint32_t)(i / rounds) + 1,
				      s->job->steps);
	}
	for (uint32_t i = 0; i < s->job->o.workers && rc == 0; i++) {
		rc = ps_link_recv(&s->links[i], &bye, 1);
		if (rc < 0 || bye != PS_BYE)
			return ps_link_error(&s->links[i], rc < 0 ? rc :
					     -EPROTO, err);
	}
	return rc;
}

static void report(const struct server *s, struct ps_report *rep)
{
	rep->n_grad_paths = s->job->o.workers;
	for (uint32_t i = 0; i < rep->n_grad_paths; i++)
		pl_format(rep->grad_paths[i], sizeof(rep->grad_paths[i]),
			  "%s", s->links[i].path);
	pl_format(rep->path, sizeof(rep->path), "%s", s->links[0].path);
}

static int packed_run(const struct ps_job *job, struct ps_report *rep,
		      struct pl_err *err)
{
	struct server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return pl_err_set(err, ENOMEM, "no memory for the server");
	s->job = job;
	s->port = PS_PORT_NONE;
	for (uint32_t i = 0; i < PS_WORKERS_MAX; i++)
		s->links[i] = PS_LINK_NONE;
	rc = allocate(s, err);
	if (rc == 0)
		rc = accept_all(s, err);
	if (rc == 0)
		rc = serve_all(s, err);
	if (rc == 0)
		report(s, rep);
	for (uint32_t i = 0; i < job->o.workers; i++) {
		ps_link_close(&s->links[i]);
		free(s->msgs[i]);
	}
	ps_port_close(&s->port);
	codec_destroy(s->codec);
	free(s->result);
	free(s);
	return rc;
}

const struct ps_server_ops ps_packed_server = { .run = packed_run };

/*
 * bench/serve_service.c - the services, and the loop that answers
 *
 * The fixed service is an accelerator that takes one sample at a time: it
 * sleeps rather than computes, since the pods' CPUs are busy with the network.
 */
#include "bench/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/util.h"

uint64_t sv_value(const void *sample, size_t bytes)
{
	const char *at = sample;
	uint64_t h = bytes, word;

	for (; bytes >= 8; at += 8, bytes -= 8) {
		memcpy(&word, at, 8);
		h = (h << 5 | h >> 59) ^ word;
		h *= 0x9e3779b97f4a7c15ull;
	}
	word = 0;
	memcpy(&word, at, bytes);
	return ((h << 5 | h >> 59) ^ word) * 0x9e3779b97f4a7c15ull;
}

static void sleep_until(uint64_t at_ns)
{
	const struct timespec ts = { .tv_sec = (time_t)(at_ns / 1000000000u),
				     .tv_nsec = (long)(at_ns % 1000000000u) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) ==
	       EINTR)
		;
}

/* One sample after the other, each from when the one before was done. */
static void take_time(const struct sv_opts *o, uint64_t *free_ns)
{
	uint64_t now = pl_now_ns();

	*free_ns = PL_MAX(*free_ns, now) + o->service_us * 1000ull;
	sleep_until(*free_ns);
}

static int answer(const struct sv_opts *o, const struct lp_end *end,
		  const struct sv_query *q, char *sample, uint64_t *free_ns)
{
	struct sv_answer a[SV_BATCH];
	unsigned int n = 0;
	int rc = 0;

	for (uint32_t i = 0; i < q->samples && rc == 0; i++) {
		rc = lp_recv(end, sample, o->sample_bytes);
		if (rc < 0)
			break;
		a[n] = (struct sv_answer){
			.id = q->id,
			.place = i,
			.value = sv_value(sample, o->sample_bytes),
		};
		if (o->service == SV_FIXED)
			take_time(o, free_ns);
		if (++n < SV_BATCH && i + 1 < q->samples)
			continue;
		rc = lp_send(end, a, n * sizeof(a[0]));
		n = 0;
	}
	return rc;
}

static int say_bye(const struct lp_end *end, uint64_t id)
{
	const struct sv_answer bye = { .id = id };

	return lp_send(end, &bye, sizeof(bye));
}

static int agree(const struct sv_opts *o, const struct lp_end *end,
		 struct pl_err *err)
{
	struct sv_hello h;
	char yes;
	int rc = lp_recv(end, &h, sizeof(h));

	if (rc < 0)
		return lp_told(rc, err);
	yes = h.magic == SV_MAGIC && h.service == o->service &&
	      h.service_us == o->service_us &&
	      h.sample_bytes == o->sample_bytes;
	rc = lp_send(end, &yes, 1);
	if (rc == 0 && !yes)
		return pl_err_set(err, EPROTO, "the client has other options; "
				  "give both the same --service, --service-us "
				  "and --sample-bytes");
	return lp_told(rc, err);
}

int sv_serve(const struct sv_opts *o, const struct lp_end *end,
	     uint64_t *samples, struct pl_err *err)
{
	pl_auto_free char *sample = malloc(o->sample_bytes);
	struct sv_query q;
	uint64_t free_ns = 0;
	int rc;

	*samples = 0;
	if (!sample)
		return pl_err_set(err, ENOMEM, "out of memory");
	/* A sleep ends when it should, not 50 us later. */
	prctl(PR_SET_TIMERSLACK, 1);
	rc = agree(o, end, err);
	if (rc < 0)
		return rc;
	for (;;) {
		rc = lp_recv(end, &q, sizeof(q));
		if (rc == 0 && q.samples == 0)
			return lp_told(say_bye(end, q.id), err);
		if (rc == 0)
			rc = answer(o, end, &q, sample, &free_ns);
		if (rc < 0)
			return lp_told(rc, err);
		*samples += q.samples;
	}
}

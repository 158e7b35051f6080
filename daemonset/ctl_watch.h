/*
 * daemonset/ctl_watch.h - podlanectl lanes --watch: rates of lanes, live
 *
 * Lanes are asked for once per interval, and compared with the time before. A
 * lane is the same one if number, pods and service are and no counter went
 * back. On a terminal each table takes the place of the one before and shows as
 * many lanes as fit, the fastest first; elsewhere tables follow one another,
 * and JSON is a document per line. An agent that is away is waited for.
 */
#ifndef DAEMONSET_CTL_WATCH_H
#define DAEMONSET_CTL_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/err.h"

#define PL_WATCH_MS_MIN 100
#define PL_WATCH_MS_MAX 3600000

/* A number of seconds into ms. -EINVAL. */
int pl_watch_interval(const char *text, uint32_t *ms, struct pl_err *err);

/*
 * Add to each lane of now its rates over so many seconds since before (which
 * may be NULL), and put the fastest first. Rates are left out for lanes that
 * are new.
 */
void pl_watch_rates(cJSON *now, const cJSON *before, double seconds);

/*
 * Until SIGINT, SIGTERM, or the end of whoever reads the output: 0. An agent
 * that can't be asked the first time is an error.
 */
int pl_watch_lanes(const char *socket_path, uint32_t ms, bool json,
		   struct pl_err *err);
/* The same of pods. */
int pl_watch_pods(const char *socket_path, uint32_t ms, bool json,
		  struct pl_err *err);

#endif

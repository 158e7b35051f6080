/* bench/ps_csv.h - results as comma-separated values */
#ifndef BENCH_PS_CSV_H
#define BENCH_PS_CSV_H

#include <cjson/cJSON.h>

#include "common/err.h"

/*
 * The list "results" of a document of --json, a line each behind a line of
 * names (RFC 4180, with plain newlines). Members of objects are named
 * "step_ms.p50"; what the document says of them all (version, machine) stands
 * in each line, too. Those that are lists are left to the document. Numbers
 * that are not known are empty.
 */
int ps_csv_save(const char *path, const cJSON *doc, struct pl_err *err);

#endif

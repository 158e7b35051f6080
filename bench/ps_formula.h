/*
 * bench/ps_formula.h - what a strategy must move over the wire, and how fast
 * it can be at best
 *
 * With S the bytes of the model, n workers, k servers and B the bytes per
 * second of a node's wire each way, a step takes at least
 *
 *   parameter_server   max(S/B, n S/(k B))    each role on a node of its own
 *   ring               2 (n - 1) S/(n B)
 *   hierarchical       2 (m - 1) S/(m B)      of m nodes, however many workers
 *
 * besides the computing (Sergeev and Del Balso, 2018, for the ring). Here
 * several roles share the wire of their node, so what counts is the direction
 * in which more bytes must cross it: gradients of the workers on one side for
 * the servers on the other, and parameters of the servers on this side for the
 * workers on that one. With sums on each node, gradients cross once for a node,
 * and parameters are read by a node once.
 *
 * With --overlap the wire works while the GPU computes: a step ends no sooner
 * than any tensor's gradient is there (ps_pace.h) and what comes after it has
 * crossed the wire.
 */
#ifndef BENCH_PS_FORMULA_H
#define BENCH_PS_FORMULA_H

#include <stdbool.h>

#include "bench/ps_bench.h"

/*
 * Bytes of a step in the direction that has more of them. once: a node's
 * workers are one for the wire. 0 where nothing crosses it.
 */
double ps_formula_bytes(const struct ps_opts *o, const struct ps_case *c,
			bool once);

/* Images per second of all workers when the wire moves so much each way. */
double ps_formula_images(const struct ps_opts *o, const struct ps_case *c,
			 bool once, double bytes_per_s);

#endif

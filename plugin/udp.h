/*
 * plugin/udp.h - UDP that is under way while ports of the node begin or cease
 * to lead to a pod
 *
 * The kernel translates the first packet of a connection and then does the same
 * with all others. A sender of UDP that does not stop would go on to where it
 * went before for as long as it sends: past a pod that has the port now, or to
 * whichever pod has the address of one that is gone. So what the kernel knows
 * of it is forgotten, if it was sent to the node itself; what the node only
 * forwards to the same port of others stays.
 */
#ifndef PLUGIN_UDP_H
#define PLUGIN_UDP_H

#include <stddef.h>

#include "plugin/port.h"

struct pl_udp {
	struct pl_port *ports;
	size_t n;
};

/* Does nothing for other protocols. */
void pl_udp_add(struct pl_udp *u, const struct pl_port *p);

/* Best effort; says so in the log. Empties u. */
void pl_udp_forget(struct pl_udp *u);
void pl_udp_fini(struct pl_udp *u);

#endif

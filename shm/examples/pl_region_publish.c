/*
 * pl_region_publish: a table that changes, and is not changed while it is read
 *
 *   pl_region_publish NAME VERSIONS
 *
 * The one reader (pl_region_wait(3)) says over a lane to the service NAME how
 * far it has read; until then the owner writes nothing.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <podlane.h>

#define NUMBERS 1000

int main(int argc, char **argv)
{
	struct pl_listener *listener;
	struct pl_region *region;
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;
	uint64_t *table, version = 0, seen = 0;

	if (argc != 3)
		errx(2, "usage: pl_region_publish NAME VERSIONS");
	if (pl_open(&conn, &why) < 0 ||
	    pl_region_create(conn, argv[1], NUMBERS * sizeof(*table), 0,
			     &region, &why) < 0 ||
	    pl_listen(conn, argv[1], NULL, &listener, &why) < 0)
		errx(1, "%s", why.msg);
	printf("listening on %s\n", argv[1]);
	fflush(stdout);
	if (pl_accept(listener, -1, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	table = pl_region_data(region);
	while (version < strtoul(argv[2], NULL, 10)) {
		for (size_t i = 0; i < NUMBERS; i++)
			table[i] = (version + 1) * i;
		pl_region_publish(region, 0, pl_region_size(region), &version);
		if (pl_lane_recv(lane, &seen, sizeof(seen), PL_WAITALL) !=
		    sizeof(seen) || seen != version)
			errx(1, "the reader has gone");
	}
	printf("version %llu was read\n", (unsigned long long)seen);
	pl_lane_close(lane);
	pl_unlisten(listener);
	pl_region_close(region);
	pl_close(conn);
	return 0;
}

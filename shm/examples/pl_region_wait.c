/*
 * pl_region_wait: read each version of a table, in place, until its owner ends
 *
 *   pl_region_wait ADDRESS NAME
 *
 * The owner is as pl_region_publish(3) shows.
 */
#include <err.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <podlane.h>

static uint64_t sum(const struct pl_region *region)
{
	const uint64_t *table = pl_region_data(region);
	uint64_t s = 0;

	for (size_t i = 0; i < pl_region_size(region) / sizeof(*table); i++)
		s += table[i];
	return s;
}

int main(int argc, char **argv)
{
	struct pl_region *region;
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;
	uint64_t version;
	int rc;

	if (argc != 3)
		errx(2, "usage: pl_region_wait ADDRESS NAME");
	if (pl_open(&conn, &why) < 0 ||
	    pl_region_open(conn, argv[1], argv[2], 10000, &region, &why) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	for (version = 1;; version++) {
		rc = pl_region_wait(region, version, -1);
		if (rc < 0)
			break;
		version = pl_region_version(region);
		printf("version %llu: sum %llu\n", (unsigned long long)version,
		       (unsigned long long)sum(region));
		if (pl_lane_send(lane, &version, sizeof(version), 0) < 0)
			errx(1, "the owner did not wait for us");
	}
	pl_lane_close(lane);
	pl_region_close(region);
	pl_close(conn);
	/* How the last version shows: the owner has closed the region. */
	if (rc != -ECONNRESET)
		errx(1, "%s", strerror(-rc));
	return 0;
}

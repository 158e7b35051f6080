/*
 * pl_region_open: show the text that another pod has published
 *
 *   pl_region_open ADDRESS NAME
 */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include <podlane.h>

int main(int argc, char **argv)
{
	struct pl_region_info info;
	struct pl_region *region;
	struct pl_conn *conn;
	struct pl_err why;
	int rc;

	if (argc != 3)
		errx(2, "usage: pl_region_open ADDRESS NAME");
	/* The owner may not have come so far: ten seconds for it. */
	if (pl_open(&conn, &why) < 0 ||
	    pl_region_open(conn, argv[1], argv[2], 10000, &region, &why) < 0)
		errx(1, "%s", why.msg);
	rc = pl_region_wait(region, 1, 10000);
	if (rc < 0)
		errx(1, "nothing was published: %s", strerror(-rc));
	pl_region_info(region, &info);
	printf("%s of %s over %s, %zu bytes, version %llu: %.*s\n", info.name,
	       info.owner, info.path, info.size,
	       (unsigned long long)info.version, (int)pl_region_size(region),
	       (const char *)pl_region_data(region));
	pl_region_close(region);
	pl_close(conn);
	return 0;
}

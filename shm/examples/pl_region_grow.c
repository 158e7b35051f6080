/*
 * pl_region_grow: lines of text that others read, in memory that grows
 *
 *   pl_region_grow NAME MAX_BYTES
 *
 * Takes lines from standard input until it ends, and publishes each. Bytes that
 * were published are never changed, so readers need not say how far they are.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <podlane.h>

#define FIRST 4096

/* Twice as much, as long as that is not enough. */
static int make_room(struct pl_region *region, size_t want, size_t max,
		     struct pl_err *why)
{
	size_t size = pl_region_size(region);

	while (size < want)
		size *= 2;
	return pl_region_grow(region, size < max ? size : max, why);
}

int main(int argc, char **argv)
{
	struct pl_region *region;
	struct pl_conn *conn;
	struct pl_err why;
	size_t max, at = 0, n;
	char line[1024];

	if (argc != 3)
		errx(2, "usage: pl_region_grow NAME MAX_BYTES");
	max = strtoul(argv[2], NULL, 10);
	if (pl_open(&conn, &why) < 0 ||
	    pl_region_create_growing(conn, argv[1], FIRST, max, 0, &region,
				     &why) < 0)
		errx(1, "%s", why.msg);
	printf("growing %s\n", argv[1]);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		n = strlen(line);
		if (at + n >= max) {
			warnx("the region is full");
			break;
		}
		if (make_room(region, at + n + 1, max, &why) < 0)
			errx(1, "%s", why.msg);
		memcpy((char *)pl_region_data(region) + at, line, n);
		pl_region_publish(region, at, n + 1, NULL);
		at += n;
	}
	printf("%zu bytes in a region of %zu\n", at, pl_region_size(region));
	pl_region_close(region);
	pl_close(conn);
	return 0;
}

/*
 * pl_region_create: a region of text, for whoever wants to read it
 *
 *   pl_region_create NAME TEXT
 *
 * It is there until standard input ends.
 */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include <podlane.h>

#define BYTES (4u << 20)

int main(int argc, char **argv)
{
	struct pl_region *region;
	struct pl_conn *conn;
	struct pl_err why = { 0 };
	size_t len;

	if (argc != 3)
		errx(2, "usage: pl_region_create NAME TEXT");
	len = strlen(argv[2]);
	if (pl_open(&conn, &why) < 0 ||
	    pl_region_create(conn, argv[1], BYTES, PL_ALLOW_ANY | PL_HUGE,
			     &region, &why) < 0)
		errx(1, "%s", why.msg);
	/* Not an error: the region works as any other. */
	if (why.msg[0])
		warnx("%s", why.msg);
	if (len >= pl_region_size(region))
		errx(2, "the text is too long");
	memcpy(pl_region_data(region), argv[2], len);
	pl_region_publish(region, 0, len + 1, NULL);
	printf("published %s\n", argv[1]);
	fflush(stdout);
	while (getchar() != EOF)
		;
	pl_region_close(region);
	pl_close(conn);
	return 0;
}

/*
 * region_read: a pod that publishes memory, and one that reads it in place
 *
 *   region_read write NAME [BYTES [VERSIONS [MS]]]
 *       makes the region NAME, publishes VERSIONS of it, one every MS
 *       milliseconds, and waits for a line on its standard input
 *   region_read read ADDRESS NAME [VERSION]
 *       opens the region of the pod with that address, waits for VERSION and
 *       checks what is in it
 *
 * Each version fills the region with 32-bit words that follow from its number.
 * Build: gcc region_read.c -lpodlane
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <podlane.h>

#define OPEN_MS 10000
#define WAIT_MS 30000

static int fail(const char *what, const struct pl_err *err)
{
	fprintf(stderr, "region_read: %s: %s\n", what, err->msg);
	return 1;
}

static uint32_t word(uint64_t version, size_t i)
{
	return (uint32_t)(version * 2654435761u + i * 40503u);
}

/* The new version is there as a whole when readers see its number. */
static int fill(struct pl_region *region, uint64_t version)
{
	size_t words = pl_region_size(region) / sizeof(uint32_t);
	uint32_t *p = pl_region_data(region);

	for (size_t i = 0; i < words; i++)
		p[i] = word(version, i);
	return pl_region_publish(region, 0, pl_region_size(region), NULL);
}

static int do_write(struct pl_conn *conn, const char *name, size_t bytes,
		    unsigned long versions, unsigned long ms)
{
	const struct timespec pause = { .tv_sec = (time_t)(ms / 1000),
					.tv_nsec = (long)(ms % 1000) *
						   1000000 };
	struct pl_region *region;
	struct pl_err err;
	char line[80];

	if (pl_region_create(conn, name, bytes, PL_ALLOW_ANY, &region,
			     &err) < 0)
		return fail("create", &err);
	for (unsigned long v = 1; v <= versions; v++) {
		if (v > 1)
			nanosleep(&pause, NULL);
		fill(region, v);
	}
	printf("published %s: %zu bytes, version %llu\n", name, bytes,
	       (unsigned long long)pl_region_version(region));
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		clearerr(stdin);
	pl_region_close(region);
	return 0;
}

/* Only right while its owner does not write the next version yet. */
static int check(const struct pl_region *region, uint64_t version)
{
	size_t words = pl_region_size(region) / sizeof(uint32_t);
	const uint32_t *p = pl_region_data(region);

	for (size_t i = 0; i < words; i++) {
		if (p[i] == word(version, i))
			continue;
		fprintf(stderr, "region_read: word %zu of version %llu is "
			"%#x, not %#x\n", i, (unsigned long long)version, p[i],
			word(version, i));
		return 1;
	}
	return 0;
}

static int do_read(struct pl_conn *conn, const char *address, const char *name,
		   uint64_t version)
{
	struct pl_region_info info;
	struct pl_region *region;
	struct pl_err err;
	int rc;

	if (pl_region_open(conn, address, name, OPEN_MS, &region, &err) < 0)
		return fail("open", &err);
	rc = pl_region_wait(region, version, WAIT_MS);
	if (rc < 0) {
		fprintf(stderr, "region_read: version %llu: %s\n",
			(unsigned long long)version, strerror(-rc));
		pl_region_close(region);
		return 1;
	}
	rc = check(region, version);
	pl_region_info(region, &info);
	if (rc == 0)
		printf("read %s of %s over %s: %zu bytes, version %llu\n",
		       info.name, info.owner, info.path, info.size,
		       (unsigned long long)version);
	pl_region_close(region);
	return rc;
}

static unsigned long number(int argc, char **argv, int i, unsigned long other)
{
	return i < argc ? strtoul(argv[i], NULL, 10) : other;
}

int main(int argc, char **argv)
{
	struct pl_conn *conn;
	struct pl_err err;
	int rc;

	if (argc < 3 || (strcmp(argv[1], "write") &&
			 (strcmp(argv[1], "read") || argc < 4))) {
		fprintf(stderr, "usage: region_read write NAME [BYTES "
				"[VERSIONS [MS]]]\n"
				"       region_read read ADDRESS NAME "
				"[VERSION]\n");
		return 2;
	}
	if (pl_open(&conn, &err) < 0)
		return fail("connection", &err);
	if (!strcmp(argv[1], "write"))
		rc = do_write(conn, argv[2], number(argc, argv, 3, 1 << 20),
			      number(argc, argv, 4, 1),
			      number(argc, argv, 5, 0));
	else
		rc = do_read(conn, argv[2], argv[3],
			     number(argc, argv, 4, 1));
	pl_close(conn);
	return rc;
}

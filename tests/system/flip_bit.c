/*
 * tests/system/flip_bit.c - one wrong bit in another process's memory
 *
 *   flip_bit PID   flips a bit in the middle of the mapping that PID may write
 *                  and has most memory in, of its regions if it has some, the
 *                  third byte of a word there
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
	fprintf(stderr, "flip_bit: %s: %s\n", what, strerror(errno));
	return 1;
}

/* Where ThreadSanitizer's notes end, and programs begin (x86-64). */
#define PROGRAMS UINT64_C(0x550000000000)

/* Of smaps; a mapping's size says little, sanitizers have some of terabytes. */
static uint64_t middle_of_largest(FILE *smaps)
{
	uint64_t from = 0, to = 0, rss, most = 0, at = 0;
	bool is_region = false, in_region = false;
	char line[512], mode[8] = "";

	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to,
			   mode) == 3) {
			is_region = strstr(line, "memfd:podlane-region");
			continue;
		}
		if (sscanf(line, "Rss: %" SCNu64, &rss) != 1 ||
		    mode[1] != 'w' || from < PROGRAMS ||
		    is_region < in_region ||
		    (is_region == in_region && rss <= most))
			continue;
		in_region = is_region;
		most = rss;
		at = from + (to - from) / 2;
	}
	return at & ~UINT64_C(3);
}

int main(int argc, char **argv)
{
	unsigned char byte;
	char path[64];
	uint64_t at;
	FILE *smaps;
	int fd;

	if (argc != 2)
		return 2;
	snprintf(path, sizeof(path), "/proc/%.16s/smaps", argv[1]);
	smaps = fopen(path, "r");
	if (!smaps)
		return fail(path);
	at = middle_of_largest(smaps) + 2;
	fclose(smaps);
	snprintf(path, sizeof(path), "/proc/%.16s/mem", argv[1]);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || pread(fd, &byte, 1, (off_t)at) != 1)
		return fail(path);
	byte ^= 0x10;
	if (pwrite(fd, &byte, 1, (off_t)at) != 1)
		return fail(path);
	close(fd);
	return 0;
}

/* shm/memroom.c - how much memory this process may still take */
#include "shm/memroom.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "common/util.h"

#define FILE_MAX (256u << 10)
#define UNKNOWN UINT64_MAX
/* Version 1 says so much, rounded down to pages, where there is no limit. */
#define NO_LIMIT (UINT64_C(1) << 62)

/* The number after "name" at the start of a line of text. */
uint64_t pl_mem_field(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = text; p && *p; p = strchr(p, '\n')) {
		if (*p == '\n')
			p++;
		if (!strncmp(p, name, n) && strchr(" :\t", p[n])) {
			unsigned long long v;

			return sscanf(p + n, "%*[: \t]%llu", &v) == 1 ? v :
									UNKNOWN;
		}
	}
	return UNKNOWN;
}

/* The number that a file consists of; "max" is none. */
static uint64_t file_number(const char *dir, const char *name)
{
	pl_auto_free char *text = NULL;
	char path[4200];
	uint64_t v;

	if (pl_format(path, sizeof(path), "%s/%s", dir, name) < 0 ||
	    pl_file_read(path, 64, &text, NULL, NULL) < 0)
		return UNKNOWN;
	text[strcspn(text, "\n")] = '\0';
	return pl_parse_u64(text, 0, UINT64_MAX, &v) == 0 ? v : UNKNOWN;
}

/* Pages of files in the group: given up before anybody is killed. */
static uint64_t droppable(const char *dir, int v2)
{
	const char *const names[2][2] = {
		{ "total_inactive_file", "total_active_file" },
		{ "inactive_file", "active_file" },
	};
	pl_auto_free char *text = NULL;
	char path[4200];
	uint64_t sum = 0;

	if (pl_format(path, sizeof(path), "%s/memory.stat", dir) < 0 ||
	    pl_file_read(path, FILE_MAX, &text, NULL, NULL) < 0)
		return 0;
	for (int i = 0; i < 2; i++) {
		uint64_t v = pl_mem_field(text, names[v2 != 0][i]);

		sum += v == UNKNOWN ? 0 : v;
	}
	return sum;
}

uint64_t pl_mem_group_room(const char *dir, int v2, uint64_t enough)
{
	uint64_t limit = file_number(dir, v2 ? "memory.max" :
					       "memory.limit_in_bytes");
	uint64_t used, drop;

	if (limit >= NO_LIMIT)
		return UNKNOWN;
	used = file_number(dir, v2 ? "memory.current" :
				     "memory.usage_in_bytes");
	if (used == UNKNOWN)
		return UNKNOWN;
	if (limit > used && limit - used >= enough)
		return limit - used;
	drop = droppable(dir, v2);
	used -= PL_MIN(used, drop);
	return limit > used ? limit - used : 0;
}

/* The group and all groups above it, up to the mount. */
static uint64_t groups_room(const char *mount, const char *group, int v2,
			    uint64_t enough)
{
	uint64_t room = UNKNOWN;
	char dir[4096];
	size_t root = strlen(mount);

	if (pl_format(dir, sizeof(dir), "%s%s", mount, group) < 0)
		return UNKNOWN;
	for (;;) {
		uint64_t r = pl_mem_group_room(dir, v2, enough);
		char *slash = strrchr(dir, '/');

		room = PL_MIN(room, r);
		if (!slash || (size_t)(slash - dir) < root)
			return room;
		*slash = '\0';
	}
}

/* One line "ID:CONTROLLERS:/GROUP"; v2 has no controllers. */
static uint64_t line_room(char *line, uint64_t enough)
{
	char *kind = strchr(line, ':');
	char *group = kind ? strchr(kind + 1, ':') : NULL;

	if (!group)
		return UNKNOWN;
	*group++ = '\0';
	if (kind[1] == '\0') {
		uint64_t a = groups_room("/sys/fs/cgroup", group, 1,
					 enough);
		uint64_t b = groups_room("/sys/fs/cgroup/unified", group, 1,
					 enough);

		return PL_MIN(a, b);
	}
	if (!strstr(kind, "memory"))
		return UNKNOWN;
	return groups_room("/sys/fs/cgroup/memory", group, 0, enough);
}

static uint64_t machine_room(uint64_t enough)
{
	pl_auto_free char *info = NULL;
	struct sysinfo si;
	uint64_t kib;

	/* What is free is available; what is available takes longer to know. */
	if (sysinfo(&si) == 0 && (uint64_t)si.freeram * si.mem_unit >= enough)
		return (uint64_t)si.freeram * si.mem_unit;
	if (pl_file_read("/proc/meminfo", FILE_MAX, &info, NULL, NULL) < 0)
		return UNKNOWN;
	kib = pl_mem_field(info, "MemAvailable");
	return kib == UNKNOWN ? UNKNOWN : kib << 10;
}

uint64_t pl_mem_room(uint64_t enough)
{
	pl_auto_free char *groups = NULL;
	uint64_t room = machine_room(enough);
	char *line, *next;

	if (pl_file_read("/proc/self/cgroup", FILE_MAX, &groups, NULL, NULL) < 0)
		return room;
	for (line = groups; line && *line; line = next) {
		uint64_t r;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		r = line_room(line, enough);
		room = PL_MIN(room, r);
	}
	return room;
}

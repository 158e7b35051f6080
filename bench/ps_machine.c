/*
 * bench/ps_machine.c - what the comparison has to know of this machine
 */
#include "bench/ps_machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/util.h"

#define PROC_FILE_MAX (1u << 20)
#define PATH_BYTES 1024

/* What stands behind "KEY" (with its separator) at a line's beginning. */
static const char *line_of(const char *text, const char *key)
{
	size_t len = strlen(key);

	while (text && strncmp(text, key, len)) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return text ? text + len : NULL;
}

static void copy_line(const char *from, char *to, size_t size)
{
	while (*from == ' ' || *from == '\t' || *from == ':')
		from++;
	snprintf(to, size, "%.*s", (int)strcspn(from, "\n"), from);
}

static void probe_cpu(char *cpu, size_t size)
{
	static const char *const keys[] = { "model name", "Model", "cpu model",
					    "uarch" };
	pl_auto_free char *text = NULL;

	snprintf(cpu, size, "unknown");
	if (pl_file_read("/proc/cpuinfo", PROC_FILE_MAX, &text, NULL, NULL))
		return;
	for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++) {
		const char *at = line_of(text, keys[i]);

		if (at) {
			copy_line(at, cpu, size);
			return;
		}
	}
}

/* Only shown to the first network namespace; "": not to be had. */
static void probe_qdisc(char *qdisc, size_t size)
{
	pl_auto_free char *text = NULL;

	if (pl_file_read("/proc/sys/net/core/default_qdisc", PATH_BYTES, &text,
			 NULL, NULL) == 0)
		copy_line(text, qdisc, size);
}

unsigned int ps_machine_cores(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ?
	       (unsigned int)CPU_COUNT(&set) : 1;
}

void ps_machine_probe(struct ps_machine *m)
{
	struct utsname u;

	memset(m, 0, sizeof(*m));
	if (uname(&u) == 0)
		snprintf(m->kernel, sizeof(m->kernel), "%s %s", u.sysname,
			 u.release);
	probe_cpu(m->cpu, sizeof(m->cpu));
	probe_qdisc(m->qdisc, sizeof(m->qdisc));
	m->cores = ps_machine_cores();
}

void ps_machine_head(const struct ps_machine *m, const char *program,
		     cJSON *doc)
{
	cJSON *o;

	cJSON_AddStringToObject(doc, "program", program);
	cJSON_AddStringToObject(doc, "version", PL_VERSION);
	o = cJSON_AddObjectToObject(doc, "machine");
	cJSON_AddStringToObject(o, "cpu", m->cpu);
	cJSON_AddNumberToObject(o, "cores", m->cores);
	cJSON_AddStringToObject(o, "kernel", m->kernel);
	cJSON_AddStringToObject(o, "congestion_control", m->congestion);
	cJSON_AddStringToObject(o, "carrier", m->carrier);
	ps_nic_add(o, "wire", &m->wire);
}

uint64_t ps_machine_busy_ns(void)
{
	/* user, nice, system, idle, iowait, irq, softirq; see proc_stat(5) */
	unsigned long long t[7];
	pl_auto_free char *text = NULL;
	long hz = sysconf(_SC_CLK_TCK);

	if (hz <= 0 || pl_file_read("/proc/stat", PROC_FILE_MAX * 4, &text,
				    NULL, NULL))
		return 0;
	if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu", &t[0],
		   &t[1], &t[2], &t[3], &t[4], &t[5], &t[6]) != 7)
		return 0;
	return (t[0] + t[1] + t[2] + t[5] + t[6]) *
	       (1000000000ull / (unsigned long long)hz);
}

/* --- memory --- */

/* The number in a file; UINT64_MAX: no such file, or no limit in it. */
static uint64_t number_in(const char *dir, const char *name)
{
	pl_auto_free char *text = NULL;
	char path[PATH_BYTES];
	uint64_t v;

	if (pl_format(path, sizeof(path), "%s/%s", dir, name) < 0 ||
	    pl_file_read(path, 4096, &text, NULL, NULL) < 0)
		return UINT64_MAX;
	text[strcspn(text, "\n")] = '\0';
	return pl_parse_u64(text, 0, UINT64_MAX, &v) < 0 ? UINT64_MAX : v;
}

static uint64_t stat_of(const char *text, const char *key)
{
	unsigned long long v = 0;
	const char *at = line_of(text, key);

	if (at && sscanf(at, " %llu", &v) != 1)
		v = 0;
	return v;
}

uint64_t ps_machine_bytes_of(const char *file, const char *key)
{
	pl_auto_free char *text = NULL;

	if (pl_file_read(file, PROC_FILE_MAX, &text, NULL, NULL) < 0)
		return 0;
	return stat_of(text, key) << 10;
}

/* Page cache of the group that the kernel would drop first. */
static uint64_t reclaimable(const char *dir)
{
	pl_auto_free char *text = NULL;
	char path[PATH_BYTES];

	if (pl_format(path, sizeof(path), "%s/memory.stat", dir) < 0 ||
	    pl_file_read(path, PROC_FILE_MAX, &text, NULL, NULL) < 0)
		return 0;
	return stat_of(text, "inactive_file ") + stat_of(text, "active_file ");
}

static uint64_t left_in(const char *dir, const char *max, const char *used)
{
	uint64_t limit = number_in(dir, max), now = number_in(dir, used), cache;

	if (limit == UINT64_MAX || now == UINT64_MAX)
		return UINT64_MAX;
	cache = reclaimable(dir);
	now -= PL_MIN(now, cache);
	return limit > now ? limit - now : 0;
}

/* The least that is left in the group or in one that it is part of. */
static uint64_t left_up(const char *root, const char *mount, const char *group,
			const char *max, const char *used)
{
	char dir[PATH_BYTES];
	uint64_t left = UINT64_MAX;
	size_t base = strlen(root) + strlen(mount);

	if (pl_format(dir, sizeof(dir), "%s%s%s", root, mount, group) < 0)
		return left;
	for (;;) {
		char *slash;
		uint64_t here;

		here = left_in(dir, max, used);
		left = PL_MIN(left, here);
		slash = strrchr(dir, '/');
		if (!slash || (size_t)(slash - dir) < base)
			return left;
		*slash = '\0';
	}
}

static uint64_t group_left(const char *root)
{
	pl_auto_free char *text = NULL;
	char path[PATH_BYTES], group[PATH_BYTES];
	uint64_t left = UINT64_MAX, v;
	const char *at;

	if (pl_format(path, sizeof(path), "%s/proc/self/cgroup", root) < 0 ||
	    pl_file_read(path, PROC_FILE_MAX, &text, NULL, NULL) < 0)
		return left;
	at = line_of(text, "0::");
	if (at) {
		copy_line(at, group, sizeof(group));
		left = left_up(root, "/sys/fs/cgroup", group, "memory.max",
			       "memory.current");
	}
	at = strstr(text, ":memory:");
	if (at) {
		copy_line(at + strlen(":memory:"), group, sizeof(group));
		v = left_up(root, "/sys/fs/cgroup/memory", group,
			    "memory.limit_in_bytes", "memory.usage_in_bytes");
		left = PL_MIN(left, v);
	}
	return left;
}

uint64_t ps_machine_free_bytes(const char *root, const char **limit)
{
	pl_auto_free char *text = NULL;
	char path[PATH_BYTES];
	uint64_t avail = UINT64_MAX, group = group_left(root);

	if (pl_format(path, sizeof(path), "%s/proc/meminfo", root) > 0 &&
	    pl_file_read(path, PROC_FILE_MAX, &text, NULL, NULL) == 0)
		avail = stat_of(text, "MemAvailable:") << 10;
	if (limit)
		*limit = group < avail ? "the control group's memory limit" :
					 "this machine";
	return PL_MIN(avail, group);
}

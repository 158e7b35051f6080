/*
 * daemonset/ctl_check.c - podlanectl check: what is wrong on this node, and
 * what to do about it
 *
 * A table of examinations, each of which says one or more findings. Where there
 * is no agent, those that need one are left out.
 */
#include "daemonset/ctl_check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/nl.h"
#include "common/util.h"
#include "daemonset/agent.h"
#include "daemonset/ctl_table.h"
#include "ipam/ipam.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define FILE_MAX 65536
#define FILES_LEAST 65536
#define CLOCK_ERROR_MAX_MS 1000

static const char *const finding_names[] = { "ok", "warn", "FAIL" };

void pl_doctor_say(struct pl_doctor *d, const char *what, enum pl_finding f,
		   const char *todo, const char *fmt, ...)
{
	cJSON *j = cJSON_CreateObject();
	char text[PL_ERR_MSG_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cJSON_AddStringToObject(j, "check", what);
	cJSON_AddStringToObject(j, "result", finding_names[f]);
	cJSON_AddStringToObject(j, "finding", text);
	if (*todo)
		cJSON_AddStringToObject(j, "todo", todo);
	cJSON_AddItemToArray(d->list, j);
	d->failures += f == PL_FINDING_FAIL;
}

/* A small file without its newline; false: it can't be read. */
static bool line_of(const char *path, char *buf, size_t size)
{
	pl_auto_free char *text = NULL;

	if (pl_file_read(path, FILE_MAX, &text, NULL, NULL) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	snprintf(buf, size, "%s", text);
	return true;
}

/* --- the kernel ----------------------------------------------------------- */

static void check_kernel(struct pl_doctor *d)
{
	pl_auto_fd fd = memfd_create("check", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct utsname u = { 0 };

	uname(&u);
	if (fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0)
		pl_doctor_say(d, "kernel", PL_FINDING_OK, "", "Linux %s",
			      u.release);
	else
		pl_doctor_say(d, "kernel", PL_FINDING_FAIL, "run Linux 5.1 or "
			      "newer; sandboxes such as gVisor are none",
			      "Linux %s cannot seal memory files against "
			      "writing", u.release);
}

/* In a network namespace of its own, so nothing is changed. */
static int try_devices(void)
{
	struct pl_vxlan v = { .name = "pl-check", .vni = 1, .port = 8472,
			      .local = { .family = AF_INET } };
	struct pl_nl nl;

	if (unshare(CLONE_NEWNET) < 0)
		return 0;
	if (pl_nl_open(&nl, -1, NULL) < 0)
		return 1;
	if (pl_nl_bridge_add(&nl, "pl-check0", 1500, NULL, NULL) < 0)
		return 2;
	return pl_nl_vxlan_add(&nl, &v, NULL) < 0 ? 3 : 4;
}

static void check_modules(struct pl_doctor *d)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(try_devices());
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) ||
	    WEXITSTATUS(status) < 2)
		pl_doctor_say(d, "modules", PL_FINDING_WARN, "run it as root",
			      "cannot try in a network namespace of its own");
	else if (WEXITSTATUS(status) == 2)
		pl_doctor_say(d, "modules", PL_FINDING_FAIL, "modprobe bridge, "
			      "or use chained mode",
			      "the kernel makes no bridge");
	else if (WEXITSTATUS(status) == 3)
		pl_doctor_say(d, "modules", PL_FINDING_FAIL, "modprobe vxlan, "
			      "or set overlay.type to \"none\"",
			      "the kernel makes no vxlan device");
	else
		pl_doctor_say(d, "modules", PL_FINDING_OK, "",
			      "the kernel makes bridges and vxlan devices");
}

static void check_forwarding(struct pl_doctor *d)
{
	char v[8];

	if (d->conf->cni.mode != PL_CNI_STANDALONE &&
	    d->conf->overlay.type == PL_OVERLAY_NONE)
		return;
	if (line_of("/proc/sys/net/ipv4/ip_forward", v, sizeof(v)) &&
	    *v == '1')
		pl_doctor_say(d, "forwarding", PL_FINDING_OK, "",
			      "net.ipv4.ip_forward is 1");
	else
		pl_doctor_say(d, "forwarding", PL_FINDING_FAIL, "sysctl -w "
			      "net.ipv4.ip_forward=1, and in /etc/sysctl.d",
			      "the node does not forward its pods' packets");
}

static void check_clock(struct pl_doctor *d)
{
	struct timex t = { 0 };
	int state = adjtimex(&t);
	const char *todo = "run chrony, or another client of NTP: agents' "
			   "certificates and logs go by the clock";

	if (state < 0)
		pl_doctor_say(d, "clock", PL_FINDING_WARN, "ask on the node: "
			      "timedatectl", "cannot ask the kernel: %s",
			      strerror(errno));
	else if (state == TIME_ERROR || t.status & STA_UNSYNC)
		pl_doctor_say(d, "clock", PL_FINDING_WARN, todo,
			      "nothing keeps the clock right");
	else if (t.maxerror / 1000 > CLOCK_ERROR_MAX_MS)
		pl_doctor_say(d, "clock", PL_FINDING_WARN, todo, "it may be "
			      "wrong by %ld ms", t.maxerror / 1000);
	else
		pl_doctor_say(d, "clock", PL_FINDING_OK, "",
			      "right within %ld ms", t.maxerror / 1000);
}

/* --- RDMA ----------------------------------------------------------------- */

static int one_port(struct pl_doctor *d, const char *dev, const char *port)
{
	char path[PATH_MAX], state[64], phys[64];

	if (pl_format(path, sizeof(path),
		      "/sys/class/infiniband/%s/ports/%s/state", dev, port) < 0 ||
	    !line_of(path, state, sizeof(state)) ||
	    pl_format(path, sizeof(path),
		      "/sys/class/infiniband/%s/ports/%s/phys_state", dev,
		      port) < 0 ||
	    !line_of(path, phys, sizeof(phys)))
		return 0;
	if (strstr(state, "ACTIVE"))
		pl_doctor_say(d, "rdma", PL_FINDING_OK, "", "%s port %s is up",
			      dev, port);
	else
		pl_doctor_say(d, "rdma", PL_FINDING_WARN, "look at the cable "
			      "and the switch, and at rdma link show; until "
			      "then TCP is used", "%s port %s: state %s, "
			      "physical %s", dev, port, state, phys);
	return 1;
}

static int one_device(struct pl_doctor *d, const char *dev)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *f;
	int n = 0;

	if (pl_format(path, sizeof(path), "/sys/class/infiniband/%s/ports",
		      dev) < 0)
		return 0;
	f = opendir(path);
	while (f && (e = readdir(f)))
		if (e->d_name[0] != '.')
			n += one_port(d, dev, e->d_name);
	if (f)
		closedir(f);
	return n;
}

/* "Max locked memory  8388608  8388608  bytes": the soft one, or UINT64_MAX. */
static bool limit_of(const char *limits, const char *name, uint64_t *out)
{
	const char *at = strstr(limits, name);
	char word[24] = "";
	size_t n;

	if (!at)
		return false;
	at += strlen(name);
	at += strspn(at, " ");
	n = strcspn(at, " ");
	if (n >= sizeof(word))
		return false;
	memcpy(word, at, n);
	*out = UINT64_MAX;
	return !strcmp(word, "unlimited") ||
	       pl_parse_u64(word, 0, UINT64_MAX, out) == 0;
}

static void check_limits(struct pl_doctor *d, bool has_rdma)
{
	char path[PATH_MAX], pid[16];
	pl_auto_free char *text = NULL;
	uint64_t locked = 0, files = 0;

	if (!d->status ||
	    pl_format(path, sizeof(path), "%s/lock", d->o->run_dir) < 0 ||
	    !line_of(path, pid, sizeof(pid)) ||
	    pl_format(path, sizeof(path), "/proc/%s/limits", pid) < 0 ||
	    pl_file_read(path, FILE_MAX, &text, NULL, NULL) < 0)
		return;
	if (limit_of(text, "Max open files", &files) && files < FILES_LEAST)
		pl_doctor_say(d, "limits", PL_FINDING_WARN, "raise its "
			      "LimitNOFILE, or the runtime's: a lane to "
			      "another node takes some descriptors",
			      "the agent may open %llu files",
			      (unsigned long long)files);
	if (has_rdma && limit_of(text, "Max locked memory", &locked) &&
	    locked != UINT64_MAX)
		pl_doctor_say(d, "memlock", PL_FINDING_WARN, "set "
			      "LimitMEMLOCK=infinity for it, or the runtime: "
			      "RDMA locks the memory of lanes",
			      "the agent may lock %llu bytes",
			      (unsigned long long)locked);
}

static void check_rdma(struct pl_doctor *d)
{
	DIR *f = opendir("/sys/class/infiniband");
	struct dirent *e;
	int n = 0;

	while (f && (e = readdir(f)))
		if (e->d_name[0] != '.')
			n += one_device(d, e->d_name);
	if (f)
		closedir(f);
	if (!n)
		pl_doctor_say(d, "rdma", PL_FINDING_OK, "",
			      "no device: lanes between nodes go by TCP");
	check_limits(d, n > 0);
}

/* --- the agent and the runtime -------------------------------------------- */

static void check_peers(struct pl_doctor *d)
{
	const cJSON *n;

	cJSON_ArrayForEach(n, d->nodes) {
		const char *name = "", *state = "";

		pl_json_str(n, "", "name", &name, NULL);
		pl_json_str(n, "", "state", &state, NULL);
		if (!strncmp(state, "down", 4))
			pl_doctor_say(d, "peers", PL_FINDING_WARN, "is its "
				      "agent running, and its port reachable? "
				      "Both agents' logs say why", "%s is %s",
				      name, state);
	}
}

static const char *first_plugin(const char *dir, const char *name, bool *ours)
{
	pl_auto_json *j = NULL;
	const cJSON *p;
	char path[PATH_MAX];

	*ours = false;
	if (pl_format(path, sizeof(path), "%s/%s", dir, name) < 0 ||
	    pl_json_load(path, &j, NULL) < 0)
		return "cannot be read as JSON";
	cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(j, "plugins")) {
		const cJSON *t = cJSON_GetObjectItemCaseSensitive(p, "type");

		*ours |= cJSON_IsString(t) &&
			 !strcmp(t->valuestring, "podlane");
	}
	return *ours ? "has podlane" : "has no podlane";
}

static void check_conflist(struct pl_doctor *d)
{
	const char *dir = d->conf->cni.conf_dir, *is;
	char first[NAME_MAX + 1];
	bool ours;

	pl_conflist_first(dir, first);
	if (!*first) {
		pl_doctor_say(d, "conflist", PL_FINDING_FAIL, "an agent with "
			      "the section \"cni\" writes one, see podlaned(8)",
			      "%s has no configuration of a network", dir);
		return;
	}
	is = first_plugin(dir, first, &ours);
	if (ours)
		pl_doctor_say(d, "conflist", PL_FINDING_OK, "", "%s/%s %s", dir,
			      first, is);
	else
		pl_doctor_say(d, "conflist", PL_FINDING_FAIL, "remove it, or "
			      "give ours a name before it (cni.file)",
			      "runtimes use %s/%s, which %s", dir, first, is);
}

static void check_plugins(struct pl_doctor *d)
{
	static const char *const names[] = { "podlane", "podlane-ipam" };
	char path[PATH_MAX];

	for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++) {
		if (pl_format(path, sizeof(path), "%s/%s",
			      d->conf->cni.bin_dir, names[i]) < 0)
			continue;
		if (access(path, X_OK) == 0)
			pl_doctor_say(d, "plugins", PL_FINDING_OK, "",
				      "%s is there", path);
		else
			pl_doctor_say(d, "plugins", PL_FINDING_FAIL,
				      "podlaned install puts it there",
				      "%s: %s", path, strerror(errno));
	}
}

/* --- what was left behind ------------------------------------------------- */

static int note_problem(const struct pl_ipam_problem *p, void *arg)
{
	struct pl_doctor *d = arg;

	pl_doctor_say(d, "reservations", PL_FINDING_WARN, "podlanectl ipam "
		      "check lists them; podlanectl ipam release gives one "
		      "back", "%s %s", p->file, p->text);
	return 0;
}

static void check_reservations(struct pl_doctor *d)
{
	const char *dir = d->conf->cni.mode == PL_CNI_STANDALONE ?
				  d->conf->cni.data_dir : d->o->data_dir;
	unsigned int n = 0, total = 0;
	struct dirent *e;
	DIR *f = opendir(dir);

	while (f && (e = readdir(f))) {
		struct pl_ipam_where where;

		if (e->d_name[0] == '.' ||
		    pl_format(where.data_dir, sizeof(where.data_dir), "%s",
			      dir) < 0 ||
		    pl_format(where.network, sizeof(where.network), "%s",
			      e->d_name) < 0 ||
		    pl_ipam_verify(&where, note_problem, d, &n, NULL) < 0)
			continue;
		total += n;
	}
	if (f)
		closedir(f);
	pl_doctor_say(d, "reservations", PL_FINDING_OK, "",
		      "%u addresses are reserved in %s", total, dir);
}

/* Records of the plugin whose interface is gone: nobody sent DEL. */
static void stale_in(struct pl_doctor *d, struct pl_nl *nl, const char *dir,
		     int *stale)
{
	struct dirent *e;
	DIR *f = opendir(dir);

	(void)d;
	while (f && (e = readdir(f))) {
		pl_auto_json *j = NULL;
		const char *link = NULL;
		char path[PATH_MAX];
		struct pl_link l;

		if (e->d_name[0] == '.' ||
		    pl_format(path, sizeof(path), "%s/%s", dir,
			      e->d_name) < 0 ||
		    pl_json_load(path, &j, NULL) < 0 ||
		    pl_json_str(j, "", "link", &link, NULL) <= 0)
			continue;
		*stale += pl_nl_link_get(nl, link, &l, NULL) == -ENODEV;
	}
	if (f)
		closedir(f);
}

static void check_stale(struct pl_doctor *d)
{
	const char *dir = d->conf->cni.state_dir;
	char path[PATH_MAX];
	struct dirent *e;
	struct pl_nl nl;
	int stale = 0;
	DIR *f = opendir(dir);

	if (pl_nl_open(&nl, -1, NULL) == 0) {
		while (f && (e = readdir(f)))
			if (e->d_name[0] != '.' &&
			    pl_format(path, sizeof(path), "%s/%s", dir,
				      e->d_name) > 0)
				stale_in(d, &nl, path, &stale);
		pl_nl_close(&nl);
	}
	if (f)
		closedir(f);
	if (stale)
		pl_doctor_say(d, "attachments", PL_FINDING_WARN, "the agent "
			      "gives them back within a minute; without one, "
			      "the runtime's GC, or podlanectl ipam release",
			      "%d pods are gone, what they had is not", stale);
	else
		pl_doctor_say(d, "attachments", PL_FINDING_OK, "",
			      "none is of a pod that is gone");
}

/* --- all ------------------------------------------------------------------ */

static int ask(const char *run_dir, const char *op, cJSON **answer,
	       struct pl_err *err)
{
	pl_auto_json *request = cJSON_CreateObject();
	pl_auto_fd fd = -1;
	char path[256];
	int rc;

	cJSON_AddStringToObject(request, "op", op);
	rc = pl_format(path, sizeof(path), "%s/%s", run_dir, PL_AGENT_SOCKET);
	if (rc < 0)
		return pl_err_set(err, -rc, "--run-dir is too long");
	rc = pl_agent_open(path, &fd, err);
	return rc < 0 ? rc : pl_agent_call(fd, request, -1, answer, err);
}

static void check_agent(struct pl_doctor *d)
{
	struct pl_err err = { 0 };
	cJSON *answer = NULL;
	int rc = ask(d->o->run_dir, "node", &d->status, &err);

	if (rc < 0) {
		pl_doctor_say(d, "agent", PL_FINDING_FAIL, "start podlaned, or "
			      "look at its log (kubectl -n podlane logs)",
			      "%s", err.msg);
		return;
	}
	rc = ask(d->o->run_dir, "status", &answer, &err);
	cJSON_Delete(answer);
	if (rc < 0)
		pl_doctor_say(d, "agent", PL_FINDING_FAIL, "see there; pods "
			      "can't be added before", "not ready: %s",
			      err.msg);
	else
		pl_doctor_say(d, "agent", PL_FINDING_OK, "", "ready");
	if (ask(d->o->run_dir, "nodes", &answer, NULL) == 0) {
		d->nodes = cJSON_DetachItemFromObject(answer, "nodes");
		cJSON_Delete(answer);
	}
}

static void (*const checks[])(struct pl_doctor *d) = {
	check_kernel, check_modules, check_agent, check_forwarding,
	check_clock, check_rdma, check_plugins, check_conflist,
	check_stale, check_reservations, check_peers, pl_doctor_mtu,
};

static int examine(const struct pl_ctl_check *o, cJSON **list,
		   struct pl_err *err)
{
	pl_auto_free struct pl_agent_conf *conf = calloc(1, sizeof(*conf));
	struct pl_doctor d = { .o = o, .conf = conf };
	int rc = conf ? pl_agent_conf_find(o->config, conf, err) :
			pl_err_set(err, ENOMEM, "out of memory");

	if (rc < 0)
		return rc;
	d.list = cJSON_CreateArray();
	for (size_t i = 0; i < PL_ARRAY_SIZE(checks); i++)
		checks[i](&d);
	cJSON_Delete(d.status);
	cJSON_Delete(d.nodes);
	*list = d.list;
	return d.failures > 0;
}

int pl_ctl_check_list(const struct pl_ctl_check *o, cJSON **list,
		      struct pl_err *err)
{
	int rc = examine(o, list, err);

	return rc < 0 ? rc : 0;
}

static void print(const cJSON *list)
{
	const cJSON *f;

	cJSON_ArrayForEach(f, list) {
		const char *check = "", *result = "", *text = "", *todo = "";

		pl_json_str(f, "", "check", &check, NULL);
		pl_json_str(f, "", "result", &result, NULL);
		pl_json_str(f, "", "finding", &text, NULL);
		pl_json_str(f, "", "todo", &todo, NULL);
		printf("%-4s  %-12s  %s\n", result, check, text);
		if (*todo)
			printf("%-4s  %-12s  -> %s\n", "", "", todo);
	}
}

int pl_ctl_check(const struct pl_ctl_check *o, struct pl_err *err)
{
	cJSON *list = NULL;
	int rc = examine(o, &list, err);

	if (rc < 0)
		return rc;
	if (o->json)
		pl_doc_print(stdout, list);
	else
		print(list);
	cJSON_Delete(list);
	return rc;
}

/*
 * tests/fuzz/fuzz_ipam_store.c - the directory of reserved addresses
 *
 * Files with names that mean something and any content, then what an allocator
 * does: whoever asks gets an address of the range that nobody else has, or none
 * is left.
 */
#include <sys/stat.h>

#include "common/json.h"
#include "ipam/index.h"
#include "ipam/ipam.h"
#include "tests/fuzz/fuzz.h"

#define NETWORK "net"
#define PODS 3
/* A file of the index is large; this is more than its header. */
#define CONTENT_MAX 8192

static const char *const names[] = {
	"10.1.0.2", "10.1.0.3", "10.1.0.77", "fd00::5", PL_INDEX_FILE,
	PL_INDEX_TEMP, ".podlane.new", "last_reserved_ip.0", "lock", "x",
};

static struct pl_ipam_config cfg;
static cJSON *conf;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct pl_err err = { 0 };
	char text[512];

	(void)argc;
	(void)argv;
	fuzz_dir_make();
	snprintf(text, sizeof(text), "{\"cniVersion\":\"1.0.0\",\"name\":\""
		 NETWORK "\",\"ipam\":{\"type\":\"podlane-ipam\","
		 "\"dataDir\":\"%s\",\"subnet\":\"10.1.0.0/29\"}}", fuzz_dir);
	HOLDS(pl_json_parse(text, strlen(text), &conf, &err) == 0);
	HOLDS(pl_ipam_config_parse(conf, NULL, &cfg, &err) == 0);
	return 0;
}

static int on_entry(const struct pl_ipam_entry *e, void *arg)
{
	(void)arg;
	HOLDS(e->container_id && e->ifname);
	return 0;
}

static int on_problem(const struct pl_ipam_problem *p, void *arg)
{
	(void)arg;
	HOLDS(p->file && p->text);
	return 0;
}

static void fill(struct fuzz *f)
{
	static char content[CONTENT_MAX + 1];
	char path[512];

	snprintf(path, sizeof(path), "%s/" NETWORK, fuzz_dir);
	HOLDS(mkdir(path, 0755) == 0);
	for (int i = 0; i < 4 && f->left; i++) {
		const char *name = names[fuzz_u8(f) % PL_ARRAY_SIZE(names)];
		size_t n = fuzz_piece(f, content, CONTENT_MAX);

		snprintf(path, sizeof(path), NETWORK "/%s", name);
		fuzz_dir_put(path, content, n);
	}
}

static void allocate(void)
{
	struct pl_ipam_result r[PODS];
	struct pl_err err = { 0 };

	for (int i = 0; i < PODS; i++) {
		char id[8];

		snprintf(id, sizeof(id), "p%d", i);
		if (pl_ipam_add(&cfg, id, "eth0", PL_IPAM_REUSE, &r[i],
				&err) < 0) {
			HOLDS(pl_cni_code(&err) == PL_CNI_EXHAUSTED);
			return;
		}
		HOLDS(r[i].n_ips == 1);
		for (int j = 0; j < i; j++)
			HOLDS(!pl_addr_equal(&r[i].ips[0].address.addr,
					     &r[j].ips[0].address.addr));
		HOLDS(pl_ipam_check(&cfg.where, id, "eth0",
				    &r[i].ips[0].address.addr, 1, &err) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { data, size };
	struct pl_err err = { 0 };
	char path[512];
	unsigned int n;

	fill(&f);
	pl_ipam_list(&cfg.where, on_entry, NULL, &err);
	pl_ipam_verify(&cfg.where, on_problem, NULL, &n, &err);
	allocate();
	HOLDS(pl_ipam_del(&cfg.where, "p0", "eth0", &err) == 0);
	HOLDS(pl_ipam_gc(&cfg.where, NULL, 0, &n, &err) == 0);
	snprintf(path, sizeof(path), "%s/" NETWORK, fuzz_dir);
	pl_tree_remove(path);
	return 0;
}

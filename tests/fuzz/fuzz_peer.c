/*
 * tests/fuzz/fuzz_peer.c - what the agent of another node says and writes
 *
 * The remote part and the broker are real, the carrier is made up here: its
 * peer comes and goes, sends messages, and puts anything into the replicas that
 * it was given keys of. The pods of this node (agent.h) do what they like
 * meanwhile. In the end nothing is left of any of it.
 */
#include <sys/queue.h>

#include "daemonset/peer_wire.h"
#include "tests/fuzz/agent.h"

#define STEPS_MAX 48
#define KEYS_MAX 32

/* --- a carrier ------------------------------------------------------------ */

struct done {
	STAILQ_ENTRY(done) next;
	pl_put_done fn;
	void *user;
};

struct key {
	uint8_t *map;			/* NULL: revoked, or none */
	size_t len;
	void *user;
};

static struct fake {
	struct pl_carrier base;
	struct pl_carrier_peer peer;
	struct pl_carrier_cb cb;
	void *arg;
	struct key keys[KEYS_MAX];
	unsigned int n_sources;
	STAILQ_HEAD(, done) dones;
} fake;

static int fake_create(const struct pl_carrier_config *cfg,
		       struct pl_carrier **out, struct pl_err *err)
{
	(void)err;
	fake.base.ops = &pl_carrier_tcp;
	fake.base.path = "tcp";
	fake.cb = cfg->cb;
	fake.arg = cfg->arg;
	fake.peer.carrier = &fake.base;
	memcpy(fake.peer.node, "node2", 6);
	STAILQ_INIT(&fake.dones);
	*out = &fake.base;
	return 0;
}

static void fake_destroy(struct pl_carrier *c)
{
	(void)c;
}

static struct pl_carrier_peer *fake_peer_get(struct pl_carrier *c,
					     const char *node,
					     const struct pl_addr *addr,
					     uint16_t port)
{
	(void)c;
	(void)addr;
	(void)port;
	HOLDS(!strcmp(node, "node2"));
	return &fake.peer;
}

static void run_dones(int status)
{
	struct done *d;

	while ((d = STAILQ_FIRST(&fake.dones))) {
		STAILQ_REMOVE_HEAD(&fake.dones, next);
		d->fn(d->user, status);
		free(d);
	}
}

static void fake_peer_forget(struct pl_carrier_peer *p)
{
	(void)p;
	run_dones(-ECANCELED);
	fake.peer.is_up = false;
	fake.peer.user = NULL;
	memset(fake.keys, 0, sizeof(fake.keys));
}

/* Keys are 1 to KEYS_MAX. */
static int fake_expose(struct pl_carrier_peer *p, int fd, void *map, size_t len,
		       void *user, uint64_t *key)
{
	(void)p;
	(void)fd;
	for (unsigned int i = 0; i < KEYS_MAX; i++) {
		if (fake.keys[i].map)
			continue;
		fake.keys[i] = (struct key){ map, len, user };
		*key = i + 1;
		return 0;
	}
	return -ENOMEM;
}

static int fake_extend(struct pl_carrier_peer *p, uint64_t key, int fd,
		       size_t len)
{
	(void)p;
	(void)fd;
	HOLDS(key >= 1 && key <= KEYS_MAX && fake.keys[key - 1].map);
	HOLDS(len > fake.keys[key - 1].len);
	fake.keys[key - 1].len = len;
	return 0;
}

static void fake_revoke(struct pl_carrier_peer *p, uint64_t key)
{
	(void)p;
	HOLDS(key >= 1 && key <= KEYS_MAX && fake.keys[key - 1].map);
	fake.keys[key - 1].map = NULL;
}

static int fake_source(struct pl_carrier_peer *p, int fd, const void *map,
		       size_t len, uint64_t *source)
{
	(void)p;
	(void)fd;
	HOLDS(map && len);
	*source = ++fake.n_sources;
	return 0;
}

static void fake_source_end(struct pl_carrier_peer *p, uint64_t source)
{
	(void)p;
	HOLDS(source && source <= fake.n_sources);
	run_dones(-ECANCELED);
}

static int fake_put(struct pl_carrier_peer *p, uint64_t source, uint64_t key,
		    uint64_t offset, const void *local, size_t len,
		    unsigned int flags, pl_put_done done, void *user)
{
	const volatile uint8_t *bytes = local;
	struct done *d;

	(void)source;
	(void)key;
	(void)offset;
	(void)flags;
	if (!p->is_up)
		return -ENOTCONN;
	HOLDS(len);
	/* All of it can be read. */
	HOLDS(bytes[0] <= UINT8_MAX && bytes[len - 1] <= UINT8_MAX);
	if (!done)
		return 0;
	d = calloc(1, sizeof(*d));
	HOLDS(d);
	d->fn = done;
	d->user = user;
	STAILQ_INSERT_TAIL(&fake.dones, d, next);
	return 0;
}

static int fake_message(struct pl_carrier_peer *p, const void *data, size_t len,
			uint64_t after)
{
	const struct pl_peer_hdr *h = data;

	(void)after;
	HOLDS(len >= sizeof(*h) && h->len == len && h->magic == PL_PEER_MAGIC);
	return p->is_up ? 0 : -ENOTCONN;
}

static size_t fake_queued(const struct pl_carrier_peer *p)
{
	(void)p;
	return 0;
}

static void fake_stats(const struct pl_carrier_peer *p,
		       struct pl_carrier_stats *st)
{
	(void)p;
	memset(st, 0, sizeof(*st));
}

/* In the place of those in rdma/, each of which needs the others. */
#define FAKE(label) {							\
	.name = label,							\
	.create = fake_create,						\
	.destroy = fake_destroy,					\
	.peer_get = fake_peer_get,					\
	.peer_forget = fake_peer_forget,				\
	.expose = fake_expose,						\
	.extend = fake_extend,						\
	.revoke = fake_revoke,						\
	.source = fake_source,						\
	.source_end = fake_source_end,					\
	.put = fake_put,						\
	.message = fake_message,					\
	.queued = fake_queued,						\
	.stats = fake_stats,						\
}
const struct pl_carrier_ops pl_carrier_tcp = FAKE("tcp");
const struct pl_carrier_ops pl_carrier_auto = FAKE("auto");
const struct pl_carrier_ops pl_carrier_verbs = FAKE("verbs");

/* --- the other node ------------------------------------------------------- */

static void peer_up(uint64_t instance)
{
	if (fake.peer.is_up)
		return;
	fake.peer.is_up = true;
	fake.peer.instance = instance;
	fake.cb.up(fake.arg, &fake.peer);
}

static void peer_down(void)
{
	if (!fake.peer.is_up)
		return;
	fake.peer.is_up = false;
	run_dones(-ECONNRESET);
	fake.cb.down(fake.arg, &fake.peer, -ECONNRESET);
}

static const uint16_t sizes[PL_PEER_TYPES] = {
	[PL_PEER_LANE_OPEN] = sizeof(struct pl_peer_lane_open),
	[PL_PEER_LANE_ACCEPT] = sizeof(struct pl_peer_lane_key),
	[PL_PEER_LANE_REFUSE] = sizeof(struct pl_peer_refuse),
	[PL_PEER_LANE_READY] = sizeof(struct pl_peer_lane_key),
	[PL_PEER_LANE_END] = sizeof(struct pl_peer_hdr),
	[PL_PEER_LANE_SYNC] = sizeof(struct pl_peer_lane_sync),
	[PL_PEER_REGION_FIND] = sizeof(struct pl_peer_region_find),
	[PL_PEER_REGION_FOUND] = sizeof(struct pl_peer_region_found),
	[PL_PEER_REGION_REFUSE] = sizeof(struct pl_peer_refuse),
	[PL_PEER_REGION_SUB] = sizeof(struct pl_peer_region_sub),
	[PL_PEER_REGION_UNSUB] = sizeof(struct pl_peer_hdr),
	[PL_PEER_REGION_END] = sizeof(struct pl_peer_region_end),
	[PL_PEER_REGION_LATER] = sizeof(struct pl_peer_hdr),
	[PL_PEER_REGION_MORE] = sizeof(struct pl_peer_region_more),
	[PL_PEER_POD_FIND] = sizeof(struct pl_peer_pod),
	[PL_PEER_POD_FOUND] = sizeof(struct pl_peer_pod),
};

static const struct pl_peer_addr here = { .family = 4,
					  .bytes = { 10, 1, 0, 1 } };
static const struct pl_peer_addr there = { .family = 4,
					   .bytes = { 10, 2, 0, 1 } };

/* Fields that are there and agree, so that what comes behind is reached. */
static void sense(void *msg, uint16_t type, uint8_t how)
{
	struct pl_peer_lane_open *open = msg;
	struct pl_peer_lane_key *key = msg;
	struct pl_peer_lane_sync *sync = msg;
	struct pl_peer_region_find *find = msg;
	struct pl_peer_region_sub *sub = msg;
	struct pl_peer_region_found *found = msg;

	switch (type) {
	case PL_PEER_LANE_OPEN:
		open->ring_bytes = RING;
		open->timeout_ms = 1000;
		open->src = there;
		open->dst = here;
		memcpy(open->ns, "default", 8);
		memcpy(open->service, "s", 2);
		fuzz_uid(open->uid, how);
		break;
	case PL_PEER_LANE_ACCEPT:
	case PL_PEER_LANE_READY:
		key->key = 1 + how % 4;
		key->ring_bytes = RING;
		break;
	case PL_PEER_LANE_SYNC:
		sync->key = 1 + how % 4;
		sync->own_ring = sync->rep_ring = RING;
		sync->src = how & 8 ? here : there;
		sync->dst = how & 8 ? there : here;
		fuzz_uid(sync->uid, how);
		break;
	case PL_PEER_REGION_FIND:
	case PL_PEER_REGION_SUB:
		find->owner = here;
		find->reader = there;
		memcpy(find->ns, "default", 8);
		memcpy(find->name, "s", 2);
		if (type == PL_PEER_REGION_FIND)
			break;
		fuzz_uid(sub->uid, 0);
		sub->key = 1;
		sub->room = sub->filled = pl_seg_round(REGION_BYTES);
		break;
	case PL_PEER_REGION_MORE:
		((struct pl_peer_region_more *)msg)->room =
			pl_seg_round(REGION_BYTES) << (how & 1);
		break;
	case PL_PEER_REGION_FOUND:
		fuzz_uid(found->uid, 0);
		found->size = REGION_BYTES;
		found->max_size = how & 8 ? 4 * REGION_BYTES : REGION_BYTES;
		break;
	}
}

static void peer_message(struct fuzz *f)
{
	uint64_t msg[PL_CARRIER_MSG_MAX / 8] = { 0 };
	uint8_t which = fuzz_u8(f), how = fuzz_u8(f);
	uint16_t type = which % 20;
	struct pl_peer_hdr h;
	size_t len;

	if (!fake.peer.is_up)
		return;
	if (type == 0 || type >= PL_PEER_TYPES) {
		len = fuzz_piece(f, (char *)msg, sizeof(msg) - 1);
	} else {
		len = sizes[type];
		h = (struct pl_peer_hdr){ .magic = PL_PEER_MAGIC,
					  .version = PL_PEER_VERSION,
					  .type = type,
					  .len = (uint32_t)len,
					  .flags = how >> 7 | (which >> 4 & 6),
					  .no = FUZZ_NO(how) };
		if (how & 0x40)
			fuzz_take(f, (char *)msg + sizeof(h), len - sizeof(h));
		else
			fuzz_take(f, (char *)msg + sizeof(h),
				  PL_MIN(len - sizeof(h), 24u));
		memcpy(msg, &h, sizeof(h));
		if (how & 0x20)
			sense(msg, type, how);
	}
	if (len)
		fake.cb.message(fake.arg, &fake.peer, msg, len);
}

/* Counters, or anything anywhere, into what was exposed. */
static void peer_put(struct fuzz *f)
{
	struct key *k = &fake.keys[fuzz_u8(f) % 4];
	uint8_t how = fuzz_u8(f);
	uint64_t words[9];
	size_t off;

	if (!fake.peer.is_up || !k->map)
		return;
	fuzz_take(f, words, how & 1 ? sizeof(words) : 8);
	off = PL_LANE_COUNTERS_OFF;
	if (how & 2)
		off = fuzz_u32(f) % (k->len - sizeof(words)) & ~7ul;
	for (size_t i = 0; i < (how & 1 ? 9u : 1u); i++)
		atomic_store((_Atomic uint64_t *)(void *)(k->map + off +
							  8 * i), words[i]);
	if (how & 4)
		fake.cb.notify(fake.arg, &fake.peer,
			       (uint64_t)(k - fake.keys) + 1, k->user);
}

static void peer_step(struct fuzz *f, uint8_t what)
{
	switch (what % 8) {
	case 0:
		peer_up(1 + (what >> 7));
		break;
	case 1:
		peer_down();
		break;
	case 2:
		run_dones(0);
		break;
	case 3:
	case 4:
		peer_put(f);
		break;
	default:
		peer_message(f);
	}
}

/* --- the node ------------------------------------------------------------- */

static struct fuzz_agent agent;
static struct pl_registry registry;

static void node_add(const char *name, const char *addr, const char *cidr)
{
	struct pl_node n = { .n_cidrs = 1 };
	struct pl_err err = { 0 };

	snprintf(n.name, sizeof(n.name), "%s", name);
	HOLDS(pl_addr_parse(addr, &n.address) == 0);
	HOLDS(pl_prefix_parse(cidr, &n.cidrs[0]) == 0);
	HOLDS(pl_registry_add(&registry, &n, &err) == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct pl_err err = { 0 };

	(void)argc;
	(void)argv;
	fuzz_agent_init(&agent);
	pl_registry_init(&registry);
	node_add("node1", "192.0.2.1", "10.1.0.0/24");
	node_add("node2", "192.0.2.2", "10.2.0.0/24");
	HOLDS(pl_registry_seal(&registry, &err) == 0);
	agent.broker->registry = &registry;
	return 0;
}

static void node_start(void)
{
	const struct pl_remote_config cfg = { .base = agent.base,
					      .broker = agent.broker,
					      .node = "node1",
					      .carrier = "tcp",
					      .security = { PL_SECURITY_NONE },
					      .registry = &registry };
	struct pl_err err = { 0 };

	fake.n_sources = 0;
	HOLDS(pl_remote_create(&cfg, &agent.broker->remote, &err) == 0);
}

static void node_end(void)
{
	struct pl_remote *r = agent.broker->remote;

	agent.broker->remote = NULL;
	pl_remote_destroy(r);
	fuzz_agent_reset(&agent);
	HOLDS(!agent.broker->lanes && !agent.broker->openings);
	HOLDS(STAILQ_EMPTY(&fake.dones));
	for (int i = 0; i < KEYS_MAX; i++)
		HOLDS(!fake.keys[i].map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { data, size };

	agent.fd_free = fuzz_fd_free();
	node_start();
	fuzz_pod_connect(&agent, 0);
	peer_up(1);
	for (int i = 0; i < STEPS_MAX && f.left; i++) {
		uint8_t what = fuzz_u8(&f);

		if (what & 0x10)
			peer_step(&f, fuzz_u8(&f));
		else if (what & 0x20)
			fuzz_pod_message(&agent, &f);
		else if (what & 0x40)
			fuzz_pod_connect(&agent, what % PODS);
		else
			pl_close_fd(&agent.sock[what % SOCKS_MAX]);
		if (what & 1)
			fuzz_loop(&agent);
		for (int j = 0; (what & 2) && j < SOCKS_MAX; j++)
			fuzz_sock_drain(&agent, j);
	}
	fuzz_loop(&agent);
	node_end();
	return 0;
}

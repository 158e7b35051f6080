/*
 * tests/system/agent_client.c - a pod's program, without libpodlane
 *
 * Run in the pod's network namespace. Prints what happens, a line at a time.
 *
 *   hello                     say who the agent takes this pod for
 *   watch                     the same, then wait until the agent goes
 *   listen SERVICE FLAGS N    take N lanes one after the other, send "pong" on
 *                             each, wait until it hangs up; N 0: offer the
 *                             service and take nothing; N < 0: wait for no
 *                             hang-up
 *   offer SERVICE             offer it and go
 *   reject SERVICE            reject one lane
 *   cheat SERVICE             accept three lanes in wrong ways
 *   connect ADDR SERVICE MS   a lane; reads what the peer sends
 *   lanes ADDR SERVICE N      N lanes, all kept until SIGUSR1
 *   region NAME SIZE FLAGS    publish a region, close it at SIGUSR1
 *   open ADDR NAME            read it, wait for its end
 *   conns N                   N connections; how many said HELLO_OK
 */
#include <signal.h>

#include "tests/system/agent_client.h"

union message {
	struct pl_msg_hdr h;
	struct pl_msg_error error;
	struct pl_msg_ok ok;
	struct pl_msg_hello hello;
	struct pl_msg_hello_ok hello_ok;
	struct pl_msg_listen listen;
	struct pl_msg_connect connect;
	struct pl_msg_lane lane;
	struct pl_msg_accept accept;
	struct pl_msg_id id;
	struct pl_msg_region_create create;
	struct pl_msg_region_open open;
	struct pl_msg_region region;
	char buf[PL_WIRE_MAX];
};

static void say(const char *line)
{
	puts(line);
	fflush(stdout);
}

/* Until SIGUSR1, which main() has blocked. */
static void wait_end(void)
{
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwait(&set, &sig);
}

static uint32_t flags_of(const char *s)
{
	return !strcmp(s, "any");
}

/* Says who the agent takes this pod for. */
static int introduce(void)
{
	union message u = { .hello = { .version_min = 1,
				      .version_max = wire() } };
	int got[PL_FDPASS_MAX], fd = dial();

	if (fd < 0) {
		say("no agent");
		exit(3);
	}
	u.h = head(PL_MSG_HELLO, sizeof(u.hello), 1);
	want(ask(fd, &u, NULL, 0, got), PL_MSG_HELLO_OK, &u);
	printf("connected %s %s\n",
	       wire() < 3 ? u.hello_ok.node : u.hello_ok.full_node,
	       u.hello_ok.addr);
	fflush(stdout);
	return fd;
}

static int cmd_hello(char **a)
{
	(void)a;
	close(introduce());
	return 0;
}

static int cmd_watch(char **a)
{
	struct pollfd p = { .fd = introduce(), .events = POLLIN };
	char c;

	(void)a;
	if (poll(&p, 1, 60000) != 1 || recv(p.fd, &c, 1, 0) > 0)
		die("no end");
	say("agent gone");
	return 0;
}

static int offer(int agent, const char *service, uint32_t flags)
{
	union message u = { .listen = { .flags = flags } };
	int got[PL_FDPASS_MAX];

	u.h = head(PL_MSG_LISTEN, sizeof(u.listen), 2);
	snprintf(u.listen.service, PL_WIRE_NAME, "%s", service);
	want(ask(agent, &u, NULL, 0, got), PL_MSG_LISTEN_OK, &u);
	if (got[0] < 0)
		die("no listener came");
	say("listening");
	return got[0];
}

/* Takes one INCOMING; fds[0]: the peer's segment, fds[1]: the doorbell. */
static uint64_t incoming(int listener, int *fds)
{
	union message u;
	int n;

	if (get(listener, &u, sizeof(u), fds, &n, 60000) !=
		    (ssize_t)pl_msg_bytes(PL_MSG_INCOMING, wire()) ||
	    u.h.type != PL_MSG_INCOMING || n != 2)
		die("no INCOMING");
	printf("incoming %s %s %s\n", u.lane.peer, u.lane.service,
	       u.lane.path);
	fflush(stdout);
	return u.lane.id;
}

static void pong(struct pl_lane_seg *seg, int bell)
{
	memcpy((char *)seg + PL_SEG_CTL_BYTES, "pong", 4);
	atomic_store(&seg->rx_wait, 1);
	atomic_store(&seg->head, 4);
	if (send(bell, "!", 1, MSG_NOSIGNAL) != 1 && errno != EPIPE)
		die("bell");
}

static const struct pl_lane_seg *map_peer(int fd)
{
	void *p = mmap(NULL, PL_SEG_CTL_BYTES + RING, PROT_READ, MAP_SHARED,
		       fd, 0);

	if (p == MAP_FAILED)
		die("map the peer's segment");
	if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) !=
	    MAP_FAILED)
		die("the peer's segment can be written");
	return p;
}

/*
 * The doorbell hangs up, or a peer of another node has been declared dead by
 * the agent. A reset: the peer has gone without having read its own wake-up.
 */
static void wait_hangup(int bell, const struct pl_lane_seg *peer)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };
	char c;

	while (poll(&p, 1, 60000) == 1) {
		ssize_t r = read(bell, &c, 1);

		if (r == 0 || (r < 0 && errno == ECONNRESET) ||
		    atomic_load(&peer->state) == PL_STATE_DEAD) {
			say("hang-up");
			return;
		}
	}
	die("no hang-up");
}

static int cmd_listen(char **a)
{
	int agent = open_agent();
	int listener = offer(agent, a[0], flags_of(a[1]));
	int n = (int)strtol(a[2], NULL, 10);

	if (n == 0)
		wait_end();
	for (int i = 0; i < abs(n); i++) {
		int fds[PL_FDPASS_MAX];
		struct pl_lane_seg *seg;
		union message u = { .accept = { .ring_bytes = RING } };
		int fd = make_lane(&seg);

		u.accept.id = incoming(listener, fds);
		u.h = head(PL_MSG_ACCEPT, sizeof(u.accept), 0);
		if (pl_fdpass_send(listener, &u, sizeof(u.accept), &fd, 1,
				   0) < 0)
			die("ACCEPT");
		pong(seg, fds[1]);
		if (n > 0)
			wait_hangup(fds[1], map_peer(fds[0]));
	}
	if (n < 0)
		wait_end();
	return 0;
}

static int cmd_offer(char **a)
{
	offer(open_agent(), a[0], 0);
	return 0;
}

static int cmd_reject(char **a)
{
	int agent = open_agent(), fds[PL_FDPASS_MAX];
	int listener = offer(agent, a[0], 0);
	struct pl_msg_ok m = { .id = incoming(listener, fds) };

	m.h = head(PL_MSG_REJECT, sizeof(m), 0);
	if (pl_fdpass_send(listener, &m, sizeof(m), NULL, 0, 0) < 0)
		die("REJECT");
	wait_end();
	return 0;
}

static void send_accept(int listener, uint64_t id, int fd, size_t len)
{
	struct pl_msg_accept m = { .id = id, .ring_bytes = RING };

	m.h = head(PL_MSG_ACCEPT, len, 0);
	if (pl_fdpass_send(listener, &m, len, &fd, fd >= 0, 0) < 0)
		die("ACCEPT");
}

/* Lanes that are accepted wrongly, then a message that ends the listener. */
static int cmd_cheat(char **a)
{
	int agent = open_agent(), fds[PL_FDPASS_MAX];
	int listener = offer(agent, a[0], 0), good, n;
	struct pl_region_seg *region;
	struct pl_lane_seg *seg;
	char buf[PL_WIRE_MAX];

	good = make_lane(&seg);
	send_accept(listener, 4711, good, sizeof(struct pl_msg_accept));
	send_accept(listener, incoming(listener, fds), open("/dev/null", O_RDWR),
		    sizeof(struct pl_msg_accept));
	send_accept(listener, incoming(listener, fds),
		    make_region(4096, &region), sizeof(struct pl_msg_accept));
	send_accept(listener, incoming(listener, fds), good,
		    sizeof(struct pl_msg_accept) - 8);
	if (get(listener, buf, sizeof(buf), fds, &n, WAIT_MS) != 0)
		die("the listener goes on");
	say("listener ended");
	return 0;
}

/* Returns the doorbell; *peer: the other side's segment, read-only. */
static int make_connection(int agent, const char *addr, const char *service,
			   int timeout_ms, struct pl_lane_seg **own,
			   const struct pl_lane_seg **peer)
{
	union message u = { .connect = { .ring_bytes = RING,
					 .timeout_ms = timeout_ms } };
	int got[PL_FDPASS_MAX], fd;

	u.h = head(PL_MSG_CONNECT, sizeof(u.connect), 3);
	snprintf(u.connect.addr, PL_WIRE_ADDR, "%s", addr);
	snprintf(u.connect.service, PL_WIRE_NAME, "%s", service);
	fd = make_lane(own);
	/* We only ever sleep: whoever writes is to ring. */
	atomic_store(&(*own)->rx_wait, 1);
	want(ask(agent, &u, &fd, 1, got), PL_MSG_CONNECT_OK, &u);
	printf("connected %s %s %s\n", u.lane.peer, u.lane.service,
	       u.lane.path);
	fflush(stdout);
	*peer = map_peer(got[0]);
	return got[1];
}

static int cmd_connect(char **a)
{
	const struct pl_lane_seg *peer;
	struct pollfd p = { .events = POLLIN };
	int agent = open_agent();
	struct pl_lane_seg *own;
	char c;

	p.fd = make_connection(agent, a[0], a[1],
			       (int)strtol(a[2], NULL, 10), &own, &peer);
	for (uint32_t n = 2; atomic_load(&peer->head) == 0; n++) {
		/* A ring for a number comes once, perhaps before the bytes. */
		atomic_store(&own->rx_wait, n);
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load(&peer->head))
			break;
		if (poll(&p, 1, WAIT_MS) != 1 || read(p.fd, &c, 1) != 1)
			die("the peer sent nothing");
	}
	printf("got %.4s\n", (const char *)peer + PL_SEG_CTL_BYTES);
	return 0;
}

static int cmd_lanes(char **a)
{
	int n = (int)strtol(a[2], NULL, 10), agent = open_agent();
	const struct pl_lane_seg *peer;
	struct pl_lane_seg *own;

	while (n-- > 0)
		make_connection(agent, a[0], a[1], WAIT_MS, &own, &peer);
	say("all");
	wait_end();
	return 0;
}

/* A lane whose counters are all as large as they can be. */
static int cmd_liar(char **a)
{
	union message u = { .connect = { .ring_bytes = RING,
					 .timeout_ms = WAIT_MS } };
	int got[PL_FDPASS_MAX], agent = open_agent(), fd;
	struct pl_lane_seg *own;

	u.h = head(PL_MSG_CONNECT, sizeof(u.connect), 3);
	snprintf(u.connect.addr, PL_WIRE_ADDR, "%s", a[0]);
	snprintf(u.connect.service, PL_WIRE_NAME, "%s", a[1]);
	fd = make_lane(&own);
	memset((char *)own + offsetof(struct pl_lane_seg, additions), 0xff,
	       sizeof(*own) - offsetof(struct pl_lane_seg, additions));
	want(ask(agent, &u, &fd, 1, got), PL_MSG_CONNECT_OK, &u);
	say("connected");
	wait_end();
	return 0;
}

static int cmd_region(char **a)
{
	union message u = { .create = { .size = strtoull(a[1], NULL, 10),
					.flags = flags_of(a[2]) } };
	int got[PL_FDPASS_MAX], agent = open_agent(), fd;
	struct pl_region_watch *watch;
	struct pl_region_seg *map;
	uint64_t id;

	fd = make_region(u.create.size, &map);
	u.h = head(PL_MSG_REGION_CREATE, sizeof(u.create), 4);
	snprintf(u.create.name, PL_WIRE_NAME, "%s", a[0]);
	want(ask(agent, &u, &fd, 1, got), PL_MSG_REGION_CREATE_OK, &u);
	id = u.region.id;
	watch = mmap(NULL, PL_WATCH_BYTES, PROT_READ, MAP_SHARED, got[0], 0);
	if (watch == MAP_FAILED || watch->magic != PL_WATCH_MAGIC)
		die("watch segment");
	memcpy((char *)map + PL_SEG_CTL_BYTES, "data", 4);
	atomic_store(&map->log[0].len, 4);
	atomic_store(&map->version, 1);
	say("published");
	wait_end();
	u.id = (struct pl_msg_id){ head(PL_MSG_REGION_CLOSE, sizeof(u.id), 5),
				   id };
	want(ask(agent, &u, NULL, 0, got), PL_MSG_OK, &u);
	return 0;
}

static int cmd_open(char **a)
{
	int got[PL_FDPASS_MAX], agent = open_agent(), n;
	union message u = { .open = { .addr = "" } };
	struct pl_region_seg *map;
	uint64_t id;

	u.h = head(PL_MSG_REGION_OPEN, sizeof(u.open), 5);
	if (wire() >= 3)
		u.open.timeout_ms = -1;
	snprintf(u.open.addr, PL_WIRE_ADDR, "%s", a[0]);
	snprintf(u.open.name, PL_WIRE_NAME, "%s", a[1]);
	want(ask(agent, &u, NULL, 0, got), PL_MSG_REGION_OPEN_OK, &u);
	id = u.region.id;
	map = mmap(NULL, PL_SEG_CTL_BYTES + u.region.size, PROT_READ,
		   MAP_SHARED, got[0], 0);
	if (map == MAP_FAILED)
		die("map the region");
	/* Of another node: the bytes may still be on their way. */
	for (int i = 0; i < 10000 && !atomic_load(&map->version); i++)
		usleep(1000);
	printf("opened %s version %llu %.4s\n", u.region.path,
	       (unsigned long long)atomic_load(&map->version),
	       (char *)map + PL_SEG_CTL_BYTES);
	fflush(stdout);
	if (get(agent, &u, sizeof(u), got, &n, 60000) !=
		    (ssize_t)sizeof(u.id) ||
	    u.h.type != PL_MSG_REGION_END || u.h.seq != 0 || u.id.id != id)
		die("no REGION_END");
	say("ended");
	return 0;
}

static int cmd_conns(char **a)
{
	int n = (int)strtol(a[0], NULL, 10), ok = 0;

	for (int i = 0; i < n; i++) {
		union message u = { .hello = { .version_min = 1,
					       .version_max = 1 } };
		int got[PL_FDPASS_MAX], fd = dial(), m;

		if (fd < 0)
			die("connect");
		u.h = head(PL_MSG_HELLO, sizeof(u.hello), 1);
		pl_fdpass_send(fd, &u, sizeof(u.hello), NULL, 0, 0);
		if (get(fd, &u, sizeof(u), got, &m, WAIT_MS) > 0 &&
		    u.h.type == PL_MSG_HELLO_OK)
			ok++;
	}
	printf("%d of %d\n", ok, n);
	return 0;
}

static const struct command {
	const char *name;
	int n_args;
	int (*fn)(char **args);
} commands[] = {
	{ "hello", 0, cmd_hello },   { "watch", 0, cmd_watch },
	{ "listen", 3, cmd_listen },
	{ "offer", 1, cmd_offer },   { "cheat", 1, cmd_cheat },
	{ "reject", 1, cmd_reject },
	{ "connect", 3, cmd_connect },
	{ "lanes", 3, cmd_lanes },   { "liar", 2, cmd_liar },
	{ "region", 3, cmd_region },
	{ "open", 2, cmd_open },     { "conns", 1, cmd_conns },
};

int main(int argc, char **argv)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (argc > 1 && !strcmp(commands[i].name, argv[1]) &&
		    argc == commands[i].n_args + 2)
			return commands[i].fn(argv + 2);
	return 2;
}

/*
 * tests/system/many_pods.c - a node full of pods that all talk
 *
 *   many_pods N SOCKET FILE
 *
 * Makes N network namespaces, registers each as a pod with the agent, and gives
 * each two threads: one has a lane to the next pod (of the last: to the first),
 * sends a number every 50 ms and wants it back, the other sends back what the
 * pod before sends. FILE gets two numbers of 64 bits, again and again: how
 * often the slowest pod got its number back, and how many rounds of churn are
 * done.
 *
 * SIGUSR2 is a round of churn: each pod opens and closes CHURN more lanes.
 * SIGUSR1 is the end: "ok". Whatever goes wrong is "failed" and the end, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/util.h"
#include "shm/podlane.h"

#define PODS_MAX 1000
#define CHURN 4
#define PAUSE_MS 50
#define RING_BYTES 65536

struct pod {
	struct many *many;
	int no;
	struct pl_conn *conn;
	struct pl_listener *listener;
	_Atomic uint64_t rounds, churned;
};

struct many {
	int n;
	const char *socket_path;
	pthread_barrier_t ready;
	_Atomic bool stop;
	_Atomic uint64_t churn;		/* rounds that are wanted */
	struct pod pods[PODS_MAX];
};

static const struct pl_lane_opts opts = { .ring_bytes = RING_BYTES };

static void die(const struct pod *p, const char *what, const char *why)
{
	printf("failed pod %d: %s: %s\n", p->no, what, why);
	fflush(stdout);
	_exit(1);
}

static void address(int no, char buf[32])
{
	snprintf(buf, 32, "10.88.%d.%d", 10 + no / 200, 1 + no % 200);
}

static void sleep_ms(int ms)
{
	const struct timespec ts = { 0, ms * 1000000L };

	nanosleep(&ts, NULL);
}

/* --- a pod ---------------------------------------------------------------- */

static cJSON *registration(const struct pod *p, const char *netns)
{
	cJSON *j = cJSON_CreateObject(), *pod, *list;
	char name[16], addr[32], with_len[40];

	snprintf(name, sizeof(name), "p%d", p->no);
	address(p->no, addr);
	snprintf(with_len, sizeof(with_len), "%s/16", addr);
	cJSON_AddStringToObject(j, "op", "add");
	cJSON_AddStringToObject(j, "network", "many");
	cJSON_AddStringToObject(j, "containerID", name);
	cJSON_AddStringToObject(j, "ifname", "eth0");
	cJSON_AddStringToObject(j, "netns", netns);
	list = cJSON_AddArrayToObject(j, "addresses");
	cJSON_AddItemToArray(list, cJSON_CreateString(with_len));
	pod = cJSON_AddObjectToObject(j, "pod");
	cJSON_AddStringToObject(pod, "name", name);
	cJSON_AddStringToObject(pod, "namespace", "default");
	cJSON_AddStringToObject(pod, "uid", name);
	return j;
}

static void become_pod(struct pod *p)
{
	pl_auto_json *j = NULL;
	struct pl_err err = { 0 };
	pl_auto_fd ns = -1, agent = -1;
	char path[64];

	if (unshare(CLONE_NEWNET) < 0)
		die(p, "unshare", strerror(errno));
	snprintf(path, sizeof(path), "/proc/%d/task/%d/ns/net", (int)getpid(),
		 (int)syscall(SYS_gettid));
	ns = open(path, O_RDONLY | O_CLOEXEC);
	j = registration(p, path);
	if (pl_agent_open(p->many->socket_path, &agent, &err) < 0 ||
	    pl_agent_call(agent, j, ns, NULL, &err) < 0)
		die(p, "add", err.msg);
	if (pl_open(&p->conn, &err) < 0 ||
	    pl_listen(p->conn, "s", &opts, &p->listener, &err) < 0)
		die(p, "listen", err.msg);
}

/* Sends back what comes on the first lane; the others only come and go. */
static void *answer(void *arg)
{
	struct pod *p = arg;
	struct pl_lane *lane = NULL, *more = NULL, *old;
	struct pl_err err = { 0 };
	uint64_t v;

	while (!p->many->stop) {
		struct pollfd f[2] = {
			{ pl_listener_fd(p->listener), POLLIN, 0 },
			{ lane ? pl_lane_fd(lane) : -1, POLLIN, 0 },
		};

		poll(f, 2, 200);
		if (f[0].revents &&
		    pl_accept(p->listener, 0, &old, &err) == 0) {
			if (!lane) {
				lane = old;
				continue;
			}
			if (more)
				pl_lane_close(more);
			more = old;
		}
		if (more && pl_lane_recv(more, &v, sizeof(v), PL_DONTWAIT) !=
				    -EAGAIN) {
			pl_lane_close(more);
			more = NULL;
		}
		while (lane && pl_lane_recv(lane, &v, sizeof(v),
					    PL_DONTWAIT) == sizeof(v))
			if (pl_lane_send(lane, &v, sizeof(v), 0) != sizeof(v))
				die(p, "answer", "could not be sent");
	}
	if (more)
		pl_lane_close(more);
	if (lane)
		pl_lane_close(lane);
	return NULL;
}

static void churn(struct pod *p, const char *next)
{
	struct pl_lane *lane;
	struct pl_err err = { 0 };

	for (int i = 0; i < CHURN; i++) {
		if (pl_connect(p->conn, next, "s", &opts, &lane, &err) < 0)
			die(p, "churn", err.msg);
		pl_lane_close(lane);
	}
	p->churned++;
}

static void talk(struct pod *p, struct pl_lane *lane, const char *next)
{
	for (uint64_t n = 1; !p->many->stop; n++) {
		uint64_t v = n * PODS_MAX + (uint64_t)p->no, back = 0;
		ssize_t rc = pl_lane_send(lane, &v, sizeof(v), 0);

		if (rc == sizeof(v))
			rc = pl_lane_recv(lane, &back, sizeof(back),
					  PL_WAITALL);
		if (p->many->stop)
			return;
		if (rc != sizeof(v))
			die(p, "talk", rc < 0 ? strerror((int)-rc) : "the end");
		if (back != v)
			die(p, "talk", "another number came back");
		p->rounds++;
		if (p->churned < p->many->churn)
			churn(p, next);
		sleep_ms(PAUSE_MS);
	}
}

static void *live(void *arg)
{
	struct pod *p = arg;
	struct pl_lane *lane;
	struct pl_err err = { 0 };
	pthread_t thread;
	char next[32];

	become_pod(p);
	pthread_barrier_wait(&p->many->ready);
	if (pthread_create(&thread, NULL, answer, p))
		die(p, "thread", "none");
	address((p->no + 1) % p->many->n, next);
	if (pl_connect(p->conn, next, "s", &opts, &lane, &err) < 0)
		die(p, "connect", err.msg);
	talk(p, lane, next);
	pl_lane_close(lane);
	pthread_join(thread, NULL);
	pl_unlisten(p->listener);
	pl_close(p->conn);
	return NULL;
}

/* --- all ------------------------------------------------------------------ */

static void tell(const struct many *m, int fd)
{
	uint64_t least[2] = { UINT64_MAX, UINT64_MAX };

	for (int i = 0; i < m->n; i++) {
		least[0] = PL_MIN(least[0], m->pods[i].rounds);
		least[1] = PL_MIN(least[1], m->pods[i].churned);
	}
	if (pwrite(fd, least, sizeof(least), 0) != sizeof(least))
		die(&m->pods[0], "progress", strerror(errno));
}

static int run(struct many *m, const char *file, const sigset_t *signals)
{
	const struct timespec tick = { 0, 100000000 };
	static pthread_t threads[PODS_MAX];
	pl_auto_fd fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			     0600);

	if (fd < 0)
		return 2;
	pthread_barrier_init(&m->ready, NULL, (unsigned int)m->n);
	for (int i = 0; i < m->n; i++) {
		m->pods[i].many = m;
		m->pods[i].no = i;
		if (pthread_create(&threads[i], NULL, live, &m->pods[i]))
			die(&m->pods[i], "thread", "none");
	}
	while (!m->stop) {
		int sig = sigtimedwait(signals, NULL, &tick);

		tell(m, fd);
		m->stop = sig == SIGUSR1;
		m->churn += sig == SIGUSR2;
	}
	for (int i = 0; i < m->n; i++)
		pthread_join(threads[i], NULL);
	printf("ok\n");
	return 0;
}

int main(int argc, char **argv)
{
	static struct many m;
	sigset_t signals;

	m.n = argc == 4 ? (int)strtol(argv[1], NULL, 10) : 0;
	if (m.n < 2 || m.n > PODS_MAX) {
		fprintf(stderr, "usage: many_pods N SOCKET FILE\n");
		return 2;
	}
	m.socket_path = argv[2];
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	return run(&m, argv[3], &signals);
}

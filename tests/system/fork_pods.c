/*
 * tests/system/fork_pods.c - a pod whose child goes on with its lane and region
 *
 *   fork_pods ADDRESS SERVICE REGION FILE
 *
 * Connects to a service that sends back what it gets, and opens a region of the
 * same pod. Then a child talks over the lane until that ends, or there is FILE,
 * and says which; and when it has exited its parent talks over it.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/podlane.h"

#define BYTES 300000u		/* less than a ring */
#define SOON_MS 30000

static int fail(const char *what, const struct pl_err *err)
{
	fprintf(stderr, "fork_pods: %s: %s\n", what, err->msg);
	return 1;
}

static void say(const char *who, const char *what)
{
	printf("%s %s\n", who, what);
	fflush(stdout);
}

/* There and back; 0, or what was the matter. */
static int talk(struct pl_lane *l, unsigned char what)
{
	static unsigned char out[BYTES], in[BYTES];
	ssize_t n;

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (unsigned char)(what + i * 7 + (i >> 8));
	n = pl_lane_send(l, out, sizeof(out), 0);
	if (n == (ssize_t)sizeof(out))
		n = pl_lane_recv(l, in, sizeof(in), PL_WAITALL);
	if (n < 0)
		return (int)n;
	return n == (ssize_t)sizeof(in) && !memcmp(in, out, sizeof(in)) ?
		       0 : -ENODATA;
}

static int child(struct pl_conn *conn, struct pl_lane *l, struct pl_region *r,
		 const char *file)
{
	struct pl_err err;
	struct pl_lane *other;
	unsigned char what = 0;
	int rc = talk(l, what++);

	say("child", rc ? strerror(-rc) : "works");
	if (pl_connect(conn, "127.0.0.1", "x", NULL, &other, &err) != -EPERM ||
	    pl_region_wait(r, 1, SOON_MS) < 0)
		return 1;
	while (rc == 0 && access(file, F_OK) < 0) {
		rc = talk(l, what++);
		usleep(5000);
	}
	say("child ended:", rc ? strerror(-rc) : "told to");
	pl_lane_close(l);
	pl_region_close(r);
	pl_close(conn);
	return 0;
}

int main(int argc, char **argv)
{
	struct pl_region *r;
	struct pl_conn *conn;
	struct pl_lane *l;
	struct pl_err err;
	int status, rc;
	pid_t pid;

	if (argc != 5)
		return 2;
	if (pl_open(&conn, &err) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &l, &err) < 0 ||
	    pl_region_open(conn, argv[1], argv[3], SOON_MS, &r, &err) < 0)
		return fail("begin", &err);
	if (talk(l, 99))
		return 1;
	pid = fork();
	if (pid == 0)
		_exit(child(conn, l, r, argv[4]));
	if (waitpid(pid, &status, 0) != pid || status)
		return 1;
	pl_lane_set_timeout(l, SOON_MS);
	/* What the child had under way comes first, if it was cut off. */
	while (pl_lane_recv(l, &status, 1, PL_DONTWAIT) > 0)
		;
	rc = pl_lane_shutdown(l);
	while (rc == 0 && (rc = (int)pl_lane_recv(l, &status, 1, 0)) > 0)
		rc = 0;
	say("parent", rc ? strerror(-rc) : "was not disturbed");
	rc = pl_region_wait(r, 1, 0);
	say("region", rc ? strerror(-rc) : "is there");
	pl_region_close(r);
	pl_lane_close(l);
	pl_close(conn);
	return 0;
}

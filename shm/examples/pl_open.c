/* pl_open: wait for the agent of this pod, then say which node it is of */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <podlane.h>

#define TRIES 100

int main(void)
{
	struct pl_conn *conn;
	struct pl_err why;
	int rc = pl_open(&conn, &why);

	/* The agent may be starting. */
	for (int i = 1; rc == -ECONNREFUSED && i < TRIES; i++) {
		usleep(100000);
		rc = pl_open(&conn, &why);
	}
	if (rc < 0)
		errx(1, "%s", why.msg);
	printf("served by %s\n", pl_conn_node(conn));
	pl_close(conn);
	return 0;
}

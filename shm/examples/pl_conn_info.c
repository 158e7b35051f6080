/* pl_conn_info: the address of this pod, and the node that it is on */
#include <err.h>
#include <stdio.h>

#include <podlane.h>

int main(void)
{
	struct pl_conn_info info;
	struct pl_conn *conn;
	struct pl_err why;

	if (pl_open(&conn, &why) < 0)
		errx(1, "%s", why.msg);
	pl_conn_info(conn, &info);
	printf("pod %s on node %s\n", info.addr, pl_conn_node(conn));
	pl_close(conn);
	return 0;
}

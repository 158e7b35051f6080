/*
 * pl_lane_sendv: messages with a header, gathered and scattered
 *
 *   pl_lane_sendv ADDRESS SERVICE TEXT...
 *
 * The service sends back what it gets.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <podlane.h>

struct header {
	uint32_t number;
	uint32_t bytes;
};

static void ask(struct pl_lane *lane, uint32_t number, char *text)
{
	struct header h = { number, (uint32_t)strlen(text) };
	const struct iovec out[] = { { &h, sizeof(h) }, { text, h.bytes } };
	char back[1024];
	struct header got;
	const struct iovec in[] = { { &got, sizeof(got) }, { back, h.bytes } };
	ssize_t n;

	if (h.bytes > sizeof(back))
		errx(2, "a text has %zu bytes at most", sizeof(back));
	n = pl_lane_sendv(lane, out, 2, 0);
	if (n > 0)
		n = pl_lane_recvv(lane, in, 2, PL_WAITALL);
	if (n < 0)
		errx(1, "%s", strerror((int)-n));
	if ((size_t)n < sizeof(got) + h.bytes || got.number != number)
		errx(1, "the stream has ended early, or is another one's");
	printf("%u: %.*s\n", got.number, (int)got.bytes, back);
}

int main(int argc, char **argv)
{
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;

	if (argc < 4)
		errx(2, "usage: pl_lane_sendv ADDRESS SERVICE TEXT...");
	if (pl_open(&conn, &why) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	for (int i = 3; i < argc; i++)
		ask(lane, (uint32_t)(i - 2), argv[i]);
	pl_lane_close(lane);
	pl_close(conn);
	return 0;
}

/*
 * tests/system/wire_tap.c - is this text on the wire?
 *
 *   wire_tap INTERFACE TEXT
 *
 * Looks at every frame that passes the interface, either way, until it is
 * killed. Says "tapping", and "seen" at the first one that has TEXT in it; when
 * 100 frames with data did not have it, "unseen".
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FRAME_MAX (1u << 18)
#define DATA_MIN 1000
#define FRAMES 100

static int fail(const char *what)
{
	perror(what);
	return 1;
}

int main(int argc, char **argv)
{
	struct sockaddr_ll sa = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
	char *buf = malloc(FRAME_MAX);
	unsigned int n = 0;

	if (argc != 3 || fd < 0 || !buf)
		return fail("wire_tap INTERFACE TEXT");
	sa.sll_ifindex = (int)if_nametoindex(argv[1]);
	if (!sa.sll_ifindex ||
	    bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return fail(argv[1]);
	puts("tapping");
	while (fflush(stdout) == 0) {
		ssize_t len = recv(fd, buf, FRAME_MAX, 0);

		if (len < 0)
			return fail("recv");
		if (memmem(buf, (size_t)len, argv[2], strlen(argv[2]))) {
			puts("seen");
			return fflush(stdout);
		}
		if (len >= DATA_MIN && ++n == FRAMES)
			puts("unseen");
	}
	return 1;
}

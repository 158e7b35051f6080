/*
 * tests/fuzz/fuzz_client.c - what pods say to their agent over @podlane
 *
 * Connections of two pods, opened and closed at any time, and any messages on
 * them and on their listeners; see agent.h. When the pods have gone, all that
 * was counted for them has been given back.
 */
#include "tests/fuzz/agent.h"

#define STEPS_MAX 32

static struct fuzz_agent agent;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_agent_init(&agent);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { data, size };

	agent.fd_free = fuzz_fd_free();
	fuzz_pod_connect(&agent, 0);
	for (int i = 0; i < STEPS_MAX && f.left; i++) {
		uint8_t what = fuzz_u8(&f);

		switch (what >> 5) {
		case 0:
			fuzz_pod_connect(&agent, what % PODS);
			break;
		case 1:
			pl_close_fd(&agent.sock[what % SOCKS_MAX]);
			break;
		default:
			fuzz_pod_message(&agent, &f);
		}
		if (what & 1)
			fuzz_loop(&agent);
		for (int j = 0; (what & 2) && j < SOCKS_MAX; j++)
			fuzz_sock_drain(&agent, j);
	}
	fuzz_loop(&agent);
	fuzz_agent_reset(&agent);
	HOLDS(!agent.broker->lanes && !agent.broker->openings);
	return 0;
}

/* tests/fuzz/fuzz_answer.c - what the plugin reads from the agent's socket */
#include <errno.h>
#include <sys/socket.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "tests/fuzz/fuzz.h"

#define BYTES_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pl_err err = { 0 };
	cJSON *answer = NULL;
	int fds[2], rc;

	if (size > BYTES_MAX)
		return 0;
	HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	HOLDS(pl_write_all(fds[1], data, size) == 0);
	shutdown(fds[1], SHUT_WR);
	rc = pl_agent_recv(fds[0], &answer, &err);
	/* The text may be the agent's, who may have none. */
	HOLDS(rc == 0 ? cJSON_IsObject(answer) : !answer && err.code == -rc);
	cJSON_Delete(answer);
	close(fds[0]);
	close(fds[1]);
	return 0;
}

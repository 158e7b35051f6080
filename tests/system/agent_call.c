/*
 * tests/system/agent_call.c - one request to the agent's socket, for scripts
 *
 * agent_call SOCKET JSON [NETNS]: sends the request, with the descriptor of the
 * namespace when one is named, and prints the answer. Exit status 1: "ok" is
 * false, and the message is on standard error.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/util.h"

int main(int argc, char **argv)
{
	pl_auto_json *request = NULL, *answer = NULL;
	pl_auto_fd fd = -1, ns = -1;
	struct pl_err err = { 0 };
	char *text;
	int rc;

	if (argc < 3)
		return 2;
	rc = pl_json_parse(argv[2], strlen(argv[2]), &request, &err);
	if (rc == 0 && argc > 3) {
		ns = open(argv[3], O_RDONLY | O_CLOEXEC);
		if (ns < 0)
			rc = pl_err_sys(&err, "cannot open %s", argv[3]);
	}
	if (rc == 0)
		rc = pl_agent_open(argv[1], &fd, &err);
	if (rc == 0)
		rc = pl_agent_call(fd, request, ns, &answer, &err);
	if (rc < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	text = cJSON_PrintUnformatted(answer);
	puts(text ? text : "");
	free(text);
	return 0;
}

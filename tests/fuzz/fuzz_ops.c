/*
 * tests/fuzz/fuzz_ops.c - requests of the plugin and of podlanectl
 *
 * Lines of JSON as the agent's socket takes them. The descriptor that comes
 * with some is of no namespace, so no pod comes about.
 */
#include "tests/fuzz/agent.h"

static struct fuzz_agent parts;
static const struct pl_agent_args args = { .node = "node1", .run_dir = "" };
static struct pl_agent agent;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct pl_err err = { 0 };

	(void)argc;
	(void)argv;
	fuzz_agent_init(&parts);
	agent.args = &args;
	agent.base = parts.base;
	agent.broker = parts.broker;
	agent.pods = parts.pods;
	pl_registry_init(&agent.none);
	HOLDS(pl_registry_seal(&agent.none, &err) == 0);
	parts.broker->registry = &agent.none;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *line = (const char *)data;
	size_t left = size;

	while (left) {
		const char *end = memchr(line, '\n', left);
		size_t len = end ? (size_t)(end - line) : left;
		cJSON *j = pl_op_run(&agent, line, len,
				     len % 2 ? parts.lane.fd : -1);
		char *text;

		HOLDS(j && cJSON_IsBool(cJSON_GetObjectItem(j, "ok")));
		text = cJSON_PrintUnformatted(j);
		HOLDS(text);
		free(text);
		cJSON_Delete(j);
		if (!end)
			break;
		left -= len + 1;
		line = end + 1;
	}
	return 0;
}

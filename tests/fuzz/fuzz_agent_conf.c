/* tests/fuzz/fuzz_agent_conf.c - the configuration file of podlaned */
#include "daemonset/agent.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pl_agent_conf c;
	struct pl_err err = { 0 };
	char path[32];
	int fd = fuzz_file(data, size, path);

	pl_agent_conf_default(&c);
	if (pl_agent_conf_load(path, &c, &err) < 0)
		HOLDS(err.code > 0 && err.msg[0]);
	else
		HOLDS(memchr(c.carrier, '\0', sizeof(c.carrier)) &&
		      memchr(c.state_dir, '\0', sizeof(c.state_dir)) &&
		      memchr(c.registry_file, '\0', sizeof(c.registry_file)));
	close(fd);
	return 0;
}

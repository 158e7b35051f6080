/* tests/fuzz/fuzz_kubeconfig.c - a kubeconfig, in YAML or JSON */
#include "daemonset/kube_conf.h"
#include "tests/fuzz/fuzz.h"

static bool is_line(const char *s)
{
	return !strpbrk(s, "\r\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[32];
	pl_auto_fd fd = -1;
	struct pl_err err = { 0 };
	struct pl_kube_conf c;

	fd = fuzz_file(data, size, path);
	if (pl_kube_conf_load(&c, path, &err) < 0) {
		HOLDS(err.code > 0 && err.msg[0] && is_line(err.msg));
		return 0;
	}
	HOLDS(!strncmp(c.server, "http://", 7) ||
	      !strncmp(c.server, "https://", 8));
	/* They go into a request as they are. */
	HOLDS(is_line(c.server) && (!c.token || is_line(c.token)));
	HOLDS(!c.token || !strncmp(c.server, "https://", 8));
	HOLDS(!*c.cert.file == !*c.key.file && !c.cert.data == !c.key.data);
	pl_kube_conf_fini(&c);
	return 0;
}

/* tests/unit/test_common_agentapi.c - answers of the agent, good and bad */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/agentapi.h"
#include "common/util.h"

static int answer(const char *text, struct pl_err *err)
{
	cJSON *j = NULL;
	int fds[2], rc;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				    fds), 0);
	assert_int_equal(pl_write_all(fds[1], text, strlen(text)), 0);
	close(fds[1]);
	*err = (struct pl_err){ 0 };
	rc = pl_agent_recv(fds[0], &j, err);
	assert_true(rc < 0 ? !j : cJSON_IsObject(j));
	assert_int_equal(err->code, -rc);
	cJSON_Delete(j);
	close(fds[0]);
	return rc;
}

static void answers(void **state)
{
	struct pl_err err;

	(void)state;
	assert_int_equal(answer("{\"ok\":true}\n", &err), 0);
	assert_int_equal(answer("{\"ok\":false,\"code\":11,\"msg\":\"m\"}\n",
				&err), -EAGAIN);
	assert_string_equal(err.msg, "m");
	assert_int_equal(answer("{\"ok\":false}\n", &err), -EPROTO);
	assert_int_equal(answer("{\"ok\":true}", &err), -ECONNRESET);
	assert_int_equal(answer("", &err), -ECONNRESET);
}

/* The message and the code are those of the answer, not of a setting. */
static void not_understood(void **state)
{
	static const char *const texts[] = {
		"{\"ok\":450}\n", "{\"ok\":false,\"code\":0}\n",
		"{\"ok\":false,\"code\":1,\"msg\":2}\n", "[]\n", "1\n",
	};
	struct pl_err err;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++)
		assert_int_equal(answer(texts[i], &err), -EPROTO);
	assert_int_equal(answer("{\n", &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers),
		cmocka_unit_test(not_understood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

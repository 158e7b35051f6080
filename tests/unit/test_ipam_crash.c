/*
 * tests/unit/test_ipam_crash.c - the allocator killed anywhere, in company,
 * and the work that it does
 *
 * All effects of the allocator on the directory are system calls. So a child
 * that is traced and killed at its first, second, third ... system call passes
 * through every state that a SIGKILL can leave, each exactly once.
 */
#include "tests/unit/ipam_test.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define DUAL "[[{'subnet': '10.1.0.0/29'}], [{'subnet': 'fd00::/125'}]]"
#define DUAL_SIZE 5
#define STEPS_MAX 100000

/* --- a traced child --- */

struct trace {
	long kill_at;		/* before this call; 0: let it end */
	long calls;		/* system calls between begin and end */
	long dir_reads;		/* getdents64 among them */
	bool killed;
	int rc;			/* of the child, when it ended */
};

static int wait_stop(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	return status;
}

static void step_until_end(pid_t pid, struct trace *t)
{
	struct __ptrace_syscall_info info;
	int status = 0;

	for (long stop = 0; stop < STEPS_MAX; stop++) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, pid, 0, 0), 0);
		status = wait_stop(pid);
		if (!WIFSTOPPED(status))
			break;
		memset(&info, 0, sizeof(info));
		ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info);
		if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
			continue;
		t->calls++;
		t->dir_reads += info.entry.nr == SYS_getdents64;
		if (t->calls == t->kill_at) {
			kill(pid, SIGKILL);
			wait_stop(pid);
			t->killed = true;
			return;
		}
	}
	assert_true(WIFEXITED(status));
	t->rc = WEXITSTATUS(status);
}

/* Run fn in a traced child. Skips the test where tracing is not allowed. */
static void traced(int (*fn)(struct scratch *s, const char *id),
		   struct scratch *s, const char *id, struct trace *t)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
			_exit(77);
		raise(SIGSTOP);
		_exit(fn(s, id) < 0);
	}
	status = wait_stop(pid);
	if (!WIFSTOPPED(status)) {
		print_message("ptrace is not allowed here\n");
		skip();
	}
	ptrace(PTRACE_SETOPTIONS, pid, 0,
	       PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
	t->calls = t->dir_reads = 0;
	t->killed = false;
	t->rc = -1;
	step_until_end(pid, t);
}

static int do_add(struct scratch *s, const char *id)
{
	char text[INET6_ADDRSTRLEN];

	return add(s, id, text);
}

static int do_del(struct scratch *s, const char *id)
{
	return del(s, id);
}

static int do_gc(struct scratch *s, const char *id)
{
	const struct pl_ipam_key valid[] = { { "x", "eth0" }, { "y", "eth0" } };

	(void)id;
	return pl_ipam_gc(&s->cfg.where, valid, 2, NULL, &s->err);
}

/* --- killed at every system call --- */

static int on_entry(const struct pl_ipam_entry *e, void *arg)
{
	int *n = arg;

	++*n;
	return *e->container_id == '\0';
}

/* Every file is a whole reservation, and as many can be had as there are. */
static void check_whole(struct scratch *s, int others)
{
	int n = 0, files = count_files(s);

	assert_int_equal(pl_ipam_list(&s->cfg.where, on_entry, &n, &s->err), 0);
	assert_int_equal(n, files);
	assert_int_equal(n, 2 * others);
	assert_int_equal(fill(s, "fill"), DUAL_SIZE - others);
	for (int i = 0; i < DUAL_SIZE - others; i++) {
		char id[32];

		snprintf(id, sizeof(id), "fill-%d", i);
		assert_del(s, id);
	}
	assert_int_equal(count_files(s), 2 * others);
	assert_false(has_file(s, ".podlane.new"));
	assert_false(has_file(s, ".podlane.index.new"));
}

/* What comes after the kill: by turns DEL, GC, or another's ADD and DEL. */
static void recover(struct scratch *s, long how)
{
	struct pl_ipam_result res;
	char text[INET6_ADDRSTRLEN];

	switch (how % 4) {
	case 0:
		assert_del(s, "victim");
		break;
	case 1:
		assert_int_equal(do_gc(s, NULL), 0);
		break;
	case 2:
		assert_int_equal(pl_ipam_add(&s->cfg, "victim", "eth0",
					     PL_IPAM_REUSE, &res, &s->err), 0);
		assert_int_equal(res.n_ips, 2);
		assert_del(s, "victim");
		break;
	default:
		assert_int_equal(add(s, "z", text), 0);
		assert_del(s, "z");
		assert_del(s, "victim");
		break;
	}
}

static void kill_everywhere(void **state,
			    int (*fn)(struct scratch *s, const char *id),
			    bool before, int others)
{
	struct scratch *s = *state;
	char text[INET6_ADDRSTRLEN];
	long at = 0;

	scratch_init(s, DUAL);
	for (struct trace t = { .killed = true }; t.killed; at++) {
		for (long how = 0; how < 4; how++) {
			assert_int_equal(!others || !add(s, "x", text), 1);
			assert_int_equal(!others || !add(s, "y", text), 1);
			if (before)
				assert_int_equal(add(s, "victim", text), 0);
			t.kill_at = at + 1;
			traced(fn, s, "victim", &t);
			recover(s, how);
			check_whole(s, others);
			/* Without others the next one finds no folder. */
			if (!others)
				scratch_wipe(s);
			else
				assert_int_equal(pl_ipam_gc(&s->cfg.where, NULL,
							    0, NULL, &s->err),
						 0);
		}
		assert_true(at < 2000);
	}
	/* The last one ran to its end, and there was something to kill. */
	assert_true(at > 20);
}

static void test_add_killed_everywhere(void **state)
{
	kill_everywhere(state, do_add, false, 2);
}

static void test_first_add_killed_everywhere(void **state)
{
	kill_everywhere(state, do_add, false, 0);
}

static void test_del_killed_everywhere(void **state)
{
	kill_everywhere(state, do_del, true, 2);
}

static void test_gc_killed_everywhere(void **state)
{
	kill_everywhere(state, do_gc, true, 2);
}

/* --- the work of an ADD --- */

static void test_work_is_constant(void **state)
{
	static const int marks[] = { 8, 100, 1000, 4000, 4090 };
	struct trace t = { 0 };
	struct scratch *s = *state;
	char id[32], text[INET6_ADDRSTRLEN];
	long add_calls = 0, del_calls = 0;
	int n = 0;

	scratch_init(s, "[[{'subnet': '10.1.0.0/20'}]]");	/* 4093 */
	for (size_t i = 0; i < PL_ARRAY_SIZE(marks); i++) {
		for (; n < marks[i]; n++) {
			snprintf(id, sizeof(id), "pod-%d", n);
			assert_int_equal(add(s, id, text), 0);
		}
		traced(do_add, s, "traced", &t);
		assert_int_equal(t.rc, 0);
		assert_int_equal(t.dir_reads, 0);
		/* Another block of the map may be looked at, no more. */
		if (i == 0)
			add_calls = t.calls;
		assert_in_range(t.calls, add_calls - 3, add_calls + 3);
		traced(do_del, s, "traced", &t);
		assert_int_equal(t.rc, 0);
		assert_int_equal(t.dir_reads, 0);
		if (i == 0)
			del_calls = t.calls;
		assert_in_range(t.calls, del_calls - 3, del_calls + 3);
		/* And of a DEL that finds nothing. */
		traced(do_del, s, "traced", &t);
		assert_int_equal(t.dir_reads, 0);
		assert_true(t.calls < del_calls);
	}
	assert_true(add_calls < 60);
}

/* --- several at once --- */

#define WORKERS 8
#define KEYS 4
#define CROWD "[[{'subnet': '10.1.0.0/27'}]]"	/* .2 to .30 */
#define CROWD_SIZE 29

struct crowd {
	atomic_int owner[32];	/* worker + 1, by the last byte */
	atomic_int doubled, failed, adds;
	atomic_bool stop;
};

static int slot_of(const char *text)
{
	return (int)strtol(strrchr(text, '.') + 1, NULL, 10) & 31;
}

static void own(struct crowd *c, int worker, int slot)
{
	int nobody = 0;

	if (!atomic_compare_exchange_strong(&c->owner[slot], &nobody,
					    worker + 1))
		atomic_fetch_add(&c->doubled, 1);
	atomic_fetch_add(&c->adds, 1);
}

/* ADD and DEL at random until told to stop; marks what it has. */
static void crowd_worker(struct scratch *s, struct crowd *c, int worker,
			 int rounds)
{
	char text[KEYS][INET6_ADDRSTRLEN] = { "" }, id[32];
	unsigned int seed = (unsigned int)getpid();

	while (rounds-- && !atomic_load(&c->stop)) {
		int k = rand_r(&seed) % KEYS;

		snprintf(id, sizeof(id), "w%d-%d", worker, k);
		if (*text[k]) {
			atomic_store(&c->owner[slot_of(text[k])], 0);
			if (del(s, id) < 0)
				atomic_fetch_add(&c->failed, 1);
			*text[k] = '\0';
		} else if (add(s, id, text[k]) == 0) {
			own(c, worker, slot_of(text[k]));
		} else if (pl_cni_code(&s->err) != PL_CNI_EXHAUSTED) {
			fprintf(stderr, "%s\n", s->err.msg);
			atomic_fetch_add(&c->failed, 1);
		}
	}
}

static pid_t crowd_start(struct scratch *s, struct crowd *c, int worker,
			 int rounds)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		crowd_worker(s, c, worker, rounds);
		_exit(0);
	}
	return pid;
}

static void crowd_clear(struct scratch *s, struct crowd *c, int worker)
{
	for (int i = 0; i < 32; i++) {
		int mine = worker + 1;

		atomic_compare_exchange_strong(&c->owner[i], &mine, 0);
	}
	for (int k = 0; k < KEYS; k++) {
		char id[32];

		snprintf(id, sizeof(id), "w%d-%d", worker, k);
		assert_del(s, id);
	}
}

static struct crowd *crowd_map(void)
{
	struct crowd *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(c != MAP_FAILED);
	return c;
}

static void crowd_end(struct scratch *s, struct crowd *c)
{
	assert_int_equal(atomic_load(&c->doubled), 0);
	assert_int_equal(atomic_load(&c->failed), 0);
	assert_true(atomic_load(&c->adds) > 100);
	for (int i = 0; i < WORKERS; i++)
		crowd_clear(s, c, i);
	assert_int_equal(count_files(s), 0);
	assert_int_equal(fill(s, "fill"), CROWD_SIZE);
	munmap(c, sizeof(*c));
}

static void test_eight_processes(void **state)
{
	struct crowd *c = crowd_map();
	struct scratch *s = *state;
	pid_t pids[WORKERS];

	scratch_init(s, CROWD);
	for (int i = 0; i < WORKERS; i++)
		pids[i] = crowd_start(s, c, i, 400);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(wait_stop(pids[i]), 0);
	crowd_end(s, c);
}

static void test_killed_at_random(void **state)
{
	struct crowd *c = crowd_map();
	unsigned int seed = 11;
	struct scratch *s = *state;
	pid_t pids[3];

	scratch_init(s, CROWD);
	for (int i = 0; i < 3; i++)
		pids[i] = crowd_start(s, c, i, 1 << 30);
	for (int n = 0; n < 400; n++) {
		struct timespec pause = {
			.tv_nsec = rand_r(&seed) % 3000000,
		};
		int i = n % 3;

		nanosleep(&pause, NULL);
		kill(pids[i], SIGKILL);
		wait_stop(pids[i]);
		/* As a runtime does: DEL for what it had asked for. */
		crowd_clear(s, c, i);
		pids[i] = crowd_start(s, c, i, 1 << 30);
	}
	atomic_store(&c->stop, true);
	for (int i = 0; i < 3; i++)
		wait_stop(pids[i]);
	crowd_end(s, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_add_killed_everywhere),
		scratch_test(test_first_add_killed_everywhere),
		scratch_test(test_del_killed_everywhere),
		scratch_test(test_gc_killed_everywhere),
		scratch_test(test_work_is_constant),
		scratch_test(test_eight_processes),
		scratch_test(test_killed_at_random),
	};

	return cmocka_run_group_tests_name("ipam crash", tests, NULL, NULL);
}

/*
 * bench/ps_child.c - roles as processes in pods, and waiting for all of them
 */
#include "bench/ps_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/json.h"
#include "common/util.h"

#define REPORT_MAX (16u << 20)
/* How long the others have to notice that one of them failed. */
#define GRACE_MS 3000

/* --- start --- */

struct start {
	const char *netns;
	char **argv;
	int report, err;
	pid_t parent;
};

static void die(const char *what)
{
	dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(errno));
	_exit(1);
}

static void enter_netns(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		die(path);
}

static void run_child(const struct start *s)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char number[16];
	sigset_t none;
	int i = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != s->parent)
		_exit(1);
	setpgid(0, 0);
	dup2(s->err, STDERR_FILENO);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(null, STDOUT_FILENO) < 0 || fcntl(s->report, F_SETFD, 0) < 0)
		die("descriptors");
	enter_netns(s->netns);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	snprintf(number, sizeof(number), "%d", s->report);
	while (s->argv[i])
		i++;
	s->argv[i] = (char *)"--report";
	s->argv[i + 1] = number;
	s->argv[i + 2] = NULL;
	execv("/proc/self/exe", s->argv);
	die("cannot execute this program again");
}

/* Both ends close-on-exec, ours does not block. */
static int make_pipe(int *ours, int *theirs, struct pl_err *err)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return pl_err_sys(err, "cannot make a pipe");
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	*ours = p[0];
	*theirs = p[1];
	return 0;
}

int ps_child_start(struct ps_child *c, const char *name, const char *netns,
		   char **argv, struct pl_err *err)
{
	struct start s = { .netns = netns, .argv = argv, .parent = getpid() };
	pl_auto_fd report = -1, errors = -1;

	memset(c, 0, sizeof(*c));
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->pidfd = c->report.fd = c->err.fd = -1;
	if (make_pipe(&c->report.fd, &report, err) < 0 ||
	    make_pipe(&c->err.fd, &errors, err) < 0)
		return -EMFILE;
	s.report = report;
	s.err = errors;
	c->pid = fork();
	if (c->pid == 0)
		run_child(&s);
	if (c->pid < 0) {
		c->pid = 0;
		return pl_err_sys(err, "cannot start %s", name);
	}
	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pidfd < 0)
		return pl_err_sys(err, "cannot watch %s", name);
	fcntl(c->pidfd, F_SETFD, FD_CLOEXEC);
	return 0;
}

/* --- wait --- */

static void stream_end(struct ps_stream *s)
{
	pl_close_fd(&s->fd);
}

/* Whatever is there. A text beyond max is cut. */
static void stream_read(struct ps_stream *s, size_t max)
{
	char buf[8192], *more;
	ssize_t n;

	while (s->fd >= 0) {
		n = read(s->fd, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			stream_end(s);
			return;
		}
		if (s->len + (size_t)n > max)
			n = (ssize_t)(max - s->len);
		more = realloc(s->text, s->len + (size_t)n + 1);
		if (!more) {
			stream_end(s);
			return;
		}
		memcpy(more + s->len, buf, (size_t)n);
		s->text = more;
		s->len += (size_t)n;
		more[s->len] = '\0';
	}
}

static void child_reap(struct ps_child *c, unsigned int order)
{
	siginfo_t si = { 0 };

	if (waitid(P_PID, (id_t)c->pid, &si, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	    si.si_pid == 0)
		return;
	waitpid(c->pid, &c->status, 0);
	c->ended = true;
	c->order = order;
	c->pid = 0;
	pl_close_fd(&c->pidfd);
	/* A grandchild could hold them open: take what is there. */
	stream_read(&c->report, REPORT_MAX);
	stream_read(&c->err, PS_CHILD_ERR);
	stream_end(&c->report);
	stream_end(&c->err);
}

struct wait {
	struct ps_child *c;
	unsigned int n, ended;
	struct pollfd *p;		/* 1 + 3 * n */
	const struct ps_watch *watch;
	bool failed, interrupted, late, stopped;
	uint64_t deadline_ns;		/* then all are killed */
	uint64_t tick_ns;
};

static void child_poll(struct wait *w, struct ps_child *c)
{
	stream_read(&c->report, REPORT_MAX);
	stream_read(&c->err, PS_CHILD_ERR);
	if (c->ended)
		return;
	child_reap(c, w->ended + 1);
	if (!c->ended)
		return;
	w->ended++;
	if (!c->status || w->failed)
		return;
	w->failed = true;
	w->deadline_ns = PL_MIN(w->deadline_ns,
				pl_now_ns() + GRACE_MS * 1000000ull);
}

static void kill_all(struct wait *w)
{
	for (unsigned int i = 0; i < w->n; i++) {
		struct ps_child *c = &w->c[i];

		if (c->ended || c->put_down)
			continue;
		c->put_down = true;
		kill(c->pid, SIGKILL);
	}
}

/* Milliseconds until there is something to do without an event. */
static int next_ms(const struct wait *w, uint64_t now)
{
	uint64_t at = PL_MIN(w->deadline_ns, w->tick_ns);

	return at <= now ? 0 : (int)PL_MIN((at - now) / 1000000 + 1, 1000u);
}

static void poll_events(struct wait *w)
{
	struct pollfd *p = w->p;
	nfds_t n = 1;

	p[0] = (struct pollfd){ w->watch->signal_fd, POLLIN, 0 };
	if (w->interrupted)
		p[0].fd = -1;
	for (unsigned int i = 0; i < w->n; i++) {
		const struct ps_child *c = &w->c[i];

		if (c->ended)
			continue;
		p[n++] = (struct pollfd){ c->pidfd, POLLIN, 0 };
		p[n++] = (struct pollfd){ c->report.fd, POLLIN, 0 };
		p[n++] = (struct pollfd){ c->err.fd, POLLIN, 0 };
	}
	if (poll(p, n, next_ms(w, pl_now_ns())) <= 0)
		return;
	if (p[0].revents)
		w->interrupted = true;
}

static void step(struct wait *w)
{
	uint64_t now;

	poll_events(w);
	for (unsigned int i = 0; i < w->n; i++)
		child_poll(w, &w->c[i]);
	now = pl_now_ns();
	if (now >= w->tick_ns) {
		w->tick_ns = now + PS_TICK_MS * 1000000ull;
		if (w->watch->tick && !w->watch->tick(w->watch->arg))
			w->stopped = true;
	}
	if (now >= w->deadline_ns) {
		w->late = !w->failed && !w->interrupted;
		w->deadline_ns = UINT64_MAX;
		kill_all(w);
	}
	if (w->interrupted || w->stopped)
		kill_all(w);
}

/* --- what went wrong --- */

/* What the child itself said, or NULL. */
static const char *own_words(const struct ps_child *c, cJSON **doc)
{
	const char *s = NULL;
	char *nl;

	if (c->report.text &&
	    pl_json_parse(c->report.text, c->report.len, doc, NULL) == 0)
		pl_json_str(*doc, "", "error", &s, NULL);
	if (s)
		return s;
	if (!c->err.text)
		return NULL;
	nl = strrchr(c->err.text, '\n');
	if (nl && !nl[1])
		*nl = '\0';
	return c->err.text;
}

static int describe(const struct ps_child *c, struct pl_err *err)
{
	pl_auto_json *doc = NULL;
	const char *words = own_words(c, &doc);

	if (WIFSIGNALED(c->status))
		return pl_err_set(err, ECHILD, "%s was killed by signal %d "
				  "(%s)", c->name, WTERMSIG(c->status),
				  strsignal(WTERMSIG(c->status)));
	return pl_err_set(err, ECHILD, "%s failed: %s", c->name,
			  words ? words : "it said nothing");
}

/* A signal killed it; it failed; it only noticed that another one had gone. */
static unsigned int blame(const struct ps_child *c)
{
	pl_auto_json *doc = NULL;
	bool peer_gone = false;

	if (WIFSIGNALED(c->status))
		return 3;
	if (c->report.text &&
	    pl_json_parse(c->report.text, c->report.len, &doc, NULL) == 0)
		pl_json_bool(doc, "", "peer_gone", &peer_gone, NULL);
	return peer_gone ? 1 : 2;
}

/* The one to blame most; of several the one that failed first. */
static const struct ps_child *culprit(const struct wait *w)
{
	const struct ps_child *best = NULL;
	unsigned int most = 0;

	for (unsigned int i = 0; i < w->n; i++) {
		const struct ps_child *c = &w->c[i];
		unsigned int much;

		if (!c->status || c->put_down)
			continue;
		much = blame(c);
		if (much > most || (much == most && c->order < best->order)) {
			best = c;
			most = much;
		}
	}
	return best;
}

int ps_children_wait(struct ps_child *c, unsigned int n,
		     const struct ps_watch *watch, int timeout_ms,
		     struct pl_err *err)
{
	struct wait w = { .c = c, .n = n, .watch = watch };
	const struct ps_child *bad;

	w.p = calloc(1 + 3 * (size_t)n, sizeof(*w.p));
	if (!w.p)
		return pl_err_set(err, ENOMEM, "out of memory");
	w.tick_ns = pl_now_ns();
	w.deadline_ns = w.tick_ns + (uint64_t)timeout_ms * 1000000;
	while (w.ended < n)
		step(&w);
	free(w.p);
	if (w.interrupted)
		return pl_err_set(err, EINTR, "interrupted");
	if (w.stopped)
		return pl_err_set(err, ECANCELED, "stopped");
	bad = culprit(&w);
	if (bad)
		return describe(bad, err);
	if (w.late)
		return pl_err_set(err, ETIMEDOUT, "no end after %d s",
				  timeout_ms / 1000);
	return 0;
}

void ps_children_end(struct ps_child *c, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		if (c[i].pid > 0) {
			kill(c[i].pid, SIGKILL);
			waitpid(c[i].pid, NULL, 0);
		}
		if (!c[i].name[0])
			continue;
		pl_close_fd(&c[i].pidfd);
		stream_end(&c[i].report);
		stream_end(&c[i].err);
		free(c[i].report.text);
		free(c[i].err.text);
	}
	memset(c, 0, n * sizeof(*c));
}

int ps_watch_init(struct ps_watch *watch, struct pl_err *err)
{
	sigset_t set;

	memset(watch, 0, sizeof(*watch));
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	watch->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return watch->signal_fd < 0 ? pl_err_sys(err, "signalfd") : 0;
}

bool ps_watch_interrupted(const struct ps_watch *watch)
{
	struct pollfd p = { watch->signal_fd, POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

/*
 * shm/keeper.c - the thread that finds the next agent when one has gone
 *
 * Theory of operation
 *
 * One thread for each connection, which sleeps in poll until the agent hangs
 * up. It is needed because a program may do anything but call the library while
 * its bytes lie in a ring and nobody carries them.
 *
 * While the agent is away, requests of the program wait. The keeper dials with
 * growing pauses; when an agent has answered HELLO, it shows all objects, once
 * each, and only then lets requests through: they may be about what was shown.
 * What could not be shown yet, as the agent does not know something yet, is
 * tried again every RETRY_MS until resume_ms have passed since the loss.
 *
 * All signals are blocked in it: handlers are the program's affair.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/util.h"
#include "shm/conn.h"

#define HELLO_MS 2000
#define DIAL_FIRST_MS 5
#define DIAL_MAX_MS 200
#define RETRY_MS 50
#define STACK_BYTES (256u << 10)

void pl_keeper_poke(struct pl_conn *conn)
{
	const uint64_t one = 1;

	/* A counter that is full is readable. */
	if (conn->has_keeper &&
	    write(conn->poke_fd, &one, sizeof(one)) < 0)
		return;
}

static bool can_wait(int rc)
{
	switch (rc) {
	case -EAGAIN:
	case -EHOSTUNREACH:
	case -ECONNRESET:
	case -ETIMEDOUT:
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
	case -EINPROGRESS:
		return true;
	default:
		return false;
	}
}

/* --- objects ------------------------------------------------------------- */

static void each_away(struct pl_conn *c)
{
	struct pl_conn_obj *o;

	pthread_mutex_lock(&c->objs_lock);
	LIST_FOREACH(o, &c->objs, of_conn)
		if (!o->is_lost && o->ops->away)
			o->ops->away(o);
	pthread_mutex_unlock(&c->objs_lock);
}

static void each_lost(struct pl_conn *c)
{
	struct pl_conn_obj *o;

	pthread_mutex_lock(&c->objs_lock);
	LIST_FOREACH(o, &c->objs, of_conn)
		pl_conn_obj_lose(o);
	pthread_mutex_unlock(&c->objs_lock);
}

/* One that this agent does not know and that was not tried this round. */
static struct pl_conn_obj *next_obj(struct pl_conn *c, uint32_t epoch,
				    uint32_t round)
{
	struct pl_conn_obj *o, *found = NULL;

	pthread_mutex_lock(&c->objs_lock);
	LIST_FOREACH(o, &c->objs, of_conn) {
		if (o->epoch == epoch || o->round == round || o->is_lost)
			continue;
		if (!found || o->ops->rank < found->ops->rank)
			found = o;
	}
	if (found) {
		found->round = round;
		found->busy = true;
	}
	pthread_mutex_unlock(&c->objs_lock);
	return found;
}

static void done_obj(struct pl_conn *c, struct pl_conn_obj *o, int rc,
		     uint32_t epoch, bool is_late)
{
	pthread_mutex_lock(&c->objs_lock);
	o->busy = false;
	if (rc == 0)
		o->epoch = epoch;
	else if (!can_wait(rc) || (is_late && rc != -EINPROGRESS))
		pl_conn_obj_lose(o);
	pthread_cond_broadcast(&c->idle);
	pthread_mutex_unlock(&c->objs_lock);
}

/* Returns whether something has to be tried again. */
static bool show_all(struct pl_conn *c, uint32_t *round)
{
	const uint32_t epoch = c->epoch;
	struct pl_conn_obj *o;
	bool again = false;

	++*round;
	while (!atomic_load(&c->ending) && (o = next_obj(c, epoch, *round))) {
		bool is_late = pl_now_ns() - c->away_ns >
			       (uint64_t)c->resume_ms * 1000000u;
		int rc = o->ops->resume(o);

		again = again || rc < 0;
		done_obj(c, o, rc, epoch, is_late);
	}
	return again;
}

/* --- the agent ----------------------------------------------------------- */

/* Hung up, or never there. */
static bool is_gone(const struct pl_conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	return c->fd < 0 || poll(&p, 1, 0) > 0;
}

static void go_away(struct pl_conn *c)
{
	pthread_mutex_lock(&c->lock);
	pl_conn_lose(c, -ECONNRESET);
	pl_close_fd(&c->fd);
	pthread_mutex_unlock(&c->lock);
	each_away(c);
}

/* For good: whoever waits is told. */
static void give_up(struct pl_conn *c)
{
	pthread_mutex_lock(&c->lock);
	if (!c->broken)
		c->broken = -ECONNRESET;
	c->away = false;
	pthread_cond_broadcast(&c->moved);
	pthread_mutex_unlock(&c->lock);
	each_lost(c);
}

/* Returns whether an agent is there, to which nothing was shown yet. */
static bool look_for(struct pl_conn *c)
{
	int fd = c->dial(c->dial_arg, NULL), rc;

	if (fd < 0)
		return false;
	pthread_mutex_lock(&c->lock);
	c->fd = fd;
	c->late = false;
	rc = pl_conn_hello(c, HELLO_MS, NULL);
	if (rc < 0) {
		/* It may be at its limits; the next one may not. */
		c->broken = 0;
		pl_close_fd(&c->fd);
	} else {
		c->epoch++;
	}
	pthread_mutex_unlock(&c->lock);
	return rc == 0;
}

static void open_gate(struct pl_conn *c)
{
	pthread_mutex_lock(&c->lock);
	c->away = false;
	pthread_cond_broadcast(&c->moved);
	pthread_mutex_unlock(&c->lock);
	pl_conn_flush(c);
}

/* Until the agent hangs up, somebody pokes, or time is up. */
static void doze(struct pl_conn *c, int timeout_ms)
{
	struct pollfd p[2] = {
		{ .fd = c->poke_fd, .events = POLLIN },
		{ .fd = c->fd, .events = POLLRDHUP },
	};
	uint64_t n;

	if (poll(p, 2, timeout_ms) > 0 && (p[0].revents & POLLIN) &&
	    read(c->poke_fd, &n, sizeof(n)) < 0)
		return;
}

static void *keep(void *arg)
{
	struct pl_conn *c = arg;
	int pause_ms = DIAL_FIRST_MS;
	uint32_t round = 0;
	bool again = false;

	while (!atomic_load(&c->ending)) {
		if (!is_gone(c)) {
			again = show_all(c, &round);
			if (c->away && !is_gone(c))
				open_gate(c);
			if (!is_gone(c))
				doze(c, again ? RETRY_MS : -1);
			pause_ms = DIAL_FIRST_MS;
			continue;
		}
		if (c->fd >= 0)
			go_away(c);
		if (c->broken || pl_now_ns() - c->away_ns >
				 (uint64_t)c->resume_ms * 1000000u) {
			give_up(c);
			break;
		}
		if (look_for(c))
			continue;
		doze(c, pause_ms);
		pause_ms = PL_MIN(pause_ms * 2, DIAL_MAX_MS);
	}
	return NULL;
}

/* --- started, stopped ----------------------------------------------------- */

static int start_thread(struct pl_conn *c)
{
	pthread_attr_t attr;
	sigset_t all, was;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = pthread_create(&c->keeper, &attr, keep, c);
	/* A program with much thread-local data needs the default. */
	if (rc == EINVAL)
		rc = pthread_create(&c->keeper, NULL, keep, c);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return rc;
}

int pl_keeper_start(struct pl_conn *conn, struct pl_err *err)
{
	int rc;

	conn->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (conn->poke_fd < 0)
		return pl_err_sys(err, "cannot make a descriptor");
	conn->has_keeper = true;
	rc = start_thread(conn);
	if (rc == 0)
		return 0;
	conn->has_keeper = false;
	return pl_err_set(err, rc, "cannot start the thread that keeps the "
			  "connection to the agent: %s", strerror(rc));
}

void pl_keeper_stop(struct pl_conn *conn)
{
	/* A child of fork does not have the thread. */
	if (conn->has_keeper && pl_conn_is_ours(conn)) {
		atomic_store(&conn->ending, true);
		pl_keeper_poke(conn);
		pthread_join(conn->keeper, NULL);
	}
	conn->has_keeper = false;
	pl_close_fd(&conn->poke_fd);
}

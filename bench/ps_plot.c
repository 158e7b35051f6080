/*
 * bench/ps_plot.c - a picture of the results by gnuplot
 *
 * gnuplot gets script and data on standard input and draws into the folder of
 * the run; the picture is put in its place when it is whole.
 */
#include "bench/ps_result.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "common/util.h"

#define GNUPLOT_MS 30000
#define PNG_MAX (64u << 20)

extern char **environ;

int ps_plot_check(struct pl_err *err)
{
	const char *at = getenv("PATH");
	char path[PS_FILE_BYTES];

	while (at && *at) {
		int len = (int)strcspn(at, ":");

		if (len && pl_format(path, sizeof(path), "%.*s/gnuplot", len,
				     at) > 0 && access(path, X_OK) == 0)
			return 0;
		at += len;
		at += *at == ':';
	}
	return pl_err_set(err, ENOENT, "--plot needs gnuplot; install it with: "
			  "apt-get install gnuplot-nox");
}

static const struct ps_result *find(const struct ps_result *r, unsigned int n,
				    const struct ps_case *c,
				    enum ps_transport t)
{
	for (unsigned int i = 0; i < n; i++)
		if (r[i].c.model == c->model &&
		    r[i].c.placement == c->placement && r[i].c.transport == t)
			return &r[i];
	return NULL;
}

static void data_row(const struct ps_result *r, unsigned int n,
		     const struct ps_case *c, FILE *f)
{
	const struct ps_result *o = find(r, n, c, PS_OVERLAY);
	const struct ps_result *p = find(r, n, c, PS_PODLANE);
	char label[24] = "";

	if (o && p && isfinite(p->speedup_vs_overlay))
		snprintf(label, sizeof(label), "%.1f times",
			 p->speedup_vs_overlay);
	fprintf(f, "\"%s\\n%s\" %.6g %.6g \"%s\"\n", c->model->name,
		ps_placement_name(c->placement),
		o ? o->grad_bytes_per_s / 1e9 : 0,
		p ? p->grad_bytes_per_s / 1e9 : 0, label);
}

static void script(const struct ps_bench *b, const struct ps_result *r,
		   unsigned int n, const char *png, FILE *f)
{
	fprintf(f, "$d << EOD\n");
	for (unsigned int i = 0; i < n; i++)
		if (i == 0 || r[i].c.model != r[i - 1].c.model ||
		    r[i].c.placement != r[i - 1].c.placement)
			data_row(r, n, &r[i].c, f);
	fprintf(f, "EOD\n"
		"set terminal pngcairo size 1000,600 font 'sans,12' "
		"noenhanced\n"
		"set output '%s'\n"
		"set title 'Gradients from %u workers to %u parameter "
		"server%s and back'\n"
		"set ylabel 'gradient GB/s, more is better'\n"
		"set style data histogram\n"
		"set style histogram clustered gap 1\n"
		"set style fill solid 0.9 border -1\n"
		"set boxwidth 0.9\n"
		"set yrange [0:*]\nset offsets 0,0,graph 0.08,0\n"
		"set grid ytics\nset bmargin 4\nset key top left\n"
		"plot $d using 2:xtic(1) title 'overlay' lc rgb '#9aa5b1',"
		" '' using 3 title 'podlane' lc rgb '#1f77b4',"
		" '' using 0:3:4 with labels offset 3,0.8 notitle\n", png,
		b->o.workers, b->o.servers, b->o.servers > 1 ? "s" : "");
}

static int wait_bounded(pid_t pid, int *status)
{
	struct timespec nap = { .tv_nsec = 10000000 };

	for (int ms = 0; ms < GNUPLOT_MS; ms += 10) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return 0;
		nanosleep(&nap, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, status, 0);
	return -ETIMEDOUT;
}

static int run_gnuplot(int script_fd, struct pl_err *err)
{
	char *argv[] = { (char *)"gnuplot", NULL };
	pl_auto_fd null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	posix_spawn_file_actions_t fa;
	int rc, status = 0;
	pid_t pid;

	if (null < 0)
		return pl_err_sys(err, "/dev/null");
	rc = posix_spawn_file_actions_init(&fa);
	if (rc)
		return pl_err_set(err, rc, "gnuplot: %s", strerror(rc));
	posix_spawn_file_actions_adddup2(&fa, script_fd, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&fa, null, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&fa, null, STDERR_FILENO);
	rc = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	if (rc)
		return pl_err_set(err, rc, "cannot execute gnuplot: %s",
				  strerror(rc));
	rc = wait_bounded(pid, &status);
	if (rc < 0 || status)
		return pl_err_set(err, EIO, "gnuplot failed (status %d)",
				  status);
	return 0;
}

static int copy_to(const char *from, const char *to, struct pl_err *err)
{
	pl_auto_free char *data = NULL;
	size_t len;
	int rc = pl_file_read(from, PNG_MAX, &data, &len, err);

	return rc < 0 ? rc : pl_file_replace(to, data, len, 0644, err);
}

int ps_plot_write(const struct ps_bench *b, const struct ps_result *r,
		  unsigned int n, const char *path, struct pl_err *err)
{
	pl_auto_fd fd = memfd_create("gnuplot", MFD_CLOEXEC);
	char png[PS_FILE_BYTES];
	FILE *f;
	int rc;

	pl_format(png, sizeof(png), "%s/plot.png", b->cluster.dir);
	f = fd < 0 ? NULL : fdopen(dup(fd), "w");
	if (!f)
		return pl_err_sys(err, "cannot make a file in memory");
	script(b, r, n, png, f);
	rc = fclose(f);
	if (rc || lseek(fd, 0, SEEK_SET) < 0)
		return pl_err_sys(err, "cannot write gnuplot's script");
	rc = run_gnuplot(fd, err);
	return rc < 0 ? rc : copy_to(png, path, err);
}

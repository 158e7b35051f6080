/* bench/ps_plot.c - a picture of the results by gnuplot */
#include "bench/ps_result.h"

#include <math.h>

#include "common/util.h"
#include "bench/gnuplot.h"

static const struct ps_result *find(const struct ps_result *r, unsigned int n,
				    const struct ps_case *c,
				    enum ps_transport t)
{
	for (unsigned int i = 0; i < n; i++)
		if (r[i].c.model == c->model &&
		    r[i].c.placement == c->placement &&
		    r[i].c.strategy == c->strategy && r[i].c.transport == t)
			return &r[i];
	return NULL;
}

static void data_row(const struct ps_result *r, unsigned int n,
		     const struct ps_case *c, FILE *f)
{
	const struct ps_result *o = find(r, n, c, PS_OVERLAY);
	const struct ps_result *h = find(r, n, c, PS_HOST);
	const struct ps_result *p = find(r, n, c, PS_PODLANE);
	char label[24] = "";

	if (o && p && isfinite(p->speedup_vs_overlay))
		snprintf(label, sizeof(label), "%.1f times",
			 p->speedup_vs_overlay);
	fprintf(f, "\"%s\\n%s%s%s\" %.6g %.6g %.6g \"%s\"\n", c->model->name,
		ps_placement_name(c->placement),
		c->strategy == PS_SERVER ? "" : "\\n",
		c->strategy == PS_SERVER ? "" : ps_strategy_name(c->strategy),
		o ? o->grad_bytes_per_s / 1e9 : 0,
		h ? h->grad_bytes_per_s / 1e9 : 0,
		p ? p->grad_bytes_per_s / 1e9 : 0, label);
}

static void script(const struct ps_bench *b, const struct ps_result *r,
		   unsigned int n, const char *png, FILE *f)
{
	fprintf(f, "$d << EOD\n");
	for (unsigned int i = 0; i < n; i++)
		if (i == 0 || r[i].c.model != r[i - 1].c.model ||
		    r[i].c.placement != r[i - 1].c.placement ||
		    r[i].c.strategy != r[i - 1].c.strategy)
			data_row(r, n, &r[i].c, f);
	fprintf(f, "EOD\n"
		"set terminal pngcairo size 1000,600 font 'sans,12' "
		"noenhanced\n"
		"set output '%s'\n"
		"set title 'Gradients of %u workers (parameter servers: "
		"%u)'\n"
		"set ylabel 'gradient GB/s, more is better'\n"
		"set style data histogram\n"
		"set style histogram clustered gap 1\n"
		"set style fill solid 0.9 border -1\n"
		"set boxwidth 0.9\n"
		"set yrange [0:*]\nset offsets 0,0,graph 0.08,0\n"
		"set grid ytics\nset bmargin 4\nset key top left\n"
		"plot $d using 2:xtic(1) title 'overlay' lc rgb '#9aa5b1',"
		"%s '' using 4 title 'podlane' lc rgb '#1f77b4',"
		" '' using 0:4:5 with labels offset 3,0.8 notitle\n", png,
		b->o.workers, b->o.servers, b->o.transports & PS_HOST ?
		" '' using 3 title 'host' lc rgb '#d9822b'," : "");
}

int ps_plot_write(const struct ps_bench *b, const struct ps_result *r,
		  unsigned int n, const char *path, struct pl_err *err)
{
	char png[PS_FILE_BYTES];
	FILE *f;
	int rc = gnuplot_open(&f, err);

	if (rc < 0)
		return rc;
	pl_format(png, sizeof(png), "%s/plot.png", b->cluster.dir);
	script(b, r, n, png, f);
	return gnuplot_draw(f, png, path, err);
}

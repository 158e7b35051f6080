/* daemonset/ctl_ipam.c - podlanectl ipam: reservations of a node's networks */
#include "daemonset/ctl_ipam.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "daemonset/ctl_table.h"
#include "ipam/ipam.h"

struct ipam {
	const struct pl_ctl_ipam *o;
	char **words;
	int n_words;
	struct pl_ipam_where *nets;
	size_t n_nets;
	struct pl_err *err;
};

/* --- networks --- */

static int add_net(struct ipam *p, const char *name)
{
	struct pl_ipam_where *w, *nets;

	nets = realloc(p->nets, (p->n_nets + 1) * sizeof(*nets));
	if (!nets)
		return pl_err_set(p->err, ENOMEM, "out of memory");
	p->nets = nets;
	w = &nets[p->n_nets];
	if (pl_format(w->data_dir, sizeof(w->data_dir), "%s",
		      p->o->data_dir) < 0 ||
	    pl_format(w->network, sizeof(w->network), "%s", name) < 0)
		return pl_err_set(p->err, EINVAL, "--data-dir is too long");
	p->n_nets++;
	return 0;
}

static int is_net(const struct dirent *e)
{
	return (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN) &&
	       pl_cni_check_network(e->d_name, NULL) == 0;
}

static int has_dir(struct ipam *p, const struct pl_ipam_where *net)
{
	char path[sizeof(net->data_dir) + sizeof(net->network)];

	if (pl_cni_check_network(net->network, p->err) < 0)
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/%s", net->data_dir, net->network);
	if (access(path, R_OK) == 0)
		return 0;
	return pl_err_sys(p->err, "cannot read %s (--data-dir and --network "
			  "say where the reservations are)", path);
}

static int find_nets(struct ipam *p)
{
	struct dirent **names;
	int n, rc = 0;

	if (p->o->network) {
		rc = add_net(p, p->o->network);
		return rc < 0 ? rc : has_dir(p, &p->nets[0]);
	}
	n = scandir(p->o->data_dir, &names, is_net, alphasort);
	if (n < 0)
		return pl_err_sys(p->err, "cannot read %s (--data-dir says "
				  "where the reservations are)",
				  p->o->data_dir);
	for (int i = 0; i < n; i++) {
		if (rc == 0)
			rc = add_net(p, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return rc;
}

/* --- reservations as a list --- */

static const struct pl_column entry_columns[] = {
	{ "NETWORK", "network", PL_CELL_TEXT, NULL },
	{ "ADDRESS", "address", PL_CELL_TEXT, NULL },
	{ "IFNAME", "ifname", PL_CELL_TEXT, NULL },
	{ "CONTAINER", "containerID", PL_CELL_TEXT, NULL },
};

/* What is wanted of a network, and where it goes. */
struct pick {
	cJSON *list;
	const char *network;
	const struct pl_addr *addr;	/* NULL: any */
	const char *container, *ifname;	/* NULL: any */
};

static bool is_wanted(const struct pick *k, const struct pl_ipam_entry *e)
{
	return (!k->addr || pl_addr_equal(k->addr, &e->addr)) &&
	       (!k->container || !strcmp(k->container, e->container_id)) &&
	       (!k->ifname || !strcmp(k->ifname, e->ifname));
}

static int pick_entry(const struct pl_ipam_entry *e, void *arg)
{
	struct pick *k = arg;
	char text[INET6_ADDRSTRLEN];
	cJSON *j;

	if (!is_wanted(k, e))
		return 0;
	j = cJSON_CreateObject();
	if (!j || !cJSON_AddItemToArray(k->list, j)) {
		cJSON_Delete(j);
		return -ENOMEM;
	}
	return cJSON_AddStringToObject(j, "network", k->network) &&
	       cJSON_AddStringToObject(j, "address",
				       pl_addr_str(&e->addr, text)) &&
	       cJSON_AddStringToObject(j, "containerID", e->container_id) &&
	       cJSON_AddStringToObject(j, "ifname", e->ifname) ? 0 : -ENOMEM;
}

/* To the list: what is wanted of one network. */
static int pick_from(struct ipam *p, const struct pl_ipam_where *net,
		     struct pick *k)
{
	int rc;

	k->network = net->network;
	rc = pl_ipam_list(net, pick_entry, k, p->err);
	if (rc == -ENOMEM)
		pl_err_set(p->err, ENOMEM, "out of memory");
	return rc;
}

static void print_entries(const struct ipam *p, const cJSON *list)
{
	if (p->o->json)
		pl_doc_print(stdout, list);
	else
		pl_table_print(stdout, list, entry_columns,
			       PL_ARRAY_SIZE(entry_columns));
}

/* --- list --- */

static int ipam_list(struct ipam *p)
{
	pl_auto_json *list = cJSON_CreateArray();
	struct pick k = { .list = list };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < p->n_nets; i++)
		rc = pick_from(p, &p->nets[i], &k);
	if (rc == 0)
		print_entries(p, list);
	return rc;
}

/* --- release --- */

/* A file that holds no reservation can be released, too. */
static bool has_file(const struct pl_ipam_where *net, const char *addr)
{
	char path[sizeof(net->data_dir) + sizeof(net->network) +
		  INET6_ADDRSTRLEN];

	snprintf(path, sizeof(path), "%s/%s/%s", net->data_dir, net->network,
		 addr);
	return access(path, F_OK) == 0;
}

static int release_addr(struct ipam *p, const struct pl_addr *addr)
{
	pl_auto_json *list = cJSON_CreateArray();
	struct pick k = { .list = list, .addr = addr };
	const struct pl_ipam_where *net = NULL;
	char text[INET6_ADDRSTRLEN];
	int rc;

	pl_addr_str(addr, text);
	for (size_t i = 0; i < p->n_nets; i++) {
		if (!has_file(&p->nets[i], text))
			continue;
		if (net)
			return pl_err_set(p->err, EEXIST, "%s is reserved in "
					  "the networks %s and %s; say which "
					  "by --network", text, net->network,
					  p->nets[i].network);
		net = &p->nets[i];
	}
	if (!net)
		return pl_err_set(p->err, ENOENT, "%s is not reserved in %s "
				  "%s; podlanectl ipam list shows what is",
				  text, p->o->network ? "network" :
				  "any network of", p->o->network ?
				  p->o->network : p->o->data_dir);
	rc = pick_from(p, net, &k);
	if (rc == 0)
		rc = pl_ipam_release(net, addr, p->err);
	/* A file without a reservation goes when the directory is read. */
	if (rc == -ENOENT && !has_file(net, text))
		rc = 0;
	if (rc == 0)
		print_entries(p, list);
	return rc;
}

/* By the key, so that an address that went to another meanwhile stays. */
static int release_keys(struct ipam *p, const struct pl_ipam_where *net,
			const cJSON *list, int from)
{
	int n = cJSON_GetArraySize(list), rc = 0;

	for (int i = from; rc == 0 && i < n; i++) {
		const cJSON *e = cJSON_GetArrayItem(list, i);
		const char *id = NULL, *ifname = NULL;

		pl_json_str(e, "", "containerID", &id, NULL);
		pl_json_str(e, "", "ifname", &ifname, NULL);
		rc = pl_ipam_del(net, id, ifname, p->err);
	}
	return rc;
}

static int release_container(struct ipam *p, const char *id,
			     const char *ifname)
{
	pl_auto_json *list = cJSON_CreateArray();
	struct pick k = { .list = list, .container = id, .ifname = ifname };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < p->n_nets; i++) {
		int n = cJSON_GetArraySize(list);

		rc = pick_from(p, &p->nets[i], &k);
		if (rc == 0)
			rc = release_keys(p, &p->nets[i], list, n);
	}
	if (rc == 0 && !cJSON_GetArraySize(list))
		return pl_err_set(p->err, ENOENT, "%s%s%.128s has no address "
				  "reserved; podlanectl ipam list shows who "
				  "has", ifname ? ifname : "", ifname ?
				  " of container " : "container ", id);
	if (rc == 0)
		print_entries(p, list);
	return rc;
}

static int ipam_release(struct ipam *p)
{
	const char *ifname = p->n_words > 1 ? p->words[1] : NULL;
	struct pl_addr addr;

	if (pl_addr_parse(p->words[0], &addr) < 0)
		return release_container(p, p->words[0], ifname);
	if (ifname)
		return pl_err_set(p->err, EINVAL, "unexpected word '%s' after "
				  "an address", ifname);
	return release_addr(p, &addr);
}

/* --- check --- */

static const struct pl_column problem_columns[] = {
	{ "NETWORK", "network", PL_CELL_TEXT, NULL },
	{ "FILE", "file", PL_CELL_TEXT, NULL },
	{ "PROBLEM", "problem", PL_CELL_TEXT, NULL },
};

struct found {
	cJSON *list;
	const char *network;
};

static int add_problem(const struct pl_ipam_problem *problem, void *arg)
{
	const struct found *f = arg;
	cJSON *j = cJSON_CreateObject();

	if (!j || !cJSON_AddItemToArray(f->list, j)) {
		cJSON_Delete(j);
		return -ENOMEM;
	}
	return cJSON_AddStringToObject(j, "network", f->network) &&
	       cJSON_AddStringToObject(j, "file", problem->file) &&
	       cJSON_AddStringToObject(j, "problem", problem->text) ? 0 :
	       -ENOMEM;
}

static int ipam_check(struct ipam *p)
{
	pl_auto_json *list = cJSON_CreateArray();
	struct found f = { .list = list };
	unsigned int total = 0, n;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < p->n_nets; i++) {
		f.network = p->nets[i].network;
		rc = pl_ipam_verify(&p->nets[i], add_problem, &f, &n, p->err);
		total += n;
	}
	if (rc == -ENOMEM)
		pl_err_set(p->err, ENOMEM, "out of memory");
	if (rc < 0)
		return rc;
	n = (unsigned int)cJSON_GetArraySize(list);
	if (p->o->json)
		pl_doc_print(stdout, list);
	else if (n)
		pl_table_print(stdout, list, problem_columns,
			       PL_ARRAY_SIZE(problem_columns));
	else
		printf("networks: %zu, reservations: %u, problems: 0\n",
		       p->n_nets, total);
	return n > 0;
}

/* --- commands --- */

static const struct {
	const char *name, *args, *help;
	int min_words, max_words;
	int (*run)(struct ipam *p);
} commands[] = {
	{ "list", "", "addresses that are reserved, and for whom", 0, 0,
	  ipam_list },
	{ "release", " ADDRESS", "give an address back, whoever has it", 1, 2,
	  ipam_release },
	{ "release", " ID [IFNAME]", "give a container's addresses back", 1, 2,
	  ipam_release },
	{ "check", "", "look for what is wrong; exit status 1: something is",
	  0, 0, ipam_check },
};

void pl_ctl_ipam_help(FILE *f)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(commands); i++)
		fprintf(f, "  ipam %s%-*s %s\n", commands[i].name,
			(int)(21 - strlen(commands[i].name)), commands[i].args,
			commands[i].help);
}

int pl_ctl_ipam(const struct pl_ctl_ipam *o, int n_words, char **words,
		struct pl_err *err)
{
	struct ipam p = { .o = o, .words = words + 1, .n_words = n_words - 1,
			  .err = err };
	size_t i = 0;
	int rc;

	while (n_words && i < PL_ARRAY_SIZE(commands) &&
	       strcmp(commands[i].name, words[0]))
		i++;
	if (!n_words || i == PL_ARRAY_SIZE(commands))
		return pl_err_set(err, EINVAL, "ipam list, ipam release or "
				  "ipam check?");
	if (p.n_words < commands[i].min_words)
		return pl_err_set(err, EINVAL, "ipam %s what? Give an address, "
				  "or a container and maybe its interface",
				  commands[i].name);
	if (p.n_words > commands[i].max_words)
		return pl_err_set(err, EINVAL, "unexpected word '%s'",
				  p.words[commands[i].max_words]);
	rc = find_nets(&p);
	if (rc == 0)
		rc = commands[i].run(&p);
	free(p.nets);
	return rc;
}

/* daemonset/ctl_complete.c - podlanectl completion: for shells */
#include "daemonset/ctl_complete.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct words {
	const char *const *commands;
	size_t n_commands;
	const struct pl_opt *opts;
	size_t n_opts;
};

/* zsh reads it, too, once bashcompinit is loaded. */
static void bash(const struct words *w)
{
	printf("_podlanectl() {\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} "
	       "prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	       "\tcase $prev in\n"
	       "\t-o|--output) COMPREPLY=($(compgen -W 'table json' -- "
	       "\"$cur\")); return;;\n"
	       "\t--run-dir|--data-dir) COMPREPLY=($(compgen -d -- "
	       "\"$cur\")); return;;\n"
	       "\t--config) COMPREPLY=($(compgen -f -- \"$cur\")); return;;\n"
	       "\tipam) COMPREPLY=($(compgen -W 'list release check' -- "
	       "\"$cur\")); return;;\n"
	       "\tcompletion) COMPREPLY=($(compgen -W 'bash zsh fish' -- "
	       "\"$cur\")); return;;\n"
	       "\tesac\n"
	       "\tCOMPREPLY=($(compgen -W '");
	for (size_t i = 0; i < w->n_commands; i++)
		printf("%s ", w->commands[i]);
	for (size_t i = 0; i < w->n_opts; i++)
		printf("--%s ", w->opts[i].name);
	printf("--help' -- \"$cur\"))\n}\n"
	       "complete -F _podlanectl podlanectl\n");
}

static void zsh(const struct words *w)
{
	printf("autoload -U +X bashcompinit && bashcompinit\n");
	bash(w);
}

static void fish(const struct words *w)
{
	printf("complete -c podlanectl -f\n");
	for (size_t i = 0; i < w->n_commands; i++)
		printf("complete -c podlanectl -n __fish_use_subcommand "
		       "-a %s\n", w->commands[i]);
	printf("complete -c podlanectl -n '__fish_seen_subcommand_from ipam' "
	       "-a 'list release check'\n");
	for (size_t i = 0; i < w->n_opts; i++)
		printf("complete -c podlanectl -l %s%s\n", w->opts[i].name,
		       w->opts[i].arg ? " -r" : "");
}

static const struct {
	const char *name;
	void (*print)(const struct words *w);
} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

int pl_ctl_complete(const char *shell, const char *const *commands,
		    size_t n_commands, const struct pl_opt *opts, size_t n_opts,
		    struct pl_err *err)
{
	const struct words w = { commands, n_commands, opts, n_opts };

	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(shells[i].name, shell))
			continue;
		shells[i].print(&w);
		return 0;
	}
	return pl_err_set(err, EINVAL, "completion is for bash, zsh or fish, "
			  "not '%s'", shell);
}

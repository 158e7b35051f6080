/*
 * daemonset/kube_conf.h - where the Kubernetes API server is, and who we are
 *
 * Either as a pod of the cluster: KUBERNETES_SERVICE_HOST and _PORT, and the
 * folder of the service account with "ca.crt" and "token". Or by a kubeconfig,
 * in YAML or JSON: its current-context, with server, certificate-authority,
 * client-certificate and client-key (each also as -data), token, tokenFile.
 * What it has beyond that (exec, auth-provider, username, proxy-url ...) is an
 * error that names it, as the server would refuse us without.
 */
#ifndef DAEMONSET_KUBE_CONF_H
#define DAEMONSET_KUBE_CONF_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "common/err.h"

#define PL_KUBE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* A file, or what would be in it; neither: there is none. */
struct pl_kube_pem {
	char file[PATH_MAX];
	char *data;
	size_t len;
};

struct pl_kube_conf {
	char server[512];		/* "https://192.0.2.1:6443", no / */
	struct pl_kube_pem ca, cert, key;
	bool is_insecure;		/* do not check the server */
	char *token;			/* NULL: none, or in token_file */
	char token_file[PATH_MAX];	/* "": none; changes at any time */
};

/* account: a folder, PL_KUBE_ACCOUNT_DIR. */
int pl_kube_conf_account(struct pl_kube_conf *c, const char *account,
			 struct pl_err *err);
int pl_kube_conf_load(struct pl_kube_conf *c, const char *path,
		      struct pl_err *err);
/* By that kubeconfig, or, "", as a pod with that account. */
int pl_kube_conf_find(struct pl_kube_conf *c, const char *kubeconfig,
		      const char *account, struct pl_err *err);
void pl_kube_conf_fini(struct pl_kube_conf *c);

/* The token as it is now, "" for none; to be freed with free(). */
int pl_kube_conf_token(const struct pl_kube_conf *c, char **out,
		       struct pl_err *err);

/*
 * A YAML document as JSON. What is not quoted is true, false, null or a text;
 * keys are texts. -EINVAL says where it is wrong.
 */
int pl_yaml_load(const char *path, cJSON **out, struct pl_err *err);

#endif

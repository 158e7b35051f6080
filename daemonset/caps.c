/* daemonset/caps.c - the capabilities of a running agent */
#include <errno.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include "common/util.h"
#include "daemonset/agent_internal.h"

/*
 * SYS_ADMIN enters namespaces, SYS_PTRACE opens /proc/PID/ns/net of another
 * user's process, NET_ADMIN keeps the overlay, DAC_OVERRIDE reaches a state
 * directory that is not root's.
 */
static const cap_value_t kept[] = { CAP_SYS_ADMIN, CAP_SYS_PTRACE,
				    CAP_NET_ADMIN, CAP_DAC_OVERRIDE };

int pl_caps_drop(struct pl_err *err)
{
	cap_t had = cap_get_proc(), caps = cap_init();
	int rc = had && caps ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < PL_ARRAY_SIZE(kept); i++) {
		cap_flag_value_t on;

		if (cap_get_flag(had, kept[i], CAP_PERMITTED, &on) < 0)
			rc = -errno;
		else if (on == CAP_SET &&
			 (cap_set_flag(caps, CAP_PERMITTED, 1, &kept[i],
				       CAP_SET) < 0 ||
			  cap_set_flag(caps, CAP_EFFECTIVE, 1, &kept[i],
				       CAP_SET) < 0))
			rc = -errno;
	}
	if (rc == 0 && (cap_set_proc(caps) < 0 ||
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
		rc = -errno;
	cap_free(caps);
	cap_free(had);
	return rc < 0 ? pl_err_set(err, -rc, "cannot drop capabilities") : 0;
}

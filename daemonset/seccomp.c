/*
 * daemonset/seccomp.c - the system calls of a running agent
 *
 * Children have the filter, too: for DEL the agent executes the podlane plugin,
 * which executes an IPAM plugin, perhaps somebody else's and written in Go. So
 * the list has what a program needs that handles files, sockets and network
 * namespaces. It does not have what takes hold of other processes, of mounts,
 * of namespaces that are not of networks, or of the kernel itself.
 *
 * Everything else fails with EPERM. clone3 hides its flags behind a pointer, so
 * it "does not exist": callers then use clone.
 */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "common/util.h"
#include "daemonset/agent_internal.h"

/* Names that this architecture or libseccomp does not know are left out. */
static const char *const files[] = {
	"access", "chdir", "chmod", "close", "close_range", "copy_file_range",
	"creat", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64",
	"fallocate", "fchdir", "fchmod", "fchmodat", "fcntl", "fdatasync",
	"flock", "fstat", "fstatfs", "fsync", "ftruncate", "getcwd", "getdents",
	"getdents64", "getxattr", "inotify_add_watch", "inotify_init",
	"inotify_init1", "inotify_rm_watch", "ioctl", "link", "linkat",
	"lseek", "lstat", "memfd_create", "mkdir", "mkdirat", "newfstatat",
	"open", "openat", "openat2", "pipe", "pipe2", "pread64", "preadv",
	"preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readlink",
	"readlinkat", "readv", "rename", "renameat", "renameat2", "rmdir",
	"sendfile", "splice", "stat", "statfs", "statx", "symlink",
	"symlinkat", "truncate", "umask", "unlink", "unlinkat", "utimensat",
	"write", "writev",
};

static const char *const sockets[] = {
	"accept", "accept4", "bind", "connect", "getpeername", "getsockname",
	"getsockopt", "listen", "recvfrom", "recvmmsg", "recvmsg", "sendmmsg",
	"sendmsg", "sendto", "setsockopt", "shutdown", "socketpair",
};

static const char *const memory[] = {
	"brk", "get_mempolicy", "madvise", "mbind", "membarrier", "mincore",
	"mlock", "mlock2", "mmap", "mprotect", "mremap", "msync", "munlock",
	"munmap", "set_mempolicy",
};

static const char *const waiting[] = {
	"alarm", "clock_getres", "clock_gettime", "clock_nanosleep",
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait",
	"epoll_pwait2", "epoll_wait", "eventfd", "eventfd2", "futex",
	"futex_waitv", "getitimer", "gettimeofday", "nanosleep", "pause",
	"poll", "ppoll", "pselect6", "restart_syscall", "rt_sigaction",
	"rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend",
	"rt_sigtimedwait", "sched_yield", "select", "setitimer", "sigaltstack",
	"signalfd", "signalfd4", "time", "timer_create", "timer_delete",
	"timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create",
	"timerfd_gettime", "timerfd_settime",
};

static const char *const processes[] = {
	"arch_prctl", "capget", "capset", "execve", "execveat", "exit",
	"exit_group", "fork", "get_robust_list", "getcpu", "getegid",
	"geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid",
	"getppid", "getpriority", "getrandom", "getresgid", "getresuid",
	"getrlimit", "getrusage", "getsid", "gettid", "getuid", "kill",
	"pidfd_open", "pidfd_send_signal", "prctl", "prlimit64", "rseq",
	"sched_getaffinity", "sched_getparam", "sched_getscheduler",
	"sched_setaffinity", "set_robust_list", "set_tid_address", "setpgid",
	"setrlimit", "setsid", "sysinfo", "tgkill", "times", "tkill", "uname",
	"vfork", "wait4", "waitid",
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
/* The search for leaks stops the process from a thread of its own. */
static const char *const sanitizers[] = { "personality", "process_vm_readv",
					  "ptrace", "sched_setscheduler" };
#endif

static const struct {
	const char *const *names;
	size_t n;
} lists[] = {
	{ files, PL_ARRAY_SIZE(files) },
	{ sockets, PL_ARRAY_SIZE(sockets) },
	{ memory, PL_ARRAY_SIZE(memory) },
	{ waiting, PL_ARRAY_SIZE(waiting) },
	{ processes, PL_ARRAY_SIZE(processes) },
#ifdef SANITIZED
	{ sanitizers, PL_ARRAY_SIZE(sanitizers) },
#endif
};

static int allow(scmp_filter_ctx f)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(lists); i++) {
		for (size_t j = 0; j < lists[i].n; j++) {
			int nr = seccomp_syscall_resolve_name(
				lists[i].names[j]);
			int rc = nr == __NR_SCMP_ERROR ? 0 :
				 seccomp_rule_add(f, SCMP_ACT_ALLOW, nr, 0);

			/* -EDOM: not of this architecture. */
			if (rc < 0 && rc != -EDOM)
				return rc;
		}
	}
	return 0;
}

/* Calls of which only some arguments are allowed. */
static int allow_some(scmp_filter_ctx f)
{
	static const unsigned int families[] = { AF_UNIX, AF_INET, AF_INET6,
						 AF_NETLINK };
	const scmp_datum_t spaces = CLONE_NEWCGROUP | CLONE_NEWIPC |
				    CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID |
				    CLONE_NEWUSER | CLONE_NEWUTS;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < PL_ARRAY_SIZE(families); i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				      SCMP_A0_32(SCMP_CMP_EQ, families[i]));
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(setns), 1,
				      SCMP_A1_32(SCMP_CMP_EQ, CLONE_NEWNET));
	/* Pages of this process. */
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(move_pages),
				      1, SCMP_A0_32(SCMP_CMP_EQ, 0));
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, spaces, 0));
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS),
				      SCMP_SYS(clone3), 0);
	return rc;
}

int pl_seccomp_install(struct pl_err *err)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int rc;

	if (!f)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = allow(f);
	if (rc == 0)
		rc = allow_some(f);
	/*
	 * Without SSB older kernels slow down the whole process. A tree and not
	 * a list of comparisons; both are best effort.
	 */
	seccomp_attr_set(f, SCMP_FLTATR_CTL_SSB, 1);
	seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	return rc < 0 ? pl_err_set(err, -rc, "cannot install the filter of "
				   "system calls: %s (\"seccomp\": false runs "
				   "without)", strerror(-rc)) : 0;
}

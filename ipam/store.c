/*
 * ipam/store.c - the directory of a network: one file per reserved address
 *
 * dataDir/NETWORK holds what host-local of containernetworking/plugins keeps
 * there, and an index:
 *
 *   10.1.0.5             "CONTAINER\r\nIFNAME": the reservation of 10.1.0.5
 *   last_reserved_ip.N   the address that set N gave last
 *   lock                 flock(2) on it serialises all commands
 *   .podlane.index       see index.c
 *   .podlane.new         a reservation being written
 *
 * The files named like addresses are the truth, and all of it. An address is
 * reserved when its file is there, and free when it is not; there is no second
 * record that could disagree. What each step relies on:
 *
 * A reservation is written under another name and renamed, without replacing
 * (RENAME_NOREPLACE). So it appears whole or not at all, whatever instruction a
 * SIGKILL hits and wherever the disk fills up, and two processes can't get one
 * address even if the lock did not hold. A full disk is found while the other
 * name is written, which is then removed.
 *
 * The index is a cache, and the directory's modification time says whether it
 * is right. Any change of the directory (by us, host-local, an operator, a
 * crashed process) moves that time to now. The last step of a command, after
 * the index has been written, is to set it back to a whole second of the
 * recent past, the one that the index has in its header. So time and header
 * agree only if the command came to its end and nobody changed anything since;
 * in every other case the next command reads the directory and makes a new
 * index.
 *
 * fsync: none. A killed process leaves its writes in the page cache, where
 * every later process sees them in full; for kill -9 there is nothing to sync.
 * After a power loss the files may be missing, empty or there, but no pod of
 * before is running, so no reservation of before has an owner: what matters is
 * not that they survive but that they don't. Each reservation is therefore
 * tagged with the boot (an extended attribute of its file, made with the file),
 * and the first command of a new boot, which can't trust the index either since
 * that names its boot too, removes what carries the tag of another. Files
 * without a tag (host-local's, or where the file system has no attributes) are
 * kept; GC or DEL give them back. Empty files are nobody's: host-local can
 * leave them when it is killed between creating and writing one.
 */
#include "ipam/store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

#include "common/util.h"

#define NEW_FILE ".podlane.new"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
/* An ID, CR LF, a name, and room to notice that it is longer. */
#define CONTENT_MAX (PL_CNI_ID_MAX + PL_CNI_IFNAME_MAX + 8)
/* How far back the directory's time is set. */
#define STAMP_BACK_S 2
#define LOCK_TRIES 64

/* tmpfs has only the second kind before Linux 6.6; it needs privilege. */
static const char *const boot_tags[] = {
	"user.podlane.boot", "trusted.podlane.boot",
};

/* --- opening, locking --- */

static void read_boot(struct pl_index_stamp *stamp)
{
	pl_auto_fd fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	memset(stamp->boot, 0, sizeof(stamp->boot));
	if (fd < 0)
		return;
	n = read(fd, stamp->boot, sizeof(stamp->boot) - 1);
	for (ssize_t i = 0; i < n; i++)
		if (stamp->boot[i] == '\n')
			stamp->boot[i] = '\0';
}

static int read_stamp(struct pl_store *st)
{
	struct stat s;

	if (fstat(st->dir_fd, &s) < 0)
		return -errno;
	st->stamp.dev = s.st_dev;
	st->stamp.ino = s.st_ino;
	st->stamp.mtime_sec = s.st_mtim.tv_nsec ? -1 : s.st_mtim.tv_sec;
	return 0;
}

static int make_dir(const struct pl_store *st, struct pl_err *err)
{
	if (mkdir(st->path, 0755) == 0 || errno == EEXIST)
		return 0;
	return pl_mkdirs(st->path, 0755, err);
}

/*
 * Wait for the lock, but not for ever: its holder may be stopped. It is held
 * for some 100 us, so the pauses are short at first.
 */
static int wait_lock(const struct pl_store *st, struct pl_err *err)
{
	uint64_t start = pl_now_ns(), waited;
	struct timespec pause = { .tv_nsec = 20000 };

	while (flock(st->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return pl_err_sys(err, "cannot lock %s/lock",
					  st->path);
		waited = (pl_now_ns() - start) / 1000000;
		if (waited > PL_STORE_LOCK_WAIT_MS)
			return pl_cni_err(err, PL_CNI_TRY_AGAIN, "%s/lock is "
					  "held by another process for more "
					  "than %d s", st->path,
					  PL_STORE_LOCK_WAIT_MS / 1000);
		nanosleep(&pause, NULL);
		if (waited > 2000)
			pause.tv_nsec = 10000000;
		else if (pause.tv_nsec < 300000)
			pause.tv_nsec += pause.tv_nsec / 2;
	}
	return 0;
}

/* One try: 1 when the directory or its lock was removed meanwhile. */
static int try_open(struct pl_store *st, bool create, struct pl_err *err)
{
	struct stat s;
	int rc;

	st->dir_fd = open(st->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (st->dir_fd < 0 && errno == ENOENT && create) {
		rc = make_dir(st, err);
		return rc < 0 ? rc : 1;
	}
	if (st->dir_fd < 0)
		return pl_err_sys(err, "cannot open %s", st->path);
	st->lock_fd = openat(st->dir_fd, "lock",
			     O_RDONLY | O_CREAT | O_CLOEXEC, 0640);
	if (st->lock_fd < 0 && errno == ENOENT)
		return 1;
	if (st->lock_fd < 0)
		return pl_err_sys(err, "cannot open %s/lock", st->path);
	rc = wait_lock(st, err);
	if (rc < 0)
		return rc;
	if (fstat(st->lock_fd, &s) < 0 || s.st_nlink == 0)
		return 1;
	return 0;
}

int pl_store_open(const struct pl_ipam_where *where, bool create,
		  struct pl_store *st, struct pl_err *err)
{
	int rc = 1;

	memset(st, 0, sizeof(*st));
	st->dir_fd = -1;
	st->lock_fd = -1;
	if (pl_format(st->path, sizeof(st->path), "%s/%s", where->data_dir,
		      where->network) < 0)
		return pl_err_set(err, ENAMETOOLONG,
				  "ipam.dataDir is too long");
	for (int i = 0; rc == 1 && i < LOCK_TRIES; i++) {
		pl_store_close(st);
		rc = try_open(st, create, err);
	}
	if (rc == 1)
		rc = pl_cni_err(err, PL_CNI_TRY_AGAIN, "%s is removed again "
				"and again by another process", st->path);
	if (rc == 0) {
		read_boot(&st->stamp);
		rc = read_stamp(st);
		if (rc < 0)
			pl_err_set(err, -rc, "cannot look at %s: %s", st->path,
				   strerror(-rc));
	}
	if (rc < 0)
		pl_store_close(st);
	return rc;
}

void pl_store_close(struct pl_store *st)
{
	pl_close_fd(&st->lock_fd);
	pl_close_fd(&st->dir_fd);
}

void pl_store_commit(struct pl_store *st, struct pl_index *ix)
{
	struct timespec now, times[2];

	if (!ix || st->unsure || (!st->changed && !pl_index_is_dirty(ix)))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	st->stamp.mtime_sec = now.tv_sec - STAMP_BACK_S;
	times[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
	times[1] = (struct timespec){ .tv_sec = st->stamp.mtime_sec };
	if (pl_index_store(ix, st->dir_fd, &st->stamp) == 0)
		futimens(st->dir_fd, times);
	st->changed = false;
}

/* --- one reservation --- */

/* Printable ASCII of at least one byte, at most max. */
static bool is_text(const char *s, size_t len, size_t max)
{
	if (len == 0 || len > max)
		return false;
	for (size_t i = 0; i < len; i++)
		if (s[i] <= ' ' || s[i] > '~')
			return false;
	return true;
}

/*
 * host-local writes ID CR LF IFNAME, and before 0.8 the ID alone; it ignores
 * white space around.
 */
static bool parse_content(const char *s, size_t len, struct pl_reservation *r)
{
	size_t id_len = 0, if_len;
	const char *ifname;

	while (len && isspace((unsigned char)s[len - 1]))
		len--;
	while (len && isspace((unsigned char)*s)) {
		s++;
		len--;
	}
	while (id_len < len && s[id_len] != '\r' && s[id_len] != '\n')
		id_len++;
	if (!is_text(s, id_len, PL_CNI_ID_MAX))
		return false;
	memcpy(r->container_id, s, id_len);
	r->container_id[id_len] = '\0';
	r->ifname[0] = '\0';
	if (id_len == len)
		return true;
	ifname = s + id_len;
	while (*ifname == '\r' || *ifname == '\n')
		ifname++;
	if_len = len - (size_t)(ifname - s);
	if (!is_text(ifname, if_len, PL_CNI_IFNAME_MAX))
		return false;
	memcpy(r->ifname, ifname, if_len);
	r->ifname[if_len] = '\0';
	return true;
}

static bool is_stale(const struct pl_store *st, int fd)
{
	char boot[PL_INDEX_BOOT_BYTES] = "";
	ssize_t n = -1;

	for (size_t i = 0; n < 0 && i < PL_ARRAY_SIZE(boot_tags); i++)
		n = fgetxattr(fd, boot_tags[i], boot, sizeof(boot) - 1);
	return n > 0 && st->stamp.boot[0] && strcmp(boot, st->stamp.boot);
}

static int read_file(const struct pl_store *st, const char *name,
		     struct pl_reservation *out)
{
	pl_auto_fd fd = openat(st->dir_fd, name, O_RDONLY | O_CLOEXEC |
			       O_NOFOLLOW | O_NONBLOCK);
	char text[CONTENT_MAX];
	ssize_t n;

	if (fd < 0)
		return -errno;
	do
		n = read(fd, text, sizeof(text));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == sizeof(text) || !parse_content(text, (size_t)n, out))
		return 0;
	out->stale = is_stale(st, fd);
	return 1;
}

int pl_store_read(const struct pl_store *st, const struct pl_addr *addr,
		  struct pl_reservation *out)
{
	char name[INET6_ADDRSTRLEN];

	return read_file(st, pl_addr_str(addr, name), out);
}

static void tag_boot(const struct pl_store *st, int fd)
{
	size_t len = strlen(st->stamp.boot);

	for (size_t i = 0; len && i < PL_ARRAY_SIZE(boot_tags); i++)
		if (fsetxattr(fd, boot_tags[i], st->stamp.boot, len, 0) == 0)
			return;
}

static int write_new(const struct pl_store *st, const char *container_id,
		     const char *ifname)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	pl_auto_fd fd = openat(st->dir_fd, NEW_FILE, flags, 0644);
	char text[CONTENT_MAX];
	int n;

	/* Left by a process that died; never truncated, it may have a link. */
	if (fd < 0 && errno == EEXIST && unlinkat(st->dir_fd, NEW_FILE, 0) == 0)
		fd = openat(st->dir_fd, NEW_FILE, flags, 0644);
	if (fd < 0)
		return -errno;
	n = pl_format(text, sizeof(text), "%s\r\n%s", container_id, ifname);
	if (n < 0)
		return n;
	tag_boot(st, fd);
	return pl_write_all(fd, text, (size_t)n);
}

/* Rename without replacing, also where the file system can't (NFS). */
static int publish(const struct pl_store *st, const char *name)
{
	if (renameat2(st->dir_fd, NEW_FILE, st->dir_fd, name,
		      RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (linkat(st->dir_fd, NEW_FILE, st->dir_fd, name, 0) < 0)
		return -errno;
	unlinkat(st->dir_fd, NEW_FILE, 0);
	return 0;
}

int pl_store_reserve(struct pl_store *st, const struct pl_addr *addr,
		     const char *container_id, const char *ifname,
		     struct pl_err *err)
{
	char name[INET6_ADDRSTRLEN];
	int rc;

	pl_addr_str(addr, name);
	st->changed = true;
	rc = write_new(st, container_id, ifname);
	if (rc == 0)
		rc = publish(st, name);
	if (rc == 0)
		return 0;
	unlinkat(st->dir_fd, NEW_FILE, 0);
	return pl_err_set(err, -rc, "cannot write the reservation %s/%s: %s",
			  st->path, name, strerror(-rc));
}

int pl_store_remove(struct pl_store *st, const struct pl_addr *addr,
		    struct pl_err *err)
{
	char name[INET6_ADDRSTRLEN];

	pl_addr_str(addr, name);
	if (unlinkat(st->dir_fd, name, 0) < 0) {
		if (errno == ENOENT)
			return 0;
		return pl_err_sys(err, "cannot remove the reservation %s/%s",
				  st->path, name);
	}
	st->changed = true;
	return 0;
}

/* --- the last address of a set --- */

static void last_name(unsigned int set, char *buf, size_t size)
{
	snprintf(buf, size, "last_reserved_ip.%u", set);
}

void pl_store_last_get(const struct pl_store *st, unsigned int set,
		       struct pl_addr *out)
{
	char name[40], text[INET6_ADDRSTRLEN + 1];
	ssize_t n;

	memset(out, 0, sizeof(*out));
	last_name(set, name, sizeof(name));

	pl_auto_fd fd = openat(st->dir_fd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	if (pl_addr_parse(text, out) < 0)
		memset(out, 0, sizeof(*out));
}

/*
 * Over the old text, which is then cut off if it was longer: a file that was
 * emptied first would be written to the disk when it is closed (ext4,
 * auto_da_alloc). A mixture of both texts is another address to go on from, or
 * none.
 */
static int write_last(int fd, const char *text)
{
	size_t len = strlen(text);
	struct stat s;
	int rc = pl_write_all(fd, text, len);

	if (rc < 0)
		return rc;
	if (fstat(fd, &s) < 0 ||
	    (s.st_size > (off_t)len && ftruncate(fd, (off_t)len) < 0))
		return -errno;
	return 0;
}

void pl_store_last_set(struct pl_store *st, unsigned int set,
		       const struct pl_addr *addr)
{
	char name[40], text[INET6_ADDRSTRLEN];
	int flags = O_WRONLY | O_CLOEXEC, fd;

	last_name(set, name, sizeof(name));
	fd = openat(st->dir_fd, name, flags);
	if (fd < 0) {
		st->changed = true;
		fd = openat(st->dir_fd, name, flags | O_CREAT, 0644);
	}
	if (fd < 0)
		return;
	pl_addr_str(addr, text);
	if (write_last(fd, text) < 0) {
		st->changed = true;
		unlinkat(st->dir_fd, name, 0);
	}
	close(fd);
}

/* --- all of it --- */

static int scan_one(struct pl_store *st, const char *name,
		    int (*fn)(const struct pl_addr *addr,
			      const struct pl_reservation *r, void *arg),
		    void *arg)
{
	struct pl_reservation r;
	struct pl_addr addr;
	char again[INET6_ADDRSTRLEN];
	int rc;

	if (!strcmp(name, NEW_FILE) || !strcmp(name, PL_INDEX_TEMP)) {
		if (unlinkat(st->dir_fd, name, 0) == 0)
			st->changed = true;
		return 0;
	}
	/* Another spelling of an address is nobody's reservation. */
	if (pl_addr_parse(name, &addr) < 0 ||
	    strcmp(pl_addr_str(&addr, again), name))
		return 0;
	rc = read_file(st, name, &r);
	if (rc == -ENOENT)
		return 0;
	if (rc < 0) {
		memset(&r, 0, sizeof(r));
		st->unsure = true;
	}
	return fn(&addr, rc == 0 ? NULL : &r, arg);
}

int pl_store_scan(struct pl_store *st,
		  int (*fn)(const struct pl_addr *addr,
			    const struct pl_reservation *r, void *arg),
		  void *arg, struct pl_err *err)
{
	int fd = openat(st->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int rc = 0;

	if (!dir) {
		rc = pl_err_sys(err, "cannot read %s", st->path);
		pl_close_fd(&fd);
		return rc;
	}
	for (;;) {
		errno = 0;
		e = readdir(dir);
		if (!e)
			break;
		rc = scan_one(st, e->d_name, fn, arg);
		if (rc)
			break;
	}
	if (!e && errno)
		rc = pl_err_sys(err, "cannot read %s", st->path);
	closedir(dir);
	return rc;
}

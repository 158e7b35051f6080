/*
 * tests/fuzz/fuzz_region.c - a region whose owner writes what it likes
 *
 * An owner whose version went back is believed nothing any more.
 */
#include <errno.h>

#include "shm/region.h"
#include "tests/fuzz/fuzz.h"

#define BYTES 4096u
#define STEPS_MAX 64

static struct pl_seg seg;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct pl_err err = { 0 };

	(void)argc;
	(void)argv;
	HOLDS(pl_seg_region_create(BYTES, &seg, &err) == 0);
	return 0;
}

static struct pl_region *open_blank(void)
{
	const struct pl_region_info info = { .name = "r" };
	struct pl_region_parts parts = { .seg = seg,
					 .watch = PL_SEG_NONE,
					 .bell = -1,
					 .info = &info };
	struct pl_region_seg *h = seg.base;
	struct pl_err err = { 0 };
	struct pl_region *r;

	atomic_store(&h->version, 0);
	atomic_store(&h->state, 0);
	parts.seg.fd = -1;
	parts.seg.map_bytes = 0;
	HOLDS(pl_region_attach(&parts, &r, &err) == 0);
	return r;
}

static void owner_step(struct fuzz *f, uint8_t what)
{
	struct pl_region_seg *h = seg.base;

	if (what & 0x80)
		atomic_store(&h->state, what & 0x40 ? fuzz_u64(f) :
						      what % 8);
	else if (what & 0x40)
		atomic_store(&h->version, fuzz_u64(f));
	else
		atomic_fetch_add(&h->version, what % 8);
	atomic_store(&h->log[what].offset, fuzz_u32(f));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pl_region *r = open_blank();
	struct fuzz f = { data, size };
	uint64_t seen = 0, version;
	bool broken = false;
	int rc;

	for (int i = 0; i < STEPS_MAX && f.left; i++) {
		uint8_t what = fuzz_u8(&f);

		if (fuzz_u8(&f) & 1) {
			owner_step(&f, what);
			continue;
		}
		version = pl_region_version(r);
		rc = pl_region_wait(r, what & 1 ? version : fuzz_u64(&f), 0);
		HOLDS(rc == 0 || rc == -ETIMEDOUT || rc == -ECONNRESET ||
		      rc == -EPROTO);
		if (rc == -EPROTO)
			broken = true;
		HOLDS(!broken || rc == -EPROTO);
		HOLDS(rc != 0 || version >= seen);
		seen = PL_MAX(seen, version);
	}
	pl_region_close(r);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* sdamage.c: disks that lie: reads that fail or are wrong, writes that go astray. */

/*
 * No store survives these without copies or check sums, so they come only if w_also or
 * w_only names their kind. They hurt a file of a host:
 *
 *	unread	the n-th read of a file from then on fails: EIO
 *	damage	the n-th read finds a sector with wrong bits: one bit, or all
 *	stale	the n-th read finds a sector as it was before the last sync that
 *		has changed it
 *	astray	the n-th write lands some sectors away, in the same file. Programs
 *		see what they wrote, from the cache, until the host has crashed
 *	empty	a crash after which the disk has nothing: another machine is there
 *
 * Damage, and what is stale, is on the disk too in half of the faults, if the file has
 * no changes that are not stored: each later read finds it again, until a write mends
 * it. The others are in this read only.
 *
 * L1. A host is hurt once in a run, and so are as many hosts as w_core leaves, at least
 *     one; hosts that are lost count. So another file, or another host, has what was lost.
 * L2. A read that is hurt waits for a read that it can hurt: a sector that was never
 *     another is not stale.
 */

#include "sdisk.h"

#define FAR		6		/* octaves of sectors that a write goes astray */

/* What a fault has drawn, by number of its part. */
enum { DRAWN_SECTOR = 2, DRAWN_KEPT, DRAWN_BITS, DRAWN_PLACE, DRAWN_FLIP = 64 };

bool sim_keeps_old;

/* A part of a sector, in a read. */
struct part {
	char  *t_data;
	size_t t_at, t_size;	/* in the file */
};

static struct part part_of(char *buf, size_t at, size_t size, size_t nr)
{
	size_t from = (at / SECTOR + nr) * SECTOR, to = from + SECTOR;

	from = from > at ? from : at;
	to = to < at + size ? to : at + size;
	return (struct part) { buf + (from - at), from, to - from };
}

/* Returns a byte as it was before; behind the end there were zeros. */
static char old_byte(const struct inode *i, size_t at)
{
	return at < i->i_old.x_size ? i->i_old.x_data[at] : 0;
}

/* Puts the sector as it was before. Returns whether it was another. */
static bool make_old(const struct inode *i, const struct part *p)
{
	bool other = false;
	size_t n;

	for (n = 0; n < p->t_size && i->i_stored.x_size > 0; n++) {
		other |= p->t_data[n] != old_byte(i, p->t_at + n);
		p->t_data[n] = old_byte(i, p->t_at + n);
	}
	return other;
}

static void damage(const struct sim_fault *f, const struct part *p)
{
	uint64_t draw = sim_part(f, DRAWN_BITS);
	size_t i;

	if (draw % 2 == 0)
		p->t_data[(draw >> 4) % p->t_size] ^= (char)(1 << (draw >> 1) % 8);
	else
		for (i = 0; i < p->t_size; i++)
			p->t_data[i] ^= (char)(1 + sim_part(f, DRAWN_FLIP + i) % 255);
}

/* Lets the disk have what a read has found. */
static void keep(const struct sim_fault *f, struct inode *i, const struct part *p)
{
	if (sim_part(f, DRAWN_KEPT) % 2 != 0 || i->i_first != NULL ||
	    i->i_stored.x_size < p->t_at + p->t_size)
		return;
	sim_content_put(&i->i_seen, p->t_at, p->t_data, p->t_size);
	sim_content_put(&i->i_stored, p->t_at, p->t_data, p->t_size);
}

/* Returns whether a sector of the read was hurt. */
static bool hurt(const struct sim_fault *f, struct inode *i, char *buf, size_t at,
		 size_t size)
{
	size_t sectors = (at + size - 1) / SECTOR - at / SECTOR + 1, nr;
	struct part p;

	for (nr = 0; nr < sectors; nr++) {
		p = part_of(buf, at, size, (sim_part(f, DRAWN_SECTOR) + nr) % sectors);
		if (f->f_kind == FAULT_DAMAGE)
			damage(f, &p);
		else if (!make_old(i, &p))
			continue;
		keep(f, i, &p);
		return true;
	}
	return false;
}

/* The fault has hit, and comes no more. */
static void done(struct sim_host *h, const char *what)
{
	sim_fault_hit(h->h_lies);
	sim_story(h, "%s", what);
	h->h_lies = NULL;
}

/* Returns whether the fault is for this operation. */
static bool is_due(struct sim_host *h)
{
	if (sim_now() >= sim_world.w_run)			/* sfault F1 */
		h->h_lies = NULL;
	return h->h_lies != NULL && --h->h_lies_nr <= 0;
}

int sim_lie_read(struct sim_host *h, struct inode *i, void *buf, size_t at, size_t size)
{
	struct sim_fault *f = h->h_lies;

	if (f->f_kind == FAULT_ASTRAY || !is_due(h))
		return 0;
	if (f->f_kind == FAULT_UNREAD) {
		done(h, "a read fails: EIO");
		return -EIO;
	}
	if (hurt(f, i, buf, at, size))				/* L2 */
		done(h, f->f_kind == FAULT_STALE ? "a read finds an old sector" :
		     "a read finds a damaged sector");
	return 0;
}

size_t sim_lie_write(struct sim_host *h, size_t at)
{
	const struct sim_fault *f = h->h_lies;
	size_t sectors;

	if (f->f_kind != FAULT_ASTRAY || !is_due(h))
		return at;
	sectors = (size_t)1 << sim_part(f, DRAWN_PLACE) % FAR;
	if (sim_part(f, DRAWN_SECTOR) % 2 == 0 && at >= sectors * SECTOR)
		at -= sectors * SECTOR;
	else
		at += sectors * SECTOR;
	done(h, "a write goes astray");
	return at;
}

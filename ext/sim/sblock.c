/* SPDX-License-Identifier: MIT */
/* sblock.c: memory of the simulator. */

/*
 * Blocks that live for an event, segments and changes of files, are kept by their
 * size, since malloc() took a tenth of the instructions of a run. All memory comes
 * back when the process of the run ends.
 */

#include "sim.h"

#include <stdlib.h>

/* Sanitizers see each block. */
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_BLOCKS	false
#else
#define KEEPS_BLOCKS	true
#endif

void *sim_alloc(size_t size)
{
	void *block = calloc(1, size);

	if (block == NULL)
		usim_fail("no memory for the simulation");
	return block;
}

/* Small blocks that are free, by their size in units. */
#define UNIT		64
#define UNITS_MOST	16

static void *blocks[UNITS_MOST + 1];

void *sim_block(size_t size)
{
	size_t units = (size + UNIT - 1) / UNIT;
	void **block = KEEPS_BLOCKS && units <= UNITS_MOST ? blocks[units] : NULL;

	if (block != NULL) {
		blocks[units] = *block;
		return block;
	}
	block = malloc(units * UNIT);
	if (block == NULL)
		usim_fail("no memory for the simulation");
	return block;
}

void sim_block_free(void *block, size_t size)
{
	size_t units = (size + UNIT - 1) / UNIT;

	if (!KEEPS_BLOCKS || units > UNITS_MOST) {
		free(block);
		return;
	}
	*(void **)block = blocks[units];
	blocks[units] = block;
}

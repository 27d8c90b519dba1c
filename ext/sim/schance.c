/* SPDX-License-Identifier: MIT */
/* schance.c: chance, drawn from the seed, and the hash of a run. */

/*
 * Streams are drawn from the seed, a counter each. Draws of the program do not
 * shift draws of the network, and a fault that is left out shifts neither
 * the plan nor the program. It does change what happens, and so, later, how
 * often each stream is drawn: a seed with a mask is a test case of its own.
 * All is computed in integers, so that builds and machines agree.
 */

#include "sim.h"

uint64_t        sim_seed;
static uint64_t streams[DRAW_STREAMS];

void sim_stream_set(enum sim_stream stream, uint64_t seed)
{
	streams[stream] = sim_mix(sim_mix(seed + 1) + (uint64_t)stream + 1);
}

void sim_seed_set(uint64_t seed)
{
	int i;

	sim_seed = sim_mix(seed + 1);
	for (i = 0; i < DRAW_STREAMS; i++)
		sim_stream_set((enum sim_stream)i, seed);
}

uint64_t sim_draw(enum sim_stream stream)
{
	return sim_mix(streams[stream] += 0x9e3779b97f4a7c15u);
}

unsigned sim_below(enum sim_stream stream, unsigned nr)
{
	return (unsigned)((sim_draw(stream) >> 32) * nr >> 32);
}

/* Most lengths are near from: a product of three numbers below 1. */
utime_ns sim_length(enum sim_stream stream, utime_ns from, utime_ns to)
{
	uint64_t draw = sim_draw(stream);
	uint64_t part = (draw & 0xffff) * (draw >> 16 & 0xffff) >> 16;

	part = part * (draw >> 32 & 0xffff) >> 16;
	return to <= from ? from :
		from + (utime_ns)((uint64_t)((to - from) >> 16) * part);
}

unsigned usim_random(unsigned nr)
{
	return sim_below(DRAW_PROGRAM, nr);
}

void sim_hash_bytes(const void *data, size_t size)
{
	const unsigned char *at = data;
	uint64_t sum = size;
	size_t i;

#pragma GCC unroll 4
	for (i = 0; i < size; i++)
		sum = (sum ^ at[i]) * 0x100000001b3u;
	sim_hash(sum);
}

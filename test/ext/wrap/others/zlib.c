/* SPDX-License-Identifier: MIT */
/*
 * zlib: hundreds of threads deflate and inflate in small chunks, and block
 * between all chunks and in call-backs of zlib. They make the same bytes as
 * without threads, and get their data back.
 */

/*
 * The z_stream is on the stack of the thread, and so are the chunks to which it
 * points. The state that zlib keeps of a stream (z_stream.state) points back to
 * the z_stream. In all but old versions each call compares that pointer with
 * its argument, and refuses a stream at another address with Z_STREAM_ERROR. So
 * if a slice did not come back to its place (usched I1), the next call would
 * fail; moved() shows that.
 *
 * Every other thread also gives zlib memory on its stack (struct arena). Then
 * the window, hash chains and trees, some 10 KiB full of pointers to each
 * other, are in the slice and are copied at each block.
 *
 * zlib calls us to allocate; inflateBack() calls us to read and write, and
 * there we block below its frames. It has no locks, and no state outside of the
 * stream, except tables that never change.
 */
#include "others.h"
#include <zlib.h>

#define THREADS	300
#define DATA	6000			/* bytes, at most */
#define PACKED	(DATA + 4096)		/* bytes, packed, at most */
#define CHUNK	400			/* bytes, at most */
#define ARENA	(24 << 10)

struct job {
	struct other   j_other;
	int            j_level;
	int            j_bits;		/* of the window */
	int            j_raw;		/* no header; inflateBack() reads it */
	int            j_on_stack;	/* zlib's memory is on the stack */
	size_t         j_len;
	size_t         j_plain_len;
	size_t         j_packed_len;
	size_t         j_back_len;
	size_t         j_read;		/* from j_packed, by inflateBack() */
	long           j_arena;		/* calls that the arena has served */
	unsigned char *j_chunk;		/* on the stack, for inflateBack() */
	unsigned char  j_data[DATA];
	unsigned char  j_plain[PACKED];	/* the result of the plain run */
	unsigned char  j_packed[PACKED];
	unsigned char  j_back[DATA];
};

static struct job jobs[THREADS];

/* Memory of a stream, on the stack of its thread. */
struct arena {
	size_t        a_used;
	unsigned char a_memory[ARENA] __attribute__((aligned(16)));
};

static int inside(const struct arena *a, const void *p)
{
	return (uintptr_t)p - (uintptr_t)a < sizeof *a;
}

static voidpf alloc(voidpf opaque, uInt nr, uInt size)
{
	struct job *j = (struct job *)others_self();
	size_t nob = ((size_t)nr * size + 15) & -(size_t)16;
	struct arena *a = opaque;
	void *p;

	others_block();
	if (a == NULL || nob > ARENA - a->a_used)
		return malloc(nob);
	p = a->a_memory + a->a_used;
	a->a_used += nob;
	if (j != NULL)
		j->j_arena++;
	return p;
}

static void release(voidpf opaque, voidpf p)
{
	others_block();
	if (opaque == NULL || !inside(opaque, p))
		free(p);
}

static void stream(z_stream *z, struct job *j, struct arena *a)
{
	memset(z, 0, sizeof *z);
	z->zalloc = alloc;
	z->zfree  = release;
	z->opaque = j->j_on_stack ? a : NULL;
	a->a_used = 0;
}

static size_t chunk(struct job *j, size_t left)
{
	size_t len = 1 + check_random(&j->j_other.o_random) % CHUNK;

	return len < left ? len : left;
}

/* Appends nob bytes. */
static void keep(unsigned char *to, size_t *len, size_t max,
		 const unsigned char *from, size_t nob)
{
	CHECK_THAT(nob, <=, max - *len);
	memcpy(to + *len, from, nob);
	*len += nob;
}

static NOINLINE void pack(struct job *j)
{
	unsigned char in[CHUNK], out[CHUNK];
	struct arena a;
	size_t at = 0, nob;
	z_stream z;
	int rc = Z_OK;

	stream(&z, j, &a);
	CHECK_IS(deflateInit2(&z, j->j_level, Z_DEFLATED, j->j_raw ? -j->j_bits
		 : j->j_bits, j->j_on_stack ? 2 : 8, Z_DEFAULT_STRATEGY), Z_OK);
	while (rc != Z_STREAM_END) {
		if (z.avail_in == 0) {
			nob = chunk(j, j->j_len - at);
			memcpy(in, j->j_data + at, nob);
			at += nob;
			z.next_in  = in;
			z.avail_in = (uInt)nob;
		}
		z.next_out  = out;
		z.avail_out = nob = chunk(j, CHUNK);
		others_block();
		rc = deflate(&z, at == j->j_len ? Z_FINISH : Z_NO_FLUSH);
		CHECK(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR);
		keep(j->j_packed, &j->j_packed_len, PACKED, out,
		     nob - z.avail_out);
	}
	CHECK_IS(deflateEnd(&z), Z_OK);
}

static NOINLINE void unpack(struct job *j)
{
	unsigned char in[CHUNK], out[CHUNK];
	struct arena a;
	size_t at = 0, nob;
	z_stream z;
	int rc = Z_OK;

	stream(&z, j, &a);
	CHECK_IS(inflateInit2(&z, j->j_bits), Z_OK);
	while (rc != Z_STREAM_END) {
		if (z.avail_in == 0) {
			nob = chunk(j, j->j_packed_len - at);
			memcpy(in, j->j_packed + at, nob);
			at += nob;
			z.next_in  = in;
			z.avail_in = (uInt)nob;
		}
		z.next_out  = out;
		z.avail_out = nob = chunk(j, CHUNK);
		others_block();
		rc = inflate(&z, Z_NO_FLUSH);
		CHECK(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR);
		keep(j->j_back, &j->j_back_len, DATA, out, nob - z.avail_out);
	}
	CHECK(at == j->j_packed_len && z.avail_in == 0);
	CHECK_IS(inflateEnd(&z), Z_OK);
}

/* Call-backs of inflateBack(). */

static unsigned read_chunk(void *arg, z_const unsigned char **chunk_at)
{
	struct job *j = arg;
	size_t nob = chunk(j, j->j_packed_len - j->j_read);

	others_block();
	memcpy(j->j_chunk, j->j_packed + j->j_read, nob);
	j->j_read += nob;
	*chunk_at = j->j_chunk;
	return (unsigned)nob;
}

static int write_chunk(void *arg, unsigned char *from, unsigned nob)
{
	struct job *j = arg;

	others_block();
	keep(j->j_back, &j->j_back_len, DATA, from, nob);
	others_block();
	return 0;
}

static NOINLINE void unpack_back(struct job *j)
{
	unsigned char window[1 << 15], in[CHUNK];
	struct arena a;
	z_stream z;

	stream(&z, j, &a);
	j->j_chunk = in;
	j->j_read  = 0;
	CHECK_IS(inflateBackInit(&z, j->j_bits, window), Z_OK);
	CHECK_IS(inflateBack(&z, read_chunk, j, write_chunk, j), Z_STREAM_END);
	CHECK(j->j_read == j->j_packed_len && z.avail_in == 0);
	CHECK_IS(inflateBackEnd(&z), Z_OK);
	j->j_chunk = NULL;
}

static void there_and_back(struct other *o)
{
	struct job *j = (struct job *)o;

	o->o_random = check_hash(check_seed, (unsigned)(j - jobs));
	j->j_packed_len = j->j_back_len = 0;
	pack(j);
	if (j->j_raw)
		unpack_back(j);
	else
		unpack(j);
	CHECK_IS(j->j_back_len, j->j_len);
	CHECK(memcmp(j->j_back, j->j_data, j->j_len) == 0);
}

/* Makes repeated words, and between them some bytes that do not repeat. */
static void make_data(struct job *j)
{
	unsigned *r = &j->j_other.o_random;
	size_t i = 0, from;
	int run;

	while (i < j->j_len) {
		from = i == 0 ? 0 : check_random(r) % i;
		run = check_random(r) % 4 == 0 || i == 0 ? 0 :
			3 + (int)(check_random(r) % 40);
		for (; run > 0 && i < j->j_len; run--)
			j->j_data[i++] = j->j_data[from++];
		if (i < j->j_len)
			j->j_data[i++] = (unsigned char)check_random(r);
	}
}

static void make_job(struct job *j, unsigned nr)
{
	struct other *o = &j->j_other;

	o->o_f      = there_and_back;
	o->o_random = check_hash(check_seed, nr);
	j->j_level    = (int)(nr % 10);
	j->j_raw      = nr / 2 % 2;
	j->j_on_stack = nr % 2;
	j->j_bits     = j->j_on_stack ? 9 + (int)(nr % 3 == 0) :
		9 + (int)(nr % 7);
	j->j_len      = 1 + check_random(&o->o_random) % DATA;
	make_data(j);
}

/* The plain run. One ordinary call also reads its bytes back. */
static void plain(struct job *j)
{
	static unsigned char back[DATA];
	uLongf len = sizeof back;

	there_and_back(&j->j_other);
	memcpy(j->j_plain, j->j_packed, j->j_packed_len);
	j->j_plain_len = j->j_packed_len;
	if (j->j_raw)
		return;
	CHECK_IS(uncompress(back, &len, j->j_plain, j->j_plain_len), Z_OK);
	CHECK(len == j->j_len && memcmp(back, j->j_data, len) == 0);
}

static void compare(void)
{
	struct job *j;

	for (j = jobs; j < jobs + THREADS; j++) {
		CHECK_IS(j->j_packed_len, j->j_plain_len);
		CHECK(memcmp(j->j_packed, j->j_plain, j->j_plain_len) == 0);
		CHECK(!j->j_on_stack || j->j_arena > 0);
		j->j_arena = 0;
	}
}

/* zlib itself notices a stream that has moved. */
static void moved(void)
{
#if ZLIB_VERNUM >= 0x12b0
	unsigned char byte[64] = { 0 };
	z_stream z, other;

	memset(&z, 0, sizeof z);
	CHECK_IS(deflateInit(&z, 1), Z_OK);
	other = z;
	other.next_in  = other.next_out  = byte;
	other.avail_in = other.avail_out = sizeof byte;
	CHECK_IS(deflate(&other, Z_FINISH), Z_STREAM_ERROR);
	CHECK_IS(deflateEnd(&z), Z_OK);
	memset(&z, 0, sizeof z);
	CHECK_IS(inflateInit(&z), Z_OK);
	other = z;
	CHECK_IS(inflate(&other, Z_FINISH), Z_STREAM_ERROR);
	CHECK_IS(inflateEnd(&z), Z_OK);
#endif
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	moved();
	for (i = 0; i < THREADS; i++) {
		make_job(&jobs[i], (unsigned)i);
		plain(&jobs[i]);
	}
	for (i = 0; i < COUNT(ways); i++) {
		if (others_run(&ways[i], jobs, THREADS, sizeof jobs[0], 6))
			compare();
	}
	return 0;
}

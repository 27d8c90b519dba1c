/* SPDX-License-Identifier: MIT */
/*
 * libpng, unmodified: threads read images by a call-back that waits for more bytes
 * by u_read(). Where an image ends too early, the call-back raises an error of libpng,
 * which is a longjmp() over frames of libpng to a setjmp() before many waits, after
 * which the thread may run elsewhere (WS). Each thread sees its own image, or its
 * own error.
 */
#include "either.h"
#include "uio.h"
#include <png.h>
#include <setjmp.h>
#include <sys/socket.h>

#define NR	60
#define EDGE	40			/* pixels */
#define MOST	(EDGE * EDGE * 3 + 4096)

struct image {
	png_byte i_bytes[MOST];
	int      i_nob;
};

struct reader {
	int      r_fd[2];
	int      r_nr;			/* of the image */
	int      r_nob;			/* that it gets */
	long     r_waits;
	jmp_buf  r_jump;
	png_byte r_row[EDGE * 3];
};

static struct image image[2];
static long images, errors;

static png_byte pixel(int nr, int i)
{
	return (png_byte)(check_hash((unsigned)nr, (unsigned)i) >> 3);
}

/* Makes the images, without threads. */

static void keep(png_structp p, png_bytep at, png_size_t n)
{
	struct image *i = png_get_io_ptr(p);

	CHECK_THAT(i->i_nob + n, <=, MOST);
	memcpy(i->i_bytes + i->i_nob, at, n);
	i->i_nob += (int)n;
}

static void draw(int nr)
{
	png_structp p = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL,
						NULL, NULL);
	png_infop info = png_create_info_struct(p);
	png_byte row[EDGE * 3];
	int y, x;

	CHECK(p != NULL && info != NULL);
	png_set_write_fn(p, &image[nr], keep, NULL);
	png_set_IHDR(p, info, EDGE, EDGE, 8, PNG_COLOR_TYPE_RGB,
		     PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
		     PNG_FILTER_TYPE_DEFAULT);
	png_write_info(p, info);
	for (y = 0; y < EDGE; y++) {
		for (x = 0; x < EDGE * 3; x++)
			row[x] = pixel(nr, y * EDGE * 3 + x);
		png_write_row(p, row);
	}
	png_write_end(p, info);
	png_destroy_write_struct(&p, &info);
}

/* Reads what is there, and waits for more. */
static void more(png_structp p, png_bytep at, png_size_t n)
{
	struct reader *r = png_get_io_ptr(p);

	r->r_waits++;
	if (u_read_all(r->r_fd[0], at, n, UNEVER) != (ssize_t)n)
		png_error(p, "the image ends");
}

static void failed(png_structp p, png_const_charp why)
{
	struct reader *r = png_get_error_ptr(p);

	CHECK_STR(why, "the image ends");
	longjmp(r->r_jump, r->r_nr + 1);
}

static void read_rows(struct reader *r, png_structp p, png_infop info)
{
	int y, x;

	png_set_read_fn(p, r, more);
	png_read_info(p, info);
	for (y = 0; y < EDGE; y++) {
		png_read_row(p, r->r_row, NULL);
		for (x = 0; x < EDGE * 3; x++)
			CHECK_IS(r->r_row[x],
				 pixel(r->r_nr, y * EDGE * 3 + x));
	}
	png_read_end(p, info);
}

static void reader(void *arg)
{
	struct reader *r = arg;
	png_structp p = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, failed,
					       NULL);
	png_infop info = png_create_info_struct(p);
	int rc;

	CHECK(p != NULL && info != NULL);
	rc = setjmp(r->r_jump);
	if (rc == 0) {
		read_rows(r, p, info);
		add(&images, 1);
	} else {
		CHECK_IS(rc, r->r_nr + 1);
		CHECK_THAT(r->r_waits, >, 1);
		add(&errors, 1);
	}
	CHECK_IS(rc != 0, r->r_nob < image[r->r_nr].i_nob);
	png_destroy_read_struct(&p, &info, NULL);
	CHECK_IS(u_close(r->r_fd[0]), 0);
}

/* Sends an image in small parts. */
static void writer(void *arg)
{
	struct reader *r = arg;
	int at, n;

	for (at = 0; at < r->r_nob; at += n) {
		n = r->r_nob - at < 200 ? r->r_nob - at : 200;
		CHECK_IS(u_write_all(r->r_fd[1], image[r->r_nr].i_bytes + at,
				     (size_t)n, UNEVER), n);
		yield();
	}
	CHECK_IS(u_close(r->r_fd[1]), 0);
}

int main(int argc, char **argv)
{
	static struct reader r[NR];
	int i;

	check_start(argc, argv);
	draw(0);
	draw(1);
	begin(2, 0);
	for (i = 0; i < NR; i++) {
		CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, r[i].r_fd), 0);
		r[i].r_nr  = i & 1;
		r[i].r_nob = image[i & 1].i_nob;
		if (i % 3 == 0)
			r[i].r_nob = 100 + (int)(check_hash(check_seed, (unsigned)i)
				% (unsigned)(r[i].r_nob - 200));
		make(i, reader, &r[i]);
		make(i + 1, writer, &r[i]);
	}
	start_and_finish();
	CHECK(get(&errors) == NR / 3 && get(&images) == NR - NR / 3);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* mandelbrot.c: a tile of Mandelbrot's set. */

/* Returns the steps after which a point leaves the circle, at most limit. */
static int steps(double a, double b, int limit)
{
	double x = 0, y = 0, xx = 0, yy = 0;
	int n;

	for (n = 0; n < limit && xx + yy <= 4; n++) {
		y = 2 * x * y + b;
		x = xx - yy + a;
		xx = x * x;
		yy = y * y;
	}
	return n;
}

/*
 * Fills a tile of size * size pixels, a byte each, in a picture with width
 * pixels a line. left and top are of the picture, and step is between pixels.
 */
int tile(unsigned char *picture, int width, int x, int y, int size, int limit,
	 double left, double top, double step)
{
	for (int j = y; j < y + size; j++)
		for (int i = x; i < x + size; i++) {
			int n = steps(left + i * step, top - j * step, limit);

			picture[(long)j * width + i] =
				n == limit ? 0 : 1 + n % 255;
		}
	return 0;
}

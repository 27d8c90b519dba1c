/* SPDX-License-Identifier: MIT */
/* guarded.c: a frame with a guard. Compiled with -fstack-protector-all. */

int guarded(int (*f)(void))
{
	volatile char local[64];

	local[0] = 1;
	return f() + local[0] - 1;
}

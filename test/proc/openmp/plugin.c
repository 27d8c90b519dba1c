/* SPDX-License-Identifier: MIT */
/* plugin.c: for openmp.sh. A plugin that brings a runtime of OpenMP. */

void plugin(void (*f)(int us))
{
#pragma omp parallel num_threads(1)
	f(100);
}

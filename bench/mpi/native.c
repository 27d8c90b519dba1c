/* SPDX-License-Identifier: MIT */
/* native: the ring ping-pong between ranks, a native thread for each member. */

#include "mring.h"

#include <pthread.h>

static long received, ended;		/* atomic */

static void *member(void *arg)
{
	long nr = member_run(arg);

	__atomic_fetch_add(&received, nr, __ATOMIC_RELAXED);
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	int level, rc;
	pthread_t *id;
	double begun;
	long i;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	rc = ring_begin(argc, argv);
	if (rc == 0) {
		id = malloc((member_nr + 1) * sizeof *id);
		MPI_Barrier(MPI_COMM_WORLD);
		begun = bench_now();
		for (i = 0; i < member_nr; i++)
			if (pthread_create(&id[i], NULL, member, &members[i]))
				bench_die(&bench, "native threads", EAGAIN);
		for (i = 0; i < member_nr; i++)
			pthread_join(id[i], NULL);
		rc = ring_end(begun, received, ended);
	}
	MPI_Finalize();
	return rc;
}

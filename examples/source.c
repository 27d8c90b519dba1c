/* SPDX-License-Identifier: MIT */
/* source.c: threads wait for jobs of a device, which is a source of events. */

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

/* On the heap: the device writes there while the thread waits. */
static struct job { struct uwait wait; int number; } *ring[3];
static unsigned asked, done, seen;	/* asked and done are atomic */
static int bell[2];

static void *device(void *arg)		/* a native thread stands for it */
{
	while (done < 3 && poll(NULL, 0, 1) == 0) {
		if (done == __atomic_load_n(&asked, __ATOMIC_ACQUIRE))
			continue;
		ring[done]->number *= ring[done]->number;
		__atomic_store_n(&done, done + 1, __ATOMIC_RELEASE);
		(void)!write(bell[1], "ring it", 8);
	}
	return arg;
}

static void look(struct uwait_source *o)
{
	for ((void)o; seen < __atomic_load_n(&done, __ATOMIC_ACQUIRE); seen++)
		if (uwait_claim(&ring[seen]->wait))
			uwait_complete(&ring[seen]->wait, 0);
}

static void sleep_in(struct uwait_source *o, utime_ns ns)
{
	struct pollfd p = { .fd = bell[0], .events = POLLIN };
	char rings[64];

	if (poll(&p, 1, ns == UNEVER ? -1 : (int)(ns / UTIME_MS + 1)) > 0)
		(void)!read(bell[0], rings, sizeof rings);
	look(o);
}

static struct uwait_source source = { .o_look = look, .o_sleep = sleep_in };

static void square(void *number)
{
	int rc = uwait_source_of(look) ? 0 : uwait_source_add(&source);
	struct job *j = uwait_make(UWAIT_OTHER, &source, sizeof *j);

	if (j == NULL)
		rc = -errno;
	if (rc != 0 || (rc = uwait_reserve(UNEVER)) != 0)
		return (void)printf("error %d\n", rc);
	j->number = *(int *)number;
	j->wait.w_flags |= UWAIT_SURE;	/* the device gives no job back */
	uwait_source_begin(&source);
	ring[asked] = j;
	__atomic_store_n(&asked, asked + 1, __ATOMIC_RELEASE);
	(void)uwait_for(&j->wait, UNEVER);
	uwait_source_end(&source);
	printf("%d squared is %d\n", *(int *)number, j->number);
	uwait_free(j);
}

int main(void)
{
	static int number[3] = { 3, 5, 7 };
	pthread_t id;

	if (pipe(bell) || fcntl(bell[1], F_SETFL, O_NONBLOCK) || rr_init(1, 3))
		return 1;
	source.o_wake = bell[1];
	for (int i = 0; i < 3; i++)
		if (!rr_thread_init(square, &number[i]))
			return 1;
	if (pthread_create(&id, NULL, device, NULL) || rr_start() || rr_fini())
		return 1;
	return pthread_join(id, NULL);
}

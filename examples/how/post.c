/* SPDX-License-Identifier: MIT */
/* post.c: native threads give work to threads, and may wait for the answer. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

static struct uchan *questions, *answers;
static pthread_t native;

/* Runs natively, as a call-back of a library would. */
static void *ask(void *arg)
{
	int v;

	usleep(200000);
	for (int i = 1; i <= 3; i++)
		if (uchan_send(questions, &i, UNEVER) == 0 &&
		    uchan_recv(answers, &v, UNEVER) == 0)	/* blocks natively */
			printf("%d: %d\n", i, v);
	uchan_close(questions);
	return arg;
}

static void answer(void *arg)
{
	int v;

	(void)arg;
	while (uchan_recv(questions, &v, UNEVER) == 0) {
		v *= v;
		uchan_send(answers, &v, UNEVER);
	}
}

static void join(void *arg)
{
	(void)arg;
	pthread_join(native, NULL);
}

static int run(void *arg)
{
	int rc = usched_go(answer, arg);

	if (rc == 0)
		rc = -pthread_create(&native, NULL, ask, NULL);
	if (rc == 0)
		rc = ucall(join, NULL);	/* the scheduler knows that it may still ask */
	return rc;
}

int main(void)
{
	questions = uchan_make(sizeof(int), 0);
	answers = uchan_make(sizeof(int), 0);
	return questions == NULL || answers == NULL || usched_main(run, NULL);
}

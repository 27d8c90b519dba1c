/* SPDX-License-Identifier: MIT */
/* files.c: threads of one processor read files, all at the same time. */

#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

#define FILES	3

/* Not on the stack of the thread: that moves while the thread waits. */
static struct job {
	FILE *file;
	long  lines;
} job[FILES];

/* Runs on a native thread, so it may block. */
static void count(void *arg)
{
	struct job *j = arg;
	int c;

	while ((c = getc(j->file)) != EOF)
		j->lines += c == '\n';
}

/* While it waits for the call, its processor runs other threads. */
static void reader(void *arg)
{
	if (ucall(count, arg) != 0)
		abort();		/* no memory, or no native thread */
}

int main(void)
{
	int i, line;

	if (rr_init(1, FILES) != 0)
		return 1;
	for (i = 0; i < FILES; i++) {
		job[i].file = tmpfile();
		if (job[i].file == NULL)
			return 1;
		for (line = 0; line <= i * 1000; line++)
			fprintf(job[i].file, "line %d\n", line);
		rewind(job[i].file);
		if (rr_thread_init(reader, &job[i]) == NULL)
			return 1;
	}
	if (rr_start() != 0 || rr_fini() != 0)
		return 1;
	for (i = 0; i < FILES; i++) {
		printf("file %d: %ld lines\n", i, job[i].lines);
		fclose(job[i].file);
	}
	return 0;
}

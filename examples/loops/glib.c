/* SPDX-License-Identifier: MIT */
/* glib.c: GLib's main loop runs threads, which call GLib. */
/* LIBS: glib-2.0 */

/*
 * A GSource has the descriptor and, as its ready time, the deadline. GLib needs no more
 * to know when to dispatch it. The threads run on the native thread of the main loop, so
 * they may call GLib, and what is built on it. Its callbacks are no threads.
 */

#include <glib-unix.h>
#include "common.h"

struct source {
	GSource        s_source;
	struct usched *s_sched;
	GMainLoop     *s_loop;
};

static gboolean dispatch(GSource *g, GSourceFunc f, gpointer data)
{
	struct source *s = (struct source *)g;
	utime_ns until;

	(void)f, (void)data;
	if (uloop_run(s->s_sched) <= 0)
		g_main_loop_quit(s->s_loop);
	until = uloop_until(s->s_sched);
	g_source_set_ready_time(g, until == UNEVER ? -1 :
				until / UTIME_US + (until != UNOW));
	return G_SOURCE_CONTINUE;
}

static gboolean on_time(gpointer sem)
{
	printf("glib: time\n");
	usem_post(sem);
	return G_SOURCE_REMOVE;
}

static void talks(void *name)
{
	printf("thread %s, made by a callback\n", (char *)name);
}

static gboolean on_idle(gpointer name)
{
	printf("glib: idle\n");
	make(talks, name);
	return G_SOURCE_REMOVE;
}

static void asks(void *unused)
{
	static struct usem sem = USEM(0);
	int i;

	(void)unused;
	for (i = 0; i < 3; i++) {
		printf("thread: asks for a time\n");
		g_timeout_add(2, on_time, &sem);
		take(&sem);
	}
	g_idle_add(on_idle, "idle");
	u_sleep(uafter(20 * UTIME_MS));
	silence();
}

int main(void)
{
	static GSourceFuncs functions = { .dispatch = dispatch };
	struct source *s = (struct source *)g_source_new(&functions, sizeof *s);
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	s->s_sched = scheduler();
	s->s_loop  = g_main_loop_new(NULL, FALSE);
	make(asks, NULL);
	fd = uloop_start(s->s_sched);
	if (fd < 0)
		return 1;
	g_source_add_unix_fd(&s->s_source, fd, G_IO_IN);
	g_source_set_ready_time(&s->s_source, 0);
	g_source_attach(&s->s_source, NULL);
	g_main_loop_run(s->s_loop);
	g_source_destroy(&s->s_source);
	g_main_loop_unref(s->s_loop);
	g_source_unref(&s->s_source);
	return SCHED(fini)() != 0;
}

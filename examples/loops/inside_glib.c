/* SPDX-License-Identifier: MIT */
/* inside_glib.c: GLib's main loop in a thread of ours, which alone it blocks. */
/* LIBS: glib-2.0 */

/*
 * With the hooks of ext/wrap/ the poll() of the main loop is a wait of its thread, so other
 * threads run meanwhile. The callbacks run in this thread, and may wait.
 *
 * GLib knows native threads only, and takes all threads of a processor for the same. So
 * another thread attaches its source and wakes the loop itself: g_main_context_invoke()
 * would call the function at once, and g_source_attach() would not wake the loop.
 */

#include <glib.h>
#include <stdio.h>
#include <usched/all.h>

static GMainContext *context;
static GMainLoop *loop;
static struct usem told = USEM(0);

static void runs_the_loop(void *unused)
{
	(void)unused;
	g_main_loop_run(loop);
	printf("the loop has ended\n");
}

static gboolean on_source(gpointer what)
{
	printf("loop: %s\n", (char *)what);
	u_sleep(uafter(2 * UTIME_MS));	/* a wait in a callback */
	usem_post(&told);
	return G_SOURCE_REMOVE;
}

static int tell(const char *what, unsigned ms)
{
	GSource *s = ms > 0 ? g_timeout_source_new(ms) : g_idle_source_new();

	g_source_set_callback(s, on_source, (gpointer)what, NULL);
	g_source_attach(s, context);
	g_source_unref(s);
	g_main_context_wakeup(context);
	printf("thread: waits for %s\n", what);
	return usem_wait(&told, UNEVER);
}

static int first(void *unused)
{
	(void)unused;
	context = g_main_context_new();
	loop    = g_main_loop_new(context, FALSE);
	if (usched_go(runs_the_loop, NULL) != 0)
		return 1;
	u_sleep(uafter(5 * UTIME_MS));
	if (tell("a source", 0) != 0 || tell("a time", 5) != 0)
		return 1;
	g_main_loop_quit(loop);
	return 0;
}

int main(void)
{
	int rc = usched_main(first, NULL);

	g_main_loop_unref(loop);
	g_main_context_unref(context);
	return rc;
}

/* SPDX-License-Identifier: MIT */
/* chat.c: a room. A thread reads from each guest, and a thread writes. */

#include "loop.h"
#include <usched/all.h>

#define LINE	32
#define SEATS	3

/* All guests are on one processor, so seats need no lock. */
static struct seat {
	int           fd;
	struct uchan *lines;		/* for the guest; NULL: a free seat */
} seat[SEATS];

/* Says something to all guests. A guest that reads too slowly misses it. */
static void say(const char *text)
{
	char line[LINE] = "";

	snprintf(line, LINE, "%s", text);
	for (struct seat *s = seat; s < seat + SEATS; s++)
		if (s->lines != NULL)
			uchan_send(s->lines, line, UNOW);
}

static int write_lines(void *arg)
{
	struct seat *s = arg;
	char line[LINE];

	while (uchan_recv(s->lines, line, UNEVER) == 0 &&
	       u_write_all(s->fd, line, LINE, UNEVER) == LINE)
		;
	return 0;
}

static void guest(int fd, void *arg)
{
	struct seat *s = seat;
	struct uscope *both;
	char line[LINE];

	while (s->lines != NULL)	/* the server lets SEATS guests in */
		s++;
	s->fd = fd;
	if (uscope_begin(&both, UNEVER) != 0)
		return;
	if ((s->lines = uchan_make(LINE, 16)) != NULL &&
	    uscope_go(both, write_lines, s) == 0) {
		say("a guest comes");
		while (u_read_all(fd, line, LINE, UNEVER) == LINE)
			say(line);
	}
	uscope_cancel(both);
	uscope_end(&both);
	uchan_free(s->lines);
	s->lines = NULL;
	say(arg);
}

static void hear(const char *name, int fd)
{
	char line[LINE] = "nothing";

	u_read_all(fd, line, LINE, uafter(5 * UTIME_S));
	printf("%s hears: %s\n", name, line);
}

static void talk(void)
{
	static struct userve server = {
		.sv_f = guest, .sv_arg = "a guest goes", .sv_limit = SEATS
	};
	int ann, bob, port = serve(&server);

	hear("ann", ann = dial(port));
	hear("bob", bob = dial(port));
	hear("ann", ann);
	u_write_all(bob, (char [LINE]){ "hello, ann" }, LINE, UNEVER);
	hear("ann", ann);
	hear("bob", bob);
	u_close(bob);
	hear("ann", ann);
	u_close(ann);
}

int main(void)
{
	return run(talk);
}

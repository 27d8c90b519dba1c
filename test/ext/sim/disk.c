/* SPDX-License-Identifier: MIT */
/*
 * disk.c: a crash leaves what the model of ext/sim/sdisk.c allows,
 * sdisk D1 to D5, and each allowed state is left by some seed. A host changes
 * files by one of several scripts, crashes, and looks at what is there. For
 * each script this file lists the states by hand. Another state is a failure,
 * and so is a state that no seed has shown, by usim_sometimes(). An append may be
 * torn into pieces of 1 to 512 bytes at any place: of these the first, the last and
 * the length are judged.
 */

#include "sim.h"
#include <usched/usim.h>
#include <usched/uthread.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = 512 };

static int script;	/* drawn in the first boot */

static int file(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0644);

	USIM_CHECK(fd >= 0);
	return fd;
}

static void put(int fd, char what, size_t size, off_t at)
{
	char data[2 * SECTOR];

	memset(data, what, sizeof data);
	USIM_CHECK(pwrite(fd, data, size, at) == (ssize_t)size);
}

static void sync_folder(const char *name)
{
	int fd = open(name, O_RDONLY | O_DIRECTORY);

	USIM_CHECK(fd >= 0 && fsync(fd) == 0 && close(fd) == 0);
}

/* A file that is stored, with size bytes of this kind. */
static int stored(const char *name, char what, size_t size)
{
	int fd = file(name);

	put(fd, what, size, 0);
	USIM_CHECK(fsync(fd) == 0);
	sync_folder("/");
	return fd;
}

/*
 * What is there, as text: "-" for no file, or its length, and a letter for each
 * run of equal bytes; . for zero bytes. A mode that is not 0644 follows.
 */
static void see(const char *name, char *text, size_t size)
{
	char data[4 * SECTOR];
	int fd = open(name, O_RDONLY);
	struct stat st;
	ssize_t nr, i;
	size_t at;

	snprintf(text, size, "-");
	if (fd < 0)
		return;
	nr = read(fd, data, sizeof data);
	USIM_CHECK(fstat(fd, &st) == 0 && nr >= 0 && close(fd) == 0);
	at = (size_t)snprintf(text, size, "%d", (int)nr);
	for (i = 0; i < nr; i++)
		if (i == 0 || data[i] != data[i - 1]) {
			if (at + 2 >= size)
				return;
			text[at++] = data[i] == 0 ? '.' : data[i];
			text[at] = 0;
		}
	if ((st.st_mode & 07777) != 0644)
		snprintf(text + at, size - at, "+%o", st.st_mode & 07777);
}

/* Scripts. Each leaves its file a, and perhaps b, to a crash. */

static void one_write(void)
{
	put(stored("a", 'o', 0), 'x', 2 * SECTOR, 0);
}

static void over_a_sector(void)
{
	put(stored("a", 'o', SECTOR), 'x', 100, 40);
}

static void two_sectors(void)
{
	put(stored("a", 'o', 2 * SECTOR), 'x', 2 * SECTOR, 0);
}

static void over_the_end(void)
{
	put(stored("a", 'o', SECTOR / 2), 'x', SECTOR, 0);
}

static void second_write(void)
{
	int fd = stored("a", 'o', SECTOR);

	put(fd, 'x', SECTOR, 0);
	USIM_CHECK(fsync(fd) == 0);
	put(fd, 'y', SECTOR, SECTOR);
}

static void truncate_and_write(void)
{
	int fd = stored("a", 'o', SECTOR);

	USIM_CHECK(ftruncate(fd, 0) == 0);
	put(fd, 'x', 100, 0);
}

static void replace(void)
{
	int fd;

	(void)stored("a", 'o', SECTOR);
	fd = file("b");
	put(fd, 'x', SECTOR, 0);
	USIM_CHECK(fsync(fd) == 0 && rename("b", "a") == 0);
}

static void replace_well(void)
{
	replace();
	sync_folder(".");
}

/* The folder is stored, the bytes are not. */
static void hollow(void)
{
	put(file("a"), 'x', SECTOR, 0);
	sync_folder("/");
}

/* The bytes are stored, the folder is not. */
static void nameless(void)
{
	int fd = file("a");

	put(fd, 'x', SECTOR, 0);
	USIM_CHECK(fsync(fd) == 0);
}

static void unlinked(void)
{
	(void)stored("a", 'o', SECTOR);
	(void)stored("b", 'o', SECTOR);
	USIM_CHECK(unlink("a") == 0 && unlink("b") == 0);
}

static void *write_late(void *fd)
{
	usleep(10);
	put((int)(intptr_t)fd, 'y', SECTOR, SECTOR);
	return NULL;
}

/* A write while a sync lasts is not a part of it: sdisk D5. */
static void during_a_sync(void)
{
	int fd = stored("a", 'o', SECTOR);

	put(fd, 'x', SECTOR, 0);
	USIM_CHECK(uthread_make(NULL, write_late, (void *)(intptr_t)fd, "") == 0);
	USIM_CHECK(fsync(fd) == 0);
	usleep(1000);
}

static void synced_writes(void)
{
	int fd = stored("a", 'o', SECTOR), other = open("a", O_WRONLY | O_DSYNC);

	USIM_CHECK(other >= 0);
	put(fd, 'x', SECTOR, 0);
	put(other, 'y', SECTOR, SECTOR);
}

/* A sync that fails drops what it should have stored, and so does the next: sdisk D6. */
static void failed_sync(void)
{
	static struct sim_fault eio = { .f_text = "eio" };
	int fd = stored("a", 'o', SECTOR);

	sim_world.w_run = UTIME_S;
	sim_self()->b_host->h_eio = &eio;
	put(fd, 'x', SECTOR, 0);
	USIM_CHECK(fsync(fd) == -1 && errno == EIO);
	put(fd, 'y', SECTOR, SECTOR);
	USIM_CHECK(fsync(fd) == 0);
}

/* A full disk writes a part of new bytes, or none, and all bytes over old ones. */
static void full(void)
{
	static struct sim_fault no_room = { .f_length = UTIME_S };
	char data[SECTOR] = "";
	int fd = stored("a", 'o', SECTOR);

	no_room.f_at = sim_now();
	sim_self()->b_host->h_full = &no_room;
	USIM_CHECK(open("b", O_RDWR | O_CREAT, 0644) == -1 && errno == ENOSPC);
	USIM_CHECK(mkdir("b", 0755) == -1 && errno == ENOSPC);
	put(fd, 'x', SECTOR, 0);
	USIM_CHECK(pwrite(fd, data, SECTOR, SECTOR / 2) == SECTOR / 2);
	USIM_CHECK(pwrite(fd, data, 1, SECTOR) == -1 && errno == ENOSPC);
	put(fd, 'x', SECTOR, 0);
	USIM_CHECK(fsync(fd) == 0);
	no_room.f_length = 0;
	put(fd, 'y', 1, SECTOR);
	USIM_CHECK(fsync(fd) == 0);
}

static void mode(void)
{
	(void)stored("a", 'o', SECTOR);
	USIM_CHECK(chmod("a", 0600) == 0);
}

static void stored_mode(void)
{
	int fd = stored("a", 'o', SECTOR);

	USIM_CHECK(fchmod(fd, 0711) == 0 && fchmod(fd, 0600) == 0 && fsync(fd) == 0);
}

/*
 * The states of a and b, each "A B". With torn, a file of this letter may be behind
 * what comes before it, torn, and up to so long.
 */
static const struct {
	const char *name;
	void      (*f)(void);
	const char *states[8];
	const char *torn;		/* "" or what comes before, and the letter */
	int         least, most;	/* bytes of the file */
} scripts[] = {
	{ "one write", one_write,
	  { "0 -", "512x -", "1024x -" }, "x", 1, 1024 },
	{ "over a sector", over_a_sector, { "512o -", "512oxo -" }, NULL, 0, 0 },
	{ "two sectors", two_sectors,
	  { "1024o -", "1024x -", "1024xo -", "1024ox -" }, NULL, 0, 0 },
	{ "over the end", over_the_end,
	  { "256o -", "256x -", "512x -" }, "ox", 257, 512 },
	{ "second write", second_write, { "512x -", "1024xy -" }, "xy", 513, 1024 },
	{ "truncate and write", truncate_and_write,
	  { "512o -", "512xo -", "0 -", "100x -" }, "x", 1, 100 },
	{ "replace", replace, { "512o -", "512o 512x", "512x -" }, NULL, 0, 0 },
	{ "replace well", replace_well, { "512x -" }, NULL, 0, 0 },
	{ "hollow", hollow, { "0 -", "512x -" }, "x", 1, 512 },
	{ "nameless", nameless, { "- -", "512x -" }, NULL, 0, 0 },
	{ "unlinked", unlinked, { "512o 512o", "- 512o", "- -" }, NULL, 0, 0 },
	{ "during a sync", during_a_sync, { "512x -", "1024xy -" }, "xy", 513, 1024 },
	{ "failed sync", failed_sync, { "1024oy -", "1024xy -" }, NULL, 0, 0 },
	{ "full", full, { "513xy -" }, NULL, 0, 0 },
	{ "mode", mode, { "512o -", "512o+600 -" }, NULL, 0, 0 },
	{ "stored mode", stored_mode, { "512o+600 -" }, NULL, 0, 0 },
	{ "synced writes", synced_writes, { "1024xy -" }, NULL, 0, 0 },
};

enum { SCRIPTS = sizeof scripts / sizeof *scripts };

/* Returns whether a file is a torn append: zeros and its letter behind what was. */
static int is_torn(const char *state)
{
	const char *torn = scripts[script].torn, *at = state;
	int size = (int)strtol(state, (char **)&at, 10);

	if (torn == NULL || size < scripts[script].least || size > scripts[script].most)
		return 0;
	if (torn[1] != 0)
		at += *at == *torn++;
	for (; *at == '.' || *at == *torn; at++)
		;
	return *at == 0 || strcmp(at, " -") == 0;
}

/* All states are noted as sometimes, but only those of this script as tried. */
static void judge(const char *state)
{
	const char *const *s = scripts[script].states;
	char name[40];
	int found = 0;

	for (; *s != NULL; s++) {
		snprintf(name, sizeof name, "%s: %s", scripts[script].name, *s);
		usim_sometimes(strcmp(*s, state) == 0, name);
		found |= strcmp(*s, state) == 0;
	}
	if (scripts[script].torn != NULL) {
		snprintf(name, sizeof name, "%s: torn", scripts[script].name);
		usim_sometimes(!found && is_torn(state), name);
		snprintf(name, sizeof name, "%s: a gap", scripts[script].name);
		usim_sometimes(!found && is_torn(state) && strchr(state, '.') != NULL &&
			       strcmp(strchr(state, '.'), ". -") != 0, name);
		found |= is_torn(state);
	}
	if (!found)
		usim_fail("%s: %s is no state of the model",
			  scripts[script].name, state);
}

static int host(void *unused)
{
	char a[40], b[20];

	(void)unused;
	if (usim_boot() == 1) {
		script = (int)usim_random(SCRIPTS);
		scripts[script].f();
		sim_crash(sim_self()->b_host, UTIME_MS, "by itself");
	}
	see("a", a, 20);
	see("b", b, sizeof b);
	strcat(strcat(a, " "), b);
	usim_log("%s: %s", scripts[script].name, a);
	judge(a);
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_faults = 0;
	USIM_CHECK(usim_client("host", host, NULL) == 1);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}

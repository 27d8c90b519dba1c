/* SPDX-License-Identifier: MIT */
/* sim.c: the simulated kernel answers a script of calls as Linux does, for any bytes. */

/*
 * An entry point for libFuzzer (test/whole/entry.sh). The bytes are the draws of a
 * script of test/ext/sim/truth.c, which is linked twice: its calls reach Linux, and
 * the simulator. Both print what each call has answered, and all lines must be the
 * same. A busy machine is late, so a script that differs is tried again.
 *
 * Each runs in a process of its own. The counts of libFuzzer are brought back from
 * there by _exit(), or it would see nothing of the simulator.
 */
#include "check.h"
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { BYTES = 300, TRIES = 3 };

int truth_simulated(const unsigned char *bytes, size_t nr);
int truth_linux(const unsigned char *bytes, size_t nr);

/* The counters of libFuzzer, if it is here. The names in C are not clang's own. */
extern unsigned char first[] __asm__("__start___sancov_cntrs") __attribute__((weak));
extern unsigned char end[] __asm__("__stop___sancov_cntrs") __attribute__((weak));
static unsigned char *counters;		/* as the processes left them */
static pid_t fuzzer;			/* the first process */

static void counters_merge(unsigned char *to, const unsigned char *from)
{
	size_t i, nr = end - first;

	for (i = 0; i < nr && to != NULL; i++)
		to[i] = from[i] > to[i] ? from[i] : to[i];
}

/* Is _exit() of all files here, by a macro. A failed CHECK() is an input to keep. */
void entry_exit(int status)
{
	if (getpid() == fuzzer)
		abort();
	counters_merge(counters, first);
	for (;;)
		(void)syscall(SYS_exit_group, status);
}

static void counters_make(void)
{
	size_t nr = end - first;

	if (nr == 0 || counters != NULL)
		return;
	counters = mmap(NULL, nr, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK_THAT(counters, !=, MAP_FAILED);
}

/* Removes a folder, and folders in it. */
static void folder_remove(const char *folder)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(folder);

	CHECK(d != NULL);
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		if (unlink(path) != 0)
			folder_remove(path);
	}
	closedir(d);
	CHECK_IS(rmdir(folder), 0);
}

/* Runs a script in a process, which prints to the file out. */
static void run(int truth(const unsigned char *, size_t), const unsigned char *bytes,
		size_t nr, int out)
{
	char folder[] = "/tmp/entry.XXXXXX";
	int status = 0;
	pid_t pid;

	CHECK(ftruncate(out, 0) == 0 && mkdtemp(folder) != NULL);
	fflush(NULL);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		if (chdir(folder) != 0 || lseek(out, 0, SEEK_SET) != 0 ||
		    dup2(out, STDOUT_FILENO) < 0)
			_exit(3);
		status = truth(bytes, nr);
		fflush(stdout);
		_exit(status);
	}
	while (waitpid(pid, &status, 0) != pid)
		CHECK_IS(errno, EINTR);		/* a timer of libFuzzer */
	folder_remove(folder);
	if (status != 0)
		dprintf(out, "ended with status %#x\n", (unsigned)status);
}

/* Reads a line that is none of the simulator's own. Returns false at the end. */
static bool line_of(FILE *from, char *line, int size)
{
	while (fgets(line, size, from) != NULL)
		if (line[0] != ' ' && !isdigit((unsigned char)line[0]) &&
		    strncmp(line, "seed ", 5) != 0)
			return true;
	line[0] = 0;
	return false;
}

/* Returns whether two files say the same. If the last line differs, both are told. */
static bool agree(int fd, int other)
{
	FILE *a = fdopen(dup(fd), "r"), *b = fdopen(dup(other), "r");
	char one[200] = "", two[200] = "";
	bool more = true;

	CHECK(a != NULL && b != NULL);
	rewind(a);
	rewind(b);
	while (more && strcmp(one, two) == 0)
		more = (int)line_of(a, one, sizeof one) |
			(int)line_of(b, two, sizeof two);
	fclose(a);
	fclose(b);
	if (strcmp(one, two) != 0)
		fprintf(stderr, "Linux: %s\nsimulated: %s\n", one, two);
	return strcmp(one, two) == 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
	int real = memfd_create("linux", 0), simulated = memfd_create("simulated", 0);
	int tries = 0;

	CHECK(real >= 0 && simulated >= 0);
	fuzzer = getpid();
	counters_make();
	n = n < BYTES ? n : BYTES;
	run(truth_simulated, bytes, n, simulated);
	do {
		CHECK_THAT(tries++, <, TRIES);
		run(truth_linux, bytes, n, real);
	} while (!agree(real, simulated));
	if (counters != NULL)
		counters_merge(first, counters);
	close(real);
	close(simulated);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * refuse.c: a thread or file that cannot leave, arrive, be saved or be loaded is
 * refused with a sentence that says why, and the thread goes on where it was.
 *
 *	refuse FOLDER
 */

#include "program.h"
#include "uscope.h"
#include "usync.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdbool.h>
#include <sys/stat.h>

#define MOST	65536

/* The layout of a file: umove_inside.h. */
enum { PROGRAM = 56, SUMMARY = 32, HEAD = 56 };

int guarded(int (*f)(void));

static const char *folder;
static char said[2000], path[300], bytes[MOST], copy[MOST];
static size_t bytes_nob;
static long ran, checks;

static void hear(const char *line)
{
	snprintf(said, sizeof said, "%s", line);
}

/* The call returned rc, and said something with text, or nothing if that is NULL. */
static void expect(const char *what, long rc, long wanted, const char *text)
{
	checks++;
	if (rc != wanted || (text == NULL ? said[0] != '\0' :
			     strstr(said, text) == NULL)) {
		wrong++;
		fprintf(stderr, "%s: %ld, not %ld; \"%s\"\n", what, rc, wanted,
			said);
	}
	said[0] = '\0';
}

/* Keeps the bytes, and the thread stays. */
static int keep(void *arg, const void *from, size_t nob)
{
	(void)arg;
	memcpy(bytes, from, nob);
	bytes_nob = nob;
	return -EAGAIN;
}

static int leave(void)
{
	return umove_to(keep, NULL);
}

static int compare_rc;

static int compare(const void *a, const void *b)
{
	compare_rc = leave();
	return *(const int *)a - *(const int *)b;
}

/* What is a thread of umove_make(). */
static void leaver(void *arg)
{
	static struct umutex lock;
	struct uscope *scope;
	jmp_buf jump;
	int two[2] = { 2, 1 };

	expect("leaves", leave(), -EAGAIN, NULL);
	qsort(two, 2, sizeof two[0], compare);
	expect("qsort", compare_rc, -ENOTSUP,
	       "a function of this library is on its stack: ");
	expect("guard", guarded(leave), -ENOTSUP, "a frame has a guard");
	memset(&jump, 0, sizeof jump);
	if (setjmp(jump) == 0)
		expect("jmp_buf", leave(), -ENOTSUP, "a jmp_buf");
	memset(&jump, 0, sizeof jump);
	__asm__ volatile("" : : "r"(&jump) : "memory");
	if (uscope_begin(&scope, UNEVER) != 0)
		say_wrong("no scope", 0);
	expect("scope", leave(), -EINVAL, "a scope of the caller has not ended");
	(void)uscope_end(&scope);
	S(post)(S(self)());
	expect("wake", leave(), -ENOTSUP, "a wake has come");
	(void)S(wait)();
	if (umutex_lock(&lock, UNEVER) != 0)
		say_wrong("no lock", 0);
#if defined(USCHED_HARD)
	expect("lock", leave(), -ENOTSUP, "it holds a lock");
#endif
	umutex_unlock(&lock);
	expect("goes on", leave(), -EAGAIN, NULL);
	ran++;
	(void)arg;
}

/* Comes from bytes, and says so. */
static void comer(void *arg)
{
	int rc = umove_to(keep, NULL);

	if (rc == 1)
		ran += 100;
	else if (rc == -EAGAIN)
		ran++;
	(void)arg;
}

static int import(size_t nob)
{
	return umove_import(copy, nob);
}

/* Changes a byte of a copy of the bytes. */
static size_t changed(size_t at)
{
	memcpy(copy, bytes, bytes_nob);
	copy[at] ^= 0x40;
	return bytes_nob;
}

static void imports(void)
{
	size_t nob;

	expect("make", umove_make(comer, NULL) < 0, 0, NULL);
	while (umove_alive() > 0)
		(void)S(yield)();
	nob = changed(0);
	expect("magic", import(nob), -EINVAL, NULL);
	nob = changed(8);
	expect("build", import(nob), -ENOTSUP, "from another build");
	nob = changed(17);
	expect("address", import(nob), -ENOTSUP, "loaded to another address");
	nob = changed(25);
	expect("lanes", import(nob), -ENOTSUP, "with other lanes");
	nob = changed(50);
	expect("heaps", import(nob), -ENOTSUP, "heaps of another size");
	nob = changed(0);
	copy[0] = bytes[0];
	expect("short", import(nob - 8), -EINVAL, NULL);
	expect("shorter", import(9), -EINVAL, NULL);
	nob = changed(PROGRAM + 24);
	expect("top", import(nob), -EINVAL, NULL);
	memcpy(copy, bytes, bytes_nob);
	expect("arrives", import(bytes_nob), 0, NULL);
	expect("again", import(bytes_nob), -ENOTSUP, "is here already");
	while (umove_alive() > 0)
		(void)S(yield)();
	expect("has run", ran, 102, NULL);
}

static void whole_file(void *arg)
{
	long *stop = umove_alloc(sizeof *stop);

	*stop = 7;
	expect("letter", umove_send(umove_self(), "letter", 7), 0, NULL);
	while (*stop > 0 && umove_point() == 0 && *(volatile int *)arg == 0)
		(void)S(yield)();
}

static int stop_all;

/* There is memory, but for one request: of the scheduler, or by calloc(). */
static long requests, refused_at = -1;
static void *(*alloc)(struct usched *s, int nob);

static bool lacks(void)
{
	return refused_at >= 0 && requests++ == refused_at;
}

static void *alloc_but_one(struct usched *s, int nob)
{
	return lacks() ? NULL : alloc(s, nob);
}

extern void *__libc_calloc(size_t nr, size_t nob);

void *calloc(size_t nr, size_t nob)
{
	return lacks() ? NULL : __libc_calloc(nr, nob);
}

static void memory_lacks(long at)
{
	struct usched *s = S(sched)(0);

	requests   = 0;
	refused_at = at;
	if (alloc == NULL)
		alloc = s->s_alloc;
	s->s_alloc = at >= 0 ? alloc_but_one : alloc;
}

/* Each time another request for memory fails, until none does. */
static void poor_loads(const char *name)
{
	long at = 0, rc = -ENOMEM;

	for (; rc == -ENOMEM; at++) {
		memory_lacks(at);
		rc = umove_load(name);
		memory_lacks(-1);
		if (rc == -ENOMEM)
			expect("none is here", umove_alive(), 0, NULL);
	}
	expect("loaded at last", rc, 5, NULL);
	expect("several requests", at > 3, 1, NULL);
	memory_lacks(-1);
}

static int gone(void *arg, const void *from, size_t nob)
{
	(void)arg, (void)from, (void)nob;
	return 0;
}

static void goes(void *arg)
{
	(void)umove_to(gone, NULL);
	say_wrong("has gone, and runs", 0);
	(void)arg;
}

static long number_of_goer(void)
{
	long nr = umove_make(goes, NULL);

	while (umove_alive() > 0)
		(void)S(yield)();
	return nr;
}

/* Threads have ended here twice, since a load has brought them back. */
static void numbers(void)
{
	long nr = number_of_goer();
	int i;

	for (i = 0; i < 20; i++)
		expect("a number is given twice", number_of_goer() != nr, 1, NULL);
}

static int stop_poor;
static long poor_points;

/* Comes to points, also if these fail. */
static void poor(void *arg)
{
	int rc;

	while (!stop_poor) {
		rc = umove_point();
		if (rc == -ENOMEM)
			poor_points++;
		else if (rc != 0)
			say_wrong("a point has failed", rc);
		(void)S(yield)();
	}
	(void)arg;
}

static void poor_saves(void)
{
	long at, failed = 0;
	int i, rc;

	for (i = 0; i < 5; i++)
		expect("make", umove_make(poor, NULL) < 0, 0, NULL);
	for (i = 0; i < 5; i++)
		(void)S(yield)();
	for (at = 0; at < 40; at++) {
		memory_lacks(at);
		rc = umove_save(path);
		memory_lacks(-1);
		if (rc != 0)
			expect("poor save", rc, -ENOMEM, NULL);
		failed += rc != 0;
		(void)S(yield)();
	}
	stop_poor = 1;
	while (umove_alive() > 0)
		(void)S(yield)();
	expect("saves have failed", failed > 0, 1, NULL);
	expect("points have failed", poor_points > 0, 1, NULL);
}

/* The bytes of the file, of which nob are written to another. */
static char *file;
static size_t file_nob;

static void file_read(void)
{
	struct stat st;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st) != 0 ||
	    (file = malloc((size_t)st.st_size + 100)) == NULL ||
	    read(fd, file, (size_t)st.st_size) != st.st_size)
		say_wrong("no file", 0);
	file_nob = (size_t)st.st_size;
	close(fd);
}

static long load(const char *from, size_t nob)
{
	char name[400];
	int fd;

	snprintf(name, sizeof name, "%s/changed", folder);
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, from, nob) != (ssize_t)nob)
		say_wrong("cannot write", 0);
	close(fd);
	return umove_load(name);
}

/* The checksum of usave.c. */
static void seal(char *at, size_t nob)
{
	unsigned long sum = 1, word;
	size_t i;

	for (i = 0; i + 8 < nob; i += 8) {
		memcpy(&word, at + i, sizeof word);
		sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
		sum ^= sum >> 32;
	}
	memcpy(at + nob - 8, &sum, sizeof sum);
}

/* A field that is something else, though the checksum is right. */
static void field(const char *what, size_t at, size_t size)
{
	char *other = malloc(file_nob);
	int i, k;

	for (i = 0; i < 200; i++) {
		memcpy(other, file, file_nob);
		for (k = 0; k < (int)size; k++)
			other[at + (size_t)k] = (char)(rand() % (i % 2 ? 256 : 3));
		if (memcmp(other + at, file + at, size) == 0)
			continue;
		seal(other, file_nob);
		expect(what, load(other, file_nob), -EBADMSG, "changed: ");
	}
	free(other);
}

static void torn(void)
{
	char *other = malloc(file_nob + 100);
	int i;

	for (i = 0; i < 500; i++)
		expect("cut", load(file, (size_t)rand() % file_nob), -EBADMSG,
		       "changed: ");
	for (i = 0; i < 1000; i++) {
		size_t at = (size_t)rand() % file_nob;

		memcpy(other, file, file_nob);
		other[at] ^= (char)(1 << rand() % 8);
		expect("flipped", load(other, file_nob), -EBADMSG, "changed: ");
	}
	memcpy(other, file, file_nob);
	memset(other + file_nob, 0, 8);
	expect("longer", load(other, file_nob + 8), -EBADMSG, "changed: ");
	for (i = 0; i < 200; i++) {
		size_t at, nob = (size_t)rand() % file_nob;

		for (at = 0; at < nob; at++)
			other[at] = (char)rand();
		if (i % 2 && nob >= 8)
			memcpy(other, file, 8);
		if (i % 4 == 3 && nob >= 88)
			seal(other, nob - nob % 8);
		expect("noise", load(other, nob), -EBADMSG, "changed: ");
	}
	free(other);
}

static void saves(void)
{
	size_t head = PROGRAM + SUMMARY;
	char name[400];
	int i;

	for (i = 0; i < 5; i++)
		expect("make", umove_make(whole_file, &stop_all) < 0, 0, NULL);
	snprintf(path, sizeof path, "%s/nowhere/file", folder);
	expect("no folder", umove_save(path), -ENOENT, NULL);
	snprintf(path, sizeof path, "%s/file", folder);
	expect("save", umove_save(path), 0, NULL);
	expect("twice here", umove_load(path), -ENOTSUP, "is here already");
	stop_all = 1;
	while (umove_alive() > 0)
		(void)S(yield)();
	snprintf(name, sizeof name, "%s/missing", folder);
	expect("missing", umove_load(name), -ENOENT, NULL);
	expect("folder", umove_load(folder), -EBADMSG, "no whole file");
	expect("device", umove_load("/dev/zero"), -EBADMSG, "no whole file");
	file_read();
	torn();
	field("threads", PROGRAM, 8);
	field("bytes", PROGRAM + 16, 8);
	field("top", head + 24, 8);
	field("slice", head + 32, 4);
	field("heap", head + 36, 4);
	field("lane", head + 40, 4);
	field("box", head + 48, 8);
	expect("whole", load(file, file_nob), 5, NULL);
	while (umove_alive() > 0)
		(void)S(yield)();
	poor_loads(path);
	while (umove_alive() > 0)
		(void)S(yield)();
	numbers();
	poor_saves();
	free(file);
}

/* Mail of a thread to itself, and to those that are not here. */
static void writer(void *arg)
{
	long nr = umove_self(), from;
	char word[8];

	expect("nobody", umove_send(nr + 1, "a", 1), -ESRCH, NULL);
	expect("negative", umove_send(-1, "a", 1), -EINVAL, NULL);
	expect("no mail", umove_recv(UMOVE_ANY, word, 8, NULL, UNOW), -EAGAIN, NULL);
	expect("late", umove_recv(nr, word, 8, NULL, uafter(UTIME_MS)), -ETIMEDOUT,
	       NULL);
	expect("send", umove_send(nr, "long", 5), 0, NULL);
	expect("send", umove_send(nr, "b", 2), 0, NULL);
	expect("room", umove_recv(nr, word, 4, NULL, UNOW), -EMSGSIZE, NULL);
	expect("other", umove_recv(nr + 1, word, 8, NULL, UNOW), -EAGAIN, NULL);
	expect("recv", umove_recv(UMOVE_ANY, word, 8, &from, UNOW), 5, NULL);
	expect("from", from == nr && strcmp(word, "long") == 0, 1, NULL);
	expect("recv", umove_recv(nr, word, 8, NULL, UNEVER), 2, NULL);
	*(long *)arg = nr;
}

/* Lets others run, and the thread stays. */
static int hesitate(void *arg, const void *from, size_t nob)
{
	(void)S(yield)();
	return keep(arg, from, nob);
}

/* Takes no mail while it leaves. */
static void hesitant(void *arg)
{
	char word[8];

	*(long *)arg = umove_self();
	expect("leave", umove_to(hesitate, NULL), -EAGAIN, NULL);
	expect("recv", umove_recv(UMOVE_ANY, word, 8, NULL, UNEVER), 6, NULL);
	expect("the later letter", strcmp(word, "later"), 0, NULL);
}

static void sender(void *arg)
{
	expect("leaves", umove_send(*(long *)arg, "early", 6), -ESRCH, NULL);
	(void)S(yield)();
	expect("stays", umove_send(*(long *)arg, "later", 6), 0, NULL);
}

static void mails(void)
{
	static long before, nr;

	expect("make", umove_make(hesitant, &nr) < 0, 0, NULL);
	expect("make", umove_make(sender, &nr) < 0, 0, NULL);
	while (umove_alive() > 0)
		(void)S(yield)();
	expect("make", umove_make(writer, &before) < 0, 0, NULL);
	while (umove_alive() > 0)
		(void)S(yield)();
	expect("make", umove_make(writer, &nr) < 0, 0, NULL);
	while (umove_alive() > 0)
		(void)S(yield)();
	expect("a number is given again", nr != before, 1, NULL);
	expect("mail of another", umove_send(nr, "a", 1), -EINVAL,
	       "umove_make() has not made the caller");
}

static void first(void *arg)
{
	expect("move of another", umove_to(keep, NULL), -EINVAL,
	       "umove_make() has not made the caller");
	expect("init twice", umove_init(S(sched)(0), 0, 1, HEAP), -EBUSY, NULL);
	expect("heap of another", umove_alloc(8) != NULL, 0,
	       "umove_make() has not made the caller");
	expect("make", umove_make(leaver, NULL) < 0, 0, NULL);
	while (umove_alive() > 0)
		(void)S(yield)();
	imports();
	mails();
	saves();
	(void)S(private)(1);
	expect("private", umove_make(comer, NULL), -ENOTSUP, "private stacks");
	(void)S(private)(0);
	(void)arg;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 1;
	folder = argv[1];
	usched_on_message(hear);
	expect("ranks", umove_init(NULL, 0, 1, HEAP), -EINVAL, NULL);
	if (S(init)(2, 0) != 0)
		return 1;
	expect("two", umove_init(S(sched)(0), 0, 1, HEAP), -ENOTSUP,
	       "several processors");
	if (S(fini)() != 0 || S(init)(1, 0) != 0)
		return 1;
	expect("rank", umove_init(S(sched)(0), 1, 1, HEAP), -EINVAL, NULL);
	expect("init", umove_init(S(sched)(0), 0, 1, HEAP), 0, NULL);
	if (MAKE(first, NULL) == NULL || S(start)() != 0 || S(fini)() != 0)
		return 1;
	umove_fini();
	if (checks < 2000)
		say_wrong("too few checks", checks);
	return wrong != 0;
}

/* SPDX-License-Identifier: MIT */
/* lookup: a look-up ends at its deadline, and nothing waits for what is left. */
/* VARIANTS: RR LL WS PR */
/* LIBS: -Wl,--wrap=getaddrinfo,--wrap=freeaddrinfo */

/*
 * getaddrinfo() is deaf here: it returns when the test lets it. Look-ups end at
 * their deadline, by a cancelled scope and by an interrupt all the same. Each
 * late answer is freed once, and each answer that comes in time is the caller's,
 * also if it comes with the deadline. Names and hints may lie on the stack of the
 * caller, which has changed them by then. A thousand threads look up by at most
 * UCALL_LOOKUPS native threads. When so many are abandoned, look-ups return
 * -EAGAIN, and work again as soon as an answer comes. Meanwhile files do not wait,
 * nor does the end of a scheduler, nor that of a program.
 */

#include "either.h"
#include "ucall.h"
#include "ufile.h"
#include "uio.h"
#include "uscope.h"
#include "uthread.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>

#define MANY	1000
#define SOON	(5 * UTIME_MS)
#define CLOSE	100

static long deaf, asked, answered, inside, made, freed;
static long started, cancelled, ended;
static long late_us;			/* an answer comes so late */

int __real_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **list);
void __real_freeaddrinfo(struct addrinfo *list);
void __wrap_freeaddrinfo(struct addrinfo *list);

int __wrap_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **list)
{
	int rc;

	CHECK_THAT(add(&inside, 1), <=, UCALL_LOOKUPS);
	add(&asked, 1);
	while (get(&deaf))
		usleep(2000);
	if (get(&late_us) != 0)
		usleep((unsigned)get(&late_us));
	CHECK(strcmp(host, "127.1.2.3") == 0 && strcmp(service, "80") == 0);
	CHECK_IS(hints->ai_socktype, SOCK_STREAM);
	rc = __real_getaddrinfo(host, service, hints, list);
	CHECK_IS(rc, 0);
	add(&made, 1);
	add(&answered, 1);
	add(&inside, -1);
	return rc;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
	__real_freeaddrinfo(list);
	add(&freed, 1);
}

/* Looks up, with all arguments on the stack, and frees the answer. */
static NOINLINE int look(utime_ns until)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST,
				  .ai_socktype = SOCK_STREAM };
	char host[] = "127.1.2.3", service[] = "80";
	struct addrinfo *list = NULL;
	int rc = u_getaddrinfo(host, service, &hints, &list, until);

	memset(host, 'x', sizeof host - 1);
	memset(service, 'x', sizeof service - 1);
	memset(&hints, 0xff, sizeof hints);
	CHECK_IS(rc == 0, list != NULL);
	if (rc == 0) {
		CHECK_IS(((struct sockaddr_in *)list->ai_addr)->sin_addr.s_addr,
			 htonl(0x7f010203));
		freeaddrinfo(list);
	}
	return rc;
}

/* Lets all answers come, and waits until the late answers are freed. */
static void all_answer(void)
{
	set(&deaf, 0);
	while (get(&inside) > 0 || get(&freed) < get(&made))
		usleep(100);
	CHECK_IS(get(&freed), get(&made));
}

static void afresh(void)
{
	set(&ended, 0);
	set(&started, 0);
	set(&cancelled, 0);
	set(&asked, 0);
	set(&answered, 0);
	set(&deaf, 1);
}

/* Each end of a wait, if libc was asked since. */

static long was;

static void interrupts(void *t)
{
	yield_until(&asked, get(&was) + 1);
	CHECK_IS(uthread_interrupt(t), 0);
}

static void cancels(void *scope)
{
	yield_until(&asked, get(&was) + 1);
	uscope_cancel(scope);
}

static void *is_interrupted(void *arg)
{
	CHECK_IS(look(UNEVER), -ECANCELED);
	CHECK_IS(u_sleep(uafter(1)), 0);	/* this wait was not */
	return arg;
}

/* Asks until libc was asked: other look-ups have ended before they began. */
static void in_vain_once(void)
{
	do
		CHECK_IS(look(uafter(SOON)), -ETIMEDOUT);
	while (get(&asked) == 0);
}

static void each_end(void *arg)
{
	struct uthread *t;
	struct uscope *s;

	CHECK(look(UNOW) == -EAGAIN && look(-1) == -EINVAL);
	CHECK(look(1) == -ETIMEDOUT && get(&asked) == 0);
	in_vain_once();
	set(&was, get(&asked));
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	make(0, cancels, s);
	CHECK_IS(look(UNEVER), -ECANCELED);
	CHECK_IS(look(UNEVER), -ECANCELED);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	set(&was, get(&asked));
	CHECK_IS(uthread_make(&t, is_interrupted, NULL, 0), 0);
	make(0, interrupts, t);
	CHECK_IS(uthread_join(t, NULL, UNEVER), 0);
	CHECK_IS(uscope_begin(&s, uafter(SOON)), 0);
	CHECK_IS(look(UNEVER), -ECANCELED);
	CHECK_IS(uscope_end(&s), -ETIMEDOUT);
	CHECK_IS(get(&answered), 0);
	set(&deaf, 0);
	CHECK(look(UNEVER) == 0 && look(uafter(20 * UTIME_S)) == 0);
	add(&ended, 1);
}

/* A thousand at once. */

/* If it asks after the cancellation, enough others may be abandoned already. */
static int looks_in_vain(void *arg)
{
	int rc;

	add(&started, 1);
	rc = look((intptr_t)arg % 2 ? UNEVER : uafter(UTIME_S * 50));
	CHECK(rc == -ECANCELED || (rc == -EAGAIN && get(&cancelled)));
	add(&ended, 1);
	return 0;
}

static void all_in_vain(void)
{
	struct uscope *s;
	intptr_t i;

	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	for (i = 0; i < MANY; i++)
		CHECK_IS(uscope_go(s, looks_in_vain, (void *)i), 0);
	yield_until(&started, MANY);
	yield_until(&inside, UCALL_LOOKUPS);
	set(&cancelled, 1);
	uscope_cancel(s);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	CHECK_IS(get(&ended), MANY);
}

static void looks_up(void *arg)
{
	CHECK_IS(look((intptr_t)arg % 2 ? UNEVER : uafter(UTIME_S * 50)), 0);
	add(&ended, 1);
}

static void uses_files(void)
{
	char path[] = "/tmp/s_lookup-XXXXXX", c = 'x';
	struct stat st;
	int fd = mkstemp(path);

	CHECK(fd >= 0 && close(fd) == 0);
	fd = u_open(path, O_RDWR | O_CLOEXEC, 0, UNEVER);
	CHECK_THAT(fd, >=, 0);
	CHECK(u_pwrite(fd, &c, 1, 0, UNEVER) == 1 && u_fsync(fd, UNEVER) == 0);
	CHECK(u_stat(path, &st, UNEVER) == 0 && st.st_size == 1);
	CHECK(u_close(fd) == 0 && u_unlink(path, UNEVER) == 0);
}

static void many(void *arg)
{
	intptr_t i;

	all_in_vain();
	CHECK_IS(get(&inside), UCALL_LOOKUPS);
	CHECK(look(UNEVER) == -EAGAIN && look(uafter(SOON)) == -EAGAIN);
	uses_files();
	CHECK(get(&inside) == UCALL_LOOKUPS && get(&answered) == 0);
	set(&deaf, 0);
	while (look(UNEVER) == -EAGAIN)
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	for (i = 0; i < MANY; i++)
		make((int)i, looks_up, (void *)i);
	while (get(&ended) < 2 * MANY)
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
}

/* The end of a scheduler, and that of a program. */

static void last_look(void *arg)
{
	set(&asked, 0);
	in_vain_once();
	add(&ended, 1);
}

static void *native_look(void *arg)
{
	CHECK_IS(look(uafter(20 * UTIME_S)), 0);
	return arg;
}

static void ends(int p)
{
	int i;

	for (i = 1; i <= 3; i++) {
		one_thread(p, last_look, NULL);
		CHECK(get(&ended) == i && get(&answered) == 0);
	}
}

static void program(void)
{
	check_watch(1);
	afresh();
	one_thread(2, last_look, NULL);
	fputs("the end", stderr);
	exit(get(&answered) != 0);
}

static void program_ends(void)
{
	char text[100];

	if (check_sanitized())
		return;			/* it forks */
	CHECK_IS(check_child(program, text, sizeof text), 0);
	CHECK_STR(text, "the end");
}

/* Answers come at about the deadline. */

static long in_time, in_vain;

static void races(void *arg)
{
	unsigned state = check_hash(check_seed, (unsigned)(uintptr_t)arg);
	int i, rc;

	for (i = 0; i < CLOSE; i++) {
		rc = look(check_random(&state) % 8 == 0 ? UNEVER :
			  uafter(1 + check_random(&state) % 1500000));
		CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -EAGAIN);
		add(rc == 0 ? &in_time : &in_vain, 1);
		if (check_random(&state) % 4 == 0)
			yield();
	}
	add(&ended, 1);
}

static void race(int p)
{
	int i;

	set(&deaf, 0);
	set(&late_us, 500);
	begin(p, 0);
	for (i = 0; i < 8; i++)
		make(i, races, (void *)(intptr_t)i);
	start_and_finish();
	CHECK_IS(ended, 8);
	set(&late_us, 0);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	doing("in program_ends");
	program_ends();
	for (p = 1; p <= 3; p++) {
		afresh();
		doing("in each_end");
		one_thread(p, each_end, NULL);
		CHECK_IS(ended, 1);
		all_answer();
		afresh();
		doing("in many");
		one_thread(p, many, NULL);
		CHECK_IS(ended, 2 * MANY);
		all_answer();
		afresh();
		doing("in ends");
		ends(p);
		all_answer();
		afresh();
		doing("in race");
		race(p);
		all_answer();
	}
	native_join(native(native_look, NULL));
	CHECK(in_time > 0 && in_vain > 0);
	CHECK_IS(made, freed);
	return 0;
}

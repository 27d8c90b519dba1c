/* SPDX-License-Identifier: MIT */
/* core/message.h: lines about mistakes of the caller. */

/*
 * MESSAGES
 *
 * A message may come from a signal handler, from a thread that has run out of
 * its stack, or while a lock of malloc() or stdio is held. So it is put together
 * on the stack, without printf(), and goes out by one system call. A hook of
 * write() (ext/wrap/) would let the thread wait, so write() itself is not called
 * where the system call can be made.
 */

#include <stdarg.h>
#if defined(__linux__)
#include <sys/syscall.h>
#define MESSAGE_WRITE(at, nob)	syscall(SYS_write, STDERR_FILENO, at, nob)
#else
#define MESSAGE_WRITE(at, nob)	write(STDERR_FILENO, at, nob)
#endif

/* Bytes of a message, at most, with the end of the line. */
#define MESSAGE_MOST	1200
/* Most naps of 10 ms while another native thread aborts. */
#define FAIL_WAIT	1000

struct message {
	char   ms_text[MESSAGE_MOST];
	size_t ms_nob;
};

static void (*message_f)(const char *line);	/* the program's own (atomic) */

static void message_put(struct message *m, const char *word)
{
	while (*word != 0 && m->ms_nob < MESSAGE_MOST - 2)
		m->ms_text[m->ms_nob++] = *word++;
	if (*word != 0)
		memcpy(m->ms_text + m->ms_nob - 3, "...", 3);
}

static void message_number(struct message *m, unsigned long long nr,
			   unsigned base)
{
	char digits[sizeof nr * 3];
	char *at = digits + sizeof digits;

	*--at = 0;
	do {
		*--at = "0123456789abcdef"[nr % base];
	} while ((nr /= base) != 0);
	message_put(m, at);
}

static void message_signed(struct message *m, long long nr)
{
	if (nr < 0)
		message_put(m, "-");
	message_number(m, nr < 0 ? -(unsigned long long)nr :
		       (unsigned long long)nr, 10);
}

/* Puts what a %, some l, and then kind stand for. */
static void message_item(struct message *m, char kind, int longs, va_list *args)
{
	long long nr;

	if (kind == 's') {
		message_put(m, va_arg(*args, const char *));
		return;
	}
	if (kind == 'p') {
		message_put(m, "0x");
		message_number(m, (uintptr_t)va_arg(*args, void *), 16);
		return;
	}
	if (longs == 0)
		nr = va_arg(*args, int);
	else if (longs == 1)
		nr = va_arg(*args, long);
	else
		nr = va_arg(*args, long long);
	if (kind == 'd')
		message_signed(m, nr);
	else
		message_number(m, longs == 0 ? (unsigned)nr :
			       longs == 1 ? (unsigned long)nr :
			       (unsigned long long)nr, kind == 'x' ? 16 : 10);
}

static void message_format(struct message *m, const char *format, va_list *args)
{
	char byte[2] = "";
	int longs;

	for (; *format != 0; format++) {
		if (*format != '%' || *++format == '%') {
			byte[0] = *format;
			message_put(m, byte);
			continue;
		}
		for (longs = 0; *format == 'l'; format++)
			longs++;
		message_item(m, *format, longs, args);
	}
}

/* Hands out the message: m has room for the end of the line. */
static void message_end(struct message *m, int is_last)
{
	void (*f)(const char *) = __atomic_load_n(&message_f, __ATOMIC_ACQUIRE);
	const char *quiet = is_last ? NULL : getenv("USCHED_QUIET");

	m->ms_text[m->ms_nob] = 0;
	if (f != NULL)
		f(m->ms_text);
	else if (quiet == NULL || strcmp(quiet, "1") != 0) {
		m->ms_text[m->ms_nob++] = '\n';
		(void)!MESSAGE_WRITE(m->ms_text, m->ms_nob);
	}
}

/* Adds to m, as a text that ends with 0. */
static void message_add(struct message *m, const char *format, ...)
{
	struct { va_list l; } args;

	va_start(args.l, format);
	message_format(m, format, &args.l);
	va_end(args.l);
	m->ms_text[m->ms_nob] = 0;
}

void usched_on_message(void (*f)(const char *line))
{
	__atomic_store_n(&message_f, f, __ATOMIC_RELEASE);
}

/* Hands out a message with these values. errno stays. */
static void message_line(const char *format, va_list *args, int is_last)
{
	struct message m;
	int was = errno;

	m.ms_nob = 0;
	message_put(&m, "usched: ");
	message_format(&m, format, args);
	message_end(&m, is_last);
	errno = was;
}

void usched_message(const char *format, ...)
{
	struct { va_list l; } args;

	va_start(args.l, format);
	message_line(format, &args.l, 0);
	va_end(args.l);
}

void usched_last_message(const char *format, ...)
{
	struct { va_list l; } args;

	va_start(args.l, format);
	message_line(format, &args.l, 1);
	va_end(args.l);
}

/*
 * Another native thread that fails meanwhile waits for the abort, but some
 * seconds at most: a SIGABRT handler may jump.
 */
void usched_fail(const char *contract)
{
	static const void *first;	/* native thread, by its usched_here */
	const void *none = NULL;
	struct message m;
	int i;

	m.ms_nob = 0;
	message_put(&m, "usched: ");
	message_put(&m, contract);
	if (!__atomic_compare_exchange_n(&first, &none, &usched_here, 0,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		for (i = 0; none != &usched_here && i < FAIL_WAIT; i++)
			usleep(10000);
	}
	message_end(&m, 1);
	abort();
}

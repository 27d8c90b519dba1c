/* SPDX-License-Identifier: MIT */
/* core/env.h: variables of the environment, and what each knows. */

/*
 * THE ENVIRONMENT
 *
 * A module has a row for each variable that it reads (struct usched_env). It
 * gives the row to usched_env_add() when the program is loaded, so the list has
 * the variables of those modules that are in the program. The rows of this file
 * end the list. A row has, as a text, all values that the variable knows:
 *
 *	{ "USCHED_LIST", "0, 1, stuck, signal, signal=1-64, run=1-86400000", 1 }
 *
 * 1-64 stands for a number from 1 to 64, in decimal or as 0x1f. A unit may
 * follow both ends: 16k-2097151k. The 1 at the end says that a value is a list
 * of such words between commas. Values are compared with this text, messages
 * show it, and test/proc/environment.sh compares it with the table of doc/guide.md.
 *
 * E1. An empty value is none.
 * E2. rr_init() and its like, usched_main() and usched_lanes() look at all rows
 *     before they change anything: usched_env_check(). For each value that its
 *     variable does not know they write a line, also with USCHED_QUIET=1, and
 *     fail with -EINVAL. Lanes of coroutines do not look: they are made while
 *     threads run, which may set variables for a child. So USCHED_LAW and
 *     USCHED_GUARD are read once, with the first lanes, and all native threads
 *     use what was read.
 * E3. A module that reads a variable later, or without such a call, ends the
 *     program with the same line: usched_env().
 * E4. A module that reads its variable when the program is loaded does nothing
 *     with a value that is unknown, so E2 comes next. A dispatcher without lanes
 *     makes none of these calls. So its usched_run() ends the program (E3), if
 *     a value was unknown at the load.
 *
 * A variable may be set while what reads it is not in the program: archives
 * leave out the modules that no function asks for. The first look says so, and
 * the program goes on.
 *
 * No switch, wait or wake reads the environment.
 *
 * REJECTED
 *
 *   - The list of threads and the recorder in each program: 63 KB more text for
 *     examples/first/workers.c, which has 180, and 109 KB of bss. They need an
 *     unwinder, and with musl-gcc the program then does not link.
 *   - To end the program before main(): a program that loads the library, such
 *     as Python, would end by what may be meant for another program.
 *   - A parser in each module: the text beside it becomes false.
 */

/* Bytes of a word in a message, at most. */
#define ENV_SHOWN	40

static struct usched_env env_quiet = { .e_name = "USCHED_QUIET", .e_known = "0, 1" };
static struct usched_env env_guard = {
	.e_name = "USCHED_GUARD", .e_known = "0, 1", .e_next = &env_quiet
};
static struct usched_env env_law = {
	.e_name = "USCHED_LAW", .e_known = "abort, warn, off",
	.e_next = &env_guard
};
static struct usched_env *env_all = &env_law;	/* atomic */

/* Rows that a program may be without, and what brings them. */
static const struct { const char *a_name, *a_link; } env_lacked[] = {
	{ "USCHED_LIST", "ulist_start" },
#if defined(__linux__)
	{ "USCHED_VIEW", "uview_start" }
#endif
};

static struct usched_env *env_first(void)
{
	return __atomic_load_n(&env_all, __ATOMIC_ACQUIRE);
}

static const char *env_value(const struct usched_env *e)
{
	const char *value = e->e_get != NULL ? e->e_get(e->e_name) :
		getenv(e->e_name);

	return value != NULL && *value != 0 ? value : NULL;	/* E1 */
}

/* Reads a number, and sets where it ends. Returns whether it is one. */
static int env_number(const char *at, const char **end, unsigned long long *nr)
{
	int was = errno, is;
	char *rest;

	if (*at < '0' || *at > '9')
		return 0;
	errno = 0;
	*nr = strtoull(at, &rest, at[0] == '0' && at[1] == 'x' ? 16 : 10);
	is = errno == 0;
	errno = was;
	*end = rest;
	return is;
}

/* Returns whether a word is what nob bytes of a row name, or a number in their range. */
static int env_is(const char *known, size_t nob, const char *word, size_t len,
		  unsigned long long *nr)
{
	const char *dash = memchr(known, '-', nob), *unit, *end;
	size_t head = strcspn(known, "0123456789"), tail;
	unsigned long long low, high;

	if (dash == NULL)
		return len == nob && memcmp(word, known, nob) == 0;
	if (len <= head || memcmp(word, known, head) != 0 ||
	    !env_number(known + head, &unit, &low) ||
	    !env_number(dash + 1, &end, &high) ||
	    !env_number(word + head, &end, nr))
		return 0;
	tail = (size_t)(dash - unit);
	return *nr >= low && *nr <= high && end + tail == word + len &&
		memcmp(end, unit, tail) == 0;
}

int usched_env_word(const struct usched_env *e, const char **at,
		    unsigned long long *nr)
{
	const char *word, *known = e->e_known;
	size_t len, nob;
	int i;

	if (*at != NULL && e->e_list)
		*at += strspn(*at, ",");
	if (*at == NULL || **at == 0)
		return -ENOENT;
	word = *at;
	len  = e->e_list ? strcspn(word, ",") : strlen(word);
	*at += len;
	for (i = 0;; i++, known += nob + strlen(", ")) {
		nob = strcspn(known, ",");
		if (env_is(known, nob, word, len, nr))
			return i;
		if (known[nob] == 0)
			return -EINVAL;
	}
}

/* Returns the first word of the value that is unknown, or NULL. */
static const char *env_wrong(const struct usched_env *e, const char *value)
{
	const char *at = value, *word;
	unsigned long long nr;
	int rc;

	do {
		word = at;
		rc = usched_env_word(e, &at, &nr);
	} while (rc >= 0);
	return rc == -EINVAL ? word + strspn(word, e->e_list ? "," : "") : NULL;
}

/* Adds the line about a word to m. */
static void env_line(struct message *m, const struct usched_env *e,
		     const char *word)
{
	char shown[ENV_SHOWN + sizeof "..."];
	size_t len = e->e_list ? strcspn(word, ",") : strlen(word), i;

	for (i = 0; i < len && i < ENV_SHOWN; i++)
		shown[i] = word[i] >= ' ' && word[i] <= '~' ? word[i] : '?';
	strcpy(shown + i, i < len ? "..." : "");
	message_add(m, "%s: \"%s\" is none of: %s", e->e_name, shown,
		    e->e_known);
}

const char *usched_env(const struct usched_env *e)
{
	const char *value = env_value(e);
	const char *wrong = env_wrong(e, value);
	struct message m = { .ms_nob = 0 };

	if (wrong != NULL) {
		env_line(&m, e, wrong);
		usched_fail(m.ms_text);			/* E3 */
	}
	return value;
}

static int env_is_there(const char *name)
{
	const struct usched_env *e = env_first();

	while (e != NULL && strcmp(e->e_name, name) != 0)
		e = e->e_next;
	return e != NULL;
}

static void env_lacked_say(void)
{
	static int said;		/* atomic */
	const char *value;
	size_t i;

	if (__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		return;
	for (i = 0; i < sizeof env_lacked / sizeof env_lacked[0]; i++) {
		value = getenv(env_lacked[i].a_name);
		if (value != NULL && *value != 0 && strcmp(value, "0") != 0 &&
		    !env_is_there(env_lacked[i].a_name))
			usched_message("%s is set, and what reads it is not in "
				       "this program: link it with -Wl,-u,%s, "
				       "before the library",
				       env_lacked[i].a_name,
				       env_lacked[i].a_link);
	}
}

NOINLINE int usched_env_check(void)
{
	const struct usched_env *e;
	const char *wrong;
	int rc = 0;

	for (e = env_first(); e != NULL; e = e->e_next) {
		struct message m = { .ms_nob = 0 };

		wrong = env_wrong(e, env_value(e));
		if (wrong == NULL)
			continue;
		message_put(&m, "usched: ");
		env_line(&m, e, wrong);
		message_end(&m, 1);
		rc = -EINVAL;
	}
	env_lacked_say();
	return rc;
}

/* Called at the begin of each usched_run(), if a value was unknown at the load. */
static void env_run(struct usched *s)
{
	const struct usched_env *e;

	(void)s;
	for (e = env_first(); e != NULL; e = e->e_next)
		(void)usched_env(e);
}

static void env_ran(struct usched *s)
{
	(void)s;
}

const char *usched_env_add(struct usched_env *e)
{
	static struct usched_hook hook = { env_run, env_ran, NULL, NULL };
	static int hooked;
	const char *value = env_value(e);

	e->e_next = env_first();
	__atomic_store_n(&env_all, e, __ATOMIC_RELEASE);
	if (env_wrong(e, value) == NULL)
		return value;
	if (!hooked)						/* E4 */
		usched_hook(&hook);
	hooked = 1;
	return NULL;
}

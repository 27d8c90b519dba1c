/* SPDX-License-Identifier: MIT */
/* check: a check that fails tells both values, its claim, and how to run it. */
/* VARIANTS: core */

#include "check.h"

#define SEED	"17"
#define CLAIM	"check: a check that fails tells both values, its claim, and how to " \
		"run it."

static int calls;
static char word[] = "abc";
static struct {
	unsigned b_three : 3;
	int	 b_less	 : 5;
} bits = { 5, -3 };

static int call(void)
{
	calls++;
	return -EAGAIN;
}

static int fails(void)
{
	errno = ENOENT;
	return -1;
}

/* Each ends by a check that fails. */

static void is_error(void)	{ CHECK_IS(call(), 0); }
static void is_errno(void)	{ CHECK_IS(fails(), 0); }
static void is_named(void)	{ errno = ENOENT; CHECK_IS(errno, EAGAIN); }
static void is_large(void)	{ CHECK_IS((uint64_t)-1, 17); }
static void is_pointer(void)	{ CHECK_IS((char *)0x1f00, NULL); }
static void is_real(void)	{ CHECK_IS(0.5, 1); }
static void is_bits(void)	{ CHECK_IS(bits.b_less, bits.b_three); }
static void is_less(void)	{ CHECK_THAT(COUNT(word), >=, 5); }
static void is_string(void)	{ CHECK_STR(word, "a\n\"\001"); }
static void is_null(void)	{ CHECK_STR(NULL, word); }
static void is_plain(void)	{ CHECK(word == NULL); }

static void is_long(void)
{
	char text[1000] = "";

	memset(text, 'x', sizeof text - 1);
	CHECK_STR(text, word);
}

static void is_late(void)
{
	char got[100] = "", want[100] = "";

	memset(got, 'x', sizeof got / 2 + 20);
	memcpy(want, got, sizeof got);
	CHECK_STR(strcat(got, "yes"), strcat(want, "no"));
}

static void is_doing(void)
{
	doing("part %d", 3);
	CHECK_IS(calls, 1);
}

static void is_elsewhere(void)
{
	CHECK_IS(chdir("/"), 0);
	CHECK_IS(calls, 1);
}

/* Calls it as USCHED_CHECK='a b' SEED=17 ./check does. */
static void (*called)(void);

static void calls_it(void)
{
	static char name[] = "./check", *argv[] = { name, NULL };

	setenv("SEED", SEED, 1);
	setenv("USCHED_CHECK", "a b", 1);
	check_start(1, argv);
	called();
}

/* In the text of a child the number of the line, and other settings, may be any. */
static void tells(void (*f)(void), const char *what, const char *values)
{
	char text[4096], want[512], *at;

	called = f;
	CHECK_IS(check_child(calls_it, text, sizeof text), 1 << 8);
	CHECK(strncmp(text, __FILE__ ":", sizeof __FILE__) == 0);
	snprintf(want, sizeof want, ": CHECK(%s) failed %s(seed " SEED ")\n%s",
		 what, f == is_doing ? "part 3 " : "", values);
	at = text + sizeof __FILE__;
	at += strspn(at, "0123456789");
	if (strncmp(at, want, strlen(want)) != 0)
		CHECK_STR(at, want);
	at = strstr(at, "\tagain: ");
	CHECK(at != NULL);
	CHECK(strstr(at, "USCHED_CHECK='a b' ") != NULL);
	at = strstr(at, "SEED=" SEED);
	CHECK(at != NULL);
	/* The source may not be there. */
	if (f == is_elsewhere || access(__FILE__, R_OK) != 0)
		CHECK_STR(at, "SEED=" SEED " ./check\n");
	else
		CHECK_STR(at, "SEED=" SEED " ./check\n\tclaim: " CLAIM "\n");
}

/* All of these hold, as they do with ==, and evaluate what they get once. */
static void hold(void)
{
	_Atomic int atomic = 3;
	volatile bool is = true;
	const char *const same = word;
	unsigned char small = 200;
	unsigned most = -1;
	void (*f)(void) = hold;
	size_t size = 3;
	float third = 1.0f / 3;
	int i = 0;

	CHECK_IS(call(), -EAGAIN);
	CHECK_IS(calls, 1);
	calls = 0;
	CHECK_IS(i++, 0);
	CHECK_IS(i, 1);
	CHECK_THAT(1, <=, i--);
	CHECK_IS(i, 0);
	CHECK_IS(atomic, 3);
	CHECK_IS(is, true);
	CHECK_IS(word, same);
	CHECK_IS(f, hold);
	CHECK_IS(small, 200);
	CHECK_IS(size, 3);
	CHECK_IS(most, -1);
	CHECK_IS((size_t)-1, ~0l);
	CHECK_THAT(-1, >, most - 1);
	CHECK_THAT(third, !=, 1.0 / 3);
	CHECK_IS(bits.b_three, 5);
	CHECK_IS(bits.b_less, -3);
	CHECK_STR(word, "abc");
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	hold();
	tells(is_error, "call() == 0", "\tgot -11 (-EAGAIN), want 0\n");
	tells(is_errno, "fails() == 0",
	      "\tgot -1 (-EPERM, or errno ENOENT), want 0\n");
	tells(is_named, "errno == EAGAIN",
	      "\tgot 2 (ENOENT), want 11 (EAGAIN)\n");
	tells(is_large, "(uint64_t)-1 == 17",
	      "\tgot 18446744073709551615 (0xffffffffffffffff), "
	      "want 17 (0x11)\n");
	tells(is_pointer, "(char *)0x1f00 == NULL", "\tgot 0x1f00, want NULL\n");
	tells(is_real, "0.5 == 1", "\tgot 0.5, want 1\n");
	tells(is_bits, "bits.b_less == bits.b_three",
	      "\tgot -3 (-ESRCH), want 5\n");
	tells(is_less, "COUNT(word) >= 5", "\tgot 4, want >= 5\n");
	tells(is_string, "strcmp(word, \"a\\n\\\"\\001\") == 0",
	      "\tgot \"abc\", want \"a\\n\\\"\\001\"\n");
	tells(is_null, "strcmp(NULL, word) == 0", "\tgot NULL, want \"abc\"\n");
	tells(is_long, "strcmp(text, word) == 0", "\tgot \"xxxxxxxx");
	tells(is_late, "strcmp(strcat(got, \"yes\"), strcat(want, \"no\")) == 0",
	      "\tgot ...\"xxxxxxxxxxxxxxxxxxxxyes\", "
	      "want ...\"xxxxxxxxxxxxxxxxxxxxno\"\n");
	tells(is_plain, "word == NULL", "");
	tells(is_doing, "calls == 1", "\tgot 0, want 1\n");
	tells(is_elsewhere, "calls == 1", "\tgot 0, want 1\n");
	return 0;
}

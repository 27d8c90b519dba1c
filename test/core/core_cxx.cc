/* SPDX-License-Identifier: MIT */
/*
 * core_cxx: the header serves C++, and exceptions are thrown and caught within a
 * thread, with blocks between try and throw. Not with a block in a handler: what
 * has been caught is a list of the native thread, and so the thread finds there
 * what another one has caught. An exception that leaves its thread ends the
 * process, but in a portable build it leaves usched_run().
 */
#include "tiny.h"
#include <stdexcept>
#include <string>
#include <vector>

static struct tiny t;
static int ended, gone;

struct guard {
	int &g_nr;
	explicit guard(int &nr) : g_nr(nr) { }
	~guard() { g_nr++; }
};

static NOINLINE void down(int me, int depth)
{
	guard g(gone);
	std::string s(20 + depth, char('a' + me % 26));

	tiny_yield();
	if (depth == 0)
		throw std::runtime_error(s + std::to_string(me));
	down(me, depth - 1);
	CHECK(0);
}

static void thread(void *arg)
{
	int me = (int)(uintptr_t)arg;
	int caught = 0;

	for (int i = 0; i < 5; i++) {
		std::string want = std::string(20, char('a' + me % 26)) +
			std::to_string(me);

		tiny_yield();
		try {
			try {
				down(me, (me + i) % 5);
			} catch (const std::logic_error &) {
				CHECK(0);
			}
		} catch (const std::exception &e) {
			CHECK(e.what() == want);
			caught++;
		}
		tiny_yield();
	}
	CHECK(caught == 5);
	ended++;
}

static void with_lanes(int lanes, int nr)
{
	std::vector<tiny_thread> tt(nr);
	int want = 0;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	ended = gone = 0;
	for (int i = 0; i < nr; i++) {
		tiny_start(&t, &tt[i], thread, (void *)(uintptr_t)i);
		for (int j = 0; j < 5; j++)
			want += (i + j) % 5 + 1;
	}
	tiny_run(&t);
	CHECK(ended == nr);
	CHECK(gone == want);
	tiny_fini(&t);
}

static void leaves(void *arg)
{
	tiny_yield();
	throw std::runtime_error((const char *)arg);
}

static void uncaught()
{
	tiny_thread tt;

	tiny_init(&t, 0);
	tiny_start(&t, &tt, leaves, (void *)"nobody's");
	try {
		tiny_run(&t);
	} catch (...) {
		_exit(43);
	}
}

static void handles(void *arg)
{
	try {
		throw std::string((const char *)arg);
	} catch (const std::string &) {
		tiny_yield();
		try {
			throw;
		} catch (const std::string &s) {
			_exit(s == "second" ? 42 : 1);	/* the first asks */
		}
	}
}

static void mixed_up()
{
	tiny_thread one, two;

	tiny_init(&t, 0);
	tiny_start(&t, &one, handles, (void *)"first");
	tiny_start(&t, &two, handles, (void *)"second");
	tiny_run(&t);
}

int main(int argc, char **argv)
{
	char text[4096];
	int status;

	check_start(argc, argv);
	status = check_child(uncaught, text, sizeof text);
	if (tiny_has_lanes()) {
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		CHECK(strstr(text, "nobody's") != NULL);
	} else
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 43);
	status = check_child(mixed_up, text, sizeof text);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	with_lanes(0, 50);
	with_lanes(1, 50);
	with_lanes(16, 100);
	with_lanes(64, 50);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* crew.cc: threads from lambdas: results, a channel, a deadline, an error. */

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <usched/all.hpp>

using namespace std::chrono_literals;

/* Says something after some time; the fourth cannot. */
static std::string fetch(int nr)
{
	ucxx::sleep_for(10ms * nr);
	if (nr == 4)
		throw std::runtime_error("no fourth page");
	return "page " + std::to_string(nr);
}

/* Fetches pages at the same time, and prints them as they come. */
static void crew(int pages, ucxx::deadline until)
{
	ucxx::channel<std::string> come(pages);
	ucxx::scope s(until);

	/* By value: the stack of this thread may move while it waits. */
	for (int nr = 1; nr <= pages; nr++)
		s.go([nr, come] { come.send(fetch(nr)); });
	auto printer = ucxx::spawn([come] {
		int lines = 0;

		for (const std::string &page : come) {
			std::cout << page << '\n';
			lines++;
		}
		return lines;
	});
	std::string end = "in time";
	try {
		if (s.end() == std::errc::timed_out)
			end = "too late";
	} catch (const std::runtime_error &e) {
		end = e.what();
	}
	come.close();
	std::cout << printer.join() << " pages, " << end << '\n';
}

int main()
{
	utime_virtual(0);		/* sleeps take no time, in this order */
	if (rr_init(1, 0) != 0 || rr_thread_init([](void *) {
		crew(3, 1s);
		crew(3, 25ms);
		crew(9, 1s);
	}, NULL) == NULL || rr_start() != 0 || rr_fini() != 0)
		return EXIT_FAILURE;
}

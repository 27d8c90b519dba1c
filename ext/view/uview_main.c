/* SPDX-License-Identifier: MIT */
/* uview_main.c: the program uview: what a process did lately, as a page. */

#include "find.h"
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CENSUS_MS	600		/* to wait for a census: see format.h */

static const char usage[] =
	"uview PID|FILE OUT.html   a page of what the process did lately\n"
	"uview --json PID|FILE OUT     for Perfetto (ui.perfetto.dev)\n"
	"uview --folded PID|FILE OUT   where threads waited, for flame graphs\n"
	"uview -l                  lists recorders\n"
	"uview -c                  removes files of processes that have ended\n"
	"\n"
	"OUT may be -. A process has a recorder if it was started with\n"
	"USCHED_VIEW=stacks in the environment (uview.h).\n";

enum form { HTML, JSON, FOLDED };

static int fail(const char *what, const char *why)
{
	(void)fprintf(stderr, "uview: %s: %s\n", what, why);
	return 1;
}

/* Says what is in the copy. */
static void say(const struct uview_file *copy, const char *to)
{
	const struct uview_census *c = uview_part_at(copy, UVIEW_PART_CENSUS);

	(void)fprintf(stderr, "uview: %s: %u records of %u native threads, %.3f s "
		      "of %s [%u]", to, copy->vf_part[UVIEW_PART_RECORDS].vp_nr,
		      copy->vf_part[UVIEW_PART_RINGS].vp_nr,
		      (double)(int64_t)(copy->vf_end - copy->vf_ns) / 1e9,
		      copy->vf_name, copy->vf_pid);
	if (copy->vf_census != 0)
		(void)fprintf(stderr, "; census: %u threads, %.3f s before the "
			      "end, took %.3f ms", c->vc_threads,
			      (double)(int64_t)(copy->vf_end - c->vc_ns) / 1e9,
			      (double)c->vc_took / 1e6);
	(void)fprintf(stderr, "\n");
}

/* Writes the copy. */
static int show(const struct uview_file *copy, size_t size, enum form form,
		const char *to)
{
	bool is_stdout = strcmp(to, "-") == 0;
	FILE *out = is_stdout ? stdout : fopen(to, "w");
	const char *why;

	if (out == NULL)
		return fail(to, strerror(errno));
	why = form == HTML ? out_html(out, copy, size) :
		form == JSON ? out_json(out, copy) : out_folded(out, copy);
	if (ferror(out) || (is_stdout ? fflush(out) : fclose(out)) != 0) {
		if (why == NULL)
			why = errno != 0 ? strerror(errno) : "not all was written";
	}
	if (why != NULL)
		return fail(to, why);
	if (!is_stdout)
		say(copy, to);
	return 0;
}

static int view(enum form form, const char *what, const char *to)
{
	struct uview_file *copy;
	struct found f;
	const char *why;
	size_t size;
	int rc;

	if (!found_open(&f, what, &why))
		return fail(what, why);
	(void)found_ask(&f, CENSUS_MS);
	copy = found_copy(&f, &size, &why);
	found_close(&f);
	if (copy == NULL)
		return fail(what, why);
	rc = show(copy, size, form, to);
	free(copy);
	return rc;
}

static void list(const struct found *f, const struct uview_file *head)
{
	time_t began = (time_t)(head->vf_wall / 1000000000u);
	struct tm tm;
	char when[32] = "?";

	if (localtime_r(&began, &tm) != NULL)
		(void)strftime(when, sizeof when, "%F %T", &tm);
	(void)printf("%-8ld %-8s since %s  %.*s\n", f->fo_pid,
		     f->fo_lives ? "runs" : "ended", when,
		     (int)sizeof head->vf_name - 1, head->vf_name);
}

static void clean(const struct found *f, const struct uview_file *head)
{
	(void)head;
	if (!f->fo_lives && unlink(f->fo_path) == 0)
		(void)printf("%s\n", f->fo_path);
}

int main(int argc, char **argv)
{
	enum form form = HTML;
	int at = 1;

	if (argc == 2 && strcmp(argv[1], "-l") == 0) {
		found_each(list);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "-c") == 0) {
		found_each(clean);
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "--json") == 0)
		form = JSON, at++;
	else if (argc > 1 && strcmp(argv[1], "--folded") == 0)
		form = FOLDED, at++;
	if (argc != at + 2 || argv[at][0] == '-') {
		(void)fputs(usage, stderr);
		return 2;
	}
	return view(form, argv[at], argv[at + 1]);
}

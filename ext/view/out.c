/* SPDX-License-Identifier: MIT */
/* out.c: writes a copy in other forms. */

#include "out.h"
#include "walk.h"
#include "why.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NO_MEMORY	"there is no memory"
#define FD_MOST		(1u << 20)	/* a descriptor, and no address */

/* The Makefile makes these of page.html. */
extern const unsigned char page_html[];
extern const unsigned long page_size;

/* Names. */

void out_name(char *text, size_t size, const struct uview_file *copy,
	      unsigned nr)
{
	unsigned len, i;
	const char *from = uview_name_text(copy, nr, &len);

	for (i = 0; i < len && i < size - 1; i++)
		text[i] = (unsigned char)from[i] < ' ' || from[i] == ';' ||
			from[i] == 127 ? '?' : from[i];
	text[i] = 0;
	if (i == 0)
		(void)snprintf(text, size, "?");
}

/* Returns the number of the name of an object, the last that it got, or 0. */
static unsigned object_name(const struct uview_file *copy, uint64_t object)
{
	const struct uview_name *n = uview_part_at(copy, UVIEW_PART_NAMES);
	unsigned i = copy->vf_part[UVIEW_PART_NAMES].vp_nr;

	while (i-- > 1)
		if (n[i].vn_at == object && (n[i].vn_kind == UVIEW_OBJECT ||
					     n[i].vn_kind == UVIEW_FUNCTION))
			return i;
	return 0;
}

void out_object(char *text, size_t size, const struct uview_file *copy,
		unsigned kind, uint64_t object)
{
	unsigned nr = object != 0 ? object_name(copy, object) : 0;
	char what[64], name[96] = "";

	out_name(what, sizeof what, copy, kind);
	if (nr != 0)
		out_name(name, sizeof name, copy, nr);
	else if (object != 0 && object < FD_MOST && strcmp(what, "fd") == 0)
		(void)snprintf(name, sizeof name, "%llu", (unsigned long long)object);
	else if (object != 0)
		(void)snprintf(name, sizeof name, "0x%llx",
			       (unsigned long long)object);
	(void)snprintf(text, size, "%s%s%s", what, *name != 0 ? " " : "", name);
}

static const char *reason_text(unsigned reason)
{
	static const char *const text[] = {
		"wake", "wait", "wake", "yielded", "ended", "new", "runs"
	};

	return reason < sizeof text / sizeof text[0] ? text[reason] : "?";
}

/* Writes for what a thread waits. */
static void wait_text(char *text, size_t size, const struct uview_file *copy,
		      unsigned reason, unsigned kind, uint64_t object)
{
	if (reason == UVIEW_WAITS && kind != 0)
		out_object(text, size, copy, kind, object);
	else
		(void)snprintf(text, size, "%s", reason_text(reason));
}

/* The page. */

static const char digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64(FILE *out, const unsigned char *from, size_t nob)
{
	char line[4];
	size_t i;

	for (i = 0; i < nob; i += 3) {
		unsigned left = nob - i < 3 ? (unsigned)(nob - i) : 3;
		unsigned v = (unsigned)from[i] << 16 |
			(left > 1 ? (unsigned)from[i + 1] << 8 : 0) |
			(left > 2 ? from[i + 2] : 0);

		line[0] = digits[v >> 18];
		line[1] = digits[v >> 12 & 63];
		line[2] = left > 1 ? digits[v >> 6 & 63] : '=';
		line[3] = left > 2 ? digits[v & 63] : '=';
		(void)fwrite(line, 1, sizeof line, out);
	}
}

/* Returns what comes behind this text, or NULL. */
static const char *behind(const char *at, const char *end, const char *text)
{
	size_t len = strlen(text);

	for (; (size_t)(end - at) >= len; at++)
		if (memcmp(at, text, len) == 0)
			return at + len;
	return NULL;
}

const char *out_html(FILE *out, const struct uview_file *copy, size_t size)
{
	const char *page = (const char *)page_html, *end = page + page_size;
	const char *data = behind(page, end, "const DATA = \"");
	const char *why = data != NULL ? behind(data, end, "const WHY = ") : NULL;
	struct facts *f = calloc(1, sizeof *f);
	struct why *y = calloc(1, sizeof *y);
	const char *error = NULL;

	if (why == NULL) {
		error = "this build has no page";
	} else if (f == NULL || y == NULL || !facts_read(f, copy, 0)) {
		error = NO_MEMORY;
	} else {
		why_look(y, f);
		(void)fwrite(page, 1, (size_t)(data - page), out);
		base64(out, (const unsigned char *)copy, size);
		(void)fwrite(data, 1, (size_t)(why - data), out);
		why_json(y, out);
		why += strlen("null");
		(void)fwrite(why, 1, (size_t)(end - why), out);
	}
	if (f != NULL)
		facts_end(f);
	free(f);
	free(y);
	return error;
}

/*
 * Chrome's JSON, as Perfetto reads it (by its source of 2026; its program was
 * not at the registries):
 *
 * - ts is a double in us, which is cut to ns. So a digit stands behind the ns,
 *   and all that is written are whole ns, as also the ends of slices are.
 * - A slice that begins in another, and ends later, is dropped.
 * - A name of a thread goes to its tid, of whatever process. So no tid serves
 *   twice, and none is that of a process.
 * - An arrow binds to the slice that is the last to have begun on its track, so
 *   that comes first in the file.
 */
enum { PROCESSORS = 1, THREADS };	/* processes */
#define TID_RING	10
#define TID_THREAD	(TID_RING + UVIEW_RINGS)

struct json {
	FILE *j_out;
	bool  j_more;			/* an event was written */
	long  j_flows;
};

/* Bytes that are not ASCII are the characters of Latin-1. */
void out_string(FILE *out, const char *text)
{
	(void)fputc('"', out);
	for (; *text != 0; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '<')			/* no end of a script */
			(void)fputs("\\u003c", out);
		else if (c == '"' || c == '\\')
			(void)fprintf(out, "\\%c", c);
		else if (c < ' ' || c > '~')
			(void)fprintf(out, "\\u%04x", c);
		else
			(void)fputc(c, out);
	}
	(void)fputc('"', out);
}

/* Returns whole ns, of a file that may lie. */
static unsigned long long whole(double ns)
{
	return ns > 0 ? (unsigned long long)(ns < 1e18 ? ns + 0.5 : 1e18) : 0;
}

/* Begins an event of ring or thread nr. */
static void event(struct json *j, const char *ph, int pid, unsigned nr,
		  double ns)
{
	(void)fprintf(j->j_out, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%u,"
		      "\"ts\":%llu.%03llu4", j->j_more ? ",\n" : "", ph, pid,
		      nr + (pid == THREADS ? TID_THREAD : TID_RING),
		      whole(ns) / 1000, whole(ns) % 1000);
	j->j_more = true;
}

static void named(struct json *j, const char *what, int pid, unsigned nr,
		  const char *name)
{
	event(j, "M", pid, nr, 0);
	(void)fprintf(j->j_out, ",\"name\":\"%s\",\"args\":{\"name\":", what);
	out_string(j->j_out, name);
	(void)fputs("}}", j->j_out);
}

static void slice(struct json *j, int pid, unsigned nr, double from, double to,
		  const char *name, const char *category)
{
	unsigned long long length = to > from ? whole(to) - whole(from) : 0;

	event(j, "X", pid, nr, from);
	(void)fprintf(j->j_out, ",\"dur\":%llu.%03llu,\"cat\":\"%s\",\"name\":",
		      length / 1000, length % 1000, category);
	out_string(j->j_out, name);
}

/* An arrow from the run of the waker, before its end, to that of the woken. */
static void arrow(struct json *j, const struct walk_run *r)
{
	long id = ++j->j_flows;
	double from = r->wr_by_at > 2 ? r->wr_by_at - 2 : 0;	/* dur is cut */

	event(j, "s", PROCESSORS, (unsigned)r->wr_by_ring, from);
	(void)fprintf(j->j_out, ",\"cat\":\"wake\",\"name\":\"wake\",\"id\":%ld}",
		      id);
	event(j, "f", PROCESSORS, (unsigned)r->wr_ring, r->wr_from);
	(void)fprintf(j->j_out, ",\"bp\":\"e\",\"cat\":\"wake\","
		      "\"name\":\"wake\",\"id\":%ld}", id);
}

static void json_run(struct walk *w, const struct walk_run *r)
{
	struct json *j = w->w_arg;
	char name[96], wait[160];

	out_name(name, sizeof name, w->w_copy, r->wr_f);
	wait_text(wait, sizeof wait, w->w_copy, r->wr_reason, r->wr_kind,
		  r->wr_object);
	slice(j, PROCESSORS, (unsigned)r->wr_ring, r->wr_from, r->wr_to, name,
	      "run");
	(void)fprintf(j->j_out, ",\"args\":{\"thread\":%u,\"ready\":%u,\"then\":",
		      r->wr_thread->wt_nr, r->wr_ready);
	out_string(j->j_out, r->wr_open ? "runs" : wait);
	if (r->wr_latency >= 0)
		(void)fprintf(j->j_out, ",\"wake to run, us\":%.3f",
			      r->wr_latency / 1e3);
	if (r->wr_lost != 0)
		(void)fprintf(j->j_out, ",\"the kernel took the cpu\":%u",
			      r->wr_lost);
	(void)fputs("}}", j->j_out);
	slice(j, THREADS, r->wr_thread->wt_nr, r->wr_from, r->wr_to, "runs",
	      "run");
	(void)fputc('}', j->j_out);
	if (r->wr_by_ring >= 0 && r->wr_by != 0)
		arrow(j, r);
}

static void json_wait(struct walk *w, const struct walk_thread *t, double to,
		      bool open)
{
	struct json *j = w->w_arg;
	char wait[160], holder[96];
	const struct walk_thread *h = walk_thread(w, t->wt_holder);

	wait_text(wait, sizeof wait, w->w_copy, t->wt_reason, t->wt_kind,
		  t->wt_object);
	slice(j, THREADS, t->wt_nr, t->wt_off, to, wait, "wait");
	(void)fprintf(j->j_out, ",\"args\":{\"open\":%s", open ? "true" : "false");
	if (t->wt_holder != 0) {
		out_name(holder, sizeof holder, w->w_copy, h != NULL ? h->wt_f : 0);
		(void)fputs(",\"held by\":", j->j_out);
		out_string(j->j_out, holder);
		if (h != NULL)
			(void)fprintf(j->j_out, ",\"thread\":%u", h->wt_nr);
	}
	(void)fputs("}}", j->j_out);
}

static void json_note(struct walk *w, int ring, double time,
		      const struct uview_record *e)
{
	struct json *j = w->w_arg;
	const struct walk_ring *l = &w->w_ring[ring];
	char name[96];

	switch (walk_kind(e)) {
	case UVIEW_UNPARK:
		if (l->wl_parked) {
			slice(j, PROCESSORS, (unsigned)ring, l->wl_park, time,
			      "asleep", "sleep");
			(void)fputc('}', j->j_out);
		}
		break;
	case UVIEW_MARK:
		out_name(name, sizeof name, w->w_copy, walk_id(e));
		event(j, "i", PROCESSORS, (unsigned)ring, time);
		(void)fputs(",\"s\":\"t\",\"cat\":\"mark\",\"name\":", j->j_out);
		out_string(j->j_out, name);
		(void)fputc('}', j->j_out);
		break;
	case UVIEW_CALL:
		out_name(name, sizeof name, w->w_copy, walk_id(e));
		event(j, walk_arg(e) == UVIEW_CALL_BEGINS ? "B" : "E",
		      PROCESSORS, (unsigned)ring, time);
		(void)fputs(",\"cat\":\"call\",\"name\":", j->j_out);
		out_string(j->j_out, name);
		(void)fputc('}', j->j_out);
		break;
	}
}

/* Names processes and threads. */
static void json_names(struct json *j, const struct walk *w)
{
	char name[160], text[96];
	size_t i;
	int k;

	(void)snprintf(name, sizeof name, "%s [%u]: processors",
		       w->w_copy->vf_name, w->w_copy->vf_pid);
	named(j, "process_name", PROCESSORS, 0, name);
	named(j, "process_name", THREADS, 0, "threads");
	for (k = 0; k < w->w_ring_nr; k++) {
		(void)snprintf(name, sizeof name, "%d: native thread %u %s", k,
			       w->w_rings[k].vr_tid, w->w_rings[k].vr_name);
		named(j, "thread_name", PROCESSORS, (unsigned)k, name);
	}
	for (i = 0; i < w->w_room; i++) {
		const struct walk_thread *t = &w->w_thread[i];

		if (t->wt_at == 0)
			continue;
		out_name(text, sizeof text, w->w_copy, t->wt_name != 0 ?
			 t->wt_name : t->wt_f);
		(void)snprintf(name, sizeof name, "%u: %s", t->wt_nr, text);
		named(j, "thread_name", THREADS, t->wt_nr, name);
	}
}

const char *out_json(FILE *out, const struct uview_file *copy)
{
	struct json j = { .j_out = out };
	struct walk *w = calloc(1, sizeof *w);
	const char *why = NULL;

	if (w == NULL)
		return NO_MEMORY;
	w->w_run  = json_run;
	w->w_wait = json_wait;
	w->w_note = json_note;
	w->w_arg  = &j;
	(void)fprintf(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"zero, ns of "
		      "CLOCK_MONOTONIC\":%llu},\"traceEvents\":[\n",
		      (unsigned long long)copy->vf_ns);
	if (walk(w, copy))
		json_names(&j, w);
	else
		why = NO_MEMORY;
	(void)fputs("\n]}\n", out);
	walk_end(w);
	free(w);
	return why;
}

/* Folded stacks. */

struct folded_line {
	unsigned l_f, l_stack, l_reason, l_kind;
	uint64_t l_object;
	double   l_ns;
};

struct folded {
	struct folded_line *f_line;
	size_t f_nr, f_room;		/* a table; f_room is a power of two */
};

static bool folded_grow(struct folded *f);

static void folded_add(struct folded *f, const struct folded_line *l)
{
	size_t i;

	if (f->f_nr * 2 >= f->f_room && !folded_grow(f))
		return;
	i = (l->l_f * 31u + l->l_stack * 1009u + l->l_reason + l->l_kind * 7u +
	     (size_t)(l->l_object >> 4)) & (f->f_room - 1);
	for (; f->f_line[i].l_ns >= 0; i = (i + 1) & (f->f_room - 1)) {
		struct folded_line *x = &f->f_line[i];

		if (x->l_f == l->l_f && x->l_stack == l->l_stack &&
		    x->l_reason == l->l_reason && x->l_kind == l->l_kind &&
		    x->l_object == l->l_object) {
			x->l_ns += l->l_ns;
			return;
		}
	}
	f->f_line[i] = *l;
	f->f_nr++;
}

static bool folded_grow(struct folded *f)
{
	struct folded was = *f;
	size_t i;

	f->f_room = was.f_room != 0 ? was.f_room * 2 : 256;
	f->f_line = malloc(f->f_room * sizeof *f->f_line);
	if (f->f_line == NULL) {
		*f = was;
		return false;
	}
	f->f_nr = 0;
	for (i = 0; i < f->f_room; i++)
		f->f_line[i].l_ns = -1;
	for (i = 0; i < was.f_room; i++)
		if (was.f_line[i].l_ns >= 0)
			folded_add(f, &was.f_line[i]);
	free(was.f_line);
	return true;
}

static void folded_wait(struct walk *w, const struct walk_thread *t, double to,
			bool open)
{
	struct folded_line l = {
		t->wt_f, t->wt_stack, t->wt_reason, t->wt_kind, t->wt_object,
		to - t->wt_off
	};

	(void)open;
	folded_add(w->w_arg, &l);
}

/*
 * Adds the threads of the census that the rings do not know: they have waited
 * all the time. known: waits that are open, of the same function and stack.
 */
static void folded_census(struct folded *f, const struct uview_file *copy,
			  const struct walk *w)
{
	const struct uview_census *c = uview_part_at(copy, UVIEW_PART_CENSUS);
	double whole = w->w_end;
	unsigned i;

	if (copy->vf_census == 0)
		return;
	for (i = 0; i < c->vc_nr; i++) {
		const struct uview_row *r = &c->vc_row[i];
		struct folded_line l = {
			r->vw_f, r->vw_stack, r->vw_reason, r->vw_kind,
			r->vw_object, 0
		};
		uint32_t known = 0;
		size_t k;

		if (r->vw_reason != UVIEW_BLOCKED && r->vw_reason != UVIEW_WAITS)
			continue;
		for (k = 0; k < w->w_room; k++) {
			const struct walk_thread *t = &w->w_thread[k];

			known += t->wt_at != 0 && t->wt_f == r->vw_f &&
				(r->vw_stack == 0 || t->wt_stack == r->vw_stack);
		}
		if (known >= r->vw_nr)
			continue;
		l.l_ns = (double)(r->vw_nr - known) * whole;
		folded_add(f, &l);
	}
}

/* Writes a frame, the function alone, unless it is f, the thread's own. */
static void frame(FILE *out, const struct uview_file *copy, unsigned nr,
		  const char *f)
{
	char text[192];

	out_name(text, sizeof text, copy, nr);
	text[strcspn(text, " ")] = 0;
	if (strrchr(text, '+') != NULL && strrchr(text, '+') != text)
		*strrchr(text, '+') = 0;
	if (strcmp(text, f) != 0)
		(void)fprintf(out, ";%s", text);
}

static void folded_print(FILE *out, const struct uview_file *copy,
			 const struct folded_line *l)
{
	const struct uview_stack *s = uview_part_at(copy, UVIEW_PART_STACKS);
	int last = l->l_stack < copy->vf_part[UVIEW_PART_STACKS].vp_nr ?
		s[l->l_stack].vk_nr - 1 : -1, i;
	char text[192];

	out_name(text, sizeof text, copy, l->l_f);
	(void)fputs(text, out);
	for (i = last; i >= 0; i--)
		frame(out, copy, s[l->l_stack].vk_frame[i],
		      i == last ? text : "");
	wait_text(text, sizeof text, copy, l->l_reason, l->l_kind, l->l_object);
	(void)fprintf(out, ";[%s] %.0f\n", text, l->l_ns / 1e3);
}

const char *out_folded(FILE *out, const struct uview_file *copy)
{
	struct folded f = { NULL, 0, 0 };
	struct walk *w = calloc(1, sizeof *w);
	bool whole;
	size_t i;

	if (w == NULL)
		return NO_MEMORY;
	w->w_wait = folded_wait;
	w->w_arg  = &f;
	whole = walk(w, copy);
	if (whole)
		folded_census(&f, copy, w);
	for (i = 0; i < f.f_room; i++)
		if (f.f_line[i].l_ns >= 1000)
			folded_print(out, copy, &f.f_line[i]);
	free(f.f_line);
	walk_end(w);
	free(w);
	return whole ? NULL : NO_MEMORY;
}

/* SPDX-License-Identifier: MIT */
/*
 * libldap, unmodified, over TCP. Its first call of all asks for the name of the
 * host, with a native lock: in threads, the second thread of a processor would
 * stop it at that lock, and no thread would go on. So main() makes a first call.
 * With the argument "late" it does not, and the program hangs, as
 * ext/wrap/README.md says.
 */
#include "server.h"
#include <ldap.h>
#include <sys/time.h>

enum { BIND = 0x60, SEARCH = 0x63, AT_ID = 4, AT_KIND = 5 };

/* Says that it went well. kind: of the answer. */
static void answer(int fd, unsigned char id, unsigned char kind)
{
	unsigned char m[] = { 0x30, 12, 2, 1, id, kind, 7, 10, 1, 0, 4, 0, 4, 0 };

	give(fd, m, sizeof m);
}

static void serve(int fd, void *arg)
{
	unsigned char m[256];

	while (take(fd, m, 2) && m[1] < 128 && take(fd, m + 2, m[1])) {
		if (m[AT_KIND] == BIND)
			meet();
		if (m[AT_KIND] == BIND || m[AT_KIND] == SEARCH)
			answer(fd, m[AT_ID], m[AT_KIND] + 1 + (m[AT_KIND] == SEARCH));
	}
	(void)arg;
}

static LDAP *make_handle(void)
{
	LDAP *l = NULL;
	char url[40];
	int version = 3;

	snprintf(url, sizeof url, "ldap://127.0.0.1:%d", port);
	CHECK_IS(ldap_initialize(&l, url), 0);
	CHECK_IS(ldap_set_option(l, LDAP_OPT_PROTOCOL_VERSION, &version), 0);
	return l;
}

static int bind_to(LDAP *l)
{
	struct berval nothing = { 0, NULL };

	return ldap_sasl_bind_s(l, "", LDAP_SASL_SIMPLE, &nothing, NULL, NULL,
				NULL);
}

static void client(int number)
{
	LDAP *l = make_handle();
	LDAPMessage *found = NULL;

	CHECK_IS(bind_to(l), 0);
	CHECK_IS(ldap_search_ext_s(l, "o=all", LDAP_SCOPE_BASE, "(a=b)", NULL, 0,
				   NULL, NULL, NULL, 0, &found), 0);
	CHECK_IS(ldap_msgfree(found), LDAP_RES_SEARCH_RESULT);
	CHECK_IS(ldap_unbind_ext_s(l, NULL, NULL), 0);
	(void)number;
}

static void impatient(void)
{
	struct timeval most = { 0, 50000 };
	LDAP *l = make_handle();

	CHECK_IS(ldap_set_option(l, LDAP_OPT_TIMEOUT, &most), 0);
	CHECK_IS(bind_to(l), LDAP_TIMEOUT);
	CHECK_IS(ldap_unbind_ext_s(l, NULL, NULL), 0);
}

int main(int argc, char **argv)
{
	LDAPAPIInfo info = { .ldapai_info_version = LDAP_API_INFO_VERSION };

	check_start(1, argv);
	if (argc == 1)
		CHECK_IS(ldap_get_option(NULL, LDAP_OPT_API_INFO, &info), 0);
	run_all();
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* suser.c: users, groups, sessions, terminals, and what libc reads in /etc. */

/*
 * A host has one user, with one group. Programs that ask look for a home, and for the
 * rights of the first user. No other user is known, so no call may change the user. The
 * process leads its session and group. It has no terminal.
 *
 * Of what libc reads in /etc, a host has the protocols that it speaks, and no names of
 * services and networks.
 */

#define _GNU_SOURCE		/* getresuid() */
#include "snames.h"

#include <grp.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

NAME(uid_t, getuid, (void))
{
	return enter() == NULL ? getuid() : SIM_USER;
}

NAME(uid_t, geteuid, (void))
{
	return enter() == NULL ? geteuid() : SIM_USER;
}

NAME(gid_t, getgid, (void))
{
	return enter() == NULL ? getgid() : SIM_USER;
}

NAME(gid_t, getegid, (void))
{
	return enter() == NULL ? getegid() : SIM_USER;
}

/* Three numbers of users, or of groups. */
static int three_put(unsigned *a, unsigned *b, unsigned *c)
{
	*a = *b = *c = SIM_USER;
	return 0;
}

NAME(int, getresuid, (uid_t *real, uid_t *effective, uid_t *saved))
{
	return enter() == NULL ? getresuid(real, effective, saved) :
		three_put(real, effective, saved);
}

NAME(int, getresgid, (gid_t *real, gid_t *effective, gid_t *saved))
{
	return enter() == NULL ? getresgid(real, effective, saved) :
		three_put(real, effective, saved);
}

/* Linux takes -1 for "as it is" where several numbers are set. */
static int become(unsigned a, unsigned b, unsigned c)
{
	const unsigned same = (unsigned)-1;

	return (int)answer((a == SIM_USER || a == same) &&
			   (b == SIM_USER || b == same) &&
			   (c == SIM_USER || c == same) ? 0 : -EPERM);
}

static int become_one(unsigned id)
{
	return id == (unsigned)-1 ? (int)answer(-EINVAL) : become(id, id, id);
}

#define BECOME(name)							\
NAME(int, name, (unsigned id))						\
{									\
	return enter() == NULL ? name(id) : become_one(id);		\
}
BECOME(setuid)
BECOME(seteuid)
BECOME(setgid)
BECOME(setegid)

NAME(int, setreuid, (uid_t real, uid_t effective))
{
	return enter() == NULL ? setreuid(real, effective) :
		become(real, effective, effective);
}

NAME(int, setregid, (gid_t real, gid_t effective))
{
	return enter() == NULL ? setregid(real, effective) :
		become(real, effective, effective);
}

NAME(int, setresuid, (uid_t real, uid_t effective, uid_t saved))
{
	return enter() == NULL ? setresuid(real, effective, saved) :
		become(real, effective, saved);
}

NAME(int, setresgid, (gid_t real, gid_t effective, gid_t saved))
{
	return enter() == NULL ? setresgid(real, effective, saved) :
		become(real, effective, saved);
}

NAME(int, getgroups, (int size, gid_t *to))
{
	if (enter() == NULL)
		return getgroups(size, to);
	if (size < 0)
		return (int)answer(-EINVAL);
	if (size > 0)
		to[0] = SIM_USER;
	return 1;
}

NAME(int, __getgroups_chk, (int size, gid_t *to, size_t room))
{
	return (void)room, wrap_getgroups(size, to);
}

NAME(int, setgroups, (size_t nr, const gid_t *groups))
{
	return enter() == NULL ? setgroups(nr, groups) : (int)answer(-EPERM);
}

NAME(int, initgroups, (const char *name, gid_t group))
{
	return enter() == NULL ? initgroups(name, group) : (int)answer(-EPERM);
}

/* What is known of the user. The strings are constant, so they need no room. */

static struct passwd user = { .pw_name = "user", .pw_passwd = "x",
	.pw_uid = SIM_USER, .pw_gid = SIM_USER, .pw_gecos = "", .pw_dir = "/",
	.pw_shell = "/bin/sh" };
static char *members[1];
static struct group group = { .gr_name = "user", .gr_passwd = "x",
	.gr_gid = SIM_USER, .gr_mem = members };

/* Fills in the caller's struct if this is the user, or the group. */
#define PUT(to, what, is, result)					\
	(*(to) = (what), *(result) = (is) ? (to) : NULL, 0)

NAME(int, getpwuid_r, (uid_t uid, struct passwd *to, char *room, size_t size,
		       struct passwd **result))
{
	return enter() == NULL ? getpwuid_r(uid, to, room, size, result) :
		PUT(to, user, uid == SIM_USER, result);
}

NAME(int, getpwnam_r, (const char *name, struct passwd *to, char *room, size_t size,
		       struct passwd **result))
{
	return enter() == NULL ? getpwnam_r(name, to, room, size, result) :
		PUT(to, user, strcmp(name, user.pw_name) == 0, result);
}

NAME(int, getgrgid_r, (gid_t gid, struct group *to, char *room, size_t size,
		       struct group **result))
{
	return enter() == NULL ? getgrgid_r(gid, to, room, size, result) :
		PUT(to, group, gid == SIM_USER, result);
}

NAME(int, getgrnam_r, (const char *name, struct group *to, char *room, size_t size,
		       struct group **result))
{
	return enter() == NULL ? getgrnam_r(name, to, room, size, result) :
		PUT(to, group, strcmp(name, group.gr_name) == 0, result);
}

NAME(struct passwd *, getpwuid, (uid_t uid))
{
	return enter() == NULL ? getpwuid(uid) : uid == SIM_USER ? &user : NULL;
}

NAME(struct passwd *, getpwnam, (const char *name))
{
	return enter() == NULL ? getpwnam(name) :
		strcmp(name, user.pw_name) == 0 ? &user : NULL;
}

NAME(struct group *, getgrgid, (gid_t gid))
{
	return enter() == NULL ? getgrgid(gid) : gid == SIM_USER ? &group : NULL;
}

NAME(struct group *, getgrnam, (const char *name))
{
	return enter() == NULL ? getgrnam(name) :
		strcmp(name, group.gr_name) == 0 ? &group : NULL;
}

/* The lists of users and groups have one entry. */

#define LIST(set, get, end, type, entry, is_read)			\
NAME(void, set, (void))							\
{									\
	struct sim_boot *b = enter();					\
									\
	if (b == NULL)							\
		set();							\
	else								\
		b->is_read = false;					\
}									\
									\
NAME(void, end, (void))							\
{									\
	struct sim_boot *b = enter();					\
									\
	if (b == NULL)							\
		end();							\
	else								\
		b->is_read = false;					\
}									\
									\
NAME(type *, get, (void))						\
{									\
	struct sim_boot *b = enter();					\
	bool was;							\
									\
	if (b == NULL)							\
		return get();						\
	was = b->is_read;						\
	b->is_read = true;						\
	return was ? NULL : &entry;					\
}
LIST(setpwent, getpwent, endpwent, struct passwd, user, b_users_read)
LIST(setgrent, getgrent, endgrent, struct group, group, b_groups_read)

NAME(char *, getlogin, (void))
{
	return enter() == NULL ? getlogin() : user.pw_name;
}

NAME(int, getlogin_r, (char *to, size_t size))
{
	if (enter() == NULL)
		return getlogin_r(to, size);
	return (size_t)snprintf(to, size, "%s", user.pw_name) < size ? 0 : ERANGE;
}

NAME(int, __getlogin_r_chk, (char *to, size_t size, size_t room))
{
	return (void)room, wrap_getlogin_r(to, size);
}

/* Sessions and groups of processes. */

/* Returns the session and group of a process. */
static pid_t session_of(struct sim_boot *b, pid_t pid)
{
	return pid == 0 || pid == sim_pid(b) ? sim_pid(b) : (pid_t)answer(-ESRCH);
}

NAME(pid_t, getpgid, (pid_t pid))
{
	struct sim_boot *b = enter();

	return b == NULL ? getpgid(pid) : session_of(b, pid);
}

ALIAS(pid_t, __getpgid, (pid_t pid), getpgid)

NAME(pid_t, getsid, (pid_t pid))
{
	struct sim_boot *b = enter();

	return b == NULL ? getsid(pid) : session_of(b, pid);
}

NAME(pid_t, getpgrp, (void))
{
	struct sim_boot *b = enter();

	return b == NULL ? getpgrp() : sim_pid(b);
}

/* A leader of a session can begin none, and stays in its group. */
NAME(pid_t, setsid, (void))
{
	return enter() == NULL ? setsid() : (pid_t)answer(-EPERM);
}

NAME(int, setpgid, (pid_t pid, pid_t group_of))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return setpgid(pid, group_of);
	if (group_of < 0)
		return (int)answer(-EINVAL);
	return session_of(b, pid) < 0 ? -1 : (int)answer(-EPERM);
}

NAME(int, setpgrp, (void))
{
	return enter() == NULL ? setpgrp() : (int)answer(-EPERM);
}

/* Terminals: there is none. */

static int no_terminal(struct sim_boot *b, int fd)
{
	return (fd < 0 || fd >= SIM_FIRST) && sim_file(b, fd) == NULL ? -EBADF : -ENOTTY;
}

NAME(int, isatty, (int fd))
{
	struct sim_boot *b = enter();

	return b == NULL ? isatty(fd) : ((void)answer(no_terminal(b, fd)), 0);
}

NAME(char *, ttyname, (int fd))
{
	struct sim_boot *b = enter();

	return b == NULL ? ttyname(fd) : ((void)answer(no_terminal(b, fd)), NULL);
}

NAME(int, ttyname_r, (int fd, char *to, size_t size))
{
	struct sim_boot *b = enter();

	return b == NULL ? ttyname_r(fd, to, size) : -no_terminal(b, fd);
}

NAME(int, __ttyname_r_chk, (int fd, char *to, size_t size, size_t room))
{
	return (void)room, wrap_ttyname_r(fd, to, size);
}

/* Calls of terminals, as each fails. */
#define TERMINAL(type, name, args, pass)				\
NAME(type, name, args)							\
{									\
	struct sim_boot *b = enter();					\
									\
	return b == NULL ? name pass : (type)answer(no_terminal(b, fd)); \
}
TERMINAL(int, tcgetattr, (int fd, struct termios *to), (fd, to))
TERMINAL(int, tcsetattr, (int fd, int when, const struct termios *t), (fd, when, t))
TERMINAL(int, tcdrain, (int fd), (fd))
TERMINAL(int, tcflow, (int fd, int what), (fd, what))
TERMINAL(int, tcflush, (int fd, int what), (fd, what))
TERMINAL(int, tcsendbreak, (int fd, int length), (fd, length))
TERMINAL(pid_t, tcgetpgrp, (int fd), (fd))
TERMINAL(int, tcsetpgrp, (int fd, pid_t to), (fd, to))
TERMINAL(pid_t, tcgetsid, (int fd), (fd))

/* Protocols; no services and networks. */

static char *no_names[1];
static struct protoent protocols[] = {
	{ .p_name = "ip",   .p_aliases = no_names, .p_proto = IPPROTO_IP },
	{ .p_name = "tcp",  .p_aliases = no_names, .p_proto = IPPROTO_TCP },
	{ .p_name = "udp",  .p_aliases = no_names, .p_proto = IPPROTO_UDP },
};

#define PROTOCOLS	(sizeof protocols / sizeof protocols[0])

NAME(struct protoent *, getprotobyname, (const char *name))
{
	size_t i;

	if (enter() == NULL)
		return getprotobyname(name);
	for (i = 0; i < PROTOCOLS; i++)
		if (strcmp(protocols[i].p_name, name) == 0)
			return &protocols[i];
	return NULL;
}

NAME(struct protoent *, getprotobynumber, (int number))
{
	size_t i;

	if (enter() == NULL)
		return getprotobynumber(number);
	for (i = 0; i < PROTOCOLS; i++)
		if (protocols[i].p_proto == number)
			return &protocols[i];
	return NULL;
}

NAME(struct servent *, getservbyname, (const char *name, const char *protocol))
{
	return enter() == NULL ? getservbyname(name, protocol) : NULL;
}

NAME(struct servent *, getservbyport, (int port, const char *protocol))
{
	return enter() == NULL ? getservbyport(port, protocol) : NULL;
}

NAME(struct netent *, getnetbyname, (const char *name))
{
	return enter() == NULL ? getnetbyname(name) : NULL;
}

NAME(struct netent *, getnetbyaddr, (uint32_t net, int type))
{
	return enter() == NULL ? getnetbyaddr(net, type) : NULL;
}

/* Lists that no program needs, since it would have to know what it looks for. */
#define EMPTY(set, get, end, type)					\
NAME(void, set, (int stays))						\
{									\
	if (enter() == NULL)						\
		set(stays);						\
}									\
									\
NAME(void, end, (void))							\
{									\
	if (enter() == NULL)						\
		end();							\
}									\
									\
NAME(type *, get, (void))						\
{									\
	return enter() == NULL ? get() : NULL;				\
}
EMPTY(setprotoent, getprotoent, endprotoent, struct protoent)
EMPTY(setservent, getservent, endservent, struct servent)
EMPTY(setnetent, getnetent, endnetent, struct netent)

/* Links: that to itself, and that to the others. */

static const char *const links[] = { "lo", "eth0" };

NAME(unsigned, if_nametoindex, (const char *name))
{
	unsigned i;

	if (enter() == NULL)
		return if_nametoindex(name);
	for (i = 0; i < sizeof links / sizeof links[0]; i++)
		if (strcmp(links[i], name) == 0)
			return i + 1;
	return (void)answer(-ENODEV), 0;
}

NAME(char *, if_indextoname, (unsigned number, char *to))
{
	if (enter() == NULL)
		return if_indextoname(number, to);
	if (number < 1 || number > sizeof links / sizeof links[0])
		return (void)answer(-ENXIO), NULL;
	return strcpy(to, links[number - 1]);
}

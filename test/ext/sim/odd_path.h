/* SPDX-License-Identifier: MIT */
/* odd_path.h: names of files, in scripts of odd arguments (odd.c). */

/* A plain file alone is renamed, within its folder: a host has no other renames. */

#ifndef ODD_PATH_H
#define ODD_PATH_H

#include "odd.h"

#include <sys/stat.h>

static void call_rename(const char *path, const char *other)
{
	/* Only plain files are renamed, within a folder. */
	if (other != NULL && (strchr(other, '/') != NULL || other[0] == 'd'))
		other = "b";
	if (path == NULL || strchr(path, '/') != NULL || path[0] == 'd')
		path = "a";
	printf("	%s\n", shown(other));
	if (below(2) == 0)
		said("rename", rename(path, other));
	else
		said("renameat2", renameat2(AT_FDCWD, path, AT_FDCWD, other,
					    below(3) ? below(2) : below(2) ? 3 : 8));
}

static void call_path(void)
{
	static const int modes[] = { 0, R_OK, X_OK, W_OK | R_OK, 8, -1 };
	static const int at_flags[] = { AT_REMOVEDIR, AT_SYMLINK_NOFOLLOW, 0, 0, 0x40000 };
	static const off_t lengths[] = { 0, 20, -1 };
	const char *path = name(), *other = name();
	int folder = seldom(2) ? any() : AT_FDCWD, flags = ONE_OF(at_flags);
	struct stat st;
	long rc;

	printf("	%s %#x\n", shown(path), (unsigned)flags);
	switch (below(15)) {
	case 0:
		rc = below(2) ? mkdirat(folder, path, 07777) : mkdir(path, 0777);
		said("mkdirat", rc);
		if (rc == 0 && fstatat(folder, path, &st, 0) == 0)
			printf("	%#o\n", (unsigned)st.st_mode);
		break;
	case 1:
		said("rmdir", rmdir(path));
		break;
	case 2:
		said("unlink", unlink(path));
		break;
	case 3:
		said("unlinkat", unlinkat(folder, path, flags));
		break;
	case 4:
	case 5:
		call_rename(path, other);
		break;
	case 6:
		said("linkat", linkat(folder, path, AT_FDCWD, "b",
				      below(2) ? 0 : below(2) ? AT_SYMLINK_FOLLOW : 0x200));
		break;
	case 7:
		said("symlink", symlink(other, seldom(4) ? path : "l"));
		break;
	case 8:
		rc = readlinkat(folder, path, data, seldom(3) ? 0 : 1 + below(300));
		said("readlinkat", rc);
		show(data, rc);
		break;
	case 9:
		said("truncate", truncate(path, ONE_OF(lengths)));
		break;
	case 10:
		said("faccessat", below(2) ? access(path, ONE_OF(modes)) :
		     faccessat(folder, path, ONE_OF(modes), below(2) ? 0 : below(2) ?
			       AT_EACCESS : 0x40000));
		break;
	case 11:
		rc = stat(path, data_odd(&st));
		said("stat", rc);
		break;
	case 12:
		said("fchmodat", fchmodat(AT_FDCWD, path, 0755, seldom(4) ? 0x40000 : 0));
		break;
	case 13:
		rc = chdir(path);
		said("chdir", rc == 0 ? chdir(home) : rc);
		break;
	default:
		rc = open(path, O_RDONLY | O_PATH);
		said("open", rc);
		keep((int)rc);
	}
}

/* Numbers of files, but for those that the file system chooses. */
static void call_number(void)
{
	static const int names[] = {
		_PC_MAX_CANON, _PC_MAX_INPUT, _PC_NAME_MAX, _PC_PATH_MAX, _PC_PIPE_BUF,
		_PC_CHOWN_RESTRICTED, _PC_NO_TRUNC, _PC_VDISABLE, _PC_SYNC_IO, _PC_ASYNC_IO,
		_PC_PRIO_IO, _PC_SOCK_MAXBUF, _PC_SYMLINK_MAX, 99, -1
	};
	int number = ONE_OF(names), fd = any();
	const char *path = seldom(6) ? device() : name();

	errno = 0;
	printf("	%d of %s, %d\n", number, shown(path), fd);
	if (below(2) == 0)
		said("fpathconf", fpathconf(fd, number));
	else if (path != NULL)
		said("pathconf", pathconf(path, number));
}

#endif /* ODD_PATH_H */

/* SPDX-License-Identifier: MIT */
/* pkeys.c: the pthread face: values of a thread. */

/*
 * A key is a pair: a key of uthread.h for our threads, and a key of libc's for
 * native threads.
 */

#include "pface.h"

#include <errno.h>

UPREEMPT_NEVER;

NATIVE(pthread_key_create);
NATIVE(pthread_key_delete);
NATIVE(pthread_getspecific);
NATIVE(pthread_setspecific);

static pthread_key_t native_key[UKEY_MOST];

int FACE(pthread_key_create)(pthread_key_t *key, void (*destroy)(void *))
{
	unsigned k;

	if (ukey_make(&k, destroy) != 0)
		return EAGAIN;
	if (REAL(pthread_key_create)(&native_key[k % UKEY_MOST], destroy)) {
		(void)ukey_free(k);
		return EAGAIN;
	}
	*key = k;
	return 0;
}

int FACE(pthread_key_delete)(pthread_key_t key)
{
	pthread_key_t native = native_key[key % UKEY_MOST];

	if (ukey_free(key) != 0)
		return EINVAL;
	return REAL(pthread_key_delete)(native);
}

void *FACE(pthread_getspecific)(pthread_key_t key)
{
	return ustack_self() == NULL ?
		REAL(pthread_getspecific)(native_key[key % UKEY_MOST]) :
		ukey_get(key);
}

int FACE(pthread_setspecific)(pthread_key_t key, const void *value)
{
	if (ustack_self() == NULL)
		return REAL(pthread_setspecific)(native_key[key % UKEY_MOST],
						 value);
	return -ukey_set(key, value);
}

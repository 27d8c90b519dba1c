/* SPDX-License-Identifier: MIT */
/* store.h: keys, their values, and when they end. */

#ifndef STORE_H
#define STORE_H

#include <usched/uwait.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A single processor uses it, and no function waits. A value stays while a thread
 * has a reference, though its key may have another by then: so a thread can wait
 * while it sends the value.
 */
struct value {
	uint32_t v_refs;
	uint32_t v_len;
	char     v_bytes[];
};

/* Forgets all; at most so many bytes are kept. 0, or -errno. */
int store_start(size_t bytes);

/* Returns the value of a key, or NULL; for the caller until it waits. */
struct value *store_get(const char *key, size_t len);

/* Sets a key until `end`. 0; -ENOMEM: there is no room, and nothing changed. */
int store_set(const char *key, size_t len, const char *value, size_t value_len,
	      utime_ns end);

/* Each returns whether there was the key. */
bool store_delete(const char *key, size_t len);
bool store_expire(const char *key, size_t len, utime_ns end);
bool store_end(const char *key, size_t len, utime_ns *end);

void value_put(struct value *v);	/* gives a reference back */

/* Removes keys whose end has come: looks at a part. Returns whether there may be
 * such keys at all. */
bool store_sweep(unsigned part);

long store_keys(void);

#endif /* STORE_H */

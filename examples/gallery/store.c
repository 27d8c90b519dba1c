/* SPDX-License-Identifier: MIT */
/* store.c: a hash table that grows a bucket at a time. */

/*
 * Linear hashing: buckets 0 to nr - 1 are in use. With `low` the largest power
 * of two up to nr, a hash belongs to bucket hash mod 2 * low if there is one,
 * else mod low. Each new key splits one bucket, so no request pays for a table
 * of twice the size but by a realloc() of the pointers.
 *
 * Clients choose keys. So the hash is SipHash-1-3 with a random key, or they
 * could put all keys into one bucket.
 *
 * A key whose end has come is not found any more, and is freed when it is looked
 * for, or by store_sweep().
 */
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { FIRST = 1024, OVERHEAD = 16 };	/* buckets; bytes of malloc() */

struct item {
	struct item  *i_next;
	struct value *i_value;
	utime_ns      i_end;		/* or UNEVER */
	uint64_t      i_hash;
	uint32_t      i_len;
	char          i_key[];
};

static struct item **bucket;
static size_t nr, low, room, used, most, swept;
static long keys, ends;			/* the latter: keys that end */
static uint64_t secret[2];

static uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32) + v[3];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
}

static uint64_t hash_of(const char *key, size_t len)
{
	uint64_t v[4] = { secret[0] ^ 0x736f6d6570736575,
			  secret[1] ^ 0x646f72616e646f6d,
			  secret[0] ^ 0x6c7967656e657261,
			  secret[1] ^ 0x7465646279746573 };
	uint64_t word;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		memcpy(&word, key + i, 8);
		sip_word(v, word);
	}
	word = 0;
	memcpy(&word, key + i, len - i);
	sip_word(v, word | (uint64_t)len << 56);
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static size_t place(uint64_t hash)
{
	size_t i = hash & (2 * low - 1);

	return i < nr ? i : hash & (low - 1);
}

static size_t value_bytes(const struct value *v)
{
	return sizeof *v + v->v_len + OVERHEAD;
}

static size_t item_bytes(size_t len)
{
	return sizeof(struct item) + len + OVERHEAD + sizeof *bucket;
}

void value_put(struct value *v)
{
	if (--v->v_refs > 0)
		return;
	used -= value_bytes(v);
	free(v);
}

/* Adds a bucket, and moves to it what belongs there from the bucket that it splits. */
static void split(void)
{
	struct item **from, **to, *i;

	if (nr == room) {
		to = realloc(bucket, 2 * room * sizeof *bucket);
		if (to == NULL)
			return;		/* chains grow instead */
		bucket = to;
		room *= 2;
	}
	low = nr == 2 * low ? nr : low;
	from = &bucket[nr - low];
	to   = &bucket[nr++];
	*to  = NULL;
	while ((i = *from) != NULL)
		if (place(i->i_hash) == nr - 1) {
			*from = i->i_next;
			i->i_next = *to;
			*to = i;
		} else
			from = &i->i_next;
}

static void set_end(struct item *i, utime_ns end)
{
	ends += (end != UNEVER) - (i->i_end != UNEVER);
	i->i_end = end;
}

static void drop(struct item **at)
{
	struct item *i = *at;

	*at = i->i_next;
	set_end(i, UNEVER);
	value_put(i->i_value);
	used -= item_bytes(i->i_len);
	keys--;
	free(i);
}

static bool has_ended(const struct item *i)
{
	return i->i_end != UNEVER && i->i_end <= unow();
}

/* Returns what points to the key's item; NULL: there is none. */
static struct item **find(const char *key, size_t len, uint64_t hash)
{
	struct item **at = &bucket[place(hash)], *i;

	for (; (i = *at) != NULL; at = &i->i_next)
		if (i->i_hash == hash && i->i_len == len &&
		    memcmp(i->i_key, key, len) == 0) {
			if (!has_ended(i))
				return at;
			drop(at);
			return NULL;
		}
	return NULL;
}

static struct item **find_key(const char *key, size_t len)
{
	return find(key, len, hash_of(key, len));
}

struct value *store_get(const char *key, size_t len)
{
	struct item **at = find_key(key, len);

	return at != NULL ? (*at)->i_value : NULL;
}

/* Puts a new item with a value into its bucket. */
static struct item *add(const char *key, size_t len, uint64_t hash)
{
	struct item *i = malloc(sizeof *i + len), **at;

	if (i == NULL)
		return NULL;
	at = &bucket[place(hash)];
	*i = (struct item){ .i_next = *at, .i_end = UNEVER, .i_hash = hash,
			    .i_len = len };
	memcpy(i->i_key, key, len);
	*at = i;
	used += item_bytes(len);
	if (++keys > (long)nr)
		split();
	return i;
}

int store_set(const char *key, size_t len, const char *bytes, size_t value_len,
	      utime_ns end)
{
	uint64_t hash = hash_of(key, len);
	struct item **at = find(key, len, hash), *i;
	size_t more = sizeof(struct value) + value_len + OVERHEAD +
		(at == NULL ? item_bytes(len) : 0);
	struct value *v = used + more <= most ?
		malloc(sizeof *v + value_len) : NULL;

	i = v == NULL ? NULL : at != NULL ? *at : add(key, len, hash);
	if (i == NULL) {
		free(v);
		return -ENOMEM;
	}
	*v = (struct value){ .v_refs = 1, .v_len = value_len };
	memcpy(v->v_bytes, bytes, value_len);
	used += value_bytes(v);
	if (i->i_value != NULL)
		value_put(i->i_value);
	i->i_value = v;
	set_end(i, end);
	return 0;
}

bool store_delete(const char *key, size_t len)
{
	struct item **at = find_key(key, len);

	if (at != NULL)
		drop(at);
	return at != NULL;
}

bool store_expire(const char *key, size_t len, utime_ns end)
{
	struct item **at = find_key(key, len);

	if (at != NULL)
		set_end(*at, end);
	return at != NULL;
}

bool store_end(const char *key, size_t len, utime_ns *end)
{
	struct item **at = find_key(key, len);

	if (at != NULL)
		*end = (*at)->i_end;
	return at != NULL;
}

bool store_sweep(unsigned part)
{
	struct item **at;

	for (; ends > 0 && part > 0; part--) {
		swept = swept + 1 < nr ? swept + 1 : 0;
		for (at = &bucket[swept]; *at != NULL; )
			if (has_ended(*at))
				drop(at);
			else
				at = &(*at)->i_next;
	}
	return ends > 0;
}

long store_keys(void)
{
	return keys;
}

int store_start(size_t bytes)
{
	bucket = calloc(FIRST, sizeof *bucket);
	if (bucket == NULL)
		return -ENOMEM;
	nr = low = room = FIRST;
	used = swept = 0;
	keys = ends = 0;
	most = bytes;
	return getrandom(secret, sizeof secret, 0) == sizeof secret ? 0 : -EIO;
}

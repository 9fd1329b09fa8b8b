/*
 * pack.c: rtl_word, and rtl_pack(a, b, …), an aggregate function and the inverse of
 * rtl_unpack: rows of integers become one blob of packed 64-bit integers.
 *
 *	SELECT rtl_pack(id, start_ns) FROM (SELECT … LIMIT 8192)
 *
 * Passing a row to Go through the driver costs a microsecond; this costs a
 * tenth of it. NULL is RTL_UNPACK_NULL. A value that is not an integer is an
 * error: a text in place of a time would silently become 0.
 */
#include "unpack.h"

#include <stdint.h>
#include <string.h>

#include "sqlite_abi.h"

struct pack {
	int64_t *values;
	int64_t count; /* of values */
	int64_t room;  /* for values */
};

enum { FIRST_ROOM = 1 << 13 }; /* values */

static int pack_grow(struct pack *p, int more)
{
	int64_t room = p->room ? p->room : FIRST_ROOM;
	int64_t *values;

	if (p->count + more <= p->room)
		return SQLITE_OK;
	while (room < p->count + more)
		room *= 2;
	values = sqlite3_realloc64(p->values, (sqlite3_uint64)room * sizeof(*values));
	if (values == NULL)
		return SQLITE_NOMEM;
	p->values = values;
	p->room = room;
	return SQLITE_OK;
}

static void pack_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
	struct pack *p = sqlite3_aggregate_context(context, sizeof(*p));

	if (p == NULL || pack_grow(p, argc) != SQLITE_OK) {
		sqlite3_result_error_nomem(context);
		return;
	}
	for (int i = 0; i < argc; i++) {
		switch (sqlite3_value_type(argv[i])) {
		case SQLITE_INTEGER:
			p->values[p->count++] = sqlite3_value_int64(argv[i]);
			break;
		case SQLITE_NULL:
			p->values[p->count++] = RTL_UNPACK_NULL;
			break;
		default:
			sqlite3_result_error(context, "rtl_pack: not an integer", -1);
			return;
		}
	}
}

/* SQLite calls this after an error, too. */
static void pack_final(sqlite3_context *context)
{
	struct pack *p = sqlite3_aggregate_context(context, 0);

	if (p == NULL)
		return; /* no row: NULL */
	sqlite3_result_blob64(context, p->values, (sqlite3_uint64)p->count * sizeof(*p->values), sqlite3_free);
}

/*
 * rtl_word(blob, n) is word n, from 0, of a blob of words of 8 bytes, each with
 * its most significant byte first; NULL without such a word.
 */
static void word_of(sqlite3_context *context, int argc, sqlite3_value **argv)
{
	sqlite3_int64 n = sqlite3_value_int64(argv[1]);
	uint64_t word = 0;
	const uint8_t *bytes;

	(void)argc;
	if (sqlite3_value_type(argv[0]) != SQLITE_BLOB || sqlite3_value_type(argv[1]) != SQLITE_INTEGER || n < 0 ||
	    n >= sqlite3_value_bytes(argv[0]) / 8) {
		sqlite3_result_null(context);
		return;
	}
	bytes = (const uint8_t *)sqlite3_value_blob(argv[0]) + 8 * n;
	for (int i = 0; i < 8; i++)
		word = word << 8 | bytes[i];
	sqlite3_result_int64(context, (sqlite3_int64)word);
}

/* SQLite calls this for each new connection. */
static int pack_register(sqlite3 *db, char **err, const void *api)
{
	int rc;

	(void)err, (void)api;
	rc = sqlite3_create_function(db, "rtl_word", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL, word_of,
				     NULL, NULL);
	if (rc != SQLITE_OK)
		return rc;
	return sqlite3_create_function(db, "rtl_pack", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL, NULL,
				       pack_step, pack_final);
}

int rtl_pack_install(void)
{
	return sqlite3_auto_extension((void (*)(void))pack_register);
}

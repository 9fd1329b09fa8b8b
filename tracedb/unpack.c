/*
 * unpack.c: rtl_unpack(rows, width), a table-valued function: a blob of packed
 * 64-bit integers comes out as rows of width columns c0, c1, …
 *
 *	INSERT INTO t(a, b) SELECT c0, c1 FROM rtl_unpack(?, 2)
 *
 * rtl_unpack(rows, width, columns) has words in each row: behind the columns comes their
 * number, then the words. The column words is a blob of them, each with its most
 * significant byte first, so that hex() shows numbers.
 *
 *	INSERT INTO t(a, b, w) SELECT c0, c1, words FROM rtl_unpack(?, 2 + 1 + 11, 2)
 *
 * Binding values from Go costs a cgo call for each value; this costs one call
 * for thousands of rows.
 */
#include "unpack.h"

#include <stdint.h>
#include <string.h>

#include "sqlite_abi.h"

/* The hidden columns are the function's arguments. */
#define DECLARATION                                                         \
	"CREATE TABLE x(c0 INT, c1 INT, c2 INT, c3 INT, c4 INT, c5 INT, "   \
	"c6 INT, c7 INT, c8 INT, c9 INT, c10 INT, c11 INT, c12 INT, c13 INT, " \
	"c14 INT, c15 INT, words BLOB, rows BLOB HIDDEN, "                  \
	"width INT HIDDEN, columns INT HIDDEN)"
#define COLUMN_WORDS RTL_UNPACK_COLUMNS_MAX
#define COLUMN_ROWS (RTL_UNPACK_COLUMNS_MAX + 1)

struct cursor {
	sqlite3_vtab_cursor base;
	int64_t *values; /* a copy: SQLite's blob lives only as long as xFilter */
	int width;   /* of a row, in values */
	int columns; /* of integers in a row */
	int count;   /* of rows */
	int row;
};

static int unpack_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out, char **err)
{
	int rc = sqlite3_declare_vtab(db, DECLARATION);

	(void)aux, (void)argc, (void)argv, (void)err;
	if (rc != SQLITE_OK)
		return rc;
	if ((*out = sqlite3_malloc(sizeof(**out))) == NULL)
		return SQLITE_NOMEM;
	memset(*out, 0, sizeof(**out));
	return SQLITE_OK;
}

static int unpack_disconnect(sqlite3_vtab *table)
{
	sqlite3_free(table);
	return SQLITE_OK;
}

/* The only plans have the first two arguments, or all three: plan is their bit mask. */
static int unpack_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
	int found = 0;

	(void)table;
	for (int i = 0; i < info->nConstraint; i++) {
		int column = info->aConstraint[i].iColumn;

		if (column < COLUMN_ROWS || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
			continue;
		if (!info->aConstraint[i].usable)
			return SQLITE_CONSTRAINT;
		info->aConstraintUsage[i].argvIndex = column - COLUMN_ROWS + 1;
		info->aConstraintUsage[i].omit = 1;
		found |= 1 << (column - COLUMN_ROWS);
	}
	info->estimatedCost = 1;
	info->idxNum = found;
	return found == 3 || found == 7 ? SQLITE_OK : SQLITE_CONSTRAINT;
}

static int unpack_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
	struct cursor *c = sqlite3_malloc(sizeof(*c));

	(void)table;
	if (c == NULL)
		return SQLITE_NOMEM;
	memset(c, 0, sizeof(*c));
	*out = &c->base;
	return SQLITE_OK;
}

static int unpack_close(sqlite3_vtab_cursor *base)
{
	struct cursor *c = (struct cursor *)base;

	sqlite3_free(c->values);
	sqlite3_free(c);
	return SQLITE_OK;
}

static int unpack_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc, sqlite3_value **argv)
{
	struct cursor *c = (struct cursor *)base;
	const void *blob = sqlite3_value_blob(argv[0]);
	int size = sqlite3_value_bytes(argv[0]);
	int width = sqlite3_value_int(argv[1]);
	int columns = plan == 7 ? sqlite3_value_int(argv[2]) : width;

	(void)text, (void)argc;
	sqlite3_free(c->values);
	c->values = NULL;
	c->row = c->count = 0;
	if (columns < 1 || columns > RTL_UNPACK_COLUMNS_MAX || columns > width || width > RTL_UNPACK_WIDTH_MAX ||
	    size % (width * (int)sizeof(int64_t)) != 0)
		return SQLITE_ERROR;
	if (size == 0)
		return SQLITE_OK;
	if ((c->values = sqlite3_malloc(size)) == NULL)
		return SQLITE_NOMEM;
	memcpy(c->values, blob, (size_t)size);
	c->width = width;
	c->columns = columns;
	c->count = size / (width * (int)sizeof(int64_t));
	return SQLITE_OK;
}

static int unpack_next(sqlite3_vtab_cursor *base)
{
	((struct cursor *)base)->row++;
	return SQLITE_OK;
}

static int unpack_eof(sqlite3_vtab_cursor *base)
{
	struct cursor *c = (struct cursor *)base;

	return c->row >= c->count;
}

/* words: their number, then the words; room: the values of both */
static void unpack_words(sqlite3_context *result, const int64_t *words, int room)
{
	uint64_t swapped[RTL_UNPACK_WIDTH_MAX];
	int64_t count = room > 0 ? words[0] : 0;

	if (count < 0 || count > room - 1)
		count = 0;
	for (int i = 0; i < count; i++)
		swapped[i] = __builtin_bswap64((uint64_t)words[1 + i]);
	sqlite3_result_blob64(result, swapped, (sqlite3_uint64)count * sizeof(*swapped), SQLITE_TRANSIENT);
}

static int unpack_column(sqlite3_vtab_cursor *base, sqlite3_context *result, int column)
{
	struct cursor *c = (struct cursor *)base;
	const int64_t *row = c->values + (int64_t)c->row * c->width;
	int64_t value = RTL_UNPACK_NULL;

	if (column == COLUMN_WORDS) {
		unpack_words(result, row + c->columns, c->width - c->columns);
		return SQLITE_OK;
	}
	if (column < c->columns)
		value = row[column];
	if (value == RTL_UNPACK_NULL)
		sqlite3_result_null(result);
	else
		sqlite3_result_int64(result, value);
	return SQLITE_OK;
}

static int unpack_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
	*out = ((struct cursor *)base)->row;
	return SQLITE_OK;
}

static const sqlite3_module unpack_module = {
	.xConnect = unpack_connect, /* without xCreate the function needs no CREATE VIRTUAL TABLE */
	.xBestIndex = unpack_best_index,
	.xDisconnect = unpack_disconnect,
	.xOpen = unpack_open,
	.xClose = unpack_close,
	.xFilter = unpack_filter,
	.xNext = unpack_next,
	.xEof = unpack_eof,
	.xColumn = unpack_column,
	.xRowid = unpack_rowid,
};

/* SQLite calls this for each new connection. */
static int unpack_register(sqlite3 *db, char **err, const void *api)
{
	(void)err, (void)api;
	return sqlite3_create_module(db, "rtl_unpack", &unpack_module, NULL);
}

int rtl_unpack_install(void)
{
	return sqlite3_auto_extension((void (*)(void))unpack_register);
}

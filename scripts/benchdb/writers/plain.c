/*
 * plain FILE ROWS: writes the benchmark's dispatches into a trace that already has
 * all definitions, in the simplest way: a prepared statement, transactions of half
 * a second. SQLite and its settings are the same as tracedb's. Prints the time from
 * the first row to the synced file, in ns: wall, processor.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "sqlite3-binding.h"

#include "rows.h"

#define CHECK_EVERY 4096      /* rows between reads of the clock */
#define COMMIT_NS 500000000LL /* as tracedb */

static sqlite3 *db;

static void fail(const char *what)
{
	fprintf(stderr, "plain: %s: %s\n", what, sqlite3_errmsg(db));
	exit(1);
}

static void execute(const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail(sql);
}

static sqlite3_stmt *prepare(const char *sql)
{
	sqlite3_stmt *s;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
		fail(sql);
	return s;
}

static void insert(sqlite3_stmt *s)
{
	if (sqlite3_step(s) != SQLITE_DONE)
		fail("insert");
	sqlite3_reset(s);
}

static void open_trace(const char *path)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;

	if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK)
		fail(path);
	execute("PRAGMA locking_mode = EXCLUSIVE");
	execute("PRAGMA journal_mode = TRUNCATE");
	execute("PRAGMA synchronous = OFF");
	execute("PRAGMA temp_store = MEMORY");
	execute("PRAGMA cache_size = -65536");
}

static void write_contexts(void)
{
	sqlite3_stmt *s = prepare("INSERT INTO rtl_context VALUES(?,?,?,?,0)");

	for (uint64_t c = 0; c < ROW_CONTEXTS; c++) {
		sqlite3_bind_int64(s, 1, (sqlite3_int64)c + 1);
		sqlite3_bind_int64(s, 2, (sqlite3_int64)context_queue(c));
		sqlite3_bind_int64(s, 3, (sqlite3_int64)context_launch(c));
		sqlite3_bind_int64(s, 4, (sqlite3_int64)context_thread(c));
		insert(s);
	}
	sqlite3_finalize(s);
}

static void write_dispatches(uint64_t rows)
{
	sqlite3_stmt *s = prepare("INSERT INTO rtl_execution VALUES(NULL,?,?,?,?,?)");
	int64_t begun = wall_ns();

	for (uint64_t n = 0; n < rows; n++) {
		sqlite3_bind_int64(s, 1, (sqlite3_int64)row_context(n) + 1);
		sqlite3_bind_int64(s, 2, (sqlite3_int64)row_index(n));
		sqlite3_bind_int64(s, 3, (sqlite3_int64)row_start_ns(n));
		sqlite3_bind_int64(s, 4, (sqlite3_int64)row_duration_ns(n));
		sqlite3_bind_int64(s, 5, (sqlite3_int64)row_queued_ns(n));
		insert(s);
		if (n % CHECK_EVERY == 0 && wall_ns() - begun >= COMMIT_NS) {
			execute("COMMIT");
			execute("BEGIN");
			begun = wall_ns();
		}
	}
	sqlite3_finalize(s);
}

static void finish(const char *path)
{
	int fd;

	execute("PRAGMA journal_mode = DELETE");
	if (sqlite3_close(db) != SQLITE_OK)
		fail("close");
	if ((fd = open(path, O_RDWR | O_CLOEXEC)) < 0 || fsync(fd) != 0) {
		perror(path);
		exit(1);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	int64_t wall, cpu;

	if (argc != 3) {
		fprintf(stderr, "usage: plain FILE ROWS\n");
		return 2;
	}
	open_trace(argv[1]);
	wall = wall_ns();
	cpu = cpu_ns();
	execute("BEGIN");
	write_contexts();
	write_dispatches(strtoull(argv[2], NULL, 10));
	execute("COMMIT");
	finish(argv[1]);
	print_elapsed(wall, cpu);
	return 0;
}

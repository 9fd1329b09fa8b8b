/*
 * sqlite_abi.h: the few declarations of SQLite's C interface that unpack.c, pack.c
 * and vfs.c need. go-sqlite3 compiles SQLite into this program but offers no header to
 * other packages; SQLite promises that these layouts do not change
 * (sqlite.org/c3ref/module.html, index_info.html).
 */
#ifndef RTL_SQLITE_ABI_H
#define RTL_SQLITE_ABI_H

#define SQLITE_OK 0
#define SQLITE_ERROR 1
#define SQLITE_NOMEM 7
#define SQLITE_CONSTRAINT 19
#define SQLITE_INDEX_CONSTRAINT_EQ 2

typedef long long sqlite3_int64;
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_value sqlite3_value;
typedef struct sqlite3_context sqlite3_context;
typedef struct sqlite3_module sqlite3_module;

typedef struct sqlite3_vtab {
	const sqlite3_module *pModule;
	int nRef;
	char *zErrMsg;
} sqlite3_vtab;

typedef struct sqlite3_vtab_cursor {
	sqlite3_vtab *pVtab;
} sqlite3_vtab_cursor;

typedef struct sqlite3_index_info {
	int nConstraint;
	struct {
		int iColumn;
		unsigned char op;
		unsigned char usable;
		int iTermOffset;
	} *aConstraint;
	int nOrderBy;
	void *aOrderBy;
	struct {
		int argvIndex;
		unsigned char omit;
	} *aConstraintUsage;
	int idxNum;
	char *idxStr;
	int needToFreeIdxStr;
	int orderByConsumed;
	double estimatedCost;
	/* newer fields follow; unpack.c leaves them alone */
} sqlite3_index_info;

/* iVersion 0: SQLite looks no further than xRename. */
struct sqlite3_module {
	int iVersion;
	int (*xCreate)(sqlite3 *, void *, int, const char *const *, sqlite3_vtab **, char **);
	int (*xConnect)(sqlite3 *, void *, int, const char *const *, sqlite3_vtab **, char **);
	int (*xBestIndex)(sqlite3_vtab *, sqlite3_index_info *);
	int (*xDisconnect)(sqlite3_vtab *);
	int (*xDestroy)(sqlite3_vtab *);
	int (*xOpen)(sqlite3_vtab *, sqlite3_vtab_cursor **);
	int (*xClose)(sqlite3_vtab_cursor *);
	int (*xFilter)(sqlite3_vtab_cursor *, int, const char *, int, sqlite3_value **);
	int (*xNext)(sqlite3_vtab_cursor *);
	int (*xEof)(sqlite3_vtab_cursor *);
	int (*xColumn)(sqlite3_vtab_cursor *, sqlite3_context *, int);
	int (*xRowid)(sqlite3_vtab_cursor *, sqlite3_int64 *);
	int (*xUpdate)(sqlite3_vtab *, int, sqlite3_value **, sqlite3_int64 *);
	int (*xBegin)(sqlite3_vtab *);
	int (*xSync)(sqlite3_vtab *);
	int (*xCommit)(sqlite3_vtab *);
	int (*xRollback)(sqlite3_vtab *);
	int (*xFindFunction)(sqlite3_vtab *, int, const char *, void (**)(sqlite3_context *, int, sqlite3_value **), void **);
	int (*xRename)(sqlite3_vtab *, const char *);
};

/* What vfs.c needs (sqlite.org/c3ref/vfs.html, io_methods.html). */
#define SQLITE_OPEN_MAIN_DB 0x00000100
#define SQLITE_IOCAP_UNDELETABLE_WHEN_OPEN 0x00000800

typedef struct sqlite3_file {
	const struct sqlite3_io_methods *pMethods;
} sqlite3_file;

typedef struct sqlite3_io_methods {
	int iVersion;
	int (*xClose)(sqlite3_file *);
	int (*xRead)(sqlite3_file *, void *, int, sqlite3_int64);
	int (*xWrite)(sqlite3_file *, const void *, int, sqlite3_int64);
	int (*xTruncate)(sqlite3_file *, sqlite3_int64);
	int (*xSync)(sqlite3_file *, int);
	int (*xFileSize)(sqlite3_file *, sqlite3_int64 *);
	int (*xLock)(sqlite3_file *, int);
	int (*xUnlock)(sqlite3_file *, int);
	int (*xCheckReservedLock)(sqlite3_file *, int *);
	int (*xFileControl)(sqlite3_file *, int, void *);
	int (*xSectorSize)(sqlite3_file *);
	int (*xDeviceCharacteristics)(sqlite3_file *);
	int (*xShmMap)(sqlite3_file *, int, int, int, void volatile **);
	int (*xShmLock)(sqlite3_file *, int, int, int);
	void (*xShmBarrier)(sqlite3_file *);
	int (*xShmUnmap)(sqlite3_file *, int);
	int (*xFetch)(sqlite3_file *, sqlite3_int64, int, void **);
	int (*xUnfetch)(sqlite3_file *, sqlite3_int64, void *);
} sqlite3_io_methods;

typedef struct sqlite3_vfs {
	int iVersion;
	int szOsFile;
	int mxPathname;
	struct sqlite3_vfs *pNext;
	const char *zName;
	void *pAppData;
	int (*xOpen)(struct sqlite3_vfs *, const char *, sqlite3_file *, int, int *);
	int (*xDelete)(struct sqlite3_vfs *, const char *, int);
	int (*xAccess)(struct sqlite3_vfs *, const char *, int, int *);
	int (*xFullPathname)(struct sqlite3_vfs *, const char *, int, char *);
	void *(*xDlOpen)(struct sqlite3_vfs *, const char *);
	void (*xDlError)(struct sqlite3_vfs *, int, char *);
	void (*(*xDlSym)(struct sqlite3_vfs *, void *, const char *))(void);
	void (*xDlClose)(struct sqlite3_vfs *, void *);
	int (*xRandomness)(struct sqlite3_vfs *, int, char *);
	int (*xSleep)(struct sqlite3_vfs *, int);
	int (*xCurrentTime)(struct sqlite3_vfs *, double *);
	int (*xGetLastError)(struct sqlite3_vfs *, int, char *);
	int (*xCurrentTimeInt64)(struct sqlite3_vfs *, sqlite3_int64 *);
	int (*xSetSystemCall)(struct sqlite3_vfs *, const char *, void (*)(void));
	void (*(*xGetSystemCall)(struct sqlite3_vfs *, const char *))(void);
	const char *(*xNextSystemCall)(struct sqlite3_vfs *, const char *);
} sqlite3_vfs;

sqlite3_vfs *sqlite3_vfs_find(const char *);
int sqlite3_vfs_register(sqlite3_vfs *, int);

/* What pack.c needs (sqlite.org/c3ref/create_function.html). */
#define SQLITE_INTEGER 1
#define SQLITE_BLOB 4
#define SQLITE_NULL 5
#define SQLITE_UTF8 1
#define SQLITE_DETERMINISTIC 0x800
#define SQLITE_DIRECTONLY 0x80000

typedef unsigned long long sqlite3_uint64;

int sqlite3_create_function(sqlite3 *, const char *, int, int, void *,
			    void (*)(sqlite3_context *, int, sqlite3_value **),
			    void (*)(sqlite3_context *, int, sqlite3_value **), void (*)(sqlite3_context *));
void *sqlite3_aggregate_context(sqlite3_context *, int);
void *sqlite3_realloc64(void *, sqlite3_uint64);
int sqlite3_value_type(sqlite3_value *);
sqlite3_int64 sqlite3_value_int64(sqlite3_value *);
#define SQLITE_TRANSIENT ((void (*)(void *)) - 1) /* SQLite copies the bytes */
void sqlite3_result_blob64(sqlite3_context *, const void *, sqlite3_uint64, void (*)(void *));
void sqlite3_result_error(sqlite3_context *, const char *, int);
void sqlite3_result_error_nomem(sqlite3_context *);

int sqlite3_auto_extension(void (*entry)(void));
int sqlite3_create_module(sqlite3 *, const char *, const sqlite3_module *, void *);
int sqlite3_declare_vtab(sqlite3 *, const char *);
void *sqlite3_malloc(int);
void sqlite3_free(void *);
const void *sqlite3_value_blob(sqlite3_value *);
int sqlite3_value_bytes(sqlite3_value *);
int sqlite3_value_int(sqlite3_value *);
void sqlite3_result_int64(sqlite3_context *, sqlite3_int64);
void sqlite3_result_null(sqlite3_context *);

#endif

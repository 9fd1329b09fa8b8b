/*
 * vfs.c: "rtl-writer", the SQLite VFS that the recorder writes with.
 *
 * It is SQLite's default VFS, and in addition claims that an open file cannot be deleted.
 * SQLite then keeps the truncated journal open between transactions, although it releases
 * the lock in between for readers (pager_unlock() in sqlite3.c): after the recorder has
 * dropped its privileges, it may not be permitted to open the journal again.
 */
#include "vfs.h"

#include <pthread.h>
#include <stddef.h>

#include "sqlite_abi.h"

static sqlite3_vfs writer;
static sqlite3_vfs *usual;
static const sqlite3_io_methods *inherited;
static sqlite3_io_methods methods;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int characteristics(sqlite3_file *f)
{
	return inherited->xDeviceCharacteristics(f) | SQLITE_IOCAP_UNDELETABLE_WHEN_OPEN;
}

/* A file with other methods stays as it is. */
static void adopt(sqlite3_file *f)
{
	pthread_mutex_lock(&lock);
	if (!inherited) {
		methods = *f->pMethods;
		methods.xDeviceCharacteristics = characteristics;
		inherited = f->pMethods;
	}
	if (f->pMethods == inherited)
		f->pMethods = &methods;
	pthread_mutex_unlock(&lock);
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	int rc = usual->xOpen(usual, name, f, flags, out_flags);

	(void)vfs;
	if (rc == SQLITE_OK && flags & SQLITE_OPEN_MAIN_DB)
		adopt(f);
	return rc;
}

int rtl_writer_install(void)
{
	usual = sqlite3_vfs_find("unix");
	if (!usual)
		return SQLITE_ERROR;
	writer = *usual;
	writer.zName = "rtl-writer";
	writer.pNext = NULL;
	writer.xOpen = open_file;
	return sqlite3_vfs_register(&writer, 0);
}

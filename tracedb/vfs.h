/* vfs.h: see vfs.c. */
#ifndef RTL_VFS_H
#define RTL_VFS_H

/* Registers "rtl-writer" with SQLite; 0, or SQLite's error. */
int rtl_writer_install(void);

#endif

/* unpack.h: see unpack.c and pack.c. */
#ifndef RTL_UNPACK_H
#define RTL_UNPACK_H

#include <stdint.h>

#define RTL_UNPACK_COLUMNS_MAX 16 /* of integers */
#define RTL_UNPACK_WIDTH_MAX 32   /* values of a row */
#define RTL_UNPACK_NULL INT64_MIN /* NULL in a packed row */

/* Adds rtl_unpack to every SQLite connection opened from now on; 0, or SQLite's error. */
int rtl_unpack_install(void);

/* Does the same for rtl_pack. */
int rtl_pack_install(void);

#endif

/* unpack.h: see unpack.c and pack.c. */
#ifndef RTL_UNPACK_H
#define RTL_UNPACK_H

#include <stdint.h>

#define RTL_UNPACK_WIDTH_MAX 10
#define RTL_UNPACK_NULL INT64_MIN /* stands for NULL in a packed row */

/* Gives every SQLite connection opened from now on the function; 0, or SQLite's error. */
int rtl_unpack_install(void);

/* The same for pack.c. */
int rtl_pack_install(void);

#endif

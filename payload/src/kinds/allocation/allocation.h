/* allocation.h: what the wrappers and the worker's part of the kind share. */
#ifndef RTL_ALLOCATION_H
#define RTL_ALLOCATION_H

/* words of a cell (record/lanes.h) */
enum { ALLOCATION_ADDRESS, ALLOCATION_BYTES, ALLOCATION_POOL };

#endif

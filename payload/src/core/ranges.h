/* ranges.h: the code range of the function that an address lies in. */
#ifndef RTL_RANGES_H
#define RTL_RANGES_H

#include <stdbool.h>

#include "abi.h"

/*
 * False: address is in no executable segment of a loaded object. The range
 * comes from the object's unwind table (.eh_frame_hdr); if that does not cover
 * address, the range is a page from address on, and *exact is false.
 */
bool range_of(const void *address, struct rtl_range *out, bool *exact);

/* The executable segment of the object that address lies in. */
bool text_of(const void *address, struct rtl_range *out);

#endif

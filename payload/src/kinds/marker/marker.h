/* marker.h: how a marker is in a lane's cells: the first words and a part of the text in one cell, the
 * rest of the text in up to three more. */
#ifndef RTL_MARKER_H
#define RTL_MARKER_H

#include <stddef.h>

#include "record/lanes.h"

enum { MARKER_RANGE, MARKER_SIZES, MARKER_TEXT }; /* words of the first cell */

#define MARKER_FIRST_BYTES ((LANE_WORDS - MARKER_TEXT) * sizeof(uint64_t))
#define MARKER_MORE_BYTES (LANE_WORDS * sizeof(uint64_t))

/* Cells for a text. */
static inline uint32_t marker_cells(size_t bytes)
{
	return bytes <= MARKER_FIRST_BYTES ? 1 : 2 + (uint32_t)((bytes - MARKER_FIRST_BYTES - 1) / MARKER_MORE_BYTES);
}

#endif

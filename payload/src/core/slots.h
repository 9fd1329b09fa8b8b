/*
 * slots.h: where the runtime keeps the pointer behind an exported function.
 *
 * Every exported hsa_* function loads a table's address and jumps through one
 * of its slots. The offset is taken from that stub, never from a header: the
 * table's layout differs between runtime versions.
 */
#ifndef RTL_SLOTS_H
#define RTL_SLOTS_H

/* The slot that stub jumps through, or NULL if it has another form. */
void **slot_decode(const void *stub);

#endif

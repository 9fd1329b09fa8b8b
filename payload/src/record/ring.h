/*
 * ring.h: the producing end of the shared ring (abi.h). The worker only.
 *
 * If there is no room, policy "discard" counts the record, and writes a lost record as soon
 * as there is room again. "lossless" keeps records in private memory up to a limit, and does
 * the same beyond it. No application thread ever waits here.
 */
#ifndef RTL_RING_H
#define RTL_RING_H

#include <stdbool.h>

#include "abi.h"
#include "core/env.h"

/* A new ring for this session. 0 or -errno. */
int ring_open(const struct rtl_config *c, uint32_t generation);
/* What the control block says of the ring. */
void ring_describe(uint64_t *size, uint64_t *inode, int *fd);
void ring_close(void);
bool ring_is_open(void);

/*
 * For several sessions of records in one ring (session/periods.h). While no worker runs:
 * ring_keep() says whether the last record of the next end is also the ring's. ring_hold() writes
 * a first record, and holds it and all further ones back; false: there is no room. Then
 * ring_release() shows them, with the first record as it is by then; any thread may call it. Or,
 * when the worker has ended, ring_undo() drops what is held back; otherwise it does nothing.
 */
void ring_keep(bool keep);
bool ring_hold(struct rtl_header *first);
void ring_release(const struct rtl_header *first);
void ring_undo(void);

/* Writes one record of lines * 64 bytes. The caller sets header.type and .lines; this
 * function sets .seq. False: discarded and counted. */
bool ring_put(struct rtl_header *record);

/* The same for a record that others refer to: it may use the last part of the ring, which
 * other records may not. False: neither written nor counted; the caller tries again when
 * the record is needed again. */
bool ring_put_definition(struct rtl_header *record);

/* Writes the last record of the session, after a lost record if one is due. False: there is
 * no room. */
bool ring_put_last(struct rtl_header *record);

/* Makes what was put visible; wakes the collector at the watermark. */
void ring_flush(void);

/* What the recorder has consumed so far. */
uint64_t ring_taken_bytes(void);

/* The last record is written. */
void ring_end(void);

/* Counts records of a kind as lost that were not made because there was no room. */
void ring_lose(uint32_t kind, uint64_t records);

/* Records are being lost, and there is no room for many yet. */
bool ring_is_full(void);

/* Lossless: bytes of records that still wait for room. */
uint64_t ring_waiting_bytes(void);
/* Lossless: ends the wait for room. Definitions go into the last part of the ring as far as
 * there is room; all other records that wait are counted as lost. */
void ring_give_up(void);

#endif

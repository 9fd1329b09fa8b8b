/*
 * ring.h: the producing end of the shared ring (abi.h). The worker only.
 *
 * Where there is no room: policy "discard" counts and says so in band as soon
 * as there is room again; "lossless" keeps records in private memory up to a
 * limit, and past it counts likewise. No application thread ever waits here.
 */
#ifndef RTL_PRODUCER_H
#define RTL_PRODUCER_H

#include <stdbool.h>

#include "abi.h"
#include "core/env.h"

/* A new ring for this session. 0 or -errno. */
int ring_open(const struct rtl_config *c, uint32_t generation);
/* What the control block tells the tool. */
void ring_describe(uint64_t *size, uint64_t *inode, int *fd);
void ring_close(void);

/* One record of lines * 64 bytes; header.type and .lines are set by the
 * caller, .seq here. False: discarded and counted. */
bool ring_put(struct rtl_header *record);

/* The same for a record that others refer to: it may use the last part of the
 * ring, which plain records may not. False: not written, not counted; the
 * caller tries again when it is needed again. */
bool ring_put_definition(struct rtl_header *record);

/* The last record of the session, after what is still to be said of losses. */
bool ring_put_last(struct rtl_header *record);

/* Makes what was put visible; wakes the collector at the watermark. */
void ring_flush(void);

/* What the recorder has consumed so far. */
uint64_t ring_taken_bytes(void);

/* The last record is written. */
void ring_end(void);

/* Records of a kind that were not made, as there would have been no room: counted as lost. */
void ring_lose(uint32_t kind, uint64_t records);

/* Records are being lost, and room for many has not come yet. */
bool ring_is_full(void);

/* Lossless: records that still wait for room. */
uint64_t ring_waiting_bytes(void);
/* Nobody takes them any more: definitions go into the last part of the ring as
 * far as it reaches, the rest is lost and counted. */
void ring_give_up(void);

#endif

/* emit.h: records that belong to no kind. The worker only; names.h and launches.h have
 * those of kernels. */
#ifndef RTL_EMIT_H
#define RTL_EMIT_H

#include <stdbool.h>
#include <stdint.h>

/* Arming: strings are numbered from 1 again. */
void emit_reset(void);
/* Writes a string, and returns its id; 0: there is no room for it. A text that was written
 * before gets another id. */
uint32_t string_id(const char *text, uint32_t len);
/* The record of an agent (index into agents + 1), once in a session. False: there is no
 * room for it now. */
bool emit_agent(uint32_t number);
/* The account of a kind that is recorded. False: there is no room for it now. */
bool emit_account(uint32_t kind);
/* The counters at the end of a window of a schedule, from index at on. False: there is no room
 * for the next ones now. */
bool emit_counters(uint32_t *at);
/* The session's last record. False: there is no room for it now. */
bool emit_end(uint32_t why, uint64_t armed_ns, uint64_t detached_ns);

#endif

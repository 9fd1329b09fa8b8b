/*
 * session_end.h: the end of a session's records. The worker's last round is over:
 * items without an outcome are counted as lost; then the last records of each window and of
 * the session are written, with a longer wait for a recorder that is late.
 */
#ifndef RTL_SESSION_END_H
#define RTL_SESSION_END_H

#include <stdbool.h>
#include <stdint.h>

struct session_end {
	uint32_t why; /* enum rtl_end */
	uint64_t armed_ns, detached_ns;
};

/* Counts items without an outcome as lost: a wrapper has taken the outcome and sleeps before
 * it pushes the event, or the worker has not taken the event. */
void session_end_count(void);

void session_end_write(const struct session_end *end);

/* For struct kind's write_last(), when there is no room for a record. True: try again; false:
 * the recorder is too late, and the record is counted as lost. */
struct patience;
bool session_end_wait(struct patience *p);

/* What session_end_write() takes at most. */
uint64_t session_end_most_ns(uint32_t why);

#endif

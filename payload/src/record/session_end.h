/*
 * session_end.h: the end of a session's records. The worker's last round is over:
 * what is still owed is counted as lost, then every window and the session get their
 * end, with patience for a recorder that is late.
 */
#ifndef RTL_SESSION_END_H
#define RTL_SESSION_END_H

#include <stdbool.h>
#include <stdint.h>

struct session_end {
	uint32_t why; /* enum rtl_end */
	uint64_t armed_ns, detached_ns;
};

/* Counts as lost what has no outcome: items that wrappers have taken and sleep with over
 * the session's end, and events that nobody has taken. */
void session_end_count(void);

void session_end_write(const struct session_end *end);

/* For struct kind's write_last(): there is no room for a record. True: try again; false:
 * the recorder is late for too long, and the record is counted as lost. */
struct patience;
bool session_end_wait(struct patience *p);

/* What session_end_write() takes at most. */
uint64_t session_end_most_ns(uint32_t why);

#endif

/*
 * last_words.h: the end of a session's records. The worker's last round is over:
 * what is still owed is counted as lost, then every window and the session get their
 * end, with patience for a recorder that is late.
 */
#ifndef RTL_LAST_WORDS_H
#define RTL_LAST_WORDS_H

#include <stdint.h>

struct session_end {
	uint32_t why; /* enum rtl_end */
	uint64_t armed_ns, detached_ns;
};

/* What wrappers have taken and sleep with over the session's end: outstanding
 * dispatches, and copies. */
void last_words_count(uint64_t outstanding);

void last_words_write(const struct session_end *end);

/* What last_words_write() takes at most. */
uint64_t last_words_most_ns(uint32_t why);

#endif

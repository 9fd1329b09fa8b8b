/* marker_abi.h: the records of ROCTx markers and ranges. */
#ifndef RTL_MARKER_ABI_H
#define RTL_MARKER_ABI_H

#include "abi.h"

enum {
	RTL_TYPE_MARKER = RTL_KIND_TYPE(RTL_KIND_MARKER, 0),
	RTL_TYPE_MARKER_COVERAGE = RTL_KIND_TYPE(RTL_KIND_MARKER, 1),
};

/* As ROCTx numbers its operations. */
enum rtl_marker_operation {
	RTL_MARKER_MARK = 0,  /* roctxMark: a moment */
	RTL_MARKER_PUSH = 1,  /* roctxRangePush: begins a range, inside the thread's last one */
	RTL_MARKER_POP = 2,   /* roctxRangePop: ends the thread's last one */
	RTL_MARKER_START = 3, /* roctxRangeStart: begins a range that any thread may end */
	RTL_MARKER_STOP = 4,  /* roctxRangeStop */
	RTL_MARKER_OPERATIONS = 5,
};

#define RTL_MARKER_TEXT_MAX 255 /* bytes of a message that are kept */

/* The text follows the fixed part, over as many lines as it needs, no NUL. */
struct rtl_marker {
	struct rtl_header header;
	uint64_t time_ns;
	uint64_t range;     /* START, STOP: the range's number in the process */
	uint32_t tid;       /* calling thread, in the target's pid namespace; 0: not known */
	uint16_t operation; /* enum rtl_marker_operation */
	uint16_t text_bytes;/* PUSH, MARK, START: of the message stored here */
	uint32_t text_cut;  /* 1: the message is longer */
	uint32_t losses;    /* if it differs from the thread's last record, records of the thread may be missing between */
	char text[24];
};

/* By which libraries markers come: when a session begins, when that changes, and at the end. */
struct rtl_marker_coverage {
	struct rtl_header header;
	uint32_t roctx64;    /* enum rtl_marker_way, of libroctx64 */
	uint32_t sdk;        /* the same of librocprofiler-sdk-roctx */
	uint32_t reserved[12];
};

enum rtl_marker_way {
	RTL_MARKER_WAY_NOT_LOADED = 0,
	RTL_MARKER_WAY_RECORDED = 1,
	RTL_MARKER_WAY_CHAINED = 2, /* recorded, and another tool's callback gets them, too */
	RTL_MARKER_WAY_TAKEN = 3,   /* not recorded: another tool has put itself above ours */
	RTL_MARKER_WAY_UNKNOWN = 4, /* not recorded: the library has another form */
	RTL_MARKER_WAY_LATE = 5,    /* not recorded: the process has loaded the library during the session */
	RTL_MARKER_WAY_COUNT = 6,
};

RTL_ONE_LINE(struct rtl_marker);
RTL_ONE_LINE(struct rtl_marker_coverage);

#endif

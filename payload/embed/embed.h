/*
 * embed.h: what the files of librtl share (docs/decisions/0030-a-library-is-a-recorder-in-the-process.md).
 *
 * The library has the payload, unchanged, and a recorder in the same process: it does what the tool does
 * from outside. It holds the recorder's lock in the control block, beats, reads the ring.
 *
 *   ring ─ recorder.c (one thread) ─ decode.c ─┬─ callbacks.c   a callback for each kind
 *                                              └─ buffers.c     batches, on other threads
 *
 * Locks, in this order: the lifecycle's (api.c), the recorder's (recorder.c), that of all buffers (buffers.c),
 * that of retired callbacks (callbacks.c). No lock but the lifecycle's is held while a callback runs.
 *
 * All functions of these files are in a section of their own: an arming does not wait for threads that are in it.
 * So threads wait here by pthread functions, not by those of core/.
 */
#ifndef RTL_EMBED_H
#define RTL_EMBED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rtl/rtl.h"

#define EXPORT __attribute__((visibility("default")))

#define KINDS_OF_ITEMS RTL_ALL_KINDS
#define KINDS_OF_SESSIONS (RTL_BIT(RTL_RECORD_LOST) | RTL_BIT(RTL_RECORD_SESSION_END))
#define SYSTEM_LIMIT_NS 1000000000ull /* the waits at exit */

/* ---- sync.c: condition variables by the monotonic clock */

struct condition {
	pthread_cond_t cond;
};
/* Waits until a signal or a deadline (now_monotonic()); false: the deadline has passed. */
bool condition_wait(struct condition *c, pthread_mutex_t *m, uint64_t until_ns);
void condition_init(struct condition *c);
uint64_t deadline_after_ms(uint32_t ms);
/* A thread with the default stack and with all signals blocked. 0 or -errno. */
int embed_thread_start(pthread_t *out, void *(*run)(void *), void *data);
void embed_thread_join(pthread_t t);

/* ---- invoke.cpp: calls of the application's functions. false: it has thrown. */

bool invoke_record(rtl_callback_t f, const rtl_record_t *r, void *user);
bool invoke_batch(rtl_batch_callback_t f, rtl_buffer_t b, const rtl_record_t *first, size_t count, uint64_t dropped, void *user);
bool invoke_release(rtl_release_t f, void *user);

/* ---- callbacks.c */

/* Calls the callback of a record's kind, if there is one. The recorder's thread only. */
void callbacks_call(const rtl_record_t *r);
/* RTL_BIT() of the kinds that have one. */
uint32_t callbacks_kinds(void);
/* Takes all away and releases them; no thread calls callbacks. */
void callbacks_clear(void);

/* This thread runs a function of the application. */
bool is_inside_callback(void);
/* Before and after: counts an exception. */
void callback_begin(void);
void callback_end(bool returned);
uint64_t callback_exceptions(void);

/* At exit: no callback begins any more. */
extern _Atomic uint32_t muted;
/* Waits for the one that runs, up to a deadline. */
void callbacks_await_idle(uint64_t until_ns);

/* ---- buffers.c, buffer_life.c (see buffers.h) */

uint32_t buffers_kinds(void);
/* The recorder's thread only. beat is called while it waits for room in a lossless buffer. */
void buffers_put(const rtl_record_t *r, void (*beat)(void));
/* Makes all due, and waits for the callbacks. False: not in time. */
bool buffers_flush(uint64_t until_ns);
/* A session is about to end: a lossless buffer that nobody reads is not waited for any more. */
void buffers_set_ending(bool ending);
/* Destroys all buffers and ends the threads. */
void buffers_clear(void);
/* At exit: waits for running batches, up to the deadline. */
void buffers_await_idle(uint64_t until_ns);
uint64_t buffers_dropped(void);

/* ---- decode.c: from the ring's records to those of rtl.h. The recorder's thread only. */

struct rtl_header;
/* The outcome of one record of the ring. */
enum decoded { DECODED_NOTHING, DECODED_RECORD, DECODED_LAST, DECODED_UNKNOWN };
/* Room for the longest record with its text. */
union any_record {
	rtl_record_t record;
	rtl_dispatch_record_t dispatch;
	rtl_copy_record_t copy;
	rtl_call_record_t call;
	rtl_allocation_record_t allocation;
	rtl_scratch_record_t scratch;
	rtl_marker_record_t marker;
	rtl_lost_record_t lost;
	rtl_session_end_record_t end;
};
/* Remembers a definition, or makes a record. */
enum decoded decode(const struct rtl_header *h, union any_record *out);
/* A session begins: ids begin again. 0 or -ENOMEM. */
int decode_begin(void);
/* When no record is in any buffer: frees the strings. */
void decode_release(void);

/* ---- strings.c */

/* A copy that lives until strings_release(), one for each text; "" without memory. */
const char *strings_intern(const char *text, uint32_t len);
void strings_release(void);

/* ---- others.c: other payloads in this process */

/* Takes the recorder's lock of a control block. 0; -EBUSY: another recorder holds it. */
struct rtl_control;
int lock_recorder(struct rtl_control *c, uint64_t *owner);
void unlock_recorder(struct rtl_control *c, uint64_t owner);
/* The same for the control blocks of all other payloads that are resident here. A payload without a session has
 * nothing in the runtime's tables, and gets none while its lock is held. */
int lock_others(void);
void unlock_others(void);

/* ---- recorder.c */

/* Starts the thread and the session. 0 or -errno. With the lifecycle's lock, as the next two. */
int recorder_start(const rtl_options_t *o);
/* Ends the session and the thread. -EBUSY: the payload could not end its session now; the thread goes on. */
int recorder_stop(void);
/* After -EBUSY: ends the thread all the same. */
void recorder_abandon(void);
/* The thread has ended by itself, or there is none. */
bool recorder_is_idle(void);
/* Waits until everything that was complete is delivered. 0, -ETIMEDOUT. */
int recorder_flush(uint64_t until_ns);
/* At exit, in bounded time. */
void recorder_exit(uint64_t until_ns);
void recorder_stats(rtl_stats_t *out);

/* ---- api.c */

/* Keeps the text of an error; returns err. */
int embed_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool is_forked_child(void);
/* The control block exists: a child that is forked from now on is not recorded. */
void note_process(void);

#endif

/* wrap_destroy.c: the ends of signals, queues, executables and of the runtime. */
#include "core/session_flags.h"
#include "kinds/dispatch/publish.h"
#include "record/launches.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "signals/signal_hooks.h"
#include "signals/signals.h"
#include "wrappers.h"

#define CATCH_UP_NS (100 * NS_PER_MS)

hsa_status_t wrap_signal_destroy(hsa_signal_t signal)
{
	if (tracking() && signal.handle && !signal_before_destroy(signal.handle))
		return HSA_STATUS_SUCCESS; /* one signal too many, rather than one that the worker reads when it is gone */
	return NEXT(signal_hooks[SIGNAL_DESTROY], hsa_status_t (*)(hsa_signal_t))(signal);
}

/* An agent's cooperative queue is the only one: others may use it still, or nobody
 * does, and the runtime frees it. Whoever looks at its ring with the lock finds one
 * or the other. */
static hsa_status_t leave_shared(struct queue *s, hsa_queue_t *q, hsa_status_t (*next)(hsa_queue_t *))
{
	bool held = queue_lock_to_destroy(s);

	if (held)
		queue_close(s);
	atomic_store_explicit(&s->released, 1, memory_order_relaxed);
	hsa_status_t status = next(q);
	if (held) {
		queue_unlock(s);
		queue_drain_pend(s);
	}
	return status;
}

static void leave(struct queue *s)
{
	/* Not: this thread itself holds it, below a signal handler, or one that sleeps. */
	bool held = queue_lock_to_destroy(s);

	if (held)
		queue_close(s);
	queue_forget(s);
	if (held)
		queue_unlock(s);
	else
		queue_await_ours(s); /* one that has come since, and has not seen that */
}

hsa_status_t wrap_queue_destroy(hsa_queue_t *q)
{
	hsa_status_t (*next)(hsa_queue_t *) = NEXT(signal_hooks[QUEUE_DESTROY], hsa_status_t (*)(hsa_queue_t *));
	struct queue *s = tracking() && q ? queue_find(q) : NULL;

	if (!s || s->hsa_id != q->id)
		return next(q);
	if (q->type == HSA_QUEUE_TYPE_COOPERATIVE)
		return leave_shared(s, q, next);
	leave(s);
	hsa_status_t status = next(q);
	if (status == HSA_STATUS_SUCCESS) /* else its kernels may go on */
		atomic_store_explicit(&s->destroyed, 1, memory_order_release);
	return status;
}

hsa_status_t wrap_executable_destroy(hsa_executable_t executable)
{
	hsa_status_t (*next)(hsa_executable_t) = NEXT(signal_hooks[EXECUTABLE_DESTROY], hsa_status_t (*)(hsa_executable_t));

	if (!tracking())
		return next(executable);
	worker_round(CATCH_UP_NS); /* names everything published so far */
	bool held = launches_destroy_begin(executable);
	hsa_status_t status = next(executable);
	launches_destroy_end(held);
	return status;
}

/* Not the last reference, perhaps: the tool sees why the session ended and
 * attaches anew if the runtime is still there. */
hsa_status_t wrap_shut_down(void)
{
	atomic_fetch_add(&runtime_shutting_down, 1); /* first: no session begins between our end and the runtime's */
	if (tracking())
		session_end_now(RTL_END_SHUT_DOWN);
	hsa_status_t status = NEXT(signal_hooks[SHUT_DOWN], hsa_status_t (*)(void))();
	atomic_fetch_sub(&runtime_shutting_down, 1);
	return status;
}

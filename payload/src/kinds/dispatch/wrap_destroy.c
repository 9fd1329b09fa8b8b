/* wrap_destroy.c: hsa_queue_destroy. */
#include "core/session_flags.h"
#include "core/shared_hooks.h"
#include "kinds/dispatch/publish.h"
#include "wrappers.h"

/* An agent has one cooperative queue for all its users: others may still use it, or this was
 * the last one, and the runtime frees it. A thread that looks at its ring with the lock must
 * expect both. */
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
	/* False: this thread holds it, below a signal handler, or a thread that sleeps. */
	bool held = queue_lock_to_destroy(s);

	if (held)
		queue_close(s);
	queue_forget(s);
	if (held)
		queue_unlock(s);
	else
		queue_await_ours(s); /* a thread of ours that has entered since, and has not seen WORD_DEAD */
}

hsa_status_t wrap_queue_destroy(hsa_queue_t *q)
{
	hsa_status_t (*next)(hsa_queue_t *) = NEXT(shared_hooks[QUEUE_DESTROY], hsa_status_t (*)(hsa_queue_t *));
	struct queue *s = tracking() && q ? queue_find(q) : NULL;

	if (!s || s->hsa_id != q->id)
		return next(q);
	if (q->type == HSA_QUEUE_TYPE_COOPERATIVE)
		return leave_shared(s, q, next);
	leave(s);
	hsa_status_t status = next(q);
	if (status == HSA_STATUS_SUCCESS) /* else its kernels may still run */
		atomic_store_explicit(&s->destroyed, 1, memory_order_release);
	return status;
}

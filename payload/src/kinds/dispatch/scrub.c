/* scrub.c: our signals are removed from packets that the hardware has consumed. */
#include <errno.h>

#include "kinds/dispatch/pool.h"
#include "kinds/dispatch/publish.h"

/* A seccomp filter may refuse the question: then it is there unless it may be freed. */
static bool is_there(const volatile void *address, bool may_be_freed)
{
	uint64_t there;
	long n = read_memory((uint64_t)address, &there, sizeof there);

	return n == sizeof there || (n != -EFAULT && !may_be_freed);
}

bool queue_is_gone(struct queue *s)
{
	bool may_be_freed = atomic_load_explicit(&s->released, memory_order_relaxed);

	return !is_there(s->ring, may_be_freed) || !is_there(s->write_index, may_be_freed);
}

/* Whether the packet that follows the last one of ours in this slot has been claimed, and
 * perhaps completed: it may have the signal that was there. */
static bool may_be_used_again(struct queue *s, uint64_t slot)
{
	uint64_t published = atomic_load_explicit(&s->scan, memory_order_relaxed);
	uint64_t next = published + ((slot - published) & s->mask);

	return __atomic_load_n(s->write_index, __ATOMIC_SEQ_CST) > next &&
	       (queue_read_index(s) > next || packet_type(&s->ring[slot]) != HSA_PACKET_TYPE_INVALID);
}

/* Takes our signal of an earlier lap from a slot that is consumed, where a producer may
 * be writing the next packet: either value is one that it may find. The load before: an
 * exchange that fails is a write, too, and what has taken a freed ring's place may be
 * read-only. seq_cst, with the load of the write index behind it: the producer claims
 * the slot and then publishes what is in it; we take ours out and then look for a claim.
 * Whoever claims after that look publishes the slot without it. */
static void scrub_slot(struct queue *s, uint64_t slot)
{
	hsa_kernel_dispatch_packet_t *p = &s->ring[slot];
	uint64_t ours = s->placed[slot], there = ours;

	if (!ours || __atomic_load_n(&p->completion_signal.handle, __ATOMIC_RELAXED) != ours)
		return;
	if (packet_type(p) == HSA_PACKET_TYPE_INVALID)
		__atomic_compare_exchange_n(&p->completion_signal.handle, &there, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	if (may_be_used_again(s, slot))
		pool_leak(ours);
}

#define SLOTS_PER_PAGE (RTL_PAGE / sizeof(hsa_kernel_dispatch_packet_t))

void queue_scrub_signals(struct queue *s)
{
	if (queue_is_gone(s))
		return;
	bool may_be_freed = atomic_load_explicit(&s->released, memory_order_relaxed);

	for (uint64_t slot = 0; slot < s->size; slot++) {
		if (UNLIKELY(may_be_freed) && slot % SLOTS_PER_PAGE == 0 && !is_there(&s->ring[slot], true))
			slot += SLOTS_PER_PAGE - 1; /* others have part of its place */
		else
			scrub_slot(s, slot);
	}
}

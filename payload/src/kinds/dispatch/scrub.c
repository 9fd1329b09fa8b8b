/* scrub.c: our signals are removed from packets that the hardware has consumed. */
#include <errno.h>

#include "kinds/dispatch/pool.h"
#include "kinds/dispatch/publish.h"
#include "kinds/dispatch/real_index.h"

/* Whether an address is mapped. A seccomp filter may refuse the system call: then it counts as
 * mapped, unless it may be freed. */
static bool is_mapped(const volatile void *address, bool may_be_freed)
{
	long n = probe_memory(address);

	return !n || (n != -EFAULT && !may_be_freed);
}

/* The kernel copies no pages of a device. If a seccomp filter refuses the question, the ring may
 * be a device's. */
enum ring_kind queue_note_ring(struct queue *s)
{
	enum ring_kind kind = atomic_load_explicit(&s->ring_kind, memory_order_relaxed);
	uint64_t word;

	if (kind == RING_UNKNOWN) {
		kind = read_memory((uint64_t)s->ring, &word, sizeof word) == sizeof word ? RING_OF_HOST : RING_OF_DEVICE;
		atomic_store_explicit(&s->ring_kind, kind, memory_order_relaxed);
	}
	return kind;
}

bool queue_is_gone(struct queue *s)
{
	bool may_be_freed = atomic_load_explicit(&s->released, memory_order_relaxed);

	return !is_mapped(s->ring, may_be_freed) || !is_mapped(s->write_index, may_be_freed);
}

/* Whether the packet that follows the last one of ours in this slot has been claimed, and
 * perhaps completed: it may have the signal that was there. */
static bool may_be_used_again(struct queue *s, uint64_t slot)
{
	uint64_t next = queue_packet_after(s, slot);

	return real_index_load(s) > next &&
	       (queue_read_index(s) > next || packet_type(&s->ring[slot]) != HSA_PACKET_TYPE_INVALID);
}

/* Removes our signal of an earlier lap from a consumed slot, into which a producer may be
 * writing the next packet; the producer may find either value. The load comes first because a
 * failed exchange is a write, too, and the memory of a freed ring may be mapped read-only by
 * now. seq_cst, with the load of the write index that follows: a producer claims the slot and
 * then publishes what is in it; this thread removes the signal and then looks for a claim. A
 * producer that claims after that look publishes the slot without the signal. */
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

/* Nobody else writes the slot: the hardware has consumed its packet, and it is not claimed again.
 * seq_cst: see queue.scrubbing. */
static bool is_free(struct queue *s, uint64_t slot)
{
	uint64_t word = atomic_load_explicit(&s->word, memory_order_seq_cst), next = queue_packet_after(s, slot);

	return word & WORD_VIRT && (word & WORD_INDEX) <= next && queue_read_index(s) + s->size > next;
}

/* Without a locked instruction. Claims of a raw queue cannot be seen, so that its slots are left
 * as they are. */
static void scrub_devices_slot(struct queue *s, uint64_t slot)
{
	uint64_t ours = s->placed[slot], *there = &s->ring[slot].completion_signal.handle;

	if (!ours)
		return;
	if (!(atomic_load_explicit(&s->word, memory_order_relaxed) & WORD_VIRT)) {
		if (__atomic_load_n(there, __ATOMIC_RELAXED) == ours)
			pool_leak(ours);
		return;
	}
	atomic_store_explicit(&s->scrubbing, (uint32_t)slot + 1, memory_order_seq_cst);
	if (is_free(s, slot)) {
		__atomic_store_n(there, 0, __ATOMIC_RELAXED);
		s->placed[slot] = 0;
		store_fence();
	}
	atomic_store_explicit(&s->scrubbing, 0, memory_order_release);
}

#define SLOTS_PER_PAGE (RTL_PAGE / sizeof(hsa_kernel_dispatch_packet_t))

void queue_scrub_signals(struct queue *s)
{
	if (queue_is_gone(s))
		return;
	bool may_be_freed = atomic_load_explicit(&s->released, memory_order_relaxed);
	bool of_device = queue_note_ring(s) == RING_OF_DEVICE;

	for (uint64_t slot = 0; slot < s->size; slot++) {
		if (UNLIKELY(may_be_freed) && slot % SLOTS_PER_PAGE == 0 && !is_mapped(&s->ring[slot], true))
			slot += SLOTS_PER_PAGE - 1; /* a part of the ring is unmapped, or is something else now */
		else if (of_device)
			scrub_devices_slot(s, slot);
		else
			scrub_slot(s, slot);
	}
}

/* real_index.c: see real_index.h. */
#include "kinds/dispatch/real_index.h"

#include "core/ranges.h"
#include "core/runtime.h"
#include "kinds/dispatch/hooks.h"

typedef uint64_t (*load_fn)(const hsa_queue_t *);
typedef void (*store_fn)(const hsa_queue_t *, uint64_t);
typedef uint64_t (*cas_fn)(const hsa_queue_t *, uint64_t, uint64_t);

static struct rtl_range runtime_text; /* empty: not known */
static _Atomic uint32_t is_others;    /* another tool's functions are behind our hooks */

void real_index_prepare(void)
{
	if (!text_of((const void *)rt.init, &runtime_text))
		runtime_text = (struct rtl_range){0};
}

static bool is_runtimes(uintptr_t function)
{
	return function >= runtime_text.lo && function < runtime_text.hi;
}

void real_index_choose(void)
{
	bool others = false;

	for (int i = 0; i < DISPATCH_HOOKS; i++)
		others |= runtime_text.hi && !is_runtimes(atomic_load(&dispatch_hooks[i].next));
	atomic_store(&is_others, others);
}

static bool goes_through_others(void)
{
	return UNLIKELY(atomic_load_explicit(&is_others, memory_order_relaxed)); /* constant while queues are virtual */
}

static const hsa_queue_t *queue_of(const struct queue *s)
{
	return (const hsa_queue_t *)s->address;
}

uint64_t real_index_load(const struct queue *s)
{
	if (goes_through_others())
		return NEXT(dispatch_hooks[INDEX_LOAD_SCACQUIRE], load_fn)(queue_of(s));
	return __atomic_load_n(s->write_index, __ATOMIC_SEQ_CST);
}

void real_index_store(struct queue *s, uint64_t to)
{
	if (goes_through_others())
		NEXT(dispatch_hooks[INDEX_STORE_SCRELEASE], store_fn)(queue_of(s), to);
	else
		__atomic_store_n(s->write_index, to, __ATOMIC_RELEASE);
}

void real_index_move(struct queue *s, uint64_t from, uint64_t to)
{
	if (goes_through_others())
		NEXT(dispatch_hooks[INDEX_CAS_SCACQ_SCREL], cas_fn)(queue_of(s), from, to);
	else
		__atomic_compare_exchange_n(s->write_index, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/*
 * callbacks.c: the callback of each kind.
 *
 * A function and its user data are one pair, which does not change once it is published. One thread calls
 * them, the recorder's. It says in in_use which pair it is about to use, and then looks whether that is
 * still the kind's: a pair that was replaced and is not in in_use is used by nobody (M. Michael, "Hazard
 * pointers", 2004). seq_cst: either the caller sees the new pair, or reclaim() sees the old one in in_use.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/sys.h"
#include "embed.h"

struct pair {
	rtl_callback_t callback;
	void *user;
	rtl_release_t release;
	struct pair *next; /* of retired pairs */
};

static struct pair *_Atomic pairs[RTL_RECORD_KINDS];
static struct pair *_Atomic in_use;

static pthread_mutex_t retiring = PTHREAD_MUTEX_INITIALIZER;
static struct pair *retired;
static _Atomic bool any_retired;

static _Atomic uint64_t exceptions;
static __thread uint32_t depth; /* functions of the application below the current one */
_Atomic uint32_t muted;

bool is_inside_callback(void)
{
	return depth != 0;
}

void callback_begin(void)
{
	depth++;
}

void callback_end(bool returned)
{
	depth--;
	if (!returned)
		atomic_fetch_add_explicit(&exceptions, 1, memory_order_relaxed);
}

uint64_t callback_exceptions(void)
{
	return atomic_load_explicit(&exceptions, memory_order_relaxed);
}

static void release(struct pair *p)
{
	if (p->release) {
		callback_begin();
		callback_end(invoke_release(p->release, p->user));
	}
	free(p);
}

/* Takes the pairs that nobody uses out of the list. */
static struct pair *take_unused(void)
{
	struct pair *unused = NULL, **at = &retired;

	pthread_mutex_lock(&retiring);
	while (*at) {
		struct pair *p = *at;

		if (p == atomic_load(&in_use)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		p->next = unused;
		unused = p;
	}
	atomic_store(&any_retired, retired != NULL);
	pthread_mutex_unlock(&retiring);
	return unused;
}

static void reclaim(void)
{
	for (struct pair *p = take_unused(), *next; p; p = next) {
		next = p->next;
		release(p);
	}
}

static void retire(struct pair *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&retiring);
	p->next = retired;
	retired = p;
	atomic_store(&any_retired, true);
	pthread_mutex_unlock(&retiring);
	reclaim();
}

EXPORT int rtl_set_callback(uint32_t kind, rtl_callback_t callback, void *user, rtl_release_t released)
{
	if (is_forked_child())
		return -ECHILD;
	if (kind >= RTL_RECORD_KINDS || !(RTL_BIT(kind) & (KINDS_OF_ITEMS | KINDS_OF_SESSIONS)))
		return -EINVAL;
	struct pair *p = callback ? malloc(sizeof *p) : NULL;
	if (callback && !p)
		return -ENOMEM;
	if (p)
		*p = (struct pair){.callback = callback, .user = user, .release = released};
	retire(atomic_exchange(&pairs[kind], p));
	return 0;
}

/* The kind's pair, in in_use; NULL: it has none. */
static struct pair *use(uint32_t kind)
{
	struct pair *p = atomic_load(&pairs[kind]), *now;

	for (; p; p = now) {
		atomic_store(&in_use, p);
		now = atomic_load(&pairs[kind]);
		if (now == p)
			return p;
	}
	atomic_store(&in_use, NULL);
	return NULL;
}

void callbacks_call(const rtl_record_t *r)
{
	if (!atomic_load_explicit(&pairs[r->kind], memory_order_relaxed))
		return;
	struct pair *p = use(r->kind);
	if (!p)
		return;
	if (!atomic_load(&muted)) { /* after in_use was stored: recorder_exit() waits for a call that it does not stop */
		callback_begin();
		callback_end(invoke_record(p->callback, r, p->user));
	}
	atomic_store(&in_use, NULL);
	if (atomic_load_explicit(&any_retired, memory_order_relaxed))
		reclaim();
}

uint32_t callbacks_kinds(void)
{
	uint32_t kinds = 0;

	for (uint32_t kind = 0; kind < RTL_RECORD_KINDS; kind++)
		if (atomic_load(&pairs[kind]))
			kinds |= RTL_BIT(kind);
	return kinds;
}

void callbacks_clear(void)
{
	for (uint32_t kind = 0; kind < RTL_RECORD_KINDS; kind++)
		retire(atomic_exchange(&pairs[kind], NULL));
}

void callbacks_await_idle(uint64_t until_ns)
{
	while (atomic_load(&in_use) && now_monotonic() < until_ns)
		sys_sleep_ns(NS_PER_MS);
}

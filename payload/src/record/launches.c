#include "record/launches.h"

#include <errno.h>
#include <string.h>

#include "core/session_flags.h"
#include "record/names.h"
#include "record/ring.h"

#define LAUNCHES (1u << 16) /* power of two; above three quarters the table is emptied */
#define LAUNCHES_MAX (LAUNCHES / 4 * 3)

struct launch {
	uint64_t kernel_object; /* a thread that destroys an executable writes KERNEL_GONE */
	uint32_t grid[3];
	uint16_t workgroup[3];
	uint16_t used;
	uint32_t group_segment_bytes, private_segment_bytes;
	uint32_t id;
	uint32_t agent;
};

static struct launch *launches;
static uint32_t launch_count;
static uint32_t next_launch; /* id */

int launches_init(void)
{
	if (!launches)
		launches = map_memory(LAUNCHES * sizeof *launches);
	return launches ? names_init() : -ENOMEM;
}

static void forget_launches(void)
{
	clear_memory(launches, LAUNCHES * sizeof *launches);
	launch_count = 0;
}

void launches_reset(void)
{
	forget_launches();
	next_launch = 1;
	names_reset();
}

void launches_release(void)
{
	if (!names_try_lock())
		return; /* a thread that destroys an executable reads the tables */
	launches_reset();
	names_unlock();
}

static bool same(const struct launch *l, const struct kernel_call *c)
{
	/* relaxed: a thread may write KERNEL_GONE meanwhile; the application dispatches no
	 * kernel that it is destroying */
	return __atomic_load_n(&l->kernel_object, __ATOMIC_RELAXED) == c->kernel_object && !memcmp(l->grid, c->grid, sizeof l->grid) &&
	       !memcmp(l->workgroup, c->workgroup, sizeof l->workgroup) && l->group_segment_bytes == c->group_segment_bytes &&
	       l->private_segment_bytes == c->private_segment_bytes;
}

static uint32_t hash(const struct kernel_call *c)
{
	uint64_t h = (c->kernel_object >> 6) * 0x9E3779B97F4A7C15ull;

	h = (h ^ c->grid[0] ^ (uint64_t)c->grid[1] << 32) * 0x9E3779B97F4A7C15ull;
	h = (h ^ c->grid[2] ^ (uint64_t)c->workgroup[0] << 32 ^ (uint64_t)c->workgroup[1] << 48) * 0x9E3779B97F4A7C15ull;
	return (uint32_t)(h >> 40);
}

/* The launch of c, or the free place for it. */
static struct launch *place_of(const struct kernel_call *c)
{
	for (uint32_t i = hash(c);; i++) {
		struct launch *l = &launches[i & (LAUNCHES - 1)];

		if (!l->used || LIKELY(same(l, c)))
			return l;
	}
}

static void fill(struct launch *l, const struct kernel_call *c, uint32_t agent)
{
	memcpy(l->grid, c->grid, sizeof l->grid);
	memcpy(l->workgroup, c->workgroup, sizeof l->workgroup);
	l->group_segment_bytes = c->group_segment_bytes;
	l->private_segment_bytes = c->private_segment_bytes;
	l->id = next_launch;
	l->agent = agent;
	l->used = 1;
	__atomic_store_n(&l->kernel_object, c->kernel_object, __ATOMIC_RELAXED); /* see same() */
}

/* With the lock of names.h. Where there is no room in the ring, l stays free. */
static void emit_launch(struct launch *l, const struct kernel_call *c)
{
	struct kernel_name name = names_look_up(c->kernel_object);
	struct rtl_launch r = {
		.header = {.type = RTL_TYPE_LAUNCH, .lines = 1},
		.id = next_launch,
		.name = name.id,
		.grid = {c->grid[0], c->grid[1], c->grid[2]},
		.workgroup = {c->workgroup[0], c->workgroup[1], c->workgroup[2]},
		.group_segment_bytes = c->group_segment_bytes,
		.private_segment_bytes = c->private_segment_bytes,
		.kernel_object = c->kernel_object,
		.agent = name.agent,
	};

	if (name.not_now || !ring_put_definition(&r.header))
		return;
	if (!name.id)
		TALLY(names_unresolved);
	fill(l, c, name.agent);
	launch_count++;
	next_launch++;
}

/* An executable was destroyed without the lock, and others may have been loaded at its
 * addresses. False: that destruction still goes on. */
static bool refresh(void)
{
	if (!names_lock())
		return false;
	names_forget();
	forget_launches();
	names_unlock();
	return names_settle();
}

uint32_t launch_id(const struct kernel_call *call, uint32_t *agent)
{
	if (UNLIKELY(atomic_load_explicit(&names_stale, memory_order_acquire)) && !refresh())
		return 0;
	if (UNLIKELY(launch_count >= LAUNCHES_MAX))
		forget_launches();
	struct launch *l = place_of(call);
	if (UNLIKELY(!l->used)) {
		if (!names_lock())
			return 0;
		emit_launch(l, call);
		names_unlock();
		if (!l->used)
			return 0;
	}
	if (UNLIKELY(!*agent))
		*agent = l->agent;
	return l->id;
}

/* A launch whose kernel is not in the table any more must not be found by a new kernel at
 * the same address. Its place stays used: searches for others go past it. */
static void forget_launches_of_gone(void)
{
	for (uint32_t i = 0; i < LAUNCHES; i++) {
		struct launch *l = &launches[i];

		if (l->used && !names_has(l->kernel_object))
			__atomic_store_n(&l->kernel_object, KERNEL_GONE, __ATOMIC_RELAXED); /* see same() */
	}
}

bool launches_destroy_begin(hsa_executable_t executable)
{
	if (!names_destroy_begin(executable))
		return false;
	if (launches)
		forget_launches_of_gone();
	return true;
}

void launches_destroy_end(bool held)
{
	names_destroy_end(held);
}

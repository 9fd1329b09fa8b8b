/* kind.c: the table of kinds, and the loops over it. */
#include "kinds/kind.h"

#include <errno.h>
#include <stdio.h>

#include "core/fault.h"
#include "core/session_flags.h"
#include "record/unavailable.h"

const struct kind *const kinds[RTL_KINDS_MAX] = {
#define KIND(number, ID, object, name) [number] = &object##_kind,
#include "kinds/kinds.def"
};

/* Calls f, a function of struct kind, for each recorded kind that has one. */
#define EACH(f, ...)                                                \
	do {                                                        \
		for (uint32_t i = 0; i < RTL_KINDS_MAX; i++)        \
			if (is_recorded(i) && kinds[i]->f)          \
				kinds[i]->f(__VA_ARGS__);           \
	} while (0)
#define EACH_REVERSE(f, ...)                                        \
	do {                                                        \
		for (uint32_t i = RTL_KINDS_MAX; i-- > 0;)          \
			if (is_recorded(i) && kinds[i]->f)          \
				kinds[i]->f(__VA_ARGS__);           \
	} while (0)

/* A test can make a step of each kind fail: "memory-copy find". */
#ifdef RTL_TEST
static int fault_of(uint32_t kind, const char *step, char *err, size_t errlen)
{
	static const char *const names[RTL_KINDS_MAX] = {
#define KIND(number, ID, object, name) [number] = name,
#include "kinds/kinds.def"
	};
	char fault[64];

	snprintf(fault, sizeof fault, "%s %s", names[kind], step);
	snprintf(err, errlen, "made to fail at %s", fault);
	return fault_at(fault);
}
#else
#define fault_of(kind, step, err, errlen) ((void)(kind), 0)
#endif

static int find(uint32_t kind, char *err, size_t errlen)
{
	return fault_of(kind, "find", err, errlen) ? -EIO : hooks_find(&kinds[kind]->hooks, err, errlen);
}

static int prepare(uint32_t kind, char *err, size_t errlen)
{
	if (fault_of(kind, "prepare", err, errlen))
		return -EIO;
	return kinds[kind]->prepare ? kinds[kind]->prepare(err, errlen) : 0;
}

static int start(uint32_t kind, char *err, size_t errlen)
{
	if (fault_of(kind, "start", err, errlen))
		return -EIO;
	return kinds[kind]->start ? kinds[kind]->start(err, errlen) : 0;
}

static uint32_t prepared; /* bits of the kinds whose memory release() gives back */

int kinds_find_hooks(char *err, size_t errlen)
{
	int r = 0;

	prepared = 0;
	kinds_all_available();
	for (uint32_t i = 0; i < RTL_KINDS_MAX && !r; i++)
		if (is_recorded(i) && (r = find(i, err, errlen)))
			r = kind_unavailable(i, r, err);
	return r;
}

uint32_t kinds_grace_ranges(struct rtl_range *out, uint32_t n, uint32_t max)
{
	for (uint32_t i = 0; i < RTL_KINDS_MAX; i++)
		if (is_recorded(i))
			n = hooks_grace_ranges(&kinds[i]->hooks, out, n, max);
	return n;
}

void kinds_patch(void)
{
	for (uint32_t i = 0; i < RTL_KINDS_MAX; i++)
		if (is_recorded(i))
			hooks_patch(&kinds[i]->hooks);
}

void kinds_patch_outer(void)
{
	for (uint32_t i = 0; i < RTL_KINDS_MAX; i++)
		if (is_recorded(i) && kinds[i]->outer_hooks)
			hooks_patch(kinds[i]->outer_hooks);
}

void kinds_restore_hooks(void)
{
	for (uint32_t i = RTL_KINDS_MAX; i-- > 0;)
		if (kinds[i] && kinds[i]->outer_hooks)
			hooks_restore(kinds[i]->outer_hooks);
	for (uint32_t i = RTL_KINDS_MAX; i-- > 0;)
		if (kinds[i])
			hooks_restore(&kinds[i]->hooks);
}

void kinds_add_tally(struct hooks_tally *sum)
{
	for (uint32_t i = 0; i < RTL_KINDS_MAX; i++)
		if (kinds[i]) {
			hooks_add_tally(&kinds[i]->hooks, sum);
			if (kinds[i]->outer_hooks)
				hooks_add_tally(kinds[i]->outer_hooks, sum);
		}
}

int kinds_prepare(char *err, size_t errlen)
{
	int r = 0;

	for (uint32_t i = 0; i < RTL_KINDS_MAX && !r; i++) {
		if (!is_recorded(i))
			continue;
		prepared |= 1u << i; /* kinds_release() gives the memory back, also of a kind that fails */
		if ((r = prepare(i, err, errlen)))
			r = kind_unavailable(i, r, err);
	}
	return r;
}

int kinds_start(char *err, size_t errlen)
{
	for (uint32_t i = 0; i < RTL_KINDS_MAX; i++) {
		int r = is_recorded(i) ? start(i, err, errlen) : 0;

		if (!r || !(r = kind_unavailable(i, r, err)))
			continue;
		while (i-- > 0)
			if (is_recorded(i) && kinds[i]->undo)
				kinds[i]->undo();
		return r;
	}
	return 0;
}

void kinds_open(void)
{
	EACH_REVERSE(open);
}

void kinds_open_calls(void)
{
	for (uint32_t i = 0; i < RTL_KINDS_MAX; i++)
		if (is_recorded(i) && kinds[i]->take_cell)
			kinds[i]->open();
}

uint32_t kinds_close(const struct ending *end)
{
	uint64_t until = now_monotonic() + KINDS_CLOSE_MOST_NS;
	uint32_t open = 0;

	for (uint32_t i = 0; i < RTL_KINDS_MAX; i++)
		if (is_recorded(i) && kinds[i]->close)
			open += kinds[i]->close(end, until);
	return open;
}

void kinds_undo(void)
{
	EACH_REVERSE(undo);
}

void kinds_release_signals(const struct ending *end)
{
	EACH_REVERSE(release_signals, end);
}

void kinds_release(void)
{
	for (uint32_t i = RTL_KINDS_MAX; i-- > 0;)
		if (prepared >> i & 1 && kinds[i]->release)
			kinds[i]->release();
}

void kinds_leave_runtime(void)
{
	EACH(leave_runtime);
}

uint64_t kinds_poll(uint64_t now_ns, bool abandon)
{
	uint64_t ended = 0;

	emit_unavailable();
	for (uint32_t i = 0; i < RTL_KINDS_MAX; i++)
		if (is_recorded(i) && kinds[i]->poll)
			ended += kinds[i]->poll(now_ns, abandon);
	return ended;
}

uint64_t kinds_outstanding(void)
{
	uint64_t items = 0;

	for (uint32_t i = 0; i < RTL_KINDS_MAX; i++)
		if (is_recorded(i) && kinds[i]->outstanding)
			items += kinds[i]->outstanding();
	return items;
}

void kinds_make_ready(void)
{
	EACH(make_ready);
}

void kinds_update_counters(void)
{
	EACH(update_counters);
}

void kinds_write_last(struct patience *p)
{
	EACH(write_last, p);
}

/* queue_memory.c: the memory of a queue's state. It is mapped once, backed before threads of
 * the application need it, and given back at the end of a session. */
#include "kinds/dispatch/queue_memory.h"

#include "core/sys.h"

enum { PART_STAMPS, PART_PLACED, PART_SIGNALS, PART_ENTRIES, PART_FILLED, PART_PENDING, PARTS };
static const size_t part_bytes[PARTS] = {
	[PART_STAMPS] = PACKETS_MAX * sizeof(struct stamp),
	[PART_PLACED] = PACKETS_MAX * sizeof(uint64_t),
	[PART_SIGNALS] = SIGNALS_PER_QUEUE * sizeof(uint64_t),
	[PART_ENTRIES] = BACKLOG * sizeof(struct entry),
	[PART_FILLED] = PACKETS_MAX / 8,
	[PART_PENDING] = PENDING_MAX * sizeof(struct entry),
};
#define STATE_BYTES ((sizeof(struct queue) + RTL_PAGE - 1) & ~(size_t)(RTL_PAGE - 1))

static size_t parts_size(void)
{
	size_t total = 0;

	for (int i = 0; i < PARTS; i++)
		total += part_bytes[i]; /* each a multiple of the page */
	return total;
}

#define ENTRIES_PER_PAGE (RTL_PAGE / sizeof(struct entry))
#define BACKED_READY 1024 /* entries of a state that is held ready */
#define BACKED_AHEAD 4096 /* entries of a queue in use, ahead of its publishers */

void queue_note_unbacked(struct queue *s)
{
	s->backed = atomic_load(&s->entry_head) & ~(ENTRIES_PER_PAGE - 1);
	s->backed_end = s->backed + BACKLOG;
	s->slots_backed = 0;
}

struct queue *queue_map(void)
{
	char *at = map_memory(STATE_BYTES + parts_size()), *part[PARTS];
	struct queue *s = (struct queue *)at;

	if (!at)
		return NULL;
	at += STATE_BYTES;
	for (int i = 0; i < PARTS; i++) {
		part[i] = at;
		at += part_bytes[i];
	}
	s->stamps = (struct stamp *)part[PART_STAMPS];
	s->placed = (uint64_t *)part[PART_PLACED];
	s->free_signals = (uint64_t *)part[PART_SIGNALS];
	s->entries = (struct entry *)part[PART_ENTRIES];
	s->filled = (uint64_t *)part[PART_FILLED];
	s->pending = (struct entry *)part[PART_PENDING];
	queue_note_unbacked(s);
	atomic_store(&s->word, WORD_DEAD);
	return s;
}

static void back_entries(struct queue *s, uint64_t ahead)
{
	uint64_t to = atomic_load_explicit(&s->entry_head, memory_order_relaxed) + ahead;

	if (s->backed == s->backed_end || s->backed + ahead / 2 > to)
		return; /* all are backed, or enough of them */
	to = to < s->backed_end ? to & ~(ENTRIES_PER_PAGE - 1) : s->backed_end;
	while (s->backed < to) {
		uint64_t at = s->backed & (BACKLOG - 1), n = to - s->backed;

		n = n < BACKLOG - at ? n : BACKLOG - at;
		back_memory(&s->entries[at], n * sizeof *s->entries);
		s->backed += n;
	}
}

void queue_back_ready(struct queue *s)
{
	back_entries(s, BACKED_READY);
}

void queue_back(struct queue *s)
{
	back_entries(s, BACKED_AHEAD);
	if (s->slots_backed)
		return;
	back_memory(s->stamps, s->size * sizeof *s->stamps);
	back_memory(s->placed, s->size * sizeof *s->placed);
	s->slots_backed = 1;
}

void queue_forget_memory(void)
{
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++) {
		struct queue *s = queue_all[i];

		forget_memory((char *)s + STATE_BYTES, parts_size());
		/* The application may get a signal at an address that one of ours had. */
		clear_memory(s->placed, part_bytes[PART_PLACED]);
	}
}

/*
 * batch.c: the memory of one buffer, a ring of bytes. A record is in one piece: at the end of the memory a filler takes the
 * rest, which ends a batch. Records of a batch stay in place until its callback has returned.
 */
#include <string.h>

#include "buffers.h"

#define FILLER UINT32_MAX /* kind */

bool buffer_is_due(const struct buffer *b)
{
	return b->head - b->tail >= b->options.watermark_bytes || (b->head != b->tail && b->due > b->tail) || (b->dropped && b->due);
}

static size_t filler_bytes(const struct buffer *b, uint64_t at)
{
	return b->options.size_bytes - at % b->options.size_bytes;
}

size_t buffer_count_batch(const struct buffer *b, uint64_t *end)
{
	size_t n = 0;
	uint64_t at = b->tail, size = b->options.size_bytes;

	while (at != b->head) {
		const rtl_record_t *r = (const rtl_record_t *)(b->data + at % size);

		if (r->kind == FILLER) {
			at += filler_bytes(b, at);
			break;
		}
		at += r->size;
		n++;
		if (at % size == 0)
			break;
	}
	*end = at;
	return n;
}

void buffer_skip_filler(struct buffer *b)
{
	if (b->tail != b->head && ((const rtl_record_t *)(b->data + b->tail % b->options.size_bytes))->kind == FILLER)
		b->tail += filler_bytes(b, b->tail);
}

static uint64_t room_for(const struct buffer *b, size_t bytes)
{
	size_t left = filler_bytes(b, b->head);

	return left < bytes ? left + bytes : bytes; /* a filler first */
}

bool buffer_has_room(const struct buffer *b, size_t bytes)
{
	return b->head - b->tail + room_for(b, bytes) <= b->options.size_bytes;
}

bool buffer_append(struct buffer *b, const rtl_record_t *r, const char *text, size_t text_bytes)
{
	size_t left = filler_bytes(b, b->head), bytes = r->size + text_bytes;
	bool was_due = buffer_is_due(b);

	if (left < bytes) {
		((rtl_record_t *)(b->data + b->head % b->options.size_bytes))->kind = FILLER; /* left is 8 at least */
		b->head += left;
	}
	rtl_record_t *to = (rtl_record_t *)(b->data + b->head % b->options.size_bytes);
	memcpy(to, r, r->size);
	to->size = (uint32_t)bytes;
	if (text) {
		memcpy((char *)to + r->size, text, strlen(text) + 1);
		((rtl_marker_record_t *)to)->text = (char *)to + r->size;
	}
	b->head += bytes;
	return !was_due && buffer_is_due(b);
}

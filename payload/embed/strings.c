/* strings.c: one copy of each string: names of kernels and GPUs. The payload defines a name again when
 * its tables were emptied, and in each session; the copies stay until rtl_shutdown(), because a buffer may
 * have records that point to them. The recorder's thread only, but for strings_release(). */
#include <stdlib.h>
#include <string.h>

#include "embed.h"

struct string {
	struct string *next;
	uint64_t hash;
	uint32_t len;
	char text[];
};

static struct string **buckets;
static size_t bucket_count, string_count; /* a power of two */

static uint64_t hash_of(const char *text, uint32_t len)
{
	uint64_t h = 14695981039346656037ull; /* FNV-1a */

	for (uint32_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)text[i]) * 1099511628211ull;
	return h;
}

static void grow(void)
{
	size_t count = bucket_count ? 2 * bucket_count : 1024;
	struct string **more = calloc(count, sizeof *more);

	if (!more)
		return; /* slower */
	for (size_t i = 0; i < bucket_count; i++)
		for (struct string *s = buckets[i], *next; s; s = next) {
			next = s->next;
			s->next = more[s->hash & (count - 1)];
			more[s->hash & (count - 1)] = s;
		}
	free(buckets);
	buckets = more;
	bucket_count = count;
}

const char *strings_intern(const char *text, uint32_t len)
{
	uint64_t hash = hash_of(text, len);

	if (string_count >= bucket_count)
		grow();
	if (!bucket_count)
		return "";
	struct string **bucket = &buckets[hash & (bucket_count - 1)];
	for (struct string *s = *bucket; s; s = s->next)
		if (s->hash == hash && s->len == len && !memcmp(s->text, text, len))
			return s->text;
	struct string *s = malloc(sizeof *s + len + 1);
	if (!s)
		return "";
	*s = (struct string){.next = *bucket, .hash = hash, .len = len};
	memcpy(s->text, text, len);
	s->text[len] = 0;
	*bucket = s;
	string_count++;
	return s->text;
}

void strings_release(void)
{
	for (size_t i = 0; i < bucket_count; i++)
		for (struct string *s = buckets[i], *next; s; s = next) {
			next = s->next;
			free(s);
		}
	free(buckets);
	buckets = NULL;
	bucket_count = string_count = 0;
}

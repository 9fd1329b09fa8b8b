/* settings.c: see settings.h. */
#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/env.h"
#include "embed.h"

#define RECORDER_TIMEOUT_MS 600000 /* a callback that runs for longer ends the session */
#define RING_DEFAULT (16ull << 20)
#define LIMIT_DEFAULT (1ull << 30)

static const struct {
	uint32_t kind;
	const char *name; /* as RTL_TRACE lists it */
} kind_names[] = {
#define KIND(number, ID, object, name) {number, name},
#include "kinds/kinds.def"
};

static void put(struct settings *s, const char *name, const char *value)
{
	uint32_t count;
	size_t name_bytes = strlen(name) + 1, value_bytes = strlen(value) + 1;

	if (s->env_len + name_bytes + value_bytes > sizeof s->env)
		return;
	memcpy(&count, s->env, sizeof count);
	count++;
	memcpy(s->env, &count, sizeof count);
	memcpy(s->env + s->env_len, name, name_bytes);
	memcpy(s->env + s->env_len + name_bytes, value, value_bytes);
	s->env_len += name_bytes + value_bytes;
}

static void put_number(struct settings *s, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "%lu", value);
	put(s, name, text);
}

static void put_kinds(struct settings *s, uint32_t kinds)
{
	char list[512] = "dispatch";

	for (size_t i = 0; i < sizeof kind_names / sizeof *kind_names; i++)
		if (kind_names[i].kind && RTL_BIT(kind_names[i].kind) & kinds) {
			strcat(list, ",");
			strcat(list, kind_names[i].name);
		}
	put(s, "RTL_TRACE", list);
}

int settings_make(const rtl_options_t *o, uint32_t kinds, struct settings *out)
{
	static struct rtl_config checked; /* large; under the lifecycle's lock */
	char err[256];

	if (kinds & ~(KINDS_OF_ITEMS | KINDS_OF_SESSIONS) || o->policy > RTL_BUFFER_LOSSLESS)
		return -EINVAL;
	memset(out->env, 0, 4);
	out->env_len = 4;
	put_kinds(out, kinds);
	put_number(out, "RTL_BUFFER_SIZE", o->buffer_bytes ? o->buffer_bytes : RING_DEFAULT);
	put_number(out, "RTL_BUFFER_WATERMARK", 25);
	put(out, "RTL_BUFFER_POLICY", o->policy == RTL_BUFFER_LOSSLESS ? "lossless" : "discard");
	put_number(out, "RTL_BUFFER_LIMIT", o->limit_bytes ? o->limit_bytes : LIMIT_DEFAULT);
	put_number(out, "RTL_DRAIN_TIMEOUT_MS", o->drain_timeout_ms ? o->drain_timeout_ms : 1000);
	put_number(out, "RTL_RECORDER_TIMEOUT_MS", RECORDER_TIMEOUT_MS);
	return rtl_env_parse(out->env, out->env_len, &checked, err, sizeof err);
}

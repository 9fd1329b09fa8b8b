/*
 * env.c: see env.h. Runs in the target before anything else, on a buffer that
 * another process wrote: no allocation, no setenv, each byte is
 * checked to be inside the buffer before it is read.
 */
#include "core/env.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "abi.h"

enum value_kind { VALUE_NUMBER, VALUE_CHOICE, VALUE_SET, VALUE_TEXT };

struct key {
	const char *name;
	enum value_kind kind;
	size_t field;         /* offset in struct rtl_config */
	uint64_t dflt;
	uint64_t least, most; /* for a text, most is the size of its field with the NUL */
	bool power_of_two;
	const char *choices;  /* "a|b"; the value is the position */
};

#define FIELD(f) offsetof(struct rtl_config, f)
#define NUMBER(name, f, dflt, least, most, pow2) {name, VALUE_NUMBER, FIELD(f), dflt, least, most, pow2, NULL},
#define CHOICE(name, f, dflt, choices) {name, VALUE_CHOICE, FIELD(f), dflt, 0, 0, false, choices},
#define SET(name, f, always) {name, VALUE_SET, FIELD(f), always, 0, 0, false, NULL},
#define TEXT(name, f) {name, VALUE_TEXT, FIELD(f), 0, 0, sizeof(((struct rtl_config *)0)->f), false, NULL},

static const struct key keys[] = {RTL_ENV_KEYS(NUMBER, CHOICE, SET, TEXT)};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

/* An error message is built piece by piece, without printf. */
struct message {
	char *text;
	size_t room, used;
};

static void say(struct message *c, const char *piece, size_t len)
{
	if (c->room == 0)
		return;
	if (len > c->room - 1 - c->used)
		len = c->room - 1 - c->used;
	memcpy(c->text + c->used, piece, len);
	c->used += len;
	c->text[c->used] = '\0';
}

static void say_text(struct message *c, const char *text)
{
	say(c, text, strlen(text));
}

static void say_number(struct message *c, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + n % 10);
	} while (n /= 10);
	say(c, digits + at, sizeof(digits) - at);
}

static int refuse(struct message *c, uint64_t offset, const char *what)
{
	say_text(c, "offset ");
	say_number(c, offset);
	say_text(c, ": ");
	say_text(c, what);
	return -EINVAL;
}

static const struct key *find(const char *name)
{
	for (size_t i = 0; i < KEY_COUNT; i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

/* Starts the message about a key's value. */
static int refuse_value(struct message *c, uint64_t offset, const struct key *k, const char *what)
{
	refuse(c, offset, k->name);
	say_text(c, ": ");
	say_text(c, what);
	return -EINVAL;
}

static int number(const struct key *k, const char *value, uint64_t offset, uint64_t *out, struct message *c)
{
	uint64_t n = 0;
	bool overflow = false;

	if (*value == '\0')
		return refuse_value(c, offset, k, "not a decimal number");
	for (const char *p = value; *p; p++) {
		if (*p < '0' || *p > '9')
			return refuse_value(c, offset, k, "not a decimal number");
		overflow |= __builtin_mul_overflow(n, 10, &n);
		overflow |= __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n);
	}
	if (overflow || n < k->least || n > k->most) {
		refuse_value(c, offset, k, "not between ");
		say_number(c, k->least);
		say_text(c, " and ");
		say_number(c, k->most);
		return -EINVAL;
	}
	if (k->power_of_two && (n & (n - 1)) != 0)
		return refuse_value(c, offset, k, "not a power of two");
	*out = n;
	return 0;
}

static int choice(const struct key *k, const char *value, uint64_t offset, uint64_t *out, struct message *c)
{
	const char *option = k->choices;

	for (uint64_t i = 0;; i++) {
		const char *bar = strchr(option, '|');
		size_t len = bar ? (size_t)(bar - option) : strlen(option);

		if (strlen(value) == len && memcmp(value, option, len) == 0) {
			*out = i;
			return 0;
		}
		if (bar == NULL)
			break;
		option = bar + 1;
	}
	refuse_value(c, offset, k, "not one of ");
	say_text(c, k->choices);
	return -EINVAL;
}

static const struct {
	const char *name;
	uint32_t number;
} kind_names[] = {
#define KIND(number, ID, object, name) {name, number},
#include "kinds/kinds.def"
};

/* The bit of a kind of record; 0: there is no such kind. */
static uint64_t kind_bit(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof kind_names / sizeof *kind_names; i++)
		if (strlen(kind_names[i].name) == len && memcmp(kind_names[i].name, name, len) == 0)
			return 1ull << kind_names[i].number;
	return 0;
}

/* Names of kinds, with commas between them; the default ones are always in the set. */
static int set(const struct key *k, const char *value, uint64_t offset, uint64_t *out, struct message *c)
{
	const char *at = value;

	*out = k->dflt;
	while (*at) {
		const char *comma = strchr(at, ',');
		size_t len = comma ? (size_t)(comma - at) : strlen(at);
		uint64_t bit = kind_bit(at, len);

		if (!bit || (comma && !comma[1])) {
			refuse_value(c, offset, k, "not a list of kinds of record: ");
			say_text(c, value);
			return -EINVAL;
		}
		*out |= bit;
		at += len + (comma != NULL);
	}
	return 0;
}

/* Checks a value and, with out, stores it. */
static int apply(const struct key *k, const char *value, uint64_t offset, struct rtl_config *out, struct message *c)
{
	uint64_t n = 0;
	int err = 0;

	if (k->kind == VALUE_TEXT) {
		size_t len = strlen(value);

		if (len >= k->most) {
			refuse_value(c, offset, k, "longer than ");
			say_number(c, k->most - 1);
			say_text(c, " bytes");
			return -EINVAL;
		}
		if (out)
			memcpy((char *)out + k->field, value, len + 1);
		return 0;
	}
	if (k->kind == VALUE_SET)
		err = set(k, value, offset, &n, c);
	else
		err = k->kind == VALUE_NUMBER ? number(k, value, offset, &n, c) : choice(k, value, offset, &n, c);
	if (err == 0 && out)
		memcpy((char *)out + k->field, &n, sizeof(n));
	return err;
}

/* The end of the string at an offset, or NULL: nothing there, or no NUL. */
static const char *string_end(const char *buf, uint64_t len, uint64_t at)
{
	return at < len ? memchr(buf + at, '\0', len - at) : NULL;
}

/* An error in the layout is reported before an error in a value, as in Go. Nothing is
 * stored before the whole buffer is known to be valid. */
enum pass { PASS_LAYOUT, PASS_VALUES, PASS_STORE };

static int walk(const char *buf, uint64_t len, enum pass pass, struct rtl_config *out, struct message *c)
{
	uint32_t count = 0;
	uint64_t at = sizeof(count);

	if (len > RTL_ENV_MAX) {
		refuse(c, RTL_ENV_MAX, "longer than ");
		say_number(c, RTL_ENV_MAX);
		say_text(c, " bytes");
		return -EINVAL;
	}
	if (len < sizeof(count))
		return refuse(c, 0, "count truncated");
	memcpy(&count, buf, sizeof(count));

	/* If the count is too large, this ends at the first missing variable. */
	for (uint32_t i = 0; i < count; i++) {
		const char *name = buf + at, *value, *equals;
		const struct key *k;
		int err;

		if (string_end(buf, len, at) == NULL)
			return refuse(c, at, at == len ? "name missing" : "name not terminated");
		if (*name == '\0')
			return refuse(c, at, "empty name");
		if ((equals = strchr(name, '=')) != NULL)
			return refuse(c, (uint64_t)(equals - buf), "'=' in a name");
		at += strlen(name) + 1;
		value = buf + at;
		if (string_end(buf, len, at) == NULL)
			return refuse(c, at, at == len ? "value missing" : "value not terminated");
		if (pass != PASS_LAYOUT && (k = find(name)) != NULL &&
		    (err = apply(k, value, at, pass == PASS_STORE ? out : NULL, c)))
			return err;
		at += strlen(value) + 1;
	}
	return at == len ? 0 : refuse(c, at, "bytes after the last variable");
}

void rtl_env_defaults(struct rtl_config *out)
{
	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < KEY_COUNT; i++)
		if (keys[i].kind != VALUE_TEXT)
			memcpy((char *)out + keys[i].field, &keys[i].dflt, sizeof(keys[i].dflt));
}

int rtl_env_parse(const void *buf, uint64_t len, struct rtl_config *out, char *err, size_t errlen)
{
	struct message c = {.text = err, .room = errlen};
	int fault;

	if (errlen > 0)
		err[0] = '\0';
	if ((fault = walk(buf, len, PASS_LAYOUT, out, &c)) || (fault = walk(buf, len, PASS_VALUES, out, &c)))
		return fault;
	rtl_env_defaults(out);
	return walk(buf, len, PASS_STORE, out, &c);
}

/*
 * env_test.c: tests env.c with the vectors of testdata/envbuf, which also test the
 * Go encoder. Usage: env_test FILE.bin…
 */
#include "abi.h"
#include "core/env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

/* The allocation is as long as the file: ASan sees every read beyond it. */
static char *slurp(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	char *data;

	if (f == NULL) {
		perror(path);
		exit(1);
	}
	fseek(f, 0, SEEK_END);
	*len = (size_t)ftell(f);
	rewind(f);
	data = malloc(*len ? *len : 1);
	if (data == NULL || fread(data, 1, *len, f) != *len) {
		fprintf(stderr, "%s: short read\n", path);
		exit(1);
	}
	fclose(f);
	return data;
}

static const char *option(const char *choices, uint64_t n, size_t *len)
{
	while (n-- > 0)
		choices = strchr(choices, '|') + 1;
	*len = strcspn(choices, "|");
	return choices;
}

#define PRINT_NUMBER(name, f, dflt, least, most, pow2) fprintf(out, "%s=%lu\n", name, (unsigned long)c->f);
#define PRINT_CHOICE(name, f, dflt, choices)                            \
	{                                                               \
		size_t len;                                             \
		const char *o = option(choices, c->f, &len);            \
		fprintf(out, "%s=%.*s\n", name, (int)len, o);           \
	}
#define PRINT_SET(name, f, always)                                      \
	{                                                               \
		const char *comma = "";                                 \
		fprintf(out, "%s=", name);                              \
		for (unsigned k = 0; k < RTL_KINDS_MAX; k++)            \
			if (c->f >> k & 1) {                            \
				fprintf(out, "%s%s", comma, names[k]);  \
				comma = ",";                            \
			}                                               \
		fprintf(out, "\n");                                     \
	}
#define PRINT_TEXT(name, f) fprintf(out, "%s=%s\n", name, c->f);

static const char *const names[RTL_KINDS_MAX] = {
#define KIND(number, ID, object, name) [number] = name,
#include "kinds/kinds.def"
};

static void print(FILE *out, const struct rtl_config *c)
{
	RTL_ENV_KEYS(PRINT_NUMBER, PRINT_CHOICE, PRINT_SET, PRINT_TEXT)
}

static void check_vector(const char *path)
{
	char txt[4096], err[256];
	char *buf, *want, *got;
	size_t len, want_len, got_len;
	struct rtl_config config;
	FILE *out = open_memstream(&got, &got_len);

	buf = slurp(path, &len);
	snprintf(txt, sizeof(txt), "%.*s.txt", (int)(strlen(path) - strlen(".bin")), path);
	want = slurp(txt, &want_len);

	if (rtl_env_parse(buf, len, &config, err, sizeof(err)) == 0)
		print(out, &config);
	else
		fprintf(out, "error: %s\n", err);
	fclose(out);
	if (got_len != want_len || memcmp(got, want, want_len) != 0) {
		fprintf(stderr, "%s: got\n%swant\n%.*s", path, got, (int)want_len, want);
		failures++;
	}
	free(got);
	free(want);
	free(buf);
}

/* Every prefix of a valid buffer is refused, with a message in whatever room there is, and
 * *out does not change. */
static void check_cuts(const char *path)
{
	size_t len;
	char *whole = slurp(path, &len);
	struct rtl_config before, config;

	rtl_env_defaults(&before);
	before.signal_pool = 77;
	for (size_t cut = 0; cut < len; cut++) {
		char *part = malloc(cut ? cut : 1);
		size_t room = cut % 40;
		char *err = malloc(room ? room : 1);

		memcpy(part, whole, cut);
		config = before;
		if (rtl_env_parse(part, cut, &config, err, room) != -EINVAL ||
		    memcmp(&config, &before, sizeof(config)) != 0 || (room > 0 && memchr(err, '\0', room) == NULL)) {
			fprintf(stderr, "%s cut to %zu bytes: accepted, or not refused cleanly\n", path, cut);
			failures++;
		}
		free(err);
		free(part);
	}
	free(whole);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		check_vector(argv[i]);
		if (strstr(argv[i], "valid-all.bin"))
			check_cuts(argv[i]);
	}
	if (argc < 2) {
		fprintf(stderr, "no vectors\n");
		return 1;
	}
	printf("env: %d vectors, %d failures\n", argc - 1, failures);
	return failures != 0;
}

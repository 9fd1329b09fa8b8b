/* The SOFTGPU_* environment; README.md documents each. */
#include <stdlib.h>
#include <string.h>

#include "softgpu.h"

struct config config;

static long number(const char *name, long otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtol(text, NULL, 0) : otherwise;
}

static long bounded(const char *name, long otherwise, long low, long high)
{
	long n = number(name, otherwise);

	return n < low ? low : n > high ? high : n;
}

/* "90a" is 9.0.10: two digits of minor and stepping (hexadecimal), the rest is the major. */
static void parse_gfx(const char *text)
{
	size_t len = strlen(text);
	char digit[2] = { 0 };

	if (len < 3)
		return;
	config.gfx_major = (unsigned)strtoul(text, NULL, 10);
	while (config.gfx_major >= 100 || (len == 3 && config.gfx_major >= 10))
		config.gfx_major /= 10;
	digit[0] = text[len - 2];
	config.gfx_minor = (unsigned)strtoul(digit, NULL, 16);
	digit[0] = text[len - 1];
	config.gfx_stepping = (unsigned)strtoul(digit, NULL, 16);
}

static void parse_modes(const char *list)
{
	static const struct {
		const char *name;
		bool *flag;
	} modes[] = {
		{ "eager", &config.eager },     { "late", &config.late },
		{ "prefetch", &config.prefetch }, { "ts-late", &config.ts_late },
		{ "stale-index", &config.stale_index }, { "device-ring", &config.device_ring },
		{ "no-locks", &config.no_locks },
	};

	while (*list) {
		size_t len = strcspn(list, ",");
		bool known = false;

		for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
			if (strlen(modes[i].name) == len && !strncmp(list, modes[i].name, len))
				known = *modes[i].flag = true;
		if (!known && len) {
			fprintf(stderr, "softgpu: SOFTGPU_MODE: unknown mode %.*s\n", (int)len, list);
			exit(2); /* a misspelt mode must not pass as a tested one */
		}
		list += len + (list[len] == ',');
	}
}

__attribute__((constructor)) static void config_load(void)
{
	const char *engine = getenv("SOFTGPU_ENGINE");
	const char *gfx = getenv("SOFTGPU_GFX");
	const char *modes = getenv("SOFTGPU_MODE");

	config.gpus = (unsigned)bounded("SOFTGPU_GPUS", 1, 1, MAX_GPUS);
	parse_gfx(gfx && *gfx ? gfx : "90a");
	config.kernel_ns = number("SOFTGPU_KERNEL_NS", -1);
	config.base_ns = (uint64_t)bounded("SOFTGPU_BASE_NS", 3000, 0, INT32_MAX);
	config.copy_ns = (uint64_t)bounded("SOFTGPU_COPY_NS", 2000, 0, INT32_MAX);
	config.jitter_percent = (unsigned)bounded("SOFTGPU_JITTER", 0, 0, 1000);
	config.exclusive = number("SOFTGPU_EXCLUSIVE", 0);
	config.engine_thread = engine && !strcmp(engine, "thread");
	config.spin_ns = 1000u * (uint64_t)bounded("SOFTGPU_SPIN_US", 15, 0, 1000000);
	config.idle_ns = 1000u * (uint64_t)bounded("SOFTGPU_IDLE_US", 1000, 20, 5000);
	config.log_path = getenv("SOFTGPU_LOG");
	if (config.log_path && !*config.log_path)
		config.log_path = NULL;
	config.stats = number("SOFTGPU_STATS", 0);
	config.debug = number("SOFTGPU_DEBUG", 0);
	config.kfd_minor = (unsigned)bounded("SOFTGPU_KFD_MINOR", 13, 0, 99);
	config.heap_type = (unsigned)bounded("SOFTGPU_HEAP", 1, 1, 2);
	config.event_limit = (unsigned)bounded("SOFTGPU_EVENT_LIMIT", MAX_EVENTS, 16, MAX_EVENTS);
	config.wake_ms = (uint32_t)bounded("SOFTGPU_WAKE_MS", 1000, 1, UINT32_MAX);
	config.vram_bytes = (uint64_t)bounded("SOFTGPU_VRAM_MB", 65536, 256, 1 << 20) << 20;
	config.hive = number("SOFTGPU_HIVE", 0);
	config.domains = number("SOFTGPU_DOMAINS", 0);
	config.late_ns = 1000u * (uint64_t)bounded("SOFTGPU_LATE_US", 200, 1, 1000000);
	config.stale_ns = 1000u * (uint64_t)bounded("SOFTGPU_STALE_US", 100, 1, 1000000);
	config.prefetch_depth = (unsigned)bounded("SOFTGPU_PREFETCH", 16, 1, 64);
	if (modes)
		parse_modes(modes);
	config.device_ring |= config.no_locks;
}

/*
 * The kfd topology of sysfs, as text made on demand: node 0 is the CPU, node
 * N+1 is GPU N. Debian builds ROCr with asserts on, so GPU nodes must have
 * caches, links in both directions and no CPU cores. The CPU has caches, too: for
 * one without the runtime looks in the machine's own sysfs, and where that names
 * none (a virtual machine) finds no GPU.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "softgpu.h"

/* The second is a link to the first, and RCCL 7's way there. */
static const char *const roots[] = { TOPOLOGY_ROOT, "/sys/class/kfd" };

enum { CACHES_PER_NODE = 2, LINK_PCIE = 2, LINK_XGMI = 11 };
enum { CACHE_OF_DATA = 1, CACHE_OF_CPU = 4, CACHE_OF_GPU = 8 };

/* What follows a root in the path; NULL: it is in none. */
static const char *below_root(const char *path)
{
	for (unsigned i = 0; path && i < sizeof roots / sizeof *roots; i++)
		if (!strncmp(path, roots[i], strlen(roots[i])))
			return path + strlen(roots[i]);
	return NULL;
}

bool topology_covers(const char *path)
{
	return below_root(path) != NULL;
}

/* The PCI device id by which the runtimes know the chip. */
unsigned topology_asic(void)
{
	switch (config.gfx_major * 10000 + config.gfx_minor * 100 + config.gfx_stepping) {
	case 90000: return 0x6860;  /* Vega 10 */
	case 90006: return 0x66a1;  /* Vega 20 */
	case 90008: return 0x738c;  /* MI100 */
	case 90010: return 0x740f;  /* MI210 */
	case 100100: return 0x731f; /* Navi 10 */
	default: break;
	}
	return config.gfx_major == 10 ? 0x73bf : config.gfx_major == 11 ? 0x744c : 0x74a1;
}

struct text {
	char *at;
	size_t left;
	int length;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(t->at, t->left, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= t->left)
		abort(); /* the caller's buffer is sized for these texts */
	t->at += n;
	t->left -= (size_t)n;
	t->length += n;
}

struct property {
	const char *name;
	unsigned long long value;
};

static void add_properties(struct text *t, const struct property *p, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add(t, "%s %llu\n", p[i].name, p[i].value);
}

#define ADD_PROPERTIES(t, ...)                                              \
	do {                                                                \
		const struct property list_[] = { __VA_ARGS__ };            \
		add_properties(t, list_, sizeof list_ / sizeof *list_);     \
	} while (0)

/* Every node is linked to every other. */
static unsigned link_count(void)
{
	return config.gpus;
}

static void cpu_properties(struct text *t)
{
	ADD_PROPERTIES(t,
		{ "cpu_cores_count", (unsigned long long)sysconf(_SC_NPROCESSORS_ONLN) },
		{ "simd_count", 0 }, { "mem_banks_count", 1 }, { "caches_count", CACHES_PER_NODE },
		{ "io_links_count", link_count() }, { "p2p_links_count", 0 },
		{ "cpu_core_id_base", 0 }, { "simd_id_base", 0 }, { "max_waves_per_simd", 0 },
		{ "lds_size_in_kb", 0 }, { "gds_size_in_kb", 0 }, { "num_gws", 0 },
		{ "wave_front_size", 0 }, { "array_count", 0 }, { "simd_arrays_per_engine", 0 },
		{ "cu_per_simd_array", 0 }, { "simd_per_cu", 0 }, { "max_slots_scratch_cu", 0 },
		{ "gfx_target_version", 0 }, { "vendor_id", 0 }, { "device_id", 0 },
		{ "location_id", 0 }, { "domain", 0 }, { "drm_render_minor", 0 }, { "hive_id", 0 },
		{ "num_sdma_engines", 0 }, { "num_sdma_xgmi_engines", 0 },
		{ "num_sdma_queues_per_engine", 0 }, { "num_cp_queues", 0 },
		{ "max_engine_clk_ccompute", 2000 });
}

static unsigned simd_id_base(unsigned node)
{
	return 0x80000000u + 1024 * node;
}

static void gpu_properties(struct text *t, unsigned node)
{
	unsigned doorbell_64bit = 2; /* doorbell type 2: AQL queues ring with a 64-bit index */
	unsigned debugger = config.kfd_minor >= KFD_DEBUGGER_MINOR; /* the firmware is up to it */
	unsigned capability = 1u << 3 | 1u << 7 | 2u << 8 | doorbell_64bit << 12 | 1u << 26 | debugger << 29;

	ADD_PROPERTIES(t,
		{ "cpu_cores_count", 0 }, { "simd_count", 440 }, { "mem_banks_count", 1 },
		{ "caches_count", CACHES_PER_NODE }, { "io_links_count", link_count() },
		{ "p2p_links_count", 0 }, { "cpu_core_id_base", 0 },
		{ "simd_id_base", simd_id_base(node) }, { "max_waves_per_simd", 8 },
		{ "lds_size_in_kb", 64 }, { "gds_size_in_kb", 0 }, { "num_gws", 64 },
		{ "wave_front_size", config.gfx_major >= 10 ? 32 : 64 }, { "array_count", 8 },
		{ "simd_arrays_per_engine", 1 }, { "cu_per_simd_array", 16 }, { "simd_per_cu", 4 },
		{ "max_slots_scratch_cu", 32 },
		{ "gfx_target_version", config.gfx_major * 10000 + config.gfx_minor * 100 + config.gfx_stepping },
		{ "vendor_id", 0x1002 }, { "device_id", topology_asic() },
		{ "location_id", (0x10 + (config.domains ? 0 : node)) << 8 }, { "domain", config.domains ? node : 0 }, { "drm_render_minor", 127 + node },
		{ "hive_id", config.hive ? 0x50f7 : 0 }, { "num_sdma_engines", 2 },
		{ "num_sdma_xgmi_engines", config.hive ? 3 : 0 }, { "num_sdma_queues_per_engine", 8 },
		{ "num_cp_queues", 24 }, { "max_engine_clk_fcompute", 1700 }, { "local_mem_size", 0 },
		{ "fw_version", 78 }, { "capability", capability }, { "debug_prop", 0 },
		{ "sdma_fw_version", 8 }, { "unique_id", 0x50f7000000000000ull + node },
		{ "num_xcc", 1 }, { "max_engine_clk_ccompute", 2000 });
}

static void memory_bank(struct text *t, unsigned node)
{
	struct sysinfo host;

	sysinfo(&host);
	ADD_PROPERTIES(t,
		{ "heap_type", node ? config.heap_type : 0 },
		{ "size_in_bytes", node ? config.vram_bytes : (host.totalram * host.mem_unit & ~4095ull) },
		{ "flags", 0 }, { "width", node ? 4096 : 64 }, { "mem_clk_max", 1600 });
}

static void cache(struct text *t, unsigned node, unsigned level)
{
	ADD_PROPERTIES(t,
		{ "processor_id_low", node ? simd_id_base(node) : 0 }, { "level", level },
		{ "size", level == 1 ? 16 : 8192 }, { "cache_line_size", level == 1 ? 64 : 128 },
		{ "cache_lines_per_tag", 1 }, { "association", 16 }, { "latency", 0 },
		{ "type", CACHE_OF_DATA | (node ? CACHE_OF_GPU : CACHE_OF_CPU) });
	add(t, "sibling_map 1,0,0,0\n");
}

static void io_link(struct text *t, unsigned from, unsigned which)
{
	unsigned to = which < from ? which : which + 1;
	bool xgmi = from && to && config.hive;

	ADD_PROPERTIES(t,
		{ "type", xgmi ? LINK_XGMI : LINK_PCIE }, { "version_major", 0 }, { "version_minor", 0 },
		{ "node_from", from }, { "node_to", to },
		{ "weight", xgmi ? 15 : from && to ? 40 : 20 }, { "min_latency", 0 }, { "max_latency", 0 },
		{ "min_bandwidth", 32000 }, { "max_bandwidth", 64000 }, { "recommended_transfer_size", 0 },
		{ "recommended_sdma_engine_id_mask", 0 }, { "flags", 1 });
}

static void system_properties(struct text *t)
{
	ADD_PROPERTIES(t, { "platform_oem", 35498446626881 }, { "platform_id", 35322352980033 },
		       { "platform_rev", 2 });
}

/* Splits "nodes/N/what/K/properties": what and K may be absent, then "" and 0. */
struct node_path {
	unsigned node, item;
	char what[24], file[24];
};

static bool parse(const char *relative, struct node_path *p)
{
	int end = 0;

	*p = (struct node_path){ 0 };
	if (sscanf(relative, "nodes/%u/%23[a-z_]/%u/%23[a-z_]%n", &p->node, p->what, &p->item, p->file, &end) != 4) {
		*p = (struct node_path){ 0 };
		if (sscanf(relative, "nodes/%u/%23[a-z_]%n", &p->node, p->file, &end) != 2)
			return false;
	}
	return !relative[end] && p->node <= config.gpus;
}

static bool node_file(struct text *t, const struct node_path *p)
{
	bool properties = !strcmp(p->file, "properties");

	if (!*p->what && !strcmp(p->file, "gpu_id"))
		add(t, "%u\n", p->node ? GPU_ID_BASE + p->node - 1 : 0);
	else if (!*p->what && !strcmp(p->file, "name"))
		add(t, "%s\n", p->node ? "softgpu" : "");
	else if (!*p->what && properties && p->node)
		gpu_properties(t, p->node);
	else if (!*p->what && properties)
		cpu_properties(t);
	else if (properties && !strcmp(p->what, "mem_banks") && p->item == 0)
		memory_bank(t, p->node);
	else if (properties && !strcmp(p->what, "caches") && p->item < CACHES_PER_NODE)
		cache(t, p->node, p->item + 1);
	else if (properties && !strcmp(p->what, "io_links") && p->item < link_count())
		io_link(t, p->node, p->item);
	else
		return false;
	return true;
}

static const char *relative_to_topology(const char *path)
{
	static const char topology[] = "/kfd/topology/";
	const char *below = below_root(path);

	return !below || strncmp(below, topology, sizeof topology - 1) ? NULL : below + sizeof topology - 1;
}

int topology_read(const char *path, char *buffer, size_t size)
{
	const char *relative = relative_to_topology(path);
	struct text t = { .at = buffer, .left = size };
	struct node_path p;

	if (!relative)
		return -1;
	if (!strcmp(relative, "generation_id"))
		add(&t, "2\n");
	else if (!strcmp(relative, "system_properties"))
		system_properties(&t);
	else if (!parse(relative, &p) || !node_file(&t, &p))
		return -1;
	return t.length;
}

int topology_entries(const char *path)
{
	const char *relative = relative_to_topology(path);
	char what[24] = "";
	unsigned node;

	if (!relative)
		return -1;
	if (!strcmp(relative, "nodes") || !strcmp(relative, "nodes/"))
		return (int)config.gpus + 1;
	if (sscanf(relative, "nodes/%u/%23[a-z0-9_]", &node, what) < 1 || node > config.gpus)
		return -1;
	if (!strcmp(what, "mem_banks"))
		return 1;
	if (!strcmp(what, "caches"))
		return CACHES_PER_NODE;
	if (!strcmp(what, "io_links"))
		return (int)link_count();
	return !strcmp(what, "p2p_links") || !*what ? 0 : -1;
}

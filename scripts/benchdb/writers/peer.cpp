// peer LIBRARY FILE ROWS: passes the benchmark's dispatches to the writer in
// rocm-trace-lite's library (class TraceDB of its trace_db.h). It makes the names and
// the texts with queue and geometry beforehand: only the writing is measured. Prints
// the time in ns: wall, processor.
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "rows.h"

namespace {

using Get = void *(*)();
using Record = void (*)(void *db, const char *name, int device, uint64_t queue, uint64_t start_ns, uint64_t end_ns,
			uint64_t correlation, const char *dispatch_info, uint64_t marker);
using Close = void (*)(void *db);

template <typename F> F look_up(void *library, const char *mangled)
{
	void *f = dlsym(library, mangled);

	if (!f) {
		fprintf(stderr, "peer: %s\n", dlerror());
		exit(1);
	}
	return reinterpret_cast<F>(f);
}

std::vector<std::string> kernel_names()
{
	std::vector<std::string> names;

	for (int n = 0; n < 300; n++)
		names.push_back("void vllm::paged_attention_v2_kernel<__hip_bfloat16, unsigned char, " + std::to_string(n) +
				", 16, 128>(float*, float const*)");
	return names;
}

std::vector<std::string> launch_texts()
{
	std::vector<std::string> texts;
	char text[128];

	for (unsigned n = 0; n < 300; n++) {
		snprintf(text, sizeof(text), "hwq=0x%llx wg=%u,%u,%u grid=%u,%u,%u", 0x7f0000000000ULL + n % 8 * 0x10000, 256u, 1u, 1u,
			 256 * n, 1u, 1u);
		texts.push_back(text);
	}
	return texts;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: peer LIBRARY FILE ROWS\n");
		return 2;
	}
	setenv("RTL_OUTPUT", argv[2], 1);
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "peer: %s\n", dlerror());
		return 1;
	}
	const auto record = look_up<Record>(library, "_ZN8trace_db7TraceDB13record_kernelEPKcimmmmS2_m");
	const auto close = look_up<Close>(library, "_ZN8trace_db7TraceDB5closeEv");
	const auto names = kernel_names(), texts = launch_texts();
	const uint64_t rows = strtoull(argv[3], nullptr, 10);
	void *db = look_up<Get>(library, "_ZN8trace_db12get_trace_dbEv")();

	const int64_t wall = wall_ns(), cpu = cpu_ns();
	for (uint64_t n = 0; n < rows; n++) {
		const uint64_t c = row_context(n), launch = context_launch(c) - 1, start = row_start_ns(n);

		record(db, names[launch].c_str(), 0, context_queue(c), start, start + row_duration_ns(n), n, texts[launch].c_str(), 0);
	}
	close(db);
	print_elapsed(wall, cpu);
	return 0;
}

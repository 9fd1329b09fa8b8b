/*
 * sdk_roctx.cpp: a test double of librocprofiler-sdk-roctx.so, which Debian does not have. Its
 * functions jump through a table in a function-local static, after the published interface.
 */
#include <atomic>
#include <cstddef>
#include <cstdint>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

struct Core {
	size_t size;
	void (*mark)(const char*);
	int (*push)(const char*);
	int (*pop)();
	uint64_t (*start)(const char*);
	void (*stop)(uint64_t);
};

thread_local int depth;
std::atomic<uint64_t> ranges;

// A profiler may change the table: the compiler must not know what is in it.
Core* shown(Core* c)
{
	__asm__ volatile("" : "+r"(c)::"memory");
	return c;
}

Core* make()
{
	static Core core;
	core = Core{
		sizeof core,
		[](const char*) {},
		[](const char*) { return depth++; },
		[] { return depth ? --depth : -1; },
		[](const char*) { return ++ranges; },
		[](uint64_t) {},
	};
	return shown(&core);
}

const Core* table()
{
	static Core* t = make();
	return t;
}

} // namespace

EXPORTED void roctxMarkA(const char* message) { table()->mark(message); }
EXPORTED int roctxRangePushA(const char* message) { return table()->push(message); }
EXPORTED int roctxRangePop() { return table()->pop(); }
EXPORTED uint64_t roctxRangeStartA(const char* message) { return table()->start(message); }
EXPORTED void roctxRangeStop(uint64_t range) { table()->stop(range); }

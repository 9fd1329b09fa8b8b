// Makes the runtime's own write-index additions slow now and then, by taking
// their slots in the API table: the window in which a thread is inside the raw
// function becomes milliseconds, so that a tool that ignores it fails at once.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <hsa/hsa.h>
#include <time.h>

namespace slow_raw {

using AddFunction = uint64_t (*)(const hsa_queue_t*, uint64_t);
enum { kOrders = 4 };

inline unsigned one_in;
inline long pause_ns;
inline AddFunction raw[kOrders];

// A real call with a frame of its own (and its unwind information): after a tail
// call nobody could see that a thread is still inside.
template <int Order> __attribute__((noinline)) uint64_t slow_add(const hsa_queue_t* queue, uint64_t n)
{
	static thread_local uint32_t random = 12345;
	random = random * 1664525u + 1013904223u;
	if ((random >> 8) % one_in == 0) {
		timespec pause{0, pause_ns};
		nanosleep(&pause, nullptr);
	}
	uint64_t index = raw[Order](queue, n);
	__asm__ volatile("" : : "r"(index) : "memory");
	return index;
}

// [endbr64] mov table(%rip),%rax ; jmp *slot(%rax)
inline void** slot_of(const char* name)
{
	auto* code = static_cast<const unsigned char*>(dlsym(RTLD_DEFAULT, name));
	int32_t displacement, offset;
	if (code && !memcmp(code, "\xf3\x0f\x1e\xfa", 4))
		code += 4;
	if (!code || memcmp(code, "\x48\x8b\x05", 3) || code[7] != 0xff || (code[8] != 0x60 && code[8] != 0xa0)) {
		fprintf(stderr, "--slow-raw: cannot decode %s\n", name);
		exit(1);
	}
	memcpy(&displacement, code + 3, 4);
	if (code[8] == 0x60)
		offset = static_cast<int8_t>(code[9]);
	else
		memcpy(&offset, code + 9, 4);
	char* table = *reinterpret_cast<char* const*>(code + 7 + displacement);
	return reinterpret_cast<void**>(table + offset);
}

template <int Order> void install_one(const char* name)
{
	void** slot = slot_of(name);
	raw[Order] = reinterpret_cast<AddFunction>(*slot);
	__atomic_store_n(slot, reinterpret_cast<void*>(&slow_add<Order>), __ATOMIC_RELEASE);
}

// hsa_shut_down resets the table, so this is called after each hsa_init.
inline void install(unsigned n, long pause_ms)
{
	one_in = n;
	pause_ns = pause_ms * 1000000;
	install_one<0>("hsa_queue_add_write_index_relaxed");
	install_one<1>("hsa_queue_add_write_index_scacquire");
	install_one<2>("hsa_queue_add_write_index_screlease");
	install_one<3>("hsa_queue_add_write_index_scacq_screl");
}

} // namespace slow_raw

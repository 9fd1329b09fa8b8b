// Another tool: puts itself above whatever it finds in some of the runtime's
// slots, passes every call on, and counts. Loaded on demand (other_tool.h), or by the runtime (OnLoad).
#include "slow_raw.h"

#include <atomic>

namespace {

enum { kAddRelaxed, kAddAcquire, kAddRelease, kAddBoth, kStoreRelaxed, kStoreRelease, kDestroy, kPlaces };

std::atomic<uint64_t> calls{0};
std::atomic<void*> found[kPlaces]; // what is called next

template <typename F, int Place> F next()
{
	calls++;
	return reinterpret_cast<F>(found[Place].load());
}

template <int Place> uint64_t add(const hsa_queue_t* queue, uint64_t n)
{
	return next<slow_raw::AddFunction, Place>()(queue, n);
}

template <int Place> void store(hsa_signal_t signal, hsa_signal_value_t value)
{
	next<void (*)(hsa_signal_t, hsa_signal_value_t), Place>()(signal, value);
}

hsa_status_t destroy(hsa_signal_t signal)
{
	return next<hsa_status_t (*)(hsa_signal_t), kDestroy>()(signal);
}

const struct {
	const char* function;
	void* mine;
} places[kPlaces] = {
	{"hsa_queue_add_write_index_relaxed", reinterpret_cast<void*>(&add<kAddRelaxed>)},
	{"hsa_queue_add_write_index_scacquire", reinterpret_cast<void*>(&add<kAddAcquire>)},
	{"hsa_queue_add_write_index_screlease", reinterpret_cast<void*>(&add<kAddRelease>)},
	{"hsa_queue_add_write_index_scacq_screl", reinterpret_cast<void*>(&add<kAddBoth>)},
	{"hsa_signal_store_relaxed", reinterpret_cast<void*>(&store<kStoreRelaxed>)},
	{"hsa_signal_store_screlease", reinterpret_cast<void*>(&store<kStoreRelease>)},
	{"hsa_signal_destroy", reinterpret_cast<void*>(&destroy)},
};

} // namespace

extern "C" void other_tool_enter()
{
	for (int i = 0; i < kPlaces; i++) {
		void** slot = slow_raw::slot_of(places[i].function);
		found[i] = *slot;
		__atomic_store_n(slot, places[i].mine, __ATOMIC_SEQ_CST);
	}
}

// What was found is put back. Threads may still be inside: nothing is unloaded.
extern "C" void other_tool_leave()
{
	for (int i = 0; i < kPlaces; i++)
		__atomic_store_n(slow_raw::slot_of(places[i].function), found[i].load(), __ATOMIC_SEQ_CST);
}

extern "C" uint64_t other_tool_calls()
{
	return calls;
}

extern "C" bool OnLoad(void*, uint64_t, uint64_t, const char* const*)
{
	other_tool_enter();
	return true;
}

extern "C" void OnUnload()
{
	fprintf(stderr, "other tool: %lu calls\n", calls.load());
}

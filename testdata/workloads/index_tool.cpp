// Another tool that keeps a write index of its own for each queue, as AMD's newer tools do: producers claim
// slots from it, and the tool moves the index below only over complete packets, at the doorbell. It stays in
// the runtime's table, and is switched on and off while queues are in use. The runtime loads it (OnLoad), or
// the workload does (other_tool.h).
#include "slow_raw.h"

#include <atomic>
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <mutex>

namespace {

enum {
	kAddRelaxed, kAddAcquire, kAddRelease, kAddBoth,
	kCasRelaxed, kCasAcquire, kCasRelease, kCasBoth,
	kSetRelaxed, kSetRelease, kGetRelaxed, kGetAcquire,
	kRingRelaxed, kRingRelease, kSilentRelaxed, kSilentRelease,
	kDestroy, kPlaces
};

std::atomic<bool> on{false};
std::atomic<uint64_t> dispatches{0}, switches{0};
std::atomic<void*> found[kPlaces]; // what is called next

template <typename F> F next(int place)
{
	return reinterpret_cast<F>(found[place].load());
}

using Add = uint64_t (*)(const hsa_queue_t*, uint64_t);
using Cas = uint64_t (*)(const hsa_queue_t*, uint64_t, uint64_t);
using Set = void (*)(const hsa_queue_t*, uint64_t);
using Get = uint64_t (*)(const hsa_queue_t*);
using Ring = void (*)(hsa_signal_t, hsa_signal_value_t);
using Destroy = hsa_status_t (*)(hsa_queue_t*);

[[noreturn]] void fail(const char* what, uint64_t is, uint64_t expected)
{
	fprintf(stderr, "index tool: %s: %lu, expected %lu\n", what, is, expected);
	abort();
}

// A queue's index. All accesses to the index below have the lock, too: no thread is inside a function below
// when the tool is switched.
struct Queue {
	std::mutex lock;
	const hsa_queue_t* hsa = nullptr;
	uint64_t id = 0;
	bool is_virtual = false;
	uint64_t base = 0;      // the first index of ours
	uint64_t claimed = 0;   // the virtual write index
	uint64_t published = 0; // the write index below

	uint64_t below() const { return next<Get>(kGetAcquire)(hsa); }

	void follow_switch()
	{
		if (on == is_virtual)
			return;
		if (is_virtual)
			leave();
		else
			base = claimed = published = below();
		is_virtual = !is_virtual;
		switches++;
	}

	// Claimed slots that are not complete are the producers' own business from now on.
	void leave()
	{
		publish();
		uint64_t was = next<Cas>(kCasBoth)(hsa, published, claimed);
		if (was != published)
			fail("the index below at the end", was, published);
		if (published != claimed)
			ring(claimed - 1);
	}

	void ring(uint64_t index) { next<Ring>(kRingRelease)(hsa->doorbell_signal, hsa_signal_value_t(index)); }

	void publish()
	{
		auto hardware = reinterpret_cast<const amd_queue_t*>(hsa);
		auto packets = static_cast<hsa_kernel_dispatch_packet_t*>(hsa->base_address);
		uint64_t limit = __atomic_load_n(&hardware->read_dispatch_id, __ATOMIC_ACQUIRE) + hsa->size, to = published;
		for (; to < claimed && to < limit; to++) {
			int type = __atomic_load_n(&packets[to & (hsa->size - 1)].header, __ATOMIC_ACQUIRE) & 0xff;
			if (type == HSA_PACKET_TYPE_INVALID)
				break;
			dispatches += type == HSA_PACKET_TYPE_KERNEL_DISPATCH;
		}
		if (to == published)
			return;
		uint64_t was = next<Add>(kAddRelease)(hsa, to - published);
		if (was != published)
			fail("the index below", was, published);
		published = to;
		ring(to - 1);
	}
};

constexpr size_t kQueues = 256;
Queue queues[kQueues];
std::mutex table;

Queue* find(const hsa_queue_t* q)
{
	std::lock_guard<std::mutex> hold(table);
	for (Queue& s : queues)
		if (s.hsa == q && s.id == q->id)
			return &s;
	for (Queue& s : queues)
		if (!s.hsa) {
			s.hsa = q;
			s.id = q->id;
			return &s;
		}
	fail("queues", kQueues + 1, kQueues);
}

// What F does with the queue, with its lock.
template <typename F> auto with(const hsa_queue_t* q, F f)
{
	Queue* s = find(q);
	std::lock_guard<std::mutex> hold(s->lock);
	s->follow_switch();
	return f(*s);
}

template <int Place> uint64_t add(const hsa_queue_t* q, uint64_t n)
{
	return with(q, [=](Queue& s) {
		if (!s.is_virtual)
			return next<Add>(Place)(q, n);
		uint64_t index = s.claimed;
		s.claimed += n;
		return index;
	});
}

template <int Place> uint64_t cas(const hsa_queue_t* q, uint64_t expected, uint64_t value)
{
	return with(q, [=](Queue& s) {
		if (!s.is_virtual)
			return next<Cas>(Place)(q, expected, value);
		uint64_t was = s.claimed;
		if (was == expected)
			s.claimed = value;
		return was;
	});
}

template <int Place> void set(const hsa_queue_t* q, uint64_t value)
{
	with(q, [=](Queue& s) {
		if (s.is_virtual)
			s.claimed = value;
		else
			next<Set>(Place)(q, value);
	});
}

template <int Place> uint64_t get(const hsa_queue_t* q)
{
	return with(q, [=](Queue& s) { return s.is_virtual ? s.claimed : next<Get>(Place)(q); });
}

template <int Place> void ring(hsa_signal_t signal, hsa_signal_value_t value)
{
	auto hardware = reinterpret_cast<const amd_signal_t*>(signal.handle);
	if (hardware->kind >= 0) {
		next<Ring>(Place)(signal, value);
		return;
	}
	with(&hardware->queue_ptr->hsa_queue, [=](Queue& s) {
		if (!s.is_virtual || uint64_t(value) < s.base)
			next<Ring>(Place)(signal, value);
		if (s.is_virtual)
			s.publish();
	});
}

hsa_status_t destroy(hsa_queue_t* q)
{
	Queue* s = find(q);
	{
		std::lock_guard<std::mutex> hold(s->lock);
		if (s->is_virtual)
			s->leave();
		s->is_virtual = false;
	}
	hsa_status_t status = next<Destroy>(kDestroy)(q);
	std::lock_guard<std::mutex> hold(table);
	s->hsa = nullptr;
	return status;
}

#define FOUR(place, function, name)                                                          \
	{name "_relaxed", reinterpret_cast<void*>(&function<place>)},                        \
	{name "_scacquire", reinterpret_cast<void*>(&function<place + 1>)},                  \
	{name "_screlease", reinterpret_cast<void*>(&function<place + 2>)},                  \
	{name "_scacq_screl", reinterpret_cast<void*>(&function<place + 3>)}

const struct {
	const char* function;
	void* mine;
} places[kPlaces] = {
	FOUR(kAddRelaxed, add, "hsa_queue_add_write_index"),
	FOUR(kCasRelaxed, cas, "hsa_queue_cas_write_index"),
	{"hsa_queue_store_write_index_relaxed", reinterpret_cast<void*>(&set<kSetRelaxed>)},
	{"hsa_queue_store_write_index_screlease", reinterpret_cast<void*>(&set<kSetRelease>)},
	{"hsa_queue_load_write_index_relaxed", reinterpret_cast<void*>(&get<kGetRelaxed>)},
	{"hsa_queue_load_write_index_scacquire", reinterpret_cast<void*>(&get<kGetAcquire>)},
	{"hsa_signal_store_relaxed", reinterpret_cast<void*>(&ring<kRingRelaxed>)},
	{"hsa_signal_store_screlease", reinterpret_cast<void*>(&ring<kRingRelease>)},
	{"hsa_signal_silent_store_relaxed", reinterpret_cast<void*>(&ring<kSilentRelaxed>)},
	{"hsa_signal_silent_store_screlease", reinterpret_cast<void*>(&ring<kSilentRelease>)},
	{"hsa_queue_destroy", reinterpret_cast<void*>(&destroy)},
};

} // namespace

// All next functions first: a wrapper may use those of other places.
extern "C" void index_tool_enter()
{
	for (int i = 0; i < kPlaces; i++)
		found[i] = *slow_raw::slot_of(places[i].function);
	for (int i = 0; i < kPlaces; i++)
		__atomic_store_n(slow_raw::slot_of(places[i].function), places[i].mine, __ATOMIC_SEQ_CST);
}

extern "C" void index_tool_on()
{
	on = true;
}

extern "C" void index_tool_off()
{
	on = false;
}

// How often a queue was switched.
extern "C" uint64_t index_tool_switches()
{
	return switches;
}

extern "C" uint64_t index_tool_dispatches()
{
	return dispatches;
}

extern "C" bool OnLoad(void*, uint64_t, uint64_t, const char* const*)
{
	index_tool_enter();
	return true;
}

extern "C" void OnUnload()
{
}

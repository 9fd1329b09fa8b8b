// One thread that dispatches in one of the ways that real producers do.
#pragma once
#include "hsa_device.h"

#include <atomic>
#include <chrono>
#include <hsa/amd_hsa_queue.h>
#include <thread>

struct Settings {
	long threads = 8, queues = 2, ring = 256, seconds = 5, kernel_ns = 2000, pace_us = 0;
	long gpus = 0, kind = -1, cycles = 1, slow_raw = 0, slow_raw_ms = 3, doorbell = 1, uring = 0, port = 0, hang_seconds = 240, extended = 0;
	std::string code_object;
};

inline Settings settings;
inline std::atomic<bool> stop{false}, paused{false};
inline std::atomic<long> resting{0}; // producers, while paused
inline std::atomic<uint64_t> progress{0}; // dispatches of all producers

enum Kind { kAdd, kRearm, kFreshSignal, kBatch, kCas, kWaitEach, kSingle, kChurn, kSharedSignal, kBarrier, kKinds, kPrivate = kKinds };
// kPrivate is had by asking for it only: no tool sees where its packets are.
inline const char* const kind_names[] = {"add", "rearm", "fresh-signal", "batch", "cas", "wait-each", "single", "churn", "shared-signal", "barrier", "private"};

enum Where { kSubmitting, kWaitingForRoom, kWaitingForSignal, kCreatingQueue, kDestroyingQueue, kDone };
inline const char* const where_names[] = {"submitting", "waiting for room in the ring", "waiting for a signal", "creating a queue", "destroying a queue", "done"};

class Producer {
public:
	Producer(const Gpu& gpu, hsa_queue_t* shared, unsigned id) : gpu_(gpu), id_(id), random_(id * 7919 + 13)
	{
		kind_ = Kind(settings.kind >= 0 ? settings.kind % (kPrivate + 1) : (id - 1) % kKinds);
		own_queue_ = kind_ == kSingle || kind_ == kPrivate;
		queue_ = own_queue_ ? create_queue(gpu, settings.ring, HSA_QUEUE_TYPE_SINGLE) : shared;
	}

	void start() { thread_ = std::thread([this] { run(); }); }
	void join() { thread_.join(); }

	// After all producers have ended.
	void destroy()
	{
		if (own_queue_)
			HSA_CHECK(hsa_queue_destroy(queue_));
	}

	unsigned id() const { return id_; }
	uint64_t count() const { return sequence_.load(); }
	bool done() const { return where_ == kDone; }

	void describe() const
	{
		printf("  thread %u (%s): %s, %lu dispatched\n", id_, kind_names[kind_], where_names[where_.load()], count());
	}

	// A tool may keep an index of its own from the GPU's: both are told.
	static void describe_queue(const hsa_queue_t* q)
	{
		auto* hardware = reinterpret_cast<const amd_queue_t*>(q);
		uint64_t r = hardware->read_dispatch_id, claimed = hsa_queue_load_write_index_relaxed(q);
		unsigned header = *reinterpret_cast<uint16_t*>(static_cast<char*>(q->base_address) + (r & (q->size - 1)) * 64);
		printf("  queue %p id %lu: read %lu write %lu (the GPU sees %lu), header at read %#x\n", static_cast<const void*>(q), q->id, r,
		       claimed, hardware->write_dispatch_id, header);
	}

	// Sequences go on from one cycle to the next: an id is never used twice.
	void resume_from(uint64_t sequence) { sequence_ = sequence; }

private:
	const Gpu& gpu_;
	unsigned id_;
	Kind kind_;
	hsa_queue_t* queue_;
	bool own_queue_;
	uint32_t random_;
	uint64_t private_index_ = 0;
	std::atomic<uint64_t> sequence_{0};
	std::atomic<int> where_{kSubmitting};
	std::thread thread_;
	hsa_signal_t signal_{}, ring_[32]{};
	hsa_signal_t gate_{}; // what extended dispatches wait for
	bool gate_closed_ = false;
	const hsa_signal_t none_{0};

	uint32_t random()
	{
		random_ = random_ * 1664525u + 1013904223u;
		return random_ >> 8;
	}

	void sometimes_sleep(uint32_t one_in)
	{
		if (random() % one_in == 0)
			std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 3000));
	}

	void wait(hsa_signal_t s)
	{
		where_ = kWaitingForSignal;
		wait_signal(s);
		where_ = kSubmitting;
	}

	void* slot(uint64_t index)
	{
		where_ = kWaitingForRoom;
		void* p = wait_slot(queue_, index);
		where_ = kSubmitting;
		return p;
	}

	void kernel(void* slot, hsa_signal_t signal, bool barrier)
	{
		uint64_t ns = settings.kernel_ns ? uint64_t(settings.kernel_ns) / 2 + random() % uint64_t(settings.kernel_ns) : 0;
		if (random() % 5000 == 0)
			ns = 3000000; // one slow kernel now and then
		uint64_t sequence = ++sequence_;
		const Kernel& k = gpu_.kernels[random() % gpu_.kernels.size()];
		uint64_t id = tag(uint64_t(id_) << 40 | sequence, ns);
		if (settings.extended && random() % uint64_t(settings.extended) == 0)
			publish_extended(slot, k, id, signal, dependency(), barrier, random());
		else
			publish_kernel(slot, k, id, signal, barrier);
		progress++;
	}

	// None, a signal that is 0 already, or one that is set to 0 after the doorbell.
	hsa_signal_t dependency()
	{
		uint32_t choice = random() % 3;
		if (choice == 0)
			return none_;
		if (choice == 1 && !gate_closed_) {
			hsa_signal_store_screlease(gate_, 1);
			gate_closed_ = true;
		}
		return gate_;
	}

	void ring(uint64_t index)
	{
		ring_doorbell(index);
		if (!gate_closed_)
			return;
		sometimes_sleep(200);
		gate_closed_ = false;
		hsa_signal_store_screlease(gate_, 0);
	}

	void ring_doorbell(uint64_t index)
	{
		if (!settings.doorbell)
			return;
		if (random() & 1)
			hsa_signal_store_screlease(queue_->doorbell_signal, hsa_signal_value_t(index));
		else
			hsa_signal_store_relaxed(queue_->doorbell_signal, hsa_signal_value_t(index));
	}

	uint64_t add(uint64_t n)
	{
		switch (random() % 4) {
		case 0: return hsa_queue_add_write_index_relaxed(queue_, n);
		case 1: return hsa_queue_add_write_index_scacquire(queue_, n);
		case 2: return hsa_queue_add_write_index_screlease(queue_, n);
		default: return hsa_queue_add_write_index_scacq_screl(queue_, n);
		}
	}

	uint64_t load()
	{
		return random() & 1 ? hsa_queue_load_write_index_relaxed(queue_) : hsa_queue_load_write_index_scacquire(queue_);
	}

	uint64_t cas(uint64_t expected, uint64_t value)
	{
		switch (random() % 4) {
		case 0: return hsa_queue_cas_write_index_relaxed(queue_, expected, value);
		case 1: return hsa_queue_cas_write_index_scacquire(queue_, expected, value);
		case 2: return hsa_queue_cas_write_index_screlease(queue_, expected, value);
		default: return hsa_queue_cas_write_index_scacq_screl(queue_, expected, value);
		}
	}

	// Sets a fired signal for its next packet, by each of the functions that can.
	void rearm(hsa_signal_t s, hsa_signal_value_t value)
	{
		switch (random() % 8) {
		case 0: hsa_signal_store_relaxed(s, value); break;
		case 1: hsa_signal_store_screlease(s, value); break;
		case 2: hsa_signal_silent_store_relaxed(s, value); break;
		case 3: hsa_signal_silent_store_screlease(s, value); break;
		case 4: hsa_signal_exchange_scacq_screl(s, value); break;
		case 5: hsa_signal_exchange_relaxed(s, value); break;
		case 6: hsa_signal_cas_scacq_screl(s, 0, value); break;
		default: hsa_signal_add_relaxed(s, value); break;
		}
	}

	void submit_one(hsa_signal_t signal, bool barrier)
	{
		uint64_t index = add(1);
		kernel(slot(index), signal, barrier);
		ring(index);
	}

	void step(uint64_t i)
	{
		switch (kind_) {
		case kAdd: add_step(i); break;
		case kRearm: rearm_step(i); break;
		case kFreshSignal: fresh_signal_step(i); break;
		case kBatch: batch_step(i); break;
		case kCas: cas_step(i); break;
		case kWaitEach: wait_each_step(); break;
		case kSingle: single_step(i); break;
		case kChurn: churn_step(); break;
		case kSharedSignal: shared_signal_step(); break;
		case kBarrier: barrier_step(); break;
		case kPrivate: private_step(i); break;
		}
	}

	void add_step(uint64_t i)
	{
		bool last = i % 64 == 63;
		if (last)
			rearm(signal_, 1);
		submit_one(last ? signal_ : none_, i & 1);
		if (last)
			wait(signal_);
	}

	void rearm_step(uint64_t i)
	{
		hsa_signal_t s = ring_[i % 32];
		wait(s);
		rearm(s, 1);
		submit_one(s, true);
	}

	void fresh_signal_step(uint64_t i)
	{
		if (i % 16) {
			submit_one(none_, false);
			return;
		}
		hsa_signal_t s = create_signal(1);
		submit_one(s, false);
		wait(s);
		HSA_CHECK(hsa_signal_destroy(s));
	}

	// Several slots at one claim, published from the last to the first.
	void batch_step(uint64_t i)
	{
		uint64_t n = 1 + random() % 4;
		bool last = i % 32 == 31;
		if (last)
			rearm(signal_, 1);
		uint64_t index = add(n);
		for (uint64_t k = n; k-- > 0;) {
			kernel(slot(index + k), last && k == n - 1 ? signal_ : none_, true);
			sometimes_sleep(4000);
		}
		ring(index + n - 1);
		if (last)
			wait(signal_);
	}

	// A claim by compare-and-swap, with long pauses before and after the packet is written.
	void cas_step(uint64_t i)
	{
		bool last = i % 50 == 49;
		uint64_t index;
		if (last)
			rearm(signal_, 1);
		do
			index = load();
		while (cas(index, index + 1) != index);
		sometimes_sleep(3000);
		kernel(slot(index), last ? signal_ : none_, true);
		sometimes_sleep(3000);
		ring(index);
		if (last)
			wait(signal_);
	}

	void wait_each_step()
	{
		rearm(signal_, 1);
		submit_one(signal_, false);
		wait(signal_);
	}

	// The packet first, then the index: only one producer may do so.
	void single_step(uint64_t i)
	{
		bool last = i % 100 == 99;
		if (last)
			rearm(signal_, 1);
		uint64_t index = load();
		kernel(slot(index), last ? signal_ : none_, false);
		if (random() & 1)
			hsa_queue_store_write_index_relaxed(queue_, index + 1);
		else
			hsa_queue_store_write_index_screlease(queue_, index + 1);
		ring(index);
		if (last)
			wait(signal_);
	}

	// An index of its own, put where the GPU looks: none of the runtime's functions is called for it.
	void private_step(uint64_t i)
	{
		bool last = i % 100 == 99;
		if (last)
			rearm(signal_, 1);
		uint64_t index = private_index_++;
		kernel(slot(index), last ? signal_ : none_, false);
		__atomic_store_n(&reinterpret_cast<amd_queue_t*>(queue_)->write_dispatch_id, private_index_, __ATOMIC_RELEASE);
		ring(index);
		if (last)
			wait(signal_);
	}

	void churn_step()
	{
		hsa_queue_t* shared = queue_;
		where_ = kCreatingQueue;
		queue_ = create_queue(gpu_, 64);
		where_ = kSubmitting;
		rearm(signal_, 1);
		for (int k = 0; k < 200; k++)
			submit_one(k == 199 ? signal_ : none_, k == 199);
		wait(signal_);
		where_ = kDestroyingQueue;
		HSA_CHECK(hsa_queue_destroy(queue_));
		where_ = kSubmitting;
		queue_ = shared;
	}

	void shared_signal_step()
	{
		hsa_signal_value_t n = 2 + random() % 7;
		rearm(signal_, n);
		for (hsa_signal_value_t k = 0; k < n; k++)
			submit_one(signal_, false);
		wait(signal_);
	}

	// A kernel, a barrier that waits for it, a kernel behind the barrier. The
	// barrier's signal is another kernel's at times.
	void barrier_step()
	{
		bool all = random() & 1, shared = random() & 1;
		hsa_barrier_and_packet_t p{};
		wait(ring_[0]);
		rearm(ring_[0], 1);
		submit_one(ring_[0], false);
		rearm(signal_, shared ? 2 : 1);
		if (shared)
			submit_one(signal_, false);
		p.dep_signal[0] = ring_[0];
		p.completion_signal = signal_;
		uint64_t index = add(1);
		publish(slot(index), &p, header_of(all ? HSA_PACKET_TYPE_BARRIER_AND : HSA_PACKET_TYPE_BARRIER_OR, random() & 1), 0);
		ring(index);
		submit_one(none_, true);
		wait(signal_);
	}

	void rest()
	{
		if (!paused)
			return;
		resting++;
		while (paused && !stop)
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
		resting--;
	}

	void run()
	{
		signal_ = create_signal(0);
		gate_ = create_signal(0);
		for (hsa_signal_t& s : ring_)
			s = create_signal(0);
		for (uint64_t i = 0; !stop; i++) {
			step(i);
			rest();
			if (settings.pace_us)
				std::this_thread::sleep_for(std::chrono::microseconds(settings.pace_us));
		}
		finish();
	}

	// Everything before this barrier kernel has executed when it has.
	void finish()
	{
		if (kind_ == kSingle) {
			single_step(99);
		} else if (kind_ == kPrivate) {
			private_step(99);
		} else {
			rearm(signal_, 1);
			submit_one(signal_, true);
			wait(signal_);
		}
		for (hsa_signal_t s : ring_) {
			wait(s);
			HSA_CHECK(hsa_signal_destroy(s));
		}
		HSA_CHECK(hsa_signal_destroy(signal_));
		HSA_CHECK(hsa_signal_destroy(gate_));
		where_ = kDone;
	}
};

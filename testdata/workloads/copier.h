// One thread that copies memory in one of the ways that real programs do.
#pragma once
#include "hsa_device.h"

#include <atomic>
#include <chrono>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

constexpr size_t kBufferBytes = 64 * 1024;

// The agents and pools that buffers come from. An index of -1 is the host.
class Memory {
public:
	explicit Memory(const std::vector<Gpu>& gpus) : gpus_(gpus)
	{
		HSA_CHECK(hsa_iterate_agents(find_cpu, this));
		HSA_CHECK(hsa_amd_agent_iterate_memory_pools(cpu_, find_pool, &host_));
		local_.resize(gpus.size());
		for (size_t i = 0; i < gpus.size(); i++) {
			agents_.push_back(gpus[i].agent);
			HSA_CHECK(hsa_amd_agent_iterate_memory_pools(gpus[i].agent, find_pool, &local_[i]));
		}
	}

	int gpus() const { return int(gpus_.size()); }
	const Gpu& gpu(int i) const { return gpus_[size_t(i)]; }
	hsa_agent_t agent(int of) const { return of < 0 ? cpu_ : agents_[size_t(of)]; }

	void* buffer(int of) const
	{
		void* p;
		HSA_CHECK(hsa_amd_memory_pool_allocate(of < 0 ? host_ : local_[size_t(of)], kBufferBytes, 0, &p));
		HSA_CHECK(hsa_amd_agents_allow_access(uint32_t(agents_.size()), agents_.data(), nullptr, p));
		return p;
	}

private:
	const std::vector<Gpu>& gpus_;
	std::vector<hsa_agent_t> agents_;
	hsa_agent_t cpu_{};
	hsa_amd_memory_pool_t host_{};
	std::vector<hsa_amd_memory_pool_t> local_;

	static hsa_status_t find_cpu(hsa_agent_t agent, void* self)
	{
		hsa_device_type_t type;
		HSA_CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
		if (type == HSA_DEVICE_TYPE_CPU && !static_cast<Memory*>(self)->cpu_.handle)
			static_cast<Memory*>(self)->cpu_ = agent;
		return HSA_STATUS_SUCCESS;
	}

	// The first one in which programs may allocate.
	static hsa_status_t find_pool(hsa_amd_memory_pool_t pool, void* out)
	{
		hsa_amd_segment_t segment;
		bool allowed = false;
		HSA_CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
		HSA_CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed));
		if (segment == HSA_AMD_SEGMENT_GLOBAL && allowed && !static_cast<hsa_amd_memory_pool_t*>(out)->handle)
			*static_cast<hsa_amd_memory_pool_t*>(out) = pool;
		return HSA_STATUS_SUCCESS;
	}
};

// Copies on an engine of the caller's choice: since ROCm 5.5. These programs run on
// older runtimes, too, and compile against their headers.
struct Engines {
	using CopyOn = hsa_status_t (*)(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent, size_t bytes,
					uint32_t depends, const hsa_signal_t* on, hsa_signal_t signal, int engine, bool force);
	using Free = hsa_status_t (*)(hsa_agent_t to, hsa_agent_t from, uint32_t* engines);

	CopyOn copy = CopyOn(dlsym(RTLD_DEFAULT, "hsa_amd_memory_async_copy_on_engine"));
	Free free = Free(dlsym(RTLD_DEFAULT, "hsa_amd_memory_copy_engine_status"));
};

class Copier {
public:
	static inline std::atomic<bool> stop{false};
	static inline std::atomic<uint64_t> progress{0};
	static inline const Engines engines;

	// The ways that the runtime has; copiers take them in turn, by their number.
	static unsigned kinds() { return engines.copy && engines.free ? unsigned(kKinds) : unsigned(kEngine); }

	Copier(const Memory& memory, unsigned number, long pace_us)
		: memory_(memory), number_(number), pace_us_(pace_us), gpu_(int(number) % memory.gpus()), peer_((gpu_ + 1) % memory.gpus())
	{
		host_ = memory.buffer(-1);
		other_ = memory.buffer(-1);
		local_ = memory.buffer(gpu_);
		second_ = memory.buffer(gpu_);
		remote_ = memory.buffer(peer_);
		for (hsa_signal_t& s : ring_)
			s = create_signal(0);
		if (kind() == kMixed)
			queue_ = create_queue(memory.gpu(gpu_), 64);
	}

	void start() { thread_ = std::thread([this] { run(); }); }
	void join() { thread_.join(); }
	unsigned id() const { return number_ + 1; }
	uint64_t kernels() const { return kernels_; }

	// thread's id, kind, before and after the call, signal, bytes, direction, from, to, status,
	// and of copies between host memory the runtime's own times, 0: it has none
	void write(FILE* f) const
	{
		for (const Call& c : calls_)
			fprintf(f, "%ld %s %lu %lu %lu %lu %d %d %d %d %lu %lu\n", tid_, names[kind()], c.before_ns, c.after_ns, c.signal, c.bytes,
				c.direction, c.from, c.to, c.status, c.times.start, c.times.end);
	}

private:
	enum Kind { kRearm, kRing, kFresh, kShared, kDevice, kPeer, kHost, kRect, kOdd, kMixed, kEngine, kKinds };
	static inline const char* const names[kKinds] = {"rearm", "ring", "fresh", "shared", "device", "peer",
							 "host", "rect", "odd", "mixed", "engine"};

	struct Call {
		uint64_t before_ns, after_ns, signal, bytes;
		int direction, from, to, status;
		hsa_amd_profiling_async_copy_time_t times;
	};

	const Memory& memory_;
	unsigned number_;
	long pace_us_, tid_ = 0;
	int gpu_, peer_;
	void *host_, *other_, *local_, *second_, *remote_;
	hsa_signal_t ring_[16];
	hsa_queue_t* queue_ = nullptr;
	uint64_t kernels_ = 0;
	std::vector<Call> calls_;
	std::thread thread_;

	Kind kind() const { return Kind(number_ % kinds()); }

	static uint64_t boottime_ns()
	{
		timespec t;
		clock_gettime(CLOCK_BOOTTIME, &t);
		return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
	}

	template <class F>
	void log(hsa_signal_t s, size_t bytes, int from, int to, F call)
	{
		Call c{boottime_ns(), 0, s.handle, bytes, (from >= 0 ? 2 : 0) | (to >= 0 ? 1 : 0), from, to, 0, {}};
		c.status = int(call());
		c.after_ns = boottime_ns();
		calls_.push_back(c);
		progress++;
	}

	// from and to are where the memory is; the agents are what the runtime is told.
	void copy(void* to_p, int to, hsa_agent_t to_agent, void* from_p, int from, hsa_agent_t from_agent, size_t bytes, hsa_signal_t s)
	{
		log(s, bytes, from, to, [&] { return hsa_amd_memory_async_copy(to_p, to_agent, from_p, from_agent, bytes, 0, nullptr, s); });
	}

	void copy(void* to_p, int to, void* from_p, int from, size_t bytes, hsa_signal_t s)
	{
		copy(to_p, to, memory_.agent(to), from_p, from, memory_.agent(from), bytes, s);
	}

	size_t size(uint64_t i) const { return 4 + i * 1028 % (kBufferBytes - 4); }

	void up_or_down(uint64_t i, hsa_signal_t s)
	{
		if (i & 1)
			copy(host_, -1, local_, gpu_, size(i), s);
		else
			copy(local_, gpu_, host_, -1, size(i), s);
	}

	void step(uint64_t i)
	{
		hsa_signal_t s = ring_[i % 16];
		switch (kind()) {
		case kRearm: again(ring_[0], [&](hsa_signal_t one) { up_or_down(i, one); }); break;
		case kRing:
			wait_signal(s);
			hsa_signal_silent_store_relaxed(s, 1);
			up_or_down(i, s);
			break;
		case kFresh: fresh(i); break;
		case kShared: shared(i, s); break;
		case kDevice: again(s, [&](hsa_signal_t one) { copy(second_, gpu_, local_, gpu_, size(i), one); }); break;
		case kPeer: again(s, [&](hsa_signal_t one) { copy(remote_, peer_, local_, gpu_, size(i), one); }); break;
		case kHost: host(i, s); break;
		case kRect: rect(i, s); break;
		case kOdd: odd(i, s); break;
		case kMixed: mixed(i); break;
		case kEngine: engine(i, ring_[i / 4 % 16]); break;
		case kKinds: break;
		}
	}

	template <class F>
	void again(hsa_signal_t s, F copy_on)
	{
		hsa_signal_store_relaxed(s, 1);
		copy_on(s);
		wait_signal(s);
	}

	void fresh(uint64_t i)
	{
		hsa_signal_t s = create_signal(1);
		up_or_down(i, s);
		wait_signal(s);
		HSA_CHECK(hsa_signal_destroy(s));
	}

	// Three copies count one signal down: whose times it shows at last, none can tell.
	void shared(uint64_t i, hsa_signal_t s)
	{
		hsa_signal_store_screlease(s, 3);
		for (uint64_t n = 0; n < 3; n++)
			up_or_down(3 * i + n, s);
		wait_signal(s);
	}

	// No GPU makes it: of its times nobody knows but the runtime, if it takes them.
	void host(uint64_t i, hsa_signal_t s)
	{
		again(s, [&](hsa_signal_t one) { copy(other_, -1, host_, -1, size(i), one); });
		if (hsa_amd_profiling_get_async_copy_time(s, &calls_.back().times) != HSA_STATUS_SUCCESS)
			calls_.back().times = {};
	}

	void rect(uint64_t i, hsa_signal_t s)
	{
		constexpr size_t kPitch = 512, kHeight = 32;
		hsa_pitched_ptr_t on_host{host_, kPitch, kPitch * kHeight}, on_gpu{local_, kPitch, kPitch * kHeight};
		hsa_dim3_t zero{0, 0, 0}, range{uint32_t(4 + i % 64 * 4), uint32_t(1 + i % kHeight), 1};
		bool up = i & 1;
		again(s, [&](hsa_signal_t one) {
			log(one, size_t(range.x) * range.y * range.z, up ? -1 : gpu_, up ? gpu_ : -1, [&] {
				return hsa_amd_memory_async_copy_rect(up ? &on_gpu : &on_host, &zero, up ? &on_host : &on_gpu, &zero, &range,
								      memory_.agent(gpu_), up ? hsaHostToDevice : hsaDeviceToHost, 0, nullptr, one);
			});
		});
	}

	// Calls that the runtime refuses, calls for nothing, and one GPU named for both ends.
	void odd(uint64_t i, hsa_signal_t s)
	{
		hsa_signal_store_relaxed(s, 1);
		if (i % 3 == 0)
			copy(nullptr, gpu_, host_, -1, 64, s);
		if (i % 3 == 1)
			copy(local_, gpu_, host_, -1, 0, s);
		copy(local_, gpu_, memory_.agent(gpu_), host_, -1, memory_.agent(gpu_), size(i), s);
		wait_signal(s);
	}

	// A kernel and copies on one signal, in turn.
	void mixed(uint64_t i)
	{
		hsa_signal_t s = ring_[0];
		again(s, [&](hsa_signal_t one) { up_or_down(i, one); });
		hsa_signal_store_relaxed(s, 1);
		uint64_t index = hsa_queue_add_write_index_screlease(queue_, 1);
		publish_kernel(wait_slot(queue_, index), memory_.gpu(gpu_).kernels[0], tag(uint64_t(id()) << 40 | ++kernels_, 2000), s, true);
		hsa_signal_store_screlease(queue_->doorbell_signal, hsa_signal_value_t(index));
		wait_signal(s);
	}

	// One that the runtime says is free, as HIP asks for them, or else one that can.
	int engine_for(int to, int from) const
	{
		uint32_t free = 0;
		if (engines.free(memory_.agent(to), memory_.agent(from), &free) != HSA_STATUS_SUCCESS || !free)
			return to < 0 ? 2 : 1;
		return int(free & -free);
	}

	void copy_on_engine(void* to_p, int to, void* from_p, int from, size_t bytes, int engine, bool force, hsa_signal_t s)
	{
		log(s, bytes, from, to, [&] {
			return engines.copy(to_p, memory_.agent(to), from_p, memory_.agent(from), bytes, 0, nullptr, s, engine, force);
		});
	}

	// Down, up, and within the GPU by an engine and by a kernel, in turn on one signal; and
	// now and then a call for no engine.
	void engine(uint64_t i, hsa_signal_t s)
	{
		hsa_signal_store_relaxed(s, 1);
		if (i % 5 == 0)
			copy_on_engine(local_, gpu_, host_, -1, 64, 0, false, s);
		if (i % 4 == 0)
			copy_on_engine(host_, -1, local_, gpu_, size(i), engine_for(-1, gpu_), false, s);
		else if (i % 4 == 1)
			copy_on_engine(local_, gpu_, host_, -1, size(i), engine_for(gpu_, -1), false, s);
		else
			copy_on_engine(second_, gpu_, local_, gpu_, size(i), 2, i % 4 == 2, s);
		wait_signal(s);
	}

	void run()
	{
		tid_ = syscall(SYS_gettid);
		for (uint64_t i = 0; !stop; i++) {
			step(i);
			if (pace_us_)
				std::this_thread::sleep_for(std::chrono::microseconds(pace_us_));
		}
		for (hsa_signal_t s : ring_) {
			wait_signal(s);
			HSA_CHECK(hsa_signal_destroy(s));
		}
		if (queue_)
			HSA_CHECK(hsa_queue_destroy(queue_));
	}
};

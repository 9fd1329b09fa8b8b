// Raw HSA: the GPUs, the kernels of a code object, and packets with the simulator's id in them.
#pragma once
#include "code_object.h"

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <mutex>
#include <sched.h>
#include <time.h>
#include <unordered_set>

#define HSA_CHECK(call)                                                              \
	do {                                                                         \
		hsa_status_t status_ = (call);                                       \
		if (status_ != HSA_STATUS_SUCCESS && status_ != HSA_STATUS_INFO_BREAK) { \
			const char* text_ = "";                                      \
			hsa_status_string(status_, &text_);                          \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text_); \
			abort();                                                     \
		}                                                                    \
	} while (0)

inline uint64_t now_ns()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

struct Kernel {
	uint64_t object;
	uint32_t private_bytes, group_bytes;
	std::string name; // of its symbol
};

struct Gpu {
	hsa_agent_t agent;
	std::vector<Kernel> kernels;
};

// hsa_init .. hsa_shut_down.
class Hsa {
public:
	std::vector<Gpu> gpus;

	Hsa(const CodeObject& code, long max_gpus)
	{
		HSA_CHECK(hsa_init());
		HSA_CHECK(hsa_iterate_agents(add_agent, this));
		if (gpus.empty()) {
			fprintf(stderr, "no GPU agent\n");
			exit(1);
		}
		if (max_gpus && gpus.size() > size_t(max_gpus))
			gpus.resize(size_t(max_gpus));
		for (Gpu& g : gpus)
			load(g, code);
	}

	~Hsa()
	{
		for (hsa_executable_t e : executables_)
			HSA_CHECK(hsa_executable_destroy(e));
		for (hsa_code_object_reader_t r : readers_)
			HSA_CHECK(hsa_code_object_reader_destroy(r));
		HSA_CHECK(hsa_shut_down());
	}

	Hsa(const Hsa&) = delete;

private:
	std::vector<hsa_executable_t> executables_;
	std::vector<hsa_code_object_reader_t> readers_;

	static hsa_status_t add_agent(hsa_agent_t agent, void* self)
	{
		hsa_device_type_t type;
		HSA_CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
		if (type == HSA_DEVICE_TYPE_GPU)
			static_cast<Hsa*>(self)->gpus.push_back({agent, {}});
		return HSA_STATUS_SUCCESS;
	}

	static hsa_status_t add_kernel(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t symbol, void* gpu)
	{
		hsa_symbol_kind_t kind;
		Kernel k;
		uint32_t length;
		HSA_CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE, &kind));
		if (kind != HSA_SYMBOL_KIND_KERNEL)
			return HSA_STATUS_SUCCESS;
		HSA_CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &k.object));
		HSA_CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &k.private_bytes));
		HSA_CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &k.group_bytes));
		HSA_CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH, &length));
		k.name.resize(length);
		HSA_CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME, &k.name[0]));
		static_cast<Gpu*>(gpu)->kernels.push_back(k);
		return HSA_STATUS_SUCCESS;
	}

	void load(Gpu& g, const CodeObject& code)
	{
		hsa_code_object_reader_t reader;
		hsa_executable_t executable;
		HSA_CHECK(hsa_code_object_reader_create_from_memory(code.bytes.data(), code.bytes.size(), &reader));
		HSA_CHECK(hsa_executable_create_alt(HSA_PROFILE_BASE, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr, &executable));
		HSA_CHECK(hsa_executable_load_agent_code_object(executable, g.agent, reader, nullptr, nullptr));
		HSA_CHECK(hsa_executable_freeze(executable, nullptr));
		HSA_CHECK(hsa_executable_iterate_agent_symbols(executable, g.agent, add_kernel, &g));
		if (g.kernels.empty()) { // its users divide by the number
			fprintf(stderr, "the runtime lists no kernel of a code object with %zu (%zu bytes)\n", code.kernels.size(), code.bytes.size());
			abort();
		}
		executables_.push_back(executable);
		readers_.push_back(reader);
	}
};

inline hsa_queue_t* create_queue(const Gpu& gpu, long slots, hsa_queue_type_t type = HSA_QUEUE_TYPE_MULTI)
{
	hsa_queue_t* q;
	HSA_CHECK(hsa_queue_create(gpu.agent, uint32_t(slots), type, nullptr, nullptr, 0, 0, &q));
	HSA_CHECK(hsa_amd_profiling_set_profiler_enabled(q, 1));
	return q;
}

inline std::mutex own_signals_mutex;
inline std::unordered_set<uint64_t> own_signals; // all that there ever were

inline hsa_signal_t create_signal(hsa_signal_value_t value)
{
	hsa_signal_t s;
	HSA_CHECK(hsa_signal_create(value, 0, nullptr, &s));
	std::lock_guard<std::mutex> hold(own_signals_mutex);
	own_signals.insert(s.handle);
	return s;
}

// Packets of a ring with a completion signal that this program never made.
inline uint64_t strange_signals(const hsa_queue_t* q)
{
	uint64_t n = 0;
	std::lock_guard<std::mutex> hold(own_signals_mutex);
	for (uint64_t i = 0; i < q->size; i++) {
		auto* words = reinterpret_cast<const uint64_t*>(static_cast<char*>(q->base_address) + i * 64);
		uint64_t handle = __atomic_load_n(words + 7, __ATOMIC_RELAXED);
		n += handle && !own_signals.count(handle);
	}
	return n;
}

// A bounded wait: runtimes have lost wake-ups, and a test must not hang on theirs.
inline void wait_signal(hsa_signal_t s, hsa_wait_state_t state = HSA_WAIT_STATE_BLOCKED)
{
	while (hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_LT, 1, 1000000000, state) >= 1)
		;
}

// A claimed index's slot, once the ring has room for it.
inline void* wait_slot(const hsa_queue_t* q, uint64_t index)
{
	while (index - hsa_queue_load_read_index_scacquire(q) >= q->size)
		sched_yield();
	return static_cast<char*>(q->base_address) + (index & (q->size - 1)) * 64;
}

// reserved2 as the simulator reads it, where reserved0 is the tag: top 16 bits
// duration, low 48 bits id.
constexpr uint16_t kTag = 0x5254;
constexpr uint64_t kDurationUnitNs = 64;
constexpr uint64_t kDurationFromGrid = 0xffff; // grid_size_x microseconds

inline uint64_t tag(uint64_t id, uint64_t duration_ns)
{
	uint64_t units = duration_ns / kDurationUnitNs;
	return (units < kDurationFromGrid ? units : kDurationFromGrid - 1) << 48 | id;
}

// Everything but the first 4 bytes, then these at once: a packet is published by its header.
inline void publish(void* slot, const void* packet, uint16_t header, uint16_t setup)
{
	memcpy(static_cast<char*>(slot) + 4, static_cast<const char*>(packet) + 4, 60);
	__atomic_store_n(static_cast<uint32_t*>(slot), uint32_t(header) | uint32_t(setup) << 16, __ATOMIC_RELEASE);
}

inline uint16_t header_of(hsa_packet_type_t type, bool barrier)
{
	return uint16_t(type << HSA_PACKET_HEADER_TYPE | barrier << HSA_PACKET_HEADER_BARRIER |
			HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
			HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}

inline void publish_kernel(void* slot, const Kernel& k, uint64_t reserved2, hsa_signal_t signal, bool barrier, uint32_t grid = 64,
			   uint16_t reserved0 = kTag)
{
	hsa_kernel_dispatch_packet_t p{};
	p.workgroup_size_x = 64;
	p.workgroup_size_y = p.workgroup_size_z = 1;
	p.grid_size_x = grid;
	p.grid_size_y = p.grid_size_z = 1;
	p.private_segment_size = k.private_bytes;
	p.group_segment_size = k.group_bytes;
	p.kernel_object = k.object;
	p.reserved0 = reserved0;
	p.reserved2 = reserved2;
	p.completion_signal = signal;
	publish(slot, &p, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, barrier), 1);
}

// HSA_AMD_PACKET_TYPE_EXT_KERNEL_DISPATCH, which Debian's headers do not have.
struct ExtendedDispatch {
	uint16_t header;
	uint8_t format, setup;
	uint16_t workgroup[3], reserved0;
	uint32_t clusters_x;
	uint16_t clusters_y, clusters_z;
	uint8_t cluster_size[3], hint;
	uint32_t private_bytes, group_bytes;
	uint64_t kernel_object, kernarg;
	hsa_signal_t dependency, completion;
};
static_assert(sizeof(ExtendedDispatch) == 64, "a packet");
constexpr uint8_t kExtendedFormat = 3;

// The id is in kernarg. shape: some clusters or none, in up to three dimensions.
inline void publish_extended(void* slot, const Kernel& k, uint64_t id, hsa_signal_t signal, hsa_signal_t dependency, bool barrier, uint32_t shape)
{
	ExtendedDispatch p{};
	p.workgroup[0] = 64;
	p.workgroup[1] = p.workgroup[2] = 1;
	p.clusters_x = 1 + (shape & 3);
	p.clusters_y = p.clusters_z = 1;
	for (int i = 0; i < 3; i++)
		p.cluster_size[i] = uint8_t(shape >> (2 + 2 * i) & 3);
	p.private_bytes = k.private_bytes;
	p.group_bytes = k.group_bytes;
	p.kernel_object = k.object;
	p.reserved0 = kTag;
	p.kernarg = id;
	p.dependency = dependency;
	p.completion = signal;
	publish(slot, &p, header_of(HSA_PACKET_TYPE_VENDOR_SPECIFIC, barrier), uint16_t(kExtendedFormat | 3 << 8));
}

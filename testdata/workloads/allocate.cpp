// Allocations and releases of memory from many threads, each in one way: by calls of the HSA runtime
// and by calls of HIP. Each call is logged, to be compared with a trace.
#include "hip_device.h"
#include "held.h"
#include "http.h"
#include "options.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <dlfcn.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <memory>
#include <mutex>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr size_t kBlocks = 5;                  // that a thread holds
constexpr size_t kTooLarge = size_t(1) << 46; // for any memory
constexpr size_t kGranule = size_t(2) << 20;  // of virtual memory

struct Settings {
	long threads = 0, seconds = 0, pace_us = 50, port = 0;
	std::string log;
} settings;

// Where memory comes from: of the first GPU, or the host's.
struct Places {
	hsa_amd_memory_pool_t pools[2] = {};
	hsa_region_t regions[2] = {};

	Places() { hsa_iterate_agents(agent, this); }

private:
	struct Find {
		Places* places;
		int at; // 0: a GPU's
	};

	static hsa_status_t agent(hsa_agent_t a, void* self)
	{
		hsa_device_type_t type;
		hsa_agent_get_info(a, HSA_AGENT_INFO_DEVICE, &type);
		Find find{static_cast<Places*>(self), type != HSA_DEVICE_TYPE_GPU};
		hsa_amd_agent_iterate_memory_pools(a, pool, &find);
		hsa_agent_iterate_regions(a, region, &find);
		return HSA_STATUS_SUCCESS;
	}

	static hsa_status_t pool(hsa_amd_memory_pool_t p, void* found)
	{
		auto find = static_cast<Find*>(found);
		bool allowed = false;
		hsa_amd_memory_pool_get_info(p, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed);
		if (allowed && !find->places->pools[find->at].handle)
			find->places->pools[find->at] = p;
		return HSA_STATUS_SUCCESS;
	}

	static hsa_status_t region(hsa_region_t r, void* found)
	{
		auto find = static_cast<Find*>(found);
		bool allowed = false;
		hsa_region_get_info(r, HSA_REGION_INFO_RUNTIME_ALLOC_ALLOWED, &allowed);
		if (allowed && !find->places->regions[find->at].handle)
			find->places->regions[find->at] = r;
		return HSA_STATUS_SUCCESS;
	}
};

// Since ROCm 6: physical memory for virtual addresses. The program compiles against older headers.
struct Virtual {
	struct Handle {
		uint64_t handle;
	};
	using Create = hsa_status_t (*)(hsa_amd_memory_pool_t pool, size_t bytes, int type, uint64_t flags, Handle* handle);
	using Release = hsa_status_t (*)(Handle handle);

	Create create = Create(dlsym(RTLD_DEFAULT, "hsa_amd_vmem_handle_create"));
	Release release = Release(dlsym(RTLD_DEFAULT, "hsa_amd_vmem_handle_release"));
};

class Allocator {
public:
	static inline std::atomic<bool> stop{false};
	static inline std::atomic<uint64_t> progress{0};

	Allocator(const Places& places, const Virtual& virtual_memory, unsigned number)
		: places_(places), virtual_(virtual_memory), number_(number), way_(Way(number % ways(virtual_memory))), host_(number / kWays & 1)
	{
	}

	static unsigned ways(const Virtual& v) { return v.create && v.release ? unsigned(kWays) : unsigned(kVirtual); }

	void start() { thread_ = std::thread([this] { run(); }); }
	void join() { thread_.join(); }

	// thread's id, way, operation, before and after the call, address, bytes, status
	void write(FILE* f) const
	{
		for (const Call& c : calls_)
			fprintf(f, "%ld %s %s %lu %lu %lu %lu %d\n", tid_, names[way_], c.releases ? "free" : "allocate", c.before_ns, c.after_ns,
				c.address, c.bytes, c.status);
	}

private:
	enum Way { kPool, kRegion, kHipDevice, kHipHost, kVirtual, kWays };
	static inline const char* const names[kWays] = {"pool", "region", "hip-device", "hip-host", "virtual"};

	struct Call {
		uint64_t before_ns, after_ns, address, bytes;
		int status;
		bool releases;
	};

	const Places& places_;
	const Virtual& virtual_;
	unsigned number_;
	Way way_;
	bool host_;
	long tid_ = 0;
	std::vector<Call> calls_;
	std::deque<uint64_t> held_;
	std::thread thread_;

	static uint64_t boottime_ns()
	{
		timespec t;
		clock_gettime(CLOCK_BOOTTIME, &t);
		return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
	}

	int get(size_t bytes, uint64_t* address)
	{
		auto p = reinterpret_cast<void**>(address);
		switch (way_) {
		case kPool: return int(hsa_amd_memory_pool_allocate(places_.pools[host_], bytes, 0, p));
		case kRegion: return int(hsa_memory_allocate(places_.regions[host_], bytes, p));
		case kHipDevice: return int(hipMalloc(p, bytes));
		case kHipHost: return int(hipHostMalloc(p, bytes, 0));
		default: return int(virtual_.create(places_.pools[0], bytes, 0, 0, reinterpret_cast<Virtual::Handle*>(address)));
		}
	}

	int give(uint64_t address)
	{
		auto p = reinterpret_cast<void*>(address);
		switch (way_) {
		case kPool: return int(hsa_amd_memory_pool_free(p));
		case kRegion: return int(hsa_memory_free(p));
		case kHipDevice: return int(hipFree(p));
		case kHipHost: return int(hipHostFree(p));
		default: return int(virtual_.release({address}));
		}
	}

	void keep(const Call& c)
	{
		if (!settings.log.empty())
			calls_.push_back(c);
	}

	void allocate(size_t bytes)
	{
		uint64_t address = 0;
		Call c{boottime_ns(), 0, 0, bytes, 0, false};
		c.status = get(bytes, &address);
		c.after_ns = boottime_ns();
		if (c.status == 0) {
			c.address = address;
			held_.push_back(address);
		}
		keep(c);
	}

	void release(uint64_t address)
	{
		Call c{boottime_ns(), 0, address, 0, 0, true};
		c.status = give(address);
		c.after_ns = boottime_ns();
		keep(c);
	}

	size_t size(uint64_t i) const
	{
		if (way_ == kVirtual)
			return kGranule;
		return size_t(1 + i * 7919 % 300000 + number_);
	}

	void step(uint64_t i)
	{
		bool hsa = way_ == kPool || way_ == kRegion;
		if (hsa && i % 17 == 3)
			allocate(kTooLarge); // fails
		else if (hsa && i % 17 == 5)
			release(0); // is allowed
		else
			allocate(size(i));
		if (held_.size() > kBlocks) {
			release(held_.front());
			held_.pop_front();
		}
		progress++;
		if (settings.pace_us)
			std::this_thread::sleep_for(std::chrono::microseconds(settings.pace_us));
	}

	void run()
	{
		tid_ = syscall(SYS_gettid);
		HIP_CHECK(hipSetDevice(0));
		for (uint64_t i = 0; !stop; i++)
			step(i);
		for (uint64_t address : held_)
			release(address);
	}
};

class End {
public:
	void now()
	{
		std::lock_guard<std::mutex> hold(mutex_);
		come_ = true;
		changed_.notify_all();
	}
	void wait(double seconds)
	{
		std::unique_lock<std::mutex> hold(mutex_);
		changed_.wait_for(hold, std::chrono::duration<double>(seconds), [this] { return come_; });
	}

private:
	std::mutex mutex_;
	std::condition_variable changed_;
	bool come_ = false;
};

void parse(int argc, char** argv)
{
	Options o;
	settings.threads = 10;
	o.number("threads", &settings.threads, "threads; their ways follow each other");
	o.number("pace", &settings.pace_us, "pause after each step, in us");
	o.number("seconds", &settings.seconds, "duration; 0: until /quit");
	o.number("port", &settings.port, "of /health and /quit; 0: any");
	o.text("log", &settings.log, "where the calls go");
	o.parse(argc, argv);
}

void write_log(const std::vector<std::unique_ptr<Allocator>>& allocators)
{
	if (settings.log.empty())
		return;
	FILE* f = fopen(settings.log.c_str(), "w");
	if (!f) {
		perror(settings.log.c_str());
		abort();
	}
	for (auto& a : allocators)
		a->write(f);
	fclose(f);
}

} // namespace

int main(int argc, char** argv)
{
	parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	hold_if_asked();
	HIP_CHECK(hipSetDevice(0));
	HIP_CHECK(hipDeviceSynchronize()); // HIP has initialized the HSA runtime
	hsa_init();
	Places places;
	Virtual virtual_memory;
	std::vector<std::unique_ptr<Allocator>> allocators;
	for (long i = 0; i < settings.threads; i++)
		allocators.push_back(std::make_unique<Allocator>(places, virtual_memory, unsigned(i)));
	End end;
	HttpServer http(settings.port, [&](const std::string& path) -> std::string {
		if (path == "/health")
			return "ok " + std::to_string(Allocator::progress.load()) + "\n";
		if (path != "/quit")
			return "";
		end.now();
		return "bye\n";
	});
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);
	for (auto& a : allocators)
		a->start();
	end.wait(settings.seconds ? double(settings.seconds) : 1e9);
	Allocator::stop = true;
	for (auto& a : allocators)
		a->join();
	write_log(allocators);
	printf("{\"threads\":[]}\n");
	return 0;
}

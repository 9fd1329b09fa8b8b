// Calls of HIP's and of HSA's functions from many threads, which the program logs itself to be compared
// with a trace; and threads that do what is dangerous for a tool that stands between.
#include "call_log.h"
#include "hip_device.h"
#include "hip_table_tool.h"
#include "held.h"
#include "http.h"
#include "loader.h"
#include "options.h"
#include "second_runtime.h"

#include <condition_variable>
#include <csetjmp>
#include <csignal>
#include <dlfcn.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <memory>
#include <mutex>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>

template <>
struct IsHandle<hsa_signal_t> : std::true_type {};

namespace {

struct Settings {
	long threads = 3, hsa_threads = 1, signals = 0, forks = 0, leavers = 0, waiters = 0, longs = 0, churn = 0, pace_us = 100, seconds = 0, port = 0;
	std::string log, code_object;
} settings;

constexpr unsigned kLongThread = 200; // the first id of those who launch long kernels

// --- the functions that are logged ------------------------------------------

#define FUNCTIONS(F)                                                                                                         \
	F(hipDeviceGetAttribute) F(hipDeviceSynchronize) F(hipEventCreate) F(hipEventDestroy) F(hipEventQuery) F(hipEventRecord) F(hipEventSynchronize) \
	F(hipFree) F(hipGetDevice) F(hipGetDeviceCount) F(hipGetErrorString) F(hipGetLastError) F(hipHostFree) F(hipHostMalloc) \
	F(hipMalloc) F(hipMemGetInfo) F(hipMemcpyAsync) F(hipMemsetAsync) F(hipModuleGetFunction) F(hipModuleLaunchKernel)      \
	F(hipModuleLoadData) F(hipModuleUnload) F(hipPeekAtLastError) F(hipSetDevice) F(hipDeviceGetStreamPriorityRange)        \
	F(hipStreamCreateWithFlags) F(hipStreamCreateWithPriority) F(hipStreamDestroy) F(hipStreamQuery) F(hipStreamSynchronize) \
	F(hsa_agent_get_info) F(hsa_amd_agent_iterate_memory_pools) F(hsa_amd_memory_pool_allocate) F(hsa_amd_memory_pool_free) \
	F(hsa_amd_memory_pool_get_info) F(hsa_amd_pointer_info) F(hsa_init) F(hsa_iterate_agents) F(hsa_shut_down)              \
	F(hsa_signal_create) F(hsa_signal_destroy) F(hsa_signal_load_relaxed) F(hsa_signal_store_relaxed) F(hsa_signal_wait_scacquire) F(hsa_system_get_info)

#define NUMBER(function) k_##function,
#define NAME(function) #function,
enum Function : uint16_t { FUNCTIONS(NUMBER) kFunctions };
const char* const names[] = {FUNCTIONS(NAME)};

CallLog* calls;

// The arguments are evaluated twice.
#define LOGGED_AS(flags, callee, function, ...) calls->call(k_##function, flags, [&] { return callee(__VA_ARGS__); }, __VA_ARGS__)
#define LOGGED(function, ...) LOGGED_AS(0, function, function, __VA_ARGS__)
#define LOGGED_PLAIN(flags, function) calls->call(k_##function, flags, [] { return function(); }) // without arguments
#define BY_POINTER(function, ...) LOGGED_AS(kByPointer, pointer_to_##function, function, __VA_ARGS__)

// The library's functions as Triton or ctypes call them.
template <class F>
F* looked_up(const char* name)
{
	return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

const auto pointer_to_hipGetDeviceCount = looked_up<decltype(hipGetDeviceCount)>("hipGetDeviceCount");
const auto pointer_to_hipEventRecord = looked_up<decltype(hipEventRecord)>("hipEventRecord");
const auto pointer_to_hsa_system_get_info = looked_up<decltype(hsa_system_get_info)>("hsa_system_get_info");

#define MUST_BE(expected, call)                                                                                    \
	do {                                                                                                       \
		auto status_ = (call);                                                                             \
		if (status_ != (expected)) {                                                                       \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, int(status_));               \
			abort();                                                                                   \
		}                                                                                                  \
	} while (0)
#define HIP_MUST(call) MUST_BE(hipSuccess, call)
#define HSA_MUST(call) MUST_BE(HSA_STATUS_SUCCESS, call)

// --- the end, and pauses ----------------------------------------------------

std::mutex& mutex = *new std::mutex; // at exit() threads still use them
std::condition_variable& changed = *new std::condition_variable;
std::atomic<bool> stop{false}, exits{false};
long released = 0; // how often the waiters have been released

void notify(void (*change)())
{
	std::lock_guard<std::mutex> hold(mutex);
	change();
	changed.notify_all();
}

std::atomic<long> parked{0}; // threads that do no more

void pause_us(long us)
{
	if (exits) {
		parked++;
		for (;;)
			pause();
	}
	if (us)
		std::this_thread::sleep_for(std::chrono::microseconds(us));
}

// --- a mix of HIP's functions -----------------------------------------------

// SIGALRM to one thread, again and again. The handler calls a function that takes none of HIP's locks:
// a thread that waits for one may not wait for another.
class Alarms {
public:
	Alarms()
	{
		sigevent event{};
		event.sigev_notify = SIGEV_THREAD_ID;
		event.sigev_signo = SIGALRM;
		event._sigev_un._tid = pid_t(syscall(SYS_gettid));
		if (timer_create(CLOCK_MONOTONIC, &event, &timer_))
			abort();
		itimerspec every{{0, 700000}, {0, 700000}};
		timer_settime(timer_, 0, &every, nullptr);
	}
	~Alarms()
	{
		sigset_t alarm;
		sigemptyset(&alarm);
		sigaddset(&alarm, SIGALRM);
		pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
		timer_delete(timer_);
	}

	static void handle(int)
	{
		int error = errno;
		if (!LOGGED_AS(kInHandler, hipGetErrorString, hipGetErrorString, hipErrorInvalidValue))
			abort();
		errno = error;
	}

private:
	timer_t timer_;
};

class Mixer {
public:
	Mixer(const Device& device, unsigned id) : device_(device), id_(id) {}

	void prepare()
	{
		HIP_MUST(LOGGED(hipSetDevice, device_.ordinal));
		HIP_MUST(LOGGED(hipStreamCreateWithFlags, &stream_, hipStreamNonBlocking));
		HIP_MUST(LOGGED(hipHostMalloc, &host_, kBytes, 0u));
		HIP_MUST(LOGGED(hipMalloc, &data_, kBytes));
		HIP_MUST(LOGGED(hipEventCreate, &event_));
	}

	void step(uint64_t i, bool alarmed)
	{
		int device = -1, count = 0;
		HIP_MUST(LOGGED(hipGetDevice, &device));
		HIP_MUST(BY_POINTER(hipGetDeviceCount, &count));
		HIP_MUST(LOGGED(hipMemsetAsync, data_, int(i & 255), size_t(256), stream_));
		for (uint64_t k = 0; k <= i % 4; k++)
			launch();
		HIP_MUST(LOGGED(hipMemcpyAsync, host_, static_cast<const void*>(data_), kBytes - i % 64, hipMemcpyDeviceToHost, stream_));
		if (i & 1)
			HIP_MUST(BY_POINTER(hipEventRecord, event_, stream_));
		else
			HIP_MUST(LOGGED(hipEventRecord, event_, stream_));
		(void)LOGGED(hipEventQuery, event_);
		if (i % 3 == 0)
			HIP_MUST(LOGGED(hipEventSynchronize, event_));
		(void)LOGGED(hipStreamQuery, stream_);
		HIP_MUST(LOGGED(hipStreamSynchronize, stream_));
		refused(i, alarmed);
		if (i % 4 == 1)
			allocate(i);
		if (i % 16 == 7)
			renew();
	}

	void finish()
	{
		HIP_MUST(LOGGED(hipStreamSynchronize, stream_));
		HIP_MUST(LOGGED(hipEventDestroy, event_));
		HIP_MUST(LOGGED(hipFree, data_));
		HIP_MUST(LOGGED(hipHostFree, host_));
		HIP_MUST(LOGGED(hipStreamDestroy, stream_));
	}

	void run(bool alarmed)
	{
		std::unique_ptr<Alarms> alarms;
		prepare();
		if (alarmed)
			alarms = std::make_unique<Alarms>();
		for (uint64_t i = 0; !stop; i++) {
			step(i, alarmed);
			pause_us(settings.pace_us);
		}
		alarms.reset();
		finish();
	}

	unsigned id() const { return id_; }
	uint64_t kernels() const { return sequence_; }

private:
	static constexpr size_t kBytes = 65536;

	const Device& device_;
	unsigned id_;
	std::atomic<uint64_t> sequence_ = 0; // kernels; main() looks at it
	hipStream_t stream_ = nullptr;
	hipEvent_t event_ = nullptr;
	void *host_ = nullptr, *data_ = nullptr;
	Arguments arguments_;

	void launch()
	{
		arguments_.id = kernarg_id(id_, ++sequence_);
		hipFunction_t f = device_.kernels[sequence_ % device_.kernels.size()];
		unsigned blocks = 1 + unsigned(sequence_ % 8);
		HIP_MUST(LOGGED(hipModuleLaunchKernel, f, blocks, 1u, 1u, 64u, 1u, 1u, unsigned(sequence_ % 2 * 1024), stream_, arguments_.pointers,
				static_cast<void**>(nullptr)));
	}

	// Calls that fail, and what tells so.
	void refused(uint64_t i, bool alarmed)
	{
		hipFunction_t f;
		void* p = nullptr;
		if (i % 2 == 0)
			MUST_BE(hipErrorInvalidDevice, LOGGED(hipSetDevice, 99));
		else if (i % 4 == 1)
			MUST_BE(hipErrorOutOfMemory, LOGGED(hipMalloc, &p, size_t(1) << 60));
		else
			MUST_BE(hipErrorNotFound, LOGGED(hipModuleGetFunction, &f, device_.module, "no such kernel"));
		(void)LOGGED_PLAIN(0, hipPeekAtLastError);
		hipError_t last = LOGGED_PLAIN(0, hipGetLastError);
		if (!alarmed) // or else this function is the handler's
			(void)LOGGED(hipGetErrorString, last);
	}

	void allocate(uint64_t i)
	{
		int value = 0;
		void* p = nullptr;
		size_t free = 0, total = 0;
		HIP_MUST(LOGGED(hipMalloc, &p, size_t(4096) + i % 1000 * 16));
		HIP_MUST(LOGGED(hipFree, p));
		HIP_MUST(LOGGED(hipMemGetInfo, &free, &total));
		HIP_MUST(LOGGED(hipDeviceGetAttribute, &value, hipDeviceAttributeMultiprocessorCount, device_.ordinal));
	}

	// Another stream and another event.
	void renew()
	{
		HIP_MUST(LOGGED(hipStreamDestroy, stream_));
		HIP_MUST(LOGGED(hipStreamCreateWithFlags, &stream_, hipStreamNonBlocking));
		HIP_MUST(LOGGED(hipEventDestroy, event_));
		HIP_MUST(LOGGED(hipEventCreate, &event_));
	}
};

// --- HSA beside it ----------------------------------------------------------

struct Found {
	hsa_agent_t gpu{};
	hsa_amd_memory_pool_t pool{};
};

hsa_status_t find_gpu(hsa_agent_t agent, void* found)
{
	hsa_device_type_t type;
	HSA_MUST(LOGGED(hsa_agent_get_info, agent, HSA_AGENT_INFO_DEVICE, static_cast<void*>(&type)));
	if (type == HSA_DEVICE_TYPE_GPU)
		static_cast<Found*>(found)->gpu = agent;
	return HSA_STATUS_SUCCESS;
}

hsa_status_t find_pool(hsa_amd_memory_pool_t pool, void* found)
{
	bool allowed = false;
	HSA_MUST(LOGGED(hsa_amd_memory_pool_get_info, pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, static_cast<void*>(&allowed)));
	if (allowed)
		static_cast<Found*>(found)->pool = pool;
	return HSA_STATUS_SUCCESS;
}

Found find()
{
	Found found;
	HSA_MUST(LOGGED(hsa_iterate_agents, find_gpu, static_cast<void*>(&found)));
	HSA_MUST(LOGGED(hsa_amd_agent_iterate_memory_pools, found.gpu, find_pool, static_cast<void*>(&found)));
	return found;
}

void direct(long pace_us)
{
	HSA_MUST(LOGGED_PLAIN(0, hsa_init));
	Found found = find();
	for (uint64_t i = 0; !stop; i++) {
		hsa_signal_t signal{};
		void* p = nullptr;
		uint32_t queues = 0;
		uint64_t now = 0;
		hsa_amd_pointer_info_t info{};
		info.size = sizeof info;
		HSA_MUST(LOGGED(hsa_agent_get_info, found.gpu, HSA_AGENT_INFO_QUEUES_MAX, static_cast<void*>(&queues)));
		HSA_MUST(LOGGED(hsa_signal_create, hsa_signal_value_t(i % 2), 0u, static_cast<const hsa_agent_t*>(nullptr), &signal));
		(void)LOGGED(hsa_signal_wait_scacquire, signal, HSA_SIGNAL_CONDITION_LT, hsa_signal_value_t(1), uint64_t(1), HSA_WAIT_STATE_ACTIVE);
		LOGGED(hsa_signal_store_relaxed, signal, hsa_signal_value_t(i));
		MUST_BE(hsa_signal_value_t(i), LOGGED(hsa_signal_load_relaxed, signal));
		HSA_MUST(LOGGED(hsa_signal_destroy, signal));
		HSA_MUST(LOGGED(hsa_amd_memory_pool_allocate, found.pool, size_t(4096), 0u, &p));
		HSA_MUST(LOGGED(hsa_amd_pointer_info, static_cast<const void*>(p), &info, static_cast<void* (*)(size_t)>(nullptr),
				static_cast<uint32_t*>(nullptr), static_cast<hsa_agent_t**>(nullptr)));
		HSA_MUST(LOGGED(hsa_amd_memory_pool_free, p));
		HSA_MUST(LOGGED(hsa_system_get_info, HSA_SYSTEM_INFO_TIMESTAMP, static_cast<void*>(&now)));
		HSA_MUST(BY_POINTER(hsa_system_get_info, HSA_SYSTEM_INFO_TIMESTAMP, static_cast<void*>(&now)));
		MUST_BE(HSA_STATUS_ERROR_INVALID_ARGUMENT, LOGGED(hsa_agent_get_info, found.gpu, hsa_agent_info_t(0x7ffffff0), static_cast<void*>(&queues)));
		if (i % 8 == 0)
			find();
		pause_us(pace_us);
	}
	HSA_MUST(LOGGED_PLAIN(0, hsa_shut_down));
}

// --- what is dangerous ------------------------------------------------------

// A child of a process with many threads may call what takes no lock. hipGetDevice takes one of HIP's,
// and waits for ever if another thread had it at the fork.
void forks()
{
	while (!stop) {
		int device = -1, status = -1;
		pid_t child = fork();
		if (!child)
			_exit(hipGetErrorString(hipErrorInvalidValue) ? 0 : 1);
		if (child < 0 || waitpid(child, &status, 0) != child || status) {
			fprintf(stderr, "child %d: status %#x\n", child, status);
			abort();
		}
		HIP_MUST(LOGGED(hipGetDevice, &device));
		pause_us(20000);
	}
}

// Calls that are left by an exception, a jump or the thread's end. HSA's functions forward what their
// callbacks throw. But pthread_exit in a callback would end the process, because they catch everything,
// and a cancellation inside hipModuleLoad (at open) is one that HIP does not survive.
thread_local jmp_buf out;

hsa_status_t jump(hsa_agent_t, void*) { longjmp(out, 1); }
hsa_status_t throw_up(hsa_agent_t, void*) { throw 1; }
hsa_status_t leave(hsa_agent_t, void*) { syscall(SYS_exit, 0); __builtin_unreachable(); }
void iterate(hsa_status_t (*callback)(hsa_agent_t, void*)) { (void)LOGGED(hsa_iterate_agents, callback, static_cast<void*>(nullptr)); }

void jump_out()
{
	if (!setjmp(out))
		iterate(jump);
}

void leaves()
{
	while (!stop) {
		int device;
		uint64_t now;
		jump_out();
		try {
			iterate(throw_up);
			abort();
		} catch (int) {
		}
		std::thread([] { iterate(leave); }).join();
		HSA_MUST(LOGGED(hsa_system_get_info, HSA_SYSTEM_INFO_TIMESTAMP, static_cast<void*>(&now)));
		HIP_MUST(LOGGED(hipGetDevice, &device));
		pause_us(2000);
	}
}

// In a call of HSA's that ends only when it is told to, by /release.
class Waiter {
public:
	void run()
	{
		while (!stop)
			step();
	}

	// Returns when all are in the next such call, or soon.
	static void release()
	{
		std::unique_lock<std::mutex> hold(mutex);
		released++;
		waiting_ = 0;
		changed.notify_all();
		changed.wait(hold, [] { return waiting_ == settings.waiters || stop; });
	}

private:
	static inline long waiting_ = 0;

	void step()
	{
		long turn = 0;
		hsa_signal_t signal{};
		HSA_MUST(LOGGED(hsa_signal_create, hsa_signal_value_t(1), 0u, static_cast<const hsa_agent_t*>(nullptr), &signal));
		{
			std::lock_guard<std::mutex> hold(mutex);
			turn = released;
			waiting_++;
			changed.notify_all();
		}
		std::thread setter([turn, signal] {
			std::unique_lock<std::mutex> hold(mutex);
			changed.wait(hold, [turn] { return released > turn || stop; });
			hsa_signal_store_screlease(signal, 0);
		});
		(void)LOGGED(hsa_signal_wait_scacquire, signal, HSA_SIGNAL_CONDITION_LT, hsa_signal_value_t(1), UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
		setter.join();
		HSA_MUST(LOGGED(hsa_signal_destroy, signal));
	}
};

// Nearly always in a long call of HIP's: it waits for kernels of 17 ms, on a queue that streams of
// another priority do not share. (Other threads wait for these in hipFree.)
void waits_long(const Device& device, unsigned id, uint64_t* kernels)
{
	hipStream_t stream;
	int least, greatest;
	Arguments arguments;
	HIP_MUST(LOGGED(hipDeviceGetStreamPriorityRange, &least, &greatest));
	HIP_MUST(LOGGED(hipStreamCreateWithPriority, &stream, unsigned(hipStreamNonBlocking), greatest));
	while (!stop) {
		arguments.id = kernarg_id(id, ++*kernels);
		HIP_MUST(LOGGED(hipModuleLaunchKernel, device.kernels[0], 1u << 25, 2u, 1u, 64u, 1u, 1u, 0u, stream, arguments.pointers,
				static_cast<void**>(nullptr)));
		HIP_MUST(LOGGED(hipStreamSynchronize, stream));
	}
	HIP_MUST(LOGGED(hipStreamDestroy, stream));
}

// Threads that come and go.
void churn(const Device& device)
{
	while (!stop) {
		std::thread([&device] {
			Mixer m(device, 0);
			int count;
			m.prepare();
			HIP_MUST(BY_POINTER(hipGetDeviceCount, &count));
			m.finish();
		}).join();
		pause_us(3000);
	}
}

// --- the dynamic linker, other tools, exit() -----------------------------------

void call_in_plugin(Plugin::Call get_device)
{
	int device = -1;
	HIP_MUST(LOGGED_AS(kInPlugin, get_device, hipGetDevice, &device));
	pause_us(1000);
}

// exit() while other threads call. Its handler calls HIP, and waits until the others call no more: HIP
// does not survive calls during its own end. Waiters stay in their calls of HSA to the end.
void exit_now()
{
	atexit([] {
		int device = -1;
		while (parked < settings.threads + settings.hsa_threads)
			usleep(1000);
		HIP_MUST(LOGGED(hipGetDevice, &device));
		HIP_MUST(LOGGED_PLAIN(0, hipDeviceSynchronize));
		printf("the exit handler has called HIP\n");
		fflush(stdout);
	});
	exit(7);
}

Walker& walker = *new Walker; // at exit() its thread may still be in a callback
OtherHooks other_hooks;
HIPTableTool hip_table_tool;
SecondRuntime second_runtime;
std::unique_ptr<Plugin> plugin;

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = default_code_object(argv[0]);
	o.number("threads", &settings.threads, "threads with HIP's functions");
	o.number("hsa-threads", &settings.hsa_threads, "threads with HSA's");
	o.number("signals", &settings.signals, "of the threads with HIP's: so many have a signal handler that calls HIP");
	o.number("forks", &settings.forks, "threads that fork a child, which calls HIP");
	o.number("leavers", &settings.leavers, "threads that leave calls by exceptions, jumps and the end of threads");
	o.number("waiters", &settings.waiters, "threads in a call of HSA's that only /release ends");
	o.number("longs", &settings.longs, "threads in long calls of HIP's");
	o.number("churn", &settings.churn, "threads that start threads");
	o.number("pace", &settings.pace_us, "pause after each step, in us");
	o.number("seconds", &settings.seconds, "duration; 0: until /quit");
	o.number("port", &settings.port, "of /health, /release and /quit; 0: any");
	o.text("log", &settings.log, "where the calls go");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
}

std::string answer(const std::string& path)
{
	if (path == "/health")
		return "ok " + std::to_string(calls->calls()) + "\n";
	if (path == "/release") {
		Waiter::release();
		return "released\n";
	}
	for (std::string text : {plugin->answer(path), walker.answer(path), other_hooks.answer(path), hip_table_tool.answer(path),
				 second_runtime.answer(path)})
		if (!text.empty())
			return text;
	if (path == "/exit")
		notify([] { exits = true; });
	else if (path != "/quit")
		return "";
	else
		notify([] { stop = true; });
	return "bye\n";
}

// As Device's constructor does it. These calls are HIP's first.
void load(Device& device, const CodeObject& code)
{
	HIP_MUST(LOGGED(hipSetDevice, device.ordinal));
	HIP_MUST(LOGGED(hipModuleLoadData, &device.module, static_cast<const void*>(code.bytes.data())));
	for (const std::string& name : code.kernels) {
		hipFunction_t f;
		HIP_MUST(LOGGED(hipModuleGetFunction, &f, device.module, name.c_str()));
		device.kernels.push_back(f);
	}
}

// The handler's function is called once before: a first call may need the dynamic linker.
void handle_alarms()
{
	struct sigaction action{};
	(void)LOGGED(hipGetErrorString, hipSuccess);
	action.sa_handler = Alarms::handle;
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, nullptr);
}

void print_counts(const std::vector<std::unique_ptr<Mixer>>& mixers, const std::vector<uint64_t>& longs)
{
	const char* comma = "";
	printf("{\"threads\":[");
	for (auto& m : mixers) {
		printf("%s{\"id\":%u,\"count\":%lu}", comma, m->id(), m->kernels());
		comma = ",";
	}
	for (size_t i = 0; i < longs.size(); i++) {
		printf("%s{\"id\":%zu,\"count\":%lu}", comma, kLongThread + i, longs[i]);
		comma = ",";
	}
	printf("]}\n");
}

} // namespace

int main(int argc, char** argv)
{
	parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	hold_if_asked();
	static CallLog log(settings.log, names, kFunctions);
	calls = &log;
	CodeObject code(settings.code_object);
	Device device;
	load(device, code);
	handle_alarms();

	plugin = std::make_unique<Plugin>(beside(argv[0], "plugin.so"), call_in_plugin);
	HttpServer http(settings.port, answer);
	std::vector<std::unique_ptr<Mixer>> mixers;
	std::vector<uint64_t> longs(size_t(settings.longs)); // kernels
	std::vector<std::thread> threads;
	for (unsigned i = 1; i <= settings.threads; i++)
		mixers.push_back(std::make_unique<Mixer>(device, i));
	for (auto& m : mixers)
		threads.emplace_back([&m] { m->run(long(m->id()) <= settings.signals); });
	for (long i = 0; i < settings.hsa_threads; i++)
		threads.emplace_back(direct, settings.pace_us);
	for (long i = 0; i < settings.forks; i++)
		threads.emplace_back(forks);
	for (long i = 0; i < settings.leavers; i++)
		threads.emplace_back(leaves);
	for (long i = 0; i < settings.waiters; i++)
		threads.emplace_back([] { Waiter().run(); });
	for (long i = 0; i < settings.longs; i++)
		threads.emplace_back(waits_long, std::cref(device), kLongThread + unsigned(i), &longs[size_t(i)]);
	for (long i = 0; i < settings.churn; i++)
		threads.emplace_back([&device] { churn(device); });
	for (auto& m : mixers) // the first launch loads much
		while (m->kernels() == 0)
			pause_us(100);
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);

	{
		std::unique_lock<std::mutex> hold(mutex);
		changed.wait_for(hold, std::chrono::seconds(settings.seconds ? settings.seconds : 1000000000), [] { return stop || exits; });
		stop = !exits;
		changed.notify_all();
	}
	if (exits)
		exit_now();
	walker.let_go();
	plugin->close();
	for (std::thread& t : threads)
		t.join();
	HIP_MUST(LOGGED(hipModuleUnload, device.module));
	print_counts(mixers, longs);
	return 0;
}

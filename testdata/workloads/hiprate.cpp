// How fast HIP launches. `run STREAMS SECONDS` on standard input, one thread
// per stream, is answered by one line of JSON; `call FUNCTION THREADS SECONDS` calls a function that does
// little, 1,000 times each 2 ms; `quit` ends it.
#include "hip_device.h"
#include "marked.h"
#include "options.h"
#include "rccl.h"
#include "samples.h"

#include <hsa/hsa.h>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr int kBurst = 32, kBurstsPerSync = 8;

struct Lane {
	hipStream_t stream;
	Arguments arguments;
	uint64_t thread, sequence = 0, launched = 0;
	Samples samples;

	Lane(Device& device, uint64_t thread) : thread(thread), device_(device)
	{
		HIP_CHECK(hipSetDevice(device.ordinal));
		HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
	}
	~Lane() { HIP_CHECK(hipStreamDestroy(stream)); }

	void run(uint64_t end)
	{
		HIP_CHECK(hipSetDevice(device_.ordinal));
		samples = {};
		launched = 0;
		do {
			for (int b = 0; b < kBurstsPerSync; b++)
				burst();
			HIP_CHECK(hipStreamSynchronize(stream));
		} while (now_ns() < end);
	}

private:
	Device& device_;

	void burst()
	{
		uint64_t began = now_ns();
		for (int i = 0; i < kBurst; i++) {
			arguments.id = kernarg_id(thread, ++sequence);
			HIP_CHECK(hipModuleLaunchKernel(device_.kernels[sequence % device_.kernels.size()], 8, 1, 1, 256, 1, 1, 0, stream, arguments.pointers, nullptr));
		}
		launched += kBurst;
		samples.add(double(now_ns() - began) / kBurst);
	}
};

using Lanes = std::vector<std::unique_ptr<Lane>>;

void run(Lanes& lanes, size_t streams, double seconds)
{
	std::vector<std::thread> threads;
	uint64_t cpu = cpu_ns(), began = now_ns(), end = began + uint64_t(seconds * 1e9);
	for (size_t s = 0; s < streams; s++)
		threads.emplace_back([&lane = *lanes[s], end] { lane.run(end); });
	Samples samples;
	uint64_t launched = 0;
	for (size_t s = 0; s < streams; s++) {
		threads[s].join();
		samples.add(lanes[s]->samples);
		launched += lanes[s]->launched;
	}
	double wall = double(now_ns() - began) / 1e9;
	printf("{\"streams\":%zu,\"seconds\":%.3f,\"launches\":%lu,\"rate\":%.0f,\"cpu_ns\":%lu,%s}\n", streams, wall, launched,
	       double(launched) / wall, cpu_ns() - cpu, samples.json().c_str());
	fflush(stdout);
}

constexpr int kCalls = 1000;

using Call = std::function<void()>; // makes kCalls calls

template <typename F> Call repeated(F call)
{
	return [call] {
		for (int i = 0; i < kCalls; i++)
			call();
	};
}

hsa_signal_t created_signal()
{
	hsa_signal_t signal{};
	if (hsa_signal_create(1, 0, nullptr, &signal) != HSA_STATUS_SUCCESS)
		abort();
	return signal;
}

// By the word of a command.
std::map<std::string, Call> calls(const std::string& roctx)
{
	std::map<std::string, Call> all = {
		{"hip", repeated([] { int device; HIP_CHECK(hipGetDevice(&device)); })},
		{"hsa", repeated([] { uint16_t version; hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &version); })},
		{"signal", repeated([signal = created_signal()] { hsa_signal_load_relaxed(signal); })},
		{"rccl", repeated([] { int version; ncclGetVersion(&version); })},
		{"memory", repeated([] { void* p; HIP_CHECK(hipMalloc(&p, 4096)); HIP_CHECK(hipFree(p)); })},
	};
	if (void* library = dlopen(roctx.c_str(), RTLD_NOW)) {
		auto mark = reinterpret_cast<void (*)(const char*)>(dlsym(library, "roctxMarkA"));
		if (mark)
			all["mark"] = repeated([mark] { mark("step"); });
	}
	return all;
}

// Pauses let a recorder's worker keep up: the cost of a call is measured, not that of a full buffer.
void call_often(uint64_t end, const Call& many, Samples& samples)
{
	do {
		uint64_t began = now_ns();
		many();
		samples.add(double(now_ns() - began) / kCalls);
		std::this_thread::sleep_for(std::chrono::milliseconds(2));
	} while (now_ns() < end);
}

void call(Lanes& lanes, const Call& many, size_t count, double seconds)
{
	lanes[0]->run(0); // some launches: a recording without any would be empty
	std::vector<Samples> each(count);
	std::vector<std::thread> threads;
	uint64_t cpu = cpu_ns(), end = now_ns() + uint64_t(seconds * 1e9);
	for (Samples& samples : each)
		threads.emplace_back([&samples, &many, end] { call_often(end, many, samples); });
	Samples all;
	for (size_t i = 0; i < count; i++) {
		threads[i].join();
		all.add(each[i]);
	}
	printf("{\"threads\":%zu,\"cpu_ns\":%lu,%s}\n", count, cpu_ns() - cpu, all.json().c_str());
	fflush(stdout);
}

bool obey(Lanes& lanes, const std::map<std::string, Call>& calls, const std::string& line)
{
	std::istringstream words(line);
	std::string verb, function;
	size_t count = 0;
	double seconds = 0;
	words >> verb;
	if (verb == "quit")
		return false;
	if (verb == "call")
		words >> function;
	words >> count >> seconds;
	if (verb == "run" && count >= 1 && count <= lanes.size() && seconds > 0) {
		run(lanes, count, seconds);
	} else if (verb == "call" && calls.count(function) && count >= 1 && count <= 64 && seconds > 0) {
		call(lanes, calls.at(function), count, seconds);
	} else {
		printf("{\"error\":\"run STREAMS SECONDS | call hip|hsa|signal|rccl|mark|memory THREADS SECONDS | quit\"}\n");
		fflush(stdout);
	}
	return true;
}

} // namespace

int main(int argc, char** argv)
{
	Options o;
	long streams = 16;
	std::string code_object = default_code_object(argv[0]), roctx = beside(argv[0], "../roctx/libroctx64.so.4");
	o.number("streams", &streams, "created, over all GPUs");
	o.text("code-object", &code_object, "kernels");
	o.text("roctx", &roctx, "ROCTx's library");
	o.parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);

	CodeObject code(code_object);
	int count;
	HIP_CHECK(hipGetDeviceCount(&count));
	std::vector<std::unique_ptr<Device>> devices;
	for (int d = 0; d < count; d++)
		devices.push_back(std::make_unique<Device>(d, code));
	Lanes lanes;
	for (long s = 0; s < streams; s++)
		lanes.push_back(std::make_unique<Lane>(*devices[size_t(s) % devices.size()], uint64_t(s) + 1));
	const std::map<std::string, Call> functions = calls(roctx);
	printf("ready pid=%d\n", getpid());
	fflush(stdout);

	for (std::string line; std::getline(std::cin, line) && obey(lanes, functions, line);)
		;
	lanes.clear();
	return 0;
}

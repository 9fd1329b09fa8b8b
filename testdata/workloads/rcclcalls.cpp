// Kernels and calls of RCCL's functions by several threads, which log the calls to be compared with a trace.
// The calls are in collectives.so, which is loaded before HIP is used, as a program that is linked with RCCL has it, or when
// /load is asked for.
#include "collectives.h"
#include "hip_device.h"
#include "held.h"
#include "http.h"
#include "options.h"

#include <chrono>
#include <condition_variable>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <sys/prctl.h>
#include <thread>

namespace {

struct Settings {
	long threads = 3, late = 0, pace_us = 100, seconds = 0, port = 0;
	std::string log, code_object, module;
} settings;

const char* const names[] = {FUNCTIONS(NAME)};

std::mutex mutex;
std::condition_variable changed;
std::atomic<bool> stop{false};
std::atomic<uint64_t> kernels{0};
CallLog* calls;

struct Module {
	decltype(collectives_step)* step;
	decltype(collectives_finish)* finish;
	decltype(collectives_calls)* calls;
};
std::atomic<const Module*> module{nullptr};

template <class F>
void look_up(void* handle, const char* name, F** function)
{
	*function = handle ? reinterpret_cast<F*>(dlsym(handle, name)) : nullptr;
	if (!*function) {
		fprintf(stderr, "%s\n", dlerror());
		abort();
	}
}

void load()
{
	static Module loaded;
	void* handle = dlopen(settings.module.c_str(), RTLD_NOW | RTLD_GLOBAL);
	look_up(handle, "collectives_step", &loaded.step);
	look_up(handle, "collectives_finish", &loaded.finish);
	look_up(handle, "collectives_calls", &loaded.calls);
	module = &loaded;
}

long at_work = 0; // threads

void started()
{
	std::lock_guard<std::mutex> hold(mutex);
	at_work++;
	changed.notify_all();
}

class Worker {
public:
	Worker(const Device& device, unsigned id) : device_(device), id_(id) {}

	void run()
	{
		HIP_CHECK(hipSetDevice(device_.ordinal));
		HIP_CHECK(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
		Rank rank{calls, int(id_) - 1, int(settings.threads), stream_, &stream_, &arguments_};
		do {
			launch();
			HIP_CHECK(hipStreamSynchronize(stream_));
			if (const Module* m = module)
				m->step(&rank);
			if (steps_++ == 0)
				started();
			std::this_thread::sleep_for(std::chrono::microseconds(settings.pace_us));
		} while (!stop);
		if (const Module* m = module)
			m->finish(&rank);
		HIP_CHECK(hipStreamDestroy(stream_));
	}

	unsigned id() const { return id_; }
	uint64_t launched() const { return sequence_; }

private:
	const Device& device_;
	unsigned id_;
	uint64_t sequence_ = 0, steps_ = 0;
	hipStream_t stream_ = nullptr;
	Arguments arguments_;

	void launch()
	{
		arguments_.id = kernarg_id(id_, ++sequence_);
		hipFunction_t f = device_.kernels[sequence_ % device_.kernels.size()];
		HIP_CHECK(hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, stream_, arguments_.pointers, nullptr));
		kernels++;
	}
};

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = default_code_object(argv[0]);
	settings.module = beside(argv[0], "collectives.so");
	o.number("threads", &settings.threads, "threads, each of them a rank");
	o.number("late", &settings.late, "1: RCCL is loaded by /load only");
	o.number("pace", &settings.pace_us, "pause after each step, in us");
	o.number("seconds", &settings.seconds, "duration from the first step of every thread on; 0: until /quit");
	o.number("port", &settings.port, "of /health, /load and /quit; 0: any");
	o.text("log", &settings.log, "where the calls go");
	o.text("code-object", &settings.code_object, "kernels");
	o.text("module", &settings.module, "what calls RCCL");
	o.parse(argc, argv);
}

std::string answer(const std::string& path)
{
	if (path == "/health")
		return "ok " + std::to_string(kernels + calls->calls()) + "\n";
	if (path == "/load") {
		load();
		return "loaded\n";
	}
	if (path != "/quit")
		return "";
	std::lock_guard<std::mutex> hold(mutex);
	stop = true;
	changed.notify_all();
	return "bye\n";
}

void wait_for_the_end()
{
	std::unique_lock<std::mutex> hold(mutex);
	changed.wait(hold, [] { return stop || at_work == settings.threads; });
	changed.wait_for(hold, std::chrono::seconds(settings.seconds ? settings.seconds : 1000000000), [] { return stop.load(); });
	stop = true;
}

void print_counts(const std::vector<std::unique_ptr<Worker>>& workers)
{
	const char* comma = "";
	printf("{\"threads\":[");
	for (auto& w : workers) {
		printf("%s{\"id\":%u,\"count\":%lu}", comma, w->id(), w->launched());
		comma = ",";
	}
	printf("]}\n");
}

} // namespace

int main(int argc, char** argv)
{
	parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	static CallLog log(settings.log, names, kFunctions);
	calls = &log;
	if (!settings.late)
		load();
	hold_if_asked();
	CodeObject code(settings.code_object);
	Device device(0, code);

	HttpServer http(settings.port, answer);
	std::vector<std::unique_ptr<Worker>> workers;
	std::vector<std::thread> threads;
	for (unsigned i = 1; i <= settings.threads; i++)
		workers.push_back(std::make_unique<Worker>(device, i));
	for (auto& w : workers)
		threads.emplace_back([&w] { w->run(); });
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);

	wait_for_the_end();
	for (std::thread& t : threads)
		t.join();
	HIP_CHECK(hipModuleUnload(device.module));
	if (const Module* m = module; m && m->calls() != log.calls()) {
		fprintf(stderr, "RCCL has had %lu calls of %lu\n", m->calls(), log.calls());
		return 1;
	}
	print_counts(workers);
	return 0;
}

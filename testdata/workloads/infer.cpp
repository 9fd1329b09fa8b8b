// A small HIP server in C++: a thread that prepares, launches, waits for the GPU and for another thread, and sleeps.
// It logs when each of its phases began and ended (CLOCK_BOOTTIME), to be compared with what a trace says about
// the times in which the GPU was idle.
#include "hip_device.h"
#include "http.h"
#include "options.h"

#include <condition_variable>
#include <mutex>
#include <sys/prctl.h>

namespace {

struct Phase {
	const char* function;
	uint64_t begin_ns, end_ns;
};

constexpr int kKernels = 12;

std::atomic<bool> stop{false};
std::atomic<uint64_t> launched{0};
std::mutex lock;
std::condition_variable changed;
int asked, answered;
std::vector<Phase> phases;
Device* device;
hipStream_t stream;

uint64_t boottime_ns()
{
	timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

__attribute__((noinline)) uint64_t work(uint64_t rounds)
{
	volatile uint64_t sum = 0;
	for (uint64_t i = 0; i < rounds; i++)
		sum = sum + i * i;
	return sum;
}

// The names of the phases are those of these functions, which must have frames of their own.
#define PHASE extern "C" __attribute__((noinline, noclone))

} // namespace

PHASE void phase_prepare()
{
	work(1500000);
	asm volatile("");
}

PHASE void phase_launch()
{
	for (int i = 0; i < kKernels; i++) {
		Arguments arguments;
		arguments.id = kernarg_id(1, ++launched);
		HIP_CHECK(hipModuleLaunchKernel(device->kernels[size_t(i) % device->kernels.size()], 8, 1, 1, 256, 1, 1, 0, stream, arguments.pointers, nullptr));
	}
}

PHASE void phase_synchronize()
{
	HIP_CHECK(hipStreamSynchronize(stream));
	asm volatile("");
}

PHASE void phase_wait()
{
	std::unique_lock<std::mutex> held(lock);
	asked++;
	changed.notify_all();
	changed.wait(held, [] { return answered == asked; });
}

PHASE void phase_sleep()
{
	usleep(1500);
	asm volatile("");
}

namespace {

void phase(const char* name, void (*function)())
{
	uint64_t begin = boottime_ns();
	function();
	phases.push_back({name, begin, boottime_ns()});
}

void serve_steps()
{
	pthread_setname_np(pthread_self(), "server");
	while (!stop) {
		phase("phase_prepare", phase_prepare);
		phase("phase_launch", phase_launch);
		phase("phase_synchronize", phase_synchronize);
		phase("phase_wait", phase_wait);
		phase("phase_sleep", phase_sleep);
	}
	std::lock_guard<std::mutex> held(lock);
	asked = -1;
	changed.notify_all();
}

void answer()
{
	pthread_setname_np(pthread_self(), "answers");
	for (;;) {
		std::unique_lock<std::mutex> held(lock);
		changed.wait(held, [] { return asked < 0 || answered < asked; });
		if (asked < 0)
			return;
		held.unlock();
		work(1000000);
		held.lock();
		answered++;
		changed.notify_all();
	}
}

} // namespace

int main(int argc, char** argv)
{
	std::string log, code_object = default_code_object(argv[0]);
	long port = 0;
	Options o;
	o.number("port", &port, "of /health and /quit; 0: any");
	o.text("log", &log, "where the phases go");
	o.text("code-object", &code_object, "kernels");
	o.parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	CodeObject code(code_object);
	Device gpu(0, code);
	device = &gpu;
	HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
	HttpServer http(port, [&](const std::string& path) -> std::string {
		if (path == "/health")
			return "ok " + std::to_string(launched.load()) + "\n";
		if (path != "/quit")
			return "";
		stop = true;
		return "bye\n";
	});
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);
	std::thread answers(answer), server(serve_steps);
	server.join();
	answers.join();
	if (FILE* f = log.empty() ? nullptr : fopen(log.c_str(), "w")) {
		for (const Phase& p : phases)
			fprintf(f, "%s %lu %lu\n", p.function, p.begin_ns, p.end_ns);
		fclose(f);
	}
	printf("{\"threads\":[{\"id\":1,\"count\":%lu}],\"total\":%lu}\n", launched.load(), launched.load());
	return 0;
}

// A server-like inference program over HIP: worker threads, streams, graphs,
// events, copies, bursts with gaps between them, and threads that only wait.
#include "busy_threads.h"
#include "decode_graph.h"
#include "hip_device.h"
#include "http.h"
#include "options.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <sys/prctl.h>
#include <thread>

namespace {

struct Settings {
	long gpus = 0, threads = 6, streams = 8, rate = 100, kernels = 48, idle_ms = 0, seconds = 0, busy = 0, port = 0, copy_bytes = 4096;
	std::string graph = "on", copy_within = "off", code_object;
} settings;

constexpr int kTimedKernels = 4, kGraphKernels = 16;
constexpr unsigned kGenerateThread = 200; // the id of those who launch for /generate

std::atomic<uint64_t> launches{0}, graph_kernels{0}, requests{0};

// When to stop; sleeping workers wake up at once.
class Stop {
public:
	void now()
	{
		std::lock_guard<std::mutex> hold(mutex_);
		stopped_ = true;
		changed_.notify_all();
	}
	bool sleep(std::chrono::nanoseconds t)
	{
		std::unique_lock<std::mutex> hold(mutex_);
		return changed_.wait_for(hold, t, [this] { return stopped_; });
	}
	void wait() // the thread that waits in a futex without a time-out
	{
		std::unique_lock<std::mutex> hold(mutex_);
		changed_.wait(hold, [this] { return stopped_; });
	}

private:
	std::mutex mutex_;
	std::condition_variable changed_;
	bool stopped_ = false;
} stop_all;

class Latencies {
public:
	void add(uint64_t ns)
	{
		std::lock_guard<std::mutex> hold(mutex_);
		if (ns_.size() < 1 << 20)
			ns_.push_back(ns);
	}
	// p50 and p99 since the last call.
	std::pair<uint64_t, uint64_t> take()
	{
		std::vector<uint64_t> v;
		{
			std::lock_guard<std::mutex> hold(mutex_);
			v.swap(ns_);
		}
		std::sort(v.begin(), v.end());
		return v.empty() ? std::make_pair(0ul, 0ul) : std::make_pair(v[v.size() / 2], v[v.size() * 99 / 100]);
	}

private:
	std::mutex mutex_;
	std::vector<uint64_t> ns_;
} latencies;

// Who launches: the id of its kernels is thread << 40 | sequence.
struct Launcher {
	unsigned thread;
	uint64_t sequence = 0;
	Arguments arguments;

	explicit Launcher(unsigned thread) : thread(thread) {}
	void** next()
	{
		arguments.id = kernarg_id(thread, ++sequence);
		return arguments.pointers;
	}
};

// A stream with its buffers, events and graph. One request at a time.
class Lane {
public:
	Lane(Device& device) : device_(device), copy_bytes_(size_t(settings.copy_bytes))
	{
		HIP_CHECK(hipSetDevice(device.ordinal));
		HIP_CHECK(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
		HIP_CHECK(hipHostMalloc(reinterpret_cast<void**>(&in_), copy_bytes_, 0));
		HIP_CHECK(hipHostMalloc(reinterpret_cast<void**>(&out_), copy_bytes_, 0));
		HIP_CHECK(hipMalloc(&data_, copy_bytes_));
		HIP_CHECK(hipMalloc(&result_, copy_bytes_));
		HIP_CHECK(hipEventCreate(&copied_));
		for (int i = 0; i < kTimedKernels; i++) {
			HIP_CHECK(hipEventCreate(&started_[i]));
			HIP_CHECK(hipEventCreate(&stopped_[i]));
		}
		if (settings.graph == "on")
			capture();
	}

	~Lane()
	{
		HIP_CHECK(hipSetDevice(device_.ordinal));
		HIP_CHECK(hipStreamSynchronize(stream_));
		if (graph_) {
			HIP_CHECK(hipGraphExecDestroy(executable_));
			HIP_CHECK(hipGraphDestroy(graph_));
		}
		for (int i = 0; i < kTimedKernels; i++) {
			HIP_CHECK(hipEventDestroy(started_[i]));
			HIP_CHECK(hipEventDestroy(stopped_[i]));
		}
		HIP_CHECK(hipEventDestroy(copied_));
		HIP_CHECK(hipFree(result_));
		HIP_CHECK(hipFree(data_));
		HIP_CHECK(hipHostFree(out_));
		HIP_CHECK(hipHostFree(in_));
		HIP_CHECK(hipStreamDestroy(stream_));
	}

	void request(Launcher& who, long kernels)
	{
		std::lock_guard<std::mutex> hold(mutex_);
		uint64_t began = now_ns();
		HIP_CHECK(hipSetDevice(device_.ordinal));
		memset(in_, int(number_ % 251), copy_bytes_);
		HIP_CHECK(hipMemcpyAsync(data_, in_, copy_bytes_, hipMemcpyHostToDevice, stream_));
		HIP_CHECK(hipEventRecord(copied_, stream_));
		bool timed = number_ % 3 == 0;
		launch(who, kernels, timed);
		if (graph_ && number_ % 4 == 0) {
			HIP_CHECK(hipGraphLaunch(executable_, stream_));
			graph_kernels += kGraphKernels;
		}
		bool within = settings.copy_within == "on";
		if (within)
			HIP_CHECK(hipMemcpyAsync(result_, data_, copy_bytes_, hipMemcpyDeviceToDevice, stream_));
		HIP_CHECK(hipMemcpyAsync(out_, within ? result_ : data_, copy_bytes_, hipMemcpyDeviceToHost, stream_));
		HIP_CHECK(hipStreamSynchronize(stream_));
		check(timed && kernels >= kTimedKernels);
		number_++;
		requests++;
		latencies.add(now_ns() - began);
	}

private:
	Device& device_;
	size_t copy_bytes_;
	std::mutex mutex_;
	hipStream_t stream_;
	char *in_, *out_;
	void *data_, *result_;
	hipEvent_t copied_, started_[kTimedKernels], stopped_[kTimedKernels];
	hipGraph_t graph_ = nullptr;
	hipGraphExec_t executable_ = nullptr;
	uint64_t number_ = 0;

	// What is captured has its arguments baked in: these kernels have no id.
	void capture()
	{
		HIP_CHECK(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
		for (int i = 0; i < kGraphKernels; i++)
			launch_decode_kernel(i, stream_);
		HIP_CHECK(hipGetLastError());
		HIP_CHECK(hipStreamEndCapture(stream_, &graph_));
		HIP_CHECK(hipGraphInstantiate(&executable_, graph_, nullptr, nullptr, 0));
	}

	hipFunction_t kernel(long i) const { return device_.kernels[size_t(i) % device_.kernels.size()]; }

	// The first kernels of a timed request have start and stop events: signals of HIP's own.
	void launch(Launcher& who, long kernels, bool timed)
	{
		for (long i = 0; i < kernels; i++) {
			if (timed && i < kTimedKernels && kernels >= kTimedKernels)
				HIP_CHECK(hipExtModuleLaunchKernel(kernel(i), 8 * 256, 1, 1, 256, 1, 1, 0, stream_, who.next(), nullptr, started_[i], stopped_[i], 0));
			else
				HIP_CHECK(hipModuleLaunchKernel(kernel(i), 8, 1, 1, 256, 1, 1, 0, stream_, who.next(), nullptr));
		}
		launches += uint64_t(kernels);
	}

	void check(bool timed) const
	{
		if (memcmp(in_, out_, copy_bytes_)) {
			fprintf(stderr, "request %lu: the copies lost data\n", number_);
			abort();
		}
		for (int i = 0; timed && i < kTimedKernels; i++) {
			float ms = -1;
			// The stream has ended, but HIP marks an event of a kernel complete in a callback of its own.
			HIP_CHECK(hipEventSynchronize(stopped_[i]));
			HIP_CHECK(hipEventElapsedTime(&ms, started_[i], stopped_[i]));
			if (ms <= 0 || ms > 1000) {
				fprintf(stderr, "request %lu: kernel %d took %f ms\n", number_, i, double(ms));
				abort();
			}
		}
	}
};

using Lanes = std::vector<std::unique_ptr<Lane>>;

std::atomic<bool> paused{false}; // the workers begin no burst

// Bursts of requests at the wanted mean rate; with --idle, a long gap after every 32 bursts.
void work(unsigned index, Lanes& lanes, Launcher& who)
{
	constexpr long kBurst = 4;
	auto gap = std::chrono::nanoseconds(1000000000 / settings.rate * kBurst);
	auto next = std::chrono::steady_clock::now();
	for (unsigned long burst = 0;; burst++) {
		while (paused)
			if (stop_all.sleep(std::chrono::milliseconds(1)))
				return;
		for (long r = 0; r < kBurst; r++) {
			size_t lane = (index + (burst * kBurst + size_t(r)) * size_t(settings.threads)) % lanes.size();
			lanes[lane]->request(who, settings.kernels);
		}
		next += gap;
		auto now = std::chrono::steady_clock::now();
		if (settings.idle_ms && burst % 32 == 31)
			next = now + std::chrono::milliseconds(settings.idle_ms);
		else if (next < now)
			next = now; // late: do not catch up
		if (stop_all.sleep(next - now))
			return;
	}
}

std::string stats(uint64_t started)
{
	auto [p50, p99] = latencies.take();
	char text[256];
	snprintf(text, sizeof text,
		 "{\"launches\":%lu,\"graph_kernels\":%lu,\"requests\":%lu,\"p50_ns\":%lu,\"p99_ns\":%lu,\"uptime_ns\":%lu}\n",
		 launches.load(), graph_kernels.load(), requests.load(), p50, p99, now_ns() - started);
	return text;
}

void print_counts(const std::vector<std::unique_ptr<Launcher>>& launchers)
{
	printf("{\"threads\":[");
	for (size_t i = 0; i < launchers.size(); i++)
		printf("%s{\"id\":%u,\"count\":%lu}", i ? "," : "", launchers[i]->thread, launchers[i]->sequence);
	printf("],\"total\":%lu,\"graph_kernels\":%lu,\"requests\":%lu}\n", launches.load(), graph_kernels.load(), requests.load());
	fflush(stdout);
}

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = default_code_object(argv[0]);
	o.number("gpus", &settings.gpus, "GPUs to use; 0: all");
	o.number("threads", &settings.threads, "worker threads");
	o.number("streams", &settings.streams, "streams, over all GPUs");
	o.number("rate", &settings.rate, "requests per second and thread");
	o.number("kernels", &settings.kernels, "kernels per request");
	o.number("copy-bytes", &settings.copy_bytes, "copied to the GPU and back per request; newer HIP copies little by kernels");
	o.text("copy-within", &settings.copy_within, "on: a request copies within the GPU, too, which HIP does by kernels");
	o.text("graph", &settings.graph, "on: every fourth request replays a graph too");
	o.number("idle", &settings.idle_ms, "a gap of so many ms after every 32 bursts");
	o.number("seconds", &settings.seconds, "duration; 0: until /quit or SIGTERM");
	o.number("busy-threads", &settings.busy, "threads without GPU work");
	o.number("port", &settings.port, "of the HTTP server; 0: any");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
	if (settings.rate < 1 || settings.threads < 1 || settings.threads > 100 || settings.streams < 1) {
		fprintf(stderr, "serve: rate, threads and streams must be positive, threads at most 100\n");
		exit(2);
	}
}

// SIGTERM and /quit are one way out; all threads have SIGTERM blocked. Being
// stopped and continued is none (EINTR): the time begins again.
void wait_for_end(const sigset_t& end)
{
	timespec limit{settings.seconds, 0};
	while (sigtimedwait(&end, nullptr, settings.seconds ? &limit : nullptr) < 0 && errno == EINTR)
		;
}

} // namespace

int main(int argc, char** argv)
{
	sigset_t end;
	uint64_t started = now_ns();

	parse(argc, argv);
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &end, nullptr);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor

	CodeObject code(settings.code_object);
	int count;
	HIP_CHECK(hipGetDeviceCount(&count));
	if (settings.gpus && settings.gpus < count)
		count = int(settings.gpus);
	std::vector<std::unique_ptr<Device>> devices;
	for (int d = 0; d < count; d++)
		devices.push_back(std::make_unique<Device>(d, code));
	Lanes lanes;
	for (long s = 0; s < settings.streams; s++)
		lanes.push_back(std::make_unique<Lane>(*devices[size_t(s) % devices.size()]));

	std::vector<std::unique_ptr<Launcher>> launchers;
	for (unsigned t = 1; t <= settings.threads; t++)
		launchers.push_back(std::make_unique<Launcher>(t));
	launchers.push_back(std::make_unique<Launcher>(kGenerateThread));
	{
		BusyThreads busy(settings.busy);
		std::thread forever([] { stop_all.wait(); });
		HttpServer http(settings.port, [&](const std::string& path) -> std::string {
			if (path == "/health")
				return "ok " + std::to_string(launches) + " " + std::to_string(requests) + "\n";
			if (path == "/stats")
				return stats(started);
			if (path == "/pause" || path == "/resume") {
				paused = path == "/pause";
				return "ok\n";
			}
			if (path.compare(0, 9, "/generate") == 0) {
				long n = query_number(path, "kernels", settings.kernels);
				lanes[0]->request(*launchers.back(), n);
				return "generated " + std::to_string(n) + "\n";
			}
			if (path != "/quit")
				return "";
			kill(getpid(), SIGTERM);
			return "bye\n";
		});
		printf("ready pid=%d port=%d\n", getpid(), http.port());
		fflush(stdout);

		std::vector<std::thread> workers;
		for (unsigned t = 0; t < settings.threads; t++)
			workers.emplace_back([&, t] { work(t, lanes, *launchers[t]); });
		wait_for_end(end);
		stop_all.now();
		for (std::thread& w : workers)
			w.join();
		forever.join();
	}
	lanes.clear();
	for (auto& d : devices) {
		HIP_CHECK(hipSetDevice(d->ordinal));
		HIP_CHECK(hipModuleUnload(d->module));
	}
	print_counts(launchers);
	return 0;
}

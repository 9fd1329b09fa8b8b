// Threads with nested ROCTx ranges, marks, and ranges that another thread ends, around kernel
// launches. RTL_ROCTX names ROCTx's library. Each call is logged, to be compared with a trace.
#include "hip_device.h"
#include "held.h"
#include "http.h"
#include "marked.h"
#include "options.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <sys/prctl.h>
#include <thread>

namespace {

struct Settings {
	long threads = 4, pace_us = 200, depth = 3, seconds = 0, port = 0;
	std::string tool = "off", log, code_object;
} settings;

std::atomic<bool> stop{false};
std::atomic<uint64_t> steps{0};

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

// One thread. Ranges that it starts are stopped by the next one.
class Worker {
public:
	uint64_t launched = 0;

	Worker(Roctx& roctx, Device& device, unsigned id) : id(id), device_(device), roctx_(roctx), marker_(roctx, !settings.log.empty())
	{
		HIP_CHECK(hipSetDevice(device.ordinal));
		HIP_CHECK(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
	}
	~Worker() { HIP_CHECK(hipStreamDestroy(stream_)); }

	const unsigned id;
	std::atomic<uint64_t> given{0}; // a range to stop; 0: none

	void begin(Worker& next)
	{
		thread_ = std::thread([this, &next] {
			pthread_setname_np(pthread_self(), ("marker " + std::to_string(id)).c_str());
			HIP_CHECK(hipSetDevice(device_.ordinal));
			marker_.begin();
			while (!stop) {
				marked_step(next);
				usleep(useconds_t(settings.pace_us));
			}
			HIP_CHECK(hipStreamSynchronize(stream_));
		});
	}
	void join() { thread_.join(); }
	void write(FILE* f) const { marker_.write(f); }
	size_t calls() const { return marker_.calls().size(); }

private:
	static constexpr uint64_t kUnwaited = 64; // kernels: HIP keeps a command's memory until its stream is waited for

	Device& device_;
	Roctx& roctx_;
	Marker marker_;
	hipStream_t stream_;
	Arguments arguments_;
	std::thread thread_;

	void step(Worker& next)
	{
		marker_.push();
		nested(long(launched % uint64_t(settings.depth)));
		if (uint64_t range = given.exchange(0))
			marker_.stop(range);
		uint64_t none = 0, range = marker_.start();
		if (!next.given.compare_exchange_strong(none, range))
			marker_.stop(range);
		marker_.pop();
		steps++;
	}

	void marked_step(Worker& next)
	{
		std::shared_lock<std::shared_mutex> hold(roctx_.in_use);
		if (roctx_.is_open())
			step(next);
	}

	void nested(long depth)
	{
		marker_.mark();
		if (depth > 0) {
			marker_.push();
			nested(depth - 1);
			marker_.pop();
			return;
		}
		arguments_.id = kernarg_id(id, ++launched);
		HIP_CHECK(hipModuleLaunchKernel(device_.kernels[launched % device_.kernels.size()], 8, 1, 1, 256, 1, 1, 0, stream_, arguments_.pointers, nullptr));
		if (launched % kUnwaited == 0)
			HIP_CHECK(hipStreamSynchronize(stream_));
	}
};

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = default_code_object(argv[0]);
	o.number("threads", &settings.threads, "threads");
	o.number("depth", &settings.depth, "most ranges within a thread's outer one");
	o.number("pace", &settings.pace_us, "pause after each step, in us");
	o.number("seconds", &settings.seconds, "duration; 0: until /quit");
	o.number("port", &settings.port, "of /health and /quit; 0: any");
	o.text("tool", &settings.tool, "on: a callback is registered first");
	o.text("log", &settings.log, "where the calls go");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
}

using Workers = std::vector<std::unique_ptr<Worker>>;

// The last line says how many calls there were, and how many the registered tool saw.
void write_log(const Workers& workers)
{
	if (settings.log.empty())
		return;
	FILE* f = fopen(settings.log.c_str(), "w");
	if (!f) {
		perror(settings.log.c_str());
		abort();
	}
	size_t calls = 0;
	uint64_t seen = 0;
	for (auto& w : workers) {
		w->write(f);
		calls += w->calls();
	}
	for (auto& n : Roctx::seen)
		seen += n;
	fprintf(f, "tool %zu %lu\n", calls, seen);
	fclose(f);
}

} // namespace

int main(int argc, char** argv)
{
	parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	const char* path = getenv("RTL_ROCTX");
	Roctx roctx(path ? path : "libroctx64.so.4");
	if (settings.tool == "on")
		roctx.register_tool();
	hold_if_asked();
	CodeObject code(settings.code_object);
	Device device(0, code);
	Workers workers;
	for (long i = 0; i < settings.threads; i++)
		workers.push_back(std::make_unique<Worker>(roctx, device, unsigned(i) + 1));
	End end;
	HttpServer http(settings.port, [&](const std::string& path) -> std::string {
		if (path == "/health")
			return "ok " + std::to_string(steps.load()) + "\n";
		if (path == "/tool/enter") {
			roctx.register_tool();
			return "entered\n";
		}
		if (path == "/roctx/close") {
			roctx.close();
			return "closed\n";
		}
		if (path == "/roctx/open") {
			roctx.open();
			return "opened\n";
		}
		if (path != "/quit")
			return "";
		end.now();
		return "bye\n";
	});
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);
	for (size_t i = 0; i < workers.size(); i++)
		workers[i]->begin(*workers[(i + 1) % workers.size()]);
	end.wait(settings.seconds ? double(settings.seconds) : 1e9);
	stop = true;
	for (auto& w : workers)
		w->join();
	write_log(workers);
	uint64_t total = 0;
	printf("{\"threads\":[");
	for (auto& w : workers) {
		printf("%s{\"id\":%u,\"count\":%lu}", total ? "," : "", w->id, w->launched);
		total += w->launched;
	}
	printf("],\"total\":%lu}\n", total);
	return 0;
}

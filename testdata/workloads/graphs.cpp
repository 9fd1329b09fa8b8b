// Graphs that are captured, instantiated and launched again and again, streams that wait for events of other
// streams, and kernels on every kind of stream, by several threads. The log has each call; an entry "graph" says
// which kernels an executable graph has, and when it was instantiated.
#include "call_log.h"
#include "decode_graph.h"
#include "hip_device.h"
#include "held.h"
#include "http.h"
#include "options.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <sys/prctl.h>
#include <thread>

namespace {

struct Settings {
	long threads = 3, graphs = 2, nodes = 6, branches = 1, renew = 0, pace_us = 1000, seconds = 0, port = 0;
	std::string log, code_object;
} settings;

#define FUNCTIONS(F)                                                                                         \
	F(graph) F(hipEventRecord) F(hipEventSynchronize) F(hipGraphExecDestroy) F(hipGraphInstantiate)     \
	F(hipGraphLaunch) F(hipMemcpyAsync) F(hipModuleLaunchKernel) F(hipStreamSynchronize) F(hipStreamWaitEvent)

#define NUMBER(function) k_##function,
#define NAME(function) #function,
enum Function : uint16_t { FUNCTIONS(NUMBER) kFunctions };
const char* const names[] = {FUNCTIONS(NAME)};

CallLog* calls;

// The arguments are evaluated twice.
#define LOGGED(function, ...) HIP_CHECK(calls->call(k_##function, 0, [&] { return function(__VA_ARGS__); }, __VA_ARGS__))

std::mutex mutex;
std::condition_variable changed;
std::atomic<bool> stop{false};

// A graph and its executable form. Kernel i of a branch is launch_decode_kernel(first + i); if there are several
// branches, kernel first follows them.
class Graph {
public:
	Graph(unsigned first, unsigned nodes, unsigned branches, hipStream_t stream) : first_(first), nodes_(nodes), branches_(branches)
	{
		capture(stream);
		instantiate();
	}

	~Graph()
	{
		LOGGED(hipGraphExecDestroy, executable_);
		HIP_CHECK(hipGraphDestroy(graph_));
	}

	void launch(hipStream_t stream) { LOGGED(hipGraphLaunch, executable_, stream); }

	void renew()
	{
		LOGGED(hipGraphExecDestroy, executable_);
		instantiate();
	}

private:
	unsigned first_, nodes_, branches_;
	hipGraph_t graph_ = nullptr;
	hipGraphExec_t executable_ = nullptr;

	void capture(hipStream_t stream)
	{
		std::vector<hipStream_t> others(branches_ - 1);
		std::vector<hipEvent_t> joins(branches_ - 1);
		hipEvent_t fork;
		HIP_CHECK(hipEventCreate(&fork));
		HIP_CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
		HIP_CHECK(hipEventRecord(fork, stream));
		add(stream);
		for (unsigned i = 0; i < others.size(); i++) {
			HIP_CHECK(hipStreamCreateWithFlags(&others[i], hipStreamNonBlocking));
			HIP_CHECK(hipEventCreate(&joins[i]));
			HIP_CHECK(hipStreamWaitEvent(others[i], fork, 0));
			add(others[i]);
			HIP_CHECK(hipEventRecord(joins[i], others[i]));
			HIP_CHECK(hipStreamWaitEvent(stream, joins[i], 0));
		}
		if (!others.empty())
			launch_decode_kernel(int(first_), stream); // HIP 5.2 demands one last node
		HIP_CHECK(hipGetLastError());
		HIP_CHECK(hipStreamEndCapture(stream, &graph_));
		HIP_CHECK(hipEventDestroy(fork));
		for (unsigned i = 0; i < others.size(); i++) {
			HIP_CHECK(hipEventDestroy(joins[i]));
			HIP_CHECK(hipStreamDestroy(others[i]));
		}
	}

	void add(hipStream_t stream)
	{
		for (unsigned i = 0; i < nodes_; i++)
			launch_decode_kernel(int(first_ + i), stream);
	}

	void instantiate()
	{
		LOGGED(hipGraphInstantiate, &executable_, graph_, static_cast<hipGraphNode_t*>(nullptr), static_cast<char*>(nullptr), size_t(0));
		calls->call(k_graph, 0, [] {}, executable_, first_, nodes_, branches_);
	}
};

// An event that one thread records and another one waits for; HIP 5.2 crashes if they do so at the same time.
struct Event {
	hipEvent_t handle;
	std::mutex mutex;

	Event() { HIP_CHECK(hipEventCreate(&handle)); }
	~Event() { HIP_CHECK(hipEventDestroy(handle)); }

	void record(hipStream_t stream)
	{
		std::lock_guard<std::mutex> hold(mutex);
		LOGGED(hipEventRecord, handle, stream);
	}

	void make_wait(hipStream_t stream)
	{
		std::lock_guard<std::mutex> hold(mutex);
		LOGGED(hipStreamWaitEvent, stream, handle, 0u);
	}

	void synchronize()
	{
		std::lock_guard<std::mutex> hold(mutex);
		LOGGED(hipEventSynchronize, handle);
	}
};

// A thread with two streams; the second one waits for the first one, and for the last thread's.
class Worker {
public:
	Worker(const Device& device, unsigned id, Event& own, Event& last) : device_(device), id_(id), own_(own), last_(last) {}

	void run()
	{
		prepare();
		for (uint64_t i = 0; !stop; i++) {
			step(i);
			if (settings.pace_us)
				std::this_thread::sleep_for(std::chrono::microseconds(settings.pace_us));
		}
		finish();
	}

	unsigned id() const { return id_; }
	uint64_t kernels() const { return sequence_; }

private:
	static constexpr size_t kBytes = 1 << 16;

	const Device& device_;
	unsigned id_;
	std::atomic<uint64_t> sequence_ = 0; // kernels; main() looks at it
	Event &own_, &last_;
	hipStream_t first_ = nullptr, second_ = nullptr;
	void *from_ = nullptr, *to_ = nullptr;
	std::vector<std::unique_ptr<Graph>> graphs_;
	Arguments arguments_;

	void prepare()
	{
		HIP_CHECK(hipSetDevice(device_.ordinal));
		HIP_CHECK(hipStreamCreateWithFlags(&first_, hipStreamNonBlocking));
		HIP_CHECK(hipStreamCreateWithFlags(&second_, hipStreamNonBlocking));
		HIP_CHECK(hipMalloc(&from_, kBytes));
		HIP_CHECK(hipMalloc(&to_, kBytes));
		for (unsigned g = 0; g < settings.graphs; g++)
			graphs_.push_back(std::make_unique<Graph>(g, unsigned(settings.nodes) + g, unsigned(settings.branches), first_));
	}

	void launch(hipStream_t stream)
	{
		arguments_.id = kernarg_id(id_, ++sequence_);
		LOGGED(hipModuleLaunchKernel, device_.kernels[sequence_ % device_.kernels.size()], 4u, 1u, 1u, 64u, 1u, 1u, 0u, stream, arguments_.pointers,
		       static_cast<void**>(nullptr));
	}

	void step(uint64_t i)
	{
		launch(first_);
		if (!graphs_.empty())
			graphs_[i % graphs_.size()]->launch(i % 4 < 2 ? first_ : second_);
		own_.record(first_);
		(i % 2 ? own_ : last_).make_wait(second_);
		launch(second_);
		LOGGED(hipMemcpyAsync, to_, static_cast<const void*>(from_), kBytes, hipMemcpyDeviceToDevice, second_);
		if (i % 8 == 5)
			launch(nullptr);
		if (i % 4 == 0)
			own_.synchronize();
		LOGGED(hipStreamSynchronize, second_);
		if (settings.renew && !graphs_.empty() && i % uint64_t(settings.renew) == 0) {
			LOGGED(hipStreamSynchronize, first_);
			graphs_[i / uint64_t(settings.renew) % graphs_.size()]->renew();
		}
	}

	void finish()
	{
		HIP_CHECK(hipDeviceSynchronize());
		graphs_.clear();
		HIP_CHECK(hipFree(from_));
		HIP_CHECK(hipFree(to_));
		HIP_CHECK(hipStreamDestroy(first_));
		HIP_CHECK(hipStreamDestroy(second_));
	}
};

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = default_code_object(argv[0]);
	o.number("threads", &settings.threads, "threads with two streams each");
	o.number("graphs", &settings.graphs, "of each thread");
	o.number("nodes", &settings.nodes, "kernels in a branch of a thread's first graph; each further graph has one more");
	o.number("branches", &settings.branches, "of each graph");
	o.number("renew", &settings.renew, "instantiate a graph again after so many steps; 0: never");
	o.number("pace", &settings.pace_us, "pause after each step, in us");
	o.number("seconds", &settings.seconds, "duration; 0: until /quit");
	o.number("port", &settings.port, "of /health and /quit; 0: any");
	o.text("log", &settings.log, "where the calls go");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
}

std::string answer(const std::string& path)
{
	if (path == "/health")
		return "ok " + std::to_string(calls->calls()) + "\n";
	if (path != "/quit")
		return "";
	std::lock_guard<std::mutex> hold(mutex);
	stop = true;
	changed.notify_all();
	return "bye\n";
}

void print_counts(const std::vector<std::unique_ptr<Worker>>& workers)
{
	const char* comma = "";
	printf("{\"threads\":[");
	for (auto& w : workers) {
		printf("%s{\"id\":%u,\"count\":%lu}", comma, w->id(), w->kernels());
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
	Device device(0, code);

	HttpServer http(settings.port, answer);
	std::vector<Event> events(size_t(settings.threads));
	std::vector<std::unique_ptr<Worker>> workers;
	std::vector<std::thread> threads;
	for (size_t i = 0; i < events.size(); i++)
		workers.push_back(std::make_unique<Worker>(device, unsigned(i + 1), events[i], events[(i + events.size() - 1) % events.size()]));
	for (auto& w : workers)
		threads.emplace_back([&w] { w->run(); });
	for (auto& w : workers) // the first launch loads much
		while (w->kernels() == 0)
			std::this_thread::sleep_for(std::chrono::microseconds(100));
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);

	{
		std::unique_lock<std::mutex> hold(mutex);
		changed.wait_for(hold, std::chrono::seconds(settings.seconds ? settings.seconds : 1000000000), [] { return stop.load(); });
		stop = true;
	}
	for (std::thread& t : threads)
		t.join();
	events = std::vector<Event>();
	HIP_CHECK(hipModuleUnload(device.module));
	print_counts(workers);
	return 0;
}

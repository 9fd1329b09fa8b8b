// Ranks in one process, each a thread with a GPU, whose collectives are kernels of a graph that is captured once and
// launched again and again, as engines decode. The simulator lets these kernels wait for each other (SOFTGPU_RENDEZVOUS).
#include "hip_device.h"
#include "http.h"
#include "options.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <random>
#include <sys/prctl.h>
#include <thread>

namespace {

struct Settings {
	long ranks = 4, group = 2, layers = 4, late_rank = -1, late_us = 0, vary_us = 100, seconds = 0, port = 0;
	std::string code_object;
} settings;

std::mutex mutex;
std::condition_variable changed;
std::atomic<bool> stop{false};
std::atomic<uint64_t> launched{0};

// Ranks of a group, which end with the same step: the last one to come decides.
struct Group {
	pthread_barrier_t barrier;
	std::atomic<bool> last{false};

	Group() { pthread_barrier_init(&barrier, nullptr, unsigned(settings.group)); }

	bool over()
	{
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			last = stop.load();
		pthread_barrier_wait(&barrier);
		return last;
	}
};

class Worker {
public:
	Worker(const CodeObject& code, int rank, Group& group) : device_(rank, code), rank_(rank), group_(group), random_(unsigned(rank))
	{
		for (size_t i = 0; i < code.kernels.size(); i++) {
			if (code.kernels[i].find("ncclDevKernel") != std::string::npos)
				collective_ = device_.kernels[i];
			if (code.kernels[i].find("Cijk") != std::string::npos)
				compute_ = device_.kernels[i];
		}
	}

	void run()
	{
		HIP_CHECK(hipSetDevice(device_.ordinal));
		HIP_CHECK(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
		capture();
		while (!group_.over()) {
			usleep(useconds_t(random_() % unsigned(settings.vary_us + 1)) + (rank_ == settings.late_rank ? useconds_t(settings.late_us) : 0));
			HIP_CHECK(hipGraphLaunch(graph_, stream_));
			HIP_CHECK(hipStreamSynchronize(stream_));
			launched++;
			sequence_++;
		}
	}

	unsigned id() const { return unsigned(rank_) + 1; }
	uint64_t count() const { return sequence_; }

private:
	Device device_;
	int rank_;
	Group& group_;
	std::mt19937 random_;
	std::atomic<uint64_t> sequence_ = 0; // graphs; main() looks at it
	hipStream_t stream_ = nullptr;
	hipGraphExec_t graph_ = nullptr;
	hipFunction_t collective_ = nullptr, compute_ = nullptr;
	Arguments arguments_;

	void launch(hipFunction_t f, unsigned y, unsigned z)
	{
		HIP_CHECK(hipModuleLaunchKernel(f, 4, y, z, 64, 1, 1, 0, stream_, arguments_.pointers, nullptr));
	}

	// The grid says who takes part in a collective: see the simulator's rendezvous.c.
	void capture()
	{
		hipGraph_t graph;
		HIP_CHECK(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
		for (long layer = 0; layer < settings.layers; layer++) {
			launch(compute_, 1, 1);
			launch(collective_, unsigned(settings.group), unsigned(rank_ / settings.group) + 1);
		}
		HIP_CHECK(hipStreamEndCapture(stream_, &graph));
		HIP_CHECK(hipGraphInstantiate(&graph_, graph, nullptr, nullptr, 0));
	}
};

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = beside(argv[0], "ranks.hsaco");
	o.number("ranks", &settings.ranks, "threads, each of them a rank with a GPU");
	o.number("group", &settings.group, "ranks that enter collectives together");
	o.number("layers", &settings.layers, "collectives in a graph");
	o.number("late-rank", &settings.late_rank, "the rank that comes late; -1: none");
	o.number("late", &settings.late_us, "how late it comes to a graph, in us");
	o.number("vary", &settings.vary_us, "how late each rank comes at random, in us");
	o.number("seconds", &settings.seconds, "duration; 0: until /quit");
	o.number("port", &settings.port, "of /health and /quit; 0: any");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
}

std::string answer(const std::string& path)
{
	if (path == "/health")
		return "ok " + std::to_string(launched) + "\n";
	if (path != "/quit")
		return "";
	std::lock_guard<std::mutex> hold(mutex);
	stop = true;
	changed.notify_all();
	return "bye\n";
}

} // namespace

int main(int argc, char** argv)
{
	parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	CodeObject code(settings.code_object);
	std::vector<Group> groups(size_t(settings.ranks / settings.group));
	std::vector<std::unique_ptr<Worker>> workers;
	std::vector<std::thread> threads;
	for (int i = 0; i < settings.ranks; i++)
		workers.push_back(std::make_unique<Worker>(code, i, groups[size_t(i / settings.group)]));
	HttpServer http(settings.port, answer);
	for (auto& w : workers)
		threads.emplace_back([&w] { w->run(); });
	for (auto& w : workers) // the first launch loads much
		while (w->count() < 20)
			usleep(1000);
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);
	{
		std::unique_lock<std::mutex> hold(mutex);
		changed.wait_for(hold, std::chrono::seconds(settings.seconds ? settings.seconds : 1000000000), [] { return stop.load(); });
		stop = true;
	}
	for (std::thread& t : threads)
		t.join();
	printf("{\"threads\":[");
	for (auto& w : workers)
		printf("%s{\"id\":%u,\"count\":%lu}", w == workers.front() ? "" : ",", w->id(), w->count());
	printf("]}\n");
	return 0;
}

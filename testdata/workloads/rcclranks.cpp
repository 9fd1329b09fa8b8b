// Ranks of one communicator, each a thread with a GPU, that use RCCL itself: collectives alone and in groups,
// sends and receives. Each call of RCCL is logged, to be compared with a trace.
#include "collectives.h"
#include "hip_device.h"
#include "http.h"
#include "options.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <sys/prctl.h>
#include <thread>

namespace {

struct Settings {
	long ranks = 2, late_rank = 0, late_us = 0, pace_us = 1000, seconds = 0, port = 0;
	std::string log, code_object;
} settings;

constexpr size_t kBufferBytes = 4 << 20;

const char* const names[] = {FUNCTIONS(NAME)};

std::mutex mutex;
std::condition_variable changed;
std::atomic<bool> stop{false};
std::atomic<uint64_t> kernels{0};
pthread_barrier_t barrier;
CallLog* calls;

class Worker {
public:
	Worker(const CodeObject& code, int rank) : device_(rank, code), rank_(rank) {}

	void run(const ncclUniqueId& id)
	{
		pthread_setname_np(pthread_self(), ("rank " + std::to_string(rank_)).c_str());
		HIP_CHECK(hipSetDevice(device_.ordinal));
		HIP_CHECK(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
		Rank r{calls, rank_, int(settings.ranks), stream_, nullptr, nullptr};
		HIP_CHECK(hipMalloc(&r.from, kBufferBytes));
		HIP_CHECK(hipMalloc(&r.to, kBufferBytes));
		begin(r, id);
		for (bool last = false; !last;)
			last = step(r);
		MUST(LOGGED(ncclCommDestroy, r.comm));
		HIP_CHECK(hipFree(r.from));
		HIP_CHECK(hipFree(r.to));
	}

	unsigned id() const { return unsigned(rank_) + 1; }
	uint64_t launched() const { return sequence_; }

private:
	Device device_;
	int rank_;
	uint64_t sequence_ = 0;
	hipStream_t stream_ = nullptr;
	Arguments arguments_;

	// All ranks end with the same step: the last one to come decides.
	bool step(Rank& r)
	{
		static std::atomic<bool> last;
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			last = stop.load();
		pthread_barrier_wait(&barrier);
		if (last)
			return true;
		launch();
		if (rank_ == settings.late_rank)
			usleep(useconds_t(settings.late_us));
		alone(r, 1024 * (1 + r.steps % 16));
		exchange(r, 256 * (1 + r.steps % 8));
		together(r, 4096);
		r.steps++;
		HIP_CHECK(hipStreamSynchronize(stream_));
		usleep(useconds_t(settings.pace_us));
		return false;
	}

	void launch()
	{
		arguments_.id = kernarg_id(id(), ++sequence_);
		hipFunction_t f = device_.kernels[sequence_ % device_.kernels.size()];
		HIP_CHECK(hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, stream_, arguments_.pointers, nullptr));
		kernels++;
	}

	static void alone(Rank& r, size_t count)
	{
		static constexpr ncclDataType_t types[] = {ncclInt8, ncclFloat16, ncclFloat32, ncclBfloat16};
		ncclDataType_t type = types[r.steps % 4];
		const void* from = r.from;
		MUST(LOGGED(ncclAllReduce, from, r.to, count, type, ncclSum, r.comm, r.stream));
		MUST(LOGGED(ncclBroadcast, from, r.to, count, type, int(r.steps) % r.ranks, r.comm, r.stream));
		MUST(LOGGED(ncclReduceScatter, from, r.to, count, type, ncclMax, r.comm, r.stream));
		MUST(LOGGED(ncclAllGather, from, r.to, count, type, r.comm, r.stream));
	}

	static void exchange(Rank& r, size_t count)
	{
		const void* from = r.from;
		MUST(LOGGED_PLAIN(ncclGroupStart));
		MUST(LOGGED(ncclSend, from, count, ncclFloat32, (r.rank + 1) % r.ranks, r.comm, r.stream));
		MUST(LOGGED(ncclRecv, r.to, count, ncclFloat32, (r.rank + r.ranks - 1) % r.ranks, r.comm, r.stream));
		MUST(LOGGED_PLAIN(ncclGroupEnd));
	}

	// As gradients of several layers; the inner group launches nothing.
	static void together(Rank& r, size_t count)
	{
		const void* from = r.from;
		MUST(LOGGED_PLAIN(ncclGroupStart));
		MUST(LOGGED(ncclAllReduce, from, r.to, count, ncclFloat32, ncclSum, r.comm, r.stream));
		MUST(LOGGED_PLAIN(ncclGroupStart));
		MUST(LOGGED(ncclAllReduce, from, r.to, 2 * count, ncclFloat32, ncclSum, r.comm, r.stream));
		MUST(LOGGED_PLAIN(ncclGroupEnd));
		MUST(LOGGED(ncclAllReduce, from, r.to, 3 * count, ncclFloat32, ncclSum, r.comm, r.stream));
		MUST(LOGGED_PLAIN(ncclGroupEnd));
	}
};

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = default_code_object(argv[0]);
	o.number("ranks", &settings.ranks, "threads, each of them a rank with a GPU");
	o.number("late-rank", &settings.late_rank, "the rank that comes late");
	o.number("late", &settings.late_us, "how late it comes to each step, in us");
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
		return "ok " + std::to_string(kernels + calls->calls()) + "\n";
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
	CodeObject code(settings.code_object);
	std::vector<std::unique_ptr<Worker>> workers;
	std::vector<std::thread> threads;
	for (int i = 0; i < settings.ranks; i++)
		workers.push_back(std::make_unique<Worker>(code, i));
	pthread_barrier_init(&barrier, nullptr, unsigned(settings.ranks));
	HttpServer http(settings.port, answer);
	ncclUniqueId id;
	if (ncclResult_t result = log.call(k_ncclGetUniqueId, 0, [&] { return ncclGetUniqueId(&id); }, &id)) {
		fprintf(stderr, "ncclGetUniqueId: %d\n", int(result));
		return 1;
	}
	for (auto& w : workers)
		threads.emplace_back([&] { w->run(id); });
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);
	wait_for_the_end();
	for (std::thread& t : threads)
		t.join();
	print_counts(workers);
	return 0;
}

// Ranks of a model that is spread over GPUs: each computes, and then enters a collective with the others of its group.
// A rank is a thread with a GPU; the other ranks are threads of this process, or other processes with RANK in their
// environment. The simulator lets the kernels of a collective wait for each other (SOFTGPU_RENDEZVOUS). With --graphs, HIP
// submits, and the kernels of a step are a graph's.
#include "http.h"
#include "options.h"
#include "ranks_queues.h"
#include "rccl.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <dlfcn.h>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <random>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <thread>

namespace {

struct Settings {
	long ranks = 1, world = 0, group = 0, layers = 4, ahead = 1, compute_us = 50, vary_us = 0, late_rank = -1, late_us = 0, late_every = 1, skip_rank = -1,
	     graphs = 0, eager_every = 4, pace_us = 1000, batches = 0, seconds = 0, port = 0;
	std::string late_by = "gpu", second = "off", rccl = "off", agreement, code_object;
} settings;

std::mutex mutex;
std::condition_variable changed;
std::atomic<bool> stop{false};
std::atomic<uint64_t> launched{0};

// The processor's time of this thread.
uint64_t thread_ns()
{
	timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

// The batch of steps with which each group ends, which all of its processes share; 0: not decided yet.
std::atomic<uint64_t>* last_batches;
constexpr size_t kGroups = 16;

void share_last_batches()
{
	int fd = -1, how = MAP_SHARED | MAP_ANONYMOUS;
	if (!settings.agreement.empty()) {
		fd = open(settings.agreement.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		how = MAP_SHARED;
		if (fd < 0 || ftruncate(fd, sizeof(uint64_t) * kGroups)) {
			perror(settings.agreement.c_str());
			exit(1);
		}
	}
	void* memory = mmap(nullptr, sizeof(uint64_t) * kGroups, PROT_READ | PROT_WRITE, how, fd, 0);
	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	last_batches = static_cast<std::atomic<uint64_t>*>(memory);
}

// Why a rank is late by its host: what is between two steps of it. The names are those of these functions, which must have frames of
// their own.
#define REASON extern "C" __attribute__((noinline, noclone))

} // namespace

REASON void fetch_batch(long us)
{
	usleep(useconds_t(us));
	asm volatile("");
}

REASON void prepare_batch(long us)
{
	uint64_t until = thread_ns() + uint64_t(us) * 1000;
	volatile uint64_t sum = 0;
	while (thread_ns() < until)
		for (uint64_t i = 0; i < 100000; i++)
			sum = sum + i * i;
}

namespace {

constexpr uint64_t kTransferNs = 20000;

// What identifies a group's communicator, of all ranks of this process.
ncclUniqueId communicator_of(int group)
{
	static std::mutex mutex;
	static std::vector<ncclUniqueId> ids;
	std::lock_guard<std::mutex> hold(mutex);
	while (ids.size() <= size_t(group)) {
		ncclUniqueId id;
		if (ncclGetUniqueId(&id))
			abort();
		ids.push_back(id);
	}
	return ids[size_t(group)];
}

class Worker {
public:
	// graphs: submits, too, if the rank has graphs.
	Worker(std::unique_ptr<Submitter> submitter, GraphSubmitter* graphs, int rank)
	    : submitter_(std::move(submitter)), graphs_(graphs), rank_(rank), group_(rank / int(settings.group)), random_(unsigned(rank))
	{
	}

	void run()
	{
		if (settings.rccl == "on" && ncclCommInitRank(&comm_, int(settings.group), communicator_of(group_), rank_ % int(settings.group)))
			abort();
		for (long g = 0; g < settings.graphs; g++)
			capture(g);
		for (uint64_t batch = 1; !over(batch); batch++)
			play(batch);
	}

	unsigned id() const { return unsigned(rank_) + 1; }
	uint64_t count() const { return sequence_; }

private:
	std::unique_ptr<Submitter> submitter_;
	GraphSubmitter* graphs_;
	int rank_, group_;
	std::mt19937 random_;
	uint64_t sequence_ = 0;
	std::vector<uint64_t> kernels_; // of each graph
	bool capturing_ = false;
	ncclComm_t comm_ = nullptr;

	// Nobody is in a later batch than one whose collectives this rank has not entered.
	bool over(uint64_t batch) const
	{
		if (settings.batches)
			return batch > uint64_t(settings.batches);
		uint64_t last = last_batches[group_];
		if (!last && stop)
			last_batches[group_].compare_exchange_strong(last, batch + 1);
		last = last_batches[group_];
		return last && batch >= last;
	}

	int queues() const { return settings.second == "on" ? 2 : 1; }

	void play(uint64_t batch)
	{
		submitter_->begin(queues());
		for (long i = 1; i <= settings.ahead; i++)
			step((batch - 1) * uint64_t(settings.ahead) + uint64_t(i), i == settings.ahead);
		submitter_->wait();
		usleep(useconds_t(settings.pace_us));
	}

	void step(uint64_t number, bool is_last)
	{
		bool late = rank_ == settings.late_rank && number % uint64_t(settings.late_every) == 0;
		if (late && settings.late_by == "host")
			fetch_batch(settings.late_us);
		if (late && settings.late_by == "cpu")
			prepare_batch(settings.late_us);
		if (late && settings.late_by == "gpu")
			compute(settings.late_us, kTopK);
		if (graphs_ && number % uint64_t(settings.eager_every))
			replay(number % uint64_t(settings.graphs));
		else
			layers(settings.layers, number, is_last);
		if (queues() > 1)
			launch(1, kCustomAllReduce, kTransferNs, unsigned(settings.group), unsigned(group_) + 1 + unsigned(kGroups) / 2, is_last);
		for (int q = 0; q < queues(); q++)
			submitter_->ring(q);
	}

	void layers(long layers, uint64_t number, bool is_last)
	{
		for (long layer = 1; layer <= layers; layer++) {
			compute(settings.compute_us + (settings.vary_us ? long(random_() % unsigned(settings.vary_us)) : 0), layer % 2 ? kGemm : kAttention);
			if (rank_ == settings.skip_rank && number % 8 == 0 && layer == 1)
				launch(0, kAllReduce, kTransferNs, 1, 1, false); // which no other rank enters
			all_reduce(layer, is_last && layer == layers);
		}
	}

	// Each graph has one more layer than the one before; those of odd ranks have a further kernel in front.
	void capture(long graph)
	{
		kernels_.push_back(0);
		capturing_ = true;
		graphs_->begin_capture();
		if (rank_ % 2)
			compute(settings.compute_us, kAttention);
		layers(settings.layers + graph, 0, false);
		graphs_->end_capture();
		capturing_ = false;
	}

	void replay(uint64_t graph)
	{
		graphs_->replay(unsigned(graph));
		count(kernels_[graph]);
	}

	// With RCCL, its call submits the kernel. With graphs, each second collective is a custom one, as in a model of two kinds.
	void all_reduce(long layer, bool is_last)
	{
		What what = graphs_ && layer % 2 == 0 ? kCustomAllReduce : kAllReduce;
		auto enter = [=] { launch(0, what, kTransferNs, unsigned(settings.group), unsigned(group_) + 1, is_last); };
		if (!comm_ || what != kAllReduce)
			return enter();
		rtl_rccl_in_all_reduce([](void* f) { (*static_cast<decltype(enter)*>(f))(); }, &enter);
		if (ncclAllReduce(&comm_, &comm_, 4096, ncclFloat32, ncclSum, comm_, static_cast<hipStream_t>(submitter_->stream())))
			abort();
	}

	void compute(long us, What what) { launch(0, what, uint64_t(us) * 1000, 1, 1, false); }

	void launch(int queue, What what, uint64_t duration_ns, unsigned y, unsigned z, bool is_last)
	{
		if (capturing_)
			kernels_.back()++;
		else
			count(1);
		submitter_->launch({what, queue, duration_ns, y, z, is_last, uint64_t(id()) << 40 | sequence_});
	}

	void count(uint64_t kernels)
	{
		sequence_ += kernels;
		launched += kernels;
	}
};

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = beside(argv[0], "ranks.hsaco");
	o.number("ranks", &settings.ranks, "threads, each of them a rank with a GPU; the first has the rank of RANK");
	o.number("world", &settings.world, "ranks of all processes; 0: of this one");
	o.number("group", &settings.group, "ranks that enter collectives together; 0: all");
	o.number("layers", &settings.layers, "collectives in a step");
	o.number("ahead", &settings.ahead, "steps that are submitted before a rank waits");
	o.number("compute", &settings.compute_us, "duration of the kernel in front of each, in us");
	o.number("vary", &settings.vary_us, "what is added to it at random, in us");
	o.number("late-rank", &settings.late_rank, "the rank that comes late; -1: none");
	o.number("late", &settings.late_us, "how late it comes to a step, in us");
	o.number("late-every", &settings.late_every, "to each step with such a number");
	o.text("late-by", &settings.late_by, "why: gpu (a further kernel), host (its thread sleeps) or cpu (it computes)");
	o.number("skip-rank", &settings.skip_rank, "the rank that has a further collective in each 8th step; -1: none");
	o.text("second", &settings.second, "on: a second stream has a collective, too");
	o.text("rccl", &settings.rccl, "on: calls of RCCL submit the collectives, with a communicator for each group");
	o.number("graphs", &settings.graphs, "HIP graphs of each rank, one of which a step replays; 0: HIP is not used");
	o.number("eager-every", &settings.eager_every, "with graphs, each step with such a number has no replay");
	o.number("pace", &settings.pace_us, "pause after each step, in us");
	o.number("batches", &settings.batches, "how often a rank submits and waits before it ends; 0: until the end");
	o.number("seconds", &settings.seconds, "duration; 0: until /quit or SIGTERM");
	o.number("port", &settings.port, "of /health and /quit; 0: any");
	o.text("agreement", &settings.agreement, "a file in which processes agree on their last batch");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
	settings.world = std::max(settings.world, settings.ranks);
	settings.group = settings.group ? settings.group : settings.world;
}

void end()
{
	std::lock_guard<std::mutex> hold(mutex);
	stop = true;
	changed.notify_all();
}

std::string answer(const std::string& path)
{
	if (path == "/health")
		return "ok " + std::to_string(launched) + "\n";
	if (path != "/quit")
		return "";
	end();
	return "bye\n";
}

volatile sig_atomic_t ending = 0;
void on_end(int) { ending = 1; }

void wait_for_the_end()
{
	std::unique_lock<std::mutex> hold(mutex);
	auto until = std::chrono::steady_clock::now() + std::chrono::seconds(settings.seconds ? settings.seconds : 1000000000);
	while (!stop && !ending && std::chrono::steady_clock::now() < until)
		changed.wait_for(hold, std::chrono::milliseconds(50));
	stop = true;
}

void print_counts(const std::vector<std::unique_ptr<Worker>>& workers)
{
	const char* comma = "";
	printf("{\"threads\":[");
	for (auto& w : workers) {
		printf("%s{\"id\":%u,\"count\":%lu}", comma, w->id(), w->count());
		comma = ",";
	}
	printf("]}\n");
}

void add_by_queues(std::vector<std::unique_ptr<Worker>>& workers, int first, std::unique_ptr<Hsa>& hsa)
{
	hsa = std::make_unique<Hsa>(CodeObject(settings.code_object), settings.ranks);
	if (hsa->gpus.size() < size_t(settings.ranks)) {
		fprintf(stderr, "ranks: %zu GPUs\n", hsa->gpus.size());
		exit(1);
	}
	for (int i = 0; i < settings.ranks; i++)
		workers.push_back(std::make_unique<Worker>(std::make_unique<QueueSubmitter>(hsa->gpus[size_t(i)]), nullptr, first + i));
}

void add_by_hip(std::vector<std::unique_ptr<Worker>>& workers, int first, const std::string& path)
{
	void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
	auto create = library ? reinterpret_cast<NewGraphSubmitter*>(dlsym(library, "new_graph_submitter")) : nullptr;
	if (!create) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	for (int i = 0; i < settings.ranks; i++) {
		std::unique_ptr<GraphSubmitter> s(create(i));
		GraphSubmitter* graphs = s.get();
		workers.push_back(std::make_unique<Worker>(std::move(s), graphs, first + i));
	}
}

} // namespace

int main(int argc, char** argv)
{
	parse(argc, argv);
	signal(SIGTERM, on_end);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	share_last_batches();
	const char* rank = getenv("RANK");
	int first = rank ? atoi(rank) : 0;
	std::vector<std::unique_ptr<Worker>> workers;
	std::vector<std::thread> threads;
	std::unique_ptr<Hsa> hsa;
	if (settings.graphs)
		add_by_hip(workers, first, beside(argv[0], "ranks_graph.so"));
	else
		add_by_queues(workers, first, hsa);
	HttpServer http(settings.port, answer);
	for (auto& w : workers)
		threads.emplace_back([&] { w->run(); });
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);
	if (!settings.batches)
		wait_for_the_end();
	for (std::thread& t : threads)
		t.join();
	print_counts(workers);
	return 0;
}

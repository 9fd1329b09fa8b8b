// Raw HSA from many threads on shared queues, in every way that the queue and
// signal functions allow. Each dispatch carries thread << 40 | sequence; the
// counts printed at the end and the truth log together prove exactly-once.
#include "hsa_device.h"
#include "http.h"
#include "options.h"
#include "other_tool.h"
#include "producer.h"
#include "second_runtime.h"
#include "slow_raw.h"
#include "uring.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <sys/prctl.h>
#include <thread>

namespace {

// One hsa_init .. hsa_shut_down.
class Cycle {
public:
	explicit Cycle(const CodeObject& code, const std::vector<uint64_t>& counts) : hsa_(code, settings.gpus)
	{
		if (settings.slow_raw)
			slow_raw::install(unsigned(settings.slow_raw), settings.slow_raw_ms);
		for (long i = 0; i < settings.queues; i++)
			queues_.push_back(create_queue(gpu(i), settings.ring));
		for (long i = 0; i < settings.threads; i++) {
			long q = i % settings.queues;
			producers_.push_back(std::make_unique<Producer>(gpu(q), queues_[size_t(q)], unsigned(i) + 1));
			producers_.back()->resume_from(counts[size_t(i)]);
		}
	}

	void start()
	{
		for (auto& p : producers_)
			p->start();
	}

	std::vector<uint64_t> finish()
	{
		std::vector<uint64_t> counts;
		for (auto& p : producers_)
			p->join();
		for (auto& p : producers_) {
			p->destroy();
			counts.push_back(p->count());
		}
		for (hsa_queue_t* q : queues_)
			HSA_CHECK(hsa_queue_destroy(q));
		return counts;
	}

	// Dispatches by thread; those that have ended count as moving.
	std::vector<uint64_t> pulse() const
	{
		std::vector<uint64_t> counts;
		for (auto& p : producers_)
			counts.push_back(p->done() ? UINT64_MAX : p->count());
		return counts;
	}

	// On the shared queues.
	uint64_t strange() const
	{
		uint64_t n = 0;
		for (hsa_queue_t* q : queues_)
			n += strange_signals(q);
		return n;
	}

	void describe() const
	{
		for (auto& p : producers_)
			p->describe();
		for (hsa_queue_t* q : queues_)
			Producer::describe_queue(q);
	}

private:
	Hsa hsa_;
	std::vector<hsa_queue_t*> queues_;
	std::vector<std::unique_ptr<Producer>> producers_;

	const Gpu& gpu(long queue) const { return hsa_.gpus[size_t(queue) % hsa_.gpus.size()]; }
};

// Ends the process when a thread no longer moves: a hang must be a result, not a wait.
class Watchdog {
public:
	Watchdog() : thread_([this] { run(); }) {}
	~Watchdog()
	{
		{
			std::lock_guard<std::mutex> hold(mutex_);
			done_ = true;
		}
		changed_.notify_all();
		thread_.join();
	}

	void watch(const Cycle* cycle)
	{
		std::lock_guard<std::mutex> hold(mutex_);
		cycle_ = cycle;
	}

private:
	std::mutex mutex_;
	std::condition_variable changed_;
	const Cycle* cycle_ = nullptr;
	bool done_ = false;
	std::thread thread_;

	void run()
	{
		std::unique_lock<std::mutex> hold(mutex_);
		std::vector<uint64_t> seen;
		std::vector<long> quiet;
		while (!done_) {
			changed_.wait_for(hold, std::chrono::seconds(1));
			std::vector<uint64_t> now = cycle_ ? cycle_->pulse() : std::vector<uint64_t>();
			seen.resize(now.size());
			quiet.resize(now.size());
			for (size_t i = 0; i < now.size(); i++) {
				quiet[i] = now[i] == seen[i] && now[i] != UINT64_MAX ? quiet[i] + 1 : 0;
				if (quiet[i] >= settings.hang_seconds)
					give_up(i + 1);
			}
			seen = now;
		}
	}

	[[noreturn]] void give_up(size_t thread) const
	{
		printf("HANG thread %zu has not dispatched for %ld s\n", thread, settings.hang_seconds);
		cycle_->describe();
		fflush(stdout);
		_exit(3);
	}
};

// The end of a run: --seconds, or /quit.
class Deadline {
public:
	void quit()
	{
		std::lock_guard<std::mutex> hold(mutex_);
		quit_ = true;
		changed_.notify_all();
	}
	// True when asked to quit.
	bool sleep(double seconds)
	{
		std::unique_lock<std::mutex> hold(mutex_);
		return changed_.wait_for(hold, std::chrono::duration<double>(seconds), [this] { return quit_; });
	}

private:
	std::mutex mutex_;
	std::condition_variable changed_;
	bool quit_ = false;
};

void print_counts(const std::vector<uint64_t>& counts)
{
	uint64_t total = 0;
	printf("{\"threads\":[");
	for (size_t i = 0; i < counts.size(); i++) {
		printf("%s{\"id\":%zu,\"count\":%lu}", i ? "," : "", i + 1, counts[i]);
		total += counts[i];
	}
	printf("],\"total\":%lu}\n", total);
	fflush(stdout);
}

// Returns when all producers rest, or none does.
std::string pause(bool wanted)
{
	paused = wanted;
	while (resting != (wanted ? settings.threads : 0) && !stop)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	return std::to_string(resting) + " rest\n";
}

// The runtime's clock, for a test that counts how often it was asked.
std::string system_time()
{
	uint64_t ticks = 0;
	HSA_CHECK(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &ticks));
	return std::to_string(ticks);
}

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = default_code_object(argv[0]);
	o.number("threads", &settings.threads, "producers, 1 to 16");
	o.number("queues", &settings.queues, "shared queues");
	o.number("ring", &settings.ring, "packets per ring, a power of two from 64");
	o.number("seconds", &settings.seconds, "duration; 0: until /quit");
	o.number("kernel-ns", &settings.kernel_ns, "mean kernel duration; 0: the simulator's");
	o.number("pace", &settings.pace_us, "pause after each step, in us");
	o.number("gpus", &settings.gpus, "GPUs to use; 0: all");
	o.number("kind", &settings.kind, "one kind of producer only (0 to 10, see kind_names)");
	o.number("cycles", &settings.cycles, "hsa_init .. hsa_shut_down rounds");
	o.number("slow-raw", &settings.slow_raw, "1 in N raw index additions sleeps; 0: none");
	o.number("slow-raw-ms", &settings.slow_raw_ms, "how long, below 1000");
	o.number("extended", &settings.extended, "1 in N dispatches is the vendor's extended packet; 0: none");
	o.number("doorbell", &settings.doorbell, "0: never ring, for a GPU that polls the index");
	o.number("uring", &settings.uring, "1: with io_uring's kernel threads, one of which always runs");
	o.number("port", &settings.port, "of /health, /time and /quit; 0: any");
	o.number("hang", &settings.hang_seconds, "seconds without a dispatch, of any thread, that count as a hang");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
	settings.threads = std::clamp(settings.threads, 1l, 16l);
}

} // namespace

int main(int argc, char** argv)
{
	parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	CodeObject code(settings.code_object);
	std::vector<uint64_t> counts(size_t(settings.threads), 0);
	Deadline deadline;
	std::atomic<Cycle*> running{nullptr};
	OtherTool other(beside(argv[0], "other_tool.so"), "/tool/", "other_tool_", "calls");
	OtherTool index(beside(argv[0], "index_tool.so"), "/index-tool/", "index_tool_", "switches");
	SecondRuntime second;
	OtherTool listener(beside(argv[0], "listener.so"), "/listener/", "listener_", "events");
	HttpServer http(settings.port, [&](const std::string& path) -> std::string {
		if (path == "/health")
			return "ok " + std::to_string(progress.load()) + "\n";
		if (path == "/time")
			return system_time() + "\n";
		if (path == "/pause" || path == "/resume")
			return pause(path == "/pause");
		if (path == "/signals")
			return "strange " + std::to_string(running.load() ? running.load()->strange() : 0) + "\n";
		if (path != "/quit")
			return other.answer(path) + index.answer(path) + listener.answer(path) + second.answer(path);
		deadline.quit();
		return "bye\n";
	});
	std::optional<UringThreads> uring;
	if (settings.uring)
		uring.emplace();
	{
		Watchdog watchdog;
		double seconds = settings.seconds ? double(settings.seconds) / double(settings.cycles) : 1e9;
		bool quit = false;
		for (long c = 0; c < settings.cycles && !quit; c++) {
			Cycle cycle(code, counts);
			if (c == 0) {
				printf("ready pid=%d port=%d\n", getpid(), http.port());
				fflush(stdout);
			}
			stop = false;
			running = &cycle;
			cycle.start();
			watchdog.watch(&cycle);
			quit = deadline.sleep(seconds);
			stop = true;
			running = nullptr;
			counts = cycle.finish();
			watchdog.watch(nullptr);
		}
	}
	print_counts(counts);
	return 0;
}

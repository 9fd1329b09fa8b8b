// What a dispatch costs, in raw HSA. Each line on standard input, `run MODE
// THREADS SECONDS [RATE]`, is answered by one line of JSON, so that a driver can
// measure the same process untraced and attached in turns. `quit` ends it.
//
//   burst      ns per dispatch: 200 without a signal, then wait for one behind them
//   signal     ns per dispatch: 32 own signals, re-armed for each
//   idle-burst, idle-signal   the same after a pause that lets the GPU fall asleep:
//              nothing but the submitting thread runs while it is measured
//   latency    ns from submission to seen completion of a 20 us kernel, one at a time
//   slow       the same while another queue runs a 300 ms kernel
//   loop       whole-loop throughput, no signals;  loop-signal: with signals
//   paced      RATE dispatches a second by all threads, no signals
#include "hsa_device.h"
#include "options.h"
#include "samples.h"

#include <atomic>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr int kMaxThreads = 16, kBurst = 200, kSignals = 32;
constexpr uint64_t kShortNs = 500, kLatencyNs = 20000;
constexpr uint32_t kSlowUs = 300000;
constexpr useconds_t kPauseUs = 2500; // the simulator naps by then
constexpr useconds_t kPaceUs = 500;   // between looks at what is due

struct Settings {
	long queues = 4, ring = 4096;
	std::string code_object;
} settings;

// One submitting thread with its queue and signals.
class Submitter {
public:
	Samples samples;
	uint64_t dispatched = 0, began = 0;
	double rate = 0; // dispatches per ns

	Submitter(const Gpu& gpu, hsa_queue_t* queue, hsa_queue_t* slow_queue, unsigned id)
		: gpu_(gpu), queue_(queue), slow_queue_(slow_queue), id_(id), last_(create_signal(0)), slow_(create_signal(0))
	{
		for (hsa_signal_t& s : signals_)
			s = create_signal(0);
	}

	~Submitter()
	{
		HSA_CHECK(hsa_signal_destroy(last_));
		HSA_CHECK(hsa_signal_destroy(slow_));
		for (hsa_signal_t s : signals_)
			HSA_CHECK(hsa_signal_destroy(s));
	}

	void burst() { timed(kBurst, [this] { submit_burst(); }); settle(); }
	void signal() { timed(kSignals, [this] { submit_signalled(); }); settle(); }
	void idle_burst() { pause(); burst(); }
	void idle_signal() { pause(); signal(); }

	void latency()
	{
		timed(1, [this] {
			hsa_signal_silent_store_relaxed(last_, 1);
			submit(last_, true, kLatencyNs);
			wait_signal(last_, HSA_WAIT_STATE_ACTIVE);
		});
	}

	void slow()
	{
		hsa_signal_silent_store_relaxed(slow_, 1);
		uint64_t index = hsa_queue_add_write_index_screlease(slow_queue_, 1);
		publish_kernel(wait_slot(slow_queue_, index), gpu_.kernels[0], kDurationFromGrid << 48 | next_id(), slow_, true, kSlowUs);
		hsa_signal_store_screlease(slow_queue_->doorbell_signal, hsa_signal_value_t(index));
		while (hsa_signal_load_scacquire(slow_) >= 1)
			latency();
	}

	void loop()
	{
		for (int i = 0; i < 1000; i++)
			submit({0}, false, kShortNs);
	}

	void loop_signal()
	{
		for (hsa_signal_t s : signals_) {
			wait_signal(s);
			hsa_signal_silent_store_relaxed(s, 1);
			submit(s, false, kShortNs);
		}
	}

	void paced()
	{
		for (uint64_t due = uint64_t(double(now_ns() - began) * rate); dispatched < due;)
			submit({0}, false, kShortNs);
		usleep(kPaceUs);
	}

	// Whatever a mode left in flight.
	void settle()
	{
		hsa_signal_silent_store_relaxed(last_, 1);
		submit(last_, true, kShortNs);
		wait_signal(last_);
		for (hsa_signal_t s : signals_)
			wait_signal(s);
	}

private:
	const Gpu& gpu_;
	hsa_queue_t *queue_, *slow_queue_;
	unsigned id_;
	uint64_t sequence_ = 0;
	hsa_signal_t last_, slow_, signals_[kSignals];

	uint64_t next_id()
	{
		dispatched++;
		return uint64_t(id_) << 40 | ++sequence_;
	}

	void submit(hsa_signal_t signal, bool barrier, uint64_t ns)
	{
		uint64_t index = hsa_queue_add_write_index_screlease(queue_, 1);
		publish_kernel(wait_slot(queue_, index), gpu_.kernels[sequence_ % gpu_.kernels.size()], tag(next_id(), ns), signal, barrier);
		hsa_signal_store_screlease(queue_->doorbell_signal, hsa_signal_value_t(index));
	}

	void submit_burst()
	{
		for (int i = 0; i < kBurst; i++)
			submit({0}, false, kShortNs);
	}

	void submit_signalled()
	{
		for (hsa_signal_t s : signals_) {
			hsa_signal_silent_store_relaxed(s, 1);
			submit(s, false, kShortNs);
		}
	}

	// A warm cache, then silence.
	void pause()
	{
		settle();
		usleep(kPauseUs);
	}

	template <typename F> void timed(int dispatches, F&& f)
	{
		uint64_t began = now_ns();
		f();
		samples.add(double(now_ns() - began) / dispatches);
	}
};

using Mode = void (Submitter::*)();
const std::map<std::string, Mode> modes = {
	{"burst", &Submitter::burst}, {"signal", &Submitter::signal},
	{"idle-burst", &Submitter::idle_burst}, {"idle-signal", &Submitter::idle_signal},
	{"latency", &Submitter::latency}, {"slow", &Submitter::slow},
	{"loop", &Submitter::loop}, {"loop-signal", &Submitter::loop_signal}, {"paced", &Submitter::paced},
};

using Submitters = std::vector<std::unique_ptr<Submitter>>;

void run(Submitters& all, const std::string& name, Mode mode, size_t threads, double seconds, double rate)
{
	std::vector<std::thread> running;
	uint64_t cpu = cpu_ns(), began = now_ns(), end = began + uint64_t(seconds * 1e9);
	for (size_t t = 0; t < threads; t++)
		running.emplace_back([&s = *all[t], mode, began, end, rate = rate / double(threads) * 1e-9] {
			s.samples = {};
			s.dispatched = 0;
			s.began = began;
			s.rate = rate;
			do
				(s.*mode)();
			while (now_ns() < end);
			s.settle();
		});
	Samples samples;
	uint64_t dispatched = 0;
	for (size_t t = 0; t < threads; t++) {
		running[t].join();
		samples.add(all[t]->samples);
		dispatched += all[t]->dispatched;
	}
	uint64_t wall = now_ns() - began;
	printf("{\"mode\":\"%s\",\"threads\":%zu,\"seconds\":%.3f,\"dispatches\":%lu,\"rate\":%.0f,\"cpu_ns\":%lu,%s}\n", name.c_str(),
	       threads, double(wall) / 1e9, dispatched, double(dispatched) / (double(wall) / 1e9), cpu_ns() - cpu, samples.json().c_str());
	fflush(stdout);
}

bool obey(Submitters& all, const std::string& line)
{
	std::istringstream words(line);
	std::string verb, name;
	size_t threads = 0;
	double seconds = 0, rate = 0;
	words >> verb >> name >> threads >> seconds >> rate;
	if (verb == "quit")
		return false;
	auto mode = modes.find(name);
	if (verb != "run" || mode == modes.end() || threads < 1 || threads > all.size() || seconds <= 0) {
		printf("{\"error\":\"run MODE THREADS SECONDS [RATE] | quit\"}\n");
		fflush(stdout);
		return true;
	}
	run(all, name, mode->second, threads, seconds, rate);
	return true;
}

} // namespace

int main(int argc, char** argv)
{
	Options o;
	settings.code_object = default_code_object(argv[0]);
	o.number("queues", &settings.queues, "shared by the threads in turn");
	o.number("ring", &settings.ring, "packets per ring");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);

	CodeObject code(settings.code_object);
	Hsa hsa(code, 1);
	std::vector<hsa_queue_t*> queues;
	for (long q = 0; q <= settings.queues; q++) // the last one is for slow kernels
		queues.push_back(create_queue(hsa.gpus[0], settings.ring));
	Submitters submitters;
	for (unsigned t = 0; t < kMaxThreads; t++)
		submitters.push_back(std::make_unique<Submitter>(hsa.gpus[0], queues[t % size_t(settings.queues)], queues.back(), t + 1));
	printf("ready pid=%d\n", getpid());
	fflush(stdout);

	for (std::string line; std::getline(std::cin, line) && obey(submitters, line);)
		;
	submitters.clear();
	for (hsa_queue_t* q : queues)
		HSA_CHECK(hsa_queue_destroy(q));
	return 0;
}

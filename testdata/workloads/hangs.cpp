// Hangs for ever, in the way it is asked to: `hangs MODE`.
//   barrier     a kernel behind a barrier packet, whose second dependency nobody signals
//   invalid     a kernel behind a packet that was claimed and never written
//   doorbell    a kernel of which the GPU is never told
//   kernel      a kernel that runs for an hour, and one on another queue that waits for it
//   mutex       two threads, one of which waits for a kernel with a lock that the other wants
//   producers   as invalid, on two queues: the thread "producer" has claimed the one packet and does not return, and a thread that has
//               ended the other
//   runtime     the thread "holder" does not return from a function that the runtime calls with its loader locked, and the main
//               thread and "creator" want that lock
//   collective  a kernel with the name of one of RCCL's runs for an hour; with RANK=2 none does
// The main thread waits for the last kernel's signal. Nothing ends it but a signal of another kind.
#include "hsa_device.h"

#include <map>
#include <atomic>
#include <hsa/hsa_ven_amd_loader.h>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr uint32_t kHour = 3600u * 1000000u; // microseconds

class Hanging {
public:
	explicit Hanging(const Gpu& gpu) : gpu_(gpu), queue_(create_queue(gpu, 64)), other_(create_queue(gpu, 128)) {}

	void barrier()
	{
		run(queue_);
		hsa_barrier_and_packet_t p{};
		p.dep_signal[0] = create_signal(0);
		p.dep_signal[1] = create_signal(1);
		publish(claim(queue_), &p, header_of(HSA_PACKET_TYPE_BARRIER_AND, true), 0);
		wait_for_ever(submit(queue_, 1, true));
	}

	void invalid()
	{
		run(queue_);
		claim(queue_);
		wait_for_ever(submit(queue_, 1, true));
	}

	void doorbell()
	{
		run(queue_);
		wait_for_ever(submit(queue_, 1, false));
	}

	void kernel()
	{
		hsa_barrier_and_packet_t p{};
		p.dep_signal[0] = submit(other_, kHour, true);
		p.completion_signal = create_signal(1);
		publish(claim(queue_), &p, header_of(HSA_PACKET_TYPE_BARRIER_AND, true), 0);
		hsa_signal_store_screlease(queue_->doorbell_signal, hsa_signal_value_t(index_));
		wait_for_ever(p.completion_signal);
	}

	void mutex()
	{
		std::mutex lock;
		hsa_signal_t done = submit(queue_, kHour, true);
		std::unique_lock<std::mutex> held(lock);
		std::thread other([&] { lock.lock(); });
		wait_for_ever(done);
	}

	void producers()
	{
		std::atomic<bool> claimed{false};
		run(queue_);
		run(other_);
		std::thread([&] { claim(other_); }).join();
		std::thread([&] {
			pthread_setname_np(pthread_self(), "producer");
			claim(queue_);
			claimed = true;
			sleep_for_ever();
		}).detach();
		while (!claimed)
			sched_yield();
		submit(other_, 1, true);
		wait_for_ever(submit(queue_, 1, true));
	}

	void runtime()
	{
		run(queue_);
		hsa_ven_amd_loader_1_03_pfn_t loader{};
		HSA_CHECK(hsa_system_get_major_extension_table(HSA_EXTENSION_AMD_LOADER, 1, sizeof loader, &loader));
		static std::atomic<bool> called{false};
		std::thread([&] {
			pthread_setname_np(pthread_self(), "holder");
			loader.hsa_ven_amd_loader_iterate_executables(never_returns, &called);
		}).detach();
		while (!called)
			sched_yield();
		std::thread([&] {
			pthread_setname_np(pthread_self(), "creator");
			create_executable();
		}).detach();
		ready();
		create_executable();
	}

	void collective()
	{
		const char* rank = getenv("RANK");
		if (rank && !strcmp(rank, "2")) {
			ready();
			sleep_for_ever();
		}
		wait_for_ever(submit(queue_, kHour, true));
	}

private:
	const Gpu& gpu_;
	hsa_queue_t *queue_, *other_;
	uint64_t index_ = 0, sequence_ = 0;

	void* claim(hsa_queue_t* q) { return wait_slot(q, index_ = hsa_queue_add_write_index_screlease(q, 1)); }

	hsa_signal_t submit(hsa_queue_t* q, uint32_t us, bool ring)
	{
		hsa_signal_t done = create_signal(1);
		publish_kernel(claim(q), gpu_.kernels[0], kDurationFromGrid << 48 | ++sequence_, done, true, us);
		if (ring)
			hsa_signal_store_screlease(q->doorbell_signal, hsa_signal_value_t(index_));
		return done;
	}

	void run(hsa_queue_t* q) { wait_signal(submit(q, 64, true)); }

	static __attribute__((noinline)) void sleep_for_ever()
	{
		for (;;)
			pause();
	}

	static __attribute__((noinline)) hsa_status_t never_returns(hsa_executable_t, void* called)
	{
		*static_cast<std::atomic<bool>*>(called) = true;
		sleep_for_ever();
		return HSA_STATUS_SUCCESS;
	}

	static void create_executable()
	{
		hsa_executable_t executable;
		HSA_CHECK(hsa_executable_create_alt(HSA_PROFILE_BASE, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr, &executable));
	}

	static void ready()
	{
		printf("ready pid=%d port=0\n", getpid());
		fflush(stdout);
	}

	static void wait_for_ever(hsa_signal_t s)
	{
		ready();
		while (hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) >= 1)
			;
	}
};

} // namespace

int main(int argc, char** argv)
{
	const std::map<std::string, void (Hanging::*)()> modes = {
		{"barrier", &Hanging::barrier}, {"invalid", &Hanging::invalid}, {"doorbell", &Hanging::doorbell},
		{"kernel", &Hanging::kernel}, {"mutex", &Hanging::mutex}, {"producers", &Hanging::producers}, {"runtime", &Hanging::runtime},
		{"collective", &Hanging::collective},
	};
	auto mode = argc == 2 ? modes.find(argv[1]) : modes.end();
	if (mode == modes.end()) {
		fprintf(stderr, "usage: hangs MODE\n");
		return 2;
	}
	std::string path = argv[0];
	CodeObject code(path.substr(0, path.rfind('/')) + (mode->first == "collective" ? "/collective.hsaco" : "/kernels.hsaco"));
	Hsa hsa(code, 1);
	Hanging hanging(hsa.gpus[0]);
	(hanging.*mode->second)();
	_exit(1);
}

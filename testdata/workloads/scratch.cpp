// Requests for scratch memory, as the hardware makes them: a packet that needs some is the next in a queue, but
// the doorbell does not say so, and the queue's inactive signal asks for the memory. The runtime allocates it and
// clears the signal. Then the program says that the memory is not needed any more, and the runtime frees it. Both are
// logged. Before each request a barrier goes through the queue.
#include "held.h"
#include "http.h"
#include "options.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <hsa/amd_hsa_queue.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <sys/prctl.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {

// What the packet processor writes into the inactive signal.
constexpr hsa_signal_value_t kNeedsScratch = 1, kNeedsNoMore = 512;
constexpr uint32_t kLeastBytes = 16; // of a work-item: what the runtime rounds up to
constexpr auto kLongest = std::chrono::seconds(60);

uint64_t boottime_ns()
{
	timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

hsa_status_t find_gpu(hsa_agent_t agent, void* gpu)
{
	hsa_device_type_t type;
	hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
	if (type != HSA_DEVICE_TYPE_GPU)
		return HSA_STATUS_SUCCESS;
	*static_cast<hsa_agent_t*>(gpu) = agent;
	return HSA_STATUS_INFO_BREAK;
}

class Requester {
public:
	std::atomic<uint64_t> progress{0};
	std::atomic<bool> stop{false};

	Requester()
	{
		hsa_agent_t gpu{};
		if (hsa_init() || hsa_iterate_agents(find_gpu, &gpu) != HSA_STATUS_INFO_BREAK ||
		    hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue_) ||
		    hsa_signal_create(1, 0, nullptr, &passed_)) {
			fprintf(stderr, "no queue\n");
			exit(1);
		}
		inactive_ = reinterpret_cast<amd_queue_t*>(queue_)->queue_inactive_signal;
	}

	~Requester()
	{
		hsa_queue_destroy(queue_);
		hsa_signal_destroy(passed_);
		hsa_shut_down();
	}

	void run(long pace_us)
	{
		for (uint32_t i = 0; !stop; i++) {
			pass_barrier();
			place(kLeastBytes * (1 + i % 8));
			request("allocate", kNeedsScratch);
			request("free", kNeedsNoMore);
			packet()->header = HSA_PACKET_TYPE_INVALID;
			progress++;
			std::this_thread::sleep_for(std::chrono::microseconds(pace_us));
		}
	}

	// what, before and after, bytes of a work-item, index of the packet
	void write(FILE* f) const
	{
		for (const Request& r : requests_)
			fprintf(f, "%s %lu %lu %u %lu\n", r.what, r.before_ns, r.after_ns, r.bytes, r.index);
	}

private:
	struct Request {
		const char* what;
		uint64_t before_ns, after_ns;
		uint32_t bytes;
		uint64_t index;
	};

	hsa_queue_t* queue_ = nullptr;
	hsa_signal_t inactive_{}, passed_{};
	uint64_t index_ = 0; // of the next packet
	std::vector<Request> requests_;

	template <class Packet> Packet* slot(uint64_t index) { return static_cast<Packet*>(queue_->base_address) + index % queue_->size; }
	hsa_kernel_dispatch_packet_t* packet() { return slot<hsa_kernel_dispatch_packet_t>(index_); }

	void pass_barrier()
	{
		uint64_t index = hsa_queue_add_write_index_screlease(queue_, 1);
		auto p = slot<hsa_barrier_and_packet_t>(index);

		hsa_signal_store_relaxed(passed_, 1);
		memset(p, 0, sizeof *p);
		p->completion_signal = passed_;
		__atomic_store_n(&p->header, HSA_PACKET_TYPE_BARRIER_AND, __ATOMIC_RELEASE);
		hsa_signal_store_screlease(queue_->doorbell_signal, hsa_signal_value_t(index));
		hsa_signal_wait_scacquire(passed_, HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
		index_ = index + 1;
	}

	void place(uint32_t bytes)
	{
		hsa_kernel_dispatch_packet_t* p = packet();
		memset(p, 0, sizeof *p);
		p->setup = 1;
		p->workgroup_size_x = 64;
		p->grid_size_x = 64 * 512;
		p->workgroup_size_y = p->workgroup_size_z = 1;
		p->grid_size_y = p->grid_size_z = 1;
		p->private_segment_size = bytes;
		p->header = HSA_PACKET_TYPE_KERNEL_DISPATCH;
	}

	void request(const char* what, hsa_signal_value_t value)
	{
		Request r{what, boottime_ns(), 0, packet()->private_segment_size, index_};
		auto until = std::chrono::steady_clock::now() + kLongest;

		hsa_signal_store_screlease(inactive_, value);
		while (hsa_signal_load_scacquire(inactive_) != 0) {
			if (std::chrono::steady_clock::now() > until) {
				fprintf(stderr, "%s: no answer of the runtime\n", what);
				abort();
			}
			std::this_thread::sleep_for(std::chrono::microseconds(20));
		}
		r.after_ns = boottime_ns();
		requests_.push_back(r);
	}
};

} // namespace

int main(int argc, char** argv)
{
	long seconds = 0, pace_us = 1000, port = 0;
	std::string log;
	Options o;
	o.number("pace", &pace_us, "pause after each request and its end, in us");
	o.number("seconds", &seconds, "duration; 0: until /quit");
	o.number("port", &port, "of /health and /quit; 0: any");
	o.text("log", &log, "where the requests go");
	o.parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	hold_if_asked();

	Requester requester;
	HttpServer http(port, [&](const std::string& path) -> std::string {
		if (path == "/health")
			return "ok " + std::to_string(requester.progress.load()) + "\n";
		if (path != "/quit")
			return "";
		requester.stop = true;
		return "bye\n";
	});
	std::thread clock;
	if (seconds)
		clock = std::thread([&] {
			std::this_thread::sleep_for(std::chrono::seconds(seconds));
			requester.stop = true;
		});
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);
	requester.run(pace_us);
	if (clock.joinable())
		clock.join();
	if (!log.empty()) {
		FILE* f = fopen(log.c_str(), "w");
		if (!f) {
			perror(log.c_str());
			return 1;
		}
		requester.write(f);
		fclose(f);
	}
	printf("{\"threads\":[]}\n");
	return 0;
}

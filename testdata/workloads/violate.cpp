// Breaks the queue protocol once, in the way it is asked to: `violate KIND`.
// The simulator's detectors must say so in the truth log.
#include "hsa_device.h"

#include <functional>
#include <hsa/amd_hsa_queue.h>
#include <map>
#include <unistd.h>

namespace {

constexpr long kRing = 64;

class Violator {
public:
	explicit Violator(const Gpu& gpu) : gpu_(gpu), queue_(create_queue(gpu, kRing)), other_(create_queue(gpu, kRing)), done_(create_signal(0)) {}

	void backward()
	{
		run(queue_);
		set_index(index() - 1);
		rounds();
		set_index(index() + 1);
	}

	void wild()
	{
		uint64_t before = index();
		set_index(before + 100000);
		rounds();
		set_index(before);
	}

	// A lap later the old packet's header is made valid again.
	void reexecute()
	{
		for (long i = 0; i < kRing; i++)
			run(queue_);
		uint64_t stale = hsa_queue_add_write_index_screlease(queue_, 1);
		hsa_signal_store_relaxed(done_, 1);
		__atomic_store_n(static_cast<uint16_t*>(wait_slot(queue_, stale)), header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), __ATOMIC_RELEASE);
		hsa_signal_store_screlease(queue_->doorbell_signal, hsa_signal_value_t(stale));
		wait_signal(done_);
	}

	void move_read_index()
	{
		auto* q = reinterpret_cast<amd_queue_t*>(queue_);
		run(queue_);
		__atomic_store_n(&q->read_dispatch_id, q->read_dispatch_id - 1, __ATOMIC_SEQ_CST);
		run(queue_);
	}

	// Behind a slow kernel waits a packet that the GPU has prefetched.
	void change_packet()
	{
		uint64_t slow = submit(queue_, 50000000, {0}), behind = submit(queue_, 1000, arm());
		(void)slow;
		rounds();
		auto* p = static_cast<hsa_kernel_dispatch_packet_t*>(wait_slot(queue_, behind));
		__atomic_store_n(&p->reserved2, p->reserved2 + 1, __ATOMIC_SEQ_CST);
		wait_signal(done_);
	}

	// Words of a free slot that the next packet sets anyway, by an instruction with the prefix and by one that needs none.
	void lock_slot() { __atomic_fetch_or(&free_slot()->reserved2, 1, __ATOMIC_SEQ_CST); rounds(); }
	void exchange_slot() { __atomic_exchange_n(&free_slot()->reserved2, 1, __ATOMIC_SEQ_CST); rounds(); }

private:
	const Gpu& gpu_;
	hsa_queue_t *queue_, *other_;
	hsa_signal_t done_;
	uint64_t sequence_ = 0;

	amd_queue_t* amd() const { return reinterpret_cast<amd_queue_t*>(queue_); }
	uint64_t index() const { return __atomic_load_n(&amd()->write_dispatch_id, __ATOMIC_SEQ_CST); }

	void set_index(uint64_t to)
	{
		__atomic_store_n(&amd()->write_dispatch_id, to, __ATOMIC_SEQ_CST);
		hsa_signal_store_screlease(queue_->doorbell_signal, hsa_signal_value_t(to));
	}

	hsa_kernel_dispatch_packet_t* free_slot() const { return static_cast<hsa_kernel_dispatch_packet_t*>(queue_->base_address) + index() % kRing; }

	hsa_signal_t arm()
	{
		hsa_signal_store_relaxed(done_, 1);
		return done_;
	}

	uint64_t submit(hsa_queue_t* q, uint64_t ns, hsa_signal_t signal)
	{
		uint64_t i = hsa_queue_add_write_index_screlease(q, 1);
		uint64_t longest = (kDurationFromGrid - 1) * kDurationUnitNs;
		uint64_t tagged = ns > longest ? kDurationFromGrid << 48 | ++sequence_ : tag(++sequence_, ns);
		publish_kernel(wait_slot(q, i), gpu_.kernels[0], tagged, signal, true, uint32_t(ns / 1000));
		hsa_signal_store_screlease(q->doorbell_signal, hsa_signal_value_t(i));
		return i;
	}

	void run(hsa_queue_t* q)
	{
		submit(q, 1000, arm());
		wait_signal(done_);
	}

	// The engine serves all queues in turn: after two kernels elsewhere it has looked at ours.
	void rounds()
	{
		hsa_signal_t s = create_signal(1);
		for (int i = 0; i < 2; i++) {
			hsa_signal_store_relaxed(s, 1);
			submit(other_, 1000, s);
			wait_signal(s);
		}
		HSA_CHECK(hsa_signal_destroy(s));
	}
};

} // namespace

int main(int argc, char** argv)
{
	const std::map<std::string, void (Violator::*)()> kinds = {
		{"backward", &Violator::backward}, {"wild", &Violator::wild}, {"reexecute", &Violator::reexecute},
		{"move-read-index", &Violator::move_read_index}, {"change-packet", &Violator::change_packet},
		{"lock-slot", &Violator::lock_slot}, {"exchange-slot", &Violator::exchange_slot},
	};
	auto kind = argc == 2 ? kinds.find(argv[1]) : kinds.end();
	if (kind == kinds.end()) {
		fprintf(stderr, "usage: violate KIND\n");
		return 2;
	}
	std::string path = argv[0];
	CodeObject code(path.substr(0, path.rfind('/')) + "/kernels.hsaco");
	Hsa hsa(code, 1);
	Violator violator(hsa.gpus[0]);
	printf("ready pid=%d\n", getpid());
	fflush(stdout);
	(violator.*kind->second)();
	printf("{\"threads\":[]}\n");
	fflush(stdout);
	_exit(0); // the queue is not in a state to be destroyed
}

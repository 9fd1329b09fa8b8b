// Two queues, by turns: a kernel on the second one waits behind a barrier packet for a kernel on the first one. It is submitted
// before that, so that nothing but the dependency delays it. `chain ROUNDS [SECOND_GPU]`: the second queue is on that GPU, 0 to 7; default:
// on the first one's. It then ends.
#include "hsa_device.h"

#include <unistd.h>

namespace {

constexpr uint32_t kFirstUs = 2000, kSecondUs = 500;

class Chain {
public:
	Chain(const Gpu& gpu, const Gpu& other) : gpu_(gpu), other_(other), first_(create_queue(gpu, 64)), second_(create_queue(other, 64)) {}

	// One kernel on each queue, without a dependency.
	void warm()
	{
		wait_signal(kernel(first_, gpu_.kernels[0], create_signal(1), kFirstUs));
		wait_signal(kernel(second_, other_.kernels[1], create_signal(1), kSecondUs));
	}

	void round()
	{
		hsa_barrier_and_packet_t p{};
		hsa_signal_t done = create_signal(1);
		p.dep_signal[0] = done;
		publish(claim(second_), &p, header_of(HSA_PACKET_TYPE_BARRIER_AND, true), 0);
		hsa_signal_t last = kernel(second_, other_.kernels[1], create_signal(1), kSecondUs);
		kernel(first_, gpu_.kernels[0], done, kFirstUs);
		wait_signal(last);
	}

private:
	const Gpu &gpu_, &other_;
	hsa_queue_t *first_, *second_;
	uint64_t index_ = 0, sequence_ = 0;

	void* claim(hsa_queue_t* q) { return wait_slot(q, index_ = hsa_queue_add_write_index_screlease(q, 1)); }

	hsa_signal_t kernel(hsa_queue_t* q, const Kernel& k, hsa_signal_t done, uint32_t us)
	{
		publish_kernel(claim(q), k, kDurationFromGrid << 48 | ++sequence_, done, true, us);
		hsa_signal_store_screlease(q->doorbell_signal, hsa_signal_value_t(index_));
		return done;
	}
};

} // namespace

int main(int argc, char** argv)
{
	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: chain ROUNDS [SECOND_GPU]\n");
		return 2;
	}
	uint32_t other = argc == 3 ? uint32_t(atoi(argv[2])) : 0;
	std::string path = argv[0];
	CodeObject code(path.substr(0, path.rfind('/')) + "/kernels.hsaco");
	Hsa hsa(code, other + 1);
	Chain chain(hsa.gpus[0], hsa.gpus.at(other));
	printf("ready pid=%d port=0\n", getpid());
	fflush(stdout);
	chain.warm();
	for (long i = atol(argv[1]); i > 0; i--)
		chain.round();
	return 0;
}

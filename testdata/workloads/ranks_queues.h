// Kernels on a rank's own queues.
#pragma once
#include "hsa_device.h"
#include "ranks.h"

class QueueSubmitter : public Submitter {
public:
	explicit QueueSubmitter(const Gpu& gpu) : queues_{create_queue(gpu, 1024), create_queue(gpu, 1024)}
	{
		static const char* const whats[kWhats] = {"ncclDevKernel", "cross_device_reduce", "Cijk", "paged_attention", "topk"};
		for (const Kernel& k : gpu.kernels)
			for (int i = 0; i < kWhats; i++)
				if (k.name.find(whats[i]) != std::string::npos)
					kernels_[i] = &k;
	}

	void begin(int queues) override { hsa_signal_store_relaxed(done_, queues); }

	void launch(const Launch& l) override
	{
		hsa_queue_t* q = queues_[l.queue];
		hsa_kernel_dispatch_packet_t p{};
		void* slot = wait_slot(q, indexes_[l.queue] = hsa_queue_add_write_index_screlease(q, 1));
		p.workgroup_size_x = 64;
		p.workgroup_size_y = p.workgroup_size_z = 1;
		p.grid_size_x = 4096;
		p.grid_size_y = l.y;
		p.grid_size_z = l.z;
		p.kernel_object = kernels_[l.what]->object;
		p.private_segment_size = kernels_[l.what]->private_bytes;
		p.group_segment_size = kernels_[l.what]->group_bytes;
		p.reserved0 = kTag;
		p.reserved2 = tag(l.id, l.duration_ns); // 4 ms at most
		if (l.last)
			p.completion_signal = done_;
		publish(slot, &p, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), 3);
	}

	void ring(int queue) override { hsa_signal_store_screlease(queues_[queue]->doorbell_signal, hsa_signal_value_t(indexes_[queue])); }
	void wait() override { wait_signal(done_); }
	void* stream() override { return queues_[0]; }

private:
	hsa_queue_t* queues_[2];
	uint64_t indexes_[2] = {};
	const Kernel* kernels_[kWhats] = {};
	hsa_signal_t done_ = create_signal(0);
};

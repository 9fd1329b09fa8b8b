// The kernels of ranks.cpp by HIP, alone or in graphs. HIP 5.2 captures only launches of kernels that were registered with
// their host functions, so these come as a library with their device code (hipcc); ranks loads it with --graphs.
#include <hip/hip_runtime.h>

#include "hip_device.h"
#include "ranks.h"
#include "ranks_kernels.cpp"

namespace {

using Function = void(float*, unsigned);
Function* const functions[kWhats] = {
	ncclDevKernel_AllReduce_Sum_f32_RING_LL, vllm::cross_device_reduce_1stage, Cijk_Alik_Bljk_HHS_BH_MT128x128x32,
	vllm::paged_attention_v2_kernel, vllm::topk_softmax_kernel,
};

// The simulator's duration of a kernel: this, and 1 ns for each workgroup of 256.
constexpr uint64_t kBaseNs = 3000;

class HipSubmitter : public GraphSubmitter {
public:
	explicit HipSubmitter(int device) : device_(device)
	{
		HIP_CHECK(hipSetDevice(device_));
		for (hipStream_t& s : streams_)
			HIP_CHECK(hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
	}

	void begin(int) override { HIP_CHECK(hipSetDevice(device_)); } // of the rank's thread

	// A replay's kernels have no id. Without memory arguments: see decode_graph.hip.
	void launch(const Launch& l) override
	{
		uint64_t to = capturing_ ? 0 : kernarg_id(l.id >> 40, l.id & ((1ull << 40) - 1));
		unsigned n = 0;
		void* arguments[] = {&to, &n};
		dim3 blocks(unsigned((l.duration_ns - kBaseNs) / l.y / l.z), l.y, l.z);
		HIP_CHECK(hipLaunchKernel(reinterpret_cast<const void*>(functions[l.what]), blocks, dim3(256), arguments, 0, streams_[l.queue]));
	}

	void wait() override
	{
		for (hipStream_t s : streams_)
			HIP_CHECK(hipStreamSynchronize(s));
	}

	void* stream() override { return streams_[0]; }

	void begin_capture() override
	{
		begin(1);
		capturing_ = true;
		HIP_CHECK(hipStreamBeginCapture(streams_[0], hipStreamCaptureModeThreadLocal));
	}

	void end_capture() override
	{
		hipGraph_t graph;
		hipGraphExec_t executable;
		HIP_CHECK(hipStreamEndCapture(streams_[0], &graph));
		capturing_ = false;
		HIP_CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
		graphs_.push_back(executable);
	}

	void replay(unsigned graph) override { HIP_CHECK(hipGraphLaunch(graphs_[graph], streams_[0])); }

private:
	int device_;
	bool capturing_ = false;
	hipStream_t streams_[2] = {};
	std::vector<hipGraphExec_t> graphs_;
};

} // namespace

extern "C" GraphSubmitter* new_graph_submitter(int device)
{
	return new HipSubmitter(device);
}

// The kernels that serve replays as a graph. HIP 5.2 captures only launches of
// kernels that were registered with their host functions, so these come as one
// object with their device code (hipcc), not as a module.
#include "decode_graph.h"

namespace decode {

template <typename T, int HEADS>
__global__ void rotary_embedding_kernel(unsigned long id, T* query, const long* positions) { query[id % HEADS] = T(positions[0]); }

template <typename T, int EXPERTS, int TOP_K>
__global__ void topk_gating_softmax_kernel(unsigned long id, T* weights, const T* logits) { weights[id % EXPERTS] = logits[TOP_K]; }

template <typename T> __global__ void sample_token_kernel(unsigned long id, int* token, const T* logits) { token[0] = int(logits[id % 64]); }

} // namespace decode

// Without memory arguments: under HIP 5.2.3 a buffer that a graph's kernels refer
// to was seen freed while in use, and hipMemcpyAsync crashed on it (4 of 14 runs).
void launch_decode_kernel(int i, hipStream_t stream)
{
	dim3 blocks(8), threads(256);
	switch (i % 3) {
	case 0: decode::rotary_embedding_kernel<float, 32><<<blocks, threads, 0, stream>>>(0, nullptr, nullptr); break;
	case 1: decode::topk_gating_softmax_kernel<float, 64, 8><<<blocks, threads, 0, stream>>>(0, nullptr, nullptr); break;
	default: decode::sample_token_kernel<float><<<blocks, threads, 0, stream>>>(0, nullptr, nullptr); break;
	}
}

// Kernels of a model, and with the names of collectives' kernels, for ranks.cpp; see kernels.cpp.
#define __global__ __attribute__((global))

extern "C" __global__ void ncclDevKernel_AllReduce_Sum_f32_RING_LL(float* to, unsigned n) { to[n] = 0; }
extern "C" __global__ void Cijk_Alik_Bljk_HHS_BH_MT128x128x32(float* to, unsigned n) { to[n] = 1; }

namespace vllm {
__global__ void cross_device_reduce_1stage(float* to, unsigned n) { to[n] = 2; }
__global__ void paged_attention_v2_kernel(float* to, unsigned n) { to[n] = 3; }
__global__ void topk_softmax_kernel(float* to, unsigned n) { to[n] = 4; }
} // namespace vllm

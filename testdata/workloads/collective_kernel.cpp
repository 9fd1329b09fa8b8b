// A kernel with the name of one of RCCL's; see kernels.cpp.
#define __global__ __attribute__((global))

extern "C" __global__ void ncclDevKernel_AllReduce_Sum_f32_RING_LL(float* to, unsigned n) { to[n] = 0; }

// Kernels with names like those of an inference server. The first argument is the
// workload's own id of the launch: the simulator writes it to the truth log.
#define __global__ __attribute__((global))
using u64 = unsigned long;
using half = _Float16;

namespace vllm {
enum class Fp8KVCacheDataType { kAuto, kFp8E4M3 };

template <typename scalar_t, typename cache_t, int HEAD_SIZE, int BLOCK_SIZE, int NUM_THREADS, Fp8KVCacheDataType KV, bool SPARSE>
__global__ void paged_attention_v2_kernel(u64 id, scalar_t* out, const scalar_t* q, const cache_t* k, const cache_t* v, float scale)
{
	out[id % HEAD_SIZE] = q[0] * scalar_t(k[BLOCK_SIZE]) + scalar_t(v[NUM_THREADS]) * scalar_t(scale);
}

template <typename scalar_t, int WIDTH>
__global__ void fused_add_rms_norm_kernel(u64 id, scalar_t* input, scalar_t* residual, const scalar_t* weight, float epsilon)
{
	input[id % WIDTH] = residual[0] * weight[0] + scalar_t(epsilon);
}
}  // namespace vllm

namespace at {
namespace native {
template <typename T, int N> struct Array { T data[N]; };
template <typename T> struct CUDAFunctor_add { T alpha; };

template <int vec_size, typename func_t, typename array_t>
__global__ void vectorized_elementwise_kernel(u64 id, int n, func_t f, array_t data)
{
	data.data[0][id % vec_size] = char(n) + char(f.alpha);
}
}  // namespace native
}  // namespace at

namespace ck {
template <int M, int N, int K> struct TileShape {};
template <typename A, typename B, typename C, typename Shape> struct GridwiseGemm {};

template <typename Gemm, typename A, typename C, bool HasMainKBlockLoop>
__global__ void kernel_gemm_xdl_cshuffle_v1(u64 id, const A* a, const A* b, C* c)
{
	c[id % 64] = C(a[0] * b[HasMainKBlockLoop]);
}
}  // namespace ck

template <typename T> __global__ void silu_and_mul_kernel(u64 id, T* out, const T* in) { out[id % 64] = in[0]; }

extern "C" __global__ void Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_1LDSB0_APM1_ABV0_AF0EM8_ASEM2_WG64_4_1(u64 id, half* d, const half* a, const half* b)
{
	d[id % 64] = a[0] * b[0];
}

using vllm::Fp8KVCacheDataType;
template __global__ void vllm::paged_attention_v2_kernel<half, half, 128, 16, 256, Fp8KVCacheDataType::kAuto, false>(u64, half*, const half*, const half*, const half*, float);
template __global__ void vllm::paged_attention_v2_kernel<float, unsigned char, 64, 32, 128, Fp8KVCacheDataType::kFp8E4M3, true>(u64, float*, const float*, const unsigned char*, const unsigned char*, float);
template __global__ void vllm::fused_add_rms_norm_kernel<half, 8>(u64, half*, half*, const half*, float);
template __global__ void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::native::Array<char*, 3>>(u64, int, at::native::CUDAFunctor_add<float>, at::native::Array<char*, 3>);
template __global__ void ck::kernel_gemm_xdl_cshuffle_v1<ck::GridwiseGemm<half, half, float, ck::TileShape<256, 128, 32>>, half, float, true>(u64, const half*, const half*, float*);
template __global__ void ck::kernel_gemm_xdl_cshuffle_v1<ck::GridwiseGemm<float, float, float, ck::TileShape<128, 64, 16>>, float, float, false>(u64, const float*, const float*, float*);
template __global__ void silu_and_mul_kernel<half>(u64, half*, const half*);

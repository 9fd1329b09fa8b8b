// Kernels of llama.cpp, for llamalike.cpp; see kernels.cpp.
#define __global__ __attribute__((global))
using u64 = unsigned long;

template <int block> __global__ void rms_norm_f32(u64 id, float* to) { to[id % block] = 0; }
template <int type, int columns> __global__ void mul_mat_vec_q(u64 id, float* to) { to[id % columns] = type; }
template <int type, int columns> __global__ void mul_mat_q(u64 id, float* to) { to[id % columns] = type; }
template <int head> __global__ void flash_attn_vec_ext_f16(u64 id, float* to) { to[id % head] = 1; }
template <int head> __global__ void flash_attn_tile_ext_f16(u64 id, float* to) { to[id % head] = 2; }
template <typename T> __global__ void rope_norm(u64 id, T* to) { to[id % 64] = 3; }

__global__ void k_get_rows(u64 id, float* to) { to[id] = 4; }
__global__ void quantize_q8_1(u64 id, char* to) { to[id] = 5; }
__global__ void quantize_mmq_q8_1(u64 id, char* to) { to[id] = 6; }
__global__ void silu_mul_f32(u64 id, float* to) { to[id] = 7; }
__global__ void add_f32(u64 id, float* to) { to[id] = 8; }

template __global__ void rms_norm_f32<1024>(u64, float*);
template __global__ void mul_mat_vec_q<12, 1>(u64, float*);
template __global__ void mul_mat_q<12, 128>(u64, float*);
template __global__ void flash_attn_vec_ext_f16<128>(u64, float*);
template __global__ void flash_attn_tile_ext_f16<128>(u64, float*);
template __global__ void rope_norm<float>(u64, float*);

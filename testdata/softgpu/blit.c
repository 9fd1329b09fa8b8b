/*
 * The effects of the runtimes' own copy and fill kernels. Layouts of their
 * arguments, in 8-byte words: ROCr's blit_kernel.cpp, ROCclr's blit kernels.
 */
#include <string.h>

#include "engine.h"

static uint8_t *host(uint64_t gpu_address)
{
	return memory_host(gpu_address);
}

static void repeat(uint8_t *to, uint64_t bytes, const uint8_t *pattern, uint64_t pattern_bytes)
{
	if (!pattern_bytes)
		return;
	for (; bytes >= pattern_bytes; bytes -= pattern_bytes, to += pattern_bytes)
		memcpy(to, pattern, pattern_bytes);
	memcpy(to, pattern, bytes);
}

/* phase1: src, dst, …; the end of the source is where the last phase ends. */
static void rocr_copy(const uint64_t *a, uint64_t end)
{
	memcpy(host(a[1]), host(a[0]), end - a[0]);
}

static void rocr_fill(const uint64_t *a)
{
	uint32_t value = (uint32_t)a[3];

	repeat(host(a[0]), (a[2] - a[0]) & ~3ull, (const uint8_t *)&value, sizeof value);
}

/*
 * ROCm 5: src, dst, src offset, dst offset, size, remainder or element size.
 * ROCm 6: src, dst, size, …, end pointer (of dst), chunk.
 */
static void hip_copy(const uint64_t *a)
{
	bool rocm6 = a[4] >= a[1] && a[4] <= a[1] + a[2];
	uint32_t last = (uint32_t)a[5];
	uint64_t bytes;

	if (rocm6) {
		memcpy(host(a[1]), host(a[0]), a[2]);
		return;
	}
	bytes = last == 8 || !a[4] ? a[4] : (a[4] - 1) * 4 + last;
	memcpy(host(a[1]) + a[3], host(a[0]) + a[2], bytes);
}

static void hip_copy_aligned(const uint64_t *a)
{
	uint64_t element = (uint32_t)a[5] == 16 ? 16 : 4;

	memcpy(host(a[1]) + a[3] * element, host(a[0]) + a[2] * element, a[4] * element);
}

/* src, dst, …, source rect (pitch, slice, start) at 4, destination rect at 8, size at 12. */
static void hip_copy_rect(const uint64_t *a, bool aligned)
{
	const uint64_t *src = a + 4, *dst = a + 8, *size = a + 12;
	uint64_t element = !aligned ? 1 : size[3] == 16 ? 16 : 4;
	const uint8_t *from = host(a[0]);
	uint8_t *to = host(a[1]);

	for (uint64_t z = 0; z < size[2]; z++)
		for (uint64_t y = 0; y < size[1]; y++)
			memcpy(to + (dst[2] + y * dst[0] + z * dst[1]) * element,
			       from + (src[2] + y * src[0] + z * src[1]) * element, size[0] * element);
}

/* ROCm 5 passes one of four pointers, by element size: 1, 2, 4, 8. */
static uint64_t fill_target(const uint64_t *a, uint64_t *element)
{
	for (int i = 3; i >= 0; i--)
		if (a[i]) {
			*element = 1ull << i;
			return a[i];
		}
	*element = 1;
	return 0;
}

/*
 * ROCm 5: four pointers, pattern, pattern's elements, offset, count.
 * ROCm 6: buffer, pattern, pattern's elements | alignment << 32, end pointer, chunk.
 */
static void hip_fill(const uint64_t *a)
{
	bool rocm6 = a[0] && a[1] && a[3];
	uint64_t element, pattern_bytes, target;

	if (rocm6) {
		uint64_t alignment = a[2] >> 32;

		pattern_bytes = (uint32_t)a[2] * (alignment > 1 && alignment <= 16 ? alignment : 1);
		repeat(host(a[0]), a[3] - a[0], host(a[1]), pattern_bytes);
		return;
	}
	target = fill_target(a, &element);
	pattern_bytes = (uint32_t)a[5] * element;
	repeat(host(target) + a[6] * element, a[7] * pattern_bytes, host(a[4]), pattern_bytes);
}

/* As hip_fill for ROCm 5, then width, height, pitch. */
static void hip_fill_2d(const uint64_t *a)
{
	uint64_t element, target = fill_target(a, &element);
	uint64_t pattern_bytes = (uint32_t)a[5] * element;
	uint64_t width = pattern_bytes ? a[7] - a[7] % pattern_bytes : 0;

	for (uint64_t y = 0; y < a[8]; y++)
		repeat(host(target) + (a[6] + y * a[9]) * element, width, host(a[4]), pattern_bytes);
}

static void hip_write(const uint64_t *a)
{
	if (a[0])
		__atomic_store_n((uint32_t *)host(a[0]), (uint32_t)a[2], __ATOMIC_RELEASE);
	else if (a[1])
		__atomic_store_n((uint64_t *)host(a[1]), a[2], __ATOMIC_RELEASE);
}

void blit_perform(enum kernel_kind kind, const uint64_t *a)
{
	switch (kind) {
	case KERNEL_USER: break;
	case KERNEL_ROCR_COPY_ALIGNED: rocr_copy(a, a[8]); break;
	case KERNEL_ROCR_COPY_MISALIGNED: rocr_copy(a, a[4]); break;
	case KERNEL_ROCR_FILL: rocr_fill(a); break;
	case KERNEL_HIP_COPY: hip_copy(a); break;
	case KERNEL_HIP_COPY_ALIGNED: hip_copy_aligned(a); break;
	case KERNEL_HIP_COPY_RECT: hip_copy_rect(a, false); break;
	case KERNEL_HIP_COPY_RECT_ALIGNED: hip_copy_rect(a, true); break;
	case KERNEL_HIP_FILL: hip_fill(a); break;
	case KERNEL_HIP_FILL_2D: hip_fill_2d(a); break;
	case KERNEL_HIP_WRITE: hip_write(a); break;
	}
}

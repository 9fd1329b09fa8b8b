// The part of torchlike.py that calls HIP, as PyTorch's libraries do for Python. ctypes loads it.
#include "hip_device.h"

#include <memory>

namespace {

constexpr size_t kBatchBytes = 1 << 20;

std::unique_ptr<CodeObject> code;
std::unique_ptr<Device> device;
char *batch, *on_gpu;

} // namespace

extern "C" {

// Returns the number of kernels.
int torchlike_open(const char* code_object)
{
	code = std::make_unique<CodeObject>(code_object);
	device = std::make_unique<Device>(0, *code);
	HIP_CHECK(hipHostMalloc(reinterpret_cast<void**>(&batch), kBatchBytes, hipHostMallocDefault));
	HIP_CHECK(hipMalloc(reinterpret_cast<void**>(&on_gpu), kBatchBytes));
	return int(device->kernels.size());
}

// The mangled name of a kernel.
const char* torchlike_kernel(int kernel) { return code->kernels[size_t(kernel)].c_str(); }

void* torchlike_stream()
{
	hipStream_t stream;
	HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
	return stream;
}

void torchlike_launch(int kernel, void* stream, uint64_t thread, uint64_t sequence)
{
	Arguments arguments;
	arguments.id = kernarg_id(thread, sequence);
	HIP_CHECK(hipModuleLaunchKernel(device->kernels[size_t(kernel)], 8, 1, 1, 256, 1, 1, 0, static_cast<hipStream_t>(stream), arguments.pointers, nullptr));
}

// Copies a batch to the GPU.
void torchlike_copy(void* stream)
{
	HIP_CHECK(hipMemcpyAsync(on_gpu, batch, kBatchBytes, hipMemcpyHostToDevice, static_cast<hipStream_t>(stream)));
}

// A stream's later work waits for what another stream has now.
void torchlike_wait(void* stream, void* other)
{
	hipEvent_t event;
	HIP_CHECK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
	HIP_CHECK(hipEventRecord(event, static_cast<hipStream_t>(other)));
	HIP_CHECK(hipStreamWaitEvent(static_cast<hipStream_t>(stream), event, 0));
	HIP_CHECK(hipEventDestroy(event));
}

void torchlike_synchronize(void* stream) { HIP_CHECK(hipStreamSynchronize(static_cast<hipStream_t>(stream))); }
}

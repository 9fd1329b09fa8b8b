// Hangs for ever: a function that the stream calls on the host does not return. `hiphangs` hangs in hipStreamSynchronize,
// `hiphangs full` in a call that submits, because the queue has no room.
#include "hip_device.h"

#include <cstring>
#include <unistd.h>

namespace {

void never_returns(hipStream_t, hipError_t, void*)
{
	for (;;)
		pause();
}

} // namespace

int main(int argc, char** argv)
{
	bool full = argc == 2 && !strcmp(argv[1], "full");
	constexpr size_t kBytes = 4096;
	void* memory;
	hipStream_t stream;
	HIP_CHECK(hipMalloc(&memory, kBytes));
	HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
	HIP_CHECK(hipStreamSynchronize(stream));
	HIP_CHECK(hipStreamAddCallback(stream, never_returns, nullptr, 0));
	printf("ready pid=%d port=0\n", getpid());
	fflush(stdout);
	while (full)
		HIP_CHECK(hipMemsetAsync(memory, 0, kBytes, stream));
	HIP_CHECK(hipStreamSynchronize(stream));
	_exit(1);
}

// Hangs for ever in hipStreamSynchronize: a function that the stream calls on the host does not return.
#include "hip_device.h"

#include <unistd.h>

namespace {

void never_returns(hipStream_t, hipError_t, void*)
{
	for (;;)
		pause();
}

} // namespace

int main()
{
	hipStream_t stream;
	HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
	HIP_CHECK(hipStreamSynchronize(stream));
	HIP_CHECK(hipStreamAddCallback(stream, never_returns, nullptr, 0));
	printf("ready pid=%d port=0\n", getpid());
	fflush(stdout);
	HIP_CHECK(hipStreamSynchronize(stream));
	_exit(1);
}

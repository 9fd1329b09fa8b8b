// Hangs for ever in hipStreamSynchronize: a function that the stream calls on the host does not return.
#include "hip_device.h"

#include <unistd.h>

namespace {

void never_returns(void*)
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
	HIP_CHECK(hipLaunchHostFunc(stream, never_returns, nullptr));
	printf("ready pid=%d\n", getpid());
	fflush(stdout);
	HIP_CHECK(hipStreamSynchronize(stream));
	_exit(1);
}

// A library that calls HIP, which hipcalls loads and unloads.
#include <hip/hip_runtime_api.h>

extern "C" hipError_t plugin_get_device(int* device)
{
	return hipGetDevice(device);
}

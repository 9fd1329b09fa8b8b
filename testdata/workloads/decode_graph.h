// Launches the i-th kernel of the decode step, or adds it to the graph being captured.
#pragma once
#include <hip/hip_runtime.h>

void launch_decode_kernel(int i, hipStream_t stream);

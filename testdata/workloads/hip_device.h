// HIP: errors end the program with a message; modules give their kernels by name.
#pragma once
#include "code_object.h"

#include <hip/hip_runtime_api.h>
#include <time.h>

// hip/hip_ext.h declares this among templates that g++ does not accept.
hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t global_x, uint32_t global_y, uint32_t global_z, uint32_t local_x,
				    uint32_t local_y, uint32_t local_z, size_t shared_bytes, hipStream_t stream, void** arguments,
				    void** extra, hipEvent_t start, hipEvent_t stop, uint32_t flags);

#define HIP_CHECK(call)                                                                      \
	do {                                                                                 \
		hipError_t status_ = (call);                                                 \
		if (status_ != hipSuccess) {                                                 \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(status_)); \
			abort();                                                             \
		}                                                                            \
	} while (0)

inline uint64_t now_ns()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

// A first kernel argument that the simulator takes for the launch's id.
inline uint64_t kernarg_id(uint64_t thread, uint64_t sequence)
{
	return 0x5254ull << 48 | thread << 40 | sequence;
}

struct Device {
	int ordinal = 0;
	hipModule_t module = nullptr;
	std::vector<hipFunction_t> kernels;

	Device() = default; // to be filled by a program that logs its calls
	Device(int ordinal, const CodeObject& code) : ordinal(ordinal)
	{
		HIP_CHECK(hipSetDevice(ordinal));
		HIP_CHECK(hipModuleLoadData(&module, code.bytes.data()));
		for (const std::string& name : code.kernels) {
			hipFunction_t f;
			HIP_CHECK(hipModuleGetFunction(&f, module, name.c_str()));
			kernels.push_back(f);
		}
	}
};

// Room for the arguments of any kernel in kernels.cpp; only the first is looked at.
struct Arguments {
	uint64_t id = 0;
	uint64_t rest[7] = {};
	void* pointers[8];

	Arguments()
	{
		pointers[0] = &id;
		for (int i = 0; i < 7; i++)
			pointers[i + 1] = &rest[i];
	}
};

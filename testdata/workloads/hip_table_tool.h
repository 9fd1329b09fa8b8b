// Another tool, which takes slots of HIP's dispatch table (HIP 6 and later), puts itself above whatever it finds there, passes
// every call on and counts: /hip-tool/enter, /hip-tool/leave and /hip-tool/calls. The answer is the number of calls that each place
// has got, and the number of slots that have the tool's function now.
#pragma once
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>
#include <string>

#if HIP_VERSION_MAJOR >= 6
#include <hip/hip_deprecated.h>

#include <hip/amd_detail/amd_hip_gl_interop.h>
#include <hip/amd_detail/hip_api_trace.hpp>

class HIPTableTool {
public:
	std::string answer(const std::string& request)
	{
		if (request == "/hip-tool/enter")
			enter();
		else if (request == "/hip-tool/leave")
			leave();
		else if (request != "/hip-tool/calls")
			return "";
		std::string text;
		for (auto& n : calls)
			text += std::to_string(n.load()) + " ";
		return text + std::to_string(own_slots()) + "\n";
	}

private:
	enum { kGetDevice, kLaunch, kSynchronize, kMalloc, kPlaces };
	static inline std::atomic<uint64_t> calls[kPlaces];
	// On the heap: in the program's data only what leads to the recording tool is looked for.
	static inline std::atomic<void*>* const next = new std::atomic<void*>[kPlaces];

	template <int Place, class F> struct Above;
	template <int Place, class R, class... A> struct Above<Place, R (*)(A...)> {
		static R call(A... arguments)
		{
			calls[Place]++;
			return reinterpret_cast<R (*)(A...)>(next[Place].load())(arguments...);
		}
	};

	struct Taken {
		void** slot;
		void* mine;
	};

	template <int Place, class F> static Taken place(F& slot)
	{
		return {reinterpret_cast<void**>(&slot), reinterpret_cast<void*>(&Above<Place, F>::call)};
	}

	static Taken taken(int i)
	{
		HipDispatchTable& t = table();
		switch (i) {
		case kGetDevice: return place<kGetDevice>(t.hipGetDevice_fn);
		case kLaunch: return place<kLaunch>(t.hipModuleLaunchKernel_fn);
		case kSynchronize: return place<kSynchronize>(t.hipStreamSynchronize_fn);
		default: return place<kMalloc>(t.hipMalloc_fn);
		}
	}

	// An exported function begins with the call of a function that returns the table: endbr64, sub, mov, call.
	static HipDispatchTable& table()
	{
		auto* code = static_cast<const unsigned char*>(dlsym(RTLD_DEFAULT, "hipGetDevice"));
		int32_t distance;
		if (!code || code[13] != 0xe8) {
			fprintf(stderr, "HIP's table: cannot decode hipGetDevice\n");
			abort();
		}
		memcpy(&distance, code + 14, sizeof distance);
		return *reinterpret_cast<HipDispatchTable* (*)()>(reinterpret_cast<uintptr_t>(code + 18 + distance))();
	}

	static void enter()
	{
		for (int i = 0; i < kPlaces; i++) {
			Taken t = taken(i);
			next[i] = *t.slot;
			__atomic_store_n(t.slot, t.mine, __ATOMIC_SEQ_CST);
		}
	}

	// What was found is put back.
	static void leave()
	{
		for (int i = 0; i < kPlaces; i++)
			__atomic_store_n(taken(i).slot, next[i].load(), __ATOMIC_SEQ_CST);
	}

	static int own_slots()
	{
		int n = 0;
		for (int i = 0; i < kPlaces; i++)
			n += __atomic_load_n(taken(i).slot, __ATOMIC_SEQ_CST) == taken(i).mine;
		return n;
	}
};

#else // its functions have no table

class HIPTableTool {
public:
	std::string answer(const std::string&) { return ""; }
};

#endif

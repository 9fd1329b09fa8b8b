// Loads the other tool (other_tool.cpp) on demand: "/tool/enter", "/tool/leave"
// and "/tool/calls" of a workload's server.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>

class OtherTool {
public:
	explicit OtherTool(std::string path) : path_(std::move(path)) {}

	// The answer to a request, or nothing if it is not for us.
	std::string answer(const std::string& request)
	{
		if (request == "/tool/enter")
			function<void (*)()>("other_tool_enter")();
		else if (request == "/tool/leave")
			function<void (*)()>("other_tool_leave")();
		else if (request != "/tool/calls")
			return "";
		return std::to_string(function<uint64_t (*)()>("other_tool_calls")()) + "\n";
	}

private:
	std::string path_;
	void* library_ = nullptr;

	template <typename F> F function(const char* name)
	{
		if (!library_)
			library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
		void* f = library_ ? dlsym(library_, name) : nullptr;
		if (!f) {
			fprintf(stderr, "other tool: %s\n", dlerror());
			exit(1);
		}
		return reinterpret_cast<F>(f);
	}
};

// Loads another tool on demand: requests "/tool/COMMAND" of a workload's server are commands for other_tool.cpp,
// "/index-tool/COMMAND" for index_tool.cpp, "/listener/COMMAND" for listener.cpp. "…/close" unloads it.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>

class OtherTool {
public:
	// A command is a function PREFIX_COMMAND in the library; what counts returns a number.
	OtherTool(std::string path, std::string request, std::string prefix, std::string counts)
		: path_(std::move(path)), request_(std::move(request)), prefix_(std::move(prefix)), counts_(std::move(counts))
	{
	}

	// The answer to a request, or nothing if it is not for us: what it counts.
	std::string answer(const std::string& request)
	{
		if (request.compare(0, request_.size(), request_))
			return "";
		std::string command = request.substr(request_.size());
		if (command == "close")
			return close();
		if (command != counts_)
			function<void (*)()>(command)();
		return std::to_string(function<uint64_t (*)()>(counts_)()) + "\n";
	}

private:
	std::string path_, request_, prefix_, counts_;
	void* library_ = nullptr;

	std::string close()
	{
		int failed = library_ ? dlclose(library_) : -1;
		library_ = nullptr;
		return std::to_string(failed) + "\n";
	}

	template <typename F> F function(const std::string& name)
	{
		if (!library_)
			library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
		void* f = library_ ? dlsym(library_, (prefix_ + name).c_str()) : nullptr;
		if (!f) {
			fprintf(stderr, "other tool: %s\n", dlerror());
			exit(1);
		}
		return reinterpret_cast<F>(f);
	}
};

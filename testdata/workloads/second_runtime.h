// A second copy of the HSA runtime in the process, as a Python wheel brings one beside the system's: /runtime/copy loads a copied
// file; /runtime/namespace loads the same file into a namespace of its own (dlmopen). The answer is the copy's path. Nobody initializes
// it: a process has one KFD.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <hsa/hsa.h>
#include <string>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

class SecondRuntime {
public:
	std::string answer(const std::string& request)
	{
		if (request == "/runtime/copy")
			return open(copy()) + "\n";
		if (request == "/runtime/namespace")
			return open_apart() + "\n";
		return "";
	}

private:
	static std::string original()
	{
		Dl_info where;
		if (!dladdr(reinterpret_cast<void*>(&hsa_init), &where) || !strstr(where.dli_fname, "libhsa-runtime64"))
			dladdr(dlsym(RTLD_DEFAULT, "hsa_init"), &where);
		return where.dli_fname;
	}

	// Beside the simulator's log.
	static std::string copy()
	{
		std::string log = getenv("SOFTGPU_LOG"), to = log.substr(0, log.rfind('/')) + "/libhsa-runtime64.so.1";
		int from = ::open(original().c_str(), O_RDONLY | O_CLOEXEC), out = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
		struct stat st;
		if (from < 0 || out < 0 || fstat(from, &st))
			fail(to);
		for (off_t left = st.st_size; left > 0;) {
			ssize_t n = sendfile(out, from, nullptr, size_t(left));
			if (n <= 0)
				fail(to);
			left -= n;
		}
		close(from);
		close(out);
		return to;
	}

	static std::string open(const std::string& path)
	{
		void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
		if (!library)
			fail(dlerror());
		if (dlsym(library, "hsa_init") == reinterpret_cast<void*>(&hsa_init))
			fail(path + " is no copy");
		return path;
	}

	static std::string open_apart()
	{
		std::string path = original();
		if (!dlmopen(LM_ID_NEWLM, path.c_str(), RTLD_NOW))
			fail(dlerror());
		return path;
	}

	[[noreturn]] static void fail(const std::string& what)
	{
		fprintf(stderr, "second runtime: %s\n", what.c_str());
		exit(1);
	}
};

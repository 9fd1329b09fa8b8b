// With RTL_HELD in its environment, a program starts the HSA runtime and waits for /go, before it makes anything of its own:
// a tool can attach before HIP is used, and before there are queues, memory and threads.
#pragma once
#include "http.h"

#include <dlfcn.h>
#include <future>

inline void hold_if_asked()
{
	if (!getenv("RTL_HELD"))
		return;
	auto init = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "hsa_init"));
	if (!init || init()) {
		fprintf(stderr, "held: no HSA runtime\n");
		exit(1);
	}
	std::promise<void> told;
	HttpServer http(0, [&told](const std::string& path) -> std::string {
		if (path != "/go")
			return "";
		told.set_value();
		return "gone\n";
	});
	printf("held pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);
	told.get_future().wait();
}

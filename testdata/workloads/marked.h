// ROCTx's functions, from a library that is opened, and a log of all calls of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vector>

// The clock of a trace.
inline uint64_t boottime_ns()
{
	timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

// As ROCTx numbers them.
enum class Operation { mark, push, pop, start, stop };

struct MarkerCall {
	Operation operation;
	uint64_t range;     // of start and stop
	size_t length;      // of the text
	std::string begins; // its first 255 bytes
	uint64_t before_ns, after_ns;
};

class Roctx {
public:
	explicit Roctx(const char* path) : path_(path) { open(); }

	// Threads that use the functions hold this, and look whether they are there.
	std::shared_mutex in_use;
	bool is_open() const { return library_; }

	void close()
	{
		std::unique_lock<std::shared_mutex> hold(in_use);
		dlclose(library_);
		library_ = nullptr;
	}

	void open()
	{
		std::unique_lock<std::shared_mutex> hold(in_use);
		library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_GLOBAL);
		if (!library_) {
			fprintf(stderr, "%s\n", dlerror());
			exit(1);
		}
		find(mark_, "roctxMarkA");
		find(push_, "roctxRangePushA");
		find(pop_, "roctxRangePop");
		find(start_, "roctxRangeStartA");
		find(stop_, "roctxRangeStop");
	}

	// A tool that was there first: it counts what it sees.
	void register_tool()
	{
		void (*set)(int (*)(uint32_t, uint32_t, const void*)) = nullptr;
		find(set, "roctxRegisterTracerCallback");
		set([](uint32_t domain, uint32_t operation, const void*) {
			if (domain == 6 && operation < seen.size())
				seen[operation]++;
			return 0;
		});
	}
	static inline std::array<std::atomic<uint64_t>, 5> seen;

private:
	friend class Marker;
	std::string path_;
	void* library_ = nullptr;
	void (*mark_)(const char*);
	int (*push_)(const char*);
	int (*pop_)();
	uint64_t (*start_)(const char*);
	void (*stop_)(uint64_t);

	template <typename F> void find(F& f, const char* name)
	{
		f = reinterpret_cast<F>(dlsym(library_, name));
		if (!f) {
			fprintf(stderr, "no %s\n", name);
			exit(1);
		}
	}
};

// The calls of one thread. Texts are overwritten when the call has returned.
class Marker {
public:
	Marker(const Roctx& roctx, bool keeps) : roctx_(roctx), keeps_(keeps) {}

	void begin() { tid_ = syscall(SYS_gettid); }
	void mark() { said(Operation::mark, [this](const char* text) { roctx_.mark_(text); return 0; }); }
	void push() { said(Operation::push, [this](const char* text) { roctx_.push_(text); return 0; }); }
	uint64_t start() { return said(Operation::start, [this](const char* text) { return roctx_.start_(text); }); }
	void pop() { note(Operation::pop, 0, "", [this] { roctx_.pop_(); return uint64_t(0); }); }
	void stop(uint64_t range) { note(Operation::stop, range, "", [this, range] { roctx_.stop_(range); return range; }); }

	void write(FILE* f) const
	{
		for (const MarkerCall& c : calls_)
			fprintf(f, "%ld %d %lu %zu %lu %lu %s\n", tid_, int(c.operation), c.range, c.length, c.before_ns, c.after_ns, c.begins.c_str());
	}
	const std::vector<MarkerCall>& calls() const { return calls_; }

private:
	const Roctx& roctx_;
	const bool keeps_; // the log
	long tid_ = 0;
	uint64_t sequence_ = 0;
	std::vector<MarkerCall> calls_;

	// A text of its own for each call, if there is room for one.
	std::string next_text()
	{
		static constexpr size_t lengths[] = {24, 0, 80, 81, 24, 255, 256, 24, 5000, 24};
		std::string text = std::to_string(tid_) + "-" + std::to_string(++sequence_) + "-";
		text.resize(lengths[sequence_ % (sizeof lengths / sizeof *lengths)], char('a' + sequence_ % 26));
		return text;
	}

	template <typename F> uint64_t said(Operation operation, F call)
	{
		std::string text = next_text(), buffer = text;
		return note(operation, 0, text, [&] {
			uint64_t range = uint64_t(call(buffer.c_str()));
			memset(buffer.data(), '#', buffer.size());
			return range;
		});
	}

	template <typename F> uint64_t note(Operation operation, uint64_t range, const std::string& text, F call)
	{
		uint64_t before = boottime_ns();
		range = call();
		if (keeps_)
			calls_.push_back({operation, range, text.size(), text.substr(0, 255), before, boottime_ns()});
		return range;
	}
};

// The program's own log of the API calls that it makes: what was called with which arguments, when,
// and what it returned. The log is a file in memory, with entries of a fixed size, so that a call costs
// little more for it, and all is there if the program is killed.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <type_traits>
#include <unistd.h>

// As test/harness/apilog.go reads it.
struct CallEntry {
	static constexpr int kArguments = 11;

	uint64_t before_ns, after_ns; // CLOCK_BOOTTIME; after 0: it has not returned
	uint64_t result;
	uint64_t arguments[kArguments];
	uint64_t content; // what the first pointer to a word pointed to when the call had returned
	uint32_t tid, sequence; // of the thread; a signal handler has its own sequence
	uint16_t function;
	uint8_t flags, result_bytes, count;
	uint8_t content_of; // 1 + the index of that pointer; 0: none
	uint8_t content_bytes;
	uint8_t bytes[kArguments];
	uint8_t unused[6];
};
static_assert(sizeof(CallEntry) == 152, "no padding");

enum CallFlags : uint8_t {
	kByPointer = 1, // of dlsym
	kInHandler = 2, // of a signal
	kInPlugin = 4,  // by a library that comes and goes
};

// Structures that are a word, too.
template <class T>
struct IsHandle : std::false_type {};

// A register in which the function has no argument, before words of the stack.
struct Unused {};

// Where the next entries of a thread, or of the signal handlers that interrupt it, go.
struct CallLane {
	CallEntry *at = nullptr, *end = nullptr;
	uint32_t sequence = 0;
};

class CallLog {
public:
	static constexpr size_t kNameBytes = 64, kNames = 200, kHeaderBytes = 16384;

	CallLog(const std::string& path, const char* const* names, size_t count)
	{
		int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
		if (!path.empty()) {
			flags = MAP_SHARED;
			bytes_ = kFileBytes;
			fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
			if (fd < 0 || ftruncate(fd, off_t(bytes_)))
				fail(path);
		}
		void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, fd, 0);
		if (p == MAP_FAILED)
			fail(path);
		if (fd >= 0)
			close(fd);
		header_ = static_cast<Header*>(p);
		memcpy(header_->magic, "RTLCALLS", 8);
		header_->entry_bytes = sizeof(CallEntry);
		header_->names = uint32_t(count);
		for (size_t i = 0; i < count; i++)
			snprintf(header_->name[i], kNameBytes, "%s", names[i]);
	}

	// Makes a call and logs it.
	template <class Call, class... A>
	auto call(uint16_t function, uint8_t flags, Call make, A... arguments)
	{
		CallEntry* e = next(function, flags);
		int i = 0;
		(argument(e, i++, arguments), ...);
		(void)i;
		e->before_ns = boottime_ns();
		if constexpr (std::is_void<decltype(make())>::value) {
			make();
			finish(e, boottime_ns(), arguments...);
		} else {
			auto result = make();
			uint64_t after = boottime_ns();
			e->result = word(result);
			e->result_bytes = sizeof result;
			finish(e, after, arguments...);
			return result;
		}
	}

	uint64_t calls() const { return calls_; }

private:
	static constexpr size_t kFileBytes = size_t(8) << 30, kChunk = 64;
	static constexpr size_t kUnkeptBytes = size_t(4) << 20; // without a file: the entries are used again

	struct Header {
		char magic[8];
		uint32_t entry_bytes, names;
		uint64_t entries; // taken; those that were never used have no thread
		char unused[40];
		char name[kNames][kNameBytes];
	};
	static_assert(sizeof(Header) <= kHeaderBytes, "the entries follow");

	Header* header_;
	size_t bytes_ = kUnkeptBytes;
	std::atomic<uint64_t> calls_{0};
	static inline thread_local CallLane lanes_[2];
	static inline thread_local uint32_t tid_ = 0;

	CallEntry* next(uint16_t function, uint8_t flags)
	{
		CallLane& lane = lanes_[flags & kInHandler ? 1 : 0];
		if (lane.at == lane.end) {
			uint64_t first = __atomic_fetch_add(&header_->entries, kChunk, __ATOMIC_RELAXED);
			if (bytes_ != kFileBytes)
				first %= (bytes_ - kHeaderBytes) / sizeof(CallEntry) / kChunk * kChunk;
			else if (kHeaderBytes + (first + kChunk) * sizeof(CallEntry) > kFileBytes)
				fail("the log is full");
			lane.at = reinterpret_cast<CallEntry*>(reinterpret_cast<char*>(header_) + kHeaderBytes) + first;
			lane.end = lane.at + kChunk;
		}
		if (!tid_)
			tid_ = uint32_t(syscall(SYS_gettid));
		CallEntry* e = lane.at++;
		e->tid = tid_;
		e->sequence = lane.sequence++;
		e->function = function;
		e->flags = flags;
		return e;
	}

	template <class... A>
	void finish(CallEntry* e, uint64_t after, A... arguments)
	{
		int i = 0;
		(content(e, i++, arguments), ...);
		(void)i;
		__atomic_store_n(&e->after_ns, after, __ATOMIC_RELEASE);
		calls_.fetch_add(1, std::memory_order_relaxed);
	}

	template <class T>
	static uint64_t word(const T& value)
	{
		static_assert(sizeof value <= 8 && std::is_trivially_copyable<T>::value, "one register");
		uint64_t w = 0;
		memcpy(&w, &value, sizeof value);
		return w;
	}

	template <class T>
	static void argument(CallEntry* e, int i, const T& value)
	{
		e->arguments[i] = word(value);
		e->bytes[i] = sizeof value;
		e->count = uint8_t(i + 1);
	}

	static void argument(CallEntry* e, int i, Unused) { e->count = uint8_t(i + 1); } // no bytes of it count

	// A function writes a word there: a number, a pointer, or a handle.
	template <class T>
	static constexpr bool is_word()
	{
		if constexpr (std::is_void<T>::value || std::is_const<T>::value || std::is_function<T>::value)
			return false;
		else if constexpr (std::is_arithmetic<T>::value || std::is_pointer<T>::value)
			return sizeof(T) == 4 || sizeof(T) == 8;
		else
			return IsHandle<T>::value;
	}

	template <class T>
	static void content(CallEntry* e, int i, T* pointer)
	{
		if constexpr (is_word<T>()) {
			if (!pointer || e->content_of)
				return;
			e->content = word(*pointer);
			e->content_of = uint8_t(i + 1);
			e->content_bytes = sizeof *pointer;
		}
	}
	template <class T>
	static void content(CallEntry*, int, const T&)
	{
	}

	static uint64_t boottime_ns()
	{
		timespec t;
		clock_gettime(CLOCK_BOOTTIME, &t);
		return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
	}

	[[noreturn]] static void fail(const std::string& what)
	{
		perror(what.c_str());
		abort();
	}
};

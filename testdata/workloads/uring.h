// io_uring's kernel threads, which a process lists as its own: one polls, and always runs,
// one sleeps. They run no code of the process, block its signals, and nobody can stop them.
#pragma once
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

class Uring {
public:
	explicit Uring(unsigned flags)
	{
		params_.flags = flags;
		params_.sq_thread_idle = 3600000; // ms: it polls for as long as anybody looks
		fd_ = int(syscall(SYS_io_uring_setup, 1, &params_));
		if (fd_ < 0)
			fail("io_uring_setup");
	}

	~Uring() { close(fd_); }

	// Has one operation done that does nothing. Who polls begins with that; a worker that did it stays.
	void run(uint8_t flags) const
	{
		const size_t bytes = params_.sq_off.array + params_.sq_entries * sizeof(uint32_t);
		auto* ring = static_cast<char*>(map(bytes, IORING_OFF_SQ_RING));
		auto* entry = static_cast<io_uring_sqe*>(map(sizeof(io_uring_sqe), IORING_OFF_SQES));
		entry->opcode = IORING_OP_NOP;
		entry->flags = flags;
		*reinterpret_cast<uint32_t*>(ring + params_.sq_off.array) = 0;
		__atomic_store_n(reinterpret_cast<uint32_t*>(ring + params_.sq_off.tail), 1, __ATOMIC_RELEASE);
		if (syscall(SYS_io_uring_enter, fd_, 1, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_SQ_WAKEUP, nullptr, 0) != 1)
			fail("io_uring_enter");
		munmap(entry, sizeof(io_uring_sqe));
		munmap(ring, bytes);
	}

private:
	io_uring_params params_{};
	int fd_;

	void* map(size_t bytes, off_t what) const
	{
		void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, what);
		if (p == MAP_FAILED)
			fail("mmap of io_uring");
		return p;
	}

	[[noreturn]] static void fail(const char* what)
	{
		perror(what);
		exit(1);
	}
};

class UringThreads {
public:
	UringThreads()
	{
		signal(SIGUSR2, [](int) {}); // who blocks a signal with a handler might be in that
		polling_.run(0);
		workers_.run(IOSQE_ASYNC);
	}

private:
	Uring polling_{IORING_SETUP_SQPOLL}, workers_{0};
};

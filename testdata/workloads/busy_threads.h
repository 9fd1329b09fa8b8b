// Threads that have nothing to do with the GPU, one for each way a thread can
// be found by a tool that looks at it: running, or in one of the usual waits.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <poll.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

class BusyThreads {
public:
	explicit BusyThreads(long n)
	{
		if (pipe(end_)) {
			perror("pipe");
			exit(1);
		}
		void (BusyThreads::*const kinds[])() = {&BusyThreads::allocate, &BusyThreads::wait_futex, &BusyThreads::wait_poll,
							&BusyThreads::wait_read, &BusyThreads::wait_sleep};
		for (long i = 0; i < n; i++)
			threads_.emplace_back(kinds[size_t(i) % (sizeof kinds / sizeof *kinds)], this);
	}

	~BusyThreads()
	{
		{
			std::lock_guard<std::mutex> hold(mutex_);
			done_ = true;
		}
		changed_.notify_all();
		close(end_[1]); // readers see the end of the file
		for (std::thread& t : threads_)
			t.join();
		close(end_[0]);
	}

private:
	int end_[2];
	std::mutex mutex_;
	std::condition_variable changed_;
	std::atomic<bool> done_{false};
	std::vector<std::thread> threads_;

	// In malloc most of the time it runs, but it runs a tenth of the time: there are only so many cores.
	void allocate()
	{
		unsigned random = 1;
		while (!done_) {
			for (int i = 0; i < 2000; i++) {
				random = random * 1664525u + 1013904223u;
				void* volatile p = malloc(1 + (random >> 8) % 5000);
				free(p);
			}
			sleep_ns(1000000);
		}
	}

	void wait_futex()
	{
		std::unique_lock<std::mutex> hold(mutex_);
		changed_.wait(hold, [this] { return done_.load(); });
	}

	void wait_poll()
	{
		pollfd p{end_[0], POLLIN, 0};
		while (!done_)
			poll(&p, 1, -1);
	}

	void wait_read()
	{
		char c;
		while (!done_)
			if (read(end_[0], &c, 1) < 0)
				return;
	}

	void wait_sleep()
	{
		while (!done_)
			sleep_ns(20000000);
	}

	static void sleep_ns(long ns)
	{
		timespec t{0, ns};
		nanosleep(&t, nullptr);
	}
};

// Threads that know what they do, and log it: one runs in functions by turns, deep in a recursion; one sleeps; one waits for a futex
// and is woken by two others by turns; short-lived ones come and go; and, if asked for, two that do nothing but wake each
// other. It is built without frame pointers. The GPU is initialized, and not used.
//   run TID FUNCTION BEGIN END          in CLOCK_BOOTTIME, as all times
//   sleep TID BEFORE AFTER              in clock_nanosleep
//   wait TID BEFORE AFTER WAKER ADDRESS in a futex, slept
//   born TID BEGIN END                  a thread that slept once
#include "http.h"
#include "options.h"

#include <atomic>
#include <climits>
#include <deque>
#include <hsa/hsa.h>
#include <linux/futex.h>
#include <mutex>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {

std::atomic<bool> stop{false};
std::atomic<uint64_t> progress{0};

uint64_t boottime_ns()
{
	timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

struct Entry {
	const char* what;
	pid_t tid;
	const char* function;
	uint64_t begin, end;
	pid_t waker;
	const void* address;
};

// Each thread logs into a list of its own.
std::mutex logs_lock;
std::deque<std::vector<Entry>> logs;

std::vector<Entry>& new_log()
{
	std::lock_guard<std::mutex> lock(logs_lock);
	logs.emplace_back();
	logs.back().reserve(4096);
	return logs.back();
}

void sleep_us(long us)
{
	timespec t{us / 1000000, us % 1000000 * 1000};
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, nullptr);
}

void logged_sleep(std::vector<Entry>& log, long us)
{
	uint64_t before = boottime_ns();
	sleep_us(us);
	log.push_back({"sleep", gettid(), "-", before, boottime_ns(), 0, nullptr});
}

__attribute__((noinline)) uint64_t spin_until(uint64_t end)
{
	uint64_t n = 0;
	while (boottime_ns() < end)
		n++;
	return n;
}

__attribute__((noinline)) uint64_t descend(int depth, uint64_t end)
{
	volatile char frame[40];
	frame[depth % 40] = char(depth);
	uint64_t n = depth ? descend(depth - 1, end) : spin_until(end);
	return n + uint64_t(frame[depth % 40]);
}

__attribute__((noinline)) uint64_t phase_short(uint64_t end) { return descend(3, end) + 1; }
__attribute__((noinline)) uint64_t phase_long(uint64_t end) { return descend(40, end) + 2; }

void run_phases()
{
	std::vector<Entry>& log = new_log();
	volatile uint64_t sink = 0;
	while (!stop) {
		uint64_t begin = boottime_ns();
		sink = sink + phase_long(begin + 6000000);
		log.push_back({"run", gettid(), "phase_long", begin, boottime_ns(), 0, nullptr});
		begin = boottime_ns();
		sink = sink + phase_short(begin + 2000000);
		log.push_back({"run", gettid(), "phase_short", begin, boottime_ns(), 0, nullptr});
		logged_sleep(log, 8000);
		progress++;
	}
}

void run_sleeper()
{
	std::vector<Entry>& log = new_log();
	while (!stop)
		logged_sleep(log, 3000);
}

std::atomic<int> turn{0};
std::atomic<int> seen{0}; // by the waiter
std::atomic<pid_t> waker{0};

int futex(void* at, int operation, int value) { return int(syscall(SYS_futex, at, operation, value, nullptr, nullptr, 0)); }

void run_waiter()
{
	std::vector<Entry>& log = new_log();
	while (!stop) {
		int now = turn;
		seen = now;
		uint64_t before = boottime_ns();
		if (futex(&turn, FUTEX_WAIT_PRIVATE, now) == 0 && !stop) // the last one is by the main thread
			log.push_back({"wait", gettid(), "-", before, boottime_ns(), waker, &turn});
	}
}

// run_wakers wakes the waiter by turns of two threads, each time after it has had time to sleep again.
void run_wakers(int which)
{
	while (!stop) {
		if (turn % 2 == which && seen == turn) {
			sleep_us(2000);
			waker = gettid();
			turn++;
			futex(&turn, FUTEX_WAKE_PRIVATE, 1);
		} else
			sleep_us(500);
	}
}

void run_short_lived()
{
	while (!stop) {
		std::thread([] {
			std::vector<Entry>& log = new_log();
			uint64_t begin = boottime_ns();
			spin_until(begin + 1000000);
			logged_sleep(log, 2000);
			log.push_back({"born", gettid(), "-", begin, boottime_ns(), 0, nullptr});
		}).join();
		sleep_us(10000);
	}
}

// Two threads that wake each other as fast as they can, on one processor.
std::atomic<int> ball[2];
std::atomic<uint64_t> handoffs{0};

void run_ball(int which)
{
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof first, &first);
	while (!stop) {
		while (!ball[which].exchange(0) && !stop)
			futex(&ball[which], FUTEX_WAIT_PRIVATE, 0);
		handoffs++;
		ball[!which] = 1;
		futex(&ball[!which], FUTEX_WAKE_PRIVATE, 1);
	}
	ball[!which] = 1;
	futex(&ball[!which], FUTEX_WAKE_PRIVATE, INT_MAX);
}

} // namespace

int main(int argc, char** argv)
{
	long port = 0, balls = 0;
	std::string path;
	Options o;
	o.number("balls", &balls, "1: two threads that wake each other all the time");
	o.number("port", &port, "of /health, /stats, /handoffs and /quit; 0: any");
	o.text("log", &path, "where the log goes");
	o.parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	if (hsa_init() != HSA_STATUS_SUCCESS) {
		fprintf(stderr, "no GPU\n");
		return 1;
	}
	std::vector<std::thread> threads;
	threads.emplace_back(run_phases);
	threads.emplace_back(run_sleeper);
	threads.emplace_back(run_waiter);
	threads.emplace_back(run_wakers, 0);
	threads.emplace_back(run_wakers, 1);
	threads.emplace_back(run_short_lived);
	if (balls) {
		ball[0] = 1;
		threads.emplace_back(run_ball, 0);
		threads.emplace_back(run_ball, 1);
	}
	{
		HttpServer http(port, [&](const std::string& path) -> std::string {
			if (path == "/health")
				return "ok " + std::to_string(progress.load()) + "\n";
			if (path == "/handoffs")
				return std::to_string(handoffs.load()) + "\n";
			if (path == "/stats") // its requests are the handoffs
				return "{\"requests\":" + std::to_string(handoffs.load()) + ",\"uptime_ns\":" + std::to_string(boottime_ns()) + "}\n";
			if (path != "/quit")
				return "";
			stop = true;
			return "bye\n";
		});
		printf("ready pid=%d port=%d\n", getpid(), http.port());
		fflush(stdout);
		for (std::thread& t : threads) {
			while (!stop)
				sleep_us(100000);
			turn++;
			futex(&turn, FUTEX_WAKE_PRIVATE, INT_MAX);
			t.join();
		}
	}
	hsa_shut_down();
	FILE* f = path.empty() ? stdout : fopen(path.c_str(), "w");
	if (!f) {
		perror(path.c_str());
		return 1;
	}
	for (const std::vector<Entry>& log : logs)
		for (const Entry& e : log)
			fprintf(f, "%s %d %s %lu %lu %d %lu\n", e.what, e.tid, e.function, e.begin, e.end, e.waker, reinterpret_cast<unsigned long>(e.address));
	if (!path.empty())
		fclose(f);
	printf("{\"threads\":[]}\n");
	return 0;
}

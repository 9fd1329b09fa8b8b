/*
 * gpuwork.cpp: makes any program a GPU process. Preloaded after the simulator,
 * it has one thread that launches kernels, with and without a signal of its
 * own, and counts those that ended.
 *
 *   GPUWORK_CODE=FILE   the kernels
 *   GPUWORK_COUNT=FILE  8 bytes: how many kernels have ended
 */
#include "../workloads/hsa_device.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t* counter()
{
	const char* path = getenv("GPUWORK_COUNT");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void* p = fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	return p == MAP_FAILED ? nullptr : static_cast<uint64_t*>(p);
}

static void launch(hsa_queue_t* q, const Kernel& k, hsa_signal_t done)
{
	uint64_t i = hsa_queue_add_write_index_screlease(q, 1);

	publish_kernel(wait_slot(q, i), k, tag(i, 20000), done, true);
	hsa_signal_store_screlease(q->doorbell_signal, hsa_signal_value_t(i));
}

static void* work(void* count)
{
	const Hsa* hsa = new Hsa(CodeObject(getenv("GPUWORK_CODE")), 1); // for as long as the process lives
	const Gpu& gpu = hsa->gpus[0];
	hsa_queue_t* q = create_queue(gpu, 256);
	hsa_signal_t done = create_signal(0);
	const timespec pause = {0, 300000};

	for (size_t n = 0;; n++) {
		hsa_signal_store_relaxed(done, 1);
		launch(q, gpu.kernels[n % gpu.kernels.size()], hsa_signal_t{0});
		launch(q, gpu.kernels[n % gpu.kernels.size()], done);
		wait_signal(done);
		__atomic_fetch_add(static_cast<uint64_t*>(count), 2, __ATOMIC_RELAXED);
		nanosleep(&pause, nullptr);
	}
}

/* The runtime's threads inherit the mask: signals are for the program's own. */
static void begin()
{
	uint64_t* count = counter();
	sigset_t all, before;
	pthread_t id;

	if (!count)
		return; // a shell on the way to the program
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&id, nullptr, work, count))
		abort();
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/* Not a constructor function: these run before the variables of hsa_device.h are initialised, which the thread uses. */
static const struct Begin {
	Begin() { begin(); }
} at_start;

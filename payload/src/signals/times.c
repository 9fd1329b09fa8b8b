/*
 * times.c: where a copy's times are. An SDMA engine writes them behind the
 * public part of the signal, and the runtime's function finds them there; but it
 * takes locks and may call the driver. Wrappers save the times before a signal is set
 * again, so they read the same words here.
 */
#include "signals/times.h"

#include "core/runtime.h"
#include "core/shared_hooks.h"
#include "core/sys.h"

/* ROCr's struct SharedSignal (core/inc/signal.h), the same from 5.2 to 7.2. The
 * runtime recognizes its signals by the mark, and so does this file: without the mark it
 * reads nothing here. A copy that begins sets both times to 0; a blit kernel, which copies
 * within a GPU, leaves them so, and its times are where a kernel's are. */
struct shared_signal {
	amd_signal_t public;
	uint64_t sdma_start;
	uint64_t core_signal;
	uint64_t mark;
	uint64_t reserved;
	uint64_t sdma_end;
};
#define MARK 0x71FCCA6A3D5D5276ull

static bool known; /* written before the hooks are in place */

void signal_times_init(void)
{
	struct shared_signal copy;
	hsa_signal_t one = {0};

	if (rt.signal_create(1, 0, NULL, 0, &one))
		return;
	known = read_memory(one.handle, &copy, sizeof copy) == sizeof copy && copy.mark == MARK;
	NEXT(shared_hooks[SIGNAL_DESTROY], hsa_status_t (*)(hsa_signal_t))(one);
}

bool signal_times_known(void)
{
	return known;
}

void signal_copy_ticks(const amd_signal_t *hw, uint64_t *start, uint64_t *end)
{
	const struct shared_signal *s = (const struct shared_signal *)hw;

	if (known && (*end = __atomic_load_n(&s->sdma_end, __ATOMIC_ACQUIRE))) {
		*start = __atomic_load_n(&s->sdma_start, __ATOMIC_RELAXED);
		return;
	}
	*start = __atomic_load_n(&hw->start_ts, __ATOMIC_RELAXED);
	*end = __atomic_load_n(&hw->end_ts, __ATOMIC_ACQUIRE);
}

bool signal_copy_times(uint64_t signal, uint64_t *start, uint64_t *end)
{
	hsa_amd_profiling_async_copy_time_t time = {0};

	if (rt.copy_time((hsa_signal_t){signal}, &time) != HSA_STATUS_SUCCESS)
		return false;
	*start = time.start;
	*end = time.end;
	return true;
}

/* wrap_executable.c: hsa_executable_destroy. */
#include "core/session_flags.h"
#include "core/shared_hooks.h"
#include "record/launches.h"
#include "record/worker.h"
#include "wrappers.h"

#define CATCH_UP_NS (100 * NS_PER_MS)

hsa_status_t wrap_executable_destroy(hsa_executable_t executable)
{
	hsa_status_t (*next)(hsa_executable_t) = NEXT(shared_hooks[EXECUTABLE_DESTROY], hsa_status_t (*)(hsa_executable_t));

	if (!tracking())
		return next(executable);
	worker_round(CATCH_UP_NS); /* which names the kernels of all packets published so far */
	bool held = launches_destroy_begin(executable);
	hsa_status_t status = next(executable);
	launches_destroy_end(held);
	return status;
}

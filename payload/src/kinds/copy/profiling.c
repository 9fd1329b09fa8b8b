/* profiling.c: the runtime's switch for taking the times of copies. */
#include "core/fault.h"
#include "core/runtime.h"
#include "core/session_flags.h"
#include "kinds/copy/copy.h"
#include "kinds/copy/hooks.h"

typedef hsa_status_t (*enable_fn)(bool);

enum { UNSAID, UNWANTED, WANTED };
static _Atomic uint32_t said; /* what the application has asked for in this session */
static _Atomic uint32_t forced; /* profiling is on because of us */

void copy_profiling_reset(void)
{
	atomic_store(&said, UNSAID);
}

static enable_fn enable(void)
{
	return NEXT(copy_hooks[COPY_PROFILING], enable_fn);
}

int copy_profiling_start(char *err, size_t errlen)
{
	(void)err, (void)errlen;
	atomic_store(&forced, 1);
	enable()(true);
	control->copies_profiled = 1;
	(void)fault_at("profiled");
	return 0;
}

void copy_profiling_undo(void)
{
	uint32_t done = UNSAID, now;

	if (!atomic_exchange(&forced, 0) || runtime_is_lost())
		return;
	while ((now = atomic_load(&said)) != done) {
		enable()(now == WANTED);
		control->copies_profiled = 0;
		done = now;
	}
	(void)fault_at("unprofiled");
}

hsa_status_t copy_profiling_wanted(bool wanted, hsa_status_t (*next)(bool))
{
	if (!tracking())
		return next(wanted);
	atomic_store(&said, wanted ? WANTED : UNWANTED);
	hsa_status_t status;
	bool now;
	do { /* again if a session has begun or ended meanwhile */
		now = atomic_load(&forced);
		status = next(wanted || now);
	} while (now != atomic_load(&forced));
	return status;
}

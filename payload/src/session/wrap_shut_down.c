/* wrap_shut_down.c: hsa_shut_down. */
#include "core/session_flags.h"
#include "core/shared_hooks.h"
#include "session/control_block.h"
#include "wrappers.h"

/* The session ends also if this is not the application's last reference: the tool sees why
 * it ended, and attaches again if the runtime is still open. */
hsa_status_t wrap_shut_down(void)
{
	atomic_fetch_add(&runtime_shutting_down, 1); /* first: no session begins between the end of ours and the end of the runtime */
	if (tracking())
		session_end_now(RTL_END_SHUT_DOWN);
	hsa_status_t status = NEXT(shared_hooks[SHUT_DOWN], hsa_status_t (*)(void))();
	atomic_fetch_sub(&runtime_shutting_down, 1);
	return status;
}

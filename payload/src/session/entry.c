/* entry.c: the exported functions, and the end of the process. */
#include <errno.h>

#include "core/fault.h"
#include "core/session_flags.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "session/launch.h"

#define EXPORT __attribute__((visibility("default")))

/* False in a forked child of the process that was attached to. */
static bool is_resident(void)
{
	return control && !control_is_inherited();
}

/*
 * Begins a session. env: an environment buffer (docs/abi.md), len its bytes.
 * Returns 0 when the hooks are active, or -errno with a text in the control
 * block, and then nothing is left of the attempt. Call it on a thread that
 * holds no lock of the runtime.
 */
EXPORT int rtl_attach(const void *env, uint64_t len)
{
	fault_expect(env, len);
	int r = control_create();

	return r ? r : session_arm(env, len);
}

/* The same for a payload that is resident. Starts the control thread if an earlier attach
 * could not. */
EXPORT int rtl_reattach(const void *env, uint64_t len)
{
	if (!is_resident())
		return -ENOENT;
	int r = control_tid() ? 0 : control_create();

	return r ? r : session_arm(env, len);
}

/* Ends the session. 0, or -EALREADY when there is none. */
EXPORT int rtl_detach(void)
{
	return is_resident() ? session_disarm(RTL_END_DETACH) : -ENOENT;
}

/* out: filled. 0 or -EINVAL. */
EXPORT int rtl_status(struct rtl_status *out)
{
	if (!out)
		return -EINVAL;
	*out = (struct rtl_status){.abi_version = RTL_ABI_VERSION};
	if (is_resident()) {
		out->state = control_state();
		out->generation = atomic_load(&session_flags.generation);
		out->control_tid = (uint32_t)control_tid();
	}
	return 0;
}

/*
 * HSA_TOOLS_LIB: the runtime loads the payload at hsa_init. It waits there for
 * a recorder, which then has nothing to inject. Once the runtime is initialized, a program that
 * the tool has started waits for it (launch.h).
 */
EXPORT bool OnLoad(void *table, uint64_t runtime_version, uint64_t failed_tool_count, const char *const *failed_tool_names)
{
	(void)table;
	(void)runtime_version;
	(void)failed_tool_count;
	(void)failed_tool_names;
	if (control_create())
		return false;
	launch_prepare();
	return true;
}

static void end_at_exit(enum rtl_end why)
{
	if (is_resident())
		session_end_now(why);
}

EXPORT void OnUnload(void)
{
	end_at_exit(RTL_END_SHUT_DOWN);
}

/* At exit() other threads still run: the same orderly end, in bounded time. */
static __attribute__((destructor)) void at_exit(void)
{
	end_at_exit(RTL_END_EXIT);
}

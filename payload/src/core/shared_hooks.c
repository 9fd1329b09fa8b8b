/* shared_hooks.c: the table of the shared hooks. It names wrappers of several folders
 * (wrappers.h) and calls none of them. */
#include "core/shared_hooks.h"

#include "wrappers.h"

struct hook shared_hooks[SHARED_HOOKS] = {
	[STORE_RELAXED] = HOOK("hsa_signal_store_relaxed", wrap_store_relaxed, HOOK_REQUIRED),
	[STORE_SCRELEASE] = HOOK("hsa_signal_store_screlease", wrap_store_screlease, HOOK_REQUIRED),
	[SILENT_STORE_RELAXED] = HOOK("hsa_signal_silent_store_relaxed", wrap_silent_store_relaxed, HOOK_OPTIONAL),
	[SILENT_STORE_SCRELEASE] = HOOK("hsa_signal_silent_store_screlease", wrap_silent_store_screlease, HOOK_OPTIONAL),
	HOOKS_4_ORDERS(EXCHANGE, "hsa_signal_exchange", wrap_exchange, HOOK_OPTIONAL, HOOK),
	HOOKS_4_ORDERS(CAS, "hsa_signal_cas", wrap_cas, HOOK_OPTIONAL, HOOK),
	HOOKS_4_ORDERS(ADD, "hsa_signal_add", wrap_add, HOOK_OPTIONAL, HOOK),
	HOOKS_4_ORDERS(SUBTRACT, "hsa_signal_subtract", wrap_subtract, HOOK_OPTIONAL, HOOK),
	HOOKS_4_ORDERS(AND, "hsa_signal_and", wrap_and, HOOK_OPTIONAL, HOOK),
	HOOKS_4_ORDERS(OR, "hsa_signal_or", wrap_or, HOOK_OPTIONAL, HOOK),
	HOOKS_4_ORDERS(XOR, "hsa_signal_xor", wrap_xor, HOOK_OPTIONAL, HOOK),
	[SIGNAL_DESTROY] = HOOK("hsa_signal_destroy", wrap_signal_destroy, HOOK_REQUIRED),
	[QUEUE_DESTROY] = HOOK("hsa_queue_destroy", wrap_queue_destroy, HOOK_REQUIRED),
	[EXECUTABLE_DESTROY] = HOOK("hsa_executable_destroy", wrap_executable_destroy, HOOK_OPTIONAL),
	[SHUT_DOWN] = HOOK_WITH_GRACE("hsa_shut_down", wrap_shut_down, HOOK_REQUIRED),
};
const struct hook_table shared_hook_table = HOOK_TABLE(shared_hooks);

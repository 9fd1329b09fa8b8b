/*
 * signal_hooks.h: the hooks that kinds share: functions that set or destroy the signals
 * on which items are pending, doorbells, and the ends of queues, executables and of the
 * runtime. Patched after those of the kinds, and restored last: they protect what the
 * worker reads until it has ended.
 */
#ifndef RTL_SIGNAL_HOOKS_H
#define RTL_SIGNAL_HOOKS_H

#include "core/hooks.h"
#include "core/sys.h"

enum signal_hook {
	STORE_RELAXED,
	STORE_SCRELEASE,
	SILENT_STORE_RELAXED,
	SILENT_STORE_SCRELEASE,
	IDS_4_ORDERS(EXCHANGE),
	IDS_4_ORDERS(CAS),
	IDS_4_ORDERS(ADD),
	IDS_4_ORDERS(SUBTRACT),
	IDS_4_ORDERS(AND),
	IDS_4_ORDERS(OR),
	IDS_4_ORDERS(XOR),
	SIGNAL_DESTROY,
	QUEUE_DESTROY,
	EXECUTABLE_DESTROY,
	SHUT_DOWN,
	SIGNAL_HOOKS
};

extern HIDDEN struct hook signal_hooks[SIGNAL_HOOKS];
extern const struct hook_table signal_hook_table;

#endif

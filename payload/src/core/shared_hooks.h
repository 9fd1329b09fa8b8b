/*
 * shared_hooks.h: hooks that more than one kind needs: functions that set or destroy the
 * signals on which items are pending, doorbells, and the ends of queues, of executables
 * and of the runtime. Arming patches them after those of the kinds, and the end of a
 * session restores them last: they protect what the worker reads until it has ended.
 */
#ifndef RTL_SHARED_HOOKS_H
#define RTL_SHARED_HOOKS_H

#include "core/hooks.h"
#include "core/sys.h"

enum shared_hook {
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
	SHARED_HOOKS
};

extern HIDDEN struct hook shared_hooks[SHARED_HOOKS];
extern const struct hook_table shared_hook_table;

#endif

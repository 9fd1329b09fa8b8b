/* hooks.h: the write-index functions. */
#ifndef RTL_DISPATCH_HOOKS_H
#define RTL_DISPATCH_HOOKS_H

#include "core/hooks.h"
#include "core/sys.h"

enum dispatch_hook {
	IDS_4_ORDERS(INDEX_ADD),
	IDS_4_ORDERS(INDEX_CAS),
	INDEX_STORE_RELAXED,
	INDEX_STORE_SCRELEASE,
	INDEX_LOAD_RELAXED,
	INDEX_LOAD_SCACQUIRE,
	DISPATCH_HOOKS
};

extern HIDDEN struct hook dispatch_hooks[DISPATCH_HOOKS];

#endif

/* hooks.h: the write-index functions. */
#ifndef RTL_DISPATCH_HOOKS_H
#define RTL_DISPATCH_HOOKS_H

#include <hsa/hsa.h>

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

DECLARE_4_ORDERS(uint64_t, index_add, const hsa_queue_t *, uint64_t)
DECLARE_4_ORDERS(uint64_t, index_cas, const hsa_queue_t *, uint64_t, uint64_t)
void wrap_index_store_relaxed(const hsa_queue_t *, uint64_t);
void wrap_index_store_screlease(const hsa_queue_t *, uint64_t);
uint64_t wrap_index_load_relaxed(const hsa_queue_t *);
uint64_t wrap_index_load_scacquire(const hsa_queue_t *);

#endif

/*
 * null.h: the kind "null", which shows what a kind needs: it writes a record for each
 * call of hsa_system_get_info.
 */
#ifndef RTL_NULL_H
#define RTL_NULL_H

#include <hsa/hsa.h>

#include "core/hooks.h"
#include "core/sys.h"

enum null_hook { SYSTEM_GET_INFO, NULL_HOOKS };
extern HIDDEN struct hook null_hooks[NULL_HOOKS];

hsa_status_t wrap_system_get_info(hsa_system_info_t attribute, void *value);

#endif

/* hooks.h: the functions that copy memory. */
#ifndef RTL_COPY_HOOKS_H
#define RTL_COPY_HOOKS_H

#include "core/hooks.h"
#include "core/sys.h"

enum copy_hook { COPY_LINEAR, COPY_RECT, COPY_ON_ENGINE, COPY_PROFILING, COPY_HOOKS };

extern HIDDEN struct hook copy_hooks[COPY_HOOKS];

#endif

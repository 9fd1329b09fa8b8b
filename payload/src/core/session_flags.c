/* session_flags.c: the state that all folders share. */
#include "core/session_flags.h"

struct session_flags session_flags;
struct rtl_config config;
struct rtl_control *control;
struct rtl_counters *counters;
const volatile uint32_t *fork_canary;
_Atomic uint32_t runtime_shutting_down;

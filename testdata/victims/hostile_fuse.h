/*
 * hostile_fuse.h: a filesystem of the target's own making, whose server stops
 * answering when it is told to.
 */
#pragma once
#include <stdbool.h>

/* Mounts it over dir, for this process and its children alone (a mount namespace
 * of its own), and starts its server, which ends with this process. False: this
 * machine has no FUSE, or we may not mount. */
bool fuse_cover(const char *dir);

/* From now on no request is answered. taken: the server takes them, so that who
 * waits for an answer cannot even be killed (fs/fuse/dev.c, request_wait_answer);
 * else they stay in the kernel. */
void fuse_fall_silent(bool taken);

/* How many requests have come since then, as far as they were taken. */
unsigned fuse_asked(void);

/* Ends the server: the kernel answers whoever waits (ENOTCONN). */
void fuse_end(void);

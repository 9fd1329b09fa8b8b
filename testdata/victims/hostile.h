/*
 * hostile.h: what the files of hostile share.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

/* hostile.c */
extern struct rtl_control *control;
extern atomic_bool recording;
bool is(const char *what);
uint64_t now(void);
void *shared(const char *name, uint64_t bytes, int seals, uint64_t *inode);

/* hostile_stacks.c */
void stacks(void);

/* hostile_ring.c */
extern struct rtl_ring *ring;
extern uint64_t ring_bytes;
void make_ring(void);
void put_end(enum rtl_end why);

/* What it puts into the ring; the threads do so as long as somebody records. */
void honest(void);
void names(void);
void *megabyte(void *arg);
void *strings(void *arg);
void *ids(void *arg);
void *records(void *arg);
void *scribble(void *arg);
void *jump(void *arg);

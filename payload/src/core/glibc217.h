/*
 * glibc217.h: binds to the oldest versions of functions that glibc moved into
 * libc.so.6 in 2.34. They resolve in every glibc from 2.17 on: before 2.34 in
 * libdl and libpthread, which a ROCm process has loaded.
 */
#ifndef RTL_GLIBC217_H
#define RTL_GLIBC217_H

#define RTL_VERSION(f, version) __asm__(".symver " #f ", " #f "@GLIBC_" version)
#define RTL_OLDEST(f) RTL_VERSION(f, "2.2.5")

RTL_OLDEST(dladdr);
RTL_OLDEST(dlclose);
RTL_OLDEST(dlerror);
RTL_OLDEST(dlopen);
RTL_OLDEST(dlsym);
RTL_OLDEST(pthread_attr_setstacksize);
RTL_OLDEST(pthread_create);
RTL_OLDEST(pthread_detach);
RTL_VERSION(pthread_tryjoin_np, "2.3.3");

#undef RTL_OLDEST
#undef RTL_VERSION

#endif

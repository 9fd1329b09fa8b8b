/* glibc217.h: as core/glibc217.h, for the functions that only librtl uses. */
#ifndef RTL_EMBED_GLIBC217_H
#define RTL_EMBED_GLIBC217_H

#ifndef RTL_GLIBC217_H /* the tests bind to their own */
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_mutex_trylock, pthread_mutex_trylock@GLIBC_2.2.5");
__asm__(".symver pthread_join, pthread_join@GLIBC_2.2.5");
__asm__(".symver pthread_condattr_setclock, pthread_condattr_setclock@GLIBC_2.3.3");
#endif

#endif

//go:build ignore

// Input of `go tool cgo -godefs`, which writes zboot.go (see boot/Makefile).
package inject

// #include "boot/boot.h"
import "C"

type (
	boot       C.struct_rtl_boot
	bootShared C.struct_rtl_boot_shared
)

const (
	bootMagic      = C.RTL_BOOT_MAGIC
	bootSharedSize = C.RTL_BOOT_SHARED_SIZE

	phaseNew    = C.RTL_BOOT_NEW
	phaseRaw    = C.RTL_BOOT_RAW
	phaseThread = C.RTL_BOOT_THREAD
	phaseReady  = C.RTL_BOOT_READY
	phaseFailed = C.RTL_BOOT_FAILED

	failedPthreadCreate = C.RTL_BOOT_PTHREAD_CREATE
	failedMemfd         = C.RTL_BOOT_MEMFD
	failedTruncate      = C.RTL_BOOT_TRUNCATE
	failedSeal          = C.RTL_BOOT_SEAL
	failedMmap          = C.RTL_BOOT_MMAP

	commandNone     = C.RTL_BOOT_NONE
	commandLoad     = C.RTL_BOOT_LOAD
	commandResolve  = C.RTL_BOOT_RESOLVE
	commandCall     = C.RTL_BOOT_CALL
	commandLeave    = C.RTL_BOOT_LEAVE
	commandCallText = C.RTL_BOOT_CALL_TEXT
	commandWatch    = C.RTL_BOOT_WATCH
)

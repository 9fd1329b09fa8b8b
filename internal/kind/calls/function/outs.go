package function

// handles are the types of 8 bytes that a call may write by a pointer to them.
var handles = []string{
	"hipArray_t", "hipCtx_t", "hipDeviceptr_t", "hipEvent_t", "hipExternalMemory_t", "hipExternalSemaphore_t",
	"hipFunction_t", "hipGraphExec_t", "hipGraphNode_t", "hipGraph_t", "hipKernel_t", "hipLibrary_t",
	"hipMemGenericAllocationHandle_t", "hipMemPool_t", "hipMipmappedArray_t", "hipModule_t", "hipStream_t",
	"hipSurfaceObject_t", "hipTextureObject_t", "hipUserObject_t",
	"hsa_amd_vmem_alloc_handle_t", "hsa_code_object_reader_t", "hsa_executable_symbol_t", "hsa_executable_t",
	"hsa_isa_t", "hsa_signal_t",
	"ncclComm_t",
}

// outs are the functions with an out-argument, and its index. The payload reads through the pointer in the
// application's place, so a function is here only if each successful call has written there: no pointer
// that may be null, no array, nothing that is read too. A pointer on the stack is not read.
var outs = map[string]int{
	"hipArray3DCreate": 0, "hipArrayCreate": 0, "hipMalloc3DArray": 0, "hipMallocArray": 0,
	"hipMallocMipmappedArray": 0, "hipMipmappedArrayCreate": 0,
	"hipCreateSurfaceObject": 0, "hipCreateTextureObject": 0, "hipTexObjectCreate": 0,

	"hipCtxCreate": 0, "hipCtxGetCurrent": 0, "hipCtxGetDevice": 0, "hipDevicePrimaryCtxRetain": 0,
	"hipDeviceGet": 0, "hipGetDevice": 0, "hipGetDeviceCount": 0,

	"hipEventCreate": 0, "hipEventCreateWithFlags": 0, "hipIpcOpenEventHandle": 0,
	"hipExtStreamCreateWithCUMask": 0, "hipStreamCreate": 0, "hipStreamCreateWithFlags": 0,
	"hipStreamCreateWithPriority": 0,

	"hipExternalMemoryGetMappedBuffer": 0, "hipImportExternalMemory": 0, "hipImportExternalSemaphore": 0,
	"hipGraphicsResourceGetMappedPointer": 0,

	"hipGetFuncBySymbol": 0, "hipGetSymbolAddress": 0, "hipLibraryGetKernel": 0, "hipLibraryLoadData": 0,
	"hipLibraryLoadFromFile": 0, "hipModuleGetFunction": 0, "hipModuleLoad": 0, "hipModuleLoadData": 0,
	"hipModuleLoadDataEx": 0, "hipModuleLoadFatBinary": 0,

	"hipDrvGraphAddMemFreeNode": 0, "hipDrvGraphAddMemcpyNode": 0, "hipDrvGraphAddMemsetNode": 0,
	"hipGraphAddBatchMemOpNode": 0, "hipGraphAddChildGraphNode": 0, "hipGraphAddEmptyNode": 0,
	"hipGraphAddEventRecordNode": 0, "hipGraphAddEventWaitNode": 0,
	"hipGraphAddExternalSemaphoresSignalNode": 0, "hipGraphAddExternalSemaphoresWaitNode": 0,
	"hipGraphAddHostNode": 0, "hipGraphAddKernelNode": 0, "hipGraphAddMemAllocNode": 0,
	"hipGraphAddMemFreeNode": 0, "hipGraphAddMemcpyNode": 0, "hipGraphAddMemcpyNode1D": 0,
	"hipGraphAddMemcpyNodeFromSymbol": 0, "hipGraphAddMemcpyNodeToSymbol": 0, "hipGraphAddMemsetNode": 0,
	"hipGraphAddNode": 0, "hipGraphClone": 0, "hipGraphCreate": 0, "hipGraphInstantiate": 0,
	"hipGraphInstantiateWithFlags": 0, "hipGraphInstantiateWithParams": 0, "hipUserObjectCreate": 0,

	"hipExtHostAlloc": 0, "hipExtMallocWithFlags": 0, "hipHostAlloc": 0, "hipHostGetDevicePointer": 0,
	"hipHostMalloc": 0, "hipIpcOpenMemHandle": 0, "hipMalloc": 0, "hipMallocAsync": 0,
	"hipMallocFromPoolAsync": 0, "hipMallocHost": 0, "hipMallocManaged": 0, "hipMallocPitch": 0,
	"hipMemAddressReserve": 0, "hipMemAllocHost": 0, "hipMemAllocPitch": 0, "hipMemCreate": 0,

	"hipDeviceGetDefaultMemPool": 0, "hipDeviceGetMemPool": 0, "hipMemPoolCreate": 0,
	"hipMemPoolImportFromShareableHandle": 0, "hipMemPoolImportPointer": 0,

	"hsa_code_object_reader_create_from_file": 1, "hsa_code_object_reader_create_from_memory": 2,
	"hsa_executable_create": 3, "hsa_executable_create_alt": 3, "hsa_executable_get_symbol_by_name": 3,
	"hsa_isa_from_name": 1, "hsa_memory_allocate": 2, "hsa_signal_create": 3, "hsa_soft_queue_create": 5,

	"hsa_amd_ipc_memory_attach": 4, "hsa_amd_ipc_signal_attach": 1, "hsa_amd_memory_lock": 4,
	"hsa_amd_memory_pool_allocate": 3, "hsa_amd_signal_create": 4, "hsa_amd_vmem_address_reserve": 0,
	"hsa_amd_vmem_address_reserve_align": 0, "hsa_amd_vmem_handle_create": 4,

	"ncclCommInitRank": 0, "ncclCommInitRankConfig": 0, "ncclCommInitRankMulti": 0, "ncclCommInitRankScalable": 0,
	"ncclCommShrink": 3, "ncclCommSplit": 3, "ncclCommCount": 1, "ncclCommCuDevice": 1, "ncclCommUserRank": 1,
	"ncclGetVersion": 0, "ncclMemAlloc": 0,
}

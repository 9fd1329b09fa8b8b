// What a process does with the dynamic linker while a tool records it, by the requests of a workload's
// server: it loads and unloads a library that calls HIP, walks through its objects, and lets another tool
// replace entries that the recording tool has replaced before.
#pragma once
#include "slow_raw.h"

#include <atomic>
#include <elf.h>
#include <hip/hip_runtime_api.h>
#include <link.h>
#include <string>
#include <sys/mman.h>
#include <thread>

// plugin.so: /plugin/open loads it, and a thread calls HIP in it until /plugin/close unloads it.
class Plugin {
public:
	using Call = hipError_t (*)(int* device);

	Plugin(std::string path, void (*repeat)(Call)) : path_(std::move(path)), repeat_(repeat) {}

	std::string answer(const std::string& request)
	{
		if (request == "/plugin/open")
			open();
		else if (request == "/plugin/close")
			close();
		else
			return "";
		return "done\n";
	}

	void close()
	{
		if (!library_)
			return;
		stop_ = true;
		thread_.join();
		dlclose(library_);
		library_ = nullptr;
	}

private:
	std::string path_;
	void (*repeat_)(Call);
	void* library_ = nullptr;
	std::atomic<bool> stop_{false};
	std::thread thread_;

	void open()
	{
		library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
		auto call = library_ ? reinterpret_cast<Call>(dlsym(library_, "plugin_get_device")) : nullptr;
		if (!call) {
			fprintf(stderr, "plugin: %s\n", dlerror());
			abort();
		}
		stop_ = false;
		thread_ = std::thread([this, call] {
			while (!stop_)
				repeat_(call);
		});
	}
};

// Callbacks of dl_iterate_phdr, during which the dynamic linker has a lock: /walk starts a thread that calls
// dladdr in them, as some profilers do, again and again; /hold one that stays in a callback; /let-go ends both.
class Walker {
public:
	std::string answer(const std::string& request)
	{
		if (request == "/walk")
			start([this] { walk(); });
		else if (request == "/hold")
			start([this] { dl_iterate_phdr(hold, this); });
		else if (request == "/let-go")
			let_go();
		else
			return "";
		return "done\n";
	}

	void let_go()
	{
		stop_ = true;
		if (thread_.joinable())
			thread_.join();
		stop_ = inside_ = false;
	}

private:
	std::atomic<bool> stop_{false}, inside_{false};
	std::thread thread_;

	// Returns when the thread is in a callback.
	template <class F> void start(F what)
	{
		let_go();
		thread_ = std::thread(what);
		while (!inside_)
			std::this_thread::yield();
	}

	void walk()
	{
		while (!stop_) {
			dl_iterate_phdr(look, this);
			std::this_thread::sleep_for(std::chrono::microseconds(100)); // the lock is an unfair one
		}
	}

	static int look(dl_phdr_info* info, size_t, void* self)
	{
		Dl_info where;
		static_cast<Walker*>(self)->inside_ = true;
		dladdr(reinterpret_cast<void*>(info->dlpi_addr + info->dlpi_phdr->p_vaddr), &where);
		return 0;
	}

	static int hold(dl_phdr_info*, size_t, void* self)
	{
		auto walker = static_cast<Walker*>(self);
		walker->inside_ = true;
		while (!walker->stop_)
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
		return 1;
	}
};

// Another tool, which puts itself above whatever it finds in two places and counts: the slot of
// hsa_agent_get_info in the runtime's table, and the program's own entry for hipGetDevice. /tool/enter, /tool/leave
// and /tool/calls.
class OtherHooks {
public:
	std::string answer(const std::string& request)
	{
		if (request == "/tool/enter")
			enter();
		else if (request == "/tool/leave")
			leave();
		else if (request != "/tool/calls")
			return "";
		return std::to_string(hsa_calls.load()) + " " + std::to_string(hip_calls.load()) + "\n";
	}

private:
	using AgentInfo = hsa_status_t (*)(hsa_agent_t, hsa_agent_info_t, void*);
	using GetDevice = hipError_t (*)(int*);
	static inline std::atomic<uint64_t> hsa_calls{0}, hip_calls{0};
	// On the heap: in the program's data only what leads to the recording tool is looked for.
	static inline auto& next_agent_info = *new std::atomic<AgentInfo>;
	static inline auto& next_get_device = *new std::atomic<GetDevice>;

	static hsa_status_t agent_info(hsa_agent_t agent, hsa_agent_info_t what, void* value)
	{
		hsa_calls++;
		return next_agent_info.load()(agent, what, value);
	}

	static hipError_t get_device(int* device)
	{
		hip_calls++;
		return next_get_device.load()(device);
	}

	static void put(void** place, void* function)
	{
		constexpr uintptr_t page = 4096;
		void* at = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(place) & ~(page - 1));
		mprotect(at, page, PROT_READ | PROT_WRITE); // an entry may be read-only
		__atomic_store_n(place, function, __ATOMIC_SEQ_CST);
	}

	static void enter()
	{
		void** slot = slow_raw::slot_of("hsa_agent_get_info");
		void** entry = own_entry("hipGetDevice");
		next_agent_info = reinterpret_cast<AgentInfo>(*slot);
		next_get_device = reinterpret_cast<GetDevice>(*entry);
		put(slot, reinterpret_cast<void*>(&agent_info));
		put(entry, reinterpret_cast<void*>(&get_device));
	}

	static void leave()
	{
		put(slow_raw::slot_of("hsa_agent_get_info"), reinterpret_cast<void*>(next_agent_info.load()));
		put(own_entry("hipGetDevice"), reinterpret_cast<void*>(next_get_device.load()));
	}

	// In the program's global offset table.
	static void** own_entry(const char* name)
	{
		const link_map* self = _r_debug.r_map;
		const ElfW(Sym)* symbols = nullptr;
		const char* strings = nullptr;
		const ElfW(Rela)* relocations = nullptr;
		size_t count = 0;
		for (const ElfW(Dyn)* d = self->l_ld; d->d_tag != DT_NULL; d++) {
			switch (d->d_tag) {
			case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr); break;
			case DT_STRTAB: strings = reinterpret_cast<const char*>(d->d_un.d_ptr); break;
			case DT_JMPREL: relocations = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr); break;
			case DT_PLTRELSZ: count = d->d_un.d_val / sizeof *relocations; break;
			}
		}
		for (size_t i = 0; i < count; i++)
			if (!strcmp(strings + symbols[ELF64_R_SYM(relocations[i].r_info)].st_name, name))
				return reinterpret_cast<void**>(self->l_addr + relocations[i].r_offset);
		fprintf(stderr, "no entry for %s\n", name);
		abort();
	}
};

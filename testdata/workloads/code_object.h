// A code object as a file: its bytes, and the names of its kernels.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

struct CodeObject {
	std::vector<char> bytes;
	std::vector<std::string> kernels; // mangled, without ".kd"

	explicit CodeObject(const std::string& path)
	{
		std::ifstream file(path, std::ios::binary);
		bytes.assign(std::istreambuf_iterator<char>(file), {});
		if (bytes.size() < sizeof(Elf64_Ehdr) || memcmp(bytes.data(), ELFMAG, SELFMAG)) {
			fprintf(stderr, "%s: not a code object\n", path.c_str());
			exit(1);
		}
		find_kernels();
	}

private:
	void find_kernels()
	{
		auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
		auto* section = reinterpret_cast<const Elf64_Shdr*>(bytes.data() + header->e_shoff);

		for (unsigned i = 0; i < header->e_shnum; i++) {
			if (section[i].sh_type != SHT_DYNSYM)
				continue;
			auto* symbol = reinterpret_cast<const Elf64_Sym*>(bytes.data() + section[i].sh_offset);
			const char* strings = bytes.data() + section[section[i].sh_link].sh_offset;
			for (size_t s = 0; s < section[i].sh_size / sizeof *symbol; s++) {
				std::string name = strings + symbol[s].st_name;
				if (name.size() > 3 && !name.compare(name.size() - 3, 3, ".kd"))
					kernels.push_back(name.substr(0, name.size() - 3));
			}
		}
	}
};

// --name value flags, with a usage text made from their documentation.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

class Options {
public:
	void number(const char* name, long* value, const char* doc) { flags_.push_back({name, doc, value, nullptr}); }
	void text(const char* name, std::string* value, const char* doc) { flags_.push_back({name, doc, nullptr, value}); }

	void parse(int argc, char** argv) const
	{
		for (int i = 1; i < argc; i += 2) {
			const Flag* f = find(argv[i]);
			if (!f || i + 1 == argc)
				usage(argv[0]);
			char* end = nullptr;
			if (f->text)
				*f->text = argv[i + 1];
			else if ((*f->number = strtol(argv[i + 1], &end, 0)), *end || !*argv[i + 1])
				usage(argv[0]);
		}
	}

private:
	struct Flag {
		const char* name;
		const char* doc;
		long* number;
		std::string* text;
	};
	std::vector<Flag> flags_;

	const Flag* find(const char* arg) const
	{
		for (const Flag& f : flags_)
			if (!strncmp(arg, "--", 2) && !strcmp(arg + 2, f.name))
				return &f;
		return nullptr;
	}

	[[noreturn]] void usage(const char* program) const
	{
		fprintf(stderr, "usage: %s [--flag value]...\n", program);
		for (const Flag& f : flags_)
			fprintf(stderr, "  --%-14s %s (default %s)\n", f.name, f.doc,
				f.text ? f.text->c_str() : std::to_string(*f.number).c_str());
		exit(2);
	}
};

// Where the Makefile puts everything: beside the program.
inline std::string beside(const char* argv0, const char* name)
{
	std::string path = argv0;
	size_t slash = path.rfind('/');
	return (slash == std::string::npos ? std::string(".") : path.substr(0, slash)) + "/" + name;
}

inline std::string default_code_object(const char* argv0)
{
	return beside(argv0, "kernels.hsaco");
}

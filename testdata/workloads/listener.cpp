// A library that listens to rtl-attach's sessions and reads the function tables (include/rtl/tables.h). Loaded on
// demand (other_tool.h).
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <rtl/tables.h>
#include <unistd.h>

namespace {

std::atomic<uint64_t> events{0};
std::atomic<bool> hold{false};

[[noreturn]] void fail(const char* what, const char* function)
{
	fprintf(stderr, "listener: %s: %s\n", what, function);
	abort();
}

struct Tally {
	int all, patched;
};

int visit(const rtl_table_entry* e, void* data)
{
	auto tally = static_cast<Tally*>(data);
	tally->all++;
	tally->patched += e->patched;
	if (!e->current || !e->original || (e->current == e->original) != !e->patched)
		fail("a wrong entry", e->name);
	rtl_table_entry same{};
	same.size = sizeof same;
	if (rtl_tables_loaded()->find(e->name, &same) || same.slot != e->slot || same.original != e->original)
		fail("not found again", e->name);
	return 0;
}

Tally read(const rtl_tables* tables)
{
	Tally tally{0, 0};
	tables->each(visit, &tally);
	return tally;
}

} // namespace

extern "C" void rtl_tables_listener(uint32_t event, const rtl_tables* tables)
{
	events++;
	while (hold)
		usleep(1000);
	if (events == 1 && event != RTL_TABLES_WILL_PATCH)
		fail("the first event", "restored");
	if (read(tables).patched)
		fail("patched before a session or after it", "?");
}

extern "C" uint64_t listener_events()
{
	return events;
}

extern "C" void listener_hold()
{
	hold = true;
}

extern "C" void listener_go()
{
	hold = false;
}

// During a session.
extern "C" void listener_read()
{
	const rtl_tables* tables = rtl_tables_loaded();
	rtl_table_entry e{};
	e.size = sizeof e;
	if (!tables || !read(tables).patched)
		fail("nothing is patched in a session", "?");
	if (tables->find("hsa_queue_add_write_index_relaxed", &e) || !e.patched)
		fail("not patched", "hsa_queue_add_write_index_relaxed");
	if (tables->find("hsa_status_string", &e) || e.patched || e.current != e.original)
		fail("a function that nobody has replaced", "hsa_status_string");
	if (!tables->find("no_such_function", &e))
		fail("found", "no_such_function");
}

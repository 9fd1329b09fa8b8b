// invoke.cpp: calls of the application's functions. An exception ends here: above are C frames of the
// library's threads, and std::terminate().
#include "rtl/rtl.h"

namespace {

template <typename Call> bool contain(Call call) noexcept
{
	try {
		call();
		return true;
	} catch (...) {
		return false;
	}
}

} // namespace

extern "C" {

bool invoke_record(rtl_callback_t f, const rtl_record_t* r, void* user)
{
	return contain([&] { f(r, user); });
}

bool invoke_batch(rtl_batch_callback_t f, rtl_buffer_t b, const rtl_record_t* first, size_t count, uint64_t dropped, void* user)
{
	return contain([&] { f(b, first, count, dropped, user); });
}

bool invoke_release(rtl_release_t f, void* user)
{
	return contain([&] { f(user); });
}
}

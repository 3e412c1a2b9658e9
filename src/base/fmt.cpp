// The bodies of the fmt functions that the library calls.
#include "base/fmt.h"
#include <fmt/format-inl.h>  // after fmt.h, whose namespace it must share

FMT_BEGIN_NAMESPACE
namespace detail {
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
}  // namespace detail
FMT_END_NAMESPACE

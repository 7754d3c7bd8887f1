#include "modules/pass_tap.h"

namespace kha {
namespace {

thread_local const PassTap* current = nullptr;

}  // namespace

PassTapScope::PassTapScope(const PassTap& tap) : outer_(current) { current = &tap; }
PassTapScope::~PassTapScope() { current = outer_; }
const PassTap* current_pass_tap() { return current; }

}  // namespace kha

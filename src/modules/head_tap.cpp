#include "modules/head_tap.h"

namespace kha {
namespace {

thread_local const HeadTap* current = nullptr;

}  // namespace

HeadTapScope::HeadTapScope(const HeadTap& tap) : outer_(current) { current = &tap; }
HeadTapScope::~HeadTapScope() { current = outer_; }
const HeadTap* current_head_tap() { return current; }

}  // namespace kha

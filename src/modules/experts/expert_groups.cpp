#include "modules/experts/expert_groups.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace kha {
namespace {

using Work = std::function<void(const Group&)>;

std::vector<Group> groups_of(const Assignment& assignment) {
  std::vector<Group> groups;
  for (int64_t e = 0; e < assignment.experts(); ++e) {
    if (assignment.count(e) == 0) continue;
    groups.push_back(
        {static_cast<int64_t>(groups.size()), e, assignment.begin[e], assignment.count(e)});
  }
  return groups;
}

// The groups of [first, last), each by the thread that is free next.
void share(const Group* first, const Group* last, const Work& work) {
  const int64_t count = last - first;
  const auto threads = std::min<int64_t>(at::get_num_threads(), count);
  const at::ThreadLocalState state;  // of gradients and dispatch, which threads do not inherit
  std::atomic<int64_t> next{0};
  at::parallel_for(0, threads, 1, [&](int64_t, int64_t) {
    const at::ThreadLocalStateGuard same_state(state);
    // A profile is of the calling thread; what it would see here is a part of the whole.
    const at::DisableRecordFunctionGuard no_records;
    for (int64_t own = next++; own < count; own = next++) work(first[own]);
  });
}

}  // namespace

void for_each_group(const Assignment& assignment, bool on_cpu, const Work& work) {
  const std::vector<Group> groups = groups_of(assignment);
  const Group* const end = groups.data() + groups.size();
  const auto alone = [&](const Group& group) { return !on_cpu || group.count >= lone_group; };
  for (const Group* begin = groups.data(); begin < end;) {
    const Group* const last = std::find_if(begin, end, alone);
    if (last > begin) share(begin, last, work);
    if (last < end) work(*last);
    begin = last < end ? last + 1 : end;
  }
}

}  // namespace kha

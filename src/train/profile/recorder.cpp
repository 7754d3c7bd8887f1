#include "train/profile/recorder.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <chrono>
#include <memory>
#include <mutex>

namespace kha {
namespace {

constexpr std::string_view part_prefix = "kha/";
constexpr std::string_view engine_prefix = "autograd::engine::";

std::mutex mutex;
ProfileRecorder* active = nullptr;

struct EventIndex : at::ObserverContext {
  explicit EventIndex(std::size_t value) : value(value) {}
  std::size_t value;
};

ProfileEvent begun(const at::RecordFunction& function) {
  ProfileEvent event{.name = function.name(), .thread = at::RecordFunction::currentThreadId()};
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    event.kind = ProfileEvent::Kind::backward_node;
    event.node_begin = function.seqNr();
  } else if (event.name.starts_with(part_prefix)) {
    event.kind = ProfileEvent::Kind::part;
    event.name.erase(0, part_prefix.size());
    event.node_begin = static_cast<std::int64_t>(at::sequence_number::peek());
  } else if (event.name.starts_with(engine_prefix)) {
    event.kind = ProfileEvent::Kind::engine_call;
  }
  return event;
}

}  // namespace

std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct RecorderCallbacks {
  static std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
    ProfileEvent event = begun(function);
    const std::lock_guard lock(mutex);
    if (!active) return nullptr;
    active->events_.push_back(std::move(event));
    active->events_.back().begin = steady_nanoseconds();
    return std::make_unique<EventIndex>(active->events_.size() - 1);
  }

  static void leave(const at::RecordFunction&, at::ObserverContext* context) {
    const std::int64_t now = steady_nanoseconds();
    const auto made = static_cast<std::int64_t>(at::sequence_number::peek());
    const std::lock_guard lock(mutex);
    if (!active || !context) return;
    ProfileEvent& event = active->events_[static_cast<EventIndex*>(context)->value];
    event.end = now;
    if (event.kind == ProfileEvent::Kind::part) event.node_end = made;
  }
};

void ProfileRecorder::start() {
  {
    const std::lock_guard lock(mutex);
    active = this;
  }
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&RecorderCallbacks::enter, &RecorderCallbacks::leave)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::USER_SCOPE}));
}

void ProfileRecorder::stop() {
  if (handle_ == 0) return;
  at::removeCallback(handle_);
  handle_ = 0;
  const std::lock_guard lock(mutex);
  active = nullptr;
}

}  // namespace kha

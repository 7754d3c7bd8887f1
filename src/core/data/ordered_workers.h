// Work on several threads whose results come back in the order in which it was handed in.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace kha {

template <class Input, class Output>
class OrderedWorkers {
 public:
  OrderedWorkers(unsigned threads, std::function<Output(const Input&)> work)
      : work_(std::move(work)) {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
  }

  // What was not taken is left undone.
  ~OrderedWorkers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  void submit(Input input) {
    std::packaged_task<Output()> task([this, input = std::move(input)] { return work_(input); });
    results_.push_back(task.get_future());
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

  // The oldest result; throws what its work threw. pending() must not be 0.
  Output take() {
    std::future<Output> result = std::move(results_.front());
    results_.pop_front();
    return result.get();
  }

  std::size_t pending() const { return results_.size(); }

 private:
  void serve() {
    while (true) {
      std::packaged_task<Output()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        if (stopping_) return;
        task = std::move(waiting_.front());
        waiting_.pop_front();
      }
      task();
    }
  }

  std::function<Output(const Input&)> work_;
  std::deque<std::future<Output>> results_;  // of the caller's thread only
  std::mutex mutex_;                         // guards what follows
  std::condition_variable changed_;
  std::deque<std::packaged_task<Output()>> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kha

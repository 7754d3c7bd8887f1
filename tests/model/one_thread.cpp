// Tiny tensors on one thread: several only wait for one another, for minutes where cores are
// shared.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace kha::test {
namespace {

struct OneThread : testing::Environment {
  void SetUp() override { at::set_num_threads(1); }
};

const testing::Environment* const one_thread = testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace
}  // namespace kha::test

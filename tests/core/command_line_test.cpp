#include "kha/core/command_line.h"

#include <gtest/gtest.h>

namespace kha {
namespace {

using namespace std::string_literals;

TEST(CommandLine, IsWhatAShellWouldTake) {
  EXPECT_EQ(as_command("/opt/x/kha-engine\0train\0a b.toml\0--set\0run.name=it's\0\0"s),
            "kha train 'a b.toml' --set 'run.name=it'\\''s' ''");
  EXPECT_EQ(as_command("kha\0--set\0compare.settings=[\"baseline\"]\0"s),
            "kha --set 'compare.settings=[\"baseline\"]'");
  EXPECT_EQ(as_command(""), "");
}

TEST(CommandLine, OfThisProcessNamesIt) {
  EXPECT_EQ(command_line().rfind("kha_core_tests", 0), 0u) << command_line();
}

}  // namespace
}  // namespace kha

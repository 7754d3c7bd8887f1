// A folder for one test, and files in it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "kha/core/error.h"

namespace kha {

class TextFiles : public testing::Test {
 protected:
  TextFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kha_data_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~TextFiles() override { std::filesystem::remove_all(root_); }

  std::filesystem::path path(const std::string& name) const { return root_ / name; }

  std::filesystem::path add(const std::string& name, std::string_view contents) const {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << contents;
    return path(name);
  }

 private:
  std::filesystem::path root_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The message of the Error that `action` throws; fails the test and is empty when it throws none.
template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an Error";
  return {};
}

}  // namespace kha

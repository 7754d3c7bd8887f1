#include "core/store/text_of_file.h"

#include "kha/core/mapped_file.h"

namespace kha {

std::string text_of_file(const std::filesystem::path& file) {
  const MappedFile mapped = MappedFile::open(file);
  return {reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size()};
}

}  // namespace kha

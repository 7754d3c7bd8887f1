// Text packed as the tools do it.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

namespace kha {

inline std::string gzip(std::string_view text) {
  z_stream state{};
  constexpr int gzip_format = 16 + MAX_WBITS;
  EXPECT_EQ(deflateInit2(&state, 6, Z_DEFLATED, gzip_format, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&state, text.size()), '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  packed.resize(state.total_out);
  deflateEnd(&state);
  return packed;
}

inline std::string zstd(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3);
  EXPECT_FALSE(ZSTD_isError(size));
  packed.resize(size);
  return packed;
}

}  // namespace kha

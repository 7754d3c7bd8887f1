#include "core/data/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "core/store/file_errors.h"
#include "kha/core/error.h"

namespace kha {
namespace {

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const std::filesystem::path& path)
      : path_(path), file_(std::fopen(path.c_str(), "rb"), &std::fclose) {
    if (!file_) fail_reading(path, errno);
  }

  std::size_t read(std::span<char> out) override {
    const std::size_t count = std::fread(out.data(), 1, out.size(), file_.get());
    if (count < out.size() && std::ferror(file_.get())) fail_reading(path_, errno);
    checksum_.update(std::as_bytes(out.first(count)));
    taken_ += count;
    return count;
  }

  std::uint64_t file_bytes() const override { return taken_; }
  Checksum128 file_checksum() const override { return checksum_.digest(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::uint64_t taken_ = 0;
  ChecksumStream128 checksum_;
};

// What gzip and Zstandard have in common: packed bytes in a buffer, unpacked until they are used
// up.
class PackedStream : public ByteStream {
 public:
  PackedStream(const std::filesystem::path& path, std::string kind)
      : file_(path), kind_(std::move(kind)), packed_(std::size_t{1} << 17) {}

  std::size_t read(std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size() && more()) done += unpack(out.subspan(done));
    return done;
  }

  std::uint64_t file_bytes() const override { return file_.file_bytes(); }
  Checksum128 file_checksum() const override { return file_.file_checksum(); }

 protected:
  // Unpacks some of `rest_`, cuts from it what was used, and returns the bytes it wrote.
  virtual std::size_t unpack(std::span<char> out) = 0;
  // Whether the packed data may end here.
  virtual bool complete() const = 0;

  [[noreturn]] void fail_packed(const std::string& what, const std::string& found) const {
    fail({.what = what,
          .where = file_.path().string() + ", byte " +
                   std::to_string(file_.file_bytes() - rest_.size()) + " of the packed file",
          .expected = "whole " + kind_ + " data",
          .found = found,
          .cause = "the download or the copy stopped early, or the file was damaged",
          .next = "fetch the file again"});
  }

  std::span<const char> rest_;

 private:
  bool more() {
    if (!rest_.empty()) return true;
    const std::size_t count = file_.read(packed_);
    rest_ = std::span<const char>(packed_).first(count);
    if (count > 0) return true;
    if (held_back()) return true;
    if (!complete()) fail_packed("the compressed file is cut", "the end of the file");
    return false;
  }
  // Whether unpacked bytes wait that need no further packed ones.
  virtual bool held_back() const { return false; }

  PlainStream file_;
  std::string kind_;
  std::vector<char> packed_;
};

class GzipStream : public PackedStream {
 public:
  explicit GzipStream(const std::filesystem::path& path) : PackedStream(path, "gzip") {
    constexpr int gzip_with_largest_window = 16 + MAX_WBITS;
    if (inflateInit2(&state_, gzip_with_largest_window) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&state_); }

 private:
  std::size_t unpack(std::span<char> out) override {
    if (complete_) inflateReset(&state_);  // several members in one file count as one text
    complete_ = false;
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
    state_.avail_in = static_cast<uInt>(rest_.size());
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = static_cast<uInt>(out.size());
    const int result = inflate(&state_, Z_NO_FLUSH);
    rest_ = rest_.last(state_.avail_in);
    full_ = state_.avail_out == 0;
    complete_ = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      fail_packed("the compressed file is damaged", state_.msg ? state_.msg : "an error of zlib");
    }
    return out.size() - state_.avail_out;
  }
  bool complete() const override { return complete_; }
  bool held_back() const override { return full_ && !complete_; }

  z_stream state_{};
  bool complete_ = false;
  bool full_ = false;
};

class ZstdStream : public PackedStream {
 public:
  explicit ZstdStream(const std::filesystem::path& path)
      : PackedStream(path, "Zstandard"), state_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    if (!state_) throw std::bad_alloc();
  }

 private:
  std::size_t unpack(std::span<char> out) override {
    ZSTD_inBuffer in{rest_.data(), rest_.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t result = ZSTD_decompressStream(state_.get(), &to, &in);
    if (ZSTD_isError(result)) {
      fail_packed("the compressed file is damaged", ZSTD_getErrorName(result));
    }
    rest_ = rest_.subspan(in.pos);
    full_ = to.pos == to.size;
    complete_ = result == 0;
    return to.pos;
  }
  bool complete() const override { return complete_; }
  bool held_back() const override { return full_ && !complete_; }

  std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> state_;
  bool complete_ = false;
  bool full_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& file,
                                        Compression compression) {
  switch (compression) {
    case Compression::gzip:
      return std::make_unique<GzipStream>(file);
    case Compression::zstd:
      return std::make_unique<ZstdStream>(file);
    case Compression::none:
      break;
  }
  return std::make_unique<PlainStream>(file);
}

}  // namespace kha

#include "fuzz/targets.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/data/file_reader.h"
#include "core/data/json_line.h"
#include "core/store/manifest.h"
#include "core/store/plain_header.h"
#include "kha/core/error.h"
#include "kha/core/model_config.h"
#include "kha/core/model_files.h"
#include "kha/core/parameter_table.h"
#include "kha/core/run_config.h"
#include "kha/core/run_record.h"
#include "kha/core/token_shard.h"
#include "kha/core/tokenizer.h"
#include "kha/core/training_state.h"

namespace kha::fuzz {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::uint8_t>;

// What fails here is the reader's fault, whether asserts are compiled or not.
void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// One folder for the life of the process, in memory where the system has such a place.
const fs::path& folder() {
  static const struct Folder {
    Folder() {
      std::error_code error;
      const bool memory = fs::is_directory("/dev/shm", error);
      std::string name =
          ((memory ? fs::path("/dev/shm") : fs::temp_directory_path()) / "kha-fuzz-XXXXXX")
              .string();
      require(::mkdtemp(name.data()) != nullptr, "no temporary folder");
      path = name;
    }
    ~Folder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
    fs::path path;
  } made;
  return made.path;
}

fs::path put(const std::string& name, Bytes bytes) {
  const fs::path path = folder() / name;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool equal(const SafetensorsHeader& a, const SafetensorsHeader& b) {
  const auto same = [](const TensorInfo& one, const TensorInfo& other) {
    return one.name == other.name && one.dtype == other.dtype && one.shape == other.shape &&
           one.begin == other.begin && one.end == other.end;
  };
  return a.metadata == b.metadata && std::ranges::equal(a.tensors, b.tensors, same);
}

// Every byte that a caller could touch.
void touch(const SafetensorsFile& file) {
  for (const TensorInfo& tensor : file.tensors()) {
    const auto bytes = file.bytes(tensor.name);
    require(xxh3_64(bytes) == xxh3_64(bytes), "bytes that change");
    if (is_convertible(tensor.dtype)) to_floats(tensor.dtype, bytes);
  }
}

void read_safetensors(Bytes bytes) {
  const auto path = put("model.safetensors", bytes);
  touch(SafetensorsFile::open(path));
}

// The quick reader may say nothing, but nothing else than the thorough one says.
void read_header(Bytes bytes) {
  const auto plain = scan_plain_header(text_of(bytes));
  if (!plain) return static_cast<void>(read_safetensors_header(text_of(bytes), "header"));
  try {
    require(equal(*plain, read_safetensors_header(text_of(bytes), "header")),
            "the two readers of headers differ");
  } catch (const Error& error) {
    require(error.diagnosis().what.find("twice") != std::string::npos,
            "the quick reader of headers takes what the thorough one refuses");
    throw;
  }
}

// Two shards stand there already.
void read_index(Bytes bytes) {
  for (const char* name :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    if (fs::exists(folder() / name)) continue;
    SafetensorsWriter writer(folder() / name, {{name[10] == '1' ? "a" : "b", DType::u8, {2}}});
    writer.write(name[10] == '1' ? "a" : "b", std::as_bytes(std::span("xy", 2)));
    writer.finish();
  }
  const auto files = ModelFiles::open(put("model.safetensors.index.json", bytes));
  for (const SafetensorsFile& file : files.files()) touch(file);
}

void read_config(Bytes bytes) {
  const ModelConfig config = parse_model_config(std::string(text_of(bytes)), "config.json");
  const std::string written = to_config_json(config);
  try {
    require(to_config_json(parse_model_config(written, "written")) == written,
            "what is written is read as something else");
  } catch (const Error&) {
    require(false, "what is written is refused");
  }
  if (config.num_hidden_layers * (config.experts.count + 1) < 1000) parameter_table(config);
}

void read_tokenizer(Bytes bytes) {
  const auto tokenizer = open_tokenizer(put("tokenizer.json", bytes));
  const std::string text = " A \xc3\xa9\xf0\x9f\x98\x80 b1\n\n  c<|x|></s>\xff'll 12345";
  const auto ids = tokenizer->encode(text);
  for (const std::int64_t id : ids) require(id >= 0 && id < tokenizer->vocab_size(), "a wild id");
  tokenizer->decode(ids);
  for (const std::int64_t id : ids) tokenizer->text_of(id);
}

void read_manifest_of(Bytes bytes) {
  put("file", std::span(reinterpret_cast<const std::uint8_t*>("xy"), 2));
  put("MANIFEST.json", bytes);
  const auto read = read_manifest(folder());
  require(read.manifest.has_value() != !read.fault.empty(), "neither a manifest nor a fault");
  if (!read.manifest) fail({.what = read.fault});
  if (const auto fault = compare_with_manifest(folder(), *read.manifest, true)) {
    fail({.what = *fault});
  }
}

// A folder of its own: a manifest beside it would have to be of its step.
const fs::path& trainer_folder() {
  static const fs::path made = [] {
    fs::create_directories(folder() / "checkpoint" / "trainer");
    return fs::path("checkpoint") / "trainer";
  }();
  return made;
}

void read_state(Bytes bytes) {
  put(trainer_folder() / "state.json", bytes);
  const TrainingState state = read_training_state(folder() / "checkpoint");
  require(state.step >= 0 && state.batch() == state.data.step, "a step that is not the data's");
  const std::string written = to_json(state);
  put(trainer_folder() / "state.json",
      std::span(reinterpret_cast<const std::uint8_t*>(written.data()), written.size()));
  require(to_json(read_training_state(folder() / "checkpoint")) == written,
          "what is written is read as something else");
}

void read_moments(Bytes bytes) {
  put(trainer_folder() / "optimizer.safetensors", bytes);
  touch(open_moments(folder() / "checkpoint"));
}

void read_run(Bytes bytes) { to_toml(read_run_config(put("config.toml", bytes), {})); }

void read_metrics(Bytes bytes) {
  put("metrics.jsonl", bytes);
  read_spike_entries(folder());
  read_step_series(folder());
}

void read_shard(Bytes bytes) {
  const auto path = put("data.tokens", bytes);
  std::uint64_t hash = 0;
  if (bytes.size() >= 32) std::copy_n(bytes.data() + 24, 8, reinterpret_cast<std::uint8_t*>(&hash));
  const TokenShard shard = TokenShard::open(path, hash);
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < shard.documents(); ++i) {
    require(shard.document_begin(i) == end && shard.document_end(i) > end, "documents overlap");
    end = shard.document_end(i);
    require(shard.prompt_tokens(i) <= end - shard.document_begin(i),
            "a prompt beyond its document");
  }
  require(end == shard.tokens(), "documents and tokens differ");
  shard.check_all_ids();
  shard.check_checksum();
}

void read_documents(Bytes bytes, const std::string& name, FileFormat format,
                    const DocumentKeys& keys) {
  const auto path = put(name, bytes);
  TextSource source;
  source.documents.push_back({.relative_path = name,
                              .file = path,
                              .size = bytes.size(),
                              .contents = {},
                              .format = format});
  CorpusOptions options{
      .text = {}, .tokenizer = nullptr, .cache_dir = {}, .expected_fingerprint = {}};
  options.keys = keys;
  options.raw_type = "uint16";
  const auto reader = open_file_reader(source, 0, options);
  bool more = true;
  while (more) {
    Unit unit;
    more = reader->read(unit);
    for (const Piece& piece : unit.pieces) {
      const auto line =
          parse_line(std::string_view(unit.text).substr(piece.begin, piece.size), keys);
      if (const auto* fault = std::get_if<LineFault>(&line)) fail({.what = fault->what});
    }
  }
}

constexpr FileFormat lines{FileContent::lines, Compression::none};

void read_lines(Bytes bytes) { read_documents(bytes, "data.jsonl", lines, {}); }
void read_prompts(Bytes bytes) {
  read_documents(bytes, "prompts.jsonl", lines, {.text = "", .prompt = "p", .answer = "a"});
}
void read_gzip(Bytes bytes) {
  read_documents(bytes, "data.jsonl.gz", {FileContent::lines, Compression::gzip}, {});
}
void read_zstd(Bytes bytes) {
  read_documents(bytes, "data.jsonl.zst", {FileContent::lines, Compression::zstd}, {});
}

template <void (*read)(Bytes)>
bool accepts(Bytes bytes) {
  try {
    read(bytes);
    return true;
  } catch (const Error& error) {
    require(*error.what() != '\0', "an error without words");
    return false;
  }
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all{{"safetensors", accepts<read_safetensors>},
                                       {"header", accepts<read_header>},
                                       {"index", accepts<read_index>},
                                       {"config", accepts<read_config>},
                                       {"tokenizer", accepts<read_tokenizer>},
                                       {"manifest", accepts<read_manifest_of>},
                                       {"state", accepts<read_state>},
                                       {"moments", accepts<read_moments>},
                                       {"run", accepts<read_run>},
                                       {"metrics", accepts<read_metrics>},
                                       {"shard", accepts<read_shard>},
                                       {"lines", accepts<read_lines>},
                                       {"prompts", accepts<read_prompts>},
                                       {"gzip", accepts<read_gzip>},
                                       {"zstd", accepts<read_zstd>}};
  return all;
}

const Target* find_target(const std::string& name) {
  const auto found = std::ranges::find(targets(), name, &Target::name);
  return found == targets().end() ? nullptr : &*found;
}

}  // namespace kha::fuzz

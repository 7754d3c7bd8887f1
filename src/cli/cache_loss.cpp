#include "cli/cache_loss.h"

#include <fmt/format.h>

#include <cmath>

namespace kha::cli {
namespace {

std::string name_of(KvCacheKind kind, at::ScalarType dtype) {
  if (kind == KvCacheKind::int8) return "int8 with a float32 scale a head";
  return dtype == at::kBFloat16 ? "bfloat16" : "float32";
}

struct Difference {
  Interval a_token, a_byte;  // nats
  double perplexity_ratio;
};

Difference difference_of(const CacheLoss& arm, const CacheLoss& reference) {
  const Evaluation& e = arm.evaluation;
  const Interval nats = interval_over_documents(e.documents, reference.evaluation.documents);
  const double share = static_cast<double>(e.targets) / static_cast<double>(e.bytes);
  return {nats,
          {nats.mean * share, nats.low * share, nats.high * share},
          e.perplexity() / reference.evaluation.perplexity()};
}

double nats_a_byte(const Evaluation& e) { return e.nats / static_cast<double>(e.bytes); }

nlohmann::ordered_json bounds(const Interval& interval) {
  // One document has no interval, and JSON no infinity.
  if (!std::isfinite(interval.low)) return nullptr;
  return {interval.low, interval.high};
}

std::string interval_text(const Interval& interval) {
  if (!std::isfinite(interval.low)) return "no interval: one document";
  return fmt::format("[{:+.6f}, {:+.6f}]", interval.low, interval.high);
}

}  // namespace

std::vector<CacheLoss> cache_losses(const ModelConfig& config, KvCacheKind kind,
                                    at::ScalarType dtype,
                                    const std::function<Evaluation(KvCacheKind)>& evaluate) {
  std::vector<KvCacheKind> kinds{KvCacheKind::model};
  if (kind != KvCacheKind::model) kinds.push_back(kind);
  std::vector<CacheLoss> losses;
  for (const KvCacheKind each : kinds) {
    const auto element = static_cast<int64_t>(c10::elementSize(dtype));
    losses.push_back(
        {name_of(each, dtype), cache_bytes_per_token(config, each, element), evaluate(each)});
  }
  return losses;
}

nlohmann::ordered_json cache_json(const std::vector<CacheLoss>& losses) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CacheLoss& each : losses) {
    rows.push_back({{"numbers", each.numbers},
                    {"bytes_a_token", each.bytes_per_token},
                    {"loss", each.evaluation.loss()},
                    {"nats_a_byte", nats_a_byte(each.evaluation)},
                    {"perplexity", each.evaluation.perplexity()},
                    {"bits_per_byte", each.evaluation.bits_per_byte()}});
  }
  nlohmann::ordered_json json{{"caches", rows}};
  if (losses.size() < 2) return json;
  const Difference d = difference_of(losses.back(), losses.front());
  json["difference"] = {{"nats_a_token", d.a_token.mean},
                        {"nats_a_token_95", bounds(d.a_token)},
                        {"nats_a_byte", d.a_byte.mean},
                        {"nats_a_byte_95", bounds(d.a_byte)},
                        {"perplexity_ratio", d.perplexity_ratio}};
  return json;
}

std::string cache_table(const std::vector<CacheLoss>& losses) {
  std::string text =
      fmt::format("{:<34}{:>14}{:>14}{:>13}{:>13}{:>13}\n", "KV cache in", "bytes a token",
                  "nats a token", "nats a byte", "perplexity", "bits a byte");
  for (const CacheLoss& each : losses) {
    const Evaluation& e = each.evaluation;
    text += fmt::format("{:<34}{:>14}{:>14.6f}{:>13.6f}{:>13.4f}{:>13.6f}\n", each.numbers,
                        each.bytes_per_token, e.loss(), nats_a_byte(e), e.perplexity(),
                        e.bits_per_byte());
  }
  if (losses.size() < 2) return text;
  const Difference d = difference_of(losses.back(), losses.front());
  return text + fmt::format(
                    "difference {:+.6f} nats a token {}, {:+.6f} nats a byte {} (95 % over "
                    "documents); perplexity times {:.6f}\n",
                    d.a_token.mean, interval_text(d.a_token), d.a_byte.mean,
                    interval_text(d.a_byte), d.perplexity_ratio);
}

}  // namespace kha::cli

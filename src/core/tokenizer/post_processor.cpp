#include "core/tokenizer/post_processor.h"

namespace kha {
namespace {

void add_template(const JsonField& field, TokensAround& around) {
  const JsonField parts = field.at("single");
  bool behind = false;
  for (std::size_t i = 0; i < parts.array().size(); ++i) {
    const JsonField part = parts.at(i);
    if (!part.object().at("Sequence").is_null()) {
      if (behind) part.refuse("the text stands twice in the template", "one Sequence");
      behind = true;
      continue;
    }
    const std::string name = part.at("SpecialToken").object().at("id").text();
    const JsonField ids = field.at("special_tokens").object().at(name).object().at("ids");
    for (std::size_t k = 0; k < ids.array().size(); ++k) {
      (behind ? around.behind : around.before).push_back(ids.at(k).number());
    }
  }
  if (!behind) parts.refuse("the text is not in the template", "a Sequence");
}

void add(const JsonField& field, TokensAround& around) {
  const std::string type = field.type();
  if (type == "Sequence") {
    const JsonField list = field.at("processors");
    for (std::size_t i = 0; i < list.array().size(); ++i) add(list.at(i), around);
  } else if (type == "TemplateProcessing") {
    // A later template stands around an earlier one.
    TokensAround outer;
    add_template(field, outer);
    around.before.insert(around.before.begin(), outer.before.begin(), outer.before.end());
    around.behind.insert(around.behind.end(), outer.behind.begin(), outer.behind.end());
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    const auto id_of = [&](const char* key) { return field.at(key).array().at(1).number(); };
    around.before.insert(around.before.begin(), id_of("cls"));
    around.behind.push_back(id_of("sep"));
  } else if (type != "ByteLevel") {  // which moves offsets and no ids
    field.refuse("this post_processor is not read here",
                 "TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing, or a Sequence "
                 "of these");
  }
}

}  // namespace

TokensAround tokens_around(const JsonField& field) {
  TokensAround around;
  if (!field.is_null()) add(field, around);
  return around;
}

}  // namespace kha

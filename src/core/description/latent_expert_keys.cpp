// The experts of DeepSeek's models: V3's sigmoid router and V2's softmax router.
#include "core/description/expert_keys.h"
#include "core/description/expert_sizes.h"
#include "core/description/supported_value.h"

namespace kha {
namespace {

void read_deepseek_v3(ObjectReader& in, ExpertConfig& e) {
  e.router = "sigmoid";
  e.shared = 1;  // here and below: the class defaults
  e.scaling = 2.5;
  e.groups = 8;
  e.open_groups = 4;
  read_groups(in, e);
  require_text(in, "scoring_func", "sigmoid");
  require_text(in, "topk_method", "noaux_tc");
  in.read("norm_topk_prob", e.normalise);
}

// The class scales the weights and never normalises them; DeepSeek's own code does one or the
// other.
void read_deepseek_v2(ObjectReader& in, ExpertConfig& e) {
  e.router = "softmax";
  e.shared = 2;
  e.normalise = false;
  std::string method = "greedy";
  in.read("topk_method", method);
  if (method != "greedy" && method != "group_limited_greedy") {
    in.refuse("`topk_method` is not supported with this value", "greedy or group_limited_greedy",
              method);
  }
  if (method == "greedy") {
    in.ignore({"n_group", "topk_group"});
  } else {
    read_groups(in, e);
  }
  require_text(in, "scoring_func", "softmax");
  in.read("norm_topk_prob", e.normalise);
  if (!e.normalise) return;
  in.refuse(
      "normalised weights are not supported in this class: transformers leaves the key unread",
      "norm_topk_prob false", "true");
}

// All layers are dense: what is said of experts is said of none.
void ignore_experts(ObjectReader& in) {
  in.ignore({"moe_intermediate_size", "n_routed_experts", "num_local_experts", "num_experts",
             "n_shared_experts", "num_experts_per_tok", "n_group", "topk_group", "topk_method",
             "scoring_func", "norm_topk_prob", "routed_scaling_factor"});
}

}  // namespace

void read_latent_experts(ObjectReader& in, const std::string& type, ModelConfig& c) {
  ExpertConfig e;
  e.first_dense = type == "deepseek_v3" ? 3 : 0;  // the class defaults
  in.read("first_k_dense_replace", e.first_dense);
  in.ignore({"moe_layer_freq", "aux_loss_alpha", "seq_aux", "output_router_logits",
             "num_nextn_predict_layers", "num_mtp_layers", "ep_size"});
  if (e.first_dense >= c.num_hidden_layers) return ignore_experts(in);
  require_value(in, "moe_layer_freq", 1, 1);
  read_one_of(in, {"n_routed_experts", "num_local_experts", "num_experts"}, e.count);
  read_one_of(in, {"num_experts_per_tok"}, e.active);
  read_one_of(in, {"moe_intermediate_size"}, e.width);
  if (type == "deepseek_v3") {
    read_deepseek_v3(in, e);
  } else {
    read_deepseek_v2(in, e);
  }
  in.read("n_shared_experts", e.shared);
  in.read("routed_scaling_factor", e.scaling);
  c.experts = e;
}

}  // namespace kha

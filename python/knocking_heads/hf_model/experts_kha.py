"""The mixture of experts of a kha model: router, routed experts, shared experts."""

import torch
from torch import nn

from .layers_kha import KhaFeedForward, wide

SMALLEST_SUM = 1e-20  # scores that are all zero are not divided by zero


class KhaRouter(nn.Module):
    """Which experts a token passes, and with which weights.

    Scores are sigmoid(z) or softmax(z) in float32. Chosen are the largest of score + bias (sigmoid
    alone has a bias, which balancing moves), within the token's best groups where experts stand in
    groups; weights are the scores of the chosen, divided by their sum where they are normalised,
    times the scaling.
    """

    def __init__(self, width, experts):
        super().__init__()
        self.experts = experts
        self.weight = nn.Parameter(torch.empty(experts["count"], width))
        if experts["sigmoid"]:
            bias = torch.zeros(experts["count"], dtype=torch.float32)
            self.register_buffer("e_score_correction_bias", bias)

    def forward(self, x):
        """x: [N, d] -> experts [N, k] int64, the best first, and weights [N, k] float32."""
        kind = wide(x.dtype)
        logits = nn.functional.linear(x.to(kind), self.weight.to(kind))
        seen = logits.detach()
        if self.experts["sigmoid"]:
            scores = logits.sigmoid()
            seen = seen.sigmoid() + self.e_score_correction_bias
        else:
            scores = logits.softmax(-1)
        if self.experts["groups"] > 1:
            seen = self.within_groups(seen)
        chosen = largest_columns(seen, self.experts["active"])
        weights = scores.gather(1, chosen)
        if self.experts["normalise"]:
            weights = weights / (weights.sum(-1, keepdim=True) + SMALLEST_SUM)
        return chosen, weights * self.experts["scaling"]


    def within_groups(self, scores):
        """-inf outside a token's best groups: those of the largest score, or (sigmoid) of the
        largest sum of two (arXiv 2412.19437, section 2.1.2)."""
        grouped = scores.unflatten(1, (self.experts["groups"], -1))
        best = grouped.topk(2, dim=2).values.sum(2) if self.experts["sigmoid"] else grouped.amax(2)
        closed = torch.ones_like(best, dtype=torch.bool)
        closed = closed.scatter(1, largest_columns(best, self.experts["open_groups"]), False)
        return grouped.masked_fill(closed.unsqueeze(2), -torch.inf).flatten(1)


def largest_columns(values, count):
    """Of each row the columns of its largest values; of equal ones the lower, on every device."""
    order = torch.sort(values, dim=-1, descending=True, stable=True).indices
    return order[:, :count].contiguous()


class KhaExperts(nn.ModuleList):
    """The routed experts; each sees the tokens that chose it."""

    def __init__(self, width, experts):
        super().__init__(KhaFeedForward(width, experts["width"]) for _ in range(experts["count"]))

    def forward(self, hidden_states, top_k_index, top_k_weights):
        total = torch.zeros_like(hidden_states, dtype=wide(hidden_states.dtype))
        for number in top_k_index.unique().tolist():
            tokens, places = torch.where(top_k_index == number)
            made = self[number](hidden_states[tokens])
            total = total.index_add(
                0, tokens, made.to(total.dtype) * top_k_weights[tokens, places, None]
            )
        return total.to(hidden_states.dtype)


class KhaMixture(nn.Module):
    """In the feed-forward's place: routed experts, and shared ones that every token passes."""

    def __init__(self, width, experts):
        super().__init__()
        self.gate = KhaRouter(width, experts)
        self.experts = KhaExperts(width, experts)
        if experts["shared"]:
            self.shared_experts = KhaFeedForward(width, experts["shared"] * experts["width"])
        else:
            self.shared_experts = None

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        y = self.experts(tokens, *self.gate(tokens)).view_as(x)
        return y if self.shared_experts is None else y + self.shared_experts(x)
